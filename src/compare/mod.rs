//! Comparing two things measured in interleaved rounds.

mod paired;

pub use paired::{Interval, median, ratio_of_pairs};
