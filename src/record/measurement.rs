//! What one cell gave: figures, or the reason why there are none.

use serde::{Deserialize, Serialize};

use super::Cell;
use crate::target::audit::{Audit, ServerUsage};
use crate::window::Flushes;

/// One timed run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Operations done.
    pub operations: u64,
    /// Nanoseconds from the release of the callers to the last reply.
    pub elapsed_ns: u64,
}

/// Something a reader must know about a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// At least half of each caller's time passed in the window: the figure reads out the timer more than the client.
    TimerBound,
    /// Fewer than 16 operations for each caller in a sample: start and end of a sample weigh in.
    FewOperations,
    /// The client does not take all of what the profile asks of it; its notes say what.
    NotTuned,
}

impl std::fmt::Display for Mark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Mark::TimerBound => "timer-bound",
            Mark::FewOperations => "few operations",
            Mark::NotTuned => "not tuned",
        })
    }
}

/// The figures of a cell. Counts and sums; everything else is derived by the methods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Timed runs, warm-up left out.
    pub samples: Vec<Sample>,
    /// Client CPU in user mode, nanoseconds, all samples.
    pub client_user_ns: u64,
    /// Client CPU in the kernel, nanoseconds.
    pub client_system_ns: u64,
    /// Allocations of the client's process; `None` without the counting allocator.
    pub allocations: Option<u64>,
    /// Bytes of these allocations.
    pub allocated_bytes: Option<u64>,
    /// Largest resident set of the client's process during the cell, bytes.
    pub peak_memory: Option<u64>,
    /// What the servers did.
    pub server: ServerUsage,
    /// The servers' count against ours.
    pub audit: Audit,
    /// Batches of the pipeline window.
    pub flushes: Option<Flushes>,
    /// What a reader must know.
    pub marks: Vec<Mark>,
}

impl Measurement {
    /// Operations in all samples.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.samples.iter().map(|sample| sample.operations).sum()
    }

    /// Nanoseconds of all samples.
    #[must_use]
    pub fn elapsed_ns(&self) -> u64 {
        self.samples.iter().map(|sample| sample.elapsed_ns).sum()
    }

    fn per_operation(&self, total: u64) -> f64 {
        total as f64 / self.operations().max(1) as f64
    }

    /// Wall-clock nanoseconds per operation: all time over all operations, whatever the number of callers.
    #[must_use]
    pub fn ns_per_op(&self) -> f64 {
        self.per_operation(self.elapsed_ns())
    }

    /// Operations per second: all operations over all time.
    #[must_use]
    pub fn ops_per_second(&self) -> f64 {
        self.operations() as f64 * 1e9 / self.elapsed_ns().max(1) as f64
    }

    /// Allocated bytes per operation.
    #[must_use]
    pub fn bytes_per_op(&self) -> Option<f64> {
        self.allocated_bytes.map(|bytes| self.per_operation(bytes))
    }

    /// Allocations per operation.
    #[must_use]
    pub fn allocs_per_op(&self) -> Option<f64> {
        self.allocations.map(|count| self.per_operation(count))
    }

    /// Client CPU per operation, user and system, nanoseconds.
    #[must_use]
    pub fn client_cpu_per_op(&self) -> f64 {
        self.per_operation(self.client_user_ns + self.client_system_ns)
    }

    /// CPU of all servers per operation, nanoseconds.
    #[must_use]
    pub fn server_cpu_per_op(&self) -> f64 {
        self.per_operation(self.server.cpu_ns)
    }

    /// Commands per `read(2)` of the server: the pipeline depth really achieved, commands of checkouts included.
    #[must_use]
    pub fn commands_per_read(&self) -> Option<f64> {
        let commands = self.audit.workload + self.audit.checkout;
        (self.server.reads > 0).then(|| commands as f64 / self.server.reads as f64)
    }

    /// Mean time of one command as its caller sees it, by Little's law: callers × time per operation. Nanoseconds.
    #[must_use]
    pub fn mean_latency_ns(&self, callers: usize) -> f64 {
        self.ns_per_op() * callers as f64
    }
}

/// What became of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum Outcome {
    /// Verified, timed and audited.
    Measured(Box<Measurement>),
    /// Tried, and no figure can be stood behind.
    Failed {
        /// Why.
        reason: String,
    },
    /// The driver can't do it, by its own statement.
    Unsupported {
        /// Why.
        reason: String,
    },
    /// Verified only (`--test`).
    Verified,
}

/// One row of a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The cell's name, derived from `cell`.
    pub name: String,
    /// What was measured.
    pub cell: Cell,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl Row {
    /// A row for `cell`.
    #[must_use]
    pub fn new(cell: Cell, outcome: Outcome) -> Self {
        Self { name: cell.name(), cell, outcome }
    }

    /// The figures, if there are any.
    #[must_use]
    pub fn measurement(&self) -> Option<&Measurement> {
        match &self.outcome {
            Outcome::Measured(measurement) => Some(measurement),
            _ => None,
        }
    }
}
