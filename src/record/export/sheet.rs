//! The common form of all records: cells with figures, and what has none.

use serde::Serialize;

use crate::compare::{Direction, median};
use crate::measure::{Environment, Machine};
use crate::target::TargetFacts;

/// What a figure says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// All time over all operations, whatever the number of callers.
    TimePerOp,
    /// The same the other way round.
    Rate,
    /// Median latency of one operation; from the planned time in an open loop.
    P50,
    /// 99th percentile of the same.
    P99,
    /// CPU of the client's process, user and system.
    ClientCpu,
    /// CPU of all servers.
    ServerCpu,
    /// Allocations of the client's process.
    Allocations,
    /// The bytes that these asked for.
    AllocatedBytes,
    /// Commands that each `read(2)` of the servers brought.
    CommandsPerRead,
    /// Largest resident set of the client's process.
    PeakMemory,
}

impl Measure {
    /// All, in the order of tables.
    pub const ALL: [Self; 10] = [
        Self::TimePerOp,
        Self::Rate,
        Self::P50,
        Self::P99,
        Self::ClientCpu,
        Self::ServerCpu,
        Self::Allocations,
        Self::AllocatedBytes,
        Self::CommandsPerRead,
        Self::PeakMemory,
    ];

    /// The name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TimePerOp => "time-per-op",
            Self::Rate => "rate",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::ClientCpu => "client-cpu",
            Self::ServerCpu => "server-cpu",
            Self::Allocations => "allocations",
            Self::AllocatedBytes => "allocated-bytes",
            Self::CommandsPerRead => "commands-per-read",
            Self::PeakMemory => "peak-memory",
        }
    }

    /// The unit of its values.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::TimePerOp | Self::ClientCpu | Self::ServerCpu => "ns/op",
            Self::Rate => "ops/s",
            Self::P50 | Self::P99 => "ns",
            Self::Allocations => "allocs/op",
            Self::AllocatedBytes => "B/op",
            Self::CommandsPerRead => "commands/read",
            Self::PeakMemory => "B",
        }
    }

    /// Which way it is better.
    #[must_use]
    pub const fn better(self) -> Direction {
        match self {
            Self::Rate | Self::CommandsPerRead => Direction::More,
            _ => Direction::Less,
        }
    }
}

/// One figure of a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// What it says.
    pub measure: Measure,
    /// Its unit.
    pub unit: &'static str,
    /// Which way it is better.
    pub better: Direction,
    /// The value of the whole cell.
    pub value: f64,
    /// Single runs, each as long as the others; empty when only the whole was counted.
    pub samples: Vec<f64>,
    /// What a comparison says of it beside its baseline; `None` in other records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<Against>,
}

/// A figure beside that of the baseline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Against {
    /// This / baseline: the median of the rounds.
    pub ratio: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// `better`, `worse`, `no-difference` or `undecided`.
    pub verdict: &'static str,
}

impl Figure {
    /// A figure; `None` when it is no finite number or negative: nothing is measured so.
    #[must_use]
    pub fn new(measure: Measure, value: f64, samples: Vec<f64>) -> Option<Self> {
        let sound = |value: &f64| value.is_finite() && *value >= 0.0;
        (sound(&value) && samples.iter().all(sound)).then(|| Self {
            measure,
            unit: measure.unit(),
            better: measure.better(),
            value,
            samples,
            against: None,
        })
    }

    /// The median of `samples`; `None` without any.
    #[must_use]
    pub fn median(measure: Measure, samples: Vec<f64>) -> Option<Self> {
        if samples.is_empty() { None } else { Self::new(measure, median(&samples), samples) }
    }

    /// The smallest and the largest single run; `None` with fewer than two.
    #[must_use]
    pub fn range(&self) -> Option<(f64, f64)> {
        let low = self.samples.iter().copied().fold(f64::INFINITY, f64::min);
        let high = self.samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (self.samples.len() > 1).then_some((low, high))
    }
}

/// What is measured in one row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Name {
    /// What is done.
    pub workload: String,
    /// The driver; of a comparison the subject, as it was typed.
    pub driver: String,
    /// Settings, `k=v` each.
    #[serde(serialize_with = "as_object")]
    pub parameters: Vec<(String, String)>,
}

/// An object is easier to read than a list of pairs; the order stays.
fn as_object<S: serde::Serializer>(pairs: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(key, value)| (key, value)))
}

impl Name {
    /// The parameters in one text: `k=v,…`.
    #[must_use]
    pub fn settings(&self) -> String {
        self.parameters.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.workload, self.driver)?;
        if self.parameters.is_empty() { Ok(()) } else { write!(f, "/{}", self.settings()) }
    }
}

/// A cell that was measured, and whose figures can be stood behind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// What was measured.
    pub name: Name,
    /// What stays the same from one version of the client to the next: the name, without a version that is part of it.
    pub lineage: String,
    /// The client crate.
    pub client: String,
    /// Its exact version.
    pub client_version: String,
    /// Which of the sheet's targets it was measured against.
    pub target: usize,
    /// Worker threads of the runtime; `None` where the record does not say.
    pub workers: Option<usize>,
    /// Whether it is the baseline of a comparison under a second name (A/A).
    pub control: bool,
    /// Whether it was measured in an older session, whose record has it too.
    pub of_another_session: bool,
    /// Operations of each single run.
    pub operations: Vec<u64>,
    /// What a reader must know.
    pub marks: Vec<String>,
    /// The figures, in the order of [`Measure::ALL`].
    pub figures: Vec<Figure>,
}

impl Entry {
    /// The figure of `measure`, if it was measured.
    #[must_use]
    pub fn figure(&self, measure: Measure) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.measure == measure)
    }
}

/// What has no figure, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The cell or run.
    pub name: String,
    /// One sentence.
    pub reason: String,
    /// Whether the driver can't do it, by its own statement: no failure.
    pub unsupported: bool,
}

/// A record in the common form.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sheet {
    /// The file.
    pub record: String,
    /// Start of the session, RFC 3339 in UTC.
    pub created: String,
    /// What made it: `bench commands`, `rcb load`, …
    pub made_by: String,
    /// False when it was interrupted.
    pub complete: bool,
    /// The machine: figures of two are not comparable.
    pub machine: Machine,
    /// Machine and build in full.
    pub environment: Environment,
    /// What was measured against.
    pub targets: Vec<TargetFacts>,
    /// What a reader must know about all of it.
    pub warnings: Vec<String>,
    /// What was measured.
    pub entries: Vec<Entry>,
    /// What was not.
    pub left_out: Vec<LeftOut>,
}

/// `redis 7.0.15, standalone, process` or `valkey 9.1.0, cluster 3x1, container`: figures of two such are not comparable.
#[must_use]
pub fn server_text(target: &TargetFacts) -> String {
    let shape = match target.topology {
        crate::drivers::Topology::Standalone => "standalone".to_owned(),
        crate::drivers::Topology::Cluster => format!("cluster {}x{}", target.masters, target.replicas / target.masters.max(1)),
    };
    format!("{}, {shape}, {}", target.server, target.kind)
}
