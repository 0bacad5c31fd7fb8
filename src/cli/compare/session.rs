//! The rounds of one session: every subject once a round in drawn order, each observation a process of its own.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::runtime::Runtime;

use super::pin;
use super::plan::{Contender, Plan};
use crate::cli::limits::within;
use crate::compare::{MINIMUM_ROUNDS, Orders};
use crate::drivers::raw::Raw;
use crate::drivers::{Driver, Settings};
use crate::interrupt::{interrupted, wait};
use crate::measure::clock::nanos;
use crate::record::comparison::{ComparisonRecord, LeftOut, Round, Turn, What, WorkloadPlan};
use crate::target::Target;
use crate::target::audit::Auditor;
use crate::worker::protocol::{self, OperationRequest, Request, ServersRequest, WorkloadRequest};
use crate::worker::{Failure, observe};
use crate::workload::commands::{self, Keyspace, PREFIX};
use crate::workload::pubsub::account::fresh_run;

/// Longest that writing or removing the keys of a workload may take.
const LONGEST_FILL: Duration = Duration::from_secs(60);
/// A subject that failed so often in a row, and never gave figures, is not tried again.
const ATTEMPTS: usize = 3;
/// How often progress is told.
const TOLD_EVERY: Duration = Duration::from_secs(5);

/// Who has a turn: a subject, or the subject under its second name.
type Place = (usize, bool);

/// A workload that is still measured.
struct Active {
    plan: WorkloadPlan,
    operation: OperationRequest,
    keyspace: Option<std::sync::Arc<Keyspace>>,
    places: Vec<Place>,
    orders: Orders,
}

pub struct Session<'a> {
    control: &'a Runtime,
    target: &'a Target,
    contenders: Vec<Option<Contender>>,
    older: Option<ComparisonRecord>,
    auditor: Auditor,
    active: Vec<Active>,
    raw: Raw,
    pub record: ComparisonRecord,
    path: PathBuf,
    /// Why the record could not be saved the last time.
    pub unsaved: Option<String>,
}

impl<'a> Session<'a> {
    /// Connects for the audit and writes the keys of every workload.
    pub fn new(control: &'a Runtime, target: &'a Target, plan: Plan, mut record: ComparisonRecord, path: PathBuf) -> Result<Self, String> {
        let Plan { contenders, older, .. } = plan;
        for (place, contender) in contenders.iter().enumerate() {
            let known = record.left_out.iter().any(|left_out| left_out.subject == place && left_out.workload.is_none());
            if let (Some(Contender { program: Err(reason), .. }), false) = (contender, known) {
                record.left_out.push(LeftOut { subject: place, workload: None, unsupported: false, reason: reason.clone() });
            }
        }
        let nodes = target.nodes.iter().map(|node| (node.role, node.endpoint.clone()));
        let auditor = control.block_on(within(LONGEST_FILL, "no connection for the audit", Auditor::connect(nodes)))?;
        let raw = control.block_on(within(LONGEST_FILL, "no connection", Raw::connect(&target.servers, &Settings::default())))?;
        // Its own, so that two sessions on one server do not disturb each other.
        let run = fresh_run();
        let mut session = Self { control, target, contenders, older, auditor, active: Vec::new(), raw, record, path, unsaved: None };
        for workload in session.record.workloads.clone() {
            let places = session.places(&workload.name);
            if !places.is_empty() {
                let active = Active::new(workload, run, session.record.asked.seed, places, &session.record);
                if let Some(keyspace) = &active.keyspace {
                    control.block_on(within(LONGEST_FILL, "the keys could not be written", keyspace.prepare(&session.raw)))?;
                }
                session.active.push(active);
            }
        }
        Ok(session)
    }

    /// Who takes part in a workload: nobody when there is no baseline, or nobody to compare with it.
    fn places(&self, workload: &str) -> Vec<Place> {
        let left_out = |subject: usize| {
            self.record
                .left_out
                .iter()
                .any(|left_out| left_out.subject == subject && left_out.workload.as_deref().is_none_or(|of| of == workload))
        };
        if let Some(older) = &self.older {
            let enough = self.record.rounds_of(workload).count() >= older.rounds_of(workload).count();
            // With a control, so that this session can be a baseline itself.
            return if left_out(1) || enough { Vec::new() } else { vec![(1, false), (1, true)] };
        }
        let candidates: Vec<Place> =
            (1..self.record.subjects.len()).filter(|subject| !left_out(*subject)).map(|subject| (subject, false)).collect();
        if left_out(0) || candidates.is_empty() { Vec::new() } else { [vec![(0, false), (0, true)], candidates].concat() }
    }

    /// Rounds until everything is decided, the time is up, or Ctrl-C.
    pub fn run(&mut self) {
        let all = self.record.asked.max_time_ns.saturating_mul(self.record.workloads.len() as u64).max(1);
        let mut told = Instant::now();
        while !interrupted() && !self.active.is_empty() {
            let begun = Instant::now();
            for index in 0..self.active.len() {
                if !self.round(index) {
                    return self.save();
                }
            }
            self.drop_left_out();
            let used = begun.elapsed();
            self.record.progress.used_ns += nanos(used);
            let share = self.record.progress.used_ns as f64 / all as f64;
            if told.elapsed() >= TOLD_EVERY {
                told = Instant::now();
                tell!("{} rounds, {:.0} % of the time", self.fewest_rounds(), share.min(1.0) * 100.0);
            }
            if (self.older.is_none() && self.look(share)) || share >= 1.0 {
                break;
            }
            self.save();
        }
        if !interrupted() {
            // What was not looked at yet is looked at now, for the last time.
            self.look(1.0);
            self.record.complete = true;
        }
        self.save();
    }

    fn fewest_rounds(&self) -> usize {
        self.active.iter().map(|active| self.record.rounds_of(&active.plan.name).count()).min().unwrap_or(0)
    }

    /// Looks at the rounds if a look is due; whether the session is over then.
    fn look(&mut self, share: f64) -> bool {
        let rounds = self.fewest_rounds();
        let Some(look) = self.record.progress.spending.after_round(share, rounds) else { return false };
        let judged = self.record.judge(look);
        let undecided = judged.answers.iter().filter(|answer| !answer.analysis.verdict.decided()).count();
        let over = undecided == 0 && !judged.answers.is_empty();
        if !look.last {
            tell!("look after {rounds} rounds (at least {MINIMUM_ROUNDS}): {undecided} of {} questions are open", judged.answers.len());
        }
        self.record.judged = Some(judged);
        over || look.last
    }

    /// One round of a workload; false when it was given up for Ctrl-C.
    fn round(&mut self, index: usize) -> bool {
        let Some(order) = self.active[index].orders.next() else { return true };
        let mut turns = Vec::with_capacity(order.len());
        let mut unsupported = Vec::new();
        for place in order {
            let (subject, control) = self.active[index].places[place];
            if unsupported.contains(&subject) {
                continue;
            }
            let Some(outcome) = self.observation(index, subject) else { return false };
            let name = &self.active[index].plan.name;
            let (measured, failed) = match outcome {
                Ok(figures) => (Some(figures), None),
                Err(failure) => {
                    tell!("{name}: {}: {failure}", self.record.subjects[subject].name);
                    let reason = match failure {
                        Failure::Failed(reason) => reason,
                        // A statement, not a failed observation.
                        Failure::Unsupported(reason) => {
                            self.record.left_out.push(LeftOut { subject, workload: Some(name.clone()), unsupported: true, reason });
                            unsupported.push(subject);
                            continue;
                        }
                    };
                    (None, Some(reason))
                }
            };
            turns.push(Turn { subject, control, measured, failed });
        }
        if self.older.is_none() && unsupported.contains(&0) {
            // Without its baseline it is no round.
            return true;
        }
        let workload = self.active[index].plan.name.clone();
        if let Some(older) = &self.older {
            let number = self.record.rounds_of(&workload).count();
            turns.extend(older.rounds_of(&workload).nth(number).into_iter().flat_map(|round| round.turns.iter().cloned()));
        }
        self.record.rounds.push(Round { workload, turns });
        true
    }

    /// One observation of a subject; `None` when it was given up for Ctrl-C.
    fn observation(&mut self, index: usize, subject: usize) -> Option<Result<crate::record::comparison::Figures, Failure>> {
        let active = &self.active[index];
        let Some(Contender { subject: wanted, program: Ok(program) }) = &self.contenders[subject] else {
            return Some(Err(Failure::Failed("it has no program".to_owned())));
        };
        let asked = &self.record.asked;
        let request = Request {
            protocol: protocol::PROTOCOL.to_owned(),
            version: protocol::VERSION,
            servers: ServersRequest::of(&self.target.servers),
            driver: wanted.driver.clone(),
            settings: wanted.settings.clone(),
            workload: WorkloadRequest {
                name: active.plan.name.clone(),
                operation: active.operation.clone(),
                callers: active.plan.callers,
                pipeline: active.plan.pipeline,
            },
            time_ns: asked.time_ns,
            warm_up_ns: asked.warm_up_ns,
            patience_ns: asked.patience_ns,
        };
        let cores = asked.pinned.as_ref().map(|pinned| pinned.workers.clone());
        let password = self.target.servers.first().password.as_ref();
        let started = |pid: u32| {
            if let Some(cores) = &cores
                && let Err(reason) = pin::bind(pid, cores)
            {
                tell!("warning: the worker is not bound to its cores: {reason}");
            }
        };
        let observing = async {
            tokio::select! {
                observed = observe(program, &request, password, &mut self.auditor, started) => Some(observed),
                () = wait() => None,
            }
        };
        let observed = self.control.block_on(observing)?;
        // What fails while an interruption is under way fails because of it.
        if interrupted() {
            return None;
        }
        Some(observed.and_then(|observed| {
            let known = &mut self.record.subjects[subject];
            let is = format!("{} {}", observed.ready.client, observed.ready.client_version);
            if !known.client.is_empty() && known.client_version() != is {
                return Err(Failure::Failed(format!("the worker says that it is {is}, and it was {}", known.client_version())));
            }
            known.client.clone_from(&observed.ready.client);
            known.client_version.clone_from(&observed.ready.client_version);
            known.facts.clone_from(&observed.ready.facts);
            Ok(observed.figures())
        }))
    }

    /// Notes who failed too often, and has no more rounds of whom nobody is left.
    fn drop_left_out(&mut self) {
        for active in &self.active {
            for subject in 0..self.record.subjects.len() {
                let turns = self.record.rounds_of(&active.plan.name).flat_map(|round| &round.turns);
                let mut turns = turns.filter(|turn| turn.subject == subject).peekable();
                let Some(reason) = turns.peek().and_then(|turn| turn.failed.clone()) else { continue };
                let failed: Vec<_> = turns.map(|turn| turn.failed.is_some()).collect();
                let known =
                    self.record.left_out.iter().any(|left_out| {
                        left_out.subject == subject && left_out.workload.as_deref().is_none_or(|of| of == active.plan.name)
                    });
                if !known && failed.len() >= ATTEMPTS && failed.iter().all(|failed| *failed) {
                    let reason = format!("given up after {} failures: {reason}", failed.len());
                    let workload = Some(active.plan.name.clone());
                    self.record.left_out.push(LeftOut { subject, workload, unsupported: false, reason });
                }
            }
        }
        for mut active in std::mem::take(&mut self.active) {
            let places = self.places(&active.plan.name);
            if places != active.places {
                active.orders = Orders::new(places.len(), self.record.asked.seed ^ places.len() as u64);
                active.places = places;
            }
            if active.places.is_empty() {
                self.remove(&active);
            } else {
                self.active.push(active);
            }
        }
    }

    fn remove(&self, active: &Active) {
        let Some(keyspace) = &active.keyspace else { return };
        let removing = async { tokio::time::timeout(LONGEST_FILL, keyspace.remove(&self.raw)).await };
        match self.control.block_on(removing) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tell!("warning: the keys of {} could not be removed: {error}", active.plan.name),
            Err(_) => tell!("warning: the keys of {} could not be removed within {LONGEST_FILL:?}", active.plan.name),
        }
    }

    /// Saves the record; a failure is kept, and told once.
    pub fn save(&mut self) {
        match self.record.save(&self.path) {
            Ok(()) => self.unsaved = None,
            Err(error) => {
                let reason = format!("can't write {}: {error}", self.path.display());
                if self.unsaved.is_none() {
                    tell!("error: {reason}");
                }
                self.unsaved = Some(reason);
            }
        }
    }

    /// Removes the keys and closes the connections.
    pub fn end(mut self) -> ComparisonRecord {
        for active in std::mem::take(&mut self.active) {
            self.remove(&active);
        }
        self.control.block_on(self.raw.close());
        self.record
    }
}

impl Active {
    fn new(plan: WorkloadPlan, run: u64, seed: u64, places: Vec<Place>, record: &ComparisonRecord) -> Self {
        let number = record.workloads.iter().position(|workload| workload.name == plan.name).unwrap_or(0) as u64;
        let mut orders = Orders::new(places.len(), seed.wrapping_add(number));
        // The orders of the rounds that are there already.
        let had = record.rounds_of(&plan.name).filter(|round| round.turns.len() >= places.len()).count();
        orders.by_ref().take(had).for_each(drop);
        let (operation, keyspace) = operation(&plan, &format!("{PREFIX}compare-{run:016x}:{}:", plan.name));
        Self { plan, operation, keyspace, places, orders }
    }
}

/// What workers are told, and the keys that must be there for it.
fn operation(plan: &WorkloadPlan, key_prefix: &str) -> (OperationRequest, Option<std::sync::Arc<Keyspace>>) {
    let (keys, key_prefix) = (plan.keys, key_prefix.to_owned());
    let keyspace = |operation, payload, fields| {
        // The bytes of the benches.
        let workload = commands::Workload { operation, payload, fields, keys };
        let value = Keyspace::new(&workload, "").value().to_vec();
        (STANDARD.encode(&value), Keyspace::given(&workload, &key_prefix, value))
    };
    match plan.command {
        What::Get => {
            let (value, keyspace) = keyspace(commands::Operation::Get, plan.payload, 0);
            (OperationRequest::Get { key_prefix, keys, value }, Some(keyspace))
        }
        What::Set => {
            let (value, keyspace) = keyspace(commands::Operation::Set, plan.payload, 0);
            (OperationRequest::Set { key_prefix, keys, value }, Some(keyspace))
        }
        What::Hkeys => {
            let (_, keyspace) = keyspace(commands::Operation::Hkeys, 0, plan.fields);
            (OperationRequest::Hkeys { key_prefix, keys, fields: plan.fields }, Some(keyspace))
        }
        What::Receive => (OperationRequest::Receive { channel: key_prefix, payload: plan.payload, batch: plan.batch }, None),
    }
}
