//! Markdown tables for people: one for each record, what was left out below.

use std::fmt::Write;

use super::{Entry, Figure, Measure, Sheet, server_text};

/// A column: its measure, its head, what one of its units is in the measure's, and digits.
struct Column(Measure, &'static str, f64, usize);

const COLUMNS: [Column; 9] = [
    Column(Measure::Rate, "ops/s", 1.0, 0),
    Column(Measure::TimePerOp, "ns/op", 1.0, 0),
    Column(Measure::P50, "p50 ms", 1e6, 3),
    Column(Measure::P99, "p99 ms", 1e6, 3),
    Column(Measure::ClientCpu, "client µs/op", 1e3, 2),
    Column(Measure::ServerCpu, "server µs/op", 1e3, 2),
    Column(Measure::Allocations, "allocs/op", 1.0, 2),
    Column(Measure::AllocatedBytes, "B/op", 1.0, 0),
    Column(Measure::CommandsPerRead, "cmds/read", 1.0, 1),
];

pub(super) fn text(sheets: &[Sheet]) -> String {
    sheets.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn one(sheet: &Sheet) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let mut line = |text: String| {
        let _ = writeln!(out, "{text}");
    };
    line(format!("## {}, {}\n", escaped(&sheet.made_by), escaped(&sheet.created)));
    line(format!("Record `{}`. Machine `{}`: {}.", sheet.record, sheet.machine.id, escaped(&sheet.machine.text)));
    let mut servers: Vec<String> = sheet.targets.iter().map(server_text).collect();
    servers.dedup();
    line(format!("Server: {}.\n", escaped(&servers.join("; "))));
    for warning in &sheet.warnings {
        line(format!("- Warning: {}", escaped(warning)));
    }
    if !sheet.complete {
        line("- Interrupted: cells may be missing.".to_owned());
    }
    if !sheet.warnings.is_empty() || !sheet.complete {
        line(String::new());
    }
    if !sheet.entries.is_empty() {
        table(&mut line, &sheet.entries);
    }
    verdicts(&mut line, &sheet.entries);
    if !sheet.left_out.is_empty() {
        line("\nWithout figures:\n".to_owned());
    }
    for left in &sheet.left_out {
        let what = if left.unsupported { "unsupported: " } else { "" };
        line(format!("- {}: {what}{}", escaped(&left.name), escaped(&left.reason)));
    }
    out
}

fn table(line: &mut impl FnMut(String), entries: &[Entry]) {
    let columns: Vec<&Column> = COLUMNS.iter().filter(|column| entries.iter().any(|entry| entry.figure(column.0).is_some())).collect();
    let marked = entries.iter().any(|entry| !entry.marks.is_empty() || entry.control);
    let heads: Vec<&str> = columns.iter().map(|column| column.1).collect();
    line(format!("| cell | client | {} |{}", heads.join(" | "), if marked { " marks |" } else { "" }));
    line(format!("| --- | --- |{}{}", " ---: |".repeat(columns.len()), if marked { " --- |" } else { "" }));
    for entry in entries {
        let cells: Vec<String> =
            columns.iter().map(|column| entry.figure(column.0).map_or_else(|| "–".to_owned(), |figure| value(figure, column))).collect();
        let mut marks = entry.marks.clone();
        if entry.control {
            marks.push("control (A/A)".to_owned());
        }
        let marks = if marked { format!(" {} |", escaped(&marks.join(", "))) } else { String::new() };
        let client = format!("{} {}", entry.client, entry.client_version);
        line(format!("| {} | {} | {} |{marks}", escaped(&entry.name.to_string()), escaped(&client), cells.join(" | ")));
    }
}

/// The table of a comparison: every question with its answer.
fn verdicts(line: &mut impl FnMut(String), entries: &[Entry]) {
    let judged =
        || entries.iter().flat_map(|entry| entry.figures.iter().filter_map(move |figure| Some((entry, figure, figure.against.as_ref()?))));
    if judged().next().is_none() {
        return;
    }
    line("\n| workload | subject | metric | beside the baseline | interval | verdict |".to_owned());
    line("| --- | --- | --- | ---: | ---: | --- |".to_owned());
    for (entry, figure, against) in judged() {
        let share = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
        line(format!(
            "| {} | {} | {} | {} | {} … {} | {} |",
            escaped(&entry.name.workload),
            escaped(&entry.name.driver),
            figure.measure.name(),
            share(against.ratio),
            share(against.low),
            share(against.high),
            against.verdict
        ));
    }
}

fn value(figure: &Figure, column: &Column) -> String {
    format!("{:.*}", column.3, figure.value / column.2)
}

/// Text that Markdown leaves as it is.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\r' => out.push(' '),
            '|' | '\\' | '`' | '*' | '_' | '<' | '[' | ']' => {
                out.push('\\');
                out.push(letter);
            }
            _ => out.push(letter),
        }
    }
    out
}
