//! Records of the benches `pipeline_window`, `commands` and `client_cache`.

use super::super::sheet::{Figure, Measure, Name, Sheet};
use super::{Facts, Head, pairs};
use crate::record::{Measurement, Outcome, Record, Row};

pub(super) fn sheet(path: &str, record: &Record) -> Sheet {
    let head = Head {
        path,
        created: &record.created,
        made_by: &record.made_by,
        complete: record.complete,
        environment: &record.environment,
        targets: &record.targets,
        warnings: &record.warnings,
    };
    let mut sheet = head.sheet();
    for row in &record.rows {
        match &row.outcome {
            Outcome::Measured(measurement) => measured(&mut sheet, record, row, measurement),
            Outcome::Failed { reason } => sheet.leave_out(&row.name, format!("failed: {reason}")),
            Outcome::Unsupported { reason } => sheet.unsupported(&row.name, reason),
            Outcome::Verified => sheet.leave_out(&row.name, "verified only, not timed"),
        }
    }
    sheet
}

fn measured(sheet: &mut Sheet, record: &Record, row: &Row, measurement: &Measurement) {
    let cell = &row.cell;
    let name = Name { workload: cell.workload_name(), driver: cell.driver.clone(), parameters: pairs(&cell.parameters(), "mode") };
    if let Some(deviation) = measurement.audit.deviations.first() {
        return sheet.leave_out(name, format!("its audit failed: {deviation}"));
    }
    let samples = &measurement.samples;
    if samples.is_empty() || samples.iter().any(|sample| sample.operations == 0 || sample.elapsed_ns == 0) {
        return sheet.leave_out(name, "a sample has no operations, or took no time");
    }
    let each = |value: fn(f64, f64) -> f64| {
        samples.iter().map(|sample| value(sample.operations as f64, sample.elapsed_ns as f64)).collect::<Vec<f64>>()
    };
    // CPU, allocations and reads were counted over all samples together.
    let whole = |measure: Measure, value: Option<f64>| value.and_then(|value| Figure::new(measure, value, Vec::new()));
    let figures = vec![
        Figure::new(Measure::TimePerOp, measurement.ns_per_op(), each(|operations, elapsed| elapsed / operations)),
        Figure::new(Measure::Rate, measurement.ops_per_second(), each(|operations, elapsed| operations * 1e9 / elapsed)),
        whole(Measure::ClientCpu, Some(measurement.client_cpu_per_op())),
        whole(Measure::ServerCpu, Some(measurement.server_cpu_per_op())),
        whole(Measure::Allocations, measurement.allocs_per_op()),
        whole(Measure::AllocatedBytes, measurement.bytes_per_op()),
        whole(Measure::CommandsPerRead, measurement.commands_per_read()),
        whole(Measure::PeakMemory, measurement.peak_memory.map(|bytes| bytes as f64)),
    ];
    let facts = Facts {
        target: record.targets.iter().position(|target| target.topology == cell.topology).unwrap_or_default(),
        workers: Some(cell.runtime.workers),
        operations: samples.iter().map(|sample| sample.operations).collect(),
        marks: measurement.marks.iter().map(ToString::to_string).collect(),
    };
    sheet.push(name, (&cell.client, &cell.client_version), facts, figures);
}
