//! CSV (RFC 4180), in long form: one line for each figure, so that a reader needs no column for what was not measured.

use serde::Serialize;

use super::{ExportError, Sheet, server_text};
use crate::compare::Direction;

#[derive(Serialize)]
struct Line<'a> {
    record: &'a str,
    created: &'a str,
    made_by: &'a str,
    machine: &'a str,
    server: &'a str,
    workload: &'a str,
    driver: &'a str,
    client: &'a str,
    client_version: &'a str,
    parameters: &'a str,
    control: bool,
    measure: &'a str,
    unit: &'a str,
    better: &'a str,
    value: f64,
    lowest: Option<f64>,
    highest: Option<f64>,
    samples: usize,
    operations: u64,
    ratio: Option<f64>,
    ratio_low: Option<f64>,
    ratio_high: Option<f64>,
    verdict: Option<&'a str>,
    marks: &'a str,
}

pub(super) fn text(sheets: &[Sheet]) -> Result<String, ExportError> {
    let broken = |error: &dyn std::fmt::Display| ExportError::Write(error.to_string());
    let mut writer = csv::Writer::from_writer(Vec::new());
    for sheet in sheets {
        for entry in &sheet.entries {
            let server = sheet.targets.get(entry.target).map(server_text).unwrap_or_default();
            let (parameters, marks) = (entry.name.settings(), entry.marks.join("; "));
            for figure in &entry.figures {
                let (range, against) = (figure.range(), figure.against.as_ref());
                let line = Line {
                    record: &sheet.record,
                    created: &sheet.created,
                    made_by: &sheet.made_by,
                    machine: &sheet.machine.id,
                    server: &server,
                    workload: &entry.name.workload,
                    driver: &entry.name.driver,
                    client: &entry.client,
                    client_version: &entry.client_version,
                    parameters: &parameters,
                    control: entry.control,
                    measure: figure.measure.name(),
                    unit: figure.unit,
                    better: if figure.better == Direction::More { "more" } else { "less" },
                    value: figure.value,
                    lowest: range.map(|(low, _)| low),
                    highest: range.map(|(_, high)| high),
                    samples: figure.samples.len(),
                    operations: entry.operations.iter().sum(),
                    ratio: against.map(|against| against.ratio),
                    ratio_low: against.map(|against| against.low),
                    ratio_high: against.map(|against| against.high),
                    verdict: against.map(|against| against.verdict),
                    marks: &marks,
                };
                writer.serialize(line).map_err(|error| broken(&error))?;
            }
        }
    }
    let bytes = writer.into_inner().map_err(|error| broken(&error))?;
    String::from_utf8(bytes).map_err(|error| broken(&error))
}
