//! Latencies: HDR histograms in nanoseconds, and the few figures that are read out of one.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The longest latency that is told apart from longer ones, nanoseconds: one hour.
pub const LONGEST_NS: u64 = 3_600_000_000_000;
/// Decimal digits that a recorded value keeps; a percentile is at most 0.1 % too high, never too low.
pub const DIGITS: u8 = 3;

/// An empty histogram for latencies from 1 ns to [`LONGEST_NS`]: about 270 KiB, however many values it takes.
#[must_use]
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("constant bounds that the crate accepts")
}

/// What is reported of a histogram, nanoseconds. Percentiles are as HdrHistogram defines them: the highest value that is
/// equivalent to the one at that rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Recorded values.
    pub count: u64,
    /// Smallest.
    pub min_ns: u64,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Half are at most this.
    pub p50_ns: u64,
    /// 90 %.
    pub p90_ns: u64,
    /// 95 %.
    pub p95_ns: u64,
    /// 99 %.
    pub p99_ns: u64,
    /// 99.9 %.
    pub p999_ns: u64,
    /// Largest.
    pub max_ns: u64,
}

impl Latency {
    /// Reads the figures out; `None` when nothing was recorded.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Option<Self> {
        let at = |quantile| histogram.value_at_quantile(quantile);
        (!histogram.is_empty()).then(|| Self {
            count: histogram.len(),
            min_ns: histogram.min(),
            mean_ns: histogram.mean(),
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p95_ns: at(0.95),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: histogram.max(),
        })
    }
}

/// Adds `other`, of the same bounds.
pub fn merge(into: &mut Histogram<u64>, other: &Histogram<u64>) {
    // Both are of `histogram()`, so it fits.
    let _ = into.add(other);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_recorded_values() {
        let mut values = histogram();
        assert_eq!(Latency::of(&values), None);
        (1..=1000).for_each(|micros| values.saturating_record(micros * 1000));
        let latency = Latency::of(&values).unwrap();
        let near = |got: u64, wanted: u64| got >= wanted && (got - wanted) as f64 <= wanted as f64 / 1000.0;
        assert_eq!(latency.count, 1000);
        assert!(near(latency.p50_ns, 500_000) && near(latency.p99_ns, 990_000) && near(latency.max_ns, 1_000_000), "{latency:?}");
        assert!(near(latency.p95_ns, 950_000) && near(latency.p999_ns, 999_000), "{latency:?}");
        assert!((latency.mean_ns - 500_500.0).abs() < 500.0);
        values.saturating_record(u64::MAX);
        assert_eq!(values.len(), 1001, "a value beyond the bounds counts as the largest");
    }
}
