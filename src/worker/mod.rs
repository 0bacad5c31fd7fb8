//! Workers: programs of which one process run is one observation of one client.
//!
//! [`protocol`] is what a worker and whoever starts it say to each other (`docs/WORKER.md`), [`subject`] what a user asks to be
//! compared, [`program`] how a subject becomes a program that can be started, and [`versions`] builds the programs of client
//! versions that are not in this build.

pub mod observation;
pub mod process;
pub mod program;
pub mod protocol;
pub mod serve;
pub mod settings;
pub mod subject;
pub mod versions;

pub use observation::{Observed, observe};
pub use process::Failure;
pub use program::{Program, Refused, check_program, program_of};
pub use serve::serve;
pub use subject::{BadSubject, Origin, Source, SubjectSpec};
