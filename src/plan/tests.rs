//! The shipped configuration is right, and each mistake gets one clear sentence.

use super::{BenchConfig, commands, pipeline_window};

const SHIPPED: &str = include_str!("../../benches/bench.toml");

/// The shipped file with one place changed.
fn changed(from: &str, to: &str) -> String {
    assert!(SHIPPED.contains(from), "{from}");
    SHIPPED.replacen(from, to, 1)
}

// Its texts list the drivers of a whole build.
#[cfg(all(feature = "redis-rs", feature = "fred", feature = "deadpool-redis", feature = "bb8-redis", feature = "rustis"))]
#[test]
fn every_mistake_gets_a_clear_sentence() {
    let mistakes = [
        ("an unknown key", changed("samples = 10", "sampels = 10")),
        ("an unknown section", format!("{SHIPPED}\n[tuning]\nfast = true\n")),
        ("a negative window", changed("windows_us = [0, 50", "windows_us = [-50, 50")),
        ("a window that is no number", changed("windows_us = [0, 50", "windows_us = [nan, 50")),
        (
            "no window",
            changed("windows_us = [0, 50, 75, 100, 150]", "windows_us = []").replacen("idle = true", "idle = false", 1).replacen(
                "native = true",
                "native = false",
                1,
            ),
        ),
        ("zero connections", changed("connections = [4]", "connections = [0]")),
        ("no callers", changed("callers = [8, 256]", "callers = []")),
        ("too many callers", changed("callers = [8, 256]", "callers = [8, 100000]")),
        ("an unknown driver", changed("\"deadpool-redis\", \"bb8-redis\"]\nconnections = [4]", "\"jedis\"]\nconnections = [4]")),
        ("no driver", changed("[\"raw\", \"redis-rs-pool\", \"fred-pool\", \"deadpool-redis\", \"bb8-redis\"]", "[]")),
        ("an unknown operation", changed("operation = \"hkeys\"", "operation = \"lpush\"")),
        ("an unknown RESP version", changed("resp = 2", "resp = 4")),
        ("an unknown profile", changed("profile = \"tuned\"", "profile = \"fast\"")),
        ("an unknown scope", changed("scopes = [\"shared\"]", "scopes = [\"global\"]")),
        ("too few samples", changed("samples = 10", "samples = 3")),
        (
            "a deadline shorter than a measurement",
            changed("deadline_s = 60", "deadline_s = 1").replacen("measurement_ms = 1000", "measurement_ms = 2000", 1),
        ),
        ("no keys", changed("keys = 1000", "keys = 0")),
        ("a cluster that is none", changed("shape = \"3x1\"", "shape = \"three\"")),
        ("a standalone cluster", changed("shape = \"3x1\"", "shape = \"standalone\"")),
        ("a window named twice", changed("windows_us = [0, 50,", "windows_us = [0, 50, 50.0,")),
        ("a driver named twice", changed("[\"raw\", \"redis-rs-pool\", \"fred-pool\",", "[\"raw\", \"raw\", \"fred-pool\",")),
        ("a window of a few nanoseconds", changed("windows_us = [0, 50,", "windows_us = [0, 0.005,")),
        ("no TOML", changed("[timing]", "[timing")),
        ("a string where a number belongs", changed("samples = 10", "samples = \"ten\"")),
    ];
    use std::fmt::Write;
    let mut all = String::new();
    for (what, text) in &mistakes {
        let error = BenchConfig::parse(text, "bench.toml").expect_err(what);
        writeln!(all, "## {what}\n{error}\n").unwrap();
    }
    insta::assert_snapshot!("mistakes", all);
}

#[test]
fn a_file_that_is_not_there_is_named_with_the_variable() {
    let error = BenchConfig::load("/nowhere/bench.toml".as_ref()).unwrap_err().to_string();
    assert!(error.contains("/nowhere/bench.toml") && error.contains("RCB_CONFIG"), "{error}");
}

#[cfg(all(feature = "redis-rs", feature = "fred", feature = "deadpool-redis", feature = "bb8-redis", feature = "rustis"))]
#[test]
fn the_shipped_file_sweeps_what_it_promises() {
    let config = BenchConfig::parse(SHIPPED, "bench.toml").unwrap();
    let windows = pipeline_window(&config);
    use crate::drivers::Topology;
    let of = |topology| windows.iter().filter(move |group| group.topology == topology);
    assert!(of(Topology::Standalone).count() >= 2 && of(Topology::Cluster).count() >= 1);
    assert!(of(Topology::Cluster).flat_map(|group| &group.cells).all(|cell| cell.settings.connections.get() == 20));
    for group in &windows {
        for driver in ["raw", "redis-rs-pool", "fred-pool", "deadpool-redis", "bb8-redis"] {
            let line: Vec<&str> = group.cells.iter().filter(|cell| cell.function == driver).map(|cell| cell.parameter.as_str()).collect();
            assert_eq!(line, ["0", "50", "75", "100", "150"], "{driver} in {}", group.name);
        }
        assert!(group.cells.iter().all(|cell| cell.parameter.parse::<f64>().is_ok()), "a line chart needs numbers");
    }
    let all: Vec<_> = windows.iter().chain(&commands(&config)).flat_map(|group| group.cells.clone()).collect();
    assert!(all.iter().any(|cell| cell.workload.payload == 4096) && all.iter().any(|cell| cell.workload.fields == 10));
}

#[test]
fn names_are_unique_and_every_part_is_short() {
    let config = BenchConfig::parse(
        &changed("limits = [0]", "limits = [0, 64]").replacen("[\"shared\"]", "[\"shared\", \"per-connection\"]", 1),
        "bench.toml",
    );
    let config = config.unwrap();
    let groups: Vec<_> = pipeline_window(&config).into_iter().chain(commands(&config)).collect();
    let mut ids: Vec<String> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for group in &groups {
        for cell in &group.cells {
            ids.push(format!("{}/{}/{}", group.name, cell.function, cell.parameter));
            names.push(cell.cell.name());
        }
    }
    for list in [&mut ids, &mut names] {
        let count = list.len();
        assert!(list.iter().all(|name| name.split('/').count() == 3 && name.split('/').all(|part| (1..=64).contains(&part.len()))));
        list.sort();
        list.dedup();
        assert_eq!(list.len(), count, "two cells of one name");
    }
}
