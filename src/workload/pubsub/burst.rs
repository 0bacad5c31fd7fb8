//! Exactly n messages to one channel, in one way of publishing, and a subscriber that must get exactly these: `rcb publish`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::account::{Account, RunId, fresh_run};
use super::census::Census;
use super::collect::{Got, receive};
use super::engine::{Against, Failure};
use super::receiver::Opening;
use super::sending::{Direct, Sending, Sends, Through};
use crate::drivers::raw::Raw;
use crate::drivers::{
    Commands, Descriptor, Driver, Error, Kind, Publish, Settings, Strategy, Subscriber, SubscriberSettings, Topology, UnknownDriver, Visit,
};
use crate::interrupt;
use crate::measure::Snapshot;
use crate::target::audit::{Audit, Auditor, Expected};
use crate::workload::{Connected, Use, closed_loop, connect as open};

/// How messages are sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "mode")]
pub enum Mode {
    /// One at a time, each as soon as the last is answered.
    Serial,
    /// Explicit pipelines, one at a time.
    Batch {
        /// Messages in each.
        size: u64,
    },
    /// Several callers on one client, each with one message at a time.
    Concurrent {
        /// How many.
        callers: u64,
    },
    /// The same through a pipeline window.
    Windowed {
        /// How many callers.
        callers: u64,
        /// The longest that the first message of a batch is held, nanoseconds.
        window_ns: u64,
    },
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Mode::Serial => f.write_str("serial"),
            Mode::Batch { size } => write!(f, "batch {size}"),
            Mode::Concurrent { callers } => write!(f, "concurrent {callers}"),
            Mode::Windowed { callers, window_ns } => write!(f, "window {}us, {callers} callers", *window_ns as f64 / 1e3),
        }
    }
}

/// What is sent, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Messages.
    pub messages: u64,
    /// How they are sent.
    pub mode: Mode,
    /// How the channel is subscribed to; never a pattern.
    pub kind: Kind,
    /// The channel.
    pub channel: Vec<u8>,
    /// Bytes of a message.
    pub payload: usize,
    /// Messages in the subscriber's own buffer, where that can be set; of no use to a burst, whose subscriber is that of raw.
    pub buffer: Option<std::num::NonZeroUsize>,
    /// How long nothing may be answered and nothing may arrive before the run is given up.
    pub patience: Duration,
    /// The longest that it may take in all.
    pub deadline: Duration,
}

/// What a burst gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Burst {
    /// Messages published, each with its answer.
    pub messages: u64,
    /// Messages that the subscriber got, each once.
    pub received: u64,
    /// Seconds from the first message sent to the last message received.
    pub real_s: f64,
    /// CPU of this process in user mode in that time, seconds; the subscriber's share is in it.
    pub user_s: f64,
    /// CPU in the kernel.
    pub system_s: f64,
    /// CPU of all servers, seconds.
    pub server_cpu_s: f64,
    /// Commands for each `read(2)` of the masters.
    pub commands_per_read: Option<f64>,
    /// The servers' count against ours.
    pub audit: Audit,
}

impl Burst {
    /// Messages per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.messages as f64 / self.real_s.max(f64::MIN_POSITIVE)
    }

    /// Client CPU per message, nanoseconds.
    #[must_use]
    pub fn client_ns_per_message(&self) -> f64 {
        (self.user_s + self.system_s) * 1e9 / self.messages.max(1) as f64
    }
}

/// A publishing client with its subscriber, connected once for any number of bursts.
pub trait Publisher: Send {
    /// One burst of `messages`.
    fn burst<'a>(&'a mut self, messages: u64, auditor: &'a mut Auditor) -> BoxFuture<'a, Result<Burst, Failure>>;
    /// Closes the connections.
    fn close(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// Whose subscriber counts, whatever driver publishes: what is measured is publishing, and it shares time and CPU with its subscriber.
pub const SUBSCRIBER: Descriptor = Raw::DESCRIPTOR;

/// A publisher that is being connected.
pub type Connecting<'a> = BoxFuture<'a, Result<Box<dyn Publisher>, Failure>>;

/// Connects the driver called `name` for `plan`. Must be called inside the runtime on which the client is to live.
///
/// # Errors
/// [`UnknownDriver`] outside; inside, [`Failure`].
pub fn connect<'a>(name: &str, against: Against<'a>, settings: &'a Settings, plan: &'a Plan) -> Result<Connecting<'a>, UnknownDriver> {
    struct Connect<'a>(Against<'a>, &'a Settings, &'a Plan);
    impl<'a> Visit for Connect<'a> {
        type Output = Connecting<'a>;
        fn visit<D: Driver>(self) -> Self::Output {
            Box::pin(connect_driver::<D>(self.0, self.1, self.2))
        }
    }
    crate::drivers::visit(name, Connect(against, settings, plan))
}

async fn connect_driver<'a, D: Driver>(
    against: Against<'a>,
    settings: &'a Settings,
    plan: &'a Plan,
) -> Result<Box<dyn Publisher>, Failure> {
    let strategy = match plan.mode {
        Mode::Windowed { window_ns, .. } => Strategy::window(Duration::from_nanos(window_ns), 0),
        _ => settings.strategy,
    };
    let own = Settings { strategy, ..settings.clone() };
    let connecting = async {
        let connected = open::<D, _>(against.servers, &own, Publishing { against, settings, plan }).await;
        connected.map_err(|error| Failure::Opening(format!("the publisher: {error}")))?.await
    };
    let limit = plan.patience.max(Duration::from_secs(5));
    tokio::select! {
        connected = tokio::time::timeout(limit, connecting) => {
            connected.unwrap_or_else(|_| Err(Failure::Opening(format!("publisher and subscriber within {limit:?}"))))
        }
        () = interrupt::wait() => Err(Failure::Interrupted),
    }
}

/// How the publisher's connections are closed; what is left of it is dropped.
type Close = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send + Sync>;

/// Gives a connected client its subscriber.
struct Publishing<'a> {
    against: Against<'a>,
    settings: &'a Settings,
    plan: &'a Plan,
}

impl<'a> Use for Publishing<'a> {
    type Output = Connecting<'a>;

    fn native<D: Driver>(self, client: D, connected: Connected) -> Connecting<'a> {
        Box::pin(with_subscriber::<D, _>(self.against, self.settings, self.plan, Direct(client), connected.close))
    }

    fn behind_window<D: Driver, C: Commands + Publish>(self, client: C, connected: Connected) -> Connecting<'a> {
        Box::pin(with_subscriber::<D, _>(self.against, self.settings, self.plan, Through(client), connected.close))
    }
}

async fn with_subscriber<D: Driver, S: Sends>(
    against: Against<'_>,
    settings: &Settings,
    plan: &Plan,
    client: S,
    close: Close,
) -> Result<Box<dyn Publisher>, Failure> {
    let answers_prove_delivery = against.servers.topology == Topology::Standalone || plan.kind == Kind::Sharded;
    let checkout = D::DESCRIPTOR.checkout;
    let plan_of = plan.clone();
    // Its own settings too: none of the driver's may change it.
    let subscribing = Settings { resp: settings.resp, ..Settings::default() };
    let mut one = subscribe_all::<Raw>(against, &subscribing, plan, 1).await?;
    let subscriber = one.pop().ok_or_else(|| Failure::Opening("the subscriber".into()))?;
    Ok(Box::new(Bound { client, close, subscriber: Some(subscriber), plan: plan_of, checkout, answers_prove_delivery }))
}

/// So many subscribers of the plan's channel, confirmed by the servers.
pub(super) async fn subscribe_all<D: Driver>(
    against: Against<'_>,
    settings: &Settings,
    plan: &Plan,
    count: u64,
) -> Result<Vec<D::Subscriber>, Failure> {
    let nodes: Vec<_> = against.nodes.iter().map(|node| node.endpoint.clone()).collect();
    let silent = |error: Error| Failure::Servers(error.to_string());
    let mut census = Census::connect(nodes, plan.patience).await.map_err(silent)?;
    let channels = [plan.channel.clone()];
    let before = census.count(plan.kind, &channels).await.map_err(silent)?.total();
    let opening = Opening {
        servers: Arc::new(against.servers.clone()),
        settings: Arc::new(settings.clone()),
        options: SubscriberSettings { buffer: plan.buffer, node: None },
        kind: plan.kind,
        names: channels.to_vec(),
    };
    let mut subscribers = Vec::new();
    for _ in 0..count {
        let subscriber = opening.open::<D>(plan.patience).await;
        subscribers.push(subscriber.map_err(|error| Failure::Opening(format!("the subscriber: {error}")))?);
    }
    let wanted = before + count;
    let there = census.wait_until(plan.kind, &channels, plan.patience, &wanted.to_string(), |now| now.total() >= wanted).await;
    there.map(|_| subscribers).map_err(|error| Failure::Barrier(error.to_string()))
}

struct Bound<C, S> {
    client: C,
    close: Close,
    /// `None` after a run that failed with it.
    subscriber: Option<S>,
    plan: Plan,
    checkout: &'static [&'static str],
    /// Whether PUBLISH counts every subscriber, so that its own count can be held against ours.
    answers_prove_delivery: bool,
}

impl<C: Sends, S: Subscriber> Publisher for Bound<C, S> {
    fn burst<'a>(&'a mut self, messages: u64, auditor: &'a mut Auditor) -> BoxFuture<'a, Result<Burst, Failure>> {
        Box::pin(self.run(messages, auditor))
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let Self { client, close, subscriber, .. } = *self;
            drop(client);
            // A client that does not come to an end is dropped.
            let _ = tokio::time::timeout(Duration::from_secs(2), close()).await;
            if let Some(subscriber) = subscriber {
                let _ = tokio::time::timeout(Duration::from_secs(2), subscriber.close()).await;
            }
        })
    }
}

impl<C: Sends, S: Subscriber> Bound<C, S> {
    async fn run(&mut self, messages: u64, auditor: &mut Auditor) -> Result<Burst, Failure> {
        let plan = &self.plan;
        let Some(subscriber) = self.subscriber.take() else {
            return Err(Failure::Broken("the subscriber is of no use after a run that failed".into()));
        };
        let no_audit = |error: Error| Failure::Servers(error.to_string());
        let reading = |limit: Duration, error: Error| Failure::Servers(format!("{error} within {limit:?}"));
        let run = fresh_run();
        let account = Account::new(RunId::new(run), 0, std::slice::from_ref(&plan.channel), 1, 1);
        let before = tokio::time::timeout(plan.patience, auditor.before()).await;
        let before = before.map_err(|_| reading(plan.patience, Error::Timeout("no answer".into())))?.map_err(no_audit)?;
        let progress = Arc::new(Mutex::new(Instant::now()));
        let (give_up, given_up) = oneshot::channel();
        let receiving = tokio::spawn(receive(subscriber, account, messages, plan.patience, progress.clone(), given_up, |_| ()));
        let given: Arc<std::sync::atomic::AtomicU64> = Arc::default();
        let sending = Sending { client: self.client.clone(), plan: Arc::new(plan.clone()), run, messages, given: Arc::clone(&given) };
        let (operations, callers) = match plan.mode {
            Mode::Serial => (messages, 1),
            Mode::Batch { size } => (messages.div_ceil(size), 1),
            Mode::Concurrent { callers } | Mode::Windowed { callers, .. } => (messages, callers),
        };
        let (snapshot, start) = (Snapshot::take(), Instant::now());
        let whole = async {
            // Dropping the loop aborts its callers, also those that a client keeps waiting.
            let sent = tokio::time::timeout(plan.deadline, closed_loop(operations, usize::try_from(callers).unwrap_or(1), &sending)).await;
            let failure = match sent {
                Ok(Ok(_)) => None,
                Ok(Err(failure)) => Some(failure.to_string()),
                Err(_) => Some(format!("not all messages were answered within {:?} (the deadline)", plan.deadline)),
            };
            if failure.is_some() {
                // The receiver then need not wait for the rest.
                drop(give_up);
            } else {
                *progress.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            }
            (failure, receiving.await)
        };
        let (failure, got) = tokio::select! {
            ended = whole => ended,
            () = interrupt::wait() => return Err(Failure::Broken("interrupted".into())),
        };
        let usage = snapshot.usage();
        let Got { subscriber, mut account, last, error } =
            got.map_err(|panic| Failure::Broken(format!("the subscriber broke off: {panic}")))?;
        account.settle(|_, _| (messages, Vec::new()));
        let (tally, strays) = (account.tally(), account.strays());
        if let Some(reason) = failure {
            return Err(Failure::Broken(format!("{reason}; {} of {messages} messages had been received", tally.received)));
        }
        if tally.received != messages || tally.duplicated > 0 {
            let why = error.map_or_else(|| format!("nothing came for {:?}", plan.patience), |error| error.to_string());
            let why = if strays.lagged > 0 { format!("its client dropped {}", strays.lagged) } else { why };
            let text = format!("the subscriber got {} of {messages} messages, {} twice: {why}", tally.received, tally.duplicated);
            return Err(Failure::Broken(text));
        }
        let given = given.load(std::sync::atomic::Ordering::Relaxed);
        if self.answers_prove_delivery && given != messages {
            let text = format!("{} returned {given} receivers in all, we counted {messages}", plan.kind.publish());
            return Err(Failure::Broken(text));
        }
        self.subscriber = Some(subscriber);
        let after = tokio::time::timeout(plan.patience, auditor.after()).await;
        let after = after.map_err(|_| reading(plan.patience, Error::Timeout("no answer".into())))?.map_err(no_audit)?;
        let server = auditor.usage(&before, &after).map_err(no_audit)?;
        let calls = BTreeMap::from([(plan.kind.publish().to_ascii_lowercase(), messages)]);
        let audit = server.audit(&Expected::exactly(calls, self.checkout, auditor.masters()));
        if !audit.is_exact() {
            return Err(Failure::Broken(format!("audit failed: {}", audit.deviations.join("; "))));
        }
        let commands = audit.workload + audit.checkout;
        Ok(Burst {
            messages,
            received: tally.received,
            real_s: last.map_or(0.0, |last| last.saturating_duration_since(start).as_secs_f64()),
            user_s: usage.user.as_secs_f64(),
            system_s: usage.system.as_secs_f64(),
            server_cpu_s: server.cpu_ns as f64 / 1e9,
            commands_per_read: (server.reads > 0).then(|| commands as f64 / server.reads as f64),
            audit,
        })
    }
}
