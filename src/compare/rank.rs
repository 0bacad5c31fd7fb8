//! Rank tests of "the candidate is the baseline under another name".
//!
//! Why ranks of paired differences, and why their level holds under drift: the order of the subjects within a round is
//! drawn at random, so if the candidate is the baseline, exchanging the two would only have turned the sign of that
//! round's log ratio. Given the sizes, every pattern of signs was equally likely, *whatever* the machine did meanwhile:
//! drift, autocorrelation, heavy tails and common shocks fix the sizes, the drawn order alone fixes the signs (Fisher's
//! randomization test; Lehmann and Romano, "Testing Statistical Hypotheses", chapter 15.2). A t-test or a bootstrap would
//! need independent rounds. Among sign-flip tests the signed rank (Wilcoxon 1945) does not let one outlier round decide,
//! unlike the mean, and wastes less than the sign test. Signs balanced within blocks of rounds ([`Orders`](super::Orders))
//! make a trend cancel faster than free signs would, which errs on the safe side.

use std::sync::OnceLock;

/// Up to this many rounds the null distribution is counted out; beyond it is normal to better than the error it replaces.
const EXACT: usize = 60;

/// Two-sided p-value of Wilcoxon's signed rank test that the values are symmetric about zero.
///
/// Zeros are ranked and then dropped (Pratt 1959), ties share the mean of their ranks; for up to 60 non-zero values the
/// distribution over all patterns of signs is exact, ties included, beyond it is normal with the ties' variance and a
/// continuity correction. 1 when every value is zero, or there is none.
#[must_use]
pub fn signed_rank(values: &[f64]) -> f64 {
    let ranked = doubled_ranks(values);
    let total: usize = ranked.iter().map(|(rank, _)| rank).sum();
    let positive: usize = ranked.iter().filter(|(_, positive)| *positive).map(|(rank, _)| rank).sum();
    let ranks: Vec<usize> = ranked.iter().map(|(rank, _)| *rank).collect();
    let statistic = positive.max(total - positive);
    (2.0 * upper_tail(&ranks, statistic)).min(1.0)
}

/// The smallest sum of positive ranks of `n` values without zeros and ties whose two-sided p-value is at most `level`;
/// `None` when even n values of one sign are not that rare.
#[must_use]
pub fn critical_sum(n: usize, level: f64) -> Option<usize> {
    let ranks: Vec<usize> = (1..=n).map(|rank| 2 * rank).collect();
    let (mut short, mut enough) = (n * (n + 1) / 4, n * (n + 1) / 2);
    let rare = |sum: usize| 2.0 * upper_tail(&ranks, 2 * sum) <= level;
    if n == 0 || !rare(enough) {
        return None;
    }
    while enough - short > 1 {
        let middle = usize::midpoint(short, enough);
        *(if rare(middle) { &mut enough } else { &mut short }) = middle;
    }
    Some(enough)
}

/// The p-value of "in each of `rounds` rounds the candidate was the one that differed, baseline and control being equal".
///
/// For metrics that are counted, not timed. If the candidate is the baseline, the three subjects of a round are
/// exchangeable: the one that differs is the candidate in one of three rounds. Which rounds have one odd value out of
/// three does not depend on the names, so looking for it costs nothing.
#[must_use]
pub fn odd_one_out(rounds: usize) -> f64 {
    3f64.powi(i32::try_from(rounds).unwrap_or(i32::MAX)).recip()
}

/// Twice the rank of every value that is not zero, with whether it is positive.
fn doubled_ranks(values: &[f64]) -> Vec<(usize, bool)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let mut ranked = Vec::with_capacity(sorted.len());
    let mut start = 0;
    while start < sorted.len() {
        let size = sorted[start].abs();
        let end = start + sorted[start..].partition_point(|value| value.abs() <= size);
        // ranks start + 1 to end; twice their mean
        ranked.extend(sorted[start..end].iter().filter(|value| **value != 0.0).map(|value| (start + 1 + end, *value > 0.0)));
        start = end;
    }
    ranked
}

/// P(sum of the (doubled) ranks with a positive sign is at least `sum`), signs being fair coins.
fn upper_tail(ranks: &[usize], sum: usize) -> f64 {
    static PLAIN: [OnceLock<Vec<f64>>; EXACT + 1] = [const { OnceLock::new() }; EXACT + 1];
    if ranks.is_empty() {
        return 1.0;
    }
    if ranks.len() > EXACT {
        return normal_tail(ranks, sum);
    }
    let plain = ranks.iter().enumerate().all(|(index, rank)| *rank == 2 * (index + 1));
    if plain {
        let tails = PLAIN[ranks.len()].get_or_init(|| tails(&(1..=ranks.len()).collect::<Vec<_>>()));
        return tails.get(sum.div_ceil(2)).copied().unwrap_or(0.0);
    }
    tails(ranks).get(sum).copied().unwrap_or(0.0)
}

/// P(sum of the ranks with a positive sign is at least s), for every s: each rank is added or not with probability ½.
fn tails(ranks: &[usize]) -> Vec<f64> {
    let total: usize = ranks.iter().sum();
    let mut chance = vec![0.0; total + 1];
    chance[0] = 1.0;
    let mut reached = 0;
    for rank in ranks {
        reached += rank;
        for sum in (0..=reached).rev() {
            let with = if sum >= *rank { chance[sum - rank] } else { 0.0 };
            chance[sum] = f64::midpoint(chance[sum], with);
        }
    }
    for sum in (0..total).rev() {
        chance[sum] += chance[sum + 1];
    }
    chance
}

fn normal_tail(ranks: &[usize], sum: usize) -> f64 {
    let mean = ranks.iter().sum::<usize>() as f64 / 2.0;
    let deviation = (ranks.iter().map(|rank| (rank * rank) as f64).sum::<f64>() / 4.0).sqrt();
    // Doubled ranks: the correction by half a rank is 1.
    let z = (sum as f64 - mean - 1.0) / deviation;
    0.5 * libm::erfc(z / std::f64::consts::SQRT_2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Six positive values: both extreme patterns of 2^6, 2/64. Five with the smallest negative: sums 15 and 14 of 15, at
    /// either end, 4/32 (Hollander and Wolfe, "Nonparametric Statistical Methods", table A.4: P(T+ >= 14), n = 5: .062).
    #[test]
    fn small_cases_by_hand() {
        assert!((signed_rank(&[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]) - 2.0 / 64.0).abs() < 1e-12);
        assert!((signed_rank(&[-0.1, 0.2, 0.3, 0.4, 0.5]) - 4.0 / 32.0).abs() < 1e-12);
        assert_eq!(signed_rank(&[]), 1.0);
        assert_eq!(signed_rank(&[0.0; 9]), 1.0);
    }

    /// The tabulated tail of n = 10: P(T+ >= 47) = 0.024, P(T+ >= 45) = 0.042 (Hollander and Wolfe, table A.4):
    /// 25 and 43 of 1,024 patterns.
    #[test]
    fn the_tabulated_tail_of_ten() {
        let tails = tails(&(1..=10).collect::<Vec<_>>());
        assert_eq!(((tails[47] * 1024.0).round(), (tails[45] * 1024.0).round()), (25.0, 43.0));
    }

    /// Ties: three values of one size have rank 2 each; of the 8 patterns 1 + 1 have all signs alike. A zero in front
    /// moves their ranks to 3 each, which changes nothing here.
    #[test]
    fn ties_and_zeros_are_exact() {
        assert!((signed_rank(&[0.5, 0.5, 0.5]) - 0.25).abs() < 1e-12);
        assert!((signed_rank(&[0.0, 0.5, 0.5, 0.5]) - 0.25).abs() < 1e-12);
        assert!((signed_rank(&[0.02; 12]) - 2.0 / 4096.0).abs() < 1e-12, "a constant difference is twelve equal signs");
    }

    #[test]
    fn the_normal_tail_is_close_and_not_too_small() {
        let ranks: Vec<usize> = (1..=EXACT).map(|rank| 2 * rank).collect();
        let exact = tails(&(1..=EXACT).collect::<Vec<_>>());
        for sum in [1000, 1150, 1250, 1350, 1450] {
            let normal = normal_tail(&ranks, 2 * sum);
            assert!(normal >= 0.99 * exact[sum], "{sum}: {normal} {}", exact[sum]);
            assert!(normal <= 2.5 * exact[sum], "{sum}: {normal} {}", exact[sum]);
        }
    }

    #[test]
    fn critical_sums_are_the_first_rare_enough() {
        // n = 10: P(T+ >= 47) is 25/1024 a side, P(T+ >= 46) 33/1024.
        assert_eq!(critical_sum(10, 0.05), Some(47));
        assert_eq!(critical_sum(5, 0.05), None, "2/32 is the least");
        assert_eq!(critical_sum(6, 0.05), Some(21));
        assert_eq!(critical_sum(0, 0.05), None);
        let large = critical_sum(100, 1e-4).unwrap();
        assert!((3600..3700).contains(&large), "{large}: mean 2525, deviation 290.8, z 3.89");
    }

    #[test]
    fn odd_ones() {
        assert!((odd_one_out(2) - 1.0 / 9.0).abs() < 1e-12);
        assert!(odd_one_out(12) < 2e-6);
    }
}
