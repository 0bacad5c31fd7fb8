//! Records of the benches `publish` and `subscribe`. An operation is a message.

use super::super::sheet::{Figure, Measure, Name, Sheet};
use super::{Facts, Head, client, pairs};
use crate::record::pubsub::{Ran, Record};

pub(super) fn sheet(path: &str, record: &Record) -> Sheet {
    let made_by = format!("bench {}", record.bench);
    let head = Head {
        path,
        created: &record.created,
        made_by: &made_by,
        complete: record.complete,
        environment: &record.environment,
        targets: &record.targets,
        warnings: &record.warnings,
    };
    let mut sheet = head.sheet();
    for row in &record.rows {
        let figures = match &row.ran {
            Ran::Measured(figures) => figures,
            Ran::Verified => {
                sheet.leave_out(&row.name, "verified only, not timed");
                continue;
            }
            Ran::Failed { reason } => {
                sheet.leave_out(&row.name, format!("failed: {reason}"));
                continue;
            }
            Ran::Unsupported { reason } => {
                sheet.unsupported(&row.name, reason);
                continue;
            }
        };
        if figures.messages == 0 || figures.elapsed_ns == 0 {
            sheet.leave_out(&row.name, "no message, or no time");
            continue;
        }
        let mut parts = row.name.splitn(3, '/');
        let (workload, _, parameters) =
            (parts.next().unwrap_or_default(), parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let name = Name { workload: workload.into(), driver: row.driver.clone(), parameters: pairs(parameters, "mode") };
        let whole = |measure, value| Figure::new(measure, value, Vec::new());
        let list = vec![
            whole(Measure::TimePerOp, figures.ns_per_message()),
            whole(Measure::Rate, 1e9 / figures.ns_per_message()),
            whole(Measure::ClientCpu, figures.per_message(figures.client_ns)),
            whole(Measure::ServerCpu, figures.per_message(figures.server_ns)),
            (figures.reads > 0)
                .then(|| figures.commands as f64 / figures.reads as f64)
                .and_then(|depth| whole(Measure::CommandsPerRead, depth)),
        ];
        let facts = Facts { operations: vec![figures.messages], ..Facts::default() };
        sheet.push(name, client(&row.client), facts, list);
    }
    sheet
}
