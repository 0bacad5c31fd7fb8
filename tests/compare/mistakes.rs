//! The user's mistakes: one sentence with a hint and exit code 2, before any work.

use super::support::{Results, fake};
use redis_client_bench::record::comparison::ComparisonRecord;

fn told(results: &Results, arguments: &[&str]) -> String {
    let (code, text, error) = results.run(arguments);
    assert_eq!(code, Some(2), "{arguments:?}: {text}{error}");
    assert!(!error.contains("target:"), "nothing was started: {error}");
    error
}

#[test]
fn each_is_told_with_a_hint() {
    let results = Results::new();
    let good = fake("");
    for (arguments, hint) in [
        (&[][..], "name two subjects"),
        (&["raw"], "name a second subject, or an older session with --baseline"),
        (&["raw", "jedis"], "this build has: raw"),
        (&["raw", "raw@latest"], "CRATE@VERSION"),
        (&["raw", "raw:speed=1"], "there are connections, resp"),
        (&["raw", "raw:connections=2", "raw"], "named twice"),
        (&["raw", "x@worker:/not/there"], "docs/WORKER.md"),
        (&["raw", "raw", "--workload", "none"], "there are get-1, get-16"),
        (&["raw", "raw", "--workload", "get-1,get-1"], "named twice"),
        (&["raw", "raw", "--config", "/not/there.toml"], "/not/there.toml"),
        (&["raw", "raw", "--max-regression", "5"], "5% or 0.05"),
        (&["raw", "raw", "--metrics", "speed"], "there are rate, p50"),
        (&["raw", "raw", "--time", "0"], "give more"),
        (&["raw", "--baseline", "main"], "there is none yet"),
        (&["raw", "raw", "--baseline", "main"], "none yet"),
        (&["raw", "raw", "--save-baseline", "../x"], "no name for a baseline"),
        (&["--resume", "/not/there.json"], "can't read the record /not/there.json"),
        (&["raw", good.as_str(), "--resume", "x.json"], "cannot be used with"),
    ] {
        let error = told(&results, arguments);
        assert!(error.contains(hint), "{arguments:?}: {error}");
    }
}

#[test]
fn a_broken_or_newer_record_is_told_with_field_and_line() {
    let results = Results::new();
    let (code, _, error, record) = results.recorded(&["raw", "raw", "--workload", "get-1", "--time", "20ms", "--max-time", "1ms"]);
    assert_eq!(code, Some(0), "{error}");
    let broken = results.0.path().join("broken.json");
    let broken = broken.to_str().unwrap();
    ComparisonRecord { complete: false, ..record }.save(broken.as_ref()).unwrap();
    let text = std::fs::read_to_string(broken).unwrap();
    for (from, to, hint) in [
        ("\"operations\":", "\"operations\":-", "measured.operations"),
        ("\"seed\":", "\"seeds\":", "missing field `seed`"),
        ("\"version\": 1,", "\"version\": 2,", "newer rcb"),
    ] {
        std::fs::write(broken, text.replacen(from, to, 1)).unwrap();
        let error = told(&results, &["--resume", broken]);
        assert!(error.contains(hint) && error.contains("broken.json"), "{error}");
        assert!(error.contains("line ") || hint == "newer rcb", "{error}");
    }
}

#[test]
fn a_record_that_cannot_be_written_is_told_before_the_rounds() {
    let results = Results::new();
    let file = results.0.path().join("file");
    std::fs::write(&file, "").unwrap();
    let out = file.join("out.json");
    let (code, text, error) = results.run(&["raw", "raw", "--workload", "get-1", "--out", out.to_str().unwrap()]);
    assert_eq!(code, Some(2), "{text}{error}");
    assert!(error.contains("can't write") && error.contains("--out"), "{error}");
}
