//! Go's benchmark format, which benchstat reads (golang.org/design/14313-benchmark-format, unit metadata by golang/go#43744).
//!
//! Every single run is a line of its own, so that benchstat sees how much they scatter. What was only counted over all of them is one
//! line more: repeated on each it would pretend that it does not scatter at all. Settings are `/k=v` parts of the name, as benchstat's
//! projections want them, and the worker threads its `-N`. What makes figures incomparable (machine, server, debug build) is
//! configuration, by which benchstat keeps tables apart; the client's version is not, since versions are what one compares.

use std::fmt::Write;

use super::{Entry, ExportError, Figure, Measure, Name, Sheet, all_differ, number, server_text};
use crate::compare::Direction;

pub(super) fn text(sheets: &[Sheet]) -> Result<String, ExportError> {
    all_differ(sheets.iter().flat_map(|sheet| sheet.entries.iter().map(move |entry| (name(sheet, entry), sheet.record.as_str()))))?;
    let mut out = String::new();
    for measure in Measure::ALL {
        let used = sheets.iter().flat_map(|sheet| &sheet.entries).any(|entry| entry.figure(measure).is_some());
        if let Some(unit) = unit(measure).filter(|_| used) {
            let better = if measure.better() == Direction::More { "higher" } else { "lower" };
            line(&mut out, format_args!("Unit {unit} better={better}"));
        }
    }
    for sheet in sheets {
        block(&mut out, sheet);
    }
    Ok(out)
}

/// Writing to a String does not fail.
fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = writeln!(out, "{text}");
}

fn block(out: &mut String, sheet: &Sheet) {
    // Lines that begin with # are ignored; a line break would end one.
    let mut comment = |text: &str| line(out, format_args!("# {}", one_line(text)));
    comment(&format!("{}: {}, {}", sheet.record, sheet.made_by, sheet.created));
    sheet.warnings.iter().for_each(|warning| comment(&format!("warning: {warning}")));
    if !sheet.complete {
        comment("interrupted: cells may be missing");
    }
    let mut clients: Vec<String> =
        sheet.entries.iter().map(|entry| format!("{} is {} {}", entry.name.driver, entry.client, entry.client_version)).collect();
    clients.sort();
    clients.dedup();
    clients.iter().for_each(|client| comment(client));
    for left in &sheet.left_out {
        comment(&format!("left out {}: {}", left.name, left.reason));
    }
    let environment = &sheet.environment;
    let mut config = |key: &str, value: &str| line(out, format_args!("{key}: {}", one_line(value)));
    config("os", &environment.os);
    config("arch", environment.target.split('-').next().unwrap_or_default());
    config("cpu", environment.cpu.as_deref().unwrap_or("unknown"));
    config("machine", &sheet.machine.id);
    config("build", if environment.debug_build { "debug" } else { "release" });
    let mut server = None;
    for entry in &sheet.entries {
        let text = sheet.targets.get(entry.target).map(server_text).unwrap_or_default();
        if server.as_ref() != Some(&text) {
            line(out, format_args!("server: {}", one_line(&text)));
            server = Some(text);
        }
        results(out, sheet, entry);
    }
}

fn results(out: &mut String, sheet: &Sheet, entry: &Entry) {
    let name = name(sheet, entry);
    let mut result = |operations: u64, values: Vec<(&Figure, f64)>| {
        let pairs: Vec<String> = values
            .into_iter()
            .filter_map(|(figure, value)| unit(figure.measure).map(|unit| format!("\t{} {unit}", number(value))))
            .collect();
        if !pairs.is_empty() {
            line(out, format_args!("{name}\t{}{}", operations.max(1), pairs.concat()));
        }
    };
    let runs = entry.figures.iter().map(|figure| figure.samples.len()).max().unwrap_or_default();
    for run in 0..runs {
        let values = entry.figures.iter().filter_map(|figure| figure.samples.get(run).map(|value| (figure, *value))).collect();
        result(entry.operations.get(run).copied().unwrap_or(1), values);
    }
    let whole = entry.figures.iter().filter(|figure| figure.samples.is_empty()).map(|figure| (figure, figure.value)).collect();
    result(entry.operations.iter().sum(), whole);
}

/// The unit there: what is measured, with hyphens, and the unit of measurement at its end. A rate is left out: it is the time per
/// operation once more.
const fn unit(measure: Measure) -> Option<&'static str> {
    Some(match measure {
        Measure::Rate => return None,
        Measure::TimePerOp => "ns/op",
        Measure::P50 => "p50-ns",
        Measure::P99 => "p99-ns",
        Measure::ClientCpu => "client-cpu-ns/op",
        Measure::ServerCpu => "server-cpu-ns/op",
        Measure::Allocations => "allocs/op",
        Measure::AllocatedBytes => "B/op",
        Measure::CommandsPerRead => "cmds/read",
        Measure::PeakMemory => "peak-RSS-bytes",
    })
}

fn name(sheet: &Sheet, entry: &Entry) -> String {
    let Name { workload, driver, parameters } = &entry.name;
    let mut letters = workload.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    let mut name = format!("Benchmark{}{}/driver={}", part(&first), part(letters.as_str()), part(driver));
    if entry.control {
        name.push_str("/control=yes");
    }
    for (key, value) in parameters {
        let _ = write!(name, "/{}={}", part(key), part(value));
    }
    // Always there, so that a number at the end of a value is never taken for it.
    let _ = write!(name, "-{}", entry.workers.unwrap_or(sheet.environment.cores));
    name
}

/// A part of a name: neither blanks, which end it, nor slashes, which begin the next.
fn part(text: &str) -> String {
    text.chars().map(|letter| if letter.is_whitespace() || letter.is_control() || letter == '/' { '_' } else { letter }).collect()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
