//! Records as they are read from files, with failed and unsound rows among the sound ones.

use std::path::Path;

use crate::record::AnyRecord;
use crate::record::export::Sheet;

/// The sheet of a record's text, which goes through the same reader as a file.
pub fn sheet(name: &str, text: &str) -> Sheet {
    let record = AnyRecord::parse(Path::new(name), text.as_bytes()).unwrap();
    Sheet::of(name, &record)
}

const ENVIRONMENT: &str = r#""environment": {
  "os": "linux", "kernel": "6.18.44", "cpu": "AMD EPYC", "cores": 2, "memory": 25276514304, "load": null, "busy": 0.01, "governor": null,
  "virtualisation": "container", "rustc": "rustc 1.95.0", "target": "x86_64-unknown-linux-gnu", "debug_build": false, "version": "0.1.0"
}"#;

const TARGET: &str = r#"{
  "kind": "process", "topology": "standalone", "masters": 1, "replicas": 0,
  "server": {"product": "redis", "version": "7.0.15", "redis_version": "7.0.15"},
  "addresses": ["redis://127.0.0.1:21681"], "provided": "redis 7.0.15 standalone", "warnings": []
}"#;

const SETTINGS: &str = r#"{
  "connections": 4, "connections_opened": 4, "resp": 2, "profile": "tuned", "strategy": "window", "window_ns": 75000, "limit": 0,
  "scope": "shared", "in_flight": 4, "as_asked": true, "nodelay": true, "response_timeout_ms": 0
}"#;

/// A row of a bench with two samples: 1,000 operations in 1 ms and in 2 ms.
pub fn bench_row(driver: &str, callers: usize, deviations: &str) -> String {
    format!(
        r#"{{"name": "get-64B/{driver}/x", "cell": {{
          "workload": {{"operation": "get", "payload": 64, "fields": 0, "keys": 1000}}, "driver": "{driver}", "client": "redis",
          "client_version": "1.8.1", "topology": "standalone", "settings": {SETTINGS}, "callers": {callers},
          "runtime": {{"flavour": "multi-thread", "workers": 2}}}},
        "status": "measured", "samples": [{{"operations": 1000, "elapsed_ns": 1000000}}, {{"operations": 1000, "elapsed_ns": 2000000}}],
        "client_user_ns": 1500000, "client_system_ns": 500000, "allocations": 4000, "allocated_bytes": 128000, "peak_memory": 16777216,
        "server": {{"calls": {{"get": 2000}}, "reads": 200, "cpu_ns": 600000}},
        "audit": {{"workload": 2000, "checkout": 0, "housekeeping": 2, "deviations": [{deviations}]}}, "flushes": null,
        "marks": ["timer-bound"]}}"#
    )
}

/// Any row of a bench beside its cell's driver.
fn bench_rest(driver: &str, status: &str) -> String {
    let row = bench_row(driver, 8, "");
    let end = row.find("\"status\"").unwrap();
    format!("{}{status}}}", &row[..end])
}

pub fn bench_of(rows: &[String], complete: bool) -> String {
    format!(
        r#"{{"format": "redis-client-bench/record", "version": 1, "created": "2026-11-30T18:13:53Z", "made_by": "bench commands", {ENVIRONMENT},
        "targets": [{TARGET}], "warnings": ["busy machine: a | b"], "complete": {complete}, "rows": [{}]}}"#,
        rows.join(",")
    )
}

pub fn bench() -> Sheet {
    let rows = [
        bench_row("redis-rs", 8, ""),
        bench_row("fred", 8, "\"the servers executed 1999 get, we counted 2000\""),
        bench_rest("deadpool-redis", r#""status": "failed", "reason": "can't connect""#),
        bench_rest("bb8-redis", r#""status": "unsupported", "reason": "not on a cluster""#),
        bench_rest("rustis", r#""status": "verified""#),
        bench_row("raw", 8, "").replace("\"elapsed_ns\": 2000000", "\"elapsed_ns\": 0"),
    ];
    sheet("commands.json", &bench_of(&rows, false))
}

fn latency(p50: u64, p99: u64) -> String {
    format!(
        r#"{{"count": 1000, "min_ns": 1, "mean_ns": 50.5, "p50_ns": {p50}, "p90_ns": {p50}, "p95_ns": {p50}, "p99_ns": {p99}, "p999_ns": {p99}, "max_ns": {p99}}}"#
    )
}

/// A run of a load that took so many seconds for 10,000 commands.
pub fn load_run(driver: &str, round: u32, status: &str, seconds: f64, errors: u64) -> String {
    use crate::measure::latency::histogram;
    let mut values = histogram();
    (0..1000u64).for_each(|value| values.saturating_record(100_000 * u64::from(round) + value));
    let service = serde_json::to_value(crate::measure::Distribution::of(&values)).unwrap();
    let hdr = service["hdr"].as_str().unwrap();
    let latency = latency(service["latency"]["p50_ns"].as_u64().unwrap(), service["latency"]["p99_ns"].as_u64().unwrap());
    format!(
        r#"{{"workload": "GET __key__", "round": {round}, "driver": "{driver}", "client": "fred", "client_version": "10.1.0", "settings": {SETTINGS},
        "runtime": {{"flavour": "multi-thread", "workers": 2}}, "status": "{status}", "reason": null, "rate": 1.0, "figures": {{
          "duration": {seconds}, "commands": 10000, "errors": {errors}, "unanswered": 0, "errors_by_kind": [], "plan": null,
          "service": {{"latency": {latency}, "hdr": "{hdr}"}}, "planned": {{"latency": null, "hdr": null}}, "entries": [], "seconds": [],
          "client": {{"user_ns": 30000000, "system_ns": 10000000, "allocations": 20000, "allocated_bytes": 640000, "peak_memory": 1048576}},
          "server": {{"calls": {{"get": 10000}}, "reads": 2500, "cpu_ns": 20000000}},
          "audit": {{"workload": 10000, "checkout": 0, "housekeeping": 0, "deviations": []}}, "flushes": null}}}}"#
    )
}

pub fn load_of(runs: &[String]) -> String {
    format!(
        r#"{{"format": "redis-client-bench/load", "version": 1, "created": "2026-11-30T19:00:00Z", {ENVIRONMENT}, "target": {TARGET},
        "warnings": [], "complete": true, "asked": {{"keys": 10000, "key_distribution": "uniform", "data_size": "64", "seed": 1, "prefill": true,
          "callers": 64, "pipeline": 1, "transaction": false, "commands": 10000, "test_time": null, "warmup": 0.0, "open_loop": null,
          "verify": true, "continue_on_error": false, "rounds": 3}}, "runs": [{}]}}"#,
        runs.join(",")
    )
}

pub fn load() -> Sheet {
    let runs = [
        load_run("fred", 1, "done", 0.1, 0),
        load_run("fred", 2, "done", 0.2, 0),
        load_run("fred", 3, "stalled", 0.4, 0),
        load_run("fred-pool", 1, "done", 0.1, 7),
    ];
    sheet("load.json", &load_of(&runs))
}

fn bench_pubsub() -> Sheet {
    let row = |driver: &str, rest: &str| {
        format!(r#"{{"name": "publish-128B/{driver}/serial", "driver": "{driver}", "client": "redis 1.8.1", {rest}}}"#)
    };
    let measured = r#""status": "measured", "messages": 1000, "elapsed_ns": 5000000, "client_ns": 2000000, "server_ns": 1000000, "commands": 1000, "reads": 500, "runs": 10"#;
    let rows = [row("redis-rs", measured), row("fred", r#""status": "failed", "reason": "got 9 of 10""#)];
    let text = format!(
        r#"{{"format": "redis-client-bench/bench-pubsub", "version": 1, "created": "2026-11-30T20:00:00Z", "bench": "publish", {ENVIRONMENT},
        "targets": [{TARGET}], "warnings": [], "subscriber": "raw", "complete": true, "rows": [{}]}}"#,
        rows.join(",")
    );
    sheet("bench-publish.json", &text)
}

fn publish() -> Sheet {
    let row = |round: u32, received: u64, seconds: f64| {
        format!(
            r#"{{"driver": "rustis", "client": "rustis 0.27.2", "round": {round}, "mode": "batch", "size": 10, "status": "measured", "messages": 1000,
            "received": {received}, "real_s": {seconds}, "user_s": 0.01, "system_s": 0.02, "server_cpu_s": 0.005, "commands_per_read": null,
            "audit": {{"workload": 1000, "checkout": 0, "housekeeping": 0, "deviations": []}}}}"#
        )
    };
    let rows = [row(1, 1000, 0.1), row(2, 999, 0.1), row(3, 1000, 0.2)];
    let text = format!(
        r#"{{"format": "redis-client-bench/publish", "version": 1, "created": "2026-11-30T21:00:00Z", {ENVIRONMENT}, "target": {TARGET}, "warnings": [],
        "messages": 1000, "data_size": 128, "sharded": false, "connections": 1, "subscriber": "raw", "resp": 2, "profile": "tuned", "rounds": 3,
        "seed": 1, "complete": true, "rows": [{}]}}"#,
        rows.join(",")
    );
    sheet("publish.json", &text)
}

fn subscribe() -> Sheet {
    use crate::record::subscribe::{Ran, SubscribeRow};
    use crate::workload::pubsub::live::Percentiles;
    use crate::workload::pubsub::outcome::{ClientCpu, Outcome};
    use crate::workload::pubsub::stream::Tally;
    let latency = Percentiles { count: 100, mean_us: 5.0, p50_us: 4.0, p95_us: 8.0, p99_us: 9.0, p999_us: 9.5, max_us: 10.0 };
    let whole = Outcome {
        measured: 1000,
        duration_s: 2.0,
        tally: Tally { received: 1000, ..Tally::default() },
        latency: Some(latency),
        client_cpu: ClientCpu { user_s: 0.1, system_s: 0.1 },
        ..Outcome::default()
    };
    let lossy = Outcome { tally: Tally { received: 1000, lost: 10, ..Tally::default() }, ..whole.clone() };
    let unsound = Outcome { deviations: vec!["the servers executed 9 PUBLISH, we counted 10".into()], ..whole.clone() };
    let row = |driver: &str, outcome: Outcome| {
        let result = Ran::Measured(Box::new(outcome));
        let row = SubscribeRow { driver: driver.into(), round: 1, client: "redis 1.8.1".into(), way: "x".into(), buffer: None, result };
        serde_json::to_string(&row).unwrap()
    };
    let rows = [row("redis-rs", whole), row("fred", lossy), row("rustis", unsound), row("raw", Outcome::default())];
    let text = format!(
        r#"{{"format": "redis-client-bench/subscribe", "version": 1, "created": "2026-11-30T22:00:00Z", {ENVIRONMENT}, "target": {TARGET},
        "warnings": [], "mode": "subscribe", "resp": 2, "profile": "tuned", "channels": 100, "subscribers_per_channel": 9,
        "channels_per_subscriber": 1, "distribute_subscribers": false, "publishers": 1, "publish_rps": null, "publish_batch": 1, "data_size": 128,
        "subscriber_delay_s": 0.0, "churn_interval_s": null, "warm_up_s": 1.0, "latency_from": "sending", "rounds": 1, "seed": 1, "complete": true,
        "rows": [{}]}}"#,
        rows.join(",")
    );
    sheet("subscribe.json", &text)
}

/// One record of each kind.
pub fn all() -> Vec<Sheet> {
    vec![bench(), load(), bench_pubsub(), publish(), subscribe()]
}
