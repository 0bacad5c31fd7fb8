//! Exact counters that many threads can raise at once.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// How many cells a [`Sharded`] counter has.
const CELLS: usize = 16;

/// A counter on cache lines of its own (two of 64 bytes, since processors fetch them in pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A counter that is raised so often that threads would wait for one cache line.
#[derive(Debug, Default)]
pub struct Sharded([Counter; CELLS]);

impl Sharded {
    pub fn add_one(&self) {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static CELL: usize = NEXT.fetch_add(1, Ordering::Relaxed) % CELLS;
        }
        self.0[CELL.with(|cell| *cell)].add(1);
    }

    pub fn get(&self) -> u64 {
        self.0.iter().map(Counter::get).sum()
    }
}

/// What a store counts.
#[derive(Debug, Default)]
pub struct Counters {
    pub hits: Sharded,
    pub misses: Sharded,
    pub invalidations: Counter,
    pub evictions: Counter,
    pub expirations: Counter,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_between_threads() {
        let (sharded, counter) = (Sharded::default(), Counter::default());
        std::thread::scope(|scope| {
            for _ in 0..CELLS + 3 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        sharded.add_one();
                        counter.add(2);
                    }
                });
            }
        });
        assert_eq!((sharded.get(), counter.get()), ((CELLS as u64 + 3) * 1_000, (CELLS as u64 + 3) * 2_000));
    }
}
