//! When to look at the rounds, and how much error each look may spend.
//!
//! Whoever tests after every round and stops at the first "significant" finds something sooner or later. Here the session
//! looks at four set shares of its time, and the error that is allowed in all is spent over them (alpha spending: Lan and
//! DeMets 1983, with the power family of Kim and DeMets 1987): by the share t of the time, t³ of it may be spent.
//! The parts are added up rather than solved for jointly (Boole's inequality), so nothing need be assumed of how one
//! look depends on the next, which no formula covers for ranks, several metrics and q-values; the price is small, as 58 %
//! are left for the last look, and a session rarely has every question decided before. The same parts set the intervals' error, so that all the intervals of a session hold
//! at once (repeated confidence intervals: Jennison and Turnbull 1989).

use serde::{Deserialize, Serialize};

/// The shares of the time after which a session looks.
const LOOKS: [f64; 4] = [0.25, 0.5, 0.75, 1.0];

/// The power of the family: by the share t of the time, t to this power of the error may be spent. 3 is close to the
/// boundaries of O'Brien and Fleming: early looks end a session only on overwhelming evidence.
const POWER: i32 = 3;

/// No verdict is given on fewer rounds: the interval of a median is bounded by the smallest and the largest value, which
/// miss the true one in 2^(1-n) of cases, 0.2 % of ten rounds.
pub const MINIMUM_ROUNDS: usize = 10;

/// One look at the rounds so far.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// The part of the error in all that this look may spend.
    pub share: f64,
    /// Whether nothing comes after it.
    pub last: bool,
}

impl Look {
    /// The only look of a session with a set number of rounds.
    pub const ONLY: Self = Self { share: 1.0, last: true };
}

/// The error spent so far. Kept with a session that is to be resumed: what was looked at stays looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spending {
    /// Share of the time at the last look.
    looked: f64,
}

impl Spending {
    /// The look that is due after a round, if one is.
    ///
    /// `used` is the share of the session's time (or of its greatest number of rounds) that has passed; it must not depend
    /// on what was measured. From 1 on the look is the last one, whatever the number of rounds; earlier ones wait for
    /// [`MINIMUM_ROUNDS`].
    pub fn after_round(&mut self, used: f64, rounds: usize) -> Option<Look> {
        let last = used >= 1.0;
        let passed = |used: f64| LOOKS.iter().filter(|at| **at <= used).count();
        if self.looked >= 1.0 || !last && (rounds < MINIMUM_ROUNDS || passed(used) == passed(self.looked)) {
            return None;
        }
        let used = used.min(1.0);
        let share = used.powi(POWER) - self.looked.powi(POWER);
        self.looked = used;
        Some(Look { share, last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_spend_one_in_all() {
        let mut spending = Spending::default();
        let looks: Vec<Look> = (1..=50).filter_map(|round| spending.after_round(f64::from(round) / 48.0, round as usize)).collect();
        let shares: Vec<f64> = looks.iter().map(|look| look.share).collect();
        assert_eq!(shares, [0.015625, 0.109375, 0.296875, 0.578125]);
        assert_eq!(looks.iter().map(|look| look.last).collect::<Vec<_>>(), [false, false, false, true]);
        assert_eq!(spending.after_round(2.0, 99), None, "all is spent");
    }

    #[test]
    fn few_rounds_wait_and_keep_their_error() {
        let mut spending = Spending::default();
        assert_eq!(spending.after_round(0.3, MINIMUM_ROUNDS - 1), None);
        assert_eq!(spending.after_round(0.4, MINIMUM_ROUNDS), Some(Look { share: 0.4f64.powi(3), last: false }));
        assert_eq!(spending.after_round(0.45, 11), None, "the next look is at half of the time");
        assert!(spending.after_round(0.51, 12).is_some());
    }

    #[test]
    fn the_end_of_time_is_the_last_look_even_of_few_rounds() {
        let mut spending = Spending::default();
        assert_eq!(spending.after_round(1.2, 3), Some(Look::ONLY));
    }
}
