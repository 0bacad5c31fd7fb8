//! What the same thing measured twice differs by, and what could be seen through it.

use super::bootstrap::{Span, median_span};
use super::rank::critical_sum;

/// The part of cases in which the control's interval may miss.
const FLOOR_ERROR: f64 = 0.05;

/// The standard normal quantile of 0.8: what is added so that a difference is seen in eight of ten sessions, not in half.
const EIGHT_OF_TEN: f64 = 0.8416;

/// The noise of one metric of one workload, from the control (A/A).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// Control over baseline: the median with its 95 % interval, logarithms.
    pub control: Span,
    /// Logarithm of the ratio that a difference has to exceed.
    pub floor: f64,
}

impl Noise {
    /// From the logarithms of control over baseline, in the order of the rounds; `None` without any.
    ///
    /// The floor is the end of the control's interval farther from "no difference" (the largest true A/A difference that
    /// the rounds speak for), or the median of either half of the session if that is still farther away: a control that
    /// moved while the session ran.
    #[must_use]
    pub fn of(control: &[f64]) -> Option<Self> {
        let span = median_span(control, FLOOR_ERROR)?;
        let (first, second) = control.split_at(control.len() / 2);
        let moved = |half: &[f64]| if half.is_empty() { 0.0 } else { super::median(half).abs() };
        Some(Self { control: span, floor: span.farther_end().max(moved(first)).max(moved(second)) })
    }
}

/// The smallest true difference (a logarithm) for which such rounds would have given a verdict in eight of ten sessions.
///
/// The rounds are shifted, in thought, until each condition of a verdict holds: the median past `least` (threshold and
/// floor), the interval off zero, and the signed rank's p-value at most `level`. The last is the Walsh average at the
/// critical sum (Hodges and Lehmann 1963). Half of such sessions would fall short of it, so 0.84 standard errors of the
/// median are added (half of the bootstrap's 68 % interval). `None` when the rounds are too few for the level.
#[must_use]
pub fn visible_difference(logs: &[f64], span: &Span, least: f64, level: f64) -> Option<f64> {
    let critical = critical_sum(logs.len(), level)?;
    let mut walsh: Vec<f64> = Vec::with_capacity(logs.len() * (logs.len() + 1) / 2);
    for (index, value) in logs.iter().enumerate() {
        walsh.extend(logs[index..].iter().map(|other| f64::midpoint(*value, *other) - span.median));
    }
    let upward = -*walsh.select_nth_unstable_by(logs.len() * (logs.len() + 1) / 2 - critical, f64::total_cmp).1;
    let downward = *walsh.select_nth_unstable_by(critical - 1, f64::total_cmp).1;
    let middle = median_span(logs, 0.3173)?;
    Some(least.max(upward).max(downward).max(span.half_width()) + EIGHT_OF_TEN * (middle.high - middle.low) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_that_never_differs_has_no_floor() {
        let noise = Noise::of(&[0.0; 12]).unwrap();
        assert_eq!((noise.floor, noise.control.low, noise.control.high), (0.0, 0.0, 0.0));
        assert_eq!(Noise::of(&[]), None);
    }

    #[test]
    fn the_floor_is_the_farther_end_of_the_interval() {
        let control: Vec<f64> = (0..20).map(|round| f64::from(round * 7 % 20 - 8) / 100.0).collect();
        let noise = Noise::of(&control).unwrap();
        assert!(noise.control.low < 0.0 && noise.control.high > 0.0);
        assert_eq!(noise.floor, noise.control.high, "-0.08 to 0.11: {noise:?}");
    }

    /// Half of the rounds below, half above.
    #[test]
    fn a_control_that_moved_shows_in_the_floor() {
        let control: Vec<f64> = (0..24).map(|round| if round < 12 { -0.05 } else { 0.05 }).collect();
        assert_eq!(Noise::of(&control).unwrap().floor, 0.05);
    }

    /// Constant rounds: no spread, so what is visible is the least that counts; five rounds are too few for 1 in 1,000.
    #[test]
    fn visible_is_at_least_the_least_and_needs_rounds() {
        let span = |logs: &[f64]| median_span(logs, 0.05).unwrap();
        let constant = [0.001; 12];
        assert_eq!(visible_difference(&constant, &span(&constant), 0.005, 0.001), Some(0.005));
        assert_eq!(visible_difference(&constant[..5], &span(&constant[..5]), 0.005, 0.001), None);
        let spread: Vec<f64> = (0..13).map(|round| f64::from(round - 6) / 100.0).collect();
        let visible = visible_difference(&spread, &span(&spread), 0.005, 0.001).unwrap();
        assert!((0.05..0.08).contains(&visible), "every sign but few has to agree: {visible}");
    }
}
