//! The record of `rcb publish`.

use serde::{Deserialize, Serialize};

use crate::drivers::{Profile, Resp};
use crate::measure::Environment;
use crate::target::TargetFacts;
use crate::workload::pubsub::burst::{Burst, Mode};

/// Marks a file as one of these.
pub const PUBLISH_FORMAT: &str = "redis-client-bench/publish";

/// What came of a driver and mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum Ran {
    /// Exactly what was to be published was, and arrived.
    Measured(Box<Burst>),
    /// No figure can be stood behind.
    Failed {
        /// Why.
        reason: String,
    },
    /// The driver can't do it, by its own statement.
    Unsupported {
        /// Why.
        reason: String,
    },
}

/// A driver and mode in one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishRow {
    /// The driver.
    pub driver: String,
    /// Its client, with the version.
    pub client: String,
    /// Counted from 1.
    pub round: u32,
    /// How it published.
    #[serde(flatten)]
    pub mode: Mode,
    /// What came of it.
    #[serde(flatten)]
    pub result: Ran,
}

/// The file of one invocation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishRecord {
    /// [`PUBLISH_FORMAT`].
    pub format: String,
    /// Version of the format.
    pub version: u32,
    /// Start of the session, RFC 3339 in UTC.
    pub created: String,
    /// The machine and the build.
    pub environment: Environment,
    /// What was measured against.
    pub target: TargetFacts,
    /// What a reader must know about all of it.
    pub warnings: Vec<String>,
    /// Messages of each row.
    pub messages: u64,
    /// Bytes of a message.
    pub data_size: usize,
    /// SPUBLISH instead of PUBLISH.
    pub sharded: bool,
    /// Connections of the publishing client; on a cluster to each master.
    pub connections: usize,
    /// Whose subscriber receives, whatever the driver: publishing is measured.
    pub subscriber: String,
    /// Protocol version.
    pub resp: Resp,
    /// The client's knobs.
    pub profile: Profile,
    /// Rounds in which each driver had its turn in every way.
    pub rounds: u32,
    /// Seed of the order of the drivers.
    pub seed: u64,
    /// False when it was interrupted: rows may be missing.
    pub complete: bool,
    /// In the order in which they ran.
    pub rows: Vec<PublishRow>,
}
