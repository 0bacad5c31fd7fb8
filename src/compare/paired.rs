//! Paired ratios with a bootstrap interval.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

/// A median with its interval, of 95 % unless what holds it says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The median of the rounds.
    pub median: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Rounds it was taken from.
    pub rounds: usize,
}

impl std::fmt::Display for Interval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.3} [{:.3}, {:.3}]", self.median, self.low, self.high)
    }
}

/// How often the rounds are drawn anew.
const RESAMPLES: usize = 4_000;

/// The median; the mean of the middle two of an even number. `NaN` of nothing.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => f64::midpoint(sorted[even / 2 - 1], sorted[even / 2]),
    }
}

/// The median of `first / second` over pairs measured in the same round, with the percentile bootstrap's 95 % interval
/// (Efron 1979: the rounds are drawn with replacement, the median taken each time). `None` without a pair.
#[must_use]
pub fn ratio_of_pairs(pairs: &[(f64, f64)], seed: u64) -> Option<Interval> {
    let ratios: Vec<f64> = pairs.iter().map(|(first, second)| first / second).collect();
    if ratios.is_empty() {
        return None;
    }
    let mut random = StdRng::seed_from_u64(seed);
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let drawn: Vec<f64> = (0..ratios.len()).map(|_| ratios[random.random_range(0..ratios.len())]).collect();
            median(&drawn)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    let at = |share: f64| medians[((RESAMPLES - 1) as f64 * share).round() as usize];
    Some(Interval { median: median(&ratios), low: at(0.025), high: at(0.975), rounds: ratios.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_holds_the_median_and_narrows_with_agreement() {
        let noisy: Vec<(f64, f64)> = (0..30).map(|round| (10.0 + f64::from(round % 5), 10.0)).collect();
        let interval = ratio_of_pairs(&noisy, 1).unwrap();
        assert_eq!((interval.median, interval.rounds), (1.2, 30));
        assert!(interval.low <= 1.2 && interval.high >= 1.2 && interval.low < interval.high);
        let steady = ratio_of_pairs(&[(2.0, 1.0); 9], 1).unwrap();
        assert_eq!((steady.low, steady.median, steady.high), (2.0, 2.0, 2.0));
        assert_eq!(ratio_of_pairs(&[], 1), None);
    }

    #[test]
    fn medians_of_odd_and_even_numbers() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }
}
