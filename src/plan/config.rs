//! The model of `bench.toml` and its checks.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::{CacheConfig, ComparisonConfig, PublishConfig, SubscribeConfig};
use crate::drivers::{self, Profile, Resp, Scope, UnknownDriver};
use crate::record::{Runtime, RuntimeFlavour};
use crate::target::Layout;
use crate::workload::commands::Operation;

/// Everything in `bench.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BenchConfig {
    /// The tokio runtime of the clients.
    #[serde(default)]
    pub runtime: RuntimeConfig,
    /// How long each cell is measured.
    #[serde(default)]
    pub timing: TimingConfig,
    /// Settings that all cells share.
    #[serde(default)]
    pub connection: ConnectionConfig,
    /// Masters and replicas of a cluster that the benches start.
    #[serde(default)]
    pub cluster: ClusterConfig,
    /// `cargo bench --bench pipeline_window`.
    pub pipeline_window: WindowConfig,
    /// `cargo bench --bench commands`.
    pub commands: CommandsConfig,
    /// `cargo bench --bench publish`.
    pub publish: PublishConfig,
    /// `cargo bench --bench subscribe`.
    pub subscribe: SubscribeConfig,
    /// `cargo bench --bench client_cache`.
    pub client_cache: CacheConfig,
    /// `rcb compare --config`, which reads nothing else of the file.
    #[serde(default)]
    pub compare: ComparisonConfig,
}

/// The tokio runtime of the clients.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RuntimeConfig {
    /// `multi-thread` or `current-thread`.
    pub flavour: RuntimeFlavour,
    /// Worker threads, 0 = as many as cores. For `multi-thread` only.
    pub workers: usize,
}

/// How long each cell is measured, before Criterion's own options change it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TimingConfig {
    /// Warm-up of each cell, milliseconds.
    pub warm_up_ms: u64,
    /// Measurement of each cell, milliseconds.
    pub measurement_ms: u64,
    /// Samples in that time; Criterion wants 10 at least.
    pub samples: usize,
    /// When a run that does not end is given up, seconds.
    pub deadline_s: u64,
}

impl Default for TimingConfig {
    fn default() -> Self {
        Self { warm_up_ms: 200, measurement_ms: 600, samples: 10, deadline_s: 60 }
    }
}

/// Settings that all cells share.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConnectionConfig {
    /// RESP version, 2 or 3.
    pub resp: Resp,
    /// `tuned` or `default`.
    pub profile: Profile,
}

/// The cluster that the benches start.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterConfig {
    /// Masters and replicas of each, written `3x1`.
    #[serde(deserialize_with = "cluster_shape")]
    pub shape: Layout,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self { shape: Layout::CLUSTER }
    }
}

fn cluster_shape<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Layout, D::Error> {
    let text = String::deserialize(deserializer)?;
    let wrong = |reason: String| serde::de::Error::custom(format!("shape {text:?}: {reason}"));
    match text.parse().map_err(wrong)? {
        Layout::Standalone => Err(wrong("a cluster is written masters x replicas-each, such as 3x1".into())),
        shape => Ok(shape),
    }
}

/// Drivers and concurrency of one topology.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// Driver names.
    pub drivers: Vec<String>,
    /// Connections; on a cluster to each master.
    pub connections: Vec<usize>,
    /// Concurrent callers.
    pub callers: Vec<usize>,
}

/// The bench `pipeline_window`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowConfig {
    /// `get`, `set` or `hkeys`.
    pub operation: Operation,
    /// Bytes of a value (`get`, `set`).
    #[serde(default = "usual_payload")]
    pub payload: usize,
    /// Fields of a hash (`hkeys`).
    #[serde(default = "usual_fields")]
    pub fields: usize,
    /// Keys used in turn.
    #[serde(default = "usual_keys")]
    pub keys: usize,
    /// Pipeline windows in microseconds; 0 = off.
    pub windows_us: Vec<f64>,
    /// Most commands in a batch; 0 = no limit.
    pub limits: Vec<usize>,
    /// `shared`, `per-connection` or both.
    pub scopes: Vec<Scope>,
    /// Most batches in flight, to each master of a cluster; 0 = as many as connections.
    #[serde(default)]
    pub in_flight: usize,
    /// Also the client's own pipelining.
    pub native: bool,
    /// Also flush-when-idle.
    pub idle: bool,
    /// On a single server.
    pub standalone: Option<Sweep>,
    /// On a cluster.
    pub cluster: Option<Sweep>,
}

/// The bench `commands`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandsConfig {
    /// `get`, `set`, `hkeys`.
    pub operations: Vec<Operation>,
    /// Bytes of a value (`get`, `set`).
    pub payloads: Vec<usize>,
    /// Fields of a hash (`hkeys`).
    #[serde(default = "usual_fields")]
    pub fields: usize,
    /// Keys used in turn.
    #[serde(default = "usual_keys")]
    pub keys: usize,
    /// On a single server.
    pub standalone: Option<Sweep>,
    /// On a cluster.
    pub cluster: Option<Sweep>,
}

fn usual_payload() -> usize {
    64
}

fn usual_fields() -> usize {
    10
}

fn usual_keys() -> usize {
    1000
}

/// A `bench.toml` that can't be used: where and why, with a hint.
#[derive(Debug, thiserror::Error)]
pub enum BadConfig {
    /// The file can't be read.
    #[error("can't read {path}: {source}; RCB_CONFIG names another file")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no TOML of the expected form.
    #[error("{path}: {reason}")]
    Form {
        /// The file.
        path: String,
        /// What and where, from the parser.
        reason: String,
    },
    /// A value makes no sense.
    #[error("{path}: {key}: {reason}")]
    Value {
        /// The file.
        path: String,
        /// The key, with its sections.
        key: String,
        /// What is wrong and what would be right.
        reason: String,
    },
}

/// Most connections or callers that a bench may ask for: a typing error, not a wish.
pub(super) const MOST: usize = 10_000;

impl BenchConfig {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`BadConfig`].
    pub fn load(path: &Path) -> Result<Self, BadConfig> {
        let text = std::fs::read_to_string(path).map_err(|source| BadConfig::Unreadable { path: path.to_owned(), source })?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Parses and checks a text; `path` is for messages.
    ///
    /// # Errors
    /// [`BadConfig`].
    pub fn parse(text: &str, path: &str) -> Result<Self, BadConfig> {
        let config: Self = toml::from_str(text)
            .map_err(|error| BadConfig::Form { path: path.to_owned(), reason: error.to_string().trim_end().to_owned() })?;
        config.check().map_err(|(key, reason)| BadConfig::Value { path: path.to_owned(), key, reason })?;
        Ok(config)
    }

    fn check(&self) -> Result<(), (String, String)> {
        let require = |right: bool, key: &str, reason: &str| if right { Ok(()) } else { Err((key.to_owned(), reason.to_owned())) };
        check_timing("timing", &self.timing)?;
        require(self.runtime.workers <= 1024, "runtime.workers", "at most 1024; 0 means as many as cores")?;

        let window = &self.pipeline_window;
        let nothing = "the list is empty; name at least one";
        let any_strategy = !window.windows_us.is_empty() || window.native || window.idle;
        require(any_strategy, "pipeline_window.windows_us", "nothing to sweep; name a window, or set native or idle")?;
        for &micros in &window.windows_us {
            let reason = format!("{micros} is no pipeline window; use microseconds from 0 (off) to 1000000");
            require((0.0..=1e6).contains(&micros) && (micros == 0.0 || micros >= 1.0), "pipeline_window.windows_us", &reason)?;
        }
        let distinct = "a value stands there twice";
        require(all_differ(&window.windows_us), "pipeline_window.windows_us", distinct)?;
        require(all_differ(&window.limits), "pipeline_window.limits", distinct)?;
        require(all_differ(&window.scopes), "pipeline_window.scopes", distinct)?;
        require(!window.limits.is_empty(), "pipeline_window.limits", "the list is empty; 0 means no limit")?;
        require(!window.scopes.is_empty(), "pipeline_window.scopes", nothing)?;
        check_sizes("pipeline_window", window.payload, window.fields, window.keys)?;
        let sweeps = [("pipeline_window.standalone", &window.standalone), ("pipeline_window.cluster", &window.cluster)];
        require(sweeps.iter().any(|(_, sweep)| sweep.is_some()), "pipeline_window", "needs a section standalone or cluster")?;

        let commands = &self.commands;
        require(!commands.operations.is_empty(), "commands.operations", nothing)?;
        require(!commands.payloads.is_empty(), "commands.payloads", nothing)?;
        require(all_differ(&commands.operations), "commands.operations", distinct)?;
        require(all_differ(&commands.payloads), "commands.payloads", distinct)?;
        for &payload in &commands.payloads {
            check_sizes("commands", payload, commands.fields, commands.keys)?;
        }
        let more = [("commands.standalone", &commands.standalone), ("commands.cluster", &commands.cluster)];
        for (section, sweep) in sweeps.iter().chain(&more) {
            if let Some(sweep) = sweep {
                check_sweep(section, sweep)?;
            }
        }
        self.publish.check()?;
        self.subscribe.check()?;
        self.client_cache.check()
    }

    /// With the timing that the bench called so has for itself, if it has one.
    #[must_use]
    pub fn for_bench(mut self, bench: &str) -> Self {
        if let ("client_cache", Some(timing)) = (bench, &self.client_cache.timing) {
            self.timing = timing.clone();
        }
        self
    }

    /// The runtime, with the number of workers resolved.
    #[must_use]
    pub fn runtime(&self) -> Runtime {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let workers = match (self.runtime.flavour, self.runtime.workers) {
            (RuntimeFlavour::CurrentThread, _) => 1,
            (RuntimeFlavour::MultiThread, 0) => cores,
            (RuntimeFlavour::MultiThread, workers) => workers,
        };
        Runtime { flavour: self.runtime.flavour, workers }
    }

    /// One line for each driver that a sweep names and that has no cell there: not in this build, or for fewer connections.
    #[must_use]
    pub fn left_out(&self) -> Vec<String> {
        let sweeps = [
            ("pipeline_window.standalone", &self.pipeline_window.standalone),
            ("pipeline_window.cluster", &self.pipeline_window.cluster),
            ("commands.standalone", &self.commands.standalone),
            ("commands.cluster", &self.commands.cluster),
        ];
        let mut lines = Vec::new();
        let lists =
            [("publish", &self.publish.drivers), ("subscribe", &self.subscribe.drivers), ("client_cache", &self.client_cache.drivers)];
        for (section, drivers) in lists {
            lines
                .extend(drivers.iter().filter_map(|name| drivers::find(name).err()).map(|error| format!("left out of {section}: {error}")));
        }
        for (section, sweep) in sweeps {
            let Some(sweep) = sweep else { continue };
            for name in &sweep.drivers {
                match drivers::find(name) {
                    Err(error) => lines.push(format!("left out of {section}: {error}")),
                    Ok(driver) => lines.extend(sweep.connections.iter().filter(|&&asked| asked > driver.most_connections).map(|asked| {
                        format!("left out of {section}: {name} with {asked} connections, since it holds {}", driver.most_connections)
                    })),
                }
            }
        }
        lines
    }

    /// When a run that does not end is given up.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        Duration::from_secs(self.timing.deadline_s)
    }
}

pub(super) fn all_differ<T: PartialEq>(list: &[T]) -> bool {
    list.iter().enumerate().all(|(place, value)| !list[..place].contains(value))
}

pub(super) fn check_timing(section: &str, timing: &TimingConfig) -> Result<(), (String, String)> {
    let require = |right: bool, key: &str, reason: &str| if right { Ok(()) } else { Err((format!("{section}.{key}"), reason.to_owned())) };
    require(timing.warm_up_ms > 0, "warm_up_ms", "must be at least 1")?;
    require(timing.measurement_ms > 0, "measurement_ms", "must be at least 1")?;
    require(timing.samples >= 10, "samples", "Criterion needs at least 10 samples")?;
    require(timing.deadline_s > 0, "deadline_s", "must be at least 1 second")?;
    let longer = timing.deadline_s.saturating_mul(1000) > timing.measurement_ms;
    require(longer, "deadline_s", "must be longer than measurement_ms, or every run would be given up")
}

pub(super) fn check_sizes(section: &str, payload: usize, fields: usize, keys: usize) -> Result<(), (String, String)> {
    let bad = |key: &str, reason: &str| Err((format!("{section}.{key}"), reason.to_owned()));
    if payload > 64 << 20 {
        return bad(if section == "commands" { "payloads" } else { "payload" }, "at most 64 MiB");
    }
    if !(1..=1_000_000).contains(&fields) {
        return bad("fields", "from 1 to 1000000");
    }
    if !(1..=10_000_000).contains(&keys) {
        return bad("keys", "from 1 to 10000000");
    }
    Ok(())
}

/// Whether the names are those of drivers, of which one at least is in this build.
pub(super) fn check_drivers(section: &str, names: &[String]) -> Result<(), (String, String)> {
    let wrong = |reason: String| Err((format!("{section}.drivers"), reason));
    if names.is_empty() {
        return wrong("the list is empty; name at least one".into());
    }
    // A driver that this build leaves out is no mistake: the others are swept. But one there must be.
    let mut left_out = None;
    for name in names {
        match drivers::find(name) {
            Err(error @ UnknownDriver::Unknown { .. }) => return wrong(error.to_string()),
            Err(error @ UnknownDriver::LeftOut { .. }) => left_out = Some(error),
            Ok(_) => {}
        }
    }
    if !all_differ(names) {
        return wrong("a value stands there twice".into());
    }
    match left_out {
        Some(error) if names.iter().all(|name| drivers::find(name).is_err()) => wrong(error.to_string()),
        _ => Ok(()),
    }
}

fn check_sweep(section: &str, sweep: &Sweep) -> Result<(), (String, String)> {
    check_drivers(section, &sweep.drivers)?;
    for (key, list) in [("connections", &sweep.connections), ("callers", &sweep.callers)] {
        if !all_differ(list) {
            return Err((format!("{section}.{key}"), "a value stands there twice".into()));
        }
        if list.is_empty() {
            return Err((format!("{section}.{key}"), "the list is empty; name at least one".into()));
        }
        if let Some(wrong) = list.iter().find(|number| !(1..=MOST).contains(*number)) {
            return Err((format!("{section}.{key}"), format!("{wrong} is not possible; use 1 to {MOST}")));
        }
    }
    Ok(())
}
