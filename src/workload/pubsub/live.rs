//! What is known while a run goes on: counters that their owners alone write, and latencies.
//!
//! Nothing here is locked or allocated for a message: counters are plain stores, and latencies go through a buffer of each
//! subscriber, which takes a lock only when it is full or its subscriber has nothing to do.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::measure::latency::histogram;

/// Latencies that a subscriber keeps before it hands them over.
const BUFFERED: usize = 256;

/// A counter that one task writes and others read, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Adds; only for the one task that writes it.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.store(self.0.load(Relaxed) + count, Relaxed);
    }

    /// The value.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// What one publisher did on one channel.
#[derive(Debug, Default)]
pub struct Lane {
    /// Messages that it began to send.
    begun: AtomicU64,
    /// Messages that were answered, or given up: all below.
    answered: AtomicU64,
    /// Messages that it began and that nobody answered.
    unanswered: Mutex<Vec<Range<u64>>>,
}

impl Lane {
    /// It begins to send `count` more; returns the number of the first.
    pub fn begin(&self, count: u64) -> u64 {
        let first = self.begun.load(Relaxed);
        // Before the message leaves, so that whoever sees the message sees this too.
        self.begun.store(first + count, std::sync::atomic::Ordering::SeqCst);
        first
    }

    /// All that it began was answered.
    pub fn answer(&self) {
        self.answered.store(self.begun.load(Relaxed), std::sync::atomic::Ordering::SeqCst);
    }

    /// These were not answered.
    pub fn fail(&self, numbers: Range<u64>) {
        let mut list = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
        match list.last_mut() {
            Some(last) if last.end == numbers.start => last.end = numbers.end,
            _ => list.push(numbers),
        }
    }

    /// Messages begun.
    #[must_use]
    pub fn begun(&self) -> u64 {
        self.begun.load(std::sync::atomic::Ordering::SeqCst)
    }

    /// All below this were answered or given up.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.answered.load(std::sync::atomic::Ordering::SeqCst)
    }

    /// How many were begun, and which of them nobody answered, now that nothing more is sent.
    #[must_use]
    pub fn settled(&self) -> (u64, Vec<Range<u64>>) {
        let (begun, answered) = (self.begun(), self.answered());
        let mut list = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if answered < begun {
            list.push(answered..begun);
        }
        (begun, list)
    }
}

/// Counters and latencies of one run.
#[derive(Debug)]
pub struct Live {
    /// New messages of each subscriber.
    pub received: Vec<Gauge>,
    /// Messages that each subscriber's client says it dropped.
    pub lagged: Vec<Gauge>,
    /// Subscriptions that are open.
    pub active: AtomicU64,
    /// Connections of subscribers that were lost.
    pub disconnections: AtomicU64,
    /// Connections of subscribers that were made anew.
    pub reconnections: AtomicU64,
    /// Subscribers that were told the end by publishers in another process.
    pub ended: AtomicU64,
    /// Messages published and answered, of each publisher.
    pub published: Vec<Gauge>,
    /// Sum of what PUBLISH returned, of each publisher.
    pub given: Vec<Gauge>,
    /// Messages without an answer.
    pub unanswered: AtomicU64,
    /// Nanoseconds that publishers with a set rate were behind their plan at the most.
    pub behind_ns: AtomicU64,
    /// Ends of streams that publishers announced to subscribers in another process: begun.
    pub announced: AtomicU64,
    /// And of those, answered.
    pub announcements_answered: AtomicU64,
    /// Publishers stop when this is set.
    pub stop_publishing: AtomicBool,
    /// Latencies of messages sent before are left out: nanoseconds of the monotonic clock.
    pub measured_from: AtomicU64,
    shards: Vec<Mutex<Histogram<u64>>>,
}

impl Live {
    /// Everything at zero.
    #[must_use]
    pub fn new(subscribers: usize, publishers: usize) -> Self {
        let gauges = |count: usize| (0..count).map(|_| Gauge::default()).collect::<Vec<_>>();
        let shards = std::thread::available_parallelism().map_or(1, usize::from).min(16);
        Self {
            received: gauges(subscribers),
            lagged: gauges(subscribers),
            active: AtomicU64::new(0),
            disconnections: AtomicU64::new(0),
            reconnections: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            published: gauges(publishers),
            given: gauges(publishers),
            unanswered: AtomicU64::new(0),
            behind_ns: AtomicU64::new(0),
            announced: AtomicU64::new(0),
            announcements_answered: AtomicU64::new(0),
            stop_publishing: AtomicBool::new(false),
            measured_from: AtomicU64::new(u64::MAX),
            shards: (0..shards).map(|_| Mutex::new(histogram())).collect(),
        }
    }

    /// Sum of a list of counters.
    #[must_use]
    pub fn sum(gauges: &[Gauge]) -> u64 {
        gauges.iter().map(Gauge::get).sum()
    }

    /// Takes the latencies handed over since the last call.
    #[must_use]
    pub fn take_latencies(&self) -> Histogram<u64> {
        let mut taken = histogram();
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            // Same bounds, so it can't fail.
            let _ = taken.add(&*shard);
            shard.reset();
        }
        taken
    }
}

/// The latencies of one subscriber on their way to the histogram.
#[derive(Debug)]
pub struct Latencies {
    shard: usize,
    waiting: Vec<u64>,
}

impl Latencies {
    /// For the subscriber `index`.
    #[must_use]
    pub fn new(index: usize) -> Self {
        Self { shard: index, waiting: Vec::with_capacity(BUFFERED) }
    }

    /// A message sent at `sent_ns` came at `now_ns`.
    #[inline]
    pub fn note(&mut self, live: &Live, sent_ns: u64, now_ns: u64) {
        if sent_ns < live.measured_from.load(Relaxed) {
            return;
        }
        self.waiting.push(now_ns.saturating_sub(sent_ns));
        if self.waiting.len() == BUFFERED {
            self.hand_over(live);
        }
    }

    /// Hands over what waits.
    pub fn hand_over(&mut self, live: &Live) {
        if self.waiting.is_empty() {
            return;
        }
        let shard = &live.shards[self.shard % live.shards.len()];
        let mut histogram = shard.lock().unwrap_or_else(PoisonError::into_inner);
        for latency in self.waiting.drain(..) {
            histogram.saturating_record(latency);
        }
    }
}

/// Percentiles in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Latencies counted.
    pub count: u64,
    /// Mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 95th percentile.
    pub p95_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// The largest.
    pub max_us: f64,
}

impl Percentiles {
    /// Of a histogram of nanoseconds; `None` when it is empty.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Option<Self> {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        (!histogram.is_empty()).then(|| Self {
            count: histogram.len(),
            mean_us: histogram.mean() / 1e3,
            p50_us: at(0.5),
            p95_us: at(0.95),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: histogram.max() as f64 / 1e3,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_tells_what_was_not_answered() {
        let lane = Lane::default();
        assert_eq!(lane.begin(3), 0);
        lane.answer();
        assert_eq!(lane.begin(2), 3);
        lane.fail(3..5);
        lane.answer();
        assert_eq!(lane.begin(1), 5);
        assert_eq!((lane.begun(), lane.answered()), (6, 5));
        assert_eq!(lane.settled(), (6, vec![3..5, 5..6]));
    }

    #[test]
    fn latencies_of_the_warm_up_are_left_out_and_all_others_arrive() {
        let live = Live::new(1, 1);
        live.measured_from.store(1_000, Relaxed);
        let mut latencies = Latencies::new(0);
        (0..2_000).for_each(|sent| latencies.note(&live, sent, sent + 500));
        latencies.hand_over(&live);
        let percentiles = Percentiles::of(&live.take_latencies()).unwrap();
        assert_eq!((percentiles.count, percentiles.max_us), (1_000, 0.5));
        assert_eq!(Percentiles::of(&live.take_latencies()), None);
    }
}
