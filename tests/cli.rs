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

/// The rows of the table of caches: the driver's name, and the rest of its line.
fn cache_table(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().skip_while(|line| !line.trim_start().starts_with("cache ")).skip(1).take_while(|line| !line.trim().is_empty());
    lines
        .map(|line| {
            let (name, rest) = line.trim().split_once(' ').unwrap();
            (name.to_owned(), rest.split_whitespace().collect::<Vec<_>>().join(" "))
        })
        .collect()
}

#[test]
fn caches_are_listed_with_modes_counts_and_reasons_for_people_and_machines() {
    let (_, text, _) = output(&mut rcb(&["drivers"]));
    let (_, json, _) = output(&mut rcb(&["drivers", "--json"]));
    let list: serde_json::Value = serde_json::from_str(&json).unwrap();
    let rows = cache_table(&text);
    // Beginnings of rows: modes on a server and on a cluster, capacity, who counts hits, who counts evictions, what a miss sends beside the read.
    let both = "reported by the client nobody can tell";
    let known = [
        (
            "raw",
            "every mode; noloop every mode; noloop entries or bytes counted by the harness counted by the harness CLIENT CACHING (opt-in)"
                .to_owned(),
        ),
        ("redis-rs", format!("all, opt-in – entries {both} PTTL (all), CLIENT CACHING (opt-in), PTTL (opt-in)")),
        ("redis-rs-manager", format!("all, opt-in – entries {both} PTTL (all)")),
        ("redis-rs-cluster", format!("– all, opt-in entries {both} PTTL (all)")),
        (
            "fred",
            "every mode; noloop all, opt-in; noloop entries or bytes counted by the harness counted by the harness CLIENT CACHING"
                .to_owned(),
        ),
        ("rustis", "all, broadcast; noloop all, broadcast; noloop entries counted by the harness counted by the harness – ".to_owned()),
    ];
    for driver in list.as_array().unwrap() {
        let (name, cache) = (driver["name"].as_str().unwrap(), &driver["client_side_cache"]);
        let row = rows.iter().find(|(row, _)| row == name).map(|(_, rest)| rest);
        let wanted = known.iter().find(|(known, _)| *known == name).map(|(_, rest)| rest);
        assert_eq!(row.is_some(), wanted.is_some(), "{name}: {rows:#?}");
        assert_eq!(cache["way"].is_null(), wanted.is_none(), "{name}");
        let Some((row, wanted)) = row.zip(wanted) else {
            // A driver that is not in the table says in its notes why.
            let reason = cache["modes"].as_array().unwrap().last().unwrap()["reasons"][0].as_str().unwrap();
            assert!(text.contains(&format!("  - Unsupported caching: {reason}.")), "{name}: {reason}");
            continue;
        };
        assert!(row.starts_with(wanted.as_str()), "{name}: {row}");
        for one in cache["modes"].as_array().unwrap() {
            let modes = one["modes"].as_array().unwrap();
            assert_eq!(one["resp"] == 3, modes.iter().any(|mode| mode == "all"), "{name}: {one}");
        }
        let details = &cache["details"];
        for who in ["hits_and_misses", "invalidations"] {
            assert!(["client", "harness"].contains(&details[who].as_str().unwrap()), "{name}: {details}");
        }
        assert_eq!(details["evictions"].is_null(), row.contains("nobody can tell"), "{name}: {details}");
        let beside = details["beside_miss"].as_array().unwrap();
        assert!(beside.iter().all(|one| one["calls"] == 1 && one["command"].is_string() && one["mode"].is_string()), "{name}: {details}");
        assert_eq!(
            beside.iter().filter(|one| one["command"] == "pttl").count(),
            if name.starts_with("redis-rs") { 3 } else { 0 },
            "{name}"
        );
        for note in details["notes"].as_array().unwrap() {
            assert!(text.contains(&format!("  - Cache: {}", note.as_str().unwrap())), "{name}: {note}");
        }
    }
    assert!(!rows.is_empty());
}

#[cfg(feature = "rustis")]
#[test]
fn a_protocol_that_the_only_driver_does_not_speak_is_told_before_any_work() {
    for driver in ["rustis", "rustis-pool"] {
        for arguments in [&["load", "GET", "__key__"][..], &["publish", "-n", "1"], &["subscribe"]] {
            let named = [&arguments[..1], &["--target", "process", "--driver", driver], &arguments[1..]].concat();
            let (code, out, error) = output(&mut rcb(&named));
            assert_eq!(code, Some(2), "{named:?}: {error}");
            let wanted = format!("{driver}: unsupported: this client speaks RESP3 only; give --resp 3, or another driver");
            assert!(error.contains(&wanted) && !error.contains("target:") && out.is_empty(), "{named:?}: {error}");
        }
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
