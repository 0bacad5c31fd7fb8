//! Releases 1.x, from 1.0.3, which brought the size of the queue.

use redis::Pipeline;

use super::{Login, connect};

#[path = "since_1.rs"]
mod since_1;

pub use since_1::*;

/// What it does as it ships, for the notes of its drivers.
pub const AS_IT_SHIPS: &str = "As it ships: TCP_NODELAY off, a timer of 500 ms per command, 50 requests in its queue.";

/// An empty pipeline with room for `commands`.
pub fn pipeline_for(commands: usize) -> Pipeline {
    Pipeline::with_capacity(commands)
}
