//! What is done, generic over the driver. Never names a client.

pub mod commands;
mod erased;
pub mod pubsub;
mod run;
mod runner;

pub use erased::AnyClient;
pub use run::{CellWork, Failure, Load, Run, Work, closed_loop, measure};
pub use runner::{Opening, Runner, open, runs_on};
