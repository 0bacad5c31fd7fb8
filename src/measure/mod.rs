//! What is measured, and the circumstances.

mod environment;

pub use environment::{Environment, Load, warnings};
