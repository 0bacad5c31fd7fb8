//! Bencher Metric Format: `{benchmark: {measure: {value, lower_value, upper_value}}}`, by <https://bencher.dev/bmf.json>.
//!
//! `throughput` is Bencher's own measure in operations per second. The time per operation is the same once more and left out. The
//! lower and upper value are the smallest and the largest single run.

use serde_json::{Map, Value, json};

use super::{Entry, ExportError, Figure, Measure, Sheet, all_differ};

/// What Bencher takes of a name.
const LONGEST_NAME: usize = 1024;

pub(super) fn text(sheets: &[Sheet]) -> Result<String, ExportError> {
    let entries = || sheets.iter().flat_map(|sheet| sheet.entries.iter().filter(|entry| !entry.control).map(move |entry| (sheet, entry)));
    all_differ(entries().map(|(sheet, entry)| (name(entry), sheet.record.as_str())))?;
    let mut benchmarks = Map::new();
    for (_, entry) in entries() {
        let measures: Map<String, Value> = entry
            .figures
            .iter()
            .filter(|figure| figure.measure != Measure::TimePerOp)
            .map(|figure| (slug(figure.measure).to_owned(), metric(figure)))
            .collect();
        benchmarks.insert(name(entry), Value::Object(measures));
    }
    let text = serde_json::to_string_pretty(&benchmarks).map_err(|error| ExportError::Write(error.to_string()))?;
    Ok(text + "\n")
}

fn name(entry: &Entry) -> String {
    let name = entry.name.to_string();
    name.chars().take(LONGEST_NAME).collect()
}

/// The measure's name there; at most 64 letters.
fn slug(measure: Measure) -> &'static str {
    match measure {
        Measure::Rate => "throughput",
        Measure::P50 => "latency-p50",
        Measure::P99 => "latency-p99",
        other => other.name(),
    }
}

fn metric(figure: &Figure) -> Value {
    match figure.range() {
        Some((low, high)) => json!({"value": figure.value, "lower_value": low, "upper_value": high}),
        None => json!({"value": figure.value}),
    }
}
