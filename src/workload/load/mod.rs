//! A command mix through a client: closed loop or open loop, every command counted, timed and checked.
//!
//! [`mix`](super::mix) says which commands are sent, [`arrivals`] when, [`engine`] sends them and [`audited`] compares the count with
//! the servers'.

pub mod arrivals;
pub mod audited;
pub mod engine;
pub mod errors;
pub mod issue;
pub mod keyspace;
pub mod loader;
mod pacer;
pub mod ticker;

#[cfg(test)]
pub(crate) mod tests;
