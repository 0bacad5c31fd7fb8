//! The record of `rcb load`: every run with its settings, counts, latencies and series. `docs/FORMAT.md` describes the file.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::{CellSettings, Runtime, timestamp};
use crate::drivers::{CacheMode, Capacity};
pub use crate::measure::Distribution;
use crate::measure::{Environment, Latency};
use crate::target::TargetFacts;
use crate::target::audit::{Audit, ServerUsage};
use crate::window::Flushes;
use crate::workload::cache::CacheFigures;
use crate::workload::load::arrivals::OpenLoop;
use crate::workload::load::errors::ErrorCount;
use crate::workload::load::ticker::Second;

/// Marks a file as a record of loads.
pub const LOAD_FORMAT: &str = "redis-client-bench/load";
/// Version of the format.
pub const LOAD_VERSION: u32 = 1;

/// All runs of one invocation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadRecord {
    /// [`LOAD_FORMAT`].
    pub format: String,
    /// [`LOAD_VERSION`].
    pub version: u32,
    /// Start, RFC 3339 in UTC.
    pub created: String,
    /// The machine, the build and how busy it was.
    pub environment: Environment,
    /// What was measured against.
    pub target: TargetFacts,
    /// What a reader must know about all of it.
    pub warnings: Vec<String>,
    /// False when it was interrupted.
    pub complete: bool,
    /// What was asked for.
    pub asked: Asked,
    /// The runs in the order in which they ran.
    pub runs: Vec<LoadRun>,
}

/// What holds for all runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Keys that `__key__` is drawn from.
    pub keys: u64,
    /// How keys are drawn.
    pub key_distribution: String,
    /// Bytes of `__data__`, or a range.
    pub data_size: String,
    /// Decides every command, key, value and random arrival.
    pub seed: u64,
    /// Whether all keys were written before each run.
    pub prefill: bool,
    /// Tasks that send.
    pub callers: usize,
    /// Commands sent together.
    pub pipeline: usize,
    /// Each batch is a transaction.
    pub transaction: bool,
    /// Commands of each run, if that ends it.
    pub commands: Option<u64>,
    /// Seconds of each run, if that ends it.
    pub test_time: Option<f64>,
    /// Seconds before each run, of the same work, that count for nothing.
    pub warmup: f64,
    /// `None` in a closed loop.
    pub open_loop: Option<OpenLoop>,
    /// Whether replies were checked.
    pub verify: bool,
    /// Whether errors were counted instead of ending the run.
    pub continue_on_error: bool,
    /// Rounds in which each driver had its turn.
    pub rounds: usize,
    /// How reads went through the client's cache; `None` without `--csc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<AskedCache>,
}

/// What was asked for with `--csc`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AskedCache {
    /// Which keys the server tells the client about.
    pub mode: CacheMode,
    /// No invalidations for the client's own writes.
    pub noloop: bool,
    /// Longest that an entry is served, seconds.
    pub ttl_seconds: f64,
    /// As it was given; `None` = twice the keys of each mix. What the client got is in the figures.
    pub capacity: Option<Capacity>,
    /// SETs go through a second, plain client.
    pub external_writers: bool,
    /// Probes of the lag.
    pub probes_per_second: u32,
    /// Each driver runs without its cache too.
    pub baseline: bool,
    /// A stale read does not make a run fail.
    pub allow_stale: bool,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// As asked.
    Done,
    /// At an error.
    Error,
    /// By Ctrl-C.
    Interrupted,
    /// Replies did not come.
    Stalled,
    /// It did not begin: no connection, a prefill that failed.
    Failed,
    /// The client can't do it.
    Unsupported,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadRun {
    /// The workload's name: a preset, or `mix`.
    pub workload: String,
    /// Number of the round, from 1.
    pub round: usize,
    /// The driver.
    pub driver: String,
    /// With `--csc`: whether it read through its cache, or every time from the server (`--csc-baseline`). `None` without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<bool>,
    /// Its client crate.
    pub client: String,
    /// The client's exact version.
    pub client_version: String,
    /// Settings of the connections.
    pub settings: CellSettings,
    /// The runtime.
    pub runtime: Runtime,
    /// How it ended.
    pub status: Status,
    /// Why it did not end as asked, or gave no figures.
    pub reason: Option<String>,
    /// The figures, unless nothing was sent.
    pub figures: Option<Box<Figures>>,
    /// Commands per second, as in the figures; here for scripts.
    pub rate: Option<f64>,
}

/// What a run gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Seconds from the release of the callers to the last reply, or to the planned end.
    pub duration: f64,
    /// Commands that succeeded.
    pub commands: u64,
    /// Commands that failed.
    pub errors: u64,
    /// Failed commands whose fate is unknown, since no reply came.
    pub unanswered: u64,
    /// Failures by kind.
    pub errors_by_kind: Vec<ErrorCount>,
    /// How the plan of an open loop was kept.
    pub plan: Option<Plan>,
    /// From sending to the reply.
    pub service: Distribution,
    /// From the planned time to the reply; empty in a closed loop.
    pub planned: Distribution,
    /// The same by command of the mix.
    pub entries: Vec<EntryFigures>,
    /// The series.
    pub seconds: Vec<Second>,
    /// What this process used.
    pub client: ClientUsage,
    /// What the servers did.
    pub server: ServerUsage,
    /// The servers' count against ours.
    pub audit: Audit,
    /// The batches that a pipeline window sent.
    pub flushes: Option<Flushes>,
    /// What the client's cache did; `None` without `--csc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Box<CacheFigures>>,
}

/// One command of the mix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EntryFigures {
    /// The command as typed.
    pub command: String,
    /// Its share of the mix that was asked for.
    pub ratio: f64,
    /// Successes.
    pub commands: u64,
    /// Failures.
    pub errors: u64,
    /// From sending to the reply.
    pub service: Distribution,
    /// From the planned time to the reply; empty in a closed loop.
    pub planned: Distribution,
}

/// How an open loop kept to its plan. In commands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Due until the end.
    pub offered: u64,
    /// Offered commands per second.
    pub offered_rate: f64,
    /// Sent.
    pub sent: u64,
    /// Due and never sent, since the run was over.
    pub dropped: u64,
    /// Due and not yet sent at the moment when the last one was due.
    pub backlog: u64,
    /// The client and the server could not keep up: the backlog without the last burst was more than 1 % of what was offered,
    /// and more than one command for each caller. Latencies from the planned time then only say how long the run was.
    pub overloaded: bool,
    /// How late the harness itself released them.
    pub lateness: Option<Latency>,
    /// CPU time of the harness for releasing them, nanoseconds; it is part of the client's.
    pub pacer_cpu_ns: u64,
}

/// What this process used during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientUsage {
    /// CPU time in user mode, nanoseconds.
    pub user_ns: u64,
    /// CPU time in the kernel, nanoseconds.
    pub system_ns: u64,
    /// Allocations; `None` without the counting allocator.
    pub allocations: Option<u64>,
    /// Bytes of these allocations.
    pub allocated_bytes: Option<u64>,
    /// Largest resident set from connecting to the end, bytes.
    pub peak_memory: Option<u64>,
}

impl Figures {
    /// Successful commands per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        if self.duration > 0.0 { self.commands as f64 / self.duration } else { 0.0 }
    }

    fn per_command(&self, sum: u64) -> Option<f64> {
        // What got no answer may never have been sent.
        let answered = self.commands + self.errors.saturating_sub(self.unanswered);
        (answered > 0).then(|| sum as f64 / answered as f64)
    }

    /// Client CPU time in nanoseconds per command.
    #[must_use]
    pub fn client_cpu_per_command(&self) -> Option<f64> {
        self.per_command(self.client.user_ns + self.client.system_ns)
    }

    /// Server CPU time in nanoseconds per command; `None` when the servers could not be asked.
    #[must_use]
    pub fn server_cpu_per_command(&self) -> Option<f64> {
        self.per_command(Some(self.server.cpu_ns).filter(|&cpu| cpu > 0)?)
    }

    /// Allocations per command.
    #[must_use]
    pub fn allocations_per_command(&self) -> Option<f64> {
        self.per_command(self.client.allocations?)
    }

    /// Allocated bytes per command.
    #[must_use]
    pub fn allocated_bytes_per_command(&self) -> Option<f64> {
        self.per_command(self.client.allocated_bytes?)
    }

    /// Commands that each `read` of the servers brought, those of checkouts included: the pipeline depth really achieved.
    #[must_use]
    pub fn commands_per_read(&self) -> Option<f64> {
        (self.server.reads > 0).then(|| (self.audit.workload + self.audit.checkout) as f64 / self.server.reads as f64)
    }

    /// The latency that counts: from the planned time in an open loop, else from sending; `None` when overloaded.
    #[must_use]
    pub fn latency(&self) -> Option<Latency> {
        match &self.plan {
            Some(plan) if plan.overloaded => None,
            Some(_) => self.planned.latency,
            None => self.service.latency,
        }
    }
}

impl LoadRun {
    /// Who ran: the driver, and without its cache where others ran with theirs.
    #[must_use]
    pub fn subject(&self) -> String {
        if self.cached == Some(false) { format!("{} uncached", self.driver) } else { self.driver.clone() }
    }
}

impl LoadRecord {
    /// An empty record of now.
    #[must_use]
    pub fn new(environment: Environment, target: TargetFacts, warnings: Vec<String>, asked: Asked) -> Self {
        Self {
            format: LOAD_FORMAT.to_owned(),
            version: LOAD_VERSION,
            created: timestamp(std::time::SystemTime::now()),
            environment,
            target,
            warnings,
            complete: false,
            asked,
            runs: Vec::new(),
        }
    }

    /// Writes it as JSON.
    ///
    /// # Errors
    /// The writer's.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        out.write_all(b"\n")
    }
}
