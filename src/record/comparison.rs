//! The record of `rcb compare`: every observation of every round, with what was asked and what it was judged to be.
//! `docs/FORMAT.md` describes the file.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{BadRecord, read, timestamp};
use crate::compare::{self, Analysis, Comparison, Family, Look, Metric, Observation, Session, Spending};
use crate::measure::Environment;
use crate::target::TargetFacts;
use crate::worker::protocol::SettingsRequest;

/// Marks a file as a record of a comparison.
pub const COMPARISON_FORMAT: &str = "redis-client-bench/comparison";
/// Version of the format.
pub const COMPARISON_VERSION: u32 = 1;

/// One session of `rcb compare`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparisonRecord {
    /// [`COMPARISON_FORMAT`].
    pub format: String,
    /// [`COMPARISON_VERSION`].
    pub version: u32,
    /// Start, RFC 3339 in UTC.
    pub created: String,
    /// The machine, the build and how busy it was.
    pub environment: Environment,
    /// What was measured against.
    pub target: TargetFacts,
    /// What a reader must know about all of it.
    pub warnings: Vec<String>,
    /// False while it runs, and when it was interrupted: `--resume` goes on.
    pub complete: bool,
    /// What was asked for.
    pub asked: Asked,
    /// What was compared: the first is the baseline, each other a candidate.
    pub subjects: Vec<Subject>,
    /// What they did.
    pub workloads: Vec<WorkloadPlan>,
    /// How far it came.
    pub progress: Progress,
    /// What was not, or no longer, measured.
    pub left_out: Vec<LeftOut>,
    /// The verdicts of the last look.
    pub judged: Option<Judged>,
    /// The rounds in the order in which they ran.
    pub rounds: Vec<Round>,
}

/// What holds for the whole session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Decides the order of the subjects in each round.
    pub seed: u64,
    /// Time of one observation, nanoseconds.
    pub time_ns: u64,
    /// Warm-up before each, nanoseconds.
    pub warm_up_ns: u64,
    /// When an operation without a reply was given up, nanoseconds.
    pub patience_ns: u64,
    /// Longest time of the session for each workload, nanoseconds.
    pub max_time_ns: u64,
    /// What verdicts are held to.
    pub verdicts: compare::Settings,
    /// Cores that server and workers were bound to; `None` when they were not.
    pub pinned: Option<Pinned>,
    /// Whether a spinner kept each core from going to sleep.
    pub spinner: bool,
    /// The older session whose observations stand for the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Older>,
}

/// Cores by number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinned {
    /// Of the servers.
    pub server: Vec<usize>,
    /// Of the workers.
    pub workers: Vec<usize>,
}

/// A session of another day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Older {
    /// Its name.
    pub name: String,
    /// When it began.
    pub created: String,
    /// In what it differs from this session, and was compared all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forced: Vec<String>,
}

/// One thing that was compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    /// As typed: `redis@1.8.1:connections=4`.
    pub name: String,
    /// The client, as its worker says; empty before its first observation.
    pub client: String,
    /// Its exact version.
    pub client_version: String,
    /// The driver that was asked for.
    pub driver: String,
    /// How it connects.
    pub settings: SettingsRequest,
    /// What its worker said of itself.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
    /// How its program was made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Subject {
    /// `redis 1.8.1`, or the name until that is known.
    #[must_use]
    pub fn client_version(&self) -> String {
        if self.client.is_empty() { self.name.clone() } else { format!("{} {}", self.client, self.client_version) }
    }
}

/// What an operation of a workload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// `GET`.
    Get,
    /// `SET`.
    Set,
    /// `HKEYS`.
    Hkeys,
    /// Receiving a message.
    Receive,
}

/// A workload as `bench.toml` and the record have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadPlan {
    /// Its name.
    pub name: String,
    /// What an operation is.
    pub command: What,
    /// Tasks that send.
    #[serde(default = "one")]
    pub callers: usize,
    /// Commands of an explicit pipeline; 1 for single ones.
    #[serde(default = "one")]
    pub pipeline: usize,
    /// Bytes of a value or of a message.
    #[serde(default = "usual_payload")]
    pub payload: usize,
    /// Fields of a hash, for `hkeys`.
    #[serde(default = "usual_fields")]
    pub fields: usize,
    /// Keys, used in turn.
    #[serde(default = "usual_keys")]
    pub keys: usize,
    /// Messages in one pipeline of the publisher, for `receive`.
    #[serde(default = "usual_batch")]
    pub batch: u64,
}

fn one() -> usize {
    1
}

fn usual_payload() -> usize {
    64
}

fn usual_fields() -> usize {
    100
}

fn usual_keys() -> usize {
    1000
}

fn usual_batch() -> u64 {
    100
}

/// How far a session came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Time that its rounds took, nanoseconds.
    pub used_ns: u64,
    /// The error that its looks spent.
    pub spending: Spending,
}

/// A subject that a workload has no figures of, or none any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The subject's place in the record.
    pub subject: usize,
    /// The workload; `None` = all of them.
    pub workload: Option<String>,
    /// Whether the client can't do it by its own statement, which is no failure.
    pub unsupported: bool,
    /// Why.
    pub reason: String,
}

/// One round of a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// The workload's name.
    pub workload: String,
    /// The subjects' turns in the order in which they ran.
    pub turns: Vec<Turn>,
}

/// One observation: figures, or a failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// The subject's place in the record.
    pub subject: usize,
    /// The subject under its second name (A/A).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub control: bool,
    /// The figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Figures>,
    /// Why there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// Counts and sums of one observation, and what was read out of its latencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// Operations done.
    pub operations: u64,
    /// From the start of the first to the end of the last, nanoseconds.
    pub elapsed_ns: u64,
    /// CPU time of the worker in user mode, nanoseconds.
    pub user_ns: u64,
    /// CPU time of the worker in the kernel, nanoseconds.
    pub system_ns: u64,
    /// Allocations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocations: Option<u64>,
    /// Bytes of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_bytes: Option<u64>,
    /// Median latency, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<u64>,
    /// 99th percentile of the latency, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<u64>,
    /// Longest latency, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ns: Option<u64>,
    /// Largest resident set of the worker, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory: Option<u64>,
    /// Commands of the work and of checkouts that the servers executed, by their own count.
    pub server_commands: u64,
    /// `read(2)` calls on client sockets of the masters.
    pub server_reads: u64,
    /// CPU time of all servers, nanoseconds.
    pub server_cpu_ns: u64,
    /// What the observation took besides its work, nanoseconds.
    pub overhead_ns: u64,
}

/// What a session was judged to be at its last look.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// What the session's end left of the allowed error for it, and whether it was the last look.
    pub look: Look,
    /// What was corrected together.
    pub family: Family,
    /// Every question with its answer.
    pub answers: Vec<Answer>,
}

/// The answer to one question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The candidate's place in the record.
    pub subject: usize,
    /// The workload, the metric and what was found.
    #[serde(flatten)]
    pub analysis: Analysis,
}

impl Figures {
    /// The metrics of one observation. How messages were published is the harness' doing, so that receiving has no
    /// commands per read.
    #[must_use]
    pub fn metrics(&self, what: What) -> BTreeMap<Metric, f64> {
        let operations = self.operations.max(1) as f64;
        let per_operation = |sum: u64| sum as f64 / operations;
        let depth = (self.server_reads > 0 && what != What::Receive).then(|| self.server_commands as f64 / self.server_reads as f64);
        let metrics = [
            (Metric::Rate, Some(self.operations as f64 * 1e9 / self.elapsed_ns.max(1) as f64)),
            (Metric::P50, self.p50_ns.map(|nanos| nanos as f64)),
            (Metric::P99, self.p99_ns.map(|nanos| nanos as f64)),
            (Metric::ClientCpu, Some(per_operation(self.user_ns + self.system_ns))),
            (Metric::Allocations, self.allocations.map(per_operation)),
            (Metric::AllocatedBytes, self.allocated_bytes.map(per_operation)),
            (Metric::CommandsPerRead, depth),
        ];
        metrics.into_iter().filter_map(|(metric, value)| Some((metric, value?))).collect()
    }
}

impl Turn {
    /// As the statistics take it.
    #[must_use]
    pub fn observation(&self, what: What) -> Observation {
        match (&self.measured, &self.failed) {
            (Some(figures), None) => Observation::Measured(figures.metrics(what)),
            (_, reason) => Observation::Failed(reason.clone().unwrap_or_else(|| "not measured".to_owned())),
        }
    }
}

impl Round {
    /// The turn of a subject.
    #[must_use]
    pub fn turn(&self, subject: usize, control: bool) -> Option<&Turn> {
        self.turns.iter().find(|turn| turn.subject == subject && turn.control == control)
    }
}

/// Stands between a candidate's place and the workload in the names of the statistics' workloads.
const OF: char = '/';

impl ComparisonRecord {
    /// An empty record of now.
    #[must_use]
    pub fn new(environment: Environment, target: TargetFacts, asked: Asked, subjects: Vec<Subject>, workloads: Vec<WorkloadPlan>) -> Self {
        Self {
            format: COMPARISON_FORMAT.to_owned(),
            version: COMPARISON_VERSION,
            created: timestamp(SystemTime::now()),
            environment,
            target,
            warnings: Vec::new(),
            complete: false,
            asked,
            subjects,
            workloads,
            progress: Progress::default(),
            left_out: Vec::new(),
            judged: None,
            rounds: Vec::new(),
        }
    }

    /// The workload called `name`.
    #[must_use]
    pub fn workload(&self, name: &str) -> Option<&WorkloadPlan> {
        self.workloads.iter().find(|workload| workload.name == name)
    }

    /// The rounds of a workload, oldest first.
    pub fn rounds_of<'a>(&'a self, workload: &'a str) -> impl Iterator<Item = &'a Round> {
        self.rounds.iter().filter(move |round| round.workload == workload)
    }

    /// The rounds as the statistics take them: all candidates in one family, each workload of each under a name of its own.
    #[must_use]
    pub fn session(&self) -> Session {
        let mut session = Session::default();
        for round in &self.rounds {
            let Some(what) = self.workload(&round.workload).map(|workload| workload.command) else { continue };
            let (Some(baseline), Some(control)) = (round.turn(0, false), round.turn(0, true)) else { continue };
            for candidate in 1..self.subjects.len() {
                if let Some(turn) = round.turn(candidate, false) {
                    let [baseline, candidate_, control] = [baseline, turn, control].map(|turn| turn.observation(what));
                    let name = format!("{candidate}{OF}{}", round.workload);
                    session.push(&name, compare::Round { baseline, candidate: candidate_, control });
                }
            }
        }
        session
    }

    /// Judges the rounds so far.
    #[must_use]
    pub fn judge(&self, look: Look) -> Judged {
        let Comparison { family, analyses } = Comparison::of(&self.session(), &self.asked.verdicts, look);
        let answer = |analysis: Analysis| {
            let (subject, workload) = analysis.workload.split_once(OF)?;
            let (subject, workload) = (subject.parse().ok()?, workload.to_owned());
            Some(Answer { subject, analysis: Analysis { workload, ..analysis } })
        };
        Judged { look, family, answers: analyses.into_iter().filter_map(answer).collect() }
    }

    /// Observations that failed, with the subject and the workload.
    pub fn failures(&self) -> impl Iterator<Item = (usize, &str, &str)> {
        let turns = self.rounds.iter().flat_map(|round| round.turns.iter().map(move |turn| (turn, round.workload.as_str())));
        turns.filter_map(|(turn, workload)| Some((turn.subject, workload, turn.failed.as_deref()?)))
    }

    /// What of the workers' builds was not the same for all subjects that say how they were built, and is not yet a warning.
    #[must_use]
    pub fn unlike_builds(&self) -> Vec<String> {
        let unlike = |fact: &&str| {
            let said: Vec<_> = self.subjects.iter().filter_map(|subject| Some((&subject.name, subject.facts.get(*fact)?))).collect();
            let differs = said.iter().any(|(_, value)| *value != said[0].1);
            let each = || said.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ");
            differs.then(|| format!("the workers were not built alike ({fact}): {}", each()))
        };
        let found = ["build", "rustc", "rcb"].iter().filter_map(unlike);
        found.filter(|warning| !self.warnings.contains(warning)).collect()
    }

    /// Whether something that was asked for gave no figures, and not by its own statement.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.left_out.iter().any(|left_out| !left_out.unsupported) || self.failures().next().is_some()
    }

    /// What a later session compares with: the subject at `place` with its control, and nothing else.
    #[must_use]
    pub fn as_baseline(&self, place: usize) -> Self {
        let own = |turn: &Turn| Turn { subject: 0, ..turn.clone() };
        let rounds = self.rounds.iter().map(|round| {
            let turns = round.turns.iter().filter(|turn| turn.subject == place).map(own).collect();
            Round { workload: round.workload.clone(), turns }
        });
        let left_out = self.left_out.iter().filter(|left_out| left_out.subject == place);
        Self {
            subjects: self.subjects.get(place).cloned().into_iter().collect(),
            rounds: rounds.collect(),
            left_out: left_out.map(|left_out| LeftOut { subject: 0, ..left_out.clone() }).collect(),
            asked: Asked { baseline: None, ..self.asked.clone() },
            judged: None,
            ..self.clone()
        }
    }

    /// Writes it as JSON, a round a line, so that two of them can be compared line by line.
    ///
    /// # Errors
    /// The writer's.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let head = serde_json::to_string_pretty(&Self { rounds: Vec::new(), ..self.clone() })?;
        let head = head.strip_suffix("[]\n}").ok_or_else(|| io::Error::other("the rounds are not the last field"))?;
        out.write_all(head.as_bytes())?;
        out.write_all(b"[")?;
        for (number, round) in self.rounds.iter().enumerate() {
            out.write_all(if number == 0 { b"\n    " } else { b",\n    " })?;
            serde_json::to_writer(&mut *out, round)?;
        }
        out.write_all(b"\n  ]\n}\n")
    }

    /// Writes to `path`, by way of a temporary file beside it, so that no half-written record is ever seen.
    ///
    /// # Errors
    /// The file system's.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        let mut out = io::BufWriter::new(&mut file);
        self.write(&mut out)?;
        out.flush()?;
        drop(out);
        file.persist(path)?;
        Ok(())
    }

    /// Reads a record.
    ///
    /// # Errors
    /// [`BadRecord`], which names the file, and the field and line that are wrong.
    pub fn load(path: &Path) -> Result<Self, BadRecord> {
        Self::parse(path, &read::text(path)?)
    }

    /// The same of a file's text.
    ///
    /// # Errors
    /// [`BadRecord`].
    pub fn parse(path: &Path, text: &[u8]) -> Result<Self, BadRecord> {
        let head = read::head(path, text)?;
        let form = |reason: String| BadRecord::Form { path: path.to_owned(), reason };
        if head.format != COMPARISON_FORMAT {
            return Err(form(format!("its field `format` is {:?}, and a comparison's is {COMPARISON_FORMAT:?}", head.format)));
        }
        let record: Self = read::body(path, text, head.version, COMPARISON_VERSION)?;
        let subjects = record.subjects.len();
        let places = record.rounds.iter().flat_map(|round| &round.turns).map(|turn| turn.subject);
        if let Some(place) = places.chain(record.left_out.iter().map(|left_out| left_out.subject)).find(|place| *place >= subjects) {
            return Err(form(format!("a turn is of subject {place}, and there are {subjects}")));
        }
        Ok(record)
    }
}

#[cfg(test)]
pub(crate) mod tests;
