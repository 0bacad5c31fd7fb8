//! Releases the arrivals of an open loop at their planned times, whatever the runtime, the client and the server do.
//!
//! It runs on a thread of its own, so that a client that keeps the runtime busy delays no release. How late it is itself
//! is measured and reported: latency counts from the planned time, so lateness of ours would be blamed on the client.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::sync::Semaphore;

use super::arrivals::Arrivals;
use crate::measure::clock::nanos;
use crate::measure::latency::histogram;

/// Arrivals closer than this are released together: waking up costs about 5 µs of CPU time each time.
const GRAIN: Duration = Duration::from_micros(50);
/// Most arrivals that are released at once, so that a rate beyond all means still leaves room to be told to stop.
const MOST_AT_ONCE: u64 = 4096;

/// What the callers of an open loop take their work from.
pub struct Queue {
    /// One permit for each arrival that is due and not taken.
    due: Semaphore,
    plan: Mutex<Arrivals>,
    /// Arrivals released so far.
    released: AtomicU64,
    /// Arrivals taken so far.
    taken: AtomicU64,
    /// Most arrivals that are to be released.
    most: u64,
    ended: AtomicBool,
    /// All that were to be released are.
    complete: AtomicBool,
    /// Arrivals due and not taken when the last one was released.
    backlog_at_end: AtomicU64,
}

/// One planned piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its place in the plan, from 0.
    pub number: u64,
    /// When it was to be sent, after the start.
    pub planned: Duration,
}

impl Queue {
    /// A queue of the first `most` arrivals of `plan`.
    #[must_use]
    pub fn new(plan: Arrivals, most: u64) -> Self {
        Self {
            due: Semaphore::new(0),
            plan: Mutex::new(plan),
            released: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            most,
            ended: AtomicBool::new(false),
            complete: AtomicBool::new(false),
            backlog_at_end: AtomicU64::new(0),
        }
    }

    /// Waits until an arrival is due and takes it; `None` when there will be no more.
    pub async fn take(&self) -> Option<Arrival> {
        // An error would mean that the semaphore was closed, which nobody does.
        self.due.acquire().await.ok()?.forget();
        let mut plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        if self.ended.load(Ordering::Acquire) || plan.drawn() == self.most {
            return None;
        }
        let number = plan.drawn();
        let planned = plan.next()?;
        self.taken.store(number + 1, Ordering::Release);
        Some(Arrival { number, planned })
    }

    /// Arrivals that are due and not taken.
    #[must_use]
    pub fn backlog(&self) -> u64 {
        // Taken first: it never passes what is released afterwards.
        let taken = self.taken.load(Ordering::Acquire);
        self.released.load(Ordering::Acquire).saturating_sub(taken)
    }

    /// Arrivals that were due and not taken when the last one was released, or when the plan was given up.
    #[must_use]
    pub fn backlog_at_end(&self) -> u64 {
        self.backlog_at_end.load(Ordering::Acquire)
    }

    /// Whether every arrival of the plan was released.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete.load(Ordering::Acquire)
    }

    /// Arrivals released so far.
    #[must_use]
    pub fn released(&self) -> u64 {
        self.released.load(Ordering::Acquire)
    }

    /// Arrivals taken so far.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }

    /// No further arrival is taken; wakes `callers` that wait for one.
    pub fn end(&self, callers: usize) {
        self.ended.store(true, Ordering::Release);
        self.due.add_permits(callers);
    }

    fn release(&self, count: u64) {
        self.released.fetch_add(count, Ordering::AcqRel);
        self.due.add_permits(usize::try_from(count).unwrap_or(usize::MAX >> 3));
    }
}

/// What the releasing was like.
pub struct Paced {
    /// How late each arrival was released, nanoseconds.
    pub lateness: Histogram<u64>,
    /// CPU time that the releasing took.
    pub cpu: Duration,
}

/// The thread that releases.
pub struct Pacer {
    thread: thread::JoinHandle<Paced>,
    stop: Arc<AtomicBool>,
}

impl Pacer {
    /// Starts releasing the arrivals of `plan` planned before `end` into `queue`, with `start` as time zero. Once all are
    /// released, `callers` waiting for more are told so.
    #[must_use]
    pub fn start(plan: Arrivals, queue: Arc<Queue>, start: Instant, end: Option<Duration>, callers: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            precise_sleeps();
            let (lateness, complete) = release_all(plan, &queue, start, end, &stopped);
            queue.backlog_at_end.store(queue.backlog(), Ordering::Release);
            queue.complete.store(complete, Ordering::Release);
            if queue.released() == queue.most || end.is_none() {
                // Each of the waiting callers finds the plan at its end.
                queue.due.add_permits(callers);
            }
            Paced { lateness, cpu: thread_cpu() }
        });
        Self { thread, stop }
    }

    /// Ends it at once.
    #[must_use]
    pub fn stop(self) -> Paced {
        self.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_else(|_| Paced { lateness: histogram(), cpu: Duration::ZERO })
    }
}

/// Returns how late the releases were, nanoseconds, and whether all were released.
fn release_all(mut plan: Arrivals, queue: &Queue, start: Instant, end: Option<Duration>, stop: &AtomicBool) -> (Histogram<u64>, bool) {
    let mut lateness = histogram();
    let ends = |planned: &Duration| end.is_none_or(|end| *planned < end);
    while let Some(planned) = plan.peek().filter(ends).filter(|_| plan.drawn() < queue.most) {
        loop {
            if stop.load(Ordering::Acquire) {
                return (lateness, false);
            }
            let Some(wait) = (start + planned).checked_duration_since(Instant::now()).filter(|wait| !wait.is_zero()) else { break };
            thread::park_timeout(wait);
        }
        // An error or an interruption ends the plan too.
        if queue.ended.load(Ordering::Acquire) {
            return (lateness, false);
        }
        let now = start.elapsed();
        let mut count = 0;
        let goes = |planned: &Duration, drawn: u64| *planned <= now && drawn < queue.most;
        while let Some(planned) = plan.peek().filter(ends).filter(|planned| goes(planned, plan.drawn()) && count < MOST_AT_ONCE) {
            plan.next();
            count += 1;
            lateness.saturating_record(nanos(now - planned).max(1));
        }
        queue.release(count);
        if plan.peek().is_some_and(|next| next > now && next < now + GRAIN) {
            thread::park_timeout(GRAIN);
        }
    }
    (lateness, true)
}

/// CPU time of this thread.
fn thread_cpu() -> Duration {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID);
    // Can't fail for the own thread.
    time.map_or(Duration::ZERO, Duration::from)
}

/// Asks the kernel to wake this thread on time; by default it may be 50 µs late, see prctl(2), `PR_SET_TIMERSLACK`.
fn precise_sleeps() {
    #[cfg(target_os = "linux")]
    // Not vital: the lateness that is reported tells.
    let _ = nix::sys::prctl::set_timerslack(1_000);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::load::arrivals::{OpenLoop, Spread};

    fn plan(schedule: &str) -> Arrivals {
        Arrivals::new(&OpenLoop { schedule: schedule.parse().unwrap(), burst: 1, spread: Spread::Uniform }, 1, 1)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn callers_get_each_arrival_once_and_never_early_and_then_the_end() {
        let queue = Arc::new(Queue::new(plan("0=20000"), 500));
        let start = Instant::now();
        let pacer = Pacer::start(plan("0=20000"), queue.clone(), start, None, 4);
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let queue = queue.clone();
            callers.spawn(async move {
                let mut taken = Vec::new();
                while let Some(arrival) = queue.take().await {
                    assert!(start.elapsed() >= arrival.planned);
                    taken.push(arrival.number);
                }
                taken
            });
        }
        let mut numbers: Vec<u64> = callers.join_all().await.into_iter().flatten().collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..500).collect::<Vec<_>>());
        assert_eq!((queue.backlog(), queue.taken(), pacer.stop().lateness.len()), (0, 500, 500));
    }

    #[tokio::test]
    async fn what_nobody_takes_is_the_backlog_and_an_end_wakes_those_who_wait() {
        let queue = Arc::new(Queue::new(plan("0=100000"), u64::MAX));
        let pacer = Pacer::start(plan("0=100000"), queue.clone(), Instant::now(), Some(Duration::from_millis(2)), 1);
        while queue.released() < 200 {
            tokio::task::yield_now().await;
        }
        assert_eq!(queue.take().await.map(|arrival| arrival.number), Some(0));
        assert_eq!((queue.released(), queue.backlog()), (200, 199));
        queue.end(1);
        assert_eq!(queue.take().await, None);
        assert_eq!(pacer.stop().lateness.len(), 200);
        assert_eq!(queue.backlog(), 199, "what was not taken stays counted");
    }
}
