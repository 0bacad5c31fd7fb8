//! What a run of subscribers gave: plain data, for tables and JSON.

use serde::{Deserialize, Serialize};

use super::account::Strays;
use super::live::Percentiles;
use super::stream::Tally;

/// Where in a run a second lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Left out of rate, latency and the CPU of this process.
    WarmUp,
    /// Measured.
    Measured,
    /// Nothing is published any more; what is on its way is awaited.
    Drain,
}

/// A line of the per-second table: counts between two readings of the clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tick {
    /// Seconds since publishing began, at the end of this stretch.
    pub at_s: f64,
    /// Its length in seconds.
    pub length_s: f64,
    /// Where it lies.
    pub phase: Phase,
    /// New messages so far, all subscribers.
    pub total: u64,
    /// New messages in this stretch, all subscribers.
    pub received: u64,
    /// Messages published and answered in it.
    pub published: u64,
    /// Messages published, times the subscribers of each, that had neither arrived nor been dropped at its end; `None` when the publishers
    /// are in another process.
    pub backlog: Option<u64>,
    /// Subscriptions that were open at its end.
    pub active: u64,
    /// Publish-to-receive latency of the messages in it.
    pub latency: Option<Percentiles>,
}

impl Tick {
    /// New messages per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.received as f64 / self.length_s.max(f64::MIN_POSITIVE)
    }
}

/// Subscriptions of one node, as it said itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnNode {
    /// The node.
    pub node: String,
    /// Its subscriptions.
    pub subscriptions: u64,
}

/// One subscription's account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscribed {
    /// The subscriber's number.
    pub subscriber: usize,
    /// The channel.
    pub channel: String,
    /// Its account.
    #[serde(flatten)]
    pub tally: Tally,
}

/// CPU of this process while it was measured, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientCpu {
    /// In user mode.
    pub user_s: f64,
    /// In the kernel.
    pub system_s: f64,
}

/// What the messages on the way used of the servers, and whether they counted as we did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerCount {
    /// PUBLISH or SPUBLISH that the masters executed, warm-up and drain included.
    pub publishes: u64,
    /// CPU of all nodes, seconds, over the same time.
    pub cpu_s: f64,
}

/// What a run gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The run's number.
    pub run: u64,
    /// Subscriptions that the servers confirmed.
    pub subscriptions: u64,
    /// Connections that hold them, as subscribers of the client.
    pub subscribers: u64,
    /// The confirmed ones by node.
    pub per_node: Vec<OnNode>,
    /// Seconds from the first connection to the servers' confirmation of all subscriptions.
    pub opening_s: f64,
    /// Bytes that the servers' memory grew by while subscriptions were opened.
    pub server_memory: Option<u64>,
    /// Bytes that this process' resident set grew by meanwhile.
    pub client_memory: Option<u64>,
    /// Seconds that were measured: warm-up and drain left out.
    pub duration_s: f64,
    /// New messages in that time.
    pub measured: u64,
    /// Messages published in that time.
    pub measured_published: u64,
    /// Messages begun in the whole run.
    pub begun: u64,
    /// Of these, messages that nobody answered.
    pub unanswered: u64,
    /// The sum of all accounts, of the whole run.
    pub tally: Tally,
    /// What is counted beside them.
    pub strays: Strays,
    /// What PUBLISH itself returned, added up; `None` where that says nothing about all subscribers: on a cluster, but for shard channels.
    pub given: Option<u64>,
    /// Subscriptions that were ended and made again.
    pub churned: u64,
    /// Connections of subscribers that were lost.
    pub disconnections: u64,
    /// And of those, made anew.
    pub reconnections: u64,
    /// Publish-to-receive latency of the measured messages.
    pub latency: Option<Percentiles>,
    /// Seconds that the publishers were behind their set rate at the most.
    pub behind_s: Option<f64>,
    /// CPU of this process in the measured time, its publishers included.
    pub client_cpu: ClientCpu,
    /// The servers' own count; `None` with the reason in `remarks`.
    pub server: Option<ServerCount>,
    /// Whether the servers' count is missing at the end of a run that needs it: they died, or were started anew.
    #[serde(default)]
    pub uncounted: bool,
    /// The run second by second.
    pub series: Vec<Tick>,
    /// Every subscription.
    pub accounts: Vec<Subscribed>,
    /// Whether the drain was given up while messages still came: what is missing is lost, or was not yet taken from a client's buffer.
    #[serde(default)]
    pub drain_cut: bool,
    /// What ended the run before its time.
    pub ended_by: Option<String>,
    /// Counts that contradict each other; none in a sound run.
    pub deviations: Vec<String>,
    /// What a reader must know.
    pub remarks: Vec<String>,
}

impl Outcome {
    /// New messages per second, measured; `None` when no time was.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        (self.duration_s > 0.0).then(|| self.measured as f64 / self.duration_s)
    }

    /// Messages published per second, measured; `None` when no time was.
    #[must_use]
    pub fn publish_rate(&self) -> Option<f64> {
        (self.duration_s > 0.0).then(|| self.measured_published as f64 / self.duration_s)
    }

    /// Client CPU per received message, nanoseconds; the publishers' share is in it.
    #[must_use]
    pub fn client_ns_per_message(&self) -> Option<f64> {
        (self.measured > 0).then(|| (self.client_cpu.user_s + self.client_cpu.system_s) * 1e9 / self.measured as f64)
    }

    /// CPU of all servers per delivered message, nanoseconds.
    #[must_use]
    pub fn server_ns_per_message(&self) -> Option<f64> {
        self.server.filter(|_| self.tally.received > 0).map(|server| server.cpu_s * 1e9 / self.tally.received as f64)
    }

    /// Whether messages are missing: by the accounts, or because the client dropped more than the accounts could know of.
    #[must_use]
    pub fn is_lossy(&self) -> bool {
        self.tally.lost > 0 || self.tally.stale > 0 || self.strays.lagged > 0
    }

    /// Whether others may be held against it: measured to the end, sound, and without loss.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.rate().is_some() && self.ended_by.is_none() && !self.is_unsound() && !self.is_lossy()
    }

    /// Whether the figures can't be stood behind, loss apart.
    #[must_use]
    pub fn is_unsound(&self) -> bool {
        !self.deviations.is_empty() || self.strays.corrupt > 0 || self.tally.duplicated > 0 || self.was_cut_off().is_some()
    }

    /// What says that the servers were gone at the end, so that part of the measured time is of no use.
    #[must_use]
    pub fn was_cut_off(&self) -> Option<String> {
        let away = self.disconnections.saturating_sub(self.reconnections);
        let away = (away > 0).then(|| format!("{away} of {} subscribers were without a connection at the end", self.subscribers));
        let uncounted = self.uncounted.then(|| "the servers gave no count at the end".to_owned());
        match (uncounted, away) {
            (Some(uncounted), Some(away)) => Some(format!("{uncounted}, and {away}")),
            (one, other) => one.or(other),
        }
    }
}

/// Adds what the counts say against each other: `exact` when nothing happened that could explain a difference. Of `doubtful` commands
/// beside the messages nobody knows whether the servers executed them.
pub(super) fn cross_check(outcome: &mut Outcome, command: &str, exact: bool, doubtful: u64) {
    let answered = outcome.begun - outcome.unanswered;
    if let Some(server) = outcome.server
        && !(answered..=outcome.begun + doubtful).contains(&server.publishes)
    {
        let text = format!("the servers executed {} {command}, we counted {answered}", server.publishes);
        outcome.deviations.push(text);
    }
    let Some(given) = outcome.given else { return };
    let Tally { received, unjudged, .. } = outcome.tally;
    let expected = outcome.tally.expected();
    if exact && given != expected {
        outcome.deviations.push(format!("{command} returned {given} receivers in all, the accounts expect {expected}"));
    } else if given > expected + unjudged {
        let most = expected + unjudged;
        outcome.deviations.push(format!("{command} returned {given} receivers in all, the accounts expect {most} at most"));
    } else if outcome.unanswered == 0 && given < received {
        outcome.deviations.push(format!("{command} returned {given} receivers in all, but {received} messages arrived"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(received: u64, lost: u64, given: u64) -> Outcome {
        let tally = Tally { received, lost, ..Tally::default() };
        let server = Some(ServerCount { publishes: 10, cpu_s: 0.0 });
        Outcome { begun: 10, tally, given: Some(given), server, ..Outcome::default() }
    }

    fn deviations(mut outcome: Outcome, exact: bool) -> usize {
        cross_check(&mut outcome, "PUBLISH", exact, 0);
        outcome.deviations.len()
    }

    #[test]
    fn counts_that_contradict_each_other_are_told() {
        assert_eq!(deviations(outcome(15, 5, 20), true), 0, "lost after the server had given it");
        assert_eq!(deviations(outcome(20, 0, 19), true), 1);
        assert_eq!(deviations(outcome(15, 5, 16), false), 0, "a subscriber was away, and the server gave it nothing");
        assert_eq!(deviations(outcome(15, 5, 21), false), 1);
        assert_eq!(deviations(outcome(15, 5, 14), false), 1);
        let executed = Outcome { server: Some(ServerCount { publishes: 9, cpu_s: 0.0 }), ..outcome(20, 0, 20) };
        assert_eq!(deviations(executed.clone(), true), 1);
        assert_eq!(deviations(Outcome { unanswered: 1, ..executed }, true), 0, "one was not answered");
    }

    #[test]
    fn rates_are_counts_over_measured_time() {
        let outcome = Outcome { measured: 300, duration_s: 2.0, client_cpu: ClientCpu { user_s: 0.1, system_s: 0.2 }, ..outcome(0, 0, 0) };
        assert_eq!(outcome.rate(), Some(150.0));
        assert_eq!(outcome.client_ns_per_message().map(f64::round), Some(1e6));
        assert_eq!((Outcome::default().rate(), Outcome::default().publish_rate()), (None, None), "no time was measured");
    }

    #[test]
    fn what_the_client_says_it_dropped_is_loss_whatever_the_account_saw() {
        let whole = Outcome { measured: 20, duration_s: 2.0, ..outcome(20, 0, 20) };
        assert!(whole.is_whole() && !whole.is_lossy());
        let dropped = Outcome { strays: Strays { lagged: 3, ..Strays::default() }, ..whole.clone() };
        assert!(dropped.is_lossy() && !dropped.is_whole());
        assert!(!Outcome { ended_by: Some("interrupted".into()), ..whole.clone() }.is_whole());
        assert!(!Outcome { duration_s: 0.0, ..whole }.is_whole());
    }

    #[test]
    fn a_run_whose_servers_are_gone_at_the_end_is_unsound() {
        let whole = Outcome { measured: 20, duration_s: 2.0, subscribers: 5, disconnections: 5, reconnections: 5, ..outcome(20, 0, 20) };
        assert!(whole.is_whole() && whole.was_cut_off().is_none(), "all came back");
        let away = Outcome { reconnections: 3, ..whole.clone() };
        assert!(away.is_unsound() && away.was_cut_off().unwrap().starts_with("2 of 5 subscribers"));
        let uncounted = Outcome { uncounted: true, ..whole };
        assert!(uncounted.is_unsound() && uncounted.was_cut_off().unwrap().contains("no count"));
    }

    #[test]
    fn an_announcement_without_an_answer_may_have_been_executed() {
        let mut more = Outcome { server: Some(ServerCount { publishes: 11, cpu_s: 0.0 }), ..outcome(20, 0, 20) };
        cross_check(&mut more, "PUBLISH", false, 1);
        assert!(more.deviations.is_empty());
        cross_check(&mut more, "PUBLISH", false, 0);
        assert_eq!(more.deviations.len(), 1);
    }
}
