//! Compare Redis client crates, their pools and their pipeline windows under the same work, audited by the server.
//!
//! The command-line tool is `rcb`; `cargo bench` runs the Criterion benches. As a library this crate offers the
//! [driver contract](drivers), the [pipeline window](window) that can be wrapped around any client, and what
//! measures them.
//!
//! Dependencies flow one way: `cli → report, plan → record → workload → drivers, window, target, measure`.

#![deny(unsafe_code)]
// A worker needs a part of it only.
#![cfg_attr(rcb_worker, allow(dead_code))]
#![warn(missing_docs)]

/// Prints a line to standard error. Unlike `eprintln!` it does not panic when that is closed: what is measured is worth more than
/// what is told about it.
macro_rules! tell {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        // Nobody reads it, so nobody can be told.
        let _ = writeln!(std::io::stderr().lock(), $($text)*);
    }};
}

pub mod calibrate;
pub mod cli;
pub mod compare;
pub mod conformance;
pub mod drivers;
pub mod error;
pub mod interrupt;
pub mod measure;
pub mod net;
pub mod plan;
pub mod record;
pub mod report;
pub mod resp;
pub mod scenarios;
pub mod target;
pub mod versions;
pub mod window;
pub mod worker;
pub mod workload;

/// The program of a generated worker is made of this file and not of a library, so that only what it needs is compiled: a quarter
/// of the time. Nothing else has this `cfg`.
#[cfg(rcb_worker)]
#[global_allocator]
static ALLOCATOR: measure::CountingAllocator = measure::CountingAllocator;

#[cfg(rcb_worker)]
fn main() -> std::process::ExitCode {
    worker::serve()
}
