//! What a run of subscribers is to be, checked before anything starts.

use std::num::NonZeroUsize;
use std::time::Duration;

use super::channels::Channels;
use super::message::{HEADER, LARGEST};
use crate::drivers::{Descriptor, Kind, Resp, Topology};
use crate::target::Server;

/// A run of subscribers and publishers.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The channels.
    pub channels: Channels,
    /// How they are subscribed to.
    pub kind: Kind,
    /// Subscriptions to each channel.
    pub per_channel: u32,
    /// Subscriptions that share a subscriber, of consecutive channels.
    pub channels_per_subscriber: u32,
    /// On a cluster: each subscriber connects to the next node.
    pub distribute: bool,
    /// Publishers; 0 = in another process.
    pub publishers: u32,
    /// Only publish: the subscribers are in another process.
    pub publish_only: bool,
    /// Messages per second of all publishers together; `None` = each as soon as the last is answered.
    pub rate: Option<f64>,
    /// Messages in one explicit pipeline of a publisher.
    pub batch: u64,
    /// Bytes of a message.
    pub payload: usize,
    /// Messages on each channel; `None` = as many as the time allows.
    pub messages: Option<u64>,
    /// How long is measured; with `messages`, the longest that it may take.
    pub test_time: Duration,
    /// What comes before and is left out; none with `messages`.
    pub warm_up: Duration,
    /// How long nothing may arrive at the end before what is missing counts as lost.
    pub drain: Duration,
    /// How often a subscription is ended and made again.
    pub churn: Option<Duration>,
    /// How long each subscriber dawdles after a message.
    pub delay: Duration,
    /// Messages in the client's own buffer, where that can be set.
    pub buffer: Option<NonZeroUsize>,
    /// The run's number; `None` = any.
    pub run: Option<u64>,
    /// How long connecting, and the servers' confirmation, may take.
    pub open_within: Duration,
}

/// The lowest and the highest rate that can be set, messages per second.
pub const RATES: std::ops::RangeInclusive<f64> = 1e-3..=1e8;

/// Most subscriptions of one run.
pub const MOST_SUBSCRIPTIONS: u64 = 1_000_000;

impl Plan {
    /// Subscriptions in all.
    #[must_use]
    pub fn subscriptions(&self) -> u64 {
        if self.publish_only { 0 } else { u64::from(self.channels.count()) * u64::from(self.per_channel) }
    }

    /// What latencies count from: under a set rate the time for which a message was planned, so that one that waits behind a slow one
    /// does not look fast. Publishers in another process may have set a rate or not.
    #[must_use]
    pub fn latency_from(&self) -> &'static str {
        match (self.publishers, self.rate) {
            (0, _) => "the publishers' time in the message",
            (_, Some(_)) => "planned publish",
            (_, None) => "publish",
        }
    }

    /// What makes no sense, in one sentence with a hint.
    ///
    /// # Errors
    /// The sentence.
    pub fn check(&self) -> Result<(), String> {
        let Channels { prefix, minimum, maximum } = &self.channels;
        let payload = self.payload;
        let require = |right: bool, text: String| if right { Ok(()) } else { Err(text) };
        require(
            maximum >= minimum,
            format!("--channel-maximum {maximum} is below --channel-minimum {minimum}; the last channel can't come before the first"),
        )?;
        require(self.per_channel > 0, "--subscribers-per-channel is 0; each channel needs at least 1 subscriber".into())?;
        require(self.channels_per_subscriber > 0, "--channels-per-subscriber is 0; a subscriber needs at least 1 channel".into())?;
        require(
            !prefix.chars().any(|letter| letter.is_whitespace() || letter.is_control()),
            format!("--subscriber-prefix {prefix:?} has a space in it; take one without, such as rcb:channel-"),
        )?;
        require(
            payload >= HEADER,
            format!(
                "--data-size {payload} is too small: the header of a message, which the account needs, has {HEADER} bytes; use {HEADER} or more"
            ),
        )?;
        require(payload <= LARGEST, format!("--data-size {payload} is too large; use {LARGEST} at most"))?;
        require(self.batch > 0, "--publish-batch is 0; a batch has at least 1 message".into())?;
        require(self.batch <= 100_000, format!("--publish-batch {} is too large; use 100000 at most", self.batch))?;
        require(self.messages != Some(0), "--messages is 0; nothing would be published".into())?;
        require(!self.test_time.is_zero(), "--test-time is 0; nothing would be measured".into())?;
        if let Some(rate) = self.rate.filter(|rate| !RATES.contains(rate)) {
            return Err(format!("--publish-rps {rate} can't be kept; use 0.001 to 100000000 messages per second, or leave it out"));
        }
        let most = u64::from(self.channels.count()) * u64::from(self.per_channel);
        require(most <= MOST_SUBSCRIPTIONS, format!("{most} subscriptions are too many; use {MOST_SUBSCRIPTIONS} at most"))?;
        require(!(self.publish_only && self.publishers == 0), "--publish-only needs publishers; --publishers is 0".into())?;
        require(!(self.publish_only && self.churn.is_some()), "--churn-interval is for subscribers, and --publish-only has none".into())?;
        require(
            !(self.publishers == 0 && self.churn.is_some()),
            "--churn-interval needs to know what was published when; it does not go with --publishers 0".into(),
        )?;
        require(self.churn.is_none_or(|churn| !churn.is_zero()), "--churn-interval is 0; use at least 1ms".into())
    }

    /// What can't be on this target, in one sentence with a hint.
    ///
    /// # Errors
    /// The sentence.
    pub fn check_target(&self, topology: Topology, server: &Server) -> Result<(), String> {
        if self.kind == Kind::Sharded && !server.at_least(7, 0) {
            return Err(format!("--mode ssubscribe needs Redis 7.0 or later, and this is {server}; use --mode subscribe"));
        }
        if self.distribute && topology == Topology::Standalone {
            return Err("--distribute-subscribers spreads over the nodes of a cluster, and the target is a standalone server; leave it out, or use \
                 --topology cluster"
                .into());
        }
        Ok(())
    }

    /// Whether `driver` can do it, and why not.
    ///
    /// # Errors
    /// The sentence.
    pub fn check_driver(&self, driver: &Descriptor, topology: Topology, resp: Resp) -> Result<(), String> {
        let name = driver.name;
        if !driver.runs_on(topology) {
            return Err(format!("{name} does not run on a {topology} target"));
        }
        driver.check_resp(resp).map_err(|error| format!("{name}: {error}"))?;
        if self.publish_only {
            return Ok(());
        }
        // A subscriber of one node is one of a standalone server.
        let subscribes_on = if self.to_single_nodes() { Topology::Standalone } else { topology };
        driver.pubsub.check_kind(subscribes_on, resp, self.kind).map_err(|error| format!("{name} can't {}: {error}", self.kind))
    }

    /// Whether each subscriber connects to one node as to a standalone server. Shard channels are where their slot is.
    #[must_use]
    pub fn to_single_nodes(&self) -> bool {
        self.distribute && self.kind != Kind::Sharded
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn plan() -> Plan {
        Plan {
            channels: Channels { prefix: super::super::channels::usual_prefix(), minimum: 1, maximum: 3 },
            kind: Kind::Channel,
            per_channel: 2,
            channels_per_subscriber: 1,
            distribute: false,
            publishers: 1,
            publish_only: false,
            rate: None,
            batch: 1,
            payload: 128,
            messages: None,
            test_time: Duration::from_secs(1),
            warm_up: Duration::ZERO,
            drain: Duration::from_secs(1),
            churn: None,
            delay: Duration::ZERO,
            buffer: None,
            run: None,
            open_within: Duration::from_secs(10),
        }
    }

    #[test]
    fn each_mistake_gets_its_sentence() {
        assert_eq!(plan().check(), Ok(()));
        let told = |plan: Plan| plan.check().unwrap_err();
        let channels = |minimum, maximum, prefix: &str| Channels { prefix: prefix.into(), minimum, maximum };
        assert!(told(Plan { channels: channels(9, 8, "c"), ..plan() }).contains("--channel-maximum 8 is below --channel-minimum 9"));
        assert!(told(Plan { channels: channels(1, 8, "a b"), ..plan() }).contains("has a space"));
        assert!(told(Plan { per_channel: 0, ..plan() }).contains("at least 1 subscriber"));
        assert!(told(Plan { payload: HEADER - 1, ..plan() }).contains(&format!("use {HEADER} or more")));
        assert!(told(Plan { publishers: 0, churn: Some(Duration::from_secs(1)), ..plan() }).contains("--publishers 0"));
        for rate in [0.0, -1.0, 1e-20, 1e9, f64::NAN, f64::INFINITY] {
            assert!(told(Plan { rate: Some(rate), ..plan() }).contains("use 0.001 to 100000000"), "{rate}");
        }
        assert_eq!(Plan { rate: Some(0.001), ..plan() }.check(), Ok(()));
        let old = Server { product: "redis".into(), version: "6.2.7".into(), redis_version: "6.2.7".into() };
        let sharded = Plan { kind: Kind::Sharded, ..plan() };
        assert!(sharded.check_target(Topology::Cluster, &old).unwrap_err().contains("needs Redis 7.0 or later, and this is redis 6.2.7"));
        assert!(Plan { distribute: true, ..plan() }.check_target(Topology::Standalone, &old).unwrap_err().contains("standalone"));
        assert_eq!(plan().check_target(Topology::Standalone, &old), Ok(()));
    }
}
