//! `rcb` as a user meets it.

use std::io::Write;
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

/// `rcb` with no target in its environment but what the test gives.
fn rcb(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rcb"));
    for variable in ["REDIS_URL", "RCB_TARGET_KIND", "RCB_IMAGE", "RCB_TOPOLOGY"] {
        command.env_remove(variable);
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

fn output(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn drivers_are_listed_with_versions_for_people_and_machines() {
    let (code, text, _) = output(&mut rcb(&["drivers"]));
    assert_eq!(code, Some(0));
    assert!(text.contains("subscriber") && text.contains("waits in the socket"), "{text}");
    assert!(text.contains("raw") && text.contains("redis-client-bench 0."), "{text}");
    assert!(text.contains("Client-side caches") && text.contains("CLIENT CACHING (opt-in)"), "{text}");
    let (code, json, _) = output(&mut rcb(&["drivers", "--json"]));
    let list: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(code, Some(0));
    for driver in list.as_array().unwrap() {
        assert!(driver["version"].as_str().unwrap().split('.').count() >= 3, "{driver}");
        // What it can't subscribe to, it says why.
        for one in driver["pubsub"]["subscriptions"].as_array().unwrap() {
            let (kinds, reasons) = (one["kinds"].as_array().unwrap(), one["reasons"].as_array().unwrap());
            assert_eq!(kinds.len() == 3, reasons.is_empty(), "{driver}");
        }
        let cache = &driver["client_side_cache"];
        for one in cache["modes"].as_array().unwrap() {
            let (modes, noloop, reasons) = (one["modes"].as_array(), one["noloop"].as_array(), one["reasons"].as_array());
            let all = modes.unwrap().len() + noloop.unwrap().len() == 6;
            assert_eq!(all, reasons.unwrap().is_empty(), "{driver}");
        }
        assert_eq!(cache["way"].is_null(), cache["details"].is_null(), "{driver}");
        assert_eq!(driver["pubsub"]["way"].is_null(), driver["pubsub"]["buffer"].is_null(), "{driver}");
    }
}

#[test]
fn help_has_examples_and_every_verb() {
    let (code, text, _) = output(&mut rcb(&["--help"]));
    assert_eq!(code, Some(0));
    for word in ["Examples:", "drivers", "target", "calibrate"] {
        assert!(text.contains(word), "{word}");
    }
}

#[test]
fn a_target_is_started_described_and_ended() {
    let (code, json, error) = output(&mut rcb(&["target", "--target", "process", "--json"]));
    assert_eq!(code, Some(0), "{error}");
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["target"]["kind"], "process");
    assert_eq!(report["target"]["masters"], 1);
    assert!(report["environment"]["cores"].as_u64().unwrap() >= 1);
    let address = report["target"]["addresses"][0].as_str().unwrap().trim_start_matches("redis://").to_owned();
    assert!(std::net::TcpStream::connect(&address).is_err(), "{address} still listens");
}

#[test]
fn the_users_mistakes_get_one_sentence_and_exit_2() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mute = format!("redis://:hunter2@{}", silent.local_addr().unwrap());
    let nobody = format!("redis://:hunter2@{free}");
    let answer = std::thread::spawn(move || {
        // A server that is not Redis.
        let (mut stream, _) = silent.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        // Held open until the other side is done with it.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    for (arguments, wanted) in [
        (vec!["target", "--url", "http://:hunter2@localhost"], "redis://[user:password@]host:port"),
        (vec!["target", "--url", mute.as_str()], "not a Redis server"),
        (vec!["target", "--url", nobody.as_str()], "can't be reached"),
        (vec!["target", "--target", "process", "--server-bin", "/nowhere/redis-server"], "/nowhere/redis-server"),
        (vec!["target", "--topology", "0x1"], "1 to 60 nodes"),
        (vec!["calibrate", "--driver", "jedis"], "unknown driver \"jedis\""),
        (vec!["calibrate", "--target", "process", "--topology", "3x0"], "standalone"),
        (vec!["bencher"], "unrecognized subcommand"),
    ] {
        let (code, out, error) = output(&mut rcb(&arguments));
        assert_eq!(code, Some(2), "{arguments:?}: {error}");
        assert!(error.contains(wanted) && out.is_empty(), "{arguments:?}: {error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
    answer.join().unwrap();
}
