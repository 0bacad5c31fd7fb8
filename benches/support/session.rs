//! One invocation of a bench: its runtime, the targets it needs, its record and its end.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use redis_client_bench::drivers::Topology;
use redis_client_bench::interrupt::{EXIT_INTERRUPTED, Graceful, interrupted};
use redis_client_bench::measure::{self, Environment};
use redis_client_bench::plan::{BenchConfig, Group, PlannedCell};
use redis_client_bench::record::{Outcome, Record, Row, RuntimeFlavour, Timed};
use redis_client_bench::report;
use redis_client_bench::target::audit::Auditor;
use redis_client_bench::target::{Kind, Layout, Target, TargetArgs, TargetError, TargetSpec, provide};
use redis_client_bench::workload::{self, Load, Runner};
use tokio::runtime::Runtime;

use super::args::{self, Mode};

/// The longest that removing keys and saving may take when the process is asked to end.
const LONGEST_END: Duration = Duration::from_secs(5);

/// The keyspace of every cell: the same keys for all, so that a cluster spreads them alike.
const KEYS: &str = "bench";

/// A target in use, with the connections that audit it.
struct InUse {
    topology: Topology,
    target: Target,
    auditor: Auditor,
}

/// A connected cell.
pub struct Open {
    runner: Box<dyn Runner>,
    load: Load,
}

pub struct Session {
    config: BenchConfig,
    mode: Mode,
    runtime: Runtime,
    spec: TargetSpec,
    /// The one target in use; a group with another topology replaces it.
    in_use: Option<InUse>,
    /// Topologies that can't be had, with the reason.
    missing: Vec<(Topology, Outcome)>,
    record: Record,
    path: PathBuf,
    /// What ends the session: its exit code.
    fatal: Option<u8>,
    /// Registered after each target, so that on Ctrl-C it comes first and the servers are still there.
    graceful: Option<Graceful>,
}

impl Session {
    /// Checks what can be checked without starting anything.
    pub fn start(bench: &str, config: BenchConfig, mode: Mode) -> Result<Self, TargetError> {
        let mut spec = target_from_environment()?.spec()?;
        spec.resp = config.connection.resp;
        let runtime = config.runtime();
        let mut builder = match runtime.flavour {
            RuntimeFlavour::MultiThread => tokio::runtime::Builder::new_multi_thread(),
            RuntimeFlavour::CurrentThread => tokio::runtime::Builder::new_current_thread(),
        };
        let built = builder.worker_threads(runtime.workers).enable_all().build();
        let environment = Environment::read();
        let mut record = Record::new(&format!("bench {bench}"), environment);
        record.warnings = measure::warnings(&record.environment);
        record.warnings.extend(config.left_out());
        let path = results_folder().join(format!("{bench}-{}.json", record.created.replace(':', "")));
        Ok(Self {
            config,
            mode,
            runtime: built.map_err(|error| TargetError::Usage(format!("no tokio runtime: {error}")))?,
            spec,
            in_use: None,
            missing: Vec::new(),
            record,
            path,
            fatal: None,
            graceful: None,
        })
    }

    pub fn mode(&self) -> Mode {
        match self.mode {
            Mode::Measure { samples: usize::MAX } => Mode::Measure { samples: self.config.timing.samples },
            mode => mode,
        }
    }

    /// Whether nothing more should be started.
    pub fn gave_up(&self) -> bool {
        self.fatal.is_some() || interrupted()
    }

    /// The target of `topology`, provided when it is first needed.
    fn target(&mut self, topology: Topology) -> Result<(), Outcome> {
        if let Some((_, outcome)) = self.missing.iter().find(|(missing, _)| *missing == topology) {
            return Err(outcome.clone());
        }
        if self.in_use.as_ref().is_none_or(|in_use| in_use.topology != topology) {
            if let Some(old) = self.in_use.take() {
                self.runtime.block_on(old.target.shutdown());
            }
            let mut spec = self.spec.clone();
            spec.layout = Some(match topology {
                Topology::Standalone => Layout::Standalone,
                Topology::Cluster => match spec.layout {
                    Some(shape @ Layout::Cluster { .. }) => shape,
                    _ => self.config.cluster.shape,
                },
            });
            let deadline = self.config.deadline();
            let provided: Result<InUse, TargetError> = self.runtime.block_on(async {
                let target = provide(&spec).await?;
                let nodes = target.nodes.iter().map(|node| (node.role, node.endpoint.clone()));
                let connecting = tokio::time::timeout(deadline, Auditor::connect(nodes)).await;
                let connecting = connecting.map_err(|_| TargetError::Usage(format!("no connection for the audit within {deadline:?}")))?;
                let auditor = connecting.map_err(|error| TargetError::Usage(error.to_string()))?;
                Ok(InUse { topology, target, auditor })
            });
            match provided {
                Ok(in_use) => {
                    eprintln!("target: {}", in_use.target);
                    let facts = in_use.target.facts();
                    let first = if self.record.targets.is_empty() { &self.record.warnings[..] } else { &[] };
                    for warning in first.iter().chain(&facts.warnings) {
                        eprintln!("warning: {warning}");
                    }
                    self.record.targets.push(facts);
                    self.in_use = Some(in_use);
                    // A run is given up when interrupted, and the session then ends as always, only earlier: it removes its
                    // keys, saves its record and prints its table.
                    self.graceful = Some(Graceful::register("interrupted; removing keys and saving what was measured", LONGEST_END));
                }
                Err(error) => {
                    let reason = error.to_string();
                    // A URL is of one topology: cells of the other can't be had there. Anything else ends the session.
                    let outcome = if spec.kind == Kind::Url && matches!(error, TargetError::WrongTopology { .. }) {
                        eprintln!("left out: the {topology} groups, since {reason}");
                        Outcome::Unsupported { reason }
                    } else {
                        self.fatal = Some(2);
                        eprintln!("error: {reason}");
                        Outcome::Failed { reason }
                    };
                    self.missing.push((topology, outcome.clone()));
                    return Err(outcome);
                }
            }
        }
        Ok(())
    }

    /// Connects a cell, writes its keyspace and verifies it.
    pub fn open(&mut self, group: &Group, cell: &PlannedCell) -> Result<Open, Outcome> {
        let deadline = self.config.deadline();
        self.target(group.topology)?;
        measure::reset_peak_memory();
        let failed = |reason: String| Outcome::Failed { reason };
        let (Some(in_use), runtime) = (&self.in_use, &self.runtime) else { return Err(failed("no target".into())) };
        let (name, servers) = (cell.driver.name, &in_use.target.servers);
        let opening = match cell.cell.cached {
            None => workload::open(name, servers, &cell.settings, &cell.workload, KEYS),
            Some(reads) => workload::cached::open(name, servers, &cell.settings, &cell.workload, reads, KEYS),
        };
        let opening = opening.map_err(|error| failed(error.to_string()))?;
        let connected = runtime.block_on(async { tokio::time::timeout(deadline, opening).await });
        let runner = match connected {
            Ok(Ok(runner)) => runner,
            Ok(Err(error)) => return Err(failed(format!("can't connect: {error}"))),
            Err(_) => return Err(failed(format!("can't connect within {deadline:?}"))),
        };
        let prepared = runtime.block_on(async { tokio::time::timeout(deadline, runner.prepare()).await });
        let load = Load { operations: 0, callers: cell.callers, checkout: cell.driver.checkout, deadline };
        let open = Open { runner, load };
        match prepared {
            Ok(Ok(())) => Ok(open),
            Ok(Err(error)) => {
                self.close(open);
                Err(failed(format!("verification failed: {error}")))
            }
            Err(_) => {
                self.close(open);
                Err(failed(format!("verification did not end within {deadline:?}")))
            }
        }
    }

    /// One timed and audited run.
    pub fn timed(&mut self, open: &mut Open, operations: u64) -> Result<Timed, String> {
        let Some(in_use) = &mut self.in_use else { return Err("no target".into()) };
        let load = Load { operations, ..open.load };
        let before = open.runner.flushes();
        let run = self.runtime.block_on(open.runner.run(&load, &mut in_use.auditor)).map_err(|failure| failure.to_string())?;
        let flushes = open.runner.flushes().zip(before).map(|(after, before)| after - before);
        Ok(Timed { run, flushes })
    }

    /// Removes the cell's keys and closes its connections; returns the peak of memory.
    pub fn close(&mut self, open: Open) -> Option<u64> {
        let peak = measure::peak_memory();
        let closing = async { tokio::time::timeout(LONGEST_END, open.runner.close()).await };
        // A server that is gone has no keys to remove, and the failed row says so already.
        let _ = self.runtime.block_on(closing);
        peak
    }

    pub fn push(&mut self, cell: &PlannedCell, outcome: Outcome) {
        if let Outcome::Failed { reason } = &outcome {
            eprintln!("FAILED {}: {reason}", cell.cell.name());
        }
        self.record.rows.push(Row::new(cell.cell.clone(), outcome));
        self.save();
    }

    /// Removes what an earlier invocation left as Criterion's newest estimate of a cell that has none now.
    pub fn forget_estimate(&self, group: &str, function: &str, parameter: &str) {
        forget_estimate(group, function, parameter);
    }

    /// Ends the target, saves the record and prints the table.
    pub fn finish(mut self) -> ExitCode {
        if let Some(in_use) = self.in_use.take() {
            self.runtime.block_on(in_use.target.shutdown());
        }
        let code = self.report();
        // Whoever waits for the end of this session may go on.
        self.graceful = None;
        ExitCode::from(code)
    }

    /// Saves the record so far under its time and as the newest; false when that failed, which is printed.
    fn save(&self) -> bool {
        if !matches!(self.mode, Mode::Measure { .. }) {
            return true;
        }
        let newest = self.path.with_file_name(format!("{}.json", self.record.made_by.trim_start_matches("bench ")));
        match self.record.save(&self.path).and_then(|()| self.record.save(&newest)) {
            Ok(()) => true,
            Err(error) => {
                eprintln!("error: the record could not be saved to {}: {error}", self.path.display());
                false
            }
        }
    }

    fn report(&mut self) -> u8 {
        let record = &mut self.record;
        record.complete = self.fatal.is_none() && !interrupted();
        let usual = if interrupted() { EXIT_INTERRUPTED as u8 } else { self.fatal.unwrap_or(0) };
        if record.rows.is_empty() {
            if usual == 0 && self.mode != Mode::Other {
                eprintln!("no cell was run: no name of --list fits the filter, or no driver can hold the connections asked for");
                record.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
            }
            return usual;
        }
        println!("\n{}", report::table(record));
        let saved = self.save();
        if matches!(self.mode, Mode::Measure { .. }) {
            println!("\nrecord: {}", self.path.display());
        }
        if !saved {
            return 1;
        }
        let record = &self.record;
        let failures = record.failures().count();
        if failures > 0 {
            eprintln!("{failures} of {} cells failed", record.rows.len());
        }
        if usual == 0 { u8::from(failures > 0) } else { usual }
    }
}

/// Removes what an earlier invocation left as Criterion's newest estimate of a cell that has none now.
pub(super) fn forget_estimate(group: &str, function: &str, parameter: &str) {
    let home = std::env::var_os("CRITERION_HOME").map_or_else(|| target_folder().join("criterion"), PathBuf::from);
    let cell = home.join(group).join(function).join(parameter);
    // A baseline that is only compared with is left alone.
    let saved = args::save_baseline();
    for folder in ["new", "report", saved.as_str()] {
        // Nothing to remove is fine.
        let _ = std::fs::remove_dir_all(cell.join(folder));
    }
}

/// The target that the environment variables ask for, read by the same rules as the flags of `rcb`.
pub(super) fn target_from_environment() -> Result<TargetArgs, TargetError> {
    #[derive(clap::Parser)]
    struct Environment {
        #[command(flatten)]
        target: TargetArgs,
    }
    let parsed = <Environment as clap::Parser>::try_parse_from(["bench"]);
    parsed.map(|environment| environment.target).map_err(|error| TargetError::Usage(error.to_string().trim_end().to_owned()))
}

/// Cargo's target folder, in which this program lies.
fn target_folder() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let marked = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    marked.map_or_else(|| PathBuf::from("target"), PathBuf::from)
}

/// Where records go: `rcb` in the target folder, unless `RCB_RESULTS` names another folder.
pub(super) fn results_folder() -> PathBuf {
    std::env::var_os("RCB_RESULTS").map_or_else(|| target_folder().join("rcb"), PathBuf::from)
}
