//! What people read: tables on a terminal. Renders records, measures nothing.

mod cache;
pub mod comparison;
pub mod history;
pub mod load;
pub mod pubsub;
pub mod scenarios;
mod table;

pub(crate) use table::lines;
pub use table::{share_of_raw, table};
