//! The bootstrap interval of a median, without drawing.
//!
//! The bootstrap draws n values from n with replacement and takes the median, again and again; for the median the
//! distribution that this tends to is known in closed form (Efron 1979, "Bootstrap methods", section 3; Maritz and
//! Jarrett 1978). With it there is no seed, no Monte Carlo error, and the far tails that early looks need are exact.
//!
//! The interval is the percentile interval. BCa would need the jackknife's acceleration, and the jackknife of the median
//! is inconsistent (Efron and Tibshirani 1993, section 11.6); the percentile interval of a median is all but the
//! distribution-free one of order statistics, and swapping the subjects swaps its ends.

use std::sync::OnceLock;

/// A median with an interval, of logarithms of ratios.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Lower end.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// Upper end.
    pub high: f64,
}

impl Span {
    /// The distance from zero of the end farther away.
    #[must_use]
    pub fn farther_end(&self) -> f64 {
        self.low.abs().max(self.high.abs())
    }

    /// The distance from zero of the nearer end; zero when the interval holds zero.
    #[must_use]
    pub fn nearer_end(&self) -> f64 {
        self.low.max(-self.high).max(0.0)
    }

    /// The longer of the two arms.
    #[must_use]
    pub fn half_width(&self) -> f64 {
        (self.median - self.low).max(self.high - self.median)
    }
}

/// The median of the values with the percentile bootstrap's interval that leaves out `error` in all, half at each end.
/// `None` of nothing.
///
/// Of few values no interval can be trusted: it never reaches beyond the smallest and largest, which hold the true
/// median in all but 2^(1-n) of cases.
#[must_use]
pub fn median_span(values: &[f64], error: f64) -> Option<Span> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (first, last) = (*sorted.first()?, *sorted.last()?);
    if first == last {
        return Some(Span { low: first, median: first, high: first });
    }
    let median = super::median(&sorted);
    let steps = Steps::of(sorted.len());
    let low = steps.lower_quantile(&sorted, error / 2.0).min(median);
    let mirrored: Vec<f64> = sorted.iter().rev().map(|value| -value).collect();
    let high = (-steps.lower_quantile(&mirrored, error / 2.0)).max(median);
    Some(Span { low, median, high })
}

/// What the distribution of a resample's median depends on beside the values: their number only.
#[derive(Clone)]
struct Steps {
    n: usize,
    /// `below[i]`: the probability that the resample's lower median is at most the i-th smallest value (from 1; 0 at 0).
    below: Vec<f64>,
    /// C(n, n/2), used for an even number.
    middle: f64,
}

/// Sizes whose [`Steps`] are kept once computed.
const KEPT: usize = 128;
static STEPS: [OnceLock<Steps>; KEPT + 1] = [const { OnceLock::new() }; KEPT + 1];

impl Steps {
    fn of(n: usize) -> std::borrow::Cow<'static, Self> {
        match STEPS.get(n) {
            Some(kept) => std::borrow::Cow::Borrowed(kept.get_or_init(|| Self::compute(n))),
            None => std::borrow::Cow::Owned(Self::compute(n)),
        }
    }

    fn compute(n: usize) -> Self {
        let lower_middle = n.div_ceil(2);
        let below = (0..=n).map(|i| binomial_at_least(n, lower_middle, i as f64 / n as f64)).collect();
        Self { n, below, middle: ln_binomials(n)[n / 2].exp() }
    }

    /// The smallest value of a resample's median that at least `share` of the resamples do not exceed.
    fn lower_quantile(&self, sorted: &[f64], share: f64) -> f64 {
        if self.n % 2 == 1 {
            let rank = self.below.partition_point(|below| *below < share).clamp(1, self.n);
            return sorted[rank - 1];
        }
        // An even number: the distribution jumps at means of two values. Halve until no double lies between, then
        // step back onto the jump.
        let (mut under, mut reached) = (sorted[0] - (sorted[self.n - 1] - sorted[0]), sorted[self.n - 1]);
        for _ in 0..60 {
            let middle = f64::midpoint(under, reached);
            if self.at_most(sorted, middle) < share {
                under = middle;
            } else {
                reached = middle;
            }
        }
        let mut partner = self.n;
        let mut jump = f64::NEG_INFINITY;
        for (i, value) in sorted.iter().enumerate() {
            while partner > 0 && f64::midpoint(*value, sorted[partner - 1]) > reached {
                partner -= 1;
            }
            if partner > i {
                jump = jump.max(f64::midpoint(*value, sorted[partner - 1]));
            }
        }
        jump
    }

    /// The probability that the median of a resample of an even number, n = 2m, is at most `bound`.
    ///
    /// Summed over which value is the lower median, i: all of P(lower = i), less what has its upper median beyond the
    /// J(i) values that make a mean within the bound. Lower = i and upper > J takes m draws up to i, i among them, and
    /// the other m beyond J: C(n,m) ((i/n)^m - ((i-1)/n)^m) ((n-J)/n)^m.
    fn at_most(&self, sorted: &[f64], bound: f64) -> f64 {
        let (n, half) = (self.n as f64, (self.n / 2) as i32);
        let mut partner = self.n;
        let mut sum = 0.0;
        for i in 1..=self.n {
            if sorted[i - 1] > bound {
                break;
            }
            while partner > i && f64::midpoint(sorted[i - 1], sorted[partner - 1]) > bound {
                partner -= 1;
            }
            let partner = partner.max(i);
            let lower = self.below[i] - self.below[i - 1];
            let reach = (i as f64 / n).powi(half) - ((i - 1) as f64 / n).powi(half);
            sum += lower - self.middle * reach * ((self.n - partner) as f64 / n).powi(half);
        }
        sum
    }
}

/// P(at least `least` successes in `n` draws of probability `p`).
fn binomial_at_least(n: usize, least: usize, p: f64) -> f64 {
    if p <= 0.0 || p >= 1.0 {
        return if p <= 0.0 && least > 0 { 0.0 } else { 1.0 };
    }
    let ways = ln_binomials(n);
    (least..=n).map(|k| (ways[k] + k as f64 * p.ln() + (n - k) as f64 * (-p).ln_1p()).exp()).sum::<f64>().min(1.0)
}

/// ln C(n, k) for k of 0 to n.
fn ln_binomials(n: usize) -> Vec<f64> {
    let mut ways = vec![0.0; n + 1];
    for k in 1..=n {
        ways[k] = ways[k - 1] + ((n + 1 - k) as f64 / k as f64).ln();
    }
    ways
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Of three values the resample's median is at most the smallest when two or three of the draws are: 3·(1/3)²·(2/3) +
    /// (1/3)³ = 7/27. It is at most the middle one with 3·(2/3)²·(1/3) + (2/3)³ = 20/27.
    #[test]
    fn three_values_by_hand() {
        let steps = Steps::compute(3);
        assert!((steps.below[1] - 7.0 / 27.0).abs() < 1e-12 && (steps.below[2] - 20.0 / 27.0).abs() < 1e-12);
        assert_eq!(steps.lower_quantile(&[1.0, 2.0, 3.0], 0.25), 1.0);
        assert_eq!(steps.lower_quantile(&[1.0, 2.0, 3.0], 0.27), 2.0);
    }

    /// Of two values 0 and 2 the resample is (0,0), (0,2), (2,0) or (2,2): the mean is 0, 1, 1, 2.
    #[test]
    fn two_values_by_hand() {
        let steps = Steps::compute(2);
        let at = |bound: f64| steps.at_most(&[0.0, 2.0], bound);
        assert!((at(0.0) - 0.25).abs() < 1e-12 && (at(0.9) - 0.25).abs() < 1e-12);
        assert!((at(1.0) - 0.75).abs() < 1e-12 && (at(2.0) - 1.0).abs() < 1e-12);
        assert_eq!(steps.lower_quantile(&[0.0, 2.0], 0.3), 1.0);
    }

    /// All 4^4 resamples of four values, counted.
    #[test]
    fn four_values_against_every_resample() {
        let values = [0.0, 1.0, 4.0, 9.0];
        let mut medians = Vec::new();
        for code in 0..256usize {
            let drawn: Vec<f64> = (0..4).map(|place| values[(code >> (2 * place)) & 3]).collect();
            medians.push(super::super::median(&drawn));
        }
        let steps = Steps::compute(4);
        for bound in [-1.0, 0.0, 0.5, 1.0, 2.0, 2.5, 4.0, 4.5, 5.0, 6.5, 9.0] {
            let counted = medians.iter().filter(|median| **median <= bound).count() as f64 / 256.0;
            assert!((steps.at_most(&values, bound) - counted).abs() < 1e-12, "{bound}");
        }
    }

    #[test]
    fn it_agrees_with_drawing() {
        let pairs: Vec<(f64, f64)> = (0..24).map(|round| (100.0 + f64::from(round * round % 23), 100.0)).collect();
        let logs: Vec<f64> = pairs.iter().map(|(first, second)| (first / second).ln()).collect();
        let (drawn, exact) = (super::super::ratio_of_pairs(&pairs, 7).unwrap(), median_span(&logs, 0.05).unwrap());
        assert!((drawn.low - exact.low.exp()).abs() < 0.006 && (drawn.high - exact.high.exp()).abs() < 0.006, "{drawn} {exact:?}");
    }

    #[test]
    fn values_that_agree_have_no_width_and_one_outlier_gives_none() {
        assert_eq!(median_span(&[], 0.05), None);
        assert_eq!(median_span(&[0.3; 12], 0.05), Some(Span { low: 0.3, median: 0.3, high: 0.3 }));
        let mut values = vec![0.0; 20];
        values[7] = 0.5;
        assert_eq!(median_span(&values, 0.01), Some(Span { low: 0.0, median: 0.0, high: 0.0 }));
    }

    proptest! {
        #[test]
        fn intervals_hold_the_median_mirror_and_nest(values in prop::collection::vec(-1.0f64..1.0, 1..60)) {
            let wide = median_span(&values, 0.01).unwrap();
            let narrow = median_span(&values, 0.2).unwrap();
            prop_assert!(wide.low <= narrow.low && narrow.low <= narrow.median);
            prop_assert!(narrow.median <= narrow.high && narrow.high <= wide.high);
            let turned: Vec<f64> = values.iter().map(|value| -value).collect();
            let mirrored = median_span(&turned, 0.01).unwrap();
            prop_assert_eq!((mirrored.low, mirrored.high), (-wide.high, -wide.low));
        }
    }
}
