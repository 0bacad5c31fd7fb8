//! Ratios within a round, as logarithms.
//!
//! A ratio and its inverse are the same distance from "no difference" only on a logarithmic scale, and so swapping the
//! two subjects merely turns the sign; everything behind this module works on logarithms of ratios.

use super::metric::Metric;
use super::session::Round;

/// No ratio counts for more than this factor: beyond it the value measured is that of a division by almost nothing.
const LARGEST: f64 = 1e6;

/// The logarithms of the ratios of one metric, a round each; both have the same rounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ratios {
    /// Candidate over baseline.
    pub candidate: Vec<f64>,
    /// Control over baseline (A/A).
    pub control: Vec<f64>,
}

impl Ratios {
    /// Of the rounds in which all three subjects gave a usable value.
    #[must_use]
    pub fn of(rounds: &[Round], metric: Metric) -> Self {
        let (candidate, control) = rounds
            .iter()
            .filter_map(|round| {
                let [baseline, candidate, control] = round.values(metric)?;
                Some((ln_ratio(candidate, baseline, metric)?, ln_ratio(control, baseline, metric)?))
            })
            .unzip();
        Self { candidate, control }
    }
}

/// The natural logarithm of `value / reference`; values below the metric's [grain](Metric::grain) count as one grain.
/// `None` for a value that is no measurement (negative, not a number, infinite, or none of a metric without a grain).
#[must_use]
pub fn ln_ratio(value: f64, reference: f64, metric: Metric) -> Option<f64> {
    let usable = |value: f64| value.is_finite() && value >= 0.0 && value.max(metric.grain()) > 0.0;
    if !usable(value) || !usable(reference) {
        return None;
    }
    if value == reference {
        return Some(0.0);
    }
    let (value, reference) = (value.max(metric.grain()), reference.max(metric.grain()));
    Some((value.ln() - reference.ln()).clamp(-LARGEST.ln(), LARGEST.ln()))
}

/// A share that a value differs by (0.02: 2 % more) as a logarithm of the ratio.
#[must_use]
pub fn ln_of_share(share: f64) -> f64 {
    share.ln_1p()
}

/// The share that a logarithm of a ratio stands for.
#[must_use]
pub fn share_of_ln(ln: f64) -> f64 {
    ln.exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_divide_by_nothing_without_harm() {
        assert_eq!(ln_ratio(0.0, 0.0, Metric::Allocations), Some(0.0));
        assert_eq!(ln_ratio(0.0003, 0.0, Metric::Allocations), Some(0.0), "less than the grain is none");
        assert!((ln_ratio(2.0, 0.0, Metric::Allocations).unwrap() - 200f64.ln()).abs() < 1e-12, "2 over a grain of 0.01");
        assert_eq!(ln_ratio(1e30, 0.0, Metric::AllocatedBytes), Some(LARGEST.ln()));
        assert_eq!(ln_ratio(0.0, 5.0, Metric::Rate), None, "a rate of zero measured nothing");
        assert_eq!(ln_ratio(5.0, 0.0, Metric::Rate), None);
        assert_eq!(ln_ratio(f64::NAN, 1.0, Metric::P50), None);
        assert_eq!(ln_ratio(1.0, f64::INFINITY, Metric::P50), None);
        assert_eq!(ln_ratio(-1.0, 1.0, Metric::ClientCpu), None);
    }

    #[test]
    fn swapping_turns_the_sign() {
        let there = ln_ratio(110.0, 100.0, Metric::Rate).unwrap();
        assert_eq!(ln_ratio(100.0, 110.0, Metric::Rate), Some(-there));
        assert!((share_of_ln(there) - 0.1).abs() < 1e-12);
        assert!((ln_of_share(0.1) - there).abs() < 1e-12);
    }
}
