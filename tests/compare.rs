//! `rcb compare` from outside: with workers of its own build, and with scripted ones that do everything wrong.
#![cfg(unix)]

#[path = "compare/support.rs"]
mod support;

#[path = "compare/baselines.rs"]
mod baselines;
#[path = "compare/faults.rs"]
mod faults;
#[path = "compare/gate.rs"]
mod gate;
#[path = "compare/mistakes.rs"]
mod mistakes;
#[path = "compare/own.rs"]
mod own;
#[path = "compare/resume.rs"]
mod resume;
