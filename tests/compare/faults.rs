//! Workers that crash, hang, lie and babble: each a failed observation with its reason, and the others go on.

use super::support::{QUICK, Results, fake};
use redis_client_bench::record::comparison::ComparisonRecord;

/// What is said of a worker that behaves so, beside a good one.
fn told(behaviours: &[(&str, &str)]) -> (String, ComparisonRecord) {
    let results = Results::new();
    let mut subjects = vec![fake(""), fake("cpu=1001")];
    subjects.extend(behaviours.iter().map(|(behaviour, _)| fake(&format!("behaviour={behaviour}"))));
    let subjects: Vec<&str> = subjects.iter().map(String::as_str).collect();
    let (code, text, error, record) = results.recorded(&[&subjects[..], QUICK].concat());
    assert_eq!(code, Some(1), "{text}{error}");
    for (place, (behaviour, wanted)) in behaviours.iter().enumerate() {
        let left_out = record.left_out.iter().find(|left_out| left_out.subject == place + 2).expect(behaviour);
        assert!(left_out.reason.contains(wanted) && !left_out.unsupported, "{behaviour}: {}", left_out.reason);
        assert!(text.contains(&format!("behaviour={behaviour}: FAILED: given up after 3 failures")), "{text}");
    }
    // The good one has its verdicts, from rounds that nobody spoilt.
    let judged = record.judged.as_ref().unwrap();
    assert!(judged.answers.iter().all(|answer| answer.subject == 1 && answer.analysis.ratio.rounds >= 10), "{text}");
    (text, record)
}

#[test]
fn workers_that_break_off_or_break_the_protocol() {
    told(&[
        ("crash", "SIGSEGV"),
        ("garbage", "the answer \"hello\" is none of the protocol"),
        ("refuse", "version 1 is not spoken"),
        ("version-2", "the worker speaks version 2 of the protocol, this rcb speaks version 1"),
        ("early", "figures where \"ready\" was to be expected"),
        ("babble", "went on to say \"more\""),
        ("bad-end", "exit status: 7 after its figures"),
    ]);
}

#[test]
fn workers_that_lie() {
    told(&[
        ("more", "audit failed"),
        ("fewer", "audit failed"),
        ("other", "audit failed"),
        ("none", "not one operation was done"),
        ("slow-clock", "but it had only"),
        ("fast-clock", "its answer came only after"),
    ]);
}

#[test]
fn a_worker_that_hangs_is_killed_and_one_that_changes_its_version_refused() {
    told(&[("hang", "no answer within 830ms where \"measured\" was to be expected: killed")]);
    let results = Results::new();
    let (good, changing) = (fake(""), fake("behaviour=changing"));
    let (code, _, error, record) = results.recorded(&[&[good.as_str(), &changing, "--max-time", "1s"], &QUICK[..8]].concat());
    assert_eq!(code, Some(1), "{error}");
    assert!(record.failures().all(|(subject, _, reason)| subject == 1 && reason.contains("the worker says that it is fake")), "{error}");
    assert!(record.failures().count() >= 1);
}

#[test]
fn what_a_client_cannot_do_is_a_statement_and_no_failure() {
    let results = Results::new();
    let subjects = [fake(""), fake("cpu=1001"), fake("behaviour=unsupported")];
    let subjects: Vec<&str> = subjects.iter().map(String::as_str).collect();
    let (code, text, _, record) = results.recorded(&[&subjects[..], QUICK].concat());
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("behaviour=unsupported: it has no GET") && !text.contains("FAILED"), "{text}");
    assert!(record.left_out[0].unsupported && record.rounds[0].turns.len() == 3, "the round goes on without it");
}

#[test]
fn passwords_reach_workers_and_nothing_else() {
    let results = Results::new();
    let folder = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let mut server = std::process::Command::new(std::env::var_os("RCB_SERVER_BIN").unwrap_or("redis-server".into()))
        .args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--requirepass", "hunter2", "--dir"])
        .arg(folder.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_err() {
        assert!(std::time::Instant::now() < deadline, "the server did not start");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let url = format!("redis://:hunter2@127.0.0.1:{port}");
    let out = results.out();
    let subjects = [fake(""), fake("cpu=1001"), fake("behaviour=crash"), fake("behaviour=garbage"), "raw".to_owned()];
    let subjects: Vec<&str> = subjects.iter().map(String::as_str).collect();
    let (code, text, error) = results.run_on(&["--url", &url], &[&subjects[..], QUICK, &["--out", out.to_str().unwrap()]].concat());
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(code, Some(1), "{error}");
    let record = std::fs::read_to_string(&out).unwrap();
    assert!(!format!("{text}{error}{record}").contains("hunter2"), "{text}{error}");
    assert!(record.contains("the password is ***") && record.contains("hello ***"), "{error}");
    let record = ComparisonRecord::load(&out).unwrap();
    assert!([0, 1, 4].iter().all(|subject| !record.failures().any(|(failed, ..)| failed == *subject)), "{error}");
}
