//! Everything about a connection that can be turned.

use std::fmt;
use std::num::NonZeroUsize;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::net::Endpoint;
use crate::resp::Resp;

/// How a client's own knobs are set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// As the crate ships.
    Default,
    /// Equalised: TCP_NODELAY on, no response timeout, queue limits that do not bind.
    #[default]
    Tuned,
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Profile::Default => "default",
            Profile::Tuned => "tuned",
        })
    }
}

/// How commands of many callers share writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// The client's own way, as it ships.
    Native,
    /// Each command takes a connection alone.
    Off,
    /// The first waiting command opens a window; the batch goes when it ends or `limit` is reached (radix v3).
    Window {
        /// Longest time the first command is held.
        window: Duration,
        /// Most commands in one batch; 0 = no limit.
        limit: usize,
    },
    /// What is queued goes as soon as a connection is free, without a timer (rueidis).
    Idle {
        /// Most commands in one batch; 0 = no limit.
        limit: usize,
    },
}

impl Strategy {
    /// A window of `window` with `limit`; a window of zero is [`Strategy::Off`], as in radix v3.
    #[must_use]
    pub fn window(window: Duration, limit: usize) -> Self {
        if window.is_zero() { Strategy::Off } else { Strategy::Window { window, limit } }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Strategy::Native => f.write_str("native"),
            Strategy::Off => f.write_str("off"),
            Strategy::Window { window, .. } => write!(f, "{}us", window.as_nanos() as f64 / 1e3),
            Strategy::Idle { .. } => f.write_str("idle"),
        }
    }
}

/// Where commands wait for each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// One queue for the whole pool; a batch takes any free connection (radix).
    #[default]
    Shared,
    /// One queue for each connection (redispipe).
    PerConnection,
}

/// The time limit of one command, as the client itself enforces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResponseTimeout {
    /// Whatever the crate ships with.
    CrateDefault,
    /// None.
    Never,
    /// This long.
    After(Duration),
}

/// Everything a driver is told besides where the server is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Connections to hold: in all on a standalone server, per master node on a cluster.
    pub connections: NonZeroUsize,
    /// Protocol version.
    pub resp: Resp,
    /// The client's knobs.
    pub profile: Profile,
    /// Pipelining.
    pub strategy: Strategy,
    /// Where batches form; means nothing for `native` and `off`.
    pub scope: Scope,
    /// Most batches in flight; `None` = as many as connections.
    pub in_flight: Option<NonZeroUsize>,
    /// Overrides the profile's response timeout.
    pub response_timeout: Option<Duration>,
    /// Overrides the profile's TCP_NODELAY.
    pub no_delay: Option<bool>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connections: NonZeroUsize::MIN,
            resp: Resp::V2,
            profile: Profile::Tuned,
            strategy: Strategy::Native,
            scope: Scope::Shared,
            in_flight: None,
            response_timeout: None,
            no_delay: None,
        }
    }
}

impl Settings {
    /// Whether TCP_NODELAY is to be set (`tuned`); `None` leaves the crate's default.
    #[must_use]
    pub fn nodelay(&self) -> Option<bool> {
        self.no_delay.or((self.profile == Profile::Tuned).then_some(true))
    }

    /// The response timeout that the client should enforce.
    #[must_use]
    pub fn timeout(&self) -> ResponseTimeout {
        match (self.response_timeout, self.profile) {
            (Some(after), _) => ResponseTimeout::After(after),
            (None, Profile::Tuned) => ResponseTimeout::Never,
            (None, Profile::Default) => ResponseTimeout::CrateDefault,
        }
    }

    /// The capacity for a client's internal queues in the `tuned` profile: never the limit.
    pub const QUEUE_CAPACITY: usize = 1 << 16;
}

/// Standalone or cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Topology {
    /// One server.
    Standalone,
    /// A Redis cluster.
    Cluster,
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Topology::Standalone => "standalone",
            Topology::Cluster => "cluster",
        })
    }
}

/// The servers a driver connects to: one, or the seeds of a cluster. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Servers {
    /// What they are together.
    pub topology: Topology,
    /// The standalone server, or known nodes of the cluster.
    pub endpoints: Vec<Endpoint>,
}

impl Servers {
    /// A single server.
    #[must_use]
    pub fn standalone(endpoint: Endpoint) -> Self {
        Self { topology: Topology::Standalone, endpoints: vec![endpoint] }
    }

    /// The seeds of a cluster.
    #[must_use]
    pub fn cluster(endpoints: Vec<Endpoint>) -> Self {
        assert!(!endpoints.is_empty(), "a cluster needs a seed");
        Self { topology: Topology::Cluster, endpoints }
    }

    /// The first endpoint.
    #[must_use]
    pub fn first(&self) -> &Endpoint {
        &self.endpoints[0]
    }
}
