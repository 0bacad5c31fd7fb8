//! A client's figures over its versions, out of many records.
//!
//! A line holds only what may stand beside each other: one cell, one machine, one server. Its points are medians of sessions. They
//! carry the noise of the days on which they were measured: a difference here is a hint, and `rcb compare` gives the verdict.

use std::cmp::Ordering;

use serde::Serialize;

use super::export::{Measure, Sheet, server_text};
use crate::compare::median;
use crate::measure::Machine;

/// A client at one version.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The version.
    pub version: String,
    /// Sessions that it was measured in.
    pub sessions: usize,
    /// Their median.
    pub value: f64,
    /// The smallest of them.
    pub lowest: f64,
    /// The largest.
    pub highest: f64,
    /// When the newest of them began.
    pub newest: String,
}

/// One measure of one cell on one machine and server, over the versions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// The cell, without the version.
    pub name: String,
    /// The machine.
    pub machine: Machine,
    /// Server and topology.
    pub server: String,
    /// What the values say.
    pub measure: Measure,
    /// By version, oldest first.
    pub points: Vec<Point>,
}

/// What is to be shown.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// The client crate.
    pub client: &'a str,
    /// The measures.
    pub measures: &'a [Measure],
    /// Only cells whose names hold this; empty for all.
    pub name: &'a str,
}

/// The lines of a client, and what was left out of them, by record and reason.
#[must_use]
pub fn lines(sheets: &[Sheet], wanted: &Wanted<'_>) -> (Vec<Line>, Vec<String>) {
    let mut lines: Vec<(Line, Vec<Sample>)> = Vec::new();
    let mut left_out = Vec::new();
    for sheet in sheets {
        let entries: Vec<_> = sheet
            .entries
            .iter()
            .filter(|entry| entry.client == wanted.client && entry.lineage.contains(wanted.name))
            .filter(|entry| !entry.control && !entry.of_another_session)
            .collect();
        if !entries.is_empty() && sheet.environment.debug_build {
            left_out.push(format!("{}: a debug build, which says nothing about a version", sheet.record));
            continue;
        }
        for entry in entries {
            let server = sheet.targets.get(entry.target).map(server_text).unwrap_or_default();
            for &measure in wanted.measures {
                let Some(figure) = entry.figure(measure) else { continue };
                let sample = Sample { version: entry.client_version.clone(), created: sheet.created.clone(), value: figure.value };
                let same = |line: &Line| {
                    line.name == entry.lineage && line.machine == sheet.machine && line.server == server && line.measure == measure
                };
                match lines.iter_mut().find(|(line, _)| same(line)) {
                    Some((_, samples)) => samples.push(sample),
                    None => {
                        let (name, machine) = (entry.lineage.clone(), sheet.machine.clone());
                        lines.push((Line { name, machine, server: server.clone(), measure, points: Vec::new() }, vec![sample]));
                    }
                }
            }
        }
    }
    let mut lines: Vec<Line> = lines.into_iter().map(|(line, samples)| Line { points: points(samples), ..line }).collect();
    lines.sort_by(|a, b| (a.measure, &a.name, &a.server, &a.machine.id).cmp(&(b.measure, &b.name, &b.server, &b.machine.id)));
    (lines, left_out)
}

/// One session's value of a line.
struct Sample {
    version: String,
    created: String,
    value: f64,
}

fn points(mut samples: Vec<Sample>) -> Vec<Point> {
    samples.sort_by(|a, b| by_version(&a.version, &b.version).then_with(|| a.created.cmp(&b.created)));
    let points = samples.chunk_by(|a, b| a.version == b.version).filter_map(|group| {
        let values: Vec<f64> = group.iter().map(|sample| sample.value).collect();
        let newest = group.last()?;
        Some(Point {
            version: newest.version.clone(),
            sessions: group.len(),
            value: median(&values),
            lowest: values.iter().copied().fold(f64::INFINITY, f64::min),
            highest: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            newest: newest.created.clone(),
        })
    });
    points.collect()
}

/// By semantic versioning; what is no version, such as a path, comes after all that are.
fn by_version(a: &str, b: &str) -> Ordering {
    match (Version::parse(a), Version::parse(b)) {
        (Some(one), Some(other)) => one.cmp(&other).then_with(|| a.cmp(b)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// A version, ordered as semantic versioning has it: a pre-release comes before its release.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Version<'a> {
    numbers: [u64; 3],
    /// False sorts first.
    released: bool,
    pre: Vec<Part<'a>>,
}

/// Numbers come before words.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Part<'a> {
    Number(u64),
    Word(&'a str),
}

impl<'a> Version<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let text = text.split('+').next()?;
        let (core, pre) = text.split_once('-').map_or((text, None), |(core, pre)| (core, Some(pre)));
        let mut numbers = core.split('.').map(|number| number.parse::<u64>().ok());
        let numbers = [numbers.next()??, numbers.next()??, numbers.next()??];
        let parts = pre.map(|pre| pre.split('.').map(|part| part.parse().map_or(Part::Word(part), Part::Number)).collect());
        Some(Self { numbers, released: pre.is_none(), pre: parts.unwrap_or_default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::export::{Entry, Figure, Name};

    fn sheet(version: &str, created: &str, rate: f64) -> Sheet {
        let environment = crate::measure::Environment { debug_build: false, ..crate::measure::Environment::read() };
        let entry = Entry {
            name: Name { workload: "get-64B".into(), driver: "redis-rs".into(), parameters: Vec::new() },
            lineage: "get-64B/redis-rs".into(),
            client: "redis".into(),
            client_version: version.into(),
            target: 0,
            workers: None,
            control: false,
            of_another_session: false,
            operations: vec![1],
            marks: Vec::new(),
            figures: Figure::median(Measure::Rate, vec![rate]).into_iter().collect(),
        };
        Sheet {
            record: format!("{created}.json"),
            created: created.into(),
            made_by: "bench commands".into(),
            complete: true,
            machine: Machine::of(&environment),
            environment,
            targets: Vec::new(),
            warnings: Vec::new(),
            entries: vec![entry],
            left_out: Vec::new(),
        }
    }

    fn shown(sheets: &[Sheet]) -> (Vec<Line>, Vec<String>) {
        lines(sheets, &Wanted { client: "redis", measures: &[Measure::Rate], name: "" })
    }

    #[test]
    fn versions_are_in_their_order_and_sessions_of_one_are_one_point() {
        let sheets = [
            sheet("1.10.0", "3", 30.0),
            sheet("1.9.0", "1", 10.0),
            sheet("1.10.0-rc.2", "2", 20.0),
            sheet("1.10.0-rc.10", "2", 21.0),
            sheet("1.9.0", "4", 12.0),
            sheet("1.9.0 (path:../redis-rs)", "5", 99.0),
            sheet("1.9.0", "2", 11.0),
        ];
        let (lines, left_out) = shown(&sheets);
        let [line] = &lines[..] else { panic!("{lines:?}") };
        let points: Vec<_> = line.points.iter().map(|point| (point.version.as_str(), point.sessions, point.value)).collect();
        let wanted = [("1.9.0", 3, 11.0), ("1.10.0-rc.2", 1, 20.0), ("1.10.0-rc.10", 1, 21.0), ("1.10.0", 1, 30.0)];
        assert_eq!(points[..4], wanted);
        assert_eq!(points[4].0, "1.9.0 (path:../redis-rs)", "a local copy is not the release whose number it bears");
        assert_eq!((line.points[0].lowest, line.points[0].highest, line.points[0].newest.as_str()), (10.0, 12.0, "4"));
        assert!(left_out.is_empty());
    }

    #[test]
    fn another_machine_or_client_has_no_part_in_a_line_and_a_debug_build_none_at_all() {
        let mut elsewhere = sheet("1.9.0", "1", 1.0);
        elsewhere.machine.id = "other".into();
        let mut other = sheet("1.9.0", "1", 2.0);
        other.entries[0].client = "fred".into();
        let mut debug = sheet("1.9.0", "1", 3.0);
        debug.environment.debug_build = true;
        let (lines, left_out) = shown(&[sheet("1.9.0", "1", 4.0), elsewhere, other, debug]);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines.iter().all(|line| line.points.len() == 1 && line.points[0].sessions == 1));
        assert!(left_out.len() == 1 && left_out[0].contains("debug build"), "{left_out:?}");
    }
}
