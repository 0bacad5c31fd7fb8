//! Exports of comparisons.

use super::text;
use crate::compare::Look;
use crate::record::comparison::{ComparisonRecord, LeftOut, Older, tests::record};
use crate::record::export::{Format, Measure, Sheet};
use crate::record::history::{Wanted, lines};
use crate::record::{AnyRecord, export};

fn sheet(record: &ComparisonRecord) -> Sheet {
    let mut record = record.clone();
    record.complete = true;
    record.created = "2026-12-01T00:00:00Z".into();
    // The machine on which the tests run must not be seen in a snapshot.
    record.environment.debug_build = false;
    let mut sheet = Sheet::of("comparison.json", &AnyRecord::Comparison(Box::new(record)));
    sheet.machine.id = "00000000".into();
    sheet.machine.text = "a machine".into();
    sheet
}

fn judged() -> ComparisonRecord {
    let mut record = record(12, [100, 100, 120]);
    record.judged = Some(record.judge(Look::ONLY));
    record
}

#[test]
fn subjects_are_cells_with_the_verdicts_beside_them() {
    let sheet = sheet(&judged());
    let drivers: Vec<_> = sheet.entries.iter().map(|entry| (entry.name.driver.as_str(), entry.control)).collect();
    assert_eq!(drivers, [("redis@0.32.7", false), ("redis@0.32.7", true), ("redis@1.8.1", false)]);
    let cpu = sheet.entries[2].figure(Measure::ClientCpu).unwrap();
    assert_eq!((cpu.samples.len(), cpu.against.as_ref().unwrap().verdict), (12, "worse"));
    assert!(sheet.entries[0].figures.iter().all(|figure| figure.against.is_none()));
    insta::assert_snapshot!(text(&[sheet], Format::Markdown));
}

#[test]
fn a_round_with_a_failure_is_left_out_whole_and_named() {
    let mut record = judged();
    let turn = record.rounds[3].turns.iter_mut().find(|turn| turn.control).unwrap();
    turn.measured = None;
    turn.failed = Some("timeout".into());
    record.left_out.push(LeftOut { subject: 1, workload: Some("receive".into()), unsupported: true, reason: "no pub/sub".into() });
    let sheet = sheet(&record);
    assert!(sheet.entries.iter().all(|entry| entry.operations.len() == 11), "{:?}", sheet.entries);
    let reasons: Vec<String> = sheet.left_out.iter().map(|left| format!("{}: {}", left.name, left.reason)).collect();
    assert!(reasons[0].contains("redis@0.32.7") && reasons[0].contains("(control), round 4: failed: timeout"), "{reasons:?}");
    assert_eq!((reasons[1].as_str(), sheet.left_out[1].unsupported), ("receive/redis@1.8.1: no pub/sub", true));
}

#[test]
fn the_control_is_no_benchmark_of_its_own_where_histories_are_kept() {
    for format in [Format::Bmf, Format::GithubActionBenchmark] {
        let text = text(&[sheet(&judged())], format);
        assert_eq!(
            text.matches("get-64/redis@0.32.7").count(),
            if format == Format::Bmf { 1 } else { text.matches("get-64/redis@1.8.1").count() }
        );
    }
    let go = text(&[sheet(&judged())], Format::Gobench);
    assert_eq!(super::gobench(&go).unwrap().results.len(), 3 * 12);
    assert!(go.contains("/driver=redis@0.32.7/control=yes/"), "{go}");
}

#[test]
fn a_subject_against_itself_is_two_cells() {
    let mut record = judged();
    record.subjects[1] = record.subjects[0].clone();
    let sheet = sheet(&record);
    assert!(export::export(std::slice::from_ref(&sheet), Format::Bmf, export::Wanted::Smaller).is_ok());
    assert!(sheet.entries[2].name.to_string().ends_with("again=1"), "{}", sheet.entries[2].name);
}

#[test]
fn versions_of_a_comparison_are_points_of_one_line_and_a_path_is_not_its_release() {
    let mut record = judged();
    record.subjects[1].name = "redis@path:../redis-rs".into();
    record.subjects[1].client_version = "0.32.7".into();
    let measures = [Measure::ClientCpu];
    let points = |sheet: Sheet| {
        let (lines, _) = lines(&[sheet], &Wanted { client: "redis", measures: &measures, name: "" });
        lines.iter().map(|line| line.points.iter().map(|point| point.version.clone()).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    assert_eq!(points(sheet(&record)), [["0.32.7", "0.32.7 (path:../redis-rs)"]]);
    record.asked.baseline = Some(Older { name: "main".into(), created: "2026-11-01T00:00:00Z".into(), forced: Vec::new() });
    assert_eq!(points(sheet(&record)), [["0.32.7 (path:../redis-rs)"]], "the older session's record has its figures");
}
