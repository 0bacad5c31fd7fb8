//! What many callers note down at the same time: counts and latencies by class, in constant memory.
//!
//! A class is whatever is to be told apart, such as a command of a mix. Each worker thread has a shard of its own, so that
//! noting takes a lock that nobody else holds; whoever collects swaps a shard out and adds it up outside the lock.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hdrhistogram::Histogram;

use super::latency::{histogram, merge};

/// Counts and latencies of one class.
#[derive(Clone, Debug)]
pub struct Counts {
    /// Operations that succeeded.
    pub done: u64,
    /// Operations that failed.
    pub failed: u64,
    /// From sending to the reply, nanoseconds, of the successful ones.
    pub service: Histogram<u64>,
    /// From the planned time of sending to the reply, nanoseconds; empty without a plan.
    pub planned: Histogram<u64>,
}

impl Counts {
    fn new() -> Self {
        Self { done: 0, failed: 0, service: histogram(), planned: histogram() }
    }

    /// Adds another's.
    pub fn add(&mut self, other: &Counts) {
        self.done += other.done;
        self.failed += other.failed;
        if !other.service.is_empty() {
            merge(&mut self.service, &other.service);
        }
        if !other.planned.is_empty() {
            merge(&mut self.planned, &other.planned);
        }
    }

    fn clear(&mut self) {
        (self.done, self.failed) = (0, 0);
        for histogram in [&mut self.service, &mut self.planned] {
            if !histogram.is_empty() {
                histogram.reset();
            }
        }
    }
}

/// Counts by class.
#[derive(Clone, Debug)]
pub struct Classes(pub Vec<Counts>);

impl Classes {
    /// Nothing counted yet.
    #[must_use]
    pub fn new(classes: usize) -> Self {
        Self((0..classes).map(|_| Counts::new()).collect())
    }

    /// Adds another's, class by class.
    pub fn add(&mut self, other: &Classes) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| own.add(other));
    }

    /// Each `count` neighbours together.
    #[must_use]
    pub fn joined(&self, count: usize) -> Classes {
        let join = |some: &[Counts]| {
            some.iter().fold(Counts::new(), |mut sum, one| {
                sum.add(one);
                sum
            })
        };
        Self(self.0.chunks(count.max(1)).map(join).collect())
    }

    /// All classes together.
    #[must_use]
    pub fn total(&self) -> Counts {
        self.0.iter().fold(Counts::new(), |mut sum, one| {
            sum.add(one);
            sum
        })
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.0.iter_mut().for_each(Counts::clear);
    }

    /// Operations that succeeded.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.0.iter().map(|class| class.done).sum()
    }

    /// Operations that failed.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.0.iter().map(|class| class.failed).sum()
    }

    /// Notes `count` successful operations of `class`.
    #[inline]
    pub fn note(&mut self, class: usize, count: u64, service_ns: u64, planned_ns: Option<u64>) {
        let class = &mut self.0[class];
        class.done += count;
        class.service.saturating_record_n(service_ns.max(1), count);
        if let Some(planned) = planned_ns {
            class.planned.saturating_record_n(planned.max(1), count);
        }
    }
}

/// The shards of all threads.
pub struct Tally(Box<[Mutex<Classes>]>);

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static THREAD: Cell<Option<usize>> = const { Cell::new(None) };
}

/// A number of this thread's own, in the order in which threads first ask.
fn thread() -> usize {
    THREAD.with(|cell| match cell.get() {
        Some(number) => number,
        None => {
            let number = THREADS.fetch_add(1, Ordering::Relaxed);
            cell.set(Some(number));
            number
        }
    })
}

impl Tally {
    /// For `threads` threads that note, of which none waits for another, and `classes` classes.
    #[must_use]
    pub fn new(threads: usize, classes: usize) -> Self {
        Self((0..threads.max(1)).map(|_| Mutex::new(Classes::new(classes))).collect())
    }

    /// This thread's shard. Held no longer than a few notes take, and never across an await.
    #[inline]
    pub fn shard(&self) -> MutexGuard<'_, Classes> {
        self.0[thread() % self.0.len()].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves what was noted since the last collection into `into`, through `spare` (of as many classes, empty).
    pub fn collect(&self, into: &mut Classes, spare: &mut Classes) {
        for shard in &self.0 {
            std::mem::swap(&mut *shard.lock().unwrap_or_else(PoisonError::into_inner), spare);
            into.add(spare);
            spare.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_threads_note_while_another_collects_is_lost() {
        let tally = Tally::new(2, 2);
        let (mut total, mut spare) = (Classes::new(2), Classes::new(2));
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        for number in 0..10_000 {
                            tally.shard().note(number % 2, 1, 1000, (number % 2 == 1).then_some(2000));
                        }
                    })
                })
                .collect();
            while threads.iter().any(|thread| !thread.is_finished()) {
                tally.collect(&mut total, &mut spare);
            }
        });
        tally.collect(&mut total, &mut spare);
        assert_eq!((total.done(), total.0[0].done, total.0[1].done), (30_000, 15_000, 15_000));
        assert_eq!((total.total().service.len(), total.0[0].planned.len(), total.0[1].planned.len()), (30_000, 0, 15_000));
    }
}
