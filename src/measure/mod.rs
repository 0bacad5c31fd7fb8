//! CPU, allocations and memory of this process, latencies, and the environment it runs in.
//!
//! Knows neither client nor workload.

pub mod alloc;
pub mod clock;
mod distribution;
mod environment;
pub mod latency;
mod machine;
mod tally;
mod usage;

pub use alloc::{Allocations, CountingAllocator, allocations, live_bytes};
pub use distribution::Distribution;
pub use environment::{Environment, Load, warnings};
pub use latency::Latency;
pub use machine::Machine;
pub use tally::{Classes, Counts, Tally};
pub use usage::{Snapshot, Usage, peak_memory, reset_peak_memory, resident_memory};
