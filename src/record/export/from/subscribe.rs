//! Records of `rcb subscribe`: a driver is a cell, a round a single run. An operation is a message received.

use std::slice;

use super::super::sheet::{Figure, Measure, Name, Sheet};
use super::{Facts, Head, Parameters, client};
use crate::drivers::{Kind, Profile, Resp};
use crate::record::subscribe::{Ran, SubscribeRecord, SubscribeRow};
use crate::workload::pubsub::outcome::Outcome;

pub(super) fn sheet(path: &str, record: &SubscribeRecord) -> Sheet {
    let head = Head {
        path,
        created: &record.created,
        made_by: "rcb subscribe",
        complete: record.complete,
        environment: &record.environment,
        targets: slice::from_ref(&record.target),
        warnings: &record.warnings,
    };
    let mut sheet = head.sheet();
    let mut cells: Vec<(&SubscribeRow, Vec<&Outcome>)> = Vec::new();
    for row in &record.rows {
        let run = format!("{}, round {}", name(record, row), row.round);
        match &row.result {
            Ran::Failed { reason } => sheet.leave_out(run, format!("failed: {reason}")),
            Ran::Measured(outcome) => match unsound(outcome) {
                Some(reason) => sheet.leave_out(run, reason),
                None => match cells.iter_mut().find(|(first, _)| first.driver == row.driver) {
                    Some((_, outcomes)) => outcomes.push(outcome),
                    None => cells.push((row, vec![outcome])),
                },
            },
        }
    }
    for (row, outcomes) in cells {
        let each = |measure, value: &dyn Fn(&Outcome) -> Option<f64>| {
            let values: Vec<f64> = outcomes.iter().filter_map(|outcome| value(outcome)).collect();
            (values.len() == outcomes.len()).then_some(values).and_then(|values| Figure::median(measure, values))
        };
        let figures = vec![
            each(Measure::TimePerOp, &|outcome| outcome.rate().filter(|rate| *rate > 0.0).map(|rate| 1e9 / rate)),
            each(Measure::Rate, &Outcome::rate),
            each(Measure::P50, &|outcome| outcome.latency.map(|latency| latency.p50_us * 1e3)),
            each(Measure::P99, &|outcome| outcome.latency.map(|latency| latency.p99_us * 1e3)),
            each(Measure::ClientCpu, &Outcome::client_ns_per_message),
            each(Measure::ServerCpu, &Outcome::server_ns_per_message),
        ];
        let facts = Facts { operations: outcomes.iter().map(|outcome| outcome.measured).collect(), ..Facts::default() };
        sheet.push(name(record, row), client(&row.client), facts, figures);
    }
    sheet
}

/// A rate with messages missing is no rate to hold others against.
fn unsound(outcome: &Outcome) -> Option<String> {
    if let Some(deviation) = outcome.deviations.first() {
        return Some(format!("unsound: {deviation}"));
    }
    if outcome.is_unsound() {
        let why = outcome.was_cut_off().unwrap_or_else(|| "messages came corrupt or twice".to_owned());
        return Some(format!("unsound: {why}"));
    }
    if outcome.is_lossy() {
        let dropped = outcome.tally.lost.max(outcome.strays.lagged);
        return Some(format!("lossy: {dropped} of {} messages did not arrive", outcome.tally.expected()));
    }
    if let Some(reason) = &outcome.ended_by {
        return Some(format!("ended by: {reason}"));
    }
    if outcome.measured == 0 {
        return Some("no message was received in the measured time".to_owned());
    }
    (!outcome.is_whole()).then(|| "no time was measured".to_owned())
}

fn name(record: &SubscribeRecord, row: &SubscribeRow) -> Name {
    let mut parameters = Parameters::default();
    parameters.always("channels", record.channels);
    parameters.always("subscribers", record.subscribers_per_channel);
    parameters.differing("together", record.channels_per_subscriber, 1);
    parameters.always("publishers", record.publishers);
    parameters.always("batch", record.publish_batch);
    if let Some(rate) = record.publish_rps {
        parameters.always("rps", rate);
    }
    parameters.differing("delay", format!("{}s", record.subscriber_delay_s), "0s");
    if let Some(interval) = record.churn_interval_s {
        parameters.always("churn", format!("{interval}s"));
    }
    parameters.differing("distribute", record.distribute_subscribers, false);
    parameters.differing("resp", u8::from(record.resp), u8::from(Resp::V2));
    parameters.differing("profile", record.profile, Profile::Tuned);
    let command = match record.mode {
        Kind::Channel => "subscribe",
        Kind::Pattern => "psubscribe",
        Kind::Sharded => "ssubscribe",
    };
    Name { workload: format!("{command}-{}B", record.data_size), driver: row.driver.clone(), parameters: parameters.0 }
}
