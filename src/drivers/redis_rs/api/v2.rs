//! Releases 2.x, from 2.0.0-rc.2: a pipeline is one buffer, and TCP_NODELAY is on as it ships.

use redis::Pipeline;

use super::{Login, connect};

#[path = "since_1.rs"]
mod since_1;

pub use since_1::*;

/// What it does as it ships, for the notes of its drivers.
pub const AS_IT_SHIPS: &str = "As it ships: TCP_NODELAY on, a timer of 500 ms per command, 50 requests in its queue.";

/// An empty pipeline with room for `commands`.
pub fn pipeline_for(commands: usize) -> Pipeline {
    let mut pipeline = Pipeline::new();
    pipeline.reserve_for_commands(commands);
    pipeline
}
