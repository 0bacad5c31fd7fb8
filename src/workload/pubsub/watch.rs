//! The phases of a run, and its per-second series.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::task::JoinSet;

use super::churn::Lanes;
use super::engine::{Listener, News};
use super::live::{Live, Percentiles};
use super::outcome::{ClientCpu, Outcome, Phase, Tick};
use super::plan::Plan;
use crate::drivers::Error;
use crate::interrupt;
use crate::measure::clock::now_ns;
use crate::measure::latency::histogram;
use crate::measure::{Snapshot, Usage};

const SECOND: Duration = Duration::from_secs(1);

/// How often it is looked whether everything has arrived.
const LOOK: Duration = Duration::from_millis(2);

/// The longest that draining may take, whatever still arrives.
const LONGEST_DRAIN: Duration = Duration::from_secs(60);

/// The same after Ctrl-C.
const LONGEST_DRAIN_INTERRUPTED: Duration = Duration::from_secs(3);

/// How long publishers may take to end once they are told to.
const PUBLISHERS_END_WITHIN: Duration = Duration::from_secs(6);

/// Counters at one moment.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Instant,
    received: u64,
    published: u64,
}

/// What has arrived since the end of publishing.
struct Arrivals {
    /// Messages that arrived or were dropped.
    seen: u64,
    /// At the last of them, or at the end of publishing.
    last: (Mark, Option<Usage>),
}

/// Watches a run: makes its series, and decides when its phases end.
pub(super) struct Watch<'a> {
    plan: &'a Plan,
    live: Arc<Live>,
    lanes: Lanes,
    begin: Instant,
    last: Mark,
    phase: Phase,
    next_tick: Instant,
    all: Histogram<u64>,
    series: Vec<Tick>,
    measured: Option<(Mark, Snapshot)>,
    end: Option<(Mark, Usage)>,
    arrivals: Option<Arrivals>,
    drain_cut: bool,
    ended_by: Option<String>,
    remarks: Vec<String>,
}

impl<'a> Watch<'a> {
    /// Begins now, before the first message is published.
    pub(super) fn new(plan: &'a Plan, live: Arc<Live>, lanes: Lanes) -> Self {
        let begin = Instant::now();
        let last = Mark { at: begin, received: 0, published: 0 };
        let mut watch = Self {
            plan,
            live,
            lanes,
            begin,
            last,
            phase: Phase::WarmUp,
            next_tick: begin + SECOND,
            all: histogram(),
            series: Vec::new(),
            measured: None,
            end: None,
            arrivals: None,
            drain_cut: false,
            ended_by: None,
            remarks: Vec::new(),
        };
        // Elsewhere publishers begin when they like.
        if plan.publishers > 0 && (plan.warm_up.is_zero() || plan.messages.is_some()) {
            watch.begin_measuring();
        }
        watch
    }

    fn mark(&self) -> Mark {
        Mark { at: Instant::now(), received: Live::sum(&self.live.received), published: Live::sum(&self.live.published) }
    }

    /// Ends the stretch that goes on, as a line of the series.
    fn tick(&mut self, listener: &mut dyn FnMut(News<'_>)) {
        let now = self.mark();
        let latencies = self.live.take_latencies();
        // Same bounds, so it can't fail.
        let _ = self.all.add(&latencies);
        let lagged = Live::sum(&self.live.lagged);
        let own = self.plan.publishers > 0 && !self.plan.publish_only;
        let tick = Tick {
            at_s: (now.at - self.begin).as_secs_f64(),
            length_s: (now.at - self.last.at).as_secs_f64(),
            phase: self.phase,
            total: now.received,
            received: now.received - self.last.received,
            published: now.published - self.last.published,
            backlog: own.then(|| (now.published * u64::from(self.plan.per_channel)).saturating_sub(now.received + lagged)),
            active: self.live.active.load(Relaxed),
            latency: Percentiles::of(&latencies),
        };
        self.last = now;
        self.next_tick += SECOND;
        if self.next_tick <= now.at {
            self.next_tick = now.at + SECOND;
        }
        listener(News::Tick(&tick));
        self.series.push(tick);
    }

    fn begin_measuring(&mut self) {
        self.phase = Phase::Measured;
        self.live.measured_from.store(if self.plan.messages.is_some() { 0 } else { now_ns() }, Relaxed);
        // The end of the stretch before, so that the series adds up to the whole.
        self.measured = Some((self.last, Snapshot::take()));
    }

    fn end_measuring(&mut self) {
        if let (Some((_, snapshot)), None) = (&self.measured, &self.end) {
            self.end = Some((self.last, snapshot.usage()));
        }
    }

    /// Whether publishers in another process are done, or each subscription has as many messages as were asked for.
    fn others_are_done(&self) -> bool {
        let subscribers = self.live.received.len() as u64;
        let enough = self.plan.messages.map(|messages| messages * self.plan.subscriptions());
        self.live.ended.load(Relaxed) >= subscribers || enough.is_some_and(|enough| Live::sum(&self.live.received) >= enough)
    }

    /// Warm-up and measurement, until the time is over, all is published, or nothing more can come of it.
    pub(super) async fn publish(&mut self, publishing: &mut JoinSet<Result<(), Error>>, listener: Listener<'_>) {
        let elsewhere = self.plan.publishers == 0;
        // The time of others begins with their first message.
        let mut warm_up_ends = (!elsewhere).then(|| self.begin + self.plan.warm_up);
        let give_up = self.begin + self.plan.warm_up + self.plan.test_time;
        let mut measured_until = self.measured.as_ref().map(|(mark, _)| mark.at + self.plan.test_time);
        let mut failures = 0;
        loop {
            let until = [Some(self.next_tick), warm_up_ends.filter(|_| self.measured.is_none()), measured_until];
            let until = until.into_iter().flatten().min().unwrap_or(self.next_tick);
            let until = if elsewhere { until.min(Instant::now() + LOOK) } else { until };
            tokio::select! {
                () = tokio::time::sleep_until(until.into()) => {}
                Some(ended) = publishing.join_next() => {
                    let failure = match ended {
                        Ok(Ok(())) => None,
                        Ok(Err(error)) => Some(error.to_string()),
                        Err(panic) => Some(panic.to_string()),
                    };
                    if let Some(failure) = failure {
                        failures += 1;
                        self.remarks.push(format!("a publisher gave up: {failure}"));
                    }
                    if publishing.is_empty() {
                        if failures > 0 {
                            self.ended_by = Some(format!("no publisher was left: {failures} of {} gave up", self.plan.publishers));
                        }
                        break;
                    }
                }
                () = interrupt::wait() => {
                    self.ended_by = Some("interrupted".into());
                    break;
                }
            }
            let now = Instant::now();
            if elsewhere && warm_up_ends.is_none() && Live::sum(&self.live.received) > 0 {
                warm_up_ends = Some(now + self.plan.warm_up);
            }
            if self.measured.is_none() && warm_up_ends.is_some_and(|end| now >= end) {
                if now > self.begin + LOOK {
                    self.tick(listener);
                }
                self.begin_measuring();
                self.next_tick = self.last.at + SECOND;
                measured_until = Some(self.last.at + self.plan.test_time);
            }
            let over = measured_until.is_some_and(|end| now >= end);
            if !over && now >= self.next_tick {
                self.tick(listener);
            }
            if over {
                if self.plan.messages.is_some() && !elsewhere {
                    self.ended_by = Some(format!("not all messages were published within --test-time {:?}", self.plan.test_time));
                }
                break;
            }
            if elsewhere && self.others_are_done() {
                break;
            }
            if warm_up_ends.is_none() && now >= give_up {
                self.ended_by = Some(format!("no message came within {:?}", self.plan.warm_up + self.plan.test_time));
                break;
            }
        }
        if self.measured.is_none() && self.ended_by.is_none() {
            self.ended_by = Some("publishing ended before the warm-up did".into());
        }
        // With a set number of messages, what is on its way belongs to the measurement.
        if self.plan.messages.is_none() {
            self.tick(listener);
            self.end_measuring();
        }
        self.live.stop_publishing.store(true, Relaxed);
        self.follow();
        let given_up = Instant::now() + PUBLISHERS_END_WITHIN;
        while !publishing.is_empty() {
            tokio::select! {
                _ = publishing.join_next() => {}
                () = tokio::time::sleep(LOOK) => {
                    self.follow();
                    if Instant::now() >= given_up {
                        self.remarks.push("a publisher was given up, since its client did not answer".into());
                        publishing.shutdown().await;
                    }
                }
            }
        }
        if self.plan.messages.is_none() {
            self.phase = Phase::Drain;
        }
    }

    /// Looks whether something has arrived since the last look; returns how much there is.
    fn follow(&mut self) -> u64 {
        let seen = Live::sum(&self.live.received) + Live::sum(&self.live.lagged);
        if self.arrivals.as_ref().is_none_or(|arrivals| seen > arrivals.seen) {
            // The time without arrivals at the end is no part of the measurement, and neither is its CPU.
            let usage = self.measured.as_ref().map(|(_, snapshot)| snapshot.usage());
            self.arrivals = Some(Arrivals { seen, last: (self.mark(), usage) });
        }
        seen
    }

    /// Waits until all that was published has arrived or was dropped, or nothing arrives any more, and nothing is `busy`.
    pub(super) async fn drain(&mut self, listener: Listener<'_>, busy: impl Fn() -> bool + Send) {
        let start = Instant::now();
        let wanted = (self.plan.publishers > 0).then(|| self.lanes.begun() * u64::from(self.plan.per_channel));
        let wanted = if self.plan.publish_only { Some(0) } else { wanted };
        // A slow subscriber takes nothing while it dawdles.
        let quiet = self.plan.drain.saturating_add(self.plan.delay);
        let (mut seen, mut progress) = (self.follow(), Instant::now());
        loop {
            let now = self.follow();
            if now > seen || busy() {
                (seen, progress) = (now, Instant::now());
            }
            let interrupted = interrupt::interrupted();
            let longest = if interrupted { LONGEST_DRAIN_INTERRUPTED } else { LONGEST_DRAIN };
            let done = match wanted {
                Some(wanted) => seen >= wanted,
                None => self.others_are_done(),
            };
            if done && !busy() || progress.elapsed() >= quiet {
                break;
            }
            if start.elapsed() >= longest {
                self.drain_cut = true;
                self.remarks.push(format!("messages still came after {longest:?} of draining; what was left is lost or was not yet taken"));
                if interrupted && self.ended_by.is_none() {
                    self.ended_by = Some("interrupted".into());
                }
                break;
            }
            if Instant::now() >= self.next_tick {
                self.tick(listener);
            }
            tokio::time::sleep(LOOK).await;
        }
        if self.plan.messages.is_some()
            && let Some(Arrivals { last: (mark, Some(usage)), .. }) = self.arrivals
        {
            self.end = Some((mark, usage));
        }
    }

    /// Puts down what it saw.
    pub(super) fn finish(mut self, outcome: &mut Outcome) {
        self.tick(&mut |_| {});
        self.series.retain(|tick| tick.received > 0 || tick.published > 0 || tick.phase != Phase::Drain);
        if let (Some((from, _)), Some((to, usage))) = (&self.measured, &self.end) {
            outcome.duration_s = to.at.saturating_duration_since(from.at).as_secs_f64();
            outcome.measured = to.received - from.received;
            outcome.measured_published = to.published - from.published;
            outcome.client_cpu = ClientCpu { user_s: usage.user.as_secs_f64(), system_s: usage.system.as_secs_f64() };
        }
        outcome.latency = Percentiles::of(&self.all);
        outcome.disconnections = self.live.disconnections.load(Relaxed);
        outcome.reconnections = self.live.reconnections.load(Relaxed);
        outcome.behind_s = self.plan.rate.map(|_| self.live.behind_ns.load(Relaxed) as f64 / 1e9);
        outcome.series = self.series;
        outcome.drain_cut = self.drain_cut;
        outcome.ended_by = self.ended_by;
        outcome.remarks.append(&mut self.remarks);
    }
}
