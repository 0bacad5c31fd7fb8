//! How good the instrument is: what the clock, the timer, the allocator and the harness themselves cost, and how the floor
//! compares with `redis-benchmark`.
//!
//! Everything is a ratio or a difference taken within one session; nothing here is a figure about a client.

mod floor;
mod receive;
mod tax;
mod timer;

use std::time::Instant;

use serde::{Deserialize, Serialize};

pub use floor::{Floor, floor};
pub use receive::{ReceiveCost, receive_cost};
pub use tax::{Tax, tax};
pub use timer::{Held, held};

use crate::measure::alloc;

/// The cost of reading the clock.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockCost {
    /// Nanoseconds of one `Instant::now()`, the fastest of several rounds.
    pub ns: f64,
}

/// Reads the clock very often.
#[must_use]
pub fn clock_cost() -> ClockCost {
    const READS: u32 = 200_000;
    let round = || {
        let start = Instant::now();
        for _ in 0..READS {
            std::hint::black_box(Instant::now());
        }
        start.elapsed().as_nanos() as f64 / f64::from(READS)
    };
    ClockCost { ns: (0..9).map(|_| round()).fold(f64::INFINITY, f64::min) }
}

/// The cost of counting allocations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AllocatorCost {
    /// Nanoseconds of an allocation and its release with the counting allocator.
    pub counting_ns: f64,
    /// The same with the system's allocator.
    pub system_ns: f64,
}

/// Allocates with and without counting, alternating.
#[must_use]
pub fn allocator_cost() -> AllocatorCost {
    let (counting_ns, system_ns) = alloc::cost(15);
    AllocatorCost { counting_ns, system_ns }
}
