//! `rcb load` against real servers: its counts beside the servers' own, and what its users meet.

mod common;

#[path = "load/cache.rs"]
mod cache;
#[path = "load/counts.rs"]
mod counts;
#[path = "load/errors.rs"]
mod errors;
#[path = "load/interruptions.rs"]
mod interruptions;
#[path = "load/keyspace.rs"]
mod keyspace;
#[path = "load/mistakes.rs"]
mod mistakes;
#[path = "load/outputs.rs"]
mod outputs;
#[path = "load/passwords.rs"]
mod passwords;
#[path = "load/support.rs"]
mod support;
