//! Which key a command takes.

use std::fmt;
use std::str::FromStr;

use rand_distr::{Distribution as _, StandardNormal, Zipf};

use super::error::MixError;
use super::rng::CounterRng;

/// The most keys: as many as twelve digits can name.
pub const MOST_KEYS: u64 = 1_000_000_000_000;

/// The exponent of `zipfian` without one, as YCSB and memtier_benchmark have it.
pub const ZIPFIAN_EXPONENT: f64 = 0.99;

/// The largest exponent: from there on nearly every draw is key 0.
const LARGEST_EXPONENT: f64 = 100.0;

/// How keys are drawn from their range.
///
/// Read from `uniform`, `sequential`, `zipfian`, `zipfian:1.2` or `gaussian`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Distribution {
    /// Each key equally likely.
    #[default]
    Uniform,
    /// One key after the other, from 0 again after the last. In a mix the commands share the count.
    Sequential,
    /// Key `k` with a likelihood of `1 / (k + 1)^exponent`: key 0 is the hottest.
    Zipfian {
        /// How steep, 0 (uniform) to 100.
        exponent: f64,
    },
    /// Around the middle of the range with a standard deviation of a sixth of it; what falls outside is drawn again.
    Gaussian,
}

impl FromStr for Distribution {
    type Err = MixError;

    fn from_str(text: &str) -> Result<Self, MixError> {
        let bad = || MixError::Distribution(text.to_owned());
        let distribution = match text.split_once(':') {
            None => match text {
                "uniform" => Self::Uniform,
                "sequential" => Self::Sequential,
                "gaussian" => Self::Gaussian,
                "zipfian" => Self::Zipfian { exponent: ZIPFIAN_EXPONENT },
                _ => return Err(bad()),
            },
            Some(("zipfian", exponent)) => Self::Zipfian { exponent: exponent.parse().map_err(|_| bad())? },
            Some(_) => return Err(bad()),
        };
        distribution.checked().map_err(|_| bad())
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Sequential => f.write_str("sequential"),
            Self::Zipfian { exponent } => write!(f, "zipfian:{exponent}"),
            Self::Gaussian => f.write_str("gaussian"),
        }
    }
}

impl Distribution {
    /// Checks the parameter.
    pub(super) fn checked(self) -> Result<Self, MixError> {
        match self {
            Self::Zipfian { exponent } if !(0.0..=LARGEST_EXPONENT).contains(&exponent) => Err(MixError::Distribution(self.to_string())),
            _ => Ok(self),
        }
    }
}

/// Draws keys of one range.
pub(super) struct Sampler {
    keys: u64,
    shape: Shape,
}

enum Shape {
    Uniform,
    Sequential,
    Zipfian(Zipf<f64>),
    Gaussian,
}

impl Sampler {
    /// A sampler of `0..keys`, which must not be empty.
    pub(super) fn new(distribution: Distribution, keys: u64) -> Result<Self, MixError> {
        let shape = match distribution.checked()? {
            Distribution::Uniform => Shape::Uniform,
            Distribution::Sequential => Shape::Sequential,
            Distribution::Gaussian => Shape::Gaussian,
            Distribution::Zipfian { exponent } => {
                // So near to 1 the general formula divides noise by noise.
                let exponent = if (exponent - 1.0).abs() < 1e-9 { 1.0 } else { exponent };
                Shape::Zipfian(Zipf::new(keys as f64, exponent).map_err(|_| MixError::Distribution(distribution.to_string()))?)
            }
        };
        Ok(Self { keys, shape })
    }

    /// The next key; `turn` is its place in the order of all keys, for [`Distribution::Sequential`].
    #[inline]
    pub(super) fn sample(&self, rng: &mut CounterRng, turn: u64) -> u64 {
        match &self.shape {
            Shape::Uniform => rng.below(self.keys),
            Shape::Sequential => turn % self.keys,
            // A rank from 1 to `keys`.
            Shape::Zipfian(zipf) => (zipf.sample(rng) as u64).clamp(1, self.keys) - 1,
            Shape::Gaussian => loop {
                let away: f64 = StandardNormal.sample(rng);
                let place = (0.5 + away / 6.0) * self.keys as f64;
                if (0.0..self.keys as f64).contains(&place) {
                    break place as u64;
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each of `keys` keys is drawn in `draws` draws.
    fn counts(distribution: Distribution, keys: u64, draws: u64) -> Vec<u64> {
        let sampler = Sampler::new(distribution, keys).unwrap();
        let mut counts = vec![0; keys as usize];
        for index in 0..draws {
            counts[sampler.sample(&mut CounterRng::at(3, index), index) as usize] += 1;
        }
        counts
    }

    #[test]
    fn distributions_are_read_and_shown_the_same() {
        for text in ["uniform", "sequential", "gaussian", "zipfian:0.99", "zipfian:1"] {
            assert_eq!(text.parse::<Distribution>().unwrap().to_string(), text);
        }
        assert_eq!("zipfian".parse(), Ok(Distribution::Zipfian { exponent: 0.99 }));
        for bad in ["", "zipf", "zipfian:", "zipfian:-1", "zipfian:nan", "zipfian:101", "uniform:2"] {
            let error = bad.parse::<Distribution>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{bad}`")) && error.contains("zipfian[:exponent]"), "{error}");
        }
    }

    #[test]
    fn uniform_draws_each_key_about_as_often() {
        let counts = counts(Distribution::Uniform, 100, 100_000);
        assert!(counts.iter().all(|&count| (850..1_150).contains(&count)), "{counts:?}");
    }

    #[test]
    fn sequential_takes_each_key_in_turn() {
        assert!(counts(Distribution::Sequential, 100, 1_000).iter().all(|&count| count == 10));
    }

    #[test]
    fn zipfian_follows_its_law_at_the_head() {
        let counts = counts(Distribution::Zipfian { exponent: 1.0 }, 1_000, 200_000);
        // The harmonic number of 1000 is 7.485: key 0 has 13.4 % of the draws, key 1 half and key 9 a tenth of that.
        for (key, share) in [(0, 0.1336), (1, 0.0668), (9, 0.01336)] {
            let drawn = counts[key] as f64 / 200_000.0;
            assert!((drawn / share - 1.0).abs() < 0.1, "key {key}: {drawn}, not {share}");
        }
        assert!(counts[0] > counts[1] && counts[1] > counts[9] && counts[9] > counts[999]);
    }

    #[test]
    fn gaussian_is_centred_and_two_thirds_lie_within_a_sixth() {
        let counts = counts(Distribution::Gaussian, 600, 100_000);
        let mean = counts.iter().enumerate().map(|(key, &count)| key as f64 * count as f64).sum::<f64>() / 100_000.0;
        assert!((mean - 299.5).abs() < 2.0, "{mean}");
        let near: u64 = counts[200..400].iter().sum();
        // 68.3 % within one deviation, of the 99.7 % that are kept.
        assert!((0.675..0.695).contains(&(near as f64 / 100_000.0)), "{near}");
    }

    #[test]
    fn a_single_key_is_drawn_by_all() {
        for text in ["uniform", "sequential", "gaussian", "zipfian", "zipfian:0", "zipfian:1.0000000000000002", "zipfian:100"] {
            assert_eq!(counts(text.parse().unwrap(), 1, 100), [100], "{text}");
        }
    }
}
