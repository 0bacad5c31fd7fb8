//! The users' mistakes: one sentence, exit 2, before anything is sent.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use super::support::{Server, executed, output, rcb};

#[test]
fn a_mistake_in_the_flags_is_told_before_any_server_is_asked() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let (folder, file) = (folder.path().to_str().unwrap(), folder.path().join("a"));
    let (nowhere, file) = (format!("{folder}/none/out.json"), file.to_str().unwrap());
    let cases: &[(&[&str], &str)] = &[
        (&["--cmd", "PING", "--cmd", "GET __key__", "--cmd-ratio", "1"], "1 ratios were given for 2 commands"),
        (&["--cmd", "PING", "--cmd-ratio", "-1"], "ratio -1"),
        (&["--cmd", "SET 'a"], "quotes"),
        (&["-r", "0", "GET", "__key__"], "0 keys"),
        (&["--field-range", "0", "HGET", "__key__", "__field__"], "range of fields is 0"),
        (&["--cmd", "SET __key__ __data__", "--cmd", "LPUSH __key__ 1"], "different types"),
        (&["--rps", "10", "--rps-schedule", "0s=10", "PING"], "cannot be used with"),
        (&["--rps", "0", "PING"], "can't be kept"),
        (&["--rps", "1e9", "PING"], "can't be kept"),
        (&["--rps", "0.5", "--test-time", "1s", "PING"], "not one command is due"),
        (&["--rps-burst", "5", "PING"], "--rps-burst needs --rps"),
        (&["--arrivals", "poisson", "PING"], "give --rps"),
        (&["--rps", "100", "--rps-burst", "5", "-P", "4", "PING"], "whole number of pipelines"),
        (&["--rps-schedule", "0s=10,5s=0", "PING"], "give --test-time"),
        (&["--rps-schedule", "5s=10,1s=20", "PING"], "order of time"),
        (&["--test-time", "0", "PING"], "duration of 0"),
        (&["--test-time", "soon", "PING"], "no duration"),
        (&["--patience", "0s", "PING"], "duration of 0"),
        (&["-n", "0", "PING"], "give at least 1"),
        (&["-c", "0", "PING"], "at least 1"),
        (&["-P", "4", "--window", "75us", "SET", "__key__", "1"], "would not be measured"),
        (&["--window", "75", "PING"], "with its unit"),
        (&["--limit", "4", "PING"], "--window"),
        (&["-d", "5-4", "SET", "__key__", "__data__"], "no size of data"),
        (&["--key-distribution", "normal", "GET", "__key__"], "no distribution"),
        (&["--mix-large", "1.5:1MiB"], "share and size"),
        (&["--driver", "jedis", "PING"], "unknown driver \"jedis\""),
        (&["--driver", "raw,raw", "PING"], "named twice"),
        (&["--driver", "redis-rs", "--connections", "5", "PING"], "at most 1 connection"),
        (&["-t", "get,nothing"], "no preset"),
        (&["SUBSCRIBE", "a"], "what its connection is used for"),
        (&["--multi", "BLPOP", "__key__", "1"], "inside a transaction"),
        (&["--runtime", "current-thread", "--threads", "2", "PING"], "one thread"),
        (&["--json-out-file", &nowhere, "PING"], "can't write"),
        (&["--csv", folder, "PING"], "directory"),
        (&["--csv", file, "--json-out-file", file, "PING"], "a file of its own"),
        (&["--hdr-file", file, "--rounds", "2", "PING"], "log of one run"),
        (&["--resp", "4", "PING"], "2 or 3"),
        (&[], "nothing to send"),
        (&["--csc-mode", "opt-in", "GET", "__key__"], "--csc"),
        (&["--csc-noloop", "GET", "__key__"], "--csc"),
        (&["--csc-ttl", "1s", "GET", "__key__"], "--csc"),
        (&["--csc-entries", "5", "GET", "__key__"], "--csc"),
        (&["--csc-per-client-bytes", "5", "GET", "__key__"], "--csc"),
        (&["--csc-baseline", "GET", "__key__"], "--csc"),
        (&["--csc-lag-probes", "5", "GET", "__key__"], "--csc"),
        (&["--external-writers", "GET", "__key__"], "--csc"),
        (&["--allow-stale", "GET", "__key__"], "--csc"),
        (&["--csc", "--csc-entries", "5", "--csc-per-client-bytes", "5", "GET", "__key__"], "cannot be used with"),
        (&["--csc", "--csc-entries", "0", "GET", "__key__"], "a cache of 0 keys caches nothing"),
        (&["--csc", "--csc-per-client-bytes", "0MiB", "GET", "__key__"], "a cache of 0 bytes caches nothing"),
        (&["--csc", "--csc-per-client-bytes", "64MB", "GET", "__key__"], "write bytes, or a unit"),
        (&["--csc", "--csc-ttl", "0s", "GET", "__key__"], "duration of 0"),
        (&["--csc", "--csc-mode", "some", "GET", "__key__"], "broadcast"),
        (&["--csc", "--csc-lag-probes", "100000", "GET", "__key__"], "a load of their own"),
        (&["--csc", "--resp", "2", "GET", "__key__"], "leave out --resp"),
        (&["--csc", "-P", "4", "GET", "__key__"], "passes by the cache; leave out -P"),
        (&["--csc", "--multi", "GET", "__key__"], "leave out --multi"),
        (&["--csc", "--window", "75us", "GET", "__key__"], "leave out --window"),
        (&["--csc", "--window", "off", "GET", "__key__"], "leave out --window"),
        (&["--csc", "--mix-large", "0.01:1MiB"], "--mix-large"),
        (&["--csc", "--no-verify", "GET", "__key__"], "leave out --no-verify"),
        (&["--csc", "--connections", "4", "--driver", "raw", "GET", "__key__"], "one tracked connection"),
        (&["--csc", "-d", "15", "GET", "__key__"], "-d 16 or more"),
        (&["--csc", "-d", "8-64", "GET", "__key__"], "-d 16 or more"),
        (&["--csc", "PING"], "PING"),
        (&["--csc", "-t", "get,lpush"], "`lpush`"),
        (&["--csc", "--cmd", "GET __key__", "--cmd", "SET __key__ 1"], "SET __key__ 1"),
        (&["--csc", "--cmd", "GET __key__", "--cmd", "SET __key__ __data__ EX 100"], "SET __key__ __data__ EX 100"),
        (&["--csc", "--cmd", "GET user:1"], "GET user:1"),
        (&["--csc", "SET", "__key__", "__data__"], "reads nothing"),
        (&["--csc", "-t", "get,set"], "set reads nothing"),
        (&["--csc", "--driver", "redis-rs,deadpool-redis", "GET", "__key__"], "deadpool-redis has no client-side cache"),
        (&["--csc", "--driver", "raw,redis-rs-pool", "GET", "__key__"], "measure redis-rs; drivers that can: raw,"),
        (&["--csc", "--driver", "bb8-redis", "GET", "__key__"], "drivers that can: raw,"),
        (&["--csc", "--driver", "redis-rs", "--csc-mode", "broadcast", "GET", "__key__"], "redis-rs has no broadcast mode"),
        (&["--csc", "--driver", "raw,redis-rs", "--csc-noloop", "GET", "__key__"], "no way to add NOLOOP"),
        (&["--csc", "--driver", "rustis", "--csc-mode", "opt-in", "GET", "__key__"], "rustis sends no CLIENT CACHING YES"),
        (
            &["--csc", "--driver", "redis-rs", "--csc-per-client-bytes", "60", "GET", "__key__"],
            "not one key with its value of 85 bytes fits",
        ),
    ];
    for (arguments, wanted) in cases {
        let (code, out, error) = output(rcb(&["--url", &url]).args(*arguments));
        assert_eq!(code, Some(2), "{arguments:?}: {error}");
        assert!(error.contains(wanted) && error.starts_with("error: ") && out.is_empty(), "{arguments:?}: {out} {error}");
        // The flags' parser adds how to get help, and lists what is missing on a line of its own.
        let sentence = error.split("\n\n").next().unwrap();
        assert!(sentence.trim_end().lines().filter(|line| !line.starts_with("  ")).count() == 1, "{arguments:?}: {error}");
        assert!(listener.accept().is_err(), "{arguments:?} asked the server");
    }
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0, "nothing is left of the outputs");
}

#[test]
fn what_only_the_server_can_tell_is_told_once_before_the_clock_starts() {
    let server = Server::start(&[]);
    let port = server.port();
    for (arguments, wanted) in [
        (&["NOSUCH", "__key__"][..], "unknown command"),
        (&["GET", "__key__", "more"], "wrong number of arguments"),
        (&["--cluster", "PING"], "standalone"),
        (&["FLUSHALL"], "not ours"),
        (&["SET", "user:1", "value"], "the key user:1 of a server that is not ours"),
        (&["RENAME", "__key__", "user:1"], "the key user:1 of a server that is not ours"),
        (&["SCRIPT", "FLUSH"], "--foreign-keys"),
        (&["-r", "1000000000000", "GET", "__key__"], "could not be removed"),
        (&["--driver", "redis-rs-cluster", "PING"], "cluster only"),
    ] {
        let before = executed(&[server.endpoint()]);
        let (code, out, error) = output(rcb(&["-p", &port]).args(arguments));
        assert_eq!(code, Some(2), "{arguments:?}: {error}");
        assert!(error.contains(wanted) && out.is_empty(), "{arguments:?}: {out} {error}");
        assert_eq!(error.matches(wanted).count(), 1, "{error}");
        assert!(!error.contains("Test time"), "the clock was started: {error}");
        let after = executed(&[server.endpoint()]);
        for name in ["get", "set", "flushall", "del"] {
            assert_eq!(before.get(name).unwrap_or(&0), after.get(name).unwrap_or(&0), "{arguments:?} sent {name}");
        }
    }
}

/// A server that calls itself `version` and knows no command but INFO; returns its port and what it was sent.
fn server_of(version: &'static str) -> (u16, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = asked.clone();
    // It ends with the test's process.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, heard) = (stream.unwrap(), heard.clone());
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(count) = stream.read(&mut bytes)
                    && count > 0
                {
                    heard.lock().unwrap().extend_from_slice(&bytes[..count]);
                    let text = format!("redis_version:{version}\r\nredis_mode:standalone\r\nrole:master\r\n");
                    let knows = bytes[..count].windows(4).any(|word| word.eq_ignore_ascii_case(b"info"));
                    let reply = if knows { format!("${}\r\n{text}\r\n", text.len()) } else { "-ERR unknown command\r\n".to_owned() };
                    stream.write_all(reply.as_bytes()).unwrap();
                }
            });
        }
    });
    (port, asked)
}

#[test]
fn a_server_without_tracking_is_told_before_any_work() {
    let (port, asked) = server_of("5.0.14");
    let (code, out, error) = output(&mut rcb(&["--csc", "-p", &port.to_string(), "--driver", "raw", "GET", "__key__"]));
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("--csc needs CLIENT TRACKING") && error.contains("6.0") && error.contains("redis 5.0.14"), "{error}");
    assert!(out.is_empty() && !error.contains("Test time"), "{out} {error}");
    let asked = String::from_utf8_lossy(&asked.lock().unwrap()).to_ascii_uppercase();
    assert!(asked.contains("INFO") && ["SET\r\n", "GET\r\n", "TRACKING"].iter().all(|word| !asked.contains(word)), "{asked}");
}
