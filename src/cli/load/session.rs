//! The runs of one invocation: every driver once a round, in shuffled order, each on a fresh connection, runtime and keyspace.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use tokio::runtime::{Builder, Runtime};

use super::caching::Way;
use super::client::{Client, Done};
use super::live::Live;
use super::outputs::HdrLog;
use super::plan::{Plan, Subject, Workload};
use crate::cli::limits::within;
use crate::cli::{Failure, print};
use crate::drivers::Error;
use crate::interrupt::interrupted;
use crate::measure::clock::nanos;
use crate::measure::{Latency, peak_memory, reset_peak_memory};
use crate::record::load::{ClientUsage, Distribution, EntryFigures, Figures, LoadRecord, LoadRun, Plan as Kept, Status};
use crate::record::{CellSettings, RuntimeFlavour};
use crate::report;
use crate::target::Target;
use crate::target::audit::{Auditor, ServerUsage};
use crate::window::Flushes;
use crate::workload::cache;
use crate::workload::load::engine::{Ended, Outcome};
use crate::workload::load::keyspace::Keyspace;
use crate::workload::load::ticker::Observer;

/// Longest that connecting, an INFO or closing may take.
const LONGEST_STEP: Duration = Duration::from_secs(15);
/// Longest that writing or removing all keys may take.
const LONGEST_FILL: Duration = Duration::from_secs(600);

pub struct Session<'a> {
    control: &'a Runtime,
    target: &'a Target,
    plan: &'a Plan,
    record: LoadRecord,
    keyspace: Keyspace,
    auditor: Auditor,
    /// Written by the observer of a run, when a log is wanted.
    log: Option<Arc<Mutex<HdrLog>>>,
}

/// A run that gave no figures.
struct NoRun(Status, String);

impl NoRun {
    fn failed(reason: impl ToString) -> Self {
        Self(if interrupted() { Status::Interrupted } else { Status::Failed }, reason.to_string())
    }
}

/// What is known when a run has ended.
struct Ran {
    done: Done,
    server: ServerUsage,
    audit: crate::target::audit::Audit,
    flushes: Option<Flushes>,
    peak_memory: Option<u64>,
}

impl<'a> Session<'a> {
    pub fn new(control: &'a Runtime, target: &'a Target, plan: &'a Plan, record: LoadRecord, log: Option<HdrLog>) -> Result<Self, String> {
        let nodes = target.nodes.iter().map(|node| (node.role, node.endpoint.clone()));
        let connecting = within(LONGEST_STEP, "no connection for the audit", Auditor::connect(nodes));
        let (keyspace, auditor) = (Keyspace::new(target), control.block_on(connecting)?);
        Ok(Self { control, target, plan, record, keyspace, auditor, log: log.map(|log| Arc::new(Mutex::new(log))) })
    }

    /// Commands that the server does not know are the user's mistake.
    pub fn check_commands(&self) -> Result<(), Failure> {
        for workload in &self.plan.workloads {
            let asking = within(LONGEST_STEP, "the commands could not be checked", self.keyspace.refused(&workload.mix));
            if let Some((entry, error)) = self.control.block_on(asking).map_err(Failure::Measurement)? {
                let label = &workload.mix.entries()[entry].label;
                return Err(Failure::Usage(format!("the server does not take `{label}`: {error}")));
            }
        }
        Ok(())
    }

    pub fn run_all(&mut self) {
        let mut random = StdRng::seed_from_u64(self.plan.job.seed);
        let plan = self.plan;
        for round in 1..=plan.rounds {
            for workload in &plan.workloads {
                let mut order: Vec<&Subject> = plan.subjects.iter().collect();
                order.shuffle(&mut random);
                for subject in order {
                    if interrupted() {
                        return;
                    }
                    self.run_one(workload, subject, round);
                }
            }
        }
    }

    fn run_one(&mut self, workload: &Workload, subject: &Subject, round: usize) {
        let plan = self.plan;
        let driver = subject.driver;
        let cached = match subject.way {
            Way::Plain => None,
            Way::Cached => Some(true),
            Way::Uncached => Some(false),
        };
        tell!("\n{}", report::load::heading(driver, cached, subject.settings.connections.get(), &workload.name, &plan.asked, round));
        let ran = match &subject.unsupported {
            Some(reason) => Err(NoRun(Status::Unsupported, reason.clone())),
            None => self.execute(workload, subject),
        };
        let mut run = LoadRun {
            workload: workload.name.clone(),
            round,
            driver: driver.name.to_owned(),
            cached,
            client: driver.client.to_owned(),
            client_version: driver.version().to_owned(),
            settings: CellSettings::new(driver, &subject.settings, self.target.topology()),
            runtime: plan.runtime,
            status: Status::Done,
            reason: None,
            figures: None,
            rate: None,
        };
        match ran {
            Ok(ran) => {
                (run.status, run.reason) = status(ran.done.outcome(), plan.job.patience);
                let figures = figures(workload, ran);
                run.rate = Some(figures.rate());
                run.figures = Some(Box::new(figures));
            }
            Err(NoRun(status, reason)) => {
                run.status = status;
                run.reason = Some(reason);
            }
        }
        print(&report::load::summary(&run, &plan.asked));
        self.record.runs.push(run);
    }

    fn execute(&mut self, workload: &Workload, subject: &Subject) -> Result<Ran, NoRun> {
        let (plan, mix) = (self.plan, &workload.mix);
        self.control
            .block_on(async {
                within(LONGEST_FILL, "the keys could not be removed", self.keyspace.clear(mix)).await?;
                if plan.caching.is_some() {
                    within(LONGEST_FILL, "the probes' keys could not be removed", self.keyspace.remove(cache::keys())).await?;
                    within(LONGEST_FILL, "the keys could not be written", self.keyspace.write(cache::prefill(mix))).await?;
                } else if workload.prefill {
                    within(LONGEST_FILL, "the keys could not be written", self.keyspace.prefill(mix)).await?;
                }
                Ok::<_, String>(())
            })
            .map_err(NoRun::failed)?;
        reset_peak_memory();
        let runtime = self.runtime().map_err(NoRun::failed)?;
        let opening = Client::open(plan, &self.target.servers, subject, workload);
        let client = runtime.block_on(within(LONGEST_STEP, "can't connect", opening)).map_err(NoRun::failed)?;
        let ran = self.measure(&runtime, &client, workload, subject);
        let closing = async { tokio::time::timeout(LONGEST_STEP, client.close()).await };
        // A client that does not close is left to the end of its runtime.
        let _ = runtime.block_on(closing);
        runtime.shutdown_timeout(Duration::from_secs(1));
        ran
    }

    fn measure(&mut self, runtime: &Runtime, client: &Client, workload: &Workload, subject: &Subject) -> Result<Ran, NoRun> {
        let (plan, mix) = (self.plan, &workload.mix);
        let threads = plan.runtime.workers;
        if let Some(warm_up) = plan.warm_up() {
            let warmed = runtime.block_on(client.run(mix, &warm_up, threads, Box::new(|_| {}))).map_err(unsupported)?;
            let warmed = warmed.outcome();
            if let Some(first) = warmed.errors.first().filter(|_| !plan.job.continue_on_error) {
                return Err(NoRun::failed(format!("the warm-up failed: {}", first.first)));
            }
            match warmed.ended {
                Ended::Stalled => return Err(NoRun::failed(format!("no reply within {:?} in the warm-up", plan.job.patience))),
                Ended::Interrupted => return Err(NoRun(Status::Interrupted, "interrupted in the warm-up".to_owned())),
                Ended::Done | Ended::OnError => {}
            }
        }
        let auditor = &mut self.auditor;
        let before = self.control.block_on(within(LONGEST_STEP, "no audit", auditor.before())).map_err(NoRun::failed)?;
        let flushed = client.flushes();
        let observer = observer(Live::start(&plan.job, client.counter()), self.log.clone());
        let done = runtime.block_on(client.run(mix, &plan.job, threads, observer)).map_err(unsupported)?;
        let flushes = client.flushes().zip(flushed).map(|(after, before)| after - before);
        let peak_memory = peak_memory();
        // Also after an interruption: the exact count is what it ends with.
        let auditor = &mut self.auditor;
        let after = self.control.block_on(async { tokio::time::timeout(LONGEST_STEP, auditor.after()).await });
        let after = after.map_err(|_| NoRun::failed("no audit: a server did not answer INFO"))?;
        let read = after.and_then(|after| Ok((self.auditor.usage(&before, &after)?, self.auditor.masters())));
        let (server, audit) = match read {
            Ok((server, masters)) => {
                let audit = server.audit(&done.expected(mix, &plan.job, subject.driver, masters));
                (server, audit)
            }
            Err(error) => {
                let deviations = vec![format!("the servers' counters could not be read: {error}")];
                (ServerUsage::default(), crate::target::audit::Audit { deviations, ..Default::default() })
            }
        };
        Ok(Ran { done, server, audit, flushes, peak_memory })
    }

    fn runtime(&self) -> Result<Runtime, String> {
        let mut builder = match self.plan.runtime.flavour {
            RuntimeFlavour::CurrentThread => Builder::new_current_thread(),
            RuntimeFlavour::MultiThread => Builder::new_multi_thread(),
        };
        builder.worker_threads(self.plan.runtime.workers).enable_all().build().map_err(|error| format!("no tokio runtime: {error}"))
    }

    /// The record, with the log, and what is left to be removed.
    pub fn into_parts(self) -> (LoadRecord, Option<HdrLog>, Cleaning<'a>) {
        let Session { control, plan, record, keyspace, target, log, .. } = self;
        // Every observer is gone.
        let log = log.and_then(Arc::into_inner).map(|log| log.into_inner().unwrap_or_else(PoisonError::into_inner));
        (record, log, Cleaning { control, target, plan, keyspace })
    }
}

/// The keys of a session, still there.
pub struct Cleaning<'a> {
    control: &'a Runtime,
    target: &'a Target,
    plan: &'a Plan,
    keyspace: Keyspace,
}

impl Cleaning<'_> {
    /// Removes them from a server that is not ours.
    pub fn run(self) {
        let Cleaning { control, target, plan, keyspace } = self;
        control.block_on(async {
            if !target.is_ours() {
                for workload in &plan.workloads {
                    let removing = async {
                        keyspace.clear(&workload.mix).await?;
                        if plan.caching.is_some() { keyspace.remove(cache::keys()).await } else { Ok(()) }
                    };
                    let removing = tokio::time::timeout(LONGEST_FILL, removing);
                    if let Err(error) = removing.await.unwrap_or_else(|_| Err(Error::timed_out(LONGEST_FILL))) {
                        tell!("warning: keys under rcb:load: are left on the server: {error}");
                    }
                }
            }
        });
    }
}

fn unsupported(error: Error) -> NoRun {
    match error {
        Error::Unsupported(_) => NoRun(Status::Unsupported, error.to_string()),
        other => NoRun::failed(other),
    }
}

fn observer(mut live: Live, log: Option<Arc<Mutex<HdrLog>>>) -> Observer {
    let locked = |log: &Arc<Mutex<HdrLog>>, work: &dyn Fn(&mut HdrLog)| work(&mut log.lock().unwrap_or_else(PoisonError::into_inner));
    if let Some(log) = &log {
        locked(log, &HdrLog::begin);
    }
    Box::new(move |tick| {
        live.tick(tick);
        if let Some(log) = &log {
            let planned = &tick.counts.planned;
            let latencies = if planned.is_empty() { &tick.counts.service } else { planned };
            locked(log, &|log| log.add(tick.second.from, tick.second.to, latencies));
        }
    })
}

fn status(outcome: &Outcome, patience: Duration) -> (Status, Option<String>) {
    let first = || outcome.errors.first().map(|error| error.first.clone());
    match outcome.ended {
        Ended::Done => (Status::Done, None),
        Ended::OnError => (Status::Error, first()),
        Ended::Interrupted => (Status::Interrupted, Some("interrupted".to_owned())),
        Ended::Stalled => (Status::Stalled, Some(format!("no reply within {patience:?}; {} commands got none", outcome.unanswered))),
    }
}

fn figures(workload: &Workload, ran: Ran) -> Figures {
    let Ran { done, server, audit, flushes, peak_memory } = ran;
    let (outcome, cache) = done.into_parts();
    let total = outcome.total.total();
    let entries = workload.mix.entries().iter().zip(&outcome.total.0).map(|(entry, counts)| EntryFigures {
        command: entry.label.clone(),
        ratio: entry.ratio,
        commands: counts.done,
        errors: counts.failed,
        service: Distribution::of(&counts.service),
        planned: Distribution::of(&counts.planned),
    });
    let entries = entries.collect();
    let plan = outcome.kept.map(|kept| Kept {
        offered: kept.offered,
        offered_rate: kept.offered as f64 / kept.span.as_secs_f64().max(1e-9),
        sent: kept.sent,
        dropped: kept.offered.saturating_sub(kept.sent),
        backlog: kept.backlog,
        overloaded: kept.overloaded(),
        lateness: Latency::of(&kept.lateness),
        pacer_cpu_ns: nanos(kept.pacer_cpu),
    });
    Figures {
        duration: outcome.elapsed.as_secs_f64(),
        commands: total.done,
        errors: total.failed + outcome.abandoned,
        unanswered: outcome.unanswered,
        errors_by_kind: outcome.errors,
        plan,
        service: Distribution::of(&total.service),
        planned: Distribution::of(&total.planned),
        entries,
        seconds: outcome.seconds,
        client: ClientUsage {
            user_ns: nanos(outcome.client.user),
            system_ns: nanos(outcome.client.system),
            allocations: outcome.client.allocations.map(|allocations| allocations.count),
            allocated_bytes: outcome.client.allocations.map(|allocations| allocations.bytes),
            peak_memory,
        },
        server,
        audit,
        flushes,
        cache: cache.map(Box::new),
    }
}
