//! `rcb load --csc` with every driver that caches: counts beside the servers' own, files, exit codes.

use nix::sys::signal::Signal;
use redis_client_bench::drivers::{CacheMode, DRIVERS, Descriptor, Resp, Topology};
use redis_client_bench::net::Endpoint;
use serde_json::Value as Json;

use super::common;
use super::support::{Server, executed, load, more, once_under_way, only, output, rcb, send};

/// The document's mix: a quarter of the commands are writes.
const MIX: [&str; 8] = ["--cmd", "SET __key__ __data__", "--cmd-ratio", "0.25", "--cmd", "GET __key__", "--cmd-ratio", "0.75"];

fn drivers(topology: Topology, mode: CacheMode) -> Vec<&'static Descriptor> {
    DRIVERS.iter().filter(|driver| driver.runs_on(topology) && driver.cache.check(topology, Resp::V3, mode, false).is_ok()).collect()
}

fn number(value: &Json) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no whole number"))
}

/// A run whose own counts, audit and servers must agree to the command.
fn counts_are_exact(endpoints: &[Endpoint], driver: &Descriptor, flags: &[&str]) -> Json {
    let urls = endpoints.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let before = executed(endpoints);
    // Whether they are stale is a matter of the client; see below.
    let common = ["--csc", "--allow-stale", "--url", &urls, "--driver", driver.name, "-n", "10003", "-c", "20", "-r", "200"];
    let (code, out, error, json) = load(&[&common, flags, &MIX].concat());
    let case = format!("{} {flags:?}: {out} {error}", driver.name);
    let run = only(&json);
    let figures = &run["figures"];
    assert_eq!((code, run["status"].as_str(), run["cached"].as_bool()), (Some(0), Some("done"), Some(true)), "{case}");
    assert_eq!((number(&figures["commands"]), number(&figures["errors"])), (10_003, 0), "{case}");
    assert_eq!(figures["audit"]["deviations"].as_array().map(Vec::len), Some(0), "{case}");
    let cache = &figures["cache"];
    let counted = |name: &str| number(&cache["counts"][name]);
    let (reads, writes) = (number(&figures["entries"][1]["commands"]), number(&figures["entries"][0]["commands"]));
    let probes = &cache["probe_reads"];
    // Every read of a caller is a hit or a miss, and the servers saw the misses only.
    assert_eq!(counted("hits") + counted("misses"), reads + number(&probes["hits"]) + number(&probes["misses"]), "{case}");
    assert_eq!(more(endpoints, &before, "get"), counted("misses"), "{case}");
    assert!(more(endpoints, &before, "set") >= writes, "{case}");
    assert!(counted("misses") > 0 && counted("invalidations") > 0, "{case}");
    let by_class: u64 = ["hit", "miss", "unknown"].iter().filter_map(|class| cache[class]["latency"]["count"].as_u64()).sum();
    assert_eq!((by_class, number(&cache["write"]["latency"]["count"])), (reads, writes), "{case}");
    let stale = &cache["staleness"];
    assert_eq!(number(&stale["checked"]), reads, "{case}");
    assert_eq!(
        (number(&stale["stale_from_server"]), number(&stale["after_disconnect"]), number(&stale["fences_failed"])),
        (0, 0, 0),
        "{case}"
    );
    assert!(number(&stale["with_floor"]) > 0 && number(&stale["clean_writes"]) > 0 && stale["unjudged"].is_null(), "{case}");
    assert!(out.contains("cache hits per second") && (out.contains("Staleness: none in") || out.contains("STALE: ")), "{case}");
    json
}

#[test]
fn every_driver_counts_exactly_on_a_server_in_each_of_its_modes() {
    for mode in CacheMode::ALL {
        let able = drivers(Topology::Standalone, mode);
        assert!(able.iter().any(|driver| driver.name == "raw"), "{mode}");
        for driver in able {
            let server = Server::start(&[]);
            let json = counts_are_exact(&[server.endpoint()], driver, &["--csc-mode", &mode.to_string()]);
            assert_eq!(only(&json)["figures"]["cache"]["mode"].as_str(), Some(&*mode.to_string()));
        }
    }
}

#[test]
fn every_driver_counts_exactly_on_a_cluster() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (_, guard) = runtime.block_on(common::cluster());
    let endpoints: Vec<Endpoint> = guard.nodes().iter().map(|node| node.endpoint.clone()).collect();
    for driver in drivers(Topology::Cluster, CacheMode::All) {
        counts_are_exact(&endpoints, driver, &[]);
    }
}

#[test]
fn foreign_writers_are_told_apart_in_flags_record_and_lag() {
    for driver in drivers(Topology::Standalone, CacheMode::All) {
        let server = Server::start(&[]);
        let json = counts_are_exact(&[server.endpoint()], driver, &["--external-writers", "--csc-lag-probes", "0"]);
        let cache = &only(&json)["figures"]["cache"];
        assert_eq!((cache["external_writers"].as_bool(), cache["lag"].is_null()), (Some(true), true), "{}", driver.name);
        assert_eq!(json["asked"]["cache"]["external_writers"].as_bool(), Some(true));
    }
}

#[test]
fn a_small_capacity_evicts_and_in_bytes_is_told_to_who_counts_keys() {
    let server = Server::start(&[]);
    let flags = ["--csc", "-p", &server.port(), "--driver", "raw,redis-rs", "-n", "5000", "-c", "4", "-r", "500"];
    let (code, out, error, json) = load(&[&flags[..], &["--csc-per-client-bytes", "8500", "GET", "__key__"]].concat());
    assert_eq!(code, Some(0), "{out} {error}");
    // A key is rcb:load: and twelve digits, its value 64 bytes.
    assert!(error.contains("redis-rs counts keys, not bytes: 8500 bytes are 100 keys of 85 bytes"), "{error}");
    for run in json["runs"].as_array().unwrap() {
        let cache = &run["figures"]["cache"];
        let ours = run["driver"] == "raw";
        assert_eq!(number(&cache["capacity"][if ours { "bytes" } else { "entries" }]), if ours { 8500 } else { 100 }, "{run}");
        // Of 500 keys in equal use a cache of 100 has about one in five.
        assert!(number(&cache["counts"]["misses"]) > 2_500, "{run}");
        assert_eq!(cache["counts"]["evictions"].is_null(), !ours, "{run}");
    }
    assert!(out.contains("evictions: nobody can tell"), "{out}");
}

#[test]
fn a_baseline_does_the_same_work_without_the_cache() {
    let server = Server::start(&[]);
    let port = server.port();
    let names: Vec<_> = drivers(Topology::Standalone, CacheMode::All).iter().map(|driver| driver.name).collect();
    let list = names.join(",");
    let flags = ["--csc", "--csc-baseline", "--allow-stale", "-p", &port, "--driver", &list, "-n", "2003", "-c", "8", "-r", "50"];
    let (code, out, error, json) = load(&[&flags[..], &MIX].concat());
    assert_eq!(code, Some(0), "{out} {error}");
    let runs = json["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2 * names.len());
    for name in names {
        let of = |cached: bool| runs.iter().find(|run| run["driver"] == name && run["cached"] == cached).unwrap();
        let (cached, plain) = (of(true), of(false));
        for entry in 0..2 {
            let commands = |run: &Json| number(&run["figures"]["entries"][entry]["commands"]);
            assert_eq!(commands(cached), commands(plain), "{name}");
        }
        let figures = &plain["figures"];
        assert_eq!(number(&figures["server"]["calls"]["get"]), number(&figures["entries"][1]["commands"]), "{name}");
        assert_eq!(number(&figures["cache"]["counts"]["hits"]), 0, "{name}");
        assert_eq!(plain["settings"]["resp"], cached["settings"]["resp"], "{name}");
        assert!(out.contains(&format!("{name} uncached")), "{out}");
    }
    assert!(out.contains("cache of") && out.contains("hit p50 ns"), "{out}");
}

fn stale_reads(run: &Json) -> u64 {
    let stale = &run["figures"]["cache"]["staleness"];
    ["stale_from_cache", "stale_from_server", "after_disconnect"].map(|name| number(&stale[name])).iter().sum()
}

#[test]
fn what_a_run_says_of_stale_reads_is_what_it_exits_with() {
    // redis-rs 1.8.1 can put a reply into its cache after its invalidation, so there usually are some, and raw must have none.
    for name in ["raw", "redis-rs"] {
        let server = Server::start(&[]);
        let port = server.port();
        let flags = ["--csc", "-p", &port, "--driver", name, "-n", "10003", "-c", "20", "-r", "50"];
        for allowed in [false, true] {
            let extra: &[&str] = if allowed { &["--allow-stale"] } else { &[] };
            let (code, out, error, json) = load(&[&flags[..], extra, &MIX].concat());
            let stale = stale_reads(only(&json));
            assert!(stale == 0 || name != "raw", "{out}");
            assert_eq!(code, Some(i32::from(stale > 0 && !allowed)), "{out} {error}");
            assert_eq!(out.contains("STALE: "), stale > 0, "{out}");
            assert_eq!(out.contains("allowed by --allow-stale"), stale > 0 && allowed, "{out}");
            assert_eq!(json["asked"]["cache"]["allow_stale"].as_bool(), Some(allowed));
        }
    }
}

#[test]
fn with_noloop_own_writes_of_a_client_that_keeps_them_are_not_judged_and_foreign_ones_are() {
    let server = Server::start(&[]);
    let port = server.port();
    let flags = ["--csc", "--csc-noloop", "--allow-stale", "-p", &port, "--driver", "rustis", "-n", "5003", "-c", "8", "-r", "20"];
    for external in [false, true] {
        let extra: &[&str] = if external { &["--external-writers"] } else { &[] };
        let (code, out, error, json) = load(&[&flags[..], extra, &MIX].concat());
        assert_eq!(code, Some(0), "{out} {error}");
        let stale = &only(&json)["figures"]["cache"]["staleness"];
        assert_eq!(stale["unjudged"].is_null(), external, "{out}");
        assert_eq!(out.contains("Staleness: not judged; with NOLOOP"), !external, "{out}");
        assert_eq!(number(&stale["with_floor"]) > 0, external, "{out}");
    }
}

#[test]
fn the_live_line_shows_hits_and_invalidations_and_ctrl_c_keeps_the_figures() {
    let server = Server::start(&[]);
    let endpoints = [server.endpoint()];
    let folder = tempfile::tempdir().unwrap();
    let (json, csv) = (folder.path().join("out.json"), folder.path().join("out.csv"));
    let port = server.port();
    let before = executed(&endpoints);
    let flags = ["--csc", "-p", &port, "--driver", "raw", "-c", "8", "-r", "100", "--test-time", "60s"];
    let files = ["--json-out-file", json.to_str().unwrap(), "--csv", csv.to_str().unwrap()];
    let (code, out, error) = once_under_way(&mut rcb(&[&flags[..], &files, &MIX].concat()), |child| send(child, Signal::SIGINT));
    assert_eq!(code, Some(130), "{out} {error}");
    // Time, share done, commands, errors, share of errors, rate, hits/s, invalidations/s, p50.
    let line = error.lines().find(|line| line.contains("%]")).unwrap();
    let columns: Vec<&str> = line.rsplit("%]").next().unwrap().split_whitespace().collect();
    assert!(columns[..3].iter().all(|column| column.parse::<u64>().unwrap() > 0), "{line}");
    let json: Json = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let run = only(&json);
    let cache = &run["figures"]["cache"];
    assert_eq!((run["status"].as_str(), json["complete"].as_bool()), (Some("interrupted"), Some(false)), "{out}");
    assert_eq!(more(&endpoints, &before, "get"), number(&cache["counts"]["misses"]), "{out}");
    assert_eq!(run["figures"]["audit"]["deviations"].as_array().map(Vec::len), Some(0), "{out}");
    let sum = |name: &str| cache["seconds"].as_array().unwrap().iter().map(|second| number(&second[name])).sum::<u64>();
    assert_eq!(sum("hits"), number(&cache["counts"]["hits"]) - number(&cache["probe_reads"]["hits"]), "{out}");
    let text = std::fs::read_to_string(&csv).unwrap();
    let mut table = csv::Reader::from_reader(text.as_bytes());
    let names = table.headers().unwrap().clone();
    let place = names.iter().position(|name| name == "cache_hits").unwrap();
    let hits = table.records().map(|row| row.unwrap()[place].parse::<u64>().unwrap()).sum::<u64>();
    assert_eq!(hits, sum("hits"), "{text}");
}

#[test]
fn a_mode_that_one_of_several_drivers_lacks_is_told_before_any_work() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (_, guard) = runtime.block_on(common::cluster());
    let endpoints: Vec<Endpoint> = guard.nodes().iter().map(|node| node.endpoint.clone()).collect();
    let urls = endpoints.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let before = executed(&endpoints);
    let flags = ["--csc", "--csc-mode", "broadcast", "--url", &urls, "--driver", "raw,fred", "GET", "__key__"];
    let (code, out, error) = output(&mut rcb(&flags));
    assert_eq!(code, Some(2), "{error}");
    assert!(
        error.contains("fred can't cache with --csc-mode broadcast: on a cluster fred asks only one node") && out.is_empty(),
        "{error}"
    );
    assert_eq!(more(&endpoints, &before, "set"), 0, "{error}");
}
