//! A client without a server: it answers as the test's script says, and remembers what it was asked.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::drivers::{Command, Commands, Error, Lanes, PipelineReplies, Pipelines, Reply, Transactions, Value};
use crate::workload::load::arrivals::{OpenLoop, Spread};
use crate::workload::load::engine::{Job, Outcome, run};
use crate::workload::load::issue::Issue;
use crate::workload::mix::{CommandSpec, Mix, MixOptions};

/// A reply that is the common form already.
#[derive(Debug)]
pub struct Plain(pub Value);

impl Reply for Plain {
    type Blob = Vec<u8>;

    fn into_blob(self) -> Result<Option<Vec<u8>>, Error> {
        match self.0 {
            Value::Nil => Ok(None),
            Value::Blob(bytes) => Ok(Some(bytes)),
            other => Err(Error::unexpected("a string", other.kind())),
        }
    }

    fn into_blobs(self) -> Result<Vec<Vec<u8>>, Error> {
        match self.0 {
            Value::Array(values) => values.into_iter().map(|value| Ok(Plain(value).into_blob()?.unwrap_or_default())).collect(),
            other => Err(Error::unexpected("an array", other.kind())),
        }
    }

    fn into_ok(self) -> Result<(), Error> {
        match self.0.as_bytes() {
            Some(b"OK") => Ok(()),
            _ => Err(Error::unexpected("OK", self.0.kind())),
        }
    }

    fn into_value(self) -> Result<Value, Error> {
        Ok(self.0)
    }
}

/// What comes of an exchange.
pub enum Answer {
    /// The usual reply of each command, at once.
    Usual,
    /// The usual reply, after so long.
    After(Duration),
    /// The usual reply, once the test lets it go.
    Held,
    /// The given answer, once the test lets it go.
    HeldThen(Box<Answer>),
    /// This reply to every command.
    Reply(Value),
    /// An error in the place of every reply.
    Error(Error),
    /// An error of the exchange as a whole.
    Lost(Error),
    /// Nothing, ever.
    Never,
    /// The client has a bug.
    Panic,
}

/// What was asked.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The commands of the exchange as text.
    pub commands: Vec<String>,
    /// Whether it was a transaction.
    pub transaction: bool,
    pub at: Instant,
}

type Script = dyn Fn(usize, &Command) -> Answer + Send + Sync;

#[derive(Default, Clone)]
struct Released {
    all: bool,
    numbers: BTreeSet<usize>,
}

struct Inner {
    sent: Mutex<Vec<Sent>>,
    /// Exchanges so far, and those of them that are under way.
    counts: watch::Sender<(usize, usize)>,
    released: watch::Sender<Released>,
    script: Box<Script>,
}

/// The client.
#[derive(Clone)]
pub struct Fake(Arc<Inner>);

fn text(command: &Command) -> String {
    command.args().fold(command.name().to_owned(), |text, word| text + " " + &String::from_utf8_lossy(word))
}

impl Fake {
    /// Answers exchange number n (from 0), whose first command is given, as `script` says.
    pub fn new(script: impl Fn(usize, &Command) -> Answer + Send + Sync + 'static) -> Self {
        let (counts, released) = (watch::Sender::new((0, 0)), watch::Sender::new(Released::default()));
        Self(Arc::new(Inner { sent: Mutex::default(), counts, released, script: Box::new(script) }))
    }

    /// Answers everything at once.
    pub fn prompt() -> Self {
        Self::new(|_, _| Answer::Usual)
    }

    /// All exchanges in the order in which they came.
    pub fn sent(&self) -> Vec<Sent> {
        self.0.sent.lock().unwrap().clone()
    }

    /// All commands in the order in which they came.
    pub fn commands(&self) -> Vec<String> {
        self.sent().into_iter().flat_map(|sent| sent.commands).collect()
    }

    /// Returns when exactly so many exchanges are under way.
    pub async fn until_under_way(&self, exchanges: usize) {
        self.0.counts.subscribe().wait_for(|&(_, now)| now == exchanges).await.unwrap();
    }

    /// Returns when so many exchanges were begun.
    pub async fn until_sent(&self, exchanges: usize) {
        self.0.counts.subscribe().wait_for(|&(sent, _)| sent >= exchanges).await.unwrap();
    }

    /// Lets the held exchange `number` go.
    pub fn release(&self, number: usize) {
        self.0.released.send_modify(|released| {
            released.numbers.insert(number);
        });
    }

    /// Lets all held exchanges go, also later ones.
    pub fn release_all(&self) {
        self.0.released.send_modify(|released| released.all = true);
    }

    fn usual(command: &Command) -> Value {
        match command.name() {
            "SET" => Value::Simple("OK".into()),
            "GET" => Value::Nil,
            "HKEYS" => Value::Array(Vec::new()),
            "PING" => Value::Simple("PONG".into()),
            _ => Value::Int(1),
        }
    }

    async fn exchange(&self, commands: &[Command], transaction: bool) -> Result<PipelineReplies<Plain>, Error> {
        let number = {
            let mut sent = self.0.sent.lock().unwrap();
            sent.push(Sent { commands: commands.iter().map(text).collect(), transaction, at: Instant::now() });
            sent.len() - 1
        };
        let _under_way = UnderWay::new(&self.0.counts);
        // As a real client, never without having given way once.
        tokio::task::yield_now().await;
        let mut answer = (self.0.script)(number, &commands[0]);
        if let Answer::Held | Answer::HeldThen(_) = answer {
            self.0.released.subscribe().wait_for(|released| released.all || released.numbers.contains(&number)).await.unwrap();
            answer = match answer {
                Answer::HeldThen(then) => *then,
                _ => Answer::Usual,
            };
        }
        let usual = || Ok(commands.iter().map(|command| Ok(Plain(Self::usual(command)))).collect());
        match answer {
            Answer::Usual | Answer::Held | Answer::HeldThen(_) => usual(),
            Answer::After(delay) => {
                tokio::time::sleep(delay).await;
                usual()
            }
            Answer::Reply(value) => Ok(commands.iter().map(|_| Ok(Plain(value.clone()))).collect()),
            Answer::Error(error) => Ok(commands.iter().map(|_| Err(error.clone())).collect()),
            Answer::Lost(error) => Err(error),
            Answer::Never => std::future::pending().await,
            Answer::Panic => panic!("scripted by the test"),
        }
    }
}

/// Counts an exchange until it ends or is given up.
struct UnderWay<'a>(&'a watch::Sender<(usize, usize)>);

impl<'a> UnderWay<'a> {
    fn new(counts: &'a watch::Sender<(usize, usize)>) -> Self {
        counts.send_modify(|(sent, now)| (*sent, *now) = (*sent + 1, *now + 1));
        Self(counts)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|(_, now)| *now -= 1);
    }
}

impl Commands for Fake {
    type Reply = Plain;

    async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.call(&Command::get(key)).await?.into_blob()
    }

    async fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.call(&Command::set(key, value)).await?.into_ok()
    }

    async fn hkeys(&self, key: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        self.call(&Command::hkeys(key)).await?.into_blobs()
    }

    async fn call(&self, command: &Command) -> Result<Plain, Error> {
        self.exchange(std::slice::from_ref(command), false).await?.remove(0)
    }
}

impl Pipelines for Fake {
    async fn pipeline(&self, commands: &[Command]) -> Result<PipelineReplies<Plain>, Error> {
        self.exchange(commands, false).await
    }

    fn lanes(&self) -> Lanes<Self> {
        Lanes::EachCall
    }
}

impl Transactions for Fake {
    async fn transaction(&self, commands: &[Command]) -> Result<PipelineReplies<Plain>, Error> {
        self.exchange(commands, true).await
    }
}

/// The mix of these commands, equally often, over ten keys.
pub fn mix(commands: &[&str]) -> Arc<Mix> {
    mix_with(commands, MixOptions { keys: 10, ..MixOptions::default() })
}

pub fn mix_with(commands: &[&str], options: MixOptions) -> Arc<Mix> {
    let specs = commands.iter().map(|text| CommandSpec::parse(text).unwrap()).collect();
    Arc::new(Mix::new(specs, options).unwrap().0)
}

/// Three callers in a closed loop that send `commands`.
pub fn job(commands: u64) -> Job {
    Job {
        callers: 3,
        pipeline: 1,
        transaction: false,
        commands: Some(commands),
        time: None,
        open: None,
        seed: 7,
        first: 0,
        continue_on_error: false,
        verify: true,
        patience: Duration::from_secs(60),
    }
}

/// An open loop at the rates of `schedule`, evenly.
pub fn rate(schedule: &str) -> Option<OpenLoop> {
    Some(OpenLoop { schedule: schedule.parse().unwrap(), burst: 1, spread: Spread::Uniform })
}

/// Runs a job, with nobody watching.
pub async fn load(issue: impl Issue, mix: &Arc<Mix>, job: &Job) -> Outcome {
    run(&issue, mix, job, 2, Box::new(|_| {})).await
}

/// The same as a task of its own, so that the test can decide when replies come.
pub fn spawn_load(issue: impl Issue, mix: &Arc<Mix>, job: &Job) -> tokio::task::JoinHandle<Outcome> {
    let (mix, job) = (mix.clone(), job.clone());
    tokio::spawn(async move { load(issue, &mix, &job).await })
}
