//! Ctrl-C, and a server that stops for a while.

use std::time::Duration;

use nix::sys::signal::Signal;
use redis_client_bench::drivers::DRIVERS;

use super::support::{Server, executed, more, once_under_way, only, rcb, resp_of, send};

/// A run with `flags` that is interrupted once it is under way.
fn interrupted_count_is_exact(server: &Server, driver: &str, flags: &[&str]) {
    let endpoints = [server.endpoint()];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.json");
    let (file, port) = (path.to_str().unwrap(), server.port());
    let before = executed(&endpoints);
    let arguments = ["-p", &port, "--driver", driver, "-c", "20", "-r", "100", "--test-time", "60s", "--json-out-file", file];
    let mut command = rcb(&[&arguments[..], &["--resp", resp_of(driver)], flags, &["SET", "__key__", "__data__"]].concat());
    let (code, out, error) = once_under_way(&mut command, |child| send(child, Signal::SIGINT));
    let case = format!("{driver} {flags:?}: {out} {error}");
    let json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let run = only(&json);
    assert_eq!((code, run["status"].as_str(), json["complete"].as_bool()), (Some(130), Some("interrupted"), Some(false)), "{case}");
    let figures = &run["figures"];
    let commands = figures["commands"].as_u64().unwrap();
    assert_eq!(more(&endpoints, &before, "set"), commands, "{case}");
    assert_eq!((figures["errors"].as_u64(), figures["unanswered"].as_u64()), (Some(0), Some(0)), "{case}");
    assert!(out.contains(&format!("Total Commands {commands}\n")) && out.contains("INTERRUPTED"), "{case}");
    assert!(figures["duration"].as_f64().unwrap() < 60.0, "{case}");
    if let Some(plan) = figures["plan"].as_object() {
        // What was offered until then, at the rate that was asked for.
        assert!((plan["offered_rate"].as_f64().unwrap() - 2000.0).abs() < 20.0, "{case}");
        assert_eq!(plan["sent"].as_u64(), Some(commands), "{case}");
    }
}

#[test]
fn after_ctrl_c_the_count_is_the_servers() {
    let closed: &[&str] = &[];
    let open: &[&str] = &["--rps", "2000"];
    let cases = DRIVERS.iter().filter(|driver| driver.name != "redis-rs-cluster").map(|driver| (driver.name, closed));
    let cases: Vec<_> = cases.chain([("raw", open), ("raw", &["-P", "16"]), ("fred", &["--multi", "-P", "4"])]).collect();
    // Most of each is waiting for the first second, so several share it.
    for together in cases.chunks(4) {
        std::thread::scope(|scope| {
            for &(driver, flags) in together {
                scope.spawn(move || interrupted_count_is_exact(&Server::start(&[]), driver, flags));
            }
        });
    }
}

#[test]
fn a_server_that_pauses_shows_from_the_planned_time() {
    let server = Server::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.json");
    let port = server.port();
    let arguments = ["-p", &port, "--driver", "raw", "-c", "10", "-r", "100", "--rps", "500", "--test-time", "3s"];
    let outputs = ["--json-out-file", path.to_str().unwrap(), "SET", "__key__", "__data__"];
    let (code, out, error) = once_under_way(&mut rcb(&[&arguments[..], &outputs].concat()), |_| {
        server.signal(Signal::SIGSTOP);
        // How long it pauses is what is measured.
        std::thread::sleep(Duration::from_millis(400));
        server.signal(Signal::SIGCONT);
    });
    assert_eq!(code, Some(0), "{out} {error}");
    let json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let figures = &only(&json)["figures"];
    let of = |kind: &str, figure: &str| figures[kind]["latency"][figure].as_u64().unwrap();
    assert_eq!((figures["commands"].as_u64(), figures["plan"]["offered"].as_u64()), (Some(1_500), Some(1_500)), "{out}");
    assert!(of("planned", "max_ns") >= 300_000_000, "{out}");
    // 400 ms of 3 s: the 95th percentile of all that were planned is among those that waited, and half of all were not.
    assert!(of("planned", "p95_ns") >= 100_000_000, "{out}");
    assert!(of("service", "p50_ns") < 50_000_000, "{out}");
    assert!(out.contains("Latency from the planned send time") && out.contains("Service time"), "{out}");
}
