//! The bench `client_cache`: its part of `bench.toml`, and its cells.

use std::num::{NonZeroU64, NonZeroUsize};

use serde::Deserialize;

use super::config::{MOST, all_differ, check_drivers, check_sizes, check_timing};
use super::{BenchConfig, Group, PlannedCell, TimingConfig};
use crate::drivers::{CacheMode, Resp, Settings, Topology, find};
use crate::record::{Cell, CellSettings};
use crate::workload::cached::{CachedReads, ReadKind};
use crate::workload::commands::{Operation, Workload};

/// The bench `client_cache`, on a standalone server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheConfig {
    /// Driver names.
    pub drivers: Vec<String>,
    /// `hit`, `miss`, `uncached`.
    pub reads: Vec<ReadKind>,
    /// Concurrent callers.
    pub callers: Vec<usize>,
    /// `all`, `opt-in` or `broadcast`.
    pub mode: CacheMode,
    /// Bytes of a value.
    pub payload: usize,
    /// Keys read in turn by `hit` and `uncached`.
    pub keys: usize,
    /// Keys that a cache may hold.
    pub capacity: NonZeroU64,
    /// Keys that `miss` reads once each before an empty cache takes over.
    pub fresh_keys: usize,
    /// In place of `[timing]`.
    pub timing: Option<TimingConfig>,
}

type Wrong = (String, String);

fn require(right: bool, key: &str, reason: &str) -> Result<(), Wrong> {
    if right { Ok(()) } else { Err((format!("client_cache.{key}"), reason.to_owned())) }
}

impl CacheConfig {
    pub(super) fn check(&self) -> Result<(), Wrong> {
        check_drivers("client_cache", &self.drivers)?;
        let (nothing, distinct) = ("the list is empty; name at least one", "a value stands there twice");
        require(!self.reads.is_empty(), "reads", nothing)?;
        require(all_differ(&self.reads), "reads", distinct)?;
        require(!self.callers.is_empty(), "callers", nothing)?;
        require(all_differ(&self.callers), "callers", distinct)?;
        require(self.callers.iter().all(|callers| (1..=MOST).contains(callers)), "callers", &format!("use 1 to {MOST}"))?;
        check_sizes("client_cache", self.payload, 1, self.keys)?;
        require((1..=10_000_000).contains(&self.fresh_keys), "fresh_keys", "from 1 to 10000000")?;
        // Caches are split into parts, and a part may be full before the whole is.
        let roomy = self.capacity.get() >= 4 * self.keys as u64;
        require(roomy, "capacity", "must be at least four times keys, so that every hit is one")?;
        require(self.capacity.get() <= 10_000_000, "capacity", "at most 10000000")?;
        match &self.timing {
            Some(timing) => check_timing("client_cache.timing", timing),
            None => Ok(()),
        }
    }
}

/// The cells of the bench `client_cache`. The protocol is RESP3, whatever `[connection]` says: RESP2 has no invalidations
/// on the same connection.
#[must_use]
pub fn client_cache(config: &BenchConfig) -> Vec<Group> {
    let cache = &config.client_cache;
    let topology = Topology::Standalone;
    let mut cells = Vec::new();
    for &read in &cache.reads {
        for &callers in &cache.callers {
            for driver in cache.drivers.iter().filter_map(|name| find(name).ok()) {
                let settings =
                    Settings { connections: NonZeroUsize::MIN, resp: Resp::V3, profile: config.connection.profile, ..Settings::default() };
                let keys = if read == ReadKind::Miss { cache.fresh_keys } else { cache.keys };
                let workload = Workload { operation: Operation::Get, payload: cache.payload, fields: 0, keys };
                let unsupported = if driver.runs_on(topology) {
                    driver.cache.check(topology, Resp::V3, cache.mode, false).err().map(|error| error.to_string())
                } else {
                    Some("this driver is for a cluster only".to_owned())
                };
                let cell = Cell {
                    workload: workload.clone(),
                    driver: driver.name.to_owned(),
                    client: driver.client.to_owned(),
                    client_version: driver.version().to_owned(),
                    topology,
                    settings: CellSettings::new(driver, &settings, topology),
                    callers,
                    runtime: config.runtime(),
                    cached: Some(CachedReads { read, mode: cache.mode, capacity: cache.capacity }),
                };
                let parameter = cell.parameters();
                cells.push(PlannedCell {
                    function: driver.name.to_owned(),
                    parameter,
                    workload,
                    driver,
                    settings,
                    callers,
                    unsupported,
                    cell,
                });
            }
        }
    }
    vec![Group { name: "client_cache".into(), topology, line_chart: false, cells }]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHIPPED: &str = include_str!("../../benches/bench.toml");

    fn told(from: &str, to: &str) -> String {
        let (others, own) = SHIPPED.split_at(SHIPPED.find("[client_cache]").unwrap());
        assert!(own.contains(from), "{from}");
        BenchConfig::parse(&format!("{others}{}", own.replacen(from, to, 1)), "bench.toml").unwrap_err().to_string()
    }

    #[test]
    fn criterion_and_the_record_have_the_same_names() {
        let config = BenchConfig::parse(SHIPPED, "bench.toml").unwrap();
        let groups = client_cache(&config);
        let mut names: Vec<String> = Vec::new();
        for (group, cell) in groups.iter().flat_map(|group| group.cells.iter().map(move |cell| (group, cell))) {
            assert_eq!(format!("{}/{}/{}", group.name, cell.function, cell.parameter), cell.cell.name());
            assert_eq!(cell.settings.resp, Resp::V3);
            names.push(cell.cell.name());
        }
        for name in
            ["client_cache/raw/read=hit,callers=1", "client_cache/raw/read=miss,callers=16", "client_cache/raw/read=uncached,callers=64"]
        {
            assert!(names.iter().any(|other| other == name), "{name} in {names:?}");
        }
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn mistakes_get_a_sentence() {
        assert!(told("reads = [", "reads = [\"hit\", ").contains("client_cache.reads: a value stands there twice"));
        assert!(told("callers = [1,", "callers = [0,").contains("client_cache.callers: use 1 to 10000"));
        assert!(told("capacity = 10000", "capacity = 3999").contains("client_cache.capacity: must be at least four times keys"));
        assert!(told("fresh_keys = ", "fresh_keys = 0 #").contains("client_cache.fresh_keys: from 1"));
        assert!(told("samples = 10", "samples = 9").contains("client_cache.timing.samples: Criterion needs at least 10 samples"));
        assert!(told("mode = \"all\"", "mode = \"some\"").contains("some"));
    }
}
