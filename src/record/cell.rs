//! A cell: driver × settings × workload × concurrency.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::drivers::{CacheMode, Descriptor, Profile, Resp, Scope, Settings, Strategy, Topology};
use crate::measure::clock::nanos;
use crate::workload::cached::CachedReads;
use crate::workload::commands::Workload;

/// Which tokio runtime the client ran on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum RuntimeFlavour {
    /// Work-stealing, several workers.
    #[default]
    MultiThread,
    /// Everything on one thread.
    CurrentThread,
}

/// The runtime of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Runtime {
    /// Kind.
    pub flavour: RuntimeFlavour,
    /// Worker threads; 1 for the current-thread flavour.
    pub workers: usize,
}

/// What of the settings can sway a result, in the form of the record.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CellSettings {
    /// Connections asked for; on a cluster to each master.
    pub connections: usize,
    /// Connections that the driver says it opens, to a server or to each master.
    pub connections_opened: usize,
    /// RESP version.
    pub resp: Resp,
    /// The client's knobs.
    pub profile: Profile,
    /// `native`, `off`, `window` or `idle`.
    pub strategy: String,
    /// Nanoseconds of the pipeline window, 0 without one.
    pub window_ns: u64,
    /// Most commands in a batch, 0 = no limit.
    pub limit: usize,
    /// Where batches form.
    pub scope: Scope,
    /// Most batches in flight (to each node), 0 without batches.
    pub in_flight: usize,
    /// Whether the client takes TCP_NODELAY and the response timeout as the profile asks.
    pub as_asked: bool,
    /// Whether TCP_NODELAY is set; `None` = the crate's default. As the driver states, not as asked.
    pub nodelay: Option<bool>,
    /// The client's response timeout in milliseconds; `None` = the crate's default, 0 = never. As the driver states.
    pub response_timeout_ms: Option<u64>,
}

/// What is measured in one row.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cell {
    /// What is done.
    pub workload: Workload,
    /// The driver's name.
    pub driver: String,
    /// The client crate.
    pub client: String,
    /// Its exact version.
    pub client_version: String,
    /// Standalone or cluster.
    pub topology: Topology,
    /// Settings of the connection.
    pub settings: CellSettings,
    /// Concurrent callers.
    pub callers: usize,
    /// The runtime.
    pub runtime: Runtime,
    /// How it reads through a client-side cache, or beside it; `None` where caches are not the matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<CachedReads>,
}

impl CellSettings {
    /// The record's form of `settings` for `driver`.
    #[must_use]
    pub fn new(driver: &Descriptor, settings: &Settings, topology: Topology) -> Self {
        let connections = settings.connections.get();
        let (strategy, window_ns, limit) = match settings.strategy {
            Strategy::Native => ("native", 0, 0),
            Strategy::Off => ("off", 0, 0),
            Strategy::Window { window, limit } => ("window", nanos(window), limit),
            Strategy::Idle { limit } => ("idle", 0, limit),
        };
        let batches = matches!(settings.strategy, Strategy::Window { .. } | Strategy::Idle { .. });
        // Behind a window the driver runs standalone, on a cluster too.
        let runs_on = if settings.strategy == Strategy::Native { topology } else { Topology::Standalone };
        let applied = (driver.applied)(settings, runs_on);
        let opened = (driver.connections)(settings, runs_on);
        let in_flight = settings.in_flight.map_or(connections, |asked| asked.get().min(connections));
        Self {
            connections,
            connections_opened: opened,
            resp: settings.resp,
            profile: settings.profile,
            strategy: strategy.to_owned(),
            window_ns,
            limit,
            scope: settings.scope,
            in_flight: if batches { in_flight } else { 0 },
            as_asked: applied == crate::drivers::Applied::as_asked(settings, runs_on),
            nodelay: applied.nodelay,
            response_timeout_ms: match applied.response_timeout {
                crate::drivers::ResponseTimeout::CrateDefault => None,
                crate::drivers::ResponseTimeout::Never => Some(0),
                crate::drivers::ResponseTimeout::After(after) => Some(u64::try_from(after.as_millis()).unwrap_or(u64::MAX)),
            },
        }
    }

    /// `off`, `native`, `idle` or the window, such as `75us`.
    #[must_use]
    pub fn window_text(&self) -> String {
        if self.strategy == "window" { format!("{}us", self.window_ns as f64 / 1e3) } else { self.strategy.clone() }
    }
}

/// The part of a name that a default needs no mention.
fn differing(out: &mut Vec<String>, name: &str, value: impl fmt::Display, usual: impl fmt::Display) {
    let (value, usual) = (value.to_string(), usual.to_string());
    if value != usual {
        out.push(format!("{name}={value}"));
    }
}

impl Cell {
    /// The name `workload/driver/k=v,…`, unique within a record. Settings at their defaults are left out, so that each part
    /// stays within 64 bytes.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}/{}", self.workload_name(), self.driver, self.parameters())
    }

    /// `get-64B` or `hkeys-10f`, with `-cluster` on a cluster; `client_cache` for reads through one.
    #[must_use]
    pub fn workload_name(&self) -> String {
        if self.cached.is_some() {
            return "client_cache".into();
        }
        let size = match self.workload.fields {
            0 => format!("{}B", self.workload.payload),
            fields => format!("{fields}f"),
        };
        let cluster = if self.topology == Topology::Cluster { "-cluster" } else { "" };
        format!("{}-{size}{cluster}", self.workload.operation)
    }

    /// The third part of the name.
    #[must_use]
    pub fn parameters(&self) -> String {
        if let Some(cached) = &self.cached {
            let mut parts = vec![format!("read={}", cached.read), format!("callers={}", self.callers)];
            differing(&mut parts, "mode", cached.mode, CacheMode::All);
            self.differing_surroundings(&mut parts);
            return parts.join(",");
        }
        let mut parts = vec![
            format!("window={}", self.settings.window_text()),
            format!("conns={}", self.settings.connections),
            format!("callers={}", self.callers),
        ];
        differing(&mut parts, "limit", self.settings.limit, 0);
        if self.settings.scope == Scope::PerConnection && self.settings.in_flight > 0 {
            parts.push("scope=conn".into());
        }
        if self.settings.in_flight > 0 && self.settings.scope == Scope::Shared {
            differing(&mut parts, "inflight", self.settings.in_flight, self.settings.connections);
        }
        differing(&mut parts, "resp", u8::from(self.settings.resp), 2);
        self.differing_surroundings(&mut parts);
        parts.join(",")
    }

    fn differing_surroundings(&self, parts: &mut Vec<String>) {
        differing(parts, "profile", self.settings.profile, Profile::Tuned);
        if self.runtime.flavour == RuntimeFlavour::CurrentThread {
            parts.push("rt=current".into());
        }
    }

    /// The same cell with another driver: what the share of raw is taken from.
    #[must_use]
    pub fn is_twin(&self, other: &Cell) -> bool {
        // What a driver makes of the same wishes may differ; the wishes may not.
        let asked = |cell: &Cell| CellSettings {
            connections_opened: 0,
            as_asked: true,
            nodelay: None,
            response_timeout_ms: None,
            ..cell.settings.clone()
        };
        let same_settings = asked(self) == asked(other);
        same_settings
            && self.workload == other.workload
            && self.topology == other.topology
            && self.callers == other.callers
            && self.cached == other.cached
            && self.runtime == other.runtime
    }
}
