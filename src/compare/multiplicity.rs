//! Many questions in one session: the false discovery rate.

/// The q-values of p-values: the smallest false discovery rate at which each would still be called a difference
/// (Benjamini and Hochberg 1995, step-up; adjusted values as of Yekutieli and Benjamini 1999).
///
/// The family is exactly the slice: what is reported, no more and no less. If no question has a difference, a false
/// discovery rate of q is a chance of q to report any, whatever their number (Simes 1986). That holds for independent and
/// for positively dependent p-values (Benjamini and Yekutieli 2001), such as rate and CPU time of the same runs.
#[must_use]
pub fn q_values(p_values: &[f64]) -> Vec<f64> {
    let family = p_values.len();
    let mut order: Vec<usize> = (0..family).collect();
    order.sort_by(|a, b| p_values[*b].total_cmp(&p_values[*a]));
    let mut q_values = vec![1.0; family];
    let mut least = 1f64;
    for (place, index) in order.into_iter().enumerate() {
        let rank = family - place;
        least = least.min(p_values[index] * (family as f64 / rank as f64));
        q_values[index] = least;
    }
    q_values
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The 15 p-values of Benjamini and Hochberg 1995, section 4.1: at q = 0.05 the first four are rejected.
    #[test]
    fn the_example_of_the_paper() {
        let p_values =
            [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.000];
        let q_values = q_values(&p_values);
        assert_eq!(q_values.iter().filter(|q| **q <= 0.05).count(), 4);
        assert!((q_values[0] - 0.0015).abs() < 1e-12 && (q_values[3] - 0.0095 * 15.0 / 4.0).abs() < 1e-12);
    }

    #[test]
    fn one_question_is_its_own_family() {
        assert_eq!(q_values(&[0.03]), [0.03]);
        assert!(q_values(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn q_values_are_no_smaller_and_keep_the_order(p_values in prop::collection::vec(0.0f64..=1.0, 1..80)) {
            let q_values = q_values(&p_values);
            for (p, q) in p_values.iter().zip(&q_values) {
                prop_assert!(q >= p && *q <= 1.0);
                for (other_p, other_q) in p_values.iter().zip(&q_values) {
                    prop_assert!(p > other_p || q <= other_q);
                }
            }
        }
    }
}
