//! What is compared: the metrics of an observation, which way each is better, and how large a difference matters.

use serde::{Deserialize, Serialize};

/// A figure that every observation of a subject gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Operations per second.
    Rate,
    /// Median latency in nanoseconds.
    P50,
    /// 99th percentile of the latency in nanoseconds.
    P99,
    /// The client's CPU time, user and system, in nanoseconds per operation.
    ClientCpu,
    /// Heap allocations per operation.
    Allocations,
    /// Bytes allocated per operation.
    AllocatedBytes,
    /// Commands that the server executed per read from its sockets.
    CommandsPerRead,
}

/// Which way a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// More is better.
    More,
    /// Less is better.
    Less,
}

impl Metric {
    /// Every metric, in the order of tables.
    pub const ALL: [Self; 7] =
        [Self::Rate, Self::P50, Self::P99, Self::ClientCpu, Self::Allocations, Self::AllocatedBytes, Self::CommandsPerRead];

    /// The name in tables and records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::ClientCpu => "client-cpu",
            Self::Allocations => "allocations",
            Self::AllocatedBytes => "allocated-bytes",
            Self::CommandsPerRead => "commands-per-read",
        }
    }

    /// Which way the metric is better.
    #[must_use]
    pub const fn direction(self) -> Direction {
        match self {
            Self::Rate | Self::CommandsPerRead => Direction::More,
            Self::P50 | Self::P99 | Self::ClientCpu | Self::Allocations | Self::AllocatedBytes => Direction::Less,
        }
    }

    /// The smallest difference that matters unless the user states another, as a share (0.02 is 2 %).
    #[must_use]
    pub const fn default_threshold(self) -> f64 {
        match self {
            Self::Rate | Self::P50 | Self::CommandsPerRead => 0.02,
            Self::P99 => 0.05,
            Self::ClientCpu => 0.01,
            Self::Allocations | Self::AllocatedBytes => 0.005,
        }
    }

    /// The amount, in the metric's unit, below which a value cannot be told from none. Smaller values count as this
    /// much, so that 0.0003 allocations per operation, an allocation of some background task, is not "infinitely many
    /// times" the none of another run. Zero where none at all is no measurement (a rate).
    #[must_use]
    pub const fn grain(self) -> f64 {
        match self {
            Self::Rate | Self::CommandsPerRead => 0.0,
            Self::P50 | Self::P99 | Self::ClientCpu | Self::AllocatedBytes => 1.0,
            Self::Allocations => 0.01,
        }
    }
}

impl std::fmt::Display for Metric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_tables_use_the_same_names() {
        for metric in Metric::ALL {
            assert_eq!(serde_json::to_string(&metric).unwrap(), format!("\"{metric}\""));
            assert_eq!(serde_json::from_str::<Metric>(&format!("\"{metric}\"")).unwrap(), metric);
        }
    }
}
