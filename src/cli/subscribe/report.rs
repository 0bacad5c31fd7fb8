//! The per-second table, the summary, and the table over several drivers.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};

use super::{Ran, Row};
use crate::drivers::Descriptor;
use crate::workload::pubsub::outcome::{Outcome, Phase, Tick};
use crate::workload::pubsub::plan::Plan;

const RULE: &str = "#################################################";

/// What is known when all subscriptions are confirmed, and the head of the per-second table.
pub fn ready(driver: &Descriptor, outcome: &Outcome) -> String {
    let nodes: Vec<String> = outcome.per_node.iter().map(|node| node.subscriptions.to_string()).collect();
    let Outcome { subscriptions, subscribers, opening_s, .. } = outcome;
    let mut text = format!(
        "\n{}: {} ({})\nTotal subscriptions: {subscriptions} on {subscribers} subscribers, confirmed after {opening_s:.3} s. Subscriptions per \
         node: {}\n",
        driver.name,
        driver.client_version(),
        driver.pubsub.way,
        nodes.join(" ")
    );
    let _ = write!(
        text,
        "{:>10} {:>16} {:>16} {:>14} {:>14} {:>12} {:>10} {:>10}",
        "Test Time", "Total Messages", "Message Rate", "Subscriptions", "Published/s", "Backlog", "p50 ms", "p99 ms"
    );
    text
}

/// A line of the per-second table.
pub fn tick(tick: &Tick) -> String {
    let millis = |pick: fn(&crate::workload::pubsub::live::Percentiles) -> f64| {
        tick.latency.as_ref().map_or_else(|| "–".to_owned(), |latency| format!("{:.3}", pick(latency) / 1e3))
    };
    format!(
        "{:>10.3} {:>16} {:>16.2} {:>14} {:>14.2} {:>12} {:>10} {:>10}{}",
        tick.at_s,
        tick.total,
        tick.rate(),
        tick.active,
        tick.published as f64 / tick.length_s.max(f64::MIN_POSITIVE),
        tick.backlog.map_or_else(|| "–".to_owned(), |backlog| backlog.to_string()),
        millis(|latency| latency.p50_us),
        millis(|latency| latency.p99_us),
        match tick.phase {
            Phase::WarmUp => "  warm-up",
            Phase::Measured => "",
            Phase::Drain => "  drain",
        }
    )
}

/// What one driver gave.
pub fn summary(row: &Row, plan: &Plan) -> String {
    let mut text = format!("{RULE}\n{} ({})\n", row.driver, row.client);
    match &row.result {
        Ran::Failed { reason } => {
            let _ = writeln!(text, "FAILED: {reason}");
        }
        Ran::Measured(outcome) => lines(&mut text, row, outcome, plan),
    }
    text + RULE
}

fn lines(text: &mut String, row: &Row, outcome: &Outcome, plan: &Plan) {
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name} {value}");
    };
    let tally = &outcome.tally;
    if !plan.publish_only {
        line("Total Subscriptions", format!("{} on {} subscribers", outcome.subscriptions, outcome.subscribers));
        let nodes = outcome.per_node.iter().map(|node| format!("{} {}", node.node, node.subscriptions)).collect::<Vec<_>>();
        line("Subscriptions per Node", nodes.join(", "));
        let each = |bytes: u64| format!("{:.1} KiB", bytes as f64 / 1024.0 / outcome.subscriptions.max(1) as f64);
        let memory = [("server", outcome.server_memory), ("client", outcome.client_memory)];
        let memory: Vec<String> = memory.iter().filter_map(|(side, bytes)| bytes.map(|bytes| format!("{side} {}", each(bytes)))).collect();
        line("Memory per Subscription", memory.join(", "));
    }
    line("Total Duration", format!("{:.6} Seconds", outcome.duration_s));
    if !plan.publish_only {
        line("Message Rate", format!("{:.6}", outcome.rate()));
    }
    if plan.publishers > 0 {
        line("Publish Rate", format!("{:.6}", outcome.publish_rate()));
    }
    if plan.publishers > 0 {
        line("Messages Published", format!("{}, {} of them without an answer", outcome.begun, outcome.unanswered));
    }
    if !plan.publish_only {
        account(&mut line, outcome, plan);
    }
    if let Some(latency) = &outcome.latency {
        let millis = |micros: f64| micros / 1e3;
        line(
            "Latency",
            format!(
                "publish to receive, ms: mean {:.3}, p50 {:.3}, p95 {:.3}, p99 {:.3}, p99.9 {:.3}, max {:.3}",
                millis(latency.mean_us),
                millis(latency.p50_us),
                millis(latency.p95_us),
                millis(latency.p99_us),
                millis(latency.p999_us),
                millis(latency.max_us)
            ),
        );
    }
    if let Some(behind) = outcome.behind_s {
        line("Publishers Behind", format!("{:.3} ms at the most", behind * 1e3));
    }
    if let Some(ns) = outcome.client_ns_per_message() {
        let publishers = if plan.publishers > 0 { ", publishers included" } else { "" };
        line("Client CPU", format!("{:.3} µs per message{publishers}", ns / 1e3));
    }
    if let (Some(server), Some(ns)) = (&outcome.server, outcome.server_ns_per_message()) {
        line("Server CPU", format!("{:.3} µs per delivered message, {:.3} s in all", ns / 1e3, server.cpu_s));
    }
    if let Some(buffer) = &row.buffer {
        let capacity = buffer.capacity.map_or_else(|| "no limit of messages".to_owned(), |capacity| format!("{capacity} messages"));
        line("Client Buffer", format!("{capacity}; when full: {}", buffer.when_full));
    }
    if tally.stale > 0 {
        line("Not Exact", format!("{} messages came after their gap had been settled", tally.stale));
    }
    outcome.ended_by.iter().for_each(|reason| line("Ended By", reason.clone()));
    outcome.deviations.iter().for_each(|deviation| line("DEVIATION", deviation.clone()));
    outcome.remarks.iter().for_each(|remark| line("Remark", remark.clone()));
}

fn account(line: &mut impl FnMut(&str, String), outcome: &Outcome, plan: &Plan) {
    let (tally, strays) = (&outcome.tally, &outcome.strays);
    let lossy = if outcome.is_lossy() { "  LOSSY" } else { "" };
    line("Account", format!("expected {}, received {}, lost {}{lossy}", tally.expected(), tally.received, tally.lost));
    line(
        "Besides",
        format!(
            "duplicated {}, reordered {}, corrupt {}, foreign {}, dropped by the client {}, not judged {}",
            tally.duplicated, tally.reordered, strays.corrupt, strays.foreign, strays.lagged, tally.unjudged
        ),
    );
    match outcome.given {
        Some(given) => {
            let missing = tally.expected().saturating_sub(given);
            let away = if missing > 0 { format!("; to {missing} more nobody was connected") } else { String::new() };
            line("Given by the Servers", format!("{given}, by {}'s own count{away}", plan.kind.publish()));
        }
        None if plan.publishers > 0 => {
            line("Given by the Servers", "unknown: on a cluster PUBLISH counts the subscribers of one node only".into());
        }
        None => {}
    }
    if plan.churn.is_some() {
        line("Churned", format!("{} subscriptions ended and made again", outcome.churned));
    }
    if outcome.disconnections > 0 {
        line("Connections Lost", format!("{}, {} made anew", outcome.disconnections, outcome.reconnections));
    }
}

/// All drivers side by side.
pub fn table(rows: &[Row]) -> String {
    let mut table = Table::new();
    let header = ["driver", "messages/s", "of raw", "expected", "lost", "p50 ms", "p99 ms", "client µs/msg", "server µs/msg", "what"];
    table.load_style(presets::NOTHING).set_header(header);
    for index in 1..header.len() - 1 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let measured = |row: &Row| match &row.result {
        Ran::Measured(outcome) => Some(outcome.rate()),
        Ran::Failed { .. } => None,
    };
    let raw = rows.iter().find(|row| row.driver == "raw").and_then(measured).filter(|rate| *rate > 0.0);
    for row in rows {
        let none = || "–".to_owned();
        let cells = match &row.result {
            Ran::Failed { reason } => {
                let mut cells = vec![row.driver.to_owned()];
                cells.extend((1..header.len() - 1).map(|_| none()));
                cells.push(format!("FAILED: {reason}"));
                cells
            }
            Ran::Measured(outcome) => {
                let micros = |ns: Option<f64>| ns.map_or_else(none, |ns| format!("{:.2}", ns / 1e3));
                let latency = outcome.latency.as_ref();
                let millis = |us: Option<f64>| us.map_or_else(none, |us| format!("{:.3}", us / 1e3));
                let what = if outcome.is_unsound() {
                    "UNSOUND"
                } else if outcome.is_lossy() {
                    "LOSSY"
                } else {
                    "exact"
                };
                vec![
                    row.driver.to_owned(),
                    format!("{:.0}", outcome.rate()),
                    raw.map_or_else(none, |raw| format!("{:.0}%", outcome.rate() / raw * 100.0)),
                    outcome.tally.expected().to_string(),
                    outcome.tally.lost.to_string(),
                    millis(latency.map(|latency| latency.p50_us)),
                    millis(latency.map(|latency| latency.p99_us)),
                    micros(outcome.client_ns_per_message()),
                    micros(outcome.server_ns_per_message()),
                    what.to_owned(),
                ]
            }
        };
        table.add_row(cells);
    }
    table.to_string().lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}
