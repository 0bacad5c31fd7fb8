//! Comparisons that are saved, read and judged; others build on their [`record`].

use super::*;
use crate::compare::Verdict;
use crate::drivers::Topology;
use crate::target::{Kind, Server};

/// A session of `rounds` rounds of one workload whose baseline, control and candidate take so much client CPU.
pub(crate) fn record(rounds: usize, cpu: [u64; 3]) -> ComparisonRecord {
    let target = TargetFacts {
        kind: Kind::Process,
        topology: Topology::Standalone,
        masters: 1,
        replicas: 0,
        server: Server { product: "redis".into(), version: "7.0.15".into(), redis_version: "7.0.15".into() },
        addresses: vec!["redis://127.0.0.1:1".into()],
        provided: "a server".into(),
        warnings: Vec::new(),
    };
    let asked = Asked {
        seed: 1,
        time_ns: 500_000_000,
        warm_up_ns: 0,
        patience_ns: 10_000_000_000,
        max_time_ns: 60_000_000_000,
        verdicts: compare::Settings::default(),
        pinned: None,
        spinner: false,
        baseline: None,
    };
    let subject = |name: &str| Subject {
        name: name.into(),
        client: "redis".into(),
        client_version: name.trim_start_matches("redis@").into(),
        driver: "redis-rs".into(),
        ..Subject::default()
    };
    let workload = WorkloadPlan {
        name: "get-64".into(),
        command: What::Get,
        callers: 64,
        pipeline: 1,
        payload: 64,
        fields: 100,
        keys: 1000,
        batch: 100,
    };
    let subjects = vec![subject("redis@0.32.7"), subject("redis@1.8.1")];
    let mut record = ComparisonRecord::new(Environment::read(), target, asked, subjects, vec![workload]);
    for number in 0..rounds {
        let turn = |subject, control, cpu: u64| {
            // A little more or less in every round, the same for none of the three.
            let waver = |step: u64| 1_000_000 + (number as u64 * step % 7) * 1_000;
            let figures = Figures {
                operations: 100_000,
                elapsed_ns: 500 * waver(cpu % 5 + 1),
                user_ns: cpu * waver(cpu % 3 + 2) / 10,
                server_commands: 100_000,
                server_reads: 20_000,
                ..Figures::default()
            };
            Turn { subject, control, measured: Some(figures), failed: None }
        };
        let turns = vec![turn(0, false, cpu[0]), turn(1, false, cpu[2]), turn(0, true, cpu[1])];
        record.rounds.push(Round { workload: "get-64".into(), turns });
    }
    record
}

#[test]
fn a_record_comes_back_as_it_was_saved_with_a_round_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/record.json");
    for rounds in [0, 3] {
        let mut record = record(rounds, [100, 100, 120]);
        record.judged = Some(record.judge(Look::ONLY));
        record.save(&path).unwrap();
        assert_eq!(ComparisonRecord::load(&path).unwrap(), record);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().filter(|line| line.contains("\"turns\"")).count(), rounds);
    }
}

#[test]
fn a_wrong_record_is_told_with_field_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.json");
    record(2, [100, 100, 100]).save(&path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let told = |text: &str| {
        std::fs::write(&path, text).unwrap();
        ComparisonRecord::load(&path).unwrap_err().to_string()
    };
    let line = text.lines().position(|line| line.contains("\"turns\"")).unwrap() + 2; // the second round
    let (first, second) = text.rsplit_once("\"operations\":100000").unwrap();
    let wrong = told(&format!("{first}\"operations\":-1{second}"));
    assert!(wrong.contains("rounds[1].turns[2].measured.operations") && wrong.contains(&format!("line {line} ")), "{wrong}");
    assert!(told(&text.replace("\"version\": 1,", "\"version\": 2,")).contains("newer rcb"));
    assert!(told(&text.replace("\"subject\":1", "\"subject\":7")).contains("subject 7"));
    assert!(told("{\"format\": \"redis-client-bench/load\", \"version\": 1}").contains("redis-client-bench/load"));
}

#[test]
fn rounds_are_judged_by_candidate_and_workload() {
    let record = record(20, [100, 100, 120]);
    let judged = record.judge(Look::ONLY);
    let cpu = judged.answers.iter().find(|answer| answer.analysis.metric == Metric::ClientCpu).unwrap();
    assert_eq!((cpu.subject, cpu.analysis.workload.as_str(), cpu.analysis.verdict), (1, "get-64", Verdict::Worse));
    assert!((cpu.analysis.ratio.median - 1.2).abs() < 0.01);
    let depth = judged.answers.iter().find(|answer| answer.analysis.metric == Metric::CommandsPerRead).unwrap();
    assert_eq!(depth.analysis.verdict, Verdict::NoDifference);
    assert!(!record.has_failed());
}

#[test]
fn workers_that_were_not_built_alike_are_told_once() {
    let mut record = record(1, [1, 1, 1]);
    record.subjects[0].facts.insert("build".into(), "debug".into());
    assert!(record.unlike_builds().is_empty(), "who says nothing is not compared");
    record.subjects[1].facts.insert("build".into(), "release".into());
    let told = record.unlike_builds();
    assert_eq!(told, ["the workers were not built alike (build): redis@0.32.7 debug, redis@1.8.1 release"]);
    record.warnings = told;
    assert!(record.unlike_builds().is_empty());
}

#[test]
fn a_baseline_keeps_one_subject_with_its_control() {
    let baseline = record(2, [100, 100, 120]).as_baseline(0);
    assert_eq!((baseline.subjects.len(), baseline.rounds[0].turns.len()), (1, 2));
    assert!(baseline.rounds[1].turn(0, true).is_some() && baseline.rounds[1].turn(1, false).is_none());
}
