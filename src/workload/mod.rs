//! What is done, generic over the driver. Never names a client.

pub mod cache;
pub mod cached;
pub mod commands;
mod connect;
mod erased;
pub mod load;
pub mod mix;
pub mod pubsub;
mod run;
mod runner;
pub mod timed;

pub use connect::{Connected, Use, connect, runs_on};
pub use erased::AnyClient;
pub use run::{CellWork, Failure, Load, Run, Work, audited, closed_loop, measure};
pub use runner::{Opening, Runner, open};
