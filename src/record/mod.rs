//! The versioned result model: what a run measured, with all that could sway it. `docs/FORMAT.md` describes the file.
//!
//! Every table, chart and export is derived from this. It takes plain data of the other modules and measures nothing.

mod cell;
pub mod comparison;
pub mod export;
mod file;
pub mod history;
pub mod load;
mod measurement;
pub mod publish;
pub mod pubsub;
mod read;
pub mod scenarios;
pub mod subscribe;
mod summary;

pub use cell::{Cell, CellSettings, Runtime, RuntimeFlavour};
pub use file::{FORMAT, Record, VERSION, timestamp};
pub use measurement::{Mark, Measurement, Outcome, Row, Sample};
pub use read::{AnyRecord, BadRecord};
pub use summary::{Timed, summarise};
