//! The benches `publish` and `subscribe`: their part of `bench.toml`, and their cells.

use serde::Deserialize;

use super::BenchConfig;
use super::config::{all_differ, check_drivers};
use crate::drivers::{Descriptor, Kind, Settings, Topology, find};
use crate::workload::pubsub::burst::Mode;
use crate::workload::pubsub::message::{HEADER, LARGEST};
use crate::workload::runs_on;

/// The bench `publish`, on a standalone server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishConfig {
    /// Driver names.
    pub drivers: Vec<String>,
    /// Bytes of a message.
    pub payloads: Vec<usize>,
    /// One message at a time.
    pub serial: bool,
    /// Messages in an explicit pipeline.
    pub batches: Vec<u64>,
    /// Callers with one message at a time each, on one client.
    pub callers: Vec<u64>,
    /// Pipeline windows in microseconds, each with each number of callers.
    pub windows_us: Vec<f64>,
}

/// The bench `subscribe`, on a standalone server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubscribeConfig {
    /// Driver names.
    pub drivers: Vec<String>,
    /// Subscribers of the channel.
    pub subscribers: Vec<u64>,
    /// Bytes of a message.
    pub payloads: Vec<usize>,
    /// Messages in an explicit pipeline of the publisher, which is raw.
    pub batch: u64,
}

/// What a cell does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Doing {
    /// Publishes to one subscriber.
    Publish(Mode),
    /// Subscribes, while raw publishes.
    Subscribe {
        /// So many subscribers.
        subscribers: u64,
        /// Messages in one batch of the publisher.
        batch: u64,
    },
}

/// A cell of these benches.
#[derive(Clone, Debug)]
pub struct PubSubCell {
    /// Criterion's group.
    pub group: String,
    /// Criterion's parameter; the function is the driver.
    pub parameter: String,
    /// The driver.
    pub driver: &'static Descriptor,
    /// What it does.
    pub doing: Doing,
    /// Bytes of a message.
    pub payload: usize,
    /// Why the driver can't do it, by its own statement.
    pub unsupported: Option<String>,
}

impl PubSubCell {
    /// The name `workload/driver/k=v,…`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}/{}", self.group, self.driver.name, self.parameter)
    }
}

type Wrong = (String, String);

fn require(right: bool, key: &str, reason: &str) -> Result<(), Wrong> {
    if right { Ok(()) } else { Err((key.to_owned(), reason.to_owned())) }
}

fn check_payloads(section: &str, payloads: &[usize]) -> Result<(), Wrong> {
    let key = format!("{section}.payloads");
    require(!payloads.is_empty(), &key, "the list is empty; name at least one")?;
    require(all_differ(payloads), &key, "a value stands there twice")?;
    let reason = format!("a message has {HEADER} bytes at least, for its header, and {LARGEST} at most");
    require(payloads.iter().all(|payload| (HEADER..=LARGEST).contains(payload)), &key, &reason)
}

impl PublishConfig {
    pub(super) fn check(&self) -> Result<(), Wrong> {
        check_drivers("publish", &self.drivers)?;
        check_payloads("publish", &self.payloads)?;
        let distinct = "a value stands there twice";
        require(all_differ(&self.batches), "publish.batches", distinct)?;
        require(all_differ(&self.callers), "publish.callers", distinct)?;
        require(all_differ(&self.windows_us), "publish.windows_us", distinct)?;
        require(self.batches.iter().all(|size| (1..=100_000).contains(size)), "publish.batches", "from 1 to 100000")?;
        require(self.callers.iter().all(|callers| (1..=10_000).contains(callers)), "publish.callers", "from 1 to 10000")?;
        let windows = self.windows_us.iter().all(|micros| (1.0..=1e6).contains(micros));
        require(windows, "publish.windows_us", "microseconds from 1 to 1000000; callers without a window are measured anyway")?;
        require(self.windows_us.is_empty() || !self.callers.is_empty(), "publish.callers", "a window needs callers; name at least one")?;
        let anything = self.serial || !self.batches.is_empty() || !self.callers.is_empty();
        require(anything, "publish.batches", "nothing to sweep; name a batch or callers, or set serial")
    }

    fn modes(&self) -> Vec<(Mode, String)> {
        let mut modes = Vec::new();
        if self.serial {
            modes.push((Mode::Serial, "serial".to_owned()));
        }
        modes.extend(self.batches.iter().map(|&size| (Mode::Batch { size }, format!("batch={size}"))));
        modes.extend(self.callers.iter().map(|&callers| (Mode::Concurrent { callers }, format!("callers={callers}"))));
        for &micros in &self.windows_us {
            let window_ns = (micros * 1e3).round() as u64;
            let windowed = |&callers| (Mode::Windowed { callers, window_ns }, format!("window={micros}us,callers={callers}"));
            modes.extend(self.callers.iter().map(windowed));
        }
        modes
    }
}

impl SubscribeConfig {
    pub(super) fn check(&self) -> Result<(), Wrong> {
        check_drivers("subscribe", &self.drivers)?;
        check_payloads("subscribe", &self.payloads)?;
        require(!self.subscribers.is_empty(), "subscribe.subscribers", "the list is empty; name at least one")?;
        require(all_differ(&self.subscribers), "subscribe.subscribers", "a value stands there twice")?;
        require(self.subscribers.iter().all(|count| (1..=1_000).contains(count)), "subscribe.subscribers", "from 1 to 1000")?;
        require((1..=10_000).contains(&self.batch), "subscribe.batch", "from 1 to 10000")
    }
}

/// The cells of the bench `publish`.
#[must_use]
pub fn publish(config: &BenchConfig) -> Vec<PubSubCell> {
    let publish = &config.publish;
    let mut cells = Vec::new();
    for &payload in &publish.payloads {
        for (mode, parameter) in publish.modes() {
            for driver in publish.drivers.iter().filter_map(|name| find(name).ok()) {
                let settings = Settings { resp: config.connection.resp, ..Settings::default() };
                let unsupported = runs_on(driver, &settings, Topology::Standalone).err().map(|error| error.to_string());
                let group = format!("publish-{payload}B");
                cells.push(PubSubCell { group, parameter: parameter.clone(), driver, doing: Doing::Publish(mode), payload, unsupported });
            }
        }
    }
    cells
}

/// The cells of the bench `subscribe`.
#[must_use]
pub fn subscribe(config: &BenchConfig) -> Vec<PubSubCell> {
    let subscribe = &config.subscribe;
    let mut cells = Vec::new();
    for &payload in &subscribe.payloads {
        for &subscribers in &subscribe.subscribers {
            for driver in subscribe.drivers.iter().filter_map(|name| find(name).ok()) {
                let can = driver.pubsub.check_kind(Topology::Standalone, config.connection.resp, Kind::Channel);
                cells.push(PubSubCell {
                    group: format!("subscribe-{payload}B"),
                    parameter: format!("subscribers={subscribers}"),
                    driver,
                    doing: Doing::Subscribe { subscribers, batch: subscribe.batch },
                    payload,
                    unsupported: can.err().map(|error| error.to_string()),
                });
            }
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHIPPED: &str = include_str!("../../benches/bench.toml");

    fn told(from: &str, to: &str) -> String {
        assert!(SHIPPED.contains(from), "{from}");
        BenchConfig::parse(&SHIPPED.replacen(from, to, 1), "bench.toml").unwrap_err().to_string()
    }

    #[test]
    fn the_shipped_cells_have_names_of_their_own() {
        let config = BenchConfig::parse(SHIPPED, "bench.toml").unwrap();
        let mut names: Vec<String> = publish(&config).iter().chain(&subscribe(&config)).map(PubSubCell::name).collect();
        assert!(names.iter().all(|name| name.split('/').count() == 3 && name.split('/').all(|part| (1..=64).contains(&part.len()))));
        for name in ["publish-128B/raw/serial", "publish-128B/raw/batch=1000", "subscribe-128B/raw/subscribers=1"] {
            assert!(names.iter().any(|other| other == name), "{name} in {names:?}");
        }
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_client_that_does_not_speak_the_protocol_is_a_row_that_says_so() {
        if find("rustis").is_err() {
            return;
        }
        let reasons = |resp: &str| {
            let text = SHIPPED.replace("\"deadpool-redis\"", "\"rustis\"").replacen("resp = 2 ", &format!("resp = {resp} "), 1);
            let config = BenchConfig::parse(&text.replace("[\"raw\", \"redis-rs\", \"fred\"]", "[\"rustis\"]"), "bench.toml").unwrap();
            let cells = publish(&config).into_iter().chain(subscribe(&config)).filter(|cell| cell.driver.name == "rustis");
            cells.map(|cell| cell.unsupported).collect::<Vec<_>>()
        };
        let (with_2, with_3) = (reasons("2"), reasons("3"));
        assert!(with_2.len() > 4 && with_2.iter().all(|reason| reason.as_ref().is_some_and(|reason| reason.contains("RESP3 only"))));
        assert!(with_3.len() == with_2.len() && with_3.iter().all(Option::is_none), "{with_3:?}");
    }

    #[test]
    fn mistakes_get_a_sentence() {
        assert!(told("batches = [10,", "batches = [0, 10,").contains("publish.batches: from 1 to 100000"));
        assert!(told("subscribers = [1,", "subscribers = [0, 1,").contains("subscribe.subscribers: from 1 to 1000"));
        assert!(told("payloads = [128] ", "payloads = [47] ").contains("publish.payloads: a message has 48 bytes at least"));
        assert!(told("windows_us = [75]", "windows_us = [0]").contains("publish.windows_us"));
        assert!(told("batch = 100 ", "batch = 0 ").contains("subscribe.batch"));
    }
}
