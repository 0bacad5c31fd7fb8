//! The engine against a client without a server. Counts and orderings are exact; of times only the side that a busy machine
//! can't change is asserted.

mod budgets;
mod errors;
pub(crate) mod fake;
mod latencies;
mod open_loop;
mod series;
