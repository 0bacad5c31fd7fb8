//! CPU, allocations and memory of this process, and the environment it runs in.
//!
//! Knows neither client nor workload.

pub mod alloc;
pub mod clock;
mod environment;
mod usage;

pub use alloc::{Allocations, CountingAllocator, allocations};
pub use environment::{Environment, Load, warnings};
pub use usage::{Snapshot, Usage, peak_memory, reset_peak_memory, resident_memory};
