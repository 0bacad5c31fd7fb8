//! Errors that stop a run, and errors that are counted.

use super::support::{Server, executed, load, more, only, resp_of};

/// SET makes strings of which INCR makes nothing.
const HALF: [&str; 4] = ["--cmd", "SET __key__ abc", "--cmd", "INCR __key__"];

#[test]
fn errors_that_are_counted_are_in_the_summary_by_kind_and_in_the_servers_count() {
    let server = Server::start(&[]);
    let endpoints = [server.endpoint()];
    for driver in redis_client_bench::drivers::DRIVERS.iter().filter(|driver| driver.name != "redis-rs-cluster") {
        let before = executed(&endpoints);
        let flags = ["-p", &server.port(), "--driver", driver.name, "-n", "2001", "-r", "1", "-c", "5", "--continue-on-error"];
        let (code, out, error, json) = load(&[&flags[..], &["--resp", resp_of(driver.name)], &HALF].concat());
        let case = format!("{}: {out} {error}", driver.name);
        let run = only(&json);
        assert_eq!((code, run["status"].as_str()), (Some(0), Some("done")), "{case}");
        let figures = &run["figures"];
        let (set, incr) = (&figures["entries"][0], &figures["entries"][1]);
        let number = |value: &serde_json::Value| value.as_u64().unwrap();
        assert_eq!(number(&figures["commands"]) + number(&figures["errors"]), 2_001, "{case}");
        assert_eq!((number(&set["errors"]), number(&set["commands"])), (0, more(&endpoints, &before, "set")), "{case}");
        assert_eq!(number(&incr["commands"]) + number(&incr["errors"]), more(&endpoints, &before, "incr"), "{case}");
        let kinds = figures["errors_by_kind"].as_array().unwrap();
        assert_eq!((kinds.len(), kinds[0]["kind"].as_str()), (1, Some("ERR")), "{case}");
        assert_eq!((number(&kinds[0]["count"]), number(&figures["unanswered"])), (number(&figures["errors"]), 0), "{case}");
        // INCR succeeds only before the first SET.
        assert!(number(&incr["errors"]) > 600, "{case}");
        assert!(out.contains("not an integer") && out.contains("Audit: the servers counted the same 2001 commands"), "{case}");
    }
}

#[test]
fn the_first_error_ends_with_exit_1_a_summary_and_a_record() {
    let server = Server::start(&[]);
    let endpoints = [server.endpoint()];
    for driver in redis_client_bench::drivers::DRIVERS.iter().filter(|driver| driver.name != "redis-rs-cluster") {
        for budget in ["1000000", "1"] {
            let before = executed(&endpoints);
            let flags = ["-p", &server.port(), "--driver", driver.name, "-n", budget, "-r", "1", "-c", "5", "--prefill"];
            let flags = [&flags[..], &["--resp", resp_of(driver.name)]].concat();
            let (code, out, error, json) = load(&[&flags[..], &["EVAL", "return redis.error_reply('SAD story')", "0"]].concat());
            let case = format!("{} -n {budget}: {out} {error}", driver.name);
            let run = only(&json);
            assert_eq!((code, run["status"].as_str()), (Some(1), Some("error")), "{case}");
            assert!(run["reason"].as_str().unwrap().contains("SAD story") && out.contains("STOPPED at an error"), "{case}");
            let errors = run["figures"]["errors"].as_u64().unwrap();
            assert!((1..=5).contains(&errors), "one for each caller at the most: {case}");
            assert_eq!(more(&endpoints, &before, "eval"), errors, "{case}");
        }
    }
}
