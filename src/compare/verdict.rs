//! From evidence to a verdict, and from a verdict to the gate of a CI job.

use serde::{Deserialize, Serialize};

use super::bootstrap::Span;
use super::metric::Direction;
use super::noise::Noise;
use super::ratio::ln_of_share;
use super::sequential::MINIMUM_ROUNDS;

/// What a comparison says of one metric of one workload.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The candidate differs, for the better.
    Better,
    /// The candidate differs, for the worse.
    Worse,
    /// Any difference is smaller than the threshold.
    NoDifference,
    /// The rounds do not tell.
    Undecided {
        /// The smallest difference (a share) that would have been seen in eight of ten such sessions; `None` when there
        /// were too few rounds to see any.
        visible: Option<f64>,
    },
}

impl Verdict {
    /// Whether it says that the subjects differ.
    #[must_use]
    pub const fn differs(self) -> bool {
        matches!(self, Self::Better | Self::Worse)
    }

    /// Whether more rounds could still change "the rounds do not tell".
    #[must_use]
    pub const fn decided(self) -> bool {
        !matches!(self, Self::Undecided { .. })
    }
}

/// What a verdict is taken from. Differences are logarithms of ratios.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence {
    pub span: Span,
    pub noise: Noise,
    pub rounds: usize,
    pub threshold: f64,
    pub significant: bool,
}

impl Evidence {
    /// The least median that can give a verdict.
    pub fn least(&self) -> f64 {
        self.threshold.max(self.noise.floor)
    }

    /// The verdict; `None` when the rounds do not tell.
    ///
    /// A difference takes all of: enough rounds, significance in its family, an interval that leaves out "no difference",
    /// and a median past the threshold and above the noise floor. "No difference" takes an interval wholly within the
    /// threshold (equivalence, not mere lack of significance), and a control of which that may be said as well.
    pub fn verdict(&self, direction: Direction) -> Option<Verdict> {
        if self.rounds < MINIMUM_ROUNDS {
            return None;
        }
        if self.span.farther_end() < self.threshold {
            return (self.noise.control.nearer_end() < self.threshold).then_some(Verdict::NoDifference);
        }
        let size = self.span.median.abs();
        let beyond = size >= self.threshold && size > self.noise.floor && self.span.nearer_end() > 0.0;
        (beyond && self.significant).then_some(match (direction, self.span.median > 0.0) {
            (Direction::More, true) | (Direction::Less, false) => Verdict::Better,
            (Direction::More, false) | (Direction::Less, true) => Verdict::Worse,
        })
    }
}

/// How much worse a candidate may be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// As a share of the baseline's value: 0.05 lets a rate fall to 95 %, or the CPU time rise to 105 %.
    pub max_regression: f64,
}

impl Gate {
    /// Whether the whole interval, `low` to `high` of the ratio candidate / baseline, lies on the worse side of what is
    /// allowed, for a verdict that (by significance and above the noise) says worse.
    #[must_use]
    pub fn broken(&self, verdict: Verdict, direction: Direction, low: f64, high: f64) -> bool {
        verdict == Verdict::Worse
            && match direction {
                Direction::More => high < 1.0 - self.max_regression,
                Direction::Less => low > 1.0 + self.max_regression,
            }
    }
}

/// A threshold as a logarithm: ±2 % is 1/1.02 to 1.02, the same for a ratio and its inverse.
pub(super) fn ln_threshold(share: f64) -> f64 {
    ln_of_share(share.max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(low: f64, median: f64, high: f64) -> Evidence {
        let control = Span { low: -0.004, median: 0.0, high: 0.006 };
        let noise = Noise { control, floor: 0.006 };
        Evidence { span: Span { low, median, high }, noise, rounds: 20, threshold: 0.02, significant: true }
    }

    #[test]
    fn direction_turns_more_into_better_or_worse() {
        let more = evidence(0.03, 0.05, 0.07);
        assert_eq!(more.verdict(Direction::More), Some(Verdict::Better));
        assert_eq!(more.verdict(Direction::Less), Some(Verdict::Worse));
        let less = evidence(-0.07, -0.05, -0.03);
        assert_eq!(less.verdict(Direction::More), Some(Verdict::Worse));
        assert_eq!(less.verdict(Direction::Less), Some(Verdict::Better));
    }

    #[test]
    fn a_difference_takes_every_condition() {
        let clear = evidence(0.01, 0.05, 0.07);
        assert!(clear.verdict(Direction::More).is_some());
        let noisy = Noise { floor: 0.05, ..clear.noise };
        assert_eq!(Evidence { significant: false, ..clear }.verdict(Direction::More), None);
        assert_eq!(Evidence { rounds: MINIMUM_ROUNDS - 1, ..clear }.verdict(Direction::More), None);
        assert_eq!(Evidence { noise: noisy, ..clear }.verdict(Direction::More), None);
        assert_eq!(Evidence { threshold: 0.051, ..clear }.verdict(Direction::More), None);
        assert_eq!(evidence(-0.001, 0.05, 0.07).verdict(Direction::More), None);
    }

    #[test]
    fn no_difference_is_shown_not_presumed() {
        assert_eq!(evidence(-0.01, 0.001, 0.015).verdict(Direction::More), Some(Verdict::NoDifference));
        assert_eq!(evidence(-0.01, 0.001, 0.025).verdict(Direction::More), None);
        let off = Span { low: 0.03, median: 0.04, high: 0.05 };
        let unsound = Noise { control: off, floor: 0.05 };
        assert_eq!(Evidence { noise: unsound, ..evidence(-0.01, 0.001, 0.015) }.verdict(Direction::More), None);
        assert_eq!(evidence(0.0, 0.0, 0.0).verdict(Direction::Less), Some(Verdict::NoDifference));
    }

    #[test]
    fn the_gate_asks_for_the_whole_interval() {
        let gate = Gate { max_regression: 0.05 };
        assert!(gate.broken(Verdict::Worse, Direction::More, 0.85, 0.94));
        assert!(!gate.broken(Verdict::Worse, Direction::More, 0.85, 0.96));
        assert!(gate.broken(Verdict::Worse, Direction::Less, 1.06, 1.20));
        assert!(!gate.broken(Verdict::Worse, Direction::Less, 1.04, 1.20));
        assert!(!gate.broken(Verdict::Undecided { visible: None }, Direction::Less, 1.06, 1.20));
        assert!(!gate.broken(Verdict::Better, Direction::Less, 0.5, 0.6));
    }
}
