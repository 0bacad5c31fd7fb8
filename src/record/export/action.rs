//! The file that github-action-benchmark reads with `tool: customSmallerIsBetter` or `customBiggerIsBetter`: a list of
//! `{name, unit, value, range, extra}`. It holds figures of one direction only, so there are two files.

use serde::Serialize;

use super::{Entry, ExportError, Figure, Measure, Sheet, all_differ, number, server_text};
use crate::compare::Direction;

/// Which figures a file for github-action-benchmark holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Wanted {
    /// For customSmallerIsBetter: times, CPU, allocations, memory
    #[default]
    Smaller,
    /// For customBiggerIsBetter: rates, commands per server read
    Bigger,
}

impl Wanted {
    fn holds(self, measure: Measure) -> bool {
        (measure.better() == Direction::More) == (self == Self::Bigger)
    }
}

#[derive(Serialize)]
struct Item {
    name: String,
    unit: &'static str,
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<String>,
    extra: String,
}

pub(super) fn text(sheets: &[Sheet], wanted: Wanted) -> Result<String, ExportError> {
    let mut items = Vec::new();
    let mut names = Vec::new();
    for sheet in sheets {
        for entry in sheet.entries.iter().filter(|entry| !entry.control) {
            for figure in entry.figures.iter().filter(|figure| wanted.holds(figure.measure)) {
                let name = format!("{} - {}", entry.name, figure.measure.name());
                names.push((name.clone(), sheet.record.as_str()));
                items.push(Item { name, unit: figure.unit, value: figure.value, range: range(figure), extra: extra(sheet, entry, figure) });
            }
        }
    }
    if items.is_empty() {
        // The action takes an empty list for a broken file.
        return Err(ExportError::Nothing(" of this direction; take --better bigger or smaller".to_owned()));
    }
    all_differ(names)?;
    let text = serde_json::to_string_pretty(&items).map_err(|error| ExportError::Write(error.to_string()))?;
    Ok(text + "\n")
}

/// How far the farthest single run is from the value.
fn range(figure: &Figure) -> Option<String> {
    let (low, high) = figure.range()?;
    Some(format!("± {}", number((figure.value - low).max(high - figure.value))))
}

/// What is shown beside a point of the chart.
fn extra(sheet: &Sheet, entry: &Entry, figure: &Figure) -> String {
    let mut lines = vec![format!("{} {}", entry.client, entry.client_version)];
    lines.extend(sheet.targets.get(entry.target).map(server_text));
    lines.push(format!("machine {}", sheet.machine.id));
    if figure.samples.len() > 1 {
        lines.push(format!("{} runs", figure.samples.len()));
    }
    lines.extend(entry.marks.iter().cloned());
    lines.join("\n")
}
