//! The per-second table, the summary, and the table over several drivers.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};

use super::Row;
use crate::drivers::Descriptor;
use crate::record::subscribe::Ran;
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
    // Where no time was measured there is no rate, and not one of 0.
    let rate = |rate: Option<f64>| rate.map_or_else(|| "–".to_owned(), |rate| format!("{rate:.6}"));
    line("Total Duration", outcome.rate().map_or_else(|| "– (not measured)".to_owned(), |_| format!("{:.6} Seconds", outcome.duration_s)));
    if !plan.publish_only {
        line("Message Rate", rate(outcome.rate()));
    }
    if plan.publishers > 0 {
        line("Publish Rate", rate(outcome.publish_rate()));
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
                "{} to receive, ms: mean {:.3}, p50 {:.3}, p95 {:.3}, p99 {:.3}, p99.9 {:.3}, max {:.3}",
                plan.latency_from(),
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
        line("Client CPU", format!("{:.3} µs per message of the measured time{publishers}", ns / 1e3));
    }
    if let (Some(server), Some(ns)) = (&outcome.server, outcome.server_ns_per_message()) {
        line(
            "Server CPU",
            format!("{:.3} µs per delivered message, {:.3} s in all; of the whole run, warm-up included", ns / 1e3, server.cpu_s),
        );
    }
    if let Some(buffer) = &row.buffer {
        let capacity = buffer.capacity.map_or_else(|| "no limit of messages".to_owned(), |capacity| format!("{capacity} messages"));
        line("Client Buffer", format!("{capacity}; when full: {}", buffer.when_full));
    }
    if tally.stale > 0 {
        line("Not Exact", format!("{} messages came after their gap had been settled", tally.stale));
    }
    if outcome.is_unsound() {
        line("UNSOUND", "the figures of this run can't be stood behind".into());
    }
    outcome.ended_by.iter().for_each(|reason| line("Ended By", reason.clone()));
    outcome.deviations.iter().for_each(|deviation| line("DEVIATION", deviation.clone()));
    outcome.remarks.iter().for_each(|remark| line("Remark", remark.clone()));
}

fn account(line: &mut impl FnMut(&str, String), outcome: &Outcome, plan: &Plan) {
    let (tally, strays) = (&outcome.tally, &outcome.strays);
    let lossy = if outcome.is_lossy() { "  LOSSY" } else { "" };
    let lost = if outcome.drain_cut { "lost or not yet taken" } else { "lost" };
    line("Account", format!("expected {}, received {}, {lost} {}{lossy}", tally.expected(), tally.received, tally.lost));
    line(
        "Besides",
        format!(
            "duplicated {}, reordered {}, corrupt {}, foreign {}, dropped by the client {}, not judged {}",
            tally.duplicated, tally.reordered, strays.corrupt, strays.foreign, strays.lagged, tally.unjudged
        ),
    );
    match outcome.given {
        Some(given) => {
            let away = nobody_connected(outcome, plan, given);
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

/// To how many that had to get a message the servers did not give it. The replies that were lost would have said it of theirs.
fn nobody_connected(outcome: &Outcome, plan: &Plan, given: u64) -> String {
    let most = outcome.tally.expected().saturating_sub(given);
    if most == 0 {
        return String::new();
    }
    if outcome.unanswered == 0 {
        return format!("; to {most} more nobody was connected");
    }
    let untold = outcome.unanswered.saturating_mul(u64::from(plan.per_channel));
    let what = match most.saturating_sub(untold) {
        0 => format!("unknown whether somebody was connected to each of {most} more"),
        least => format!("to {least} to {most} more nobody was connected"),
    };
    format!("; {what}: {} messages had no answer", outcome.unanswered)
}

/// All drivers side by side.
pub fn table(rows: &[Row]) -> String {
    let mut table = Table::new();
    let header =
        ["driver", "round", "messages/s", "of raw", "expected", "lost", "p50 ms", "p99 ms", "client µs/msg", "server µs/msg", "what"];
    table.load_style(presets::NOTHING).set_header(header);
    for index in 1..header.len() - 1 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    // Of the same round, and only one that can be stood behind.
    let raw = |round: u32| {
        rows.iter().filter(|row| row.driver == "raw" && row.round == round).find_map(|row| match &row.result {
            Ran::Measured(outcome) if outcome.is_whole() => outcome.rate().filter(|rate| *rate > 0.0),
            _ => None,
        })
    };
    for row in rows {
        let none = || "–".to_owned();
        let cells = match &row.result {
            Ran::Failed { reason } => {
                let mut cells = vec![row.driver.clone(), row.round.to_string()];
                cells.extend((2..header.len() - 1).map(|_| none()));
                cells.push(format!("FAILED: {reason}"));
                cells
            }
            Ran::Measured(outcome) => {
                let micros = |ns: Option<f64>| ns.map_or_else(none, |ns| format!("{:.2}", ns / 1e3));
                let latency = outcome.latency.as_ref();
                let millis = |us: Option<f64>| us.map_or_else(none, |us| format!("{:.3}", us / 1e3));
                let mut what = if outcome.is_unsound() {
                    "UNSOUND".to_owned()
                } else if outcome.is_lossy() && outcome.drain_cut {
                    "LOSSY or not yet taken".to_owned()
                } else if outcome.is_lossy() {
                    "LOSSY".to_owned()
                } else if outcome.rate().is_none() {
                    "not measured".to_owned()
                } else {
                    "exact".to_owned()
                };
                if let Some(reason) = &outcome.ended_by {
                    let _ = write!(what, ", ended by: {reason}");
                }
                let rate = outcome.rate();
                let share = rate.zip(raw(row.round)).map(|(rate, raw)| rate / raw * 100.0);
                vec![
                    row.driver.clone(),
                    row.round.to_string(),
                    rate.map_or_else(none, |rate| format!("{rate:.0}")),
                    share.map_or_else(none, |share| format!("{share:.0}%")),
                    outcome.tally.expected().to_string(),
                    outcome.tally.lost.to_string(),
                    millis(latency.map(|latency| latency.p50_us)),
                    millis(latency.map(|latency| latency.p99_us)),
                    micros(outcome.client_ns_per_message()),
                    micros(outcome.server_ns_per_message()),
                    what,
                ]
            }
        };
        table.add_row(cells);
    }
    let note = "of raw: of raw's run in the same round, in which the drivers run one after the other in shuffled order; whether a difference is more \
                than chance only several rounds tell (--rounds)\n\
                server µs/msg: of the whole run, warm-up included; client µs/msg: of the measured time";
    let text = format!("{table}\n{note}");
    text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::pubsub::stream::Tally;

    fn row(driver: &'static str, round: u32, outcome: Outcome) -> Row {
        let result = Ran::Measured(Box::new(outcome));
        Row { driver: driver.into(), round, client: "x 1".into(), way: String::new(), buffer: None, result }
    }

    fn measured(count: u64) -> Outcome {
        Outcome { measured: count, duration_s: 1.0, ..Outcome::default() }
    }

    #[test]
    fn shares_are_of_a_raw_run_of_the_same_round_that_is_whole() {
        let ended = Outcome { ended_by: Some("interrupted".into()), ..measured(7_000) };
        let rows = [
            row("raw", 1, measured(1_000)),
            row("fred", 1, measured(500)),
            row("fred", 2, measured(600)),
            row("raw", 2, measured(600)),
            row("raw", 3, ended),
            row("fred", 3, measured(700)),
            row("redis-rs", 3, Outcome::default()),
            row("raw", 4, Outcome { uncounted: true, ..measured(800) }),
        ];
        let text = table(&rows);
        let words = |line: usize| text.lines().nth(line).unwrap().split_whitespace().take(4).collect::<Vec<_>>();
        assert_eq!(words(2), ["fred", "1", "500", "50%"], "{text}");
        assert_eq!(words(3), ["fred", "2", "600", "100%"], "{text}");
        assert_eq!(words(6), ["fred", "3", "700", "–"], "raw was interrupted: {text}");
        assert!(text.lines().nth(5).unwrap().ends_with("exact, ended by: interrupted"), "{text}");
        assert_eq!(words(7), ["redis-rs", "3", "–", "–"], "{text}");
        assert!(text.lines().nth(7).unwrap().ends_with("not measured"), "{text}");
        assert!(text.lines().nth(8).unwrap().ends_with("UNSOUND"), "{text}");
        assert_eq!(words(8), ["raw", "4", "800", "–"], "{text}");
    }
    fn plan() -> Plan {
        Plan { per_channel: 2, ..crate::workload::pubsub::plan::tests::plan() }
    }

    #[test]
    fn nobody_is_said_to_have_been_away_for_a_reply_that_was_lost() {
        let outcome =
            |unanswered| Outcome { unanswered, tally: Tally { received: 100, lost: 10, ..Tally::default() }, ..Outcome::default() };
        assert_eq!(nobody_connected(&outcome(0), &plan(), 110), "");
        assert_eq!(nobody_connected(&outcome(0), &plan(), 100), "; to 10 more nobody was connected");
        assert_eq!(nobody_connected(&outcome(3), &plan(), 100), "; to 4 to 10 more nobody was connected: 3 messages had no answer");
        assert!(nobody_connected(&outcome(5), &plan(), 100).starts_with("; unknown whether"));
    }

    #[test]
    fn what_is_missing_after_a_drain_that_was_cut_is_not_simply_lost() {
        let told = |drain_cut| {
            let outcome = Outcome { drain_cut, tally: Tally { received: 100, lost: 10, ..Tally::default() }, ..measured(100) };
            let (mut text, row) = (String::new(), row("raw", 1, outcome.clone()));
            lines(&mut text, &row, &outcome, &plan());
            text
        };
        assert!(told(true).contains("lost or not yet taken 10"), "{}", told(true));
        assert!(told(false).contains("received 100, lost 10"), "{}", told(false));
    }
}
