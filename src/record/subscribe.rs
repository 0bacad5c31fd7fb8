//! The record of `rcb subscribe`.

use serde::{Deserialize, Serialize};

use crate::drivers::{Kind, Profile, Resp};
use crate::measure::Environment;
use crate::target::TargetFacts;
use crate::workload::pubsub::outcome::Outcome;

/// Marks a file as one of these.
pub const SUBSCRIBE_FORMAT: &str = "redis-client-bench/subscribe";

/// What came of one driver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum Ran {
    /// It ran; whether it is sound and without loss is in its figures.
    Measured(Box<Outcome>),
    /// It gave nothing.
    Failed {
        /// Why.
        reason: String,
    },
}

/// The client's buffer, and what it does when that is full.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferFacts {
    /// Messages; `None` = not limited by a number of messages.
    pub capacity: Option<usize>,
    /// What the client then does.
    pub when_full: String,
}

/// One driver in one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubscribeRow {
    /// The driver.
    pub driver: String,
    /// Counted from 1.
    pub round: u32,
    /// Its client, with the version.
    pub client: String,
    /// Which way of the client's it subscribes.
    pub way: String,
    /// The client's buffer, if it has one.
    pub buffer: Option<BufferFacts>,
    /// What came of it.
    #[serde(flatten)]
    pub result: Ran,
}

/// The file of one invocation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubscribeRecord {
    /// [`SUBSCRIBE_FORMAT`].
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
    /// Channels, patterns or shard channels.
    pub mode: Kind,
    /// Protocol version.
    pub resp: Resp,
    /// The client's knobs.
    pub profile: Profile,
    /// Channels.
    pub channels: u32,
    /// Subscribers of each.
    pub subscribers_per_channel: u32,
    /// Channels on each connection.
    pub channels_per_subscriber: u32,
    /// Whether each subscriber connected to the next node of the cluster.
    pub distribute_subscribers: bool,
    /// Publishers in this process.
    pub publishers: u32,
    /// Their set rate in messages per second; `None` = as fast as they can.
    pub publish_rps: Option<f64>,
    /// Messages in a batch of theirs.
    pub publish_batch: u64,
    /// Bytes of a message.
    pub data_size: usize,
    /// Seconds that a subscriber takes for each message.
    pub subscriber_delay_s: f64,
    /// Seconds between the ends of subscriptions that are made again.
    pub churn_interval_s: Option<f64>,
    /// Seconds that are left out.
    pub warm_up_s: f64,
    /// What latencies count from.
    pub latency_from: String,
    /// Rounds in which each driver had its turn.
    pub rounds: u32,
    /// Seed of the order of the drivers.
    pub seed: u64,
    /// False when it was interrupted: rows may be missing.
    pub complete: bool,
    /// In the order in which they ran.
    pub rows: Vec<SubscribeRow>,
}
