//! What `rcb load` prints: the heading and the summary of each run, and the table of all of them.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};

use super::cache;
use super::table::{grouped, lines};
use crate::compare::median;
use crate::drivers::Descriptor;
use crate::measure::{Latency, latency};
use crate::record::load::{Asked, Distribution, Figures, LoadRecord, LoadRun, Status};

const RULE: &str = "#################################################";

fn plural(count: usize, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}

/// One line before a run: who does what. `cached` is as in [`LoadRun::cached`].
#[must_use]
pub fn heading(driver: &Descriptor, cached: Option<bool>, connections: usize, workload: &str, asked: &Asked, round: usize) -> String {
    let mut text = format!(
        "{} ({}){}: {} over {}",
        driver.name,
        driver.client_version(),
        match cached {
            None => "",
            Some(true) => " through its cache",
            Some(false) => " without its cache",
        },
        plural(asked.callers, "caller"),
        plural(connections, "connection")
    );
    match (asked.transaction, asked.pipeline) {
        (true, size) => write!(text, ", transactions of {size}"),
        (false, 1) => Ok(()),
        (false, size) => write!(text, ", pipelines of {size}"),
    }
    .and_then(|()| match asked.commands {
        Some(commands) => write!(text, ", {} commands", grouped(commands as f64)),
        None => Ok(()),
    })
    .and_then(|()| match asked.test_time {
        Some(seconds) => write!(text, ", {seconds} s"),
        None => Ok(()),
    })
    .and_then(|()| match &asked.open_loop {
        Some(open) => write!(text, ", {} commands/s", open.schedule),
        None => Ok(()),
    })
    .and_then(|()| write!(text, ": {workload}"))
    .and_then(|()| if asked.rounds > 1 { write!(text, " (round {round} of {})", asked.rounds) } else { Ok(()) })
    // Writing to a String does not fail.
    .unwrap_or_default();
    text
}

/// Nanoseconds as milliseconds, to the microsecond; what takes a few microseconds only, as hits of a cache do, to the nanosecond.
pub(super) fn millis(nanos: u64) -> String {
    mean_millis(nanos as f64)
}

fn mean_millis(nanos: f64) -> String {
    let digits = if nanos < 10_000.0 { 6 } else { 3 };
    format!("{:.digits$}", nanos / 1e6)
}

fn latencies(title: &str, latency: Option<Latency>) -> String {
    let Some(latency) = latency else { return format!("{title}: nothing measured\n") };
    let values = [
        mean_millis(latency.mean_ns),
        millis(latency.p50_ns),
        millis(latency.p95_ns),
        millis(latency.p99_ns),
        millis(latency.p999_ns),
        millis(latency.max_ns),
    ];
    let row = |cells: [&str; 6]| cells.map(|cell| format!("{cell:>10}")).concat();
    let names = row(["avg", "p50", "p95", "p99", "p99.9", "max"]);
    format!("{title} (msec):\n   {names}\n   {}\n", row(values.each_ref().map(String::as_str)))
}

/// A rate to four digits and more: a slow one must not become 0.
pub(super) fn rate(per_second: f64) -> String {
    let digits = if per_second < 10.0 {
        3
    } else if per_second < 1000.0 {
        1
    } else {
        0
    };
    format!("{per_second:.digits$}")
}

pub(super) fn optional(value: Option<f64>, digits: usize, unit: &str) -> String {
    value.map_or_else(|| "unknown".to_owned(), |value| format!("{value:.digits$}{unit}"))
}

/// The summary of a run.
#[must_use]
pub fn summary(run: &LoadRun, asked: &Asked) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{RULE}");
    let _ = match run.status {
        Status::Done => Ok(()),
        Status::Unsupported => writeln!(out, "UNSUPPORTED by {}: {}", run.driver, run.reason.as_deref().unwrap_or_default()),
        Status::Interrupted => writeln!(out, "INTERRUPTED: what was done until then"),
        Status::Error => writeln!(out, "STOPPED at an error: {}", run.reason.as_deref().unwrap_or_default()),
        Status::Stalled => writeln!(out, "GIVEN UP: {}", run.reason.as_deref().unwrap_or_default()),
        Status::Failed => writeln!(out, "FAILED: {}", run.reason.as_deref().unwrap_or_default()),
    };
    if let Some(figures) = &run.figures {
        numbers(&mut out, figures, asked, run.cached == Some(true));
    }
    out.trim_end().to_owned()
}

fn numbers(out: &mut String, figures: &Figures, asked: &Asked, cached: bool) {
    let _ = writeln!(out, "Total Duration {:.3} Seconds", figures.duration);
    let _ = writeln!(out, "Total Commands {}", figures.commands);
    let _ = writeln!(out, "Total Errors {}", figures.errors);
    for errors in &figures.errors_by_kind {
        let _ = writeln!(out, "   {:>10}  {}, the first: {}", errors.count, errors.kind, errors.first);
    }
    if figures.unanswered > 0 {
        let _ =
            writeln!(out, "   {:>10}  commands without an answer of their own: the server may have done them or not", figures.unanswered);
    }
    let _ = writeln!(out, "Throughput summary: {} requests per second", rate(figures.rate()));
    let through_cache = figures.cache.as_deref();
    if let Some(cache) = through_cache.filter(|_| cached) {
        cache::rates(out, figures, cache);
    }
    match &figures.plan {
        None => out.push_str(&latencies("Latency summary", figures.service.latency)),
        Some(plan) => {
            let _ = writeln!(
                out,
                "Offered {} commands at {} per second; sent {}, dropped {}, backlog at the end of the plan {}",
                plan.offered,
                rate(plan.offered_rate),
                plan.sent,
                plan.dropped,
                plan.backlog
            );
            if plan.overloaded {
                let _ = writeln!(
                    out,
                    "OVERLOADED: it could not keep up with the offered rate, so there is no latency to report: the longer the run, \
                     the longer the wait"
                );
            } else {
                out.push_str(&latencies("Latency from the planned send time", figures.planned.latency));
                out.push_str(&latencies("Service time", figures.service.latency));
            }
            if let Some(late) = plan.lateness {
                let _ = writeln!(
                    out,
                    "Harness released commands late by p50 {} p99 {} msec{}; that took {:.3} s of the client CPU",
                    millis(late.p50_ns),
                    millis(late.p99_ns),
                    if plan.overloaded { "" } else { ", included in the first table" },
                    plan.pacer_cpu_ns as f64 / 1e9
                );
            }
        }
    }
    let overloaded = figures.plan.as_ref().is_some_and(|plan| plan.overloaded);
    if figures.entries.len() > 1 && !overloaded {
        out.push_str(&by_command(figures));
    }
    if let Some(cache) = through_cache {
        if !overloaded {
            cache::classes(out, cache);
        }
        cache::details(out, cache, asked, cached);
    }
    let micros = |value: Option<f64>| optional(value.map(|nanos| nanos / 1e3), 2, " µs/command");
    let _ = writeln!(
        out,
        "Client CPU {} (user {:.3} s, system {:.3} s), {} allocations/command, peak memory {}",
        micros(figures.client_cpu_per_command()),
        figures.client.user_ns as f64 / 1e9,
        figures.client.system_ns as f64 / 1e9,
        optional(figures.allocations_per_command(), 2, ""),
        optional(figures.client.peak_memory.map(|bytes| bytes as f64 / f64::from(1 << 20)), 1, " MiB"),
    );
    let _ = writeln!(
        out,
        "Server CPU {}, {} commands per read",
        micros(figures.server_cpu_per_command()),
        optional(figures.commands_per_read(), 1, "")
    );
    let audit = &figures.audit;
    if audit.is_exact() {
        let _ = match through_cache {
            None => write!(out, "Audit: the servers counted the same {} commands", audit.workload),
            Some(_) => write!(out, "Audit: the servers counted the same {} commands: misses, writes, probes and fences", audit.workload),
        };
        if asked.transaction {
            out.push_str(", MULTI and EXEC among them");
        }
        if audit.checkout > 0 {
            let _ = write!(out, ", and {} of the pool's own checkouts", audit.checkout);
        }
        if audit.unanswered > 0 {
            let _ = write!(out, ", and {} of those without an answer of their own", audit.unanswered);
        }
        if audit.by_scripts > 0 {
            let _ = write!(out, ", and {} called by scripts", audit.by_scripts);
        }
        out.push('\n');
    } else {
        let _ = writeln!(out, "AUDIT FAILED, so these figures can't be trusted: {}", audit.deviations.join("; "));
    }
    if !asked.verify {
        let _ = writeln!(out, "Replies were not checked (--no-verify)");
    }
}

fn by_command(figures: &Figures) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "By command",
        "asked",
        "commands",
        "errors",
        "avg",
        "p50",
        "p95",
        "p99",
        "p99.9",
        "max",
    ]);
    for entry in &figures.entries {
        let latency = if figures.plan.is_some() { entry.planned.latency } else { entry.service.latency };
        let at = |value: fn(&Latency) -> u64| latency.as_ref().map_or("–".to_owned(), |latency| millis(value(latency)));
        table.add_row([
            entry.command.clone(),
            format!("{:.1}%", entry.ratio * 100.0),
            entry.commands.to_string(),
            entry.errors.to_string(),
            latency.map_or("–".to_owned(), |latency| mean_millis(latency.mean_ns)),
            at(|latency| latency.p50_ns),
            at(|latency| latency.p95_ns),
            at(|latency| latency.p99_ns),
            at(|latency| latency.p999_ns),
            at(|latency| latency.max_ns),
        ]);
    }
    right_aligned(&mut table, 1);
    lines(&table) + "\n"
}

pub(super) fn right_aligned(table: &mut Table, from: usize) {
    for index in from..table.column_count() {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// All runs of one workload with one driver, through its cache or not.
pub(super) struct Group<'a> {
    pub(super) workload: &'a str,
    pub(super) subject: String,
    pub(super) runs: Vec<&'a LoadRun>,
}

fn groups(record: &LoadRecord) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for run in &record.runs {
        let subject = run.subject();
        match groups.iter_mut().find(|group| group.workload == run.workload && group.subject == subject) {
            Some(group) => group.runs.push(run),
            None => groups.push(Group { workload: &run.workload, subject, runs: vec![run] }),
        }
    }
    groups.sort_by_key(|group| record.runs.iter().position(|run| run.workload == group.workload));
    groups
}

/// How fast `run` is beside the run of `raw` in the same round, with the same workload and as many connections, both
/// through their caches or both not.
#[must_use]
pub fn share_of_raw(record: &LoadRecord, run: &LoadRun) -> Option<f64> {
    let twin = record.runs.iter().find(|other| {
        other.driver == "raw"
            && other.workload == run.workload
            && other.round == run.round
            && other.cached == run.cached
            && other.settings.connections == run.settings.connections
            && other.status == Status::Done
    })?;
    Some(run.rate? / twin.rate.filter(|rate| *rate > 0.0)?)
}

/// The side-by-side table: medians of the rounds, percentiles of all rounds together.
#[must_use]
pub fn comparison(record: &LoadRecord) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "workload",
        "driver",
        "conns",
        "rate/s",
        "of raw",
        "p50 ms",
        "p99 ms",
        "p99.9 ms",
        "client µs/cmd",
        "allocs/cmd",
        "peak MiB",
        "server µs/cmd",
        "cmds/read",
        "errors",
        "audit",
    ]);
    let mut notes = Vec::new();
    let groups = groups(record);
    for group in &groups {
        table.add_row(row(record, group, &mut notes));
    }
    right_aligned(&mut table, 2);
    let mut text = lines(&table);
    let lonely = record.runs.iter().any(|run| run.figures.is_some() && run.driver != "raw" && share_of_raw(record, run).is_none());
    if lonely && record.runs.iter().any(|run| run.driver == "raw") {
        notes.push("a share of raw is given where raw ran with as many connections".to_owned());
    }
    if record.asked.rounds > 1 {
        notes.push(format!("rates are medians of {} rounds, percentiles are of all of them together", record.asked.rounds));
    }
    for note in notes {
        let _ = write!(text, "\n{note}");
    }
    if record.asked.cache.is_some() {
        let _ = write!(text, "\n\n{}", cache::comparison(record, &groups));
    }
    text
}

fn row(record: &LoadRecord, group: &Group<'_>, notes: &mut Vec<String>) -> Vec<String> {
    let whole: Vec<&&LoadRun> = group.runs.iter().filter(|run| run.status == Status::Done && run.figures.is_some()).collect();
    for run in &group.runs {
        if run.status != Status::Done {
            let reason = run.reason.as_deref().unwrap_or_default();
            notes.push(format!("{} {}, round {}: {:?}: {reason}", run.workload, run.subject(), run.round, run.status));
        }
    }
    let figures: Vec<&Figures> = whole.iter().filter_map(|run| run.figures.as_deref()).collect();
    let connections = group.runs.first().map_or(0, |run| run.settings.connections_opened);
    let mut cells = vec![group.workload.to_owned(), group.subject.clone(), connections.to_string()];
    if figures.is_empty() {
        cells.extend((0..10).map(|_| "–".to_owned()));
        cells.extend([String::new(), "no figures".to_owned()]);
        return cells;
    }
    let middle = |values: Vec<f64>| if values.len() == figures.len() && !values.is_empty() { Some(median(&values)) } else { None };
    let of_each = |value: &dyn Fn(&Figures) -> Option<f64>| middle(figures.iter().filter_map(|one| value(one)).collect());
    let shown = |value: Option<f64>, digits: usize| value.map_or("–".to_owned(), |value| format!("{value:.digits$}"));
    let open = record.asked.open_loop.is_some();
    let overloaded = figures.iter().any(|one| one.plan.as_ref().is_some_and(|plan| plan.overloaded));
    let mut all = latency::histogram();
    for one in &figures {
        let distribution: &Distribution = if open { &one.planned } else { &one.service };
        if let Some(histogram) = distribution.histogram() {
            latency::merge(&mut all, &histogram);
        }
    }
    let all = Latency::of(&all).filter(|_| !overloaded);
    let at = |value: fn(&Latency) -> u64| match &all {
        Some(latency) => millis(value(latency)),
        None if overloaded => "overloaded".to_owned(),
        None => "–".to_owned(),
    };
    let shares: Vec<f64> = whole.iter().filter_map(|run| share_of_raw(record, run)).collect();
    let peak = figures.iter().filter_map(|one| one.client.peak_memory).max();
    let exact = figures.iter().all(|one| one.audit.is_exact());
    cells.extend([
        of_each(&|one| Some(one.rate())).map_or("–".to_owned(), |value| if value < 1000.0 { rate(value) } else { grouped(value) }),
        middle(shares).map_or("–".to_owned(), |share| format!("{:.0}%", share * 100.0)),
        at(|latency| latency.p50_ns),
        at(|latency| latency.p99_ns),
        at(|latency| latency.p999_ns),
        shown(of_each(&|one| one.client_cpu_per_command().map(|nanos| nanos / 1e3)), 2),
        shown(of_each(&Figures::allocations_per_command), 2),
        shown(peak.map(|bytes| bytes as f64 / f64::from(1 << 20)), 1),
        shown(of_each(&|one| one.server_cpu_per_command().map(|nanos| nanos / 1e3)), 2),
        shown(of_each(&Figures::commands_per_read), 1),
        figures.iter().map(|one| one.errors).sum::<u64>().to_string(),
        if exact { "exact".to_owned() } else { "FAILED".to_owned() },
    ]);
    cells
}
