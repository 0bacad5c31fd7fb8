//! Workers of this build, against real servers.

use super::support::Results;
use redis_client_bench::record::comparison::What;

#[test]
fn a_session_against_itself_says_so_and_every_count_is_the_servers() {
    let results = Results::new();
    let workloads = "get-16,pipeline-100,hkeys-100,set-16k,receive";
    let flags = ["--workload", workloads, "--time", "40ms", "--warm-up", "10ms", "--max-time", "1ms"];
    let (code, text, error, record) = results.recorded(&[&["raw", "raw"], &flags[..]].concat());
    assert_eq!(code, Some(0), "{text}{error}");
    assert!(text.contains("A/A session") && text.contains("too few rounds"), "{text}");
    assert_eq!((record.rounds.len(), record.complete), (5, true), "one round of each is the least");
    for round in &record.rounds {
        let what = record.workload(&round.workload).unwrap().command;
        for turn in &round.turns {
            let figures = turn.measured.as_ref().unwrap_or_else(|| panic!("{turn:?}"));
            assert!(figures.operations > 0 && figures.server_commands == figures.operations, "{}: {figures:?}", round.workload);
            assert!(figures.user_ns + figures.system_ns > 0 && figures.allocations.is_some(), "{figures:?}");
            assert_eq!(figures.p50_ns.is_some(), what != What::Receive);
            assert!(round.workload != "pipeline-100" || figures.operations % 100 == 0);
        }
    }
    assert_eq!(record.subjects[0].client_version(), format!("redis-client-bench {}", env!("CARGO_PKG_VERSION")));
}

#[test]
fn on_a_cluster_too() {
    let results = Results::new();
    let flags = ["--workload", "get-16,receive", "--time", "40ms", "--warm-up", "10ms", "--max-time", "1ms", "--topology", "3x0"];
    let (code, text, error, record) = results.recorded(&[&["raw", "raw:nodelay=off"], &flags[..]].concat());
    assert_eq!(code, Some(0), "{text}{error}");
    assert_eq!((record.rounds.len(), record.target.masters), (2, 3));
    assert_eq!(record.subjects[1].facts["nodelay"], "off");
}

#[cfg(feature = "redis-rs")]
#[test]
fn settings_reach_the_client_and_checkouts_are_allowed_for() {
    let results = Results::new();
    let subjects = ["redis-rs:nodelay=off", "redis-rs:nodelay=on", "redis-rs-pool:connections=2,resp=3,profile=default"];
    let flags = ["--workload", "get-16", "--time", "40ms", "--warm-up", "10ms", "--max-time", "1ms"];
    let (code, text, error, record) = results.recorded(&[&subjects[..], &flags[..]].concat());
    assert_eq!(code, Some(0), "{text}{error}");
    let facts = |place: usize, name: &str| record.subjects[place].facts[name].clone();
    assert_eq!([facts(0, "nodelay"), facts(1, "nodelay"), facts(2, "connections")], ["off", "on", "2"]);
    assert!(record.subjects.iter().all(|subject| subject.client == "redis" && subject.client_version.contains('.')));
}

#[test]
fn burdens_show_in_the_client_cpu() {
    let results = Results::new();
    let flags = ["--workload", "get-16", "--time", "60ms", "--warm-up", "10ms", "--max-time", "1ms", "--metrics", "client-cpu"];
    let (_, text, error, record) = results.recorded(&[&["raw", "raw:burden=200us"], &flags[..]].concat());
    let ratio = record.judge(redis_client_bench::compare::Look::ONLY).answers.first().map(|answer| answer.analysis.ratio.median);
    // 200 µs beside the few that an operation takes.
    assert!(ratio.is_some_and(|ratio| ratio > 2.0), "{ratio:?} {text}{error}");
}

/// The worker of the documentation, in a language of its own.
#[test]
fn the_documented_worker_works() {
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        return;
    }
    let results = Results::new();
    let worker = format!("mine@worker:{}/docs/worker.py", env!("CARGO_MANIFEST_DIR"));
    let flags = ["--workload", "get-1,get-16", "--time", "40ms", "--warm-up", "10ms", "--max-time", "1ms"];
    let (code, text, error, record) = results.recorded(&[&["raw", worker.as_str()], &flags[..]].concat());
    assert_eq!(code, Some(0), "{text}{error}");
    assert_eq!(record.subjects[1].client, "python-sockets");
    assert!(text.contains("get-16: ") && text.contains("this worker has one caller"), "{text}");
    let figures = record.rounds[0].turn(1, false).and_then(|turn| turn.measured).unwrap();
    assert!(figures.p50_ns.is_some() && figures.allocations.is_none() && figures.server_commands == figures.operations);
}
