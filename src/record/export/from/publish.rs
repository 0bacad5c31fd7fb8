//! Records of `rcb publish`: a driver and mode is a cell, a round a single run. An operation is a message.

use std::slice;

use super::super::sheet::{Figure, Measure, Name, Sheet};
use super::{Facts, Head, Parameters, client};
use crate::drivers::{Profile, Resp};
use crate::record::publish::{PublishRecord, PublishRow, Ran};
use crate::workload::pubsub::burst::{Burst, Mode};

pub(super) fn sheet(path: &str, record: &PublishRecord) -> Sheet {
    let head = Head {
        path,
        created: &record.created,
        made_by: "rcb publish",
        complete: record.complete,
        environment: &record.environment,
        targets: slice::from_ref(&record.target),
        warnings: &record.warnings,
    };
    let mut sheet = head.sheet();
    let mut cells: Vec<(&PublishRow, Vec<&Burst>)> = Vec::new();
    for row in &record.rows {
        let run = format!("{}, round {}", name(record, row), row.round);
        let burst = match &row.result {
            Ran::Measured(burst) => burst,
            Ran::Failed { reason } => {
                sheet.leave_out(run, format!("failed: {reason}"));
                continue;
            }
            Ran::Unsupported { reason } => {
                sheet.unsupported(run, reason);
                continue;
            }
        };
        if let Some(reason) = unsound(burst) {
            sheet.leave_out(run, reason);
            continue;
        }
        match cells.iter_mut().find(|(first, _)| first.driver == row.driver && first.mode == row.mode) {
            Some((_, bursts)) => bursts.push(burst),
            None => cells.push((row, vec![burst])),
        }
    }
    for (row, bursts) in cells {
        let each = |measure, value: &dyn Fn(&Burst) -> Option<f64>| {
            let values: Vec<f64> = bursts.iter().filter_map(|burst| value(burst)).collect();
            (values.len() == bursts.len()).then_some(values).and_then(|values| Figure::median(measure, values))
        };
        let figures = vec![
            each(Measure::TimePerOp, &|burst| Some(1e9 / burst.rate())),
            each(Measure::Rate, &|burst| Some(burst.rate())),
            each(Measure::ClientCpu, &|burst| Some(burst.client_ns_per_message())),
            each(Measure::ServerCpu, &|burst| Some(burst.server_cpu_s * 1e9 / burst.messages as f64)),
            each(Measure::CommandsPerRead, &|burst| burst.commands_per_read),
        ];
        let facts = Facts { operations: bursts.iter().map(|burst| burst.messages).collect(), ..Facts::default() };
        sheet.push(name(record, row), client(&row.client), facts, figures);
    }
    sheet
}

fn unsound(burst: &Burst) -> Option<String> {
    if let Some(deviation) = burst.audit.deviations.first() {
        return Some(format!("its audit failed: {deviation}"));
    }
    if burst.received != burst.messages {
        return Some(format!("{} messages were published and {} received", burst.messages, burst.received));
    }
    (burst.messages == 0 || burst.real_s <= 0.0).then(|| "no message, or no time".to_owned())
}

fn name(record: &PublishRecord, row: &PublishRow) -> Name {
    let mut parameters = Parameters::default();
    match row.mode {
        Mode::Serial => parameters.always("mode", "serial"),
        Mode::Batch { size } => parameters.always("batch", size),
        Mode::Concurrent { callers } => parameters.always("callers", callers),
        Mode::Windowed { callers, window_ns } => {
            parameters.always("window", format!("{}us", window_ns as f64 / 1e3));
            parameters.always("callers", callers);
        }
    }
    parameters.always("n", record.messages);
    parameters.differing("conns", record.connections, 1);
    parameters.differing("resp", u8::from(record.resp), u8::from(Resp::V2));
    parameters.differing("profile", record.profile, Profile::Tuned);
    let command = if record.sharded { "spublish" } else { "publish" };
    Name { workload: format!("{command}-{}B", record.data_size), driver: row.driver.clone(), parameters: parameters.0 }
}
