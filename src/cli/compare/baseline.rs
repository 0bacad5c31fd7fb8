//! Sessions that are kept under a name, to be compared with later.

use std::path::{Path, PathBuf};

use crate::measure::{Environment, Machine};
use crate::record::comparison::{Asked, ComparisonRecord};
use crate::target::TargetFacts;

/// The file of the baseline called `name`.
pub fn path(results: &Path, name: &str) -> Result<PathBuf, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'@' | b'+');
    if name.is_empty() || name.starts_with('.') || !name.bytes().all(plain) {
        return Err(format!("{name:?} is no name for a baseline; use letters, digits and . _ - @ +"));
    }
    Ok(results.join("baselines").join(format!("{name}.json")))
}

/// Reads the baseline called `name`.
pub fn load(results: &Path, name: &str) -> Result<ComparisonRecord, String> {
    let path = path(results, name)?;
    if !path.exists() {
        let mut known: Vec<String> = std::fs::read_dir(results.join("baselines"))
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_suffix(".json").map(str::to_owned))
            .collect();
        known.sort();
        let known = if known.is_empty() { "none yet".to_owned() } else { known.join(", ") };
        return Err(format!("no baseline {name:?} in {}; there is {known}; save one with --save-baseline", results.display()));
    }
    let record = ComparisonRecord::load(&path).map_err(|error| error.to_string())?;
    if record.subjects.is_empty() || record.rounds.is_empty() {
        return Err(format!("{} holds no rounds to compare with", path.display()));
    }
    Ok(record)
}

/// In what the machine of `older` differs from this one.
pub fn other_machine(older: &ComparisonRecord, environment: &Environment) -> Vec<String> {
    let (was, is) = (Machine::of(&older.environment), Machine::of(environment));
    let mut other = Vec::new();
    if was.id != is.id {
        other.push(format!("its machine was {}, this is {}", was.text, is.text));
    }
    if older.environment.debug_build != environment.debug_build {
        let build = |debug| if debug { "a debug build" } else { "a release build" };
        other.push(format!("it was {}, this is {}", build(older.environment.debug_build), build(environment.debug_build)));
    }
    other
}

/// In what the servers of `older` differ from these.
pub fn other_target(older: &TargetFacts, target: &TargetFacts) -> Vec<String> {
    let server = |facts: &TargetFacts| format!("{} {}", facts.server.product, facts.server.version);
    let shape = |facts: &TargetFacts| match facts.topology {
        crate::drivers::Topology::Standalone => "standalone".to_owned(),
        crate::drivers::Topology::Cluster => format!("a cluster of {} masters and {} replicas", facts.masters, facts.replicas),
    };
    let mut other = Vec::new();
    for (what, was, is) in [
        ("server", server(older), server(target)),
        ("topology", shape(older), shape(target)),
        ("target", older.kind.to_string(), target.kind.to_string()),
    ] {
        if was != is {
            other.push(format!("its {what} was {was}, this is {is}"));
        }
    }
    other
}

/// In what was asked for then and is asked for now differ, as far as it sways figures.
pub fn otherwise_asked(older: &Asked, asked: &Asked) -> Vec<String> {
    let mut other = Vec::new();
    let millis = |nanos: u64| format!("{} ms", nanos as f64 / 1e6);
    let pinned = |asked: &Asked| if asked.pinned.is_some() { "pinned" } else { "not pinned" }.to_owned();
    let spinner = |asked: &Asked| if asked.spinner { "with --spin" } else { "without --spin" }.to_owned();
    for (what, was, is) in [
        ("observations were", millis(older.time_ns), millis(asked.time_ns)),
        ("warm-ups were", millis(older.warm_up_ns), millis(asked.warm_up_ns)),
        ("processes were", pinned(older), pinned(asked)),
        ("session was", spinner(older), spinner(asked)),
    ] {
        if was != is {
            other.push(format!("its {what} {was}, now {is}"));
        }
    }
    other
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::comparison::tests::record;

    #[test]
    fn names_stay_within_their_folder() {
        assert_eq!(path(Path::new("results"), "main-1.8").unwrap(), Path::new("results/baselines/main-1.8.json"));
        for wrong in ["", "../x", "a/b", ".x", "a b"] {
            assert!(path(Path::new("results"), wrong).is_err(), "{wrong}");
        }
        let folder = tempfile::tempdir().unwrap();
        let told = load(folder.path(), "main").unwrap_err();
        assert!(told.contains("none yet") && told.contains("--save-baseline"), "{told}");
        record(1, [1, 1, 1]).save(&path(folder.path(), "other").unwrap()).unwrap();
        assert!(load(folder.path(), "main").unwrap_err().contains("there is other"));
        assert!(load(folder.path(), "other").is_ok());
        record(0, [1, 1, 1]).save(&path(folder.path(), "none").unwrap()).unwrap();
        assert!(load(folder.path(), "none").unwrap_err().contains("no rounds"));
    }

    #[test]
    fn every_difference_of_machine_server_topology_and_settings_is_told() {
        let older = record(1, [1, 1, 1]);
        assert!(other_machine(&older, &older.environment).is_empty());
        let mut here = older.environment.clone();
        here.cores += 1;
        here.debug_build = !here.debug_build;
        assert_eq!(other_machine(&older, &here).len(), 2);
        let mut target = older.target.clone();
        assert!(other_target(&older.target, &target).is_empty());
        target.server.version = "8.2".into();
        target.topology = crate::drivers::Topology::Cluster;
        let told = other_target(&older.target, &target).join("; ");
        assert!(told.contains("redis 7.0.15, this is redis 8.2") && told.contains("standalone, this is a cluster of 1"), "{told}");
        let asked = Asked { time_ns: 1_000_000, ..older.asked.clone() };
        assert_eq!(otherwise_asked(&older.asked, &asked), ["its observations were 500 ms, now 1 ms"]);
    }
}
