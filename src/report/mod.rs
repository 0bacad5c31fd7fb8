//! What people read: tables on a terminal. Renders records, measures nothing.

pub mod pubsub;
mod table;

pub use table::{share_of_raw, table};
