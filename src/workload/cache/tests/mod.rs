//! Clients of our own that lie, are late, or are lost.

mod fake;
mod mixes;
mod probes;
mod verdicts;
