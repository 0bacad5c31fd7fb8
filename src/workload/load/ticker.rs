//! The second hand of a load: collects what the callers noted, once a second, and keeps the series.
//!
//! It runs on a thread of its own, so that a busy runtime does not delay it; each interval states its true bounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::pacer::Queue;
use crate::measure::{Classes, Counts, Latency, Tally};

/// Length of an interval.
const INTERVAL: Duration = Duration::from_secs(1);

/// One interval of the series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Seconds from the start to its beginning.
    pub from: f64,
    /// Seconds from the start to its end; the last one is as short as it was.
    pub to: f64,
    /// Commands that succeeded in it.
    pub commands: u64,
    /// Commands that failed in it.
    pub errors: u64,
    /// Commands that were due and not sent at its end; `None` in a closed loop.
    pub backlog: Option<u64>,
    /// From sending to the reply.
    pub service: Option<Latency>,
    /// From the planned time to the reply; `None` in a closed loop.
    pub planned: Option<Latency>,
    /// Service time of each entry of the mix; empty when there is only one.
    pub entries: Vec<Option<Latency>>,
}

/// Intervals shorter than this have counts and no rate: it would be an extrapolation.
const SHORTEST_RATE: f64 = 0.5;

impl Second {
    /// Successful commands per second; `None` for a last interval that was too short for one.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        let length = self.to - self.from;
        (length >= SHORTEST_RATE).then(|| self.commands as f64 / length)
    }
}

/// What an observer is told at the end of an interval.
pub struct Tick<'a> {
    /// The interval.
    pub second: &'a Second,
    /// Its counts and latencies, all entries together.
    pub counts: &'a Counts,
    /// Successes since the start.
    pub commands: u64,
    /// Failures since the start.
    pub errors: u64,
}

/// Whoever wants to see the run go by.
pub type Observer = Box<dyn FnMut(&Tick<'_>) + Send>;

/// The thread that collects.
pub struct Ticker {
    thread: thread::JoinHandle<Collected>,
    stop: Arc<AtomicBool>,
}

/// All that was collected.
pub struct Collected {
    /// Counts and latencies of the whole run, by class.
    pub total: Classes,
    /// The intervals in order.
    pub seconds: Vec<Second>,
    /// The observer, given back.
    pub observer: Observer,
}

/// What the ticker watches.
pub struct Watched {
    /// Where the callers note.
    pub tally: Arc<Tally>,
    /// Entries of the mix.
    pub entries: usize,
    /// Classes of each entry.
    pub classes: usize,
    /// Commands of one arrival, with the queue of an open loop.
    pub queue: Option<(u64, Arc<Queue>)>,
}

impl Ticker {
    /// Starts collecting, with `start` as time zero.
    #[must_use]
    pub fn start(watched: Watched, start: Instant, observer: Observer) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || collect(&watched, start, observer, &stopped));
        Self { thread, stop }
    }

    /// Collects the rest and ends; nothing may be noted any more.
    ///
    /// # Panics
    /// When the observer panicked.
    #[must_use]
    pub fn stop(self) -> Collected {
        self.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        self.thread.join().expect("the observer of a load must not panic")
    }
}

fn collect(watched: &Watched, start: Instant, mut observer: Observer, stop: &AtomicBool) -> Collected {
    let (entries, classes) = (watched.entries, watched.entries * watched.classes);
    let (mut total, mut interval, mut spare) = (Classes::new(classes), Classes::new(classes), Classes::new(classes));
    let mut seconds: Vec<Second> = Vec::new();
    let (mut from, mut due) = (Duration::ZERO, INTERVAL);
    loop {
        let mut last = stop.load(Ordering::Acquire);
        while let Some(wait) = due.checked_sub(start.elapsed()).filter(|wait| !wait.is_zero() && !last) {
            thread::park_timeout(wait);
            last = stop.load(Ordering::Acquire);
        }
        watched.tally.collect(&mut interval, &mut spare);
        let to = start.elapsed();
        let counts = interval.total();
        total.add(&interval);
        let by_entry = || match watched.classes {
            1 => interval.0.iter().map(|class| Latency::of(&class.service)).collect(),
            classes => interval.joined(classes).0.iter().map(|entry| Latency::of(&entry.service)).collect(),
        };
        let second = Second {
            from: from.as_secs_f64(),
            to: to.as_secs_f64(),
            commands: counts.done,
            errors: counts.failed,
            backlog: watched.queue.as_ref().map(|(unit, queue)| queue.backlog() * unit),
            service: Latency::of(&counts.service),
            planned: Latency::of(&counts.planned),
            entries: if entries > 1 { by_entry() } else { Vec::new() },
        };
        // Stopping right after a tick leaves an interval in which nothing can have happened.
        if !last || counts.done + counts.failed > 0 || seconds.is_empty() {
            observer(&Tick { second: &second, counts: &counts, commands: total.done(), errors: total.failed() });
            seconds.push(second);
        }
        if last {
            return Collected { total, seconds, observer };
        }
        interval.clear();
        from = to;
        while due <= to {
            due += INTERVAL;
        }
    }
}
