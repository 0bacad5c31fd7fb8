//! Exact counts with every driver, on a server and on a cluster.

use std::time::Duration;

use redis_client_bench::drivers::{DRIVERS, Descriptor, Settings, Strategy, Topology};
use redis_client_bench::net::Endpoint;
use redis_client_bench::workload::runs_on;

use super::common;
use super::support::{Server, executed, load, more, only, resp_of};

/// Neither a multiple of the callers nor of a pipeline.
const COMMANDS: u64 = 10_003;

fn drivers(topology: Topology, strategy: Strategy) -> Vec<&'static Descriptor> {
    let settings = |driver: &Descriptor| Settings { strategy, resp: driver.usual_resp(), ..Settings::default() };
    let found: Vec<_> = DRIVERS.iter().filter(|driver| runs_on(driver, &settings(driver), topology).is_ok()).collect();
    assert!(found.len() >= 2, "{topology} {strategy}");
    found
}

/// One run, whose count, whose audit and whose servers must agree.
fn counts_are_exact(endpoints: &[Endpoint], driver: &str, flags: &[&str], command: &[&str]) {
    let urls: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
    let urls = urls.join(",");
    let before = executed(endpoints);
    let common = ["--url", &urls, "--driver", driver, "--resp", resp_of(driver), "-n", "10003", "-c", "50", "-r", "500"];
    let (code, out, error, json) = load(&[&common, flags, command].concat());
    let case = format!("{driver} {flags:?}: {out} {error}");
    let run = only(&json);
    assert_eq!((code, run["status"].as_str(), json["complete"].as_bool()), (Some(0), Some("done"), Some(true)), "{case}");
    let figures = &run["figures"];
    assert_eq!((figures["commands"].as_u64(), figures["errors"].as_u64()), (Some(COMMANDS), Some(0)), "{case}");
    assert_eq!(figures["audit"]["deviations"].as_array().map(Vec::len), Some(0), "{case}");
    assert_eq!(more(endpoints, &before, "set"), COMMANDS, "{case}");
    assert_eq!(figures["service"]["latency"]["count"].as_u64(), Some(COMMANDS), "{case}");
    assert!(out.contains("Total Commands 10003"), "{case}");
    let transactions = if flags.contains(&"--multi") { COMMANDS.div_ceil(4) } else { 0 };
    for name in ["multi", "exec"] {
        assert_eq!(more(endpoints, &before, name), transactions, "{case}");
    }
    assert_eq!(figures["audit"]["workload"].as_u64(), Some(COMMANDS + 2 * transactions), "{case}");
    assert_eq!(figures["flushes"].is_null(), !flags.contains(&"--window"), "{case}");
}

/// Every way of sending.
fn every_way(endpoints: &[Endpoint], topology: Topology) {
    let one_slot = ["SET", "{one}__key__", "__data__"];
    let any = if topology == Topology::Cluster { ["SET", "__key__", "__data__"] } else { one_slot };
    for driver in drivers(topology, Strategy::Native) {
        counts_are_exact(endpoints, driver.name, &[], &any);
        counts_are_exact(endpoints, driver.name, &["-P", "16"], &one_slot);
        counts_are_exact(endpoints, driver.name, &["--multi", "-P", "4"], &one_slot);
    }
    for driver in drivers(topology, Strategy::window(Duration::from_micros(75), 0)) {
        counts_are_exact(endpoints, driver.name, &["--window", "75us"], &any);
    }
}

#[test]
fn every_driver_sends_exactly_its_budget_to_a_server() {
    let server = Server::start(&[]);
    every_way(&[server.endpoint()], Topology::Standalone);
}

#[test]
fn every_driver_sends_exactly_its_budget_to_a_cluster() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (_, guard) = runtime.block_on(common::cluster());
    let endpoints: Vec<Endpoint> = guard.nodes().iter().map(|node| node.endpoint.clone()).collect();
    every_way(&endpoints, Topology::Cluster);
}

#[test]
fn drivers_take_turns_and_end_in_one_table_with_a_share_of_raw() {
    let names: Vec<&str> = DRIVERS.iter().map(|driver| driver.name).filter(|name| *name != "redis-rs-cluster").collect();
    let server = Server::start(&[]);
    let list = names.join(",");
    // All of them speak RESP3.
    let flags =
        ["-p", &server.port(), "--driver", &list, "--resp", "3", "-n", "503", "-c", "4", "--rounds", "2", "-r", "50", "-t", "ping,get"];
    let (code, out, error, json) = load(&flags);
    let runs = json["runs"].as_array().unwrap();
    assert_eq!((code, runs.len()), (Some(0), names.len() * 4), "{out} {error}");
    for name in &names {
        let own: Vec<_> = runs.iter().filter(|run| run["driver"] == **name).collect();
        assert_eq!(own.len(), 4);
        assert!(own.iter().all(|run| run["figures"]["commands"] == 503 && run["status"] == "done"), "{name}");
    }
    let table = out.split_once("of raw").unwrap().1;
    assert!(names.iter().all(|name| table.contains(name)) && table.contains("100%") && table.contains("exact"), "{table}");
}
