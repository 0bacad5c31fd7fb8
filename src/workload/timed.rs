//! Work for a set time, every operation timed and its reply checked: what one process run of a worker does.
//!
//! The servers' count is left to whoever started the worker (`run` audits itself).

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use hdrhistogram::Histogram;

use super::commands::Keyspace;
use super::connect::{Connected, Use, connect};
use super::pubsub::burst::{Mode, Plan};
use super::pubsub::engine::Against;
use super::pubsub::flood::{self, Flood};
use super::run::{Failure, together};
use crate::drivers::{Command, Commands, Driver, Error, Kind, Profile, Publish, Servers, Settings, UnknownDriver, Visit};
use crate::measure::clock::nanos;
use crate::measure::latency::histogram;
use crate::measure::{Classes, Tally, Usage};
use crate::target::{Node, Role};

/// What is done, and by how many.
#[derive(Clone)]
pub struct Task {
    /// What an operation is.
    pub operation: Operation,
    /// Tasks that send, each waiting for its reply before its next command.
    pub callers: usize,
    /// Threads of the runtime.
    pub threads: usize,
    /// Work of our own that is added to each operation.
    pub burden: Duration,
    /// When replies that do not come are given up.
    pub patience: Duration,
}

/// What an operation is.
#[derive(Clone)]
pub enum Operation {
    /// One command.
    Command {
        /// Which, with its keys.
        keyspace: Arc<Keyspace>,
        /// Commands of an explicit pipeline; 1 for single ones.
        pipeline: usize,
    },
    /// A message received.
    Receive {
        /// The channel.
        channel: Vec<u8>,
        /// Bytes of a message.
        payload: usize,
        /// Messages in one pipeline of the publisher.
        batch: u64,
    },
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Timed {
    /// Operations done.
    pub operations: u64,
    /// From the release of the callers to the last reply.
    pub elapsed: Duration,
    /// What this process used meanwhile.
    pub client: Usage,
    /// Latencies, nanoseconds; a pipeline's counts for each of its commands. `None` for messages, which wait for no one.
    pub latencies: Option<Histogram<u64>>,
}

/// A connected client with its task.
pub trait Worker: Send {
    /// Does the work once and checks every byte of the replies.
    fn verify(&mut self) -> BoxFuture<'_, Result<(), String>>;
    /// Works for `time`.
    fn run(&mut self, time: Duration) -> BoxFuture<'_, Result<Timed, String>>;
    /// Closes the connections.
    fn close(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// Why there is no [`Worker`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotOpened {
    /// The client can't do it, by its driver's statement.
    Unsupported(String),
    /// It was tried.
    Failed(String),
}

impl From<Error> for NotOpened {
    fn from(error: Error) -> Self {
        match error {
            Error::Unsupported(reason) => Self::Unsupported(reason.to_owned()),
            other => Self::Failed(other.to_string()),
        }
    }
}

/// A worker that is being connected.
pub type Opening<'a> = BoxFuture<'a, Result<Box<dyn Worker>, NotOpened>>;

/// Connects the driver called `name` as `settings` say. Must be called inside the runtime on which the client is to live.
///
/// # Errors
/// [`UnknownDriver`] outside; inside [`NotOpened`].
pub fn open<'a>(name: &str, servers: &'a Servers, settings: &'a Settings, task: &'a Task) -> Result<Opening<'a>, UnknownDriver> {
    struct Open<'a>(&'a Servers, &'a Settings, &'a Task, Arc<Keyspace>, usize);
    impl<'a> Visit for Open<'a> {
        type Output = Opening<'a>;
        fn visit<D: Driver>(self) -> Self::Output {
            let Self(servers, settings, task, keyspace, pipeline) = self;
            Box::pin(async move { connect::<D, _>(servers, settings, Bind { task: task.clone(), keyspace, pipeline }).await? })
        }
    }
    match &task.operation {
        Operation::Command { keyspace, pipeline } => {
            crate::drivers::visit(name, Open(servers, settings, task, keyspace.clone(), *pipeline))
        }
        Operation::Receive { channel, payload, batch } => {
            let driver = crate::drivers::find(name)?;
            let plan = Plan {
                messages: 0,
                mode: Mode::Batch { size: *batch },
                kind: Kind::Channel,
                channel: channel.clone(),
                payload: *payload,
                // As all queues of `tuned`: never the limit.
                buffer: if settings.profile == Profile::Tuned { NonZeroUsize::new(Settings::QUEUE_CAPACITY) } else { None },
                patience: task.patience,
                deadline: task.patience + LONGEST_FLOOD,
            };
            let (name, burdened) = (driver.name, !task.burden.is_zero());
            Ok(Box::pin(async move {
                if burdened {
                    return Err(NotOpened::Unsupported("a burden is for commands".into()));
                }
                driver.pubsub.check_kind(servers.topology, settings.resp, Kind::Channel)?;
                let nodes: Vec<Node> =
                    servers.endpoints.iter().map(|endpoint| Node { endpoint: endpoint.clone(), role: Role::Master }).collect();
                let against = Against { servers, nodes: &nodes };
                // Found above.
                let opening = flood::connect(name, against, settings, &plan, 1).map_err(|error| NotOpened::Failed(error.to_string()))?;
                let flood = opening.await.map_err(|failure| NotOpened::Failed(failure.to_string()))?;
                Ok(Box::new(Receiver { flood, rate: None, batch: plan_batch(&plan) }) as Box<dyn Worker>)
            }))
        }
    }
}

/// Longest that a stretch of messages may take beyond the patience.
const LONGEST_FLOOD: Duration = Duration::from_secs(60);

struct Bind {
    task: Task,
    keyspace: Arc<Keyspace>,
    pipeline: usize,
}

impl Use for Bind {
    type Output = Result<Box<dyn Worker>, NotOpened>;

    fn native<D: Driver>(self, client: D, connected: Connected) -> Self::Output {
        let Self { task, keyspace, pipeline } = self;
        Ok(if pipeline > 1 {
            let exchange = Piped { client: client.clone(), batches: batches(&keyspace, pipeline), keyspace: keyspace.clone() };
            Box::new(Sender { client, exchange, keyspace, burden: Burden::of(task.burden), task, connected })
        } else {
            let exchange = Single { client: client.clone(), keyspace: keyspace.clone() };
            Box::new(Sender { client, exchange, keyspace, burden: Burden::of(task.burden), task, connected })
        })
    }

    fn behind_window<D: Driver, C: Commands + Publish>(self, client: C, connected: Connected) -> Self::Output {
        let Self { task, keyspace, pipeline } = self;
        if pipeline > 1 {
            let reason = "explicit pipelines pass by a window, so it would not be measured";
            return Err(NotOpened::Unsupported(reason.into()));
        }
        let exchange = Single { client: client.clone(), keyspace: keyspace.clone() };
        Ok(Box::new(Sender { client, exchange, keyspace, burden: Burden::of(task.burden), task, connected }))
    }
}

/// What a caller does again and again.
trait Exchange: Clone + Send + Sync + 'static {
    /// Operations of one exchange.
    fn operations(&self) -> u64;
    /// Exchange number `number`: sends, waits and checks the replies.
    fn exchange(&self, number: u64) -> impl Future<Output = Result<(), Error>> + Send;
}

#[derive(Clone)]
struct Single<C> {
    client: C,
    keyspace: Arc<Keyspace>,
}

impl<C: Commands> Exchange for Single<C> {
    fn operations(&self) -> u64 {
        1
    }

    #[inline]
    async fn exchange(&self, number: u64) -> Result<(), Error> {
        self.keyspace.operate(&self.client, number as usize).await
    }
}

#[derive(Clone)]
struct Piped<C> {
    client: C,
    keyspace: Arc<Keyspace>,
    batches: Arc<[Vec<Command>]>,
}

/// The explicit pipelines that together have every key, made once so that the timed path allocates none.
fn batches(keyspace: &Keyspace, pipeline: usize) -> Arc<[Vec<Command>]> {
    let count = keyspace.len().div_ceil(pipeline);
    (0..count).map(|batch| (0..pipeline).map(|place| keyspace.command_at(batch * pipeline + place)).collect()).collect()
}

impl<D: Driver> Exchange for Piped<D> {
    fn operations(&self) -> u64 {
        self.batches[0].len() as u64
    }

    #[inline]
    async fn exchange(&self, number: u64) -> Result<(), Error> {
        let commands = &self.batches[number as usize % self.batches.len()];
        let replies = self.client.pipeline(commands).await?;
        if replies.len() != commands.len() {
            return Err(Error::Protocol(format!("{} replies to {} commands", replies.len(), commands.len())));
        }
        replies.into_iter().try_for_each(|reply| self.keyspace.check_reply(reply?))
    }
}

/// Work of a known size: turns of a loop. No clock is read while it is borne, since that takes as long as a small burden.
#[derive(Clone, Copy, Debug)]
struct Burden {
    turns: u64,
}

impl Burden {
    /// So many turns as take `time` at the best speed of this core.
    fn of(time: Duration) -> Self {
        /// A few tenths of a millisecond.
        const TURNS: u64 = 200_000;
        if time.is_zero() {
            return Self { turns: 0 };
        }
        let run = |_| {
            let start = Instant::now();
            Self { turns: TURNS }.bear();
            start.elapsed()
        };
        let best = (0..10).map(run).min().unwrap_or_default().max(Duration::from_nanos(1));
        Self { turns: (time.as_secs_f64() / best.as_secs_f64() * TURNS as f64).round() as u64 }
    }

    #[inline]
    fn bear(self) {
        for turn in 0..self.turns {
            std::hint::black_box(turn);
        }
    }
}

/// Sends commands.
struct Sender<C, E> {
    client: C,
    exchange: E,
    keyspace: Arc<Keyspace>,
    burden: Burden,
    task: Task,
    connected: Connected,
}

/// Runs `exchange` for `time` by the callers of `task`: caller c of n does the exchanges c, c + n, c + 2 n …
async fn timed_loop<E: Exchange>(exchange: &E, task: &Task, burden: Burden, time: Duration) -> Result<Timed, Failure> {
    let callers = task.callers.max(1);
    let tally = Arc::new(Tally::new(task.threads, 1));
    let looping = together(callers, |number, mut gate| {
        let (exchange, tally) = (exchange.clone(), tally.clone());
        async move {
            let start = gate.pass().await;
            let until = start + time;
            let unit = exchange.operations();
            let (mut number, mut done) = (number as u64, 0);
            // The end of one exchange is the start of the next.
            let mut now = Instant::now();
            while now < until {
                (0..unit).for_each(|_| burden.bear());
                if let Err(error) = exchange.exchange(number).await {
                    return (Instant::now(), done, Some(error));
                }
                let ended = Instant::now();
                let nanos = nanos(ended - now);
                tally.shard().note(0, unit, nanos, None);
                number += callers as u64;
                done += unit;
                now = ended;
            }
            (now, done, None)
        }
    });
    let limit = time + task.patience;
    // Dropping the loop aborts its callers, also those that a client keeps waiting.
    let all = tokio::time::timeout(limit, looping).await.map_err(|_| Failure::Stalled(limit))?;
    if let Some(error) = all.first_error {
        return Err(Failure::Command { kind: error.kind(), text: error.to_string(), done: all.done, wanted: all.done + 1 });
    }
    let (mut total, mut spare) = (Classes::new(1), Classes::new(1));
    tally.collect(&mut total, &mut spare);
    let latencies = total.0.pop().map_or_else(histogram, |counts| counts.service);
    Ok(Timed { operations: all.done, elapsed: all.elapsed, client: all.client, latencies: Some(latencies) })
}

impl<C: Commands, E: Exchange> Worker for Sender<C, E> {
    fn verify(&mut self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            let verifying = async {
                self.keyspace.verify(&self.client).await?;
                self.exchange.exchange(0).await
            };
            let patience = self.task.patience;
            match tokio::time::timeout(patience, verifying).await {
                Ok(verified) => verified.map_err(|error| error.to_string()),
                Err(_) => Err(format!("no reply within {patience:?}")),
            }
        })
    }

    fn run(&mut self, time: Duration) -> BoxFuture<'_, Result<Timed, String>> {
        Box::pin(async move {
            timed_loop(&self.exchange, &self.task, self.burden, time).await.map_err(|failure| match failure {
                Failure::Command { kind, text, done, .. } => format!("{kind} error after {done} operations: {text}"),
                other => other.to_string(),
            })
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let Self { client, exchange, connected, .. } = *self;
            drop((client, exchange));
            (connected.close)().await;
        })
    }
}

/// Receives messages.
struct Receiver {
    flood: Box<dyn Flood>,
    /// Messages a second, from the last run.
    rate: Option<f64>,
    batch: u64,
}

fn plan_batch(plan: &Plan) -> u64 {
    if let Mode::Batch { size } = plan.mode { size.max(1) } else { 1 }
}

/// Batches of the first run, whose rate is not known.
const FIRST_BATCHES: u64 = 20;

impl Receiver {
    async fn deliver(&mut self, messages: u64) -> Result<Timed, String> {
        let delivered = self.flood.deliver(messages).await.map_err(|failure| failure.to_string())?;
        self.rate = Some(delivered.messages as f64 / delivered.elapsed.as_secs_f64().max(1e-6));
        Ok(Timed { operations: delivered.messages, elapsed: delivered.elapsed, client: delivered.client, latencies: None })
    }
}

impl Worker for Receiver {
    fn verify(&mut self) -> BoxFuture<'_, Result<(), String>> {
        // Every message carries its number, and its account is checked in every run.
        Box::pin(async { self.deliver(FIRST_BATCHES * self.batch).await.map(drop) })
    }

    fn run(&mut self, time: Duration) -> BoxFuture<'_, Result<Timed, String>> {
        Box::pin(async move {
            let messages = self.rate.map_or(0, |rate| (rate * time.as_secs_f64()) as u64);
            self.deliver(messages.max(self.batch)).await
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        self.flood.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burden_takes_its_time_and_none_takes_none() {
        assert_eq!(Burden::of(Duration::ZERO).turns, 0);
        let (small, large) = (Burden::of(Duration::from_micros(1)).turns, Burden::of(Duration::from_micros(1000)).turns);
        assert!(small > 0 && (500..2000).contains(&(large / small)), "{small} and {large} turns");
        let (start, burden) = (Instant::now(), Burden::of(Duration::from_millis(2)));
        burden.bear();
        assert!(start.elapsed() >= Duration::from_millis(1));
    }
}
