//! Comparing two things measured in interleaved rounds.
//!
//! From the figures of a [`Session`] to a [`Comparison`]: arithmetic only, nothing here runs, reads or prints anything.
//! Every subject runs once a round in a drawn order ([`Orders`]), with the baseline under a second name as control; the
//! session looks at the rounds when [`Spending`] says so, and ends when nothing is
//! [undecided](Comparison::undecided) or when its time is up.
//!
//! A verdict that two subjects differ takes a signed rank test that survives the correction for all questions of the
//! session and for all its looks, an interval that leaves out "no difference", a median past the metric's threshold, and
//! more than the control (A/A) differed by. One alone would not do: a test finds differences that matter to nobody, an
//! interval per metric finds one in twenty by chance, and neither knows what else the machine did.
//!
//! How long an observation should be: with o seconds of overhead each, a variance w of one second that averages out and
//! a variance p of the process (placement, layout, a neighbour on the host) that does not, the median's variance at a
//! given total time goes with (p + w / t) (t + o), which is least at t = √(o w / p). A worker costs 10 ms besides its
//! warm-up, and on a shared machine nearly all is p: ratios of observations of 50 ms scatter hardly more than those of
//! 500 ms (figures in docs/METHODOLOGY.md). So observations are short and many, which also gives the rank test the
//! number of rounds that many questions need (15 for 63 questions, 12 for 7, all of one sign).

mod analysis;
mod bootstrap;
mod metric;
mod multiplicity;
mod noise;
mod order;
mod paired;
mod rank;
mod ratio;
mod sequential;
mod session;
#[cfg(test)]
mod simulation;
mod verdict;

pub use analysis::{Analysis, Comparison, Family, Settings};
pub use bootstrap::{Span, median_span};
pub use metric::{Direction, Metric};
pub use multiplicity::q_values;
pub use noise::{Noise, visible_difference};
pub use order::Orders;
pub use paired::{Interval, median, ratio_of_pairs};
pub use rank::{critical_sum, odd_one_out, signed_rank};
pub use ratio::{Ratios, ln_of_share, ln_ratio, share_of_ln};
pub use sequential::{Look, MINIMUM_ROUNDS, Spending};
pub use session::{Observation, Round, Session};
pub use verdict::{Gate, Verdict};
