//! One channel, several subscribers, and raw as the publisher, as fast as the subscribers take it: the bench `subscribe`.
//!
//! The publisher never gets far ahead of the slowest subscriber, so that neither a client's buffer nor the server's output buffer
//! decides.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::sync::{Notify, oneshot};

use super::account::{Account, RunId, fresh_run};
use super::burst::{Plan, subscribe_all};
use super::collect::{Got, TOLD_EVERY, receive};
use super::engine::{Against, Failure};
use super::message::{self, Header};
use crate::drivers::raw::Raw;
use crate::drivers::{Command, Driver, Error, Pipelines, Settings, Subscriber, UnknownDriver, Visit};
use crate::interrupt;
use crate::measure::clock::{clock_id, now_ns};
use crate::measure::{Snapshot, Usage};
use crate::target::audit::{Audit, Auditor, Expected, ServerUsage};

/// Batches that the publisher may be ahead of the slowest subscriber.
const BATCHES_AHEAD: u64 = 4;

/// What a flood gave.
#[derive(Clone, Debug)]
pub struct Flooded {
    /// Messages delivered, all subscribers, each once.
    pub delivered: u64,
    /// From the first message sent to the last received.
    pub elapsed: Duration,
    /// What this process used meanwhile, the publisher included.
    pub client: Usage,
    /// What the servers did meanwhile.
    pub server: ServerUsage,
    /// Whether they counted the same.
    pub audit: Audit,
}

/// Messages that were delivered, each once, and what that took.
#[derive(Clone, Copy, Debug)]
pub struct Delivered {
    /// Messages, all subscribers.
    pub messages: u64,
    /// From the first message sent to the last received.
    pub elapsed: Duration,
    /// What this process used meanwhile, the publisher included.
    pub client: Usage,
}

/// Connected subscribers with their publisher.
pub trait Flood: Send {
    /// Delivers `messages` to each subscriber; the servers are left to somebody else to audit.
    fn deliver(&mut self, messages: u64) -> BoxFuture<'_, Result<Delivered, Failure>>;
    /// Delivers `messages` to each subscriber.
    fn run<'a>(&'a mut self, messages: u64, auditor: &'a mut Auditor) -> BoxFuture<'a, Result<Flooded, Failure>>;
    /// Closes the connections.
    fn close(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// A flood that is being connected.
pub type Connecting<'a> = BoxFuture<'a, Result<Box<dyn Flood>, Failure>>;

/// Connects `subscribers` of the driver called `name` to the channel of `plan`, whose mode gives the size of the publisher's batches.
///
/// # Errors
/// [`UnknownDriver`] outside; inside, [`Failure`].
pub fn connect<'a>(
    name: &str,
    against: Against<'a>,
    settings: &'a Settings,
    plan: &'a Plan,
    subscribers: u64,
) -> Result<Connecting<'a>, UnknownDriver> {
    struct Connect<'a>(Against<'a>, &'a Settings, &'a Plan, u64);
    impl<'a> Visit for Connect<'a> {
        type Output = Connecting<'a>;
        fn visit<D: Driver>(self) -> Self::Output {
            let Self(against, settings, plan, count) = self;
            Box::pin(async move {
                let connecting = async {
                    let subscribers = subscribe_all::<D>(against, settings, plan, count).await?;
                    let publisher = Raw::connect(against.servers, &Settings { resp: settings.resp, ..Settings::default() }).await;
                    let publisher = publisher.map_err(|error| Failure::Opening(format!("the publisher: {error}")))?;
                    Ok(Box::new(Bound { subscribers, publisher, plan: plan.clone() }) as Box<dyn Flood>)
                };
                tokio::select! {
                    connected = connecting => connected,
                    () = interrupt::wait() => Err(Failure::Interrupted),
                }
            })
        }
    }
    crate::drivers::visit(name, Connect(against, settings, plan, subscribers))
}

struct Bound<S> {
    subscribers: Vec<S>,
    publisher: Raw,
    plan: Plan,
}

/// What subscribers tell the publisher.
struct Progress {
    received: Vec<AtomicU64>,
    bell: Notify,
}

impl Progress {
    fn slowest(&self) -> u64 {
        self.received.iter().map(|received| received.load(Ordering::Acquire)).min().unwrap_or(0)
    }
}

async fn publish(publisher: Raw, plan: Plan, run: u64, messages: u64, progress: Arc<Progress>) -> Result<(), Error> {
    let super::burst::Mode::Batch { size } = plan.mode else { return Err(Error::Client("a flood is published in batches".into())) };
    let mut payload = message::template(plan.payload);
    let mut sent = 0;
    while sent < messages {
        let count = size.min(messages - sent);
        let commands: Vec<Command> = (sent..sent + count)
            .map(|sequence| {
                let kind = message::Kind::Message;
                let header = Header { kind, run, publisher: 0, channel: 0, sequence, sent_ns: now_ns(), clock: clock_id() };
                message::write(&mut payload, &header);
                Command::new(plan.kind.publish()).arg(&plan.channel).arg(&payload)
            })
            .collect();
        publisher.pipeline(&commands).await?.into_iter().try_for_each(|reply| reply.map(drop))?;
        sent += count;
        // A subscriber tells only now and then how many it has.
        while sent > progress.slowest() + size * BATCHES_AHEAD + TOLD_EVERY {
            progress.bell.notified().await;
        }
    }
    Ok(())
}

impl<S: Subscriber> Bound<S> {
    async fn flood(&mut self, messages: u64, auditor: &mut Auditor) -> Result<Flooded, Failure> {
        let patience = self.plan.patience;
        let no_audit = |error: Error| Failure::Servers(error.to_string());
        let silent = |_| Failure::Servers(format!("no answer within {patience:?}"));
        let before = tokio::time::timeout(patience, auditor.before()).await.map_err(silent)?.map_err(no_audit)?;
        let delivered = self.deliver_all(messages).await?;
        let after = tokio::time::timeout(patience, auditor.after()).await.map_err(silent)?.map_err(no_audit)?;
        let server = auditor.usage(&before, &after).map_err(no_audit)?;
        let calls = BTreeMap::from([(self.plan.kind.publish().to_ascii_lowercase(), messages)]);
        let audit = server.audit(&Expected::exactly(calls, &[], auditor.masters()));
        if !audit.is_exact() {
            return Err(Failure::Broken(format!("audit failed: {}", audit.deviations.join("; "))));
        }
        Ok(Flooded { delivered: delivered.messages, elapsed: delivered.elapsed, client: delivered.client, server, audit })
    }

    async fn deliver_all(&mut self, messages: u64) -> Result<Delivered, Failure> {
        let plan = &self.plan;
        if self.subscribers.is_empty() {
            return Err(Failure::Broken("the subscribers are of no use after a run that failed".into()));
        }
        let run = fresh_run();
        let subscribers = std::mem::take(&mut self.subscribers);
        let count = subscribers.len();
        let progress = Arc::new(Progress { received: (0..count).map(|_| AtomicU64::new(0)).collect(), bell: Notify::new() });
        let moved = Arc::new(Mutex::new(Instant::now()));
        let mut give_up = Vec::new();
        let mut receiving = Vec::new();
        let snapshot = Snapshot::take();
        for (index, subscriber) in subscribers.into_iter().enumerate() {
            let account = Account::new(RunId::new(run), 0, std::slice::from_ref(&plan.channel), 1, 1);
            let (sender, given_up) = oneshot::channel();
            give_up.push(sender);
            let progress = progress.clone();
            let tell = move |received: u64| {
                progress.received[index].store(received, Ordering::Release);
                progress.bell.notify_one();
            };
            receiving.push(tokio::spawn(receive(subscriber, account, messages, plan.patience, moved.clone(), given_up, tell)));
        }
        *moved.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let start = Instant::now();
        let publishing = tokio::spawn(publish(self.publisher.clone(), plan.clone(), run, messages, progress));
        let abort = publishing.abort_handle();
        let collecting = async {
            let mut all = Vec::with_capacity(count);
            for receiver in receiving {
                all.push(receiver.await.map_err(|panic| Failure::Broken(format!("a subscriber broke off: {panic}")))?);
            }
            Ok::<Vec<Got<S>>, Failure>(all)
        };
        let all = tokio::select! {
            all = tokio::time::timeout(plan.deadline, collecting) => all,
            () = interrupt::wait() => {
                abort.abort();
                return Err(Failure::Broken("interrupted".into()));
            }
        };
        let usage = snapshot.usage();
        drop(give_up);
        // A publisher that still waits will get no further.
        abort.abort();
        let all = all.map_err(|_| Failure::Broken(format!("no end within {:?} (the deadline)", plan.deadline)))??;
        let mut last = start;
        for (index, got) in all.into_iter().enumerate() {
            let Got { subscriber, mut account, last: its_last, error } = got;
            account.settle(|_, _| (messages, Vec::new()));
            let (tally, strays) = (account.tally(), account.strays());
            if tally.received != messages || tally.duplicated > 0 {
                let why = error.map_or_else(|| format!("nothing came for {:?}", plan.patience), |error| error.to_string());
                let why = if strays.lagged > 0 { format!("its client dropped {}", strays.lagged) } else { why };
                let text =
                    format!("subscriber {} got {} of {messages} messages, {} twice: {why}", index + 1, tally.received, tally.duplicated);
                self.subscribers.clear();
                return Err(Failure::Broken(text));
            }
            last = its_last.map_or(last, |its_last| last.max(its_last));
            self.subscribers.push(subscriber);
        }
        // Otherwise it is done, or was ended after its last message had arrived, while it waited for the answer to it.
        if let Ok(Err(error)) = publishing.await {
            return Err(Failure::Broken(format!("the publisher: {error}")));
        }
        Ok(Delivered { messages: messages * count as u64, elapsed: last - start, client: usage })
    }
}

impl<S: Subscriber> Flood for Bound<S> {
    fn deliver(&mut self, messages: u64) -> BoxFuture<'_, Result<Delivered, Failure>> {
        Box::pin(self.deliver_all(messages))
    }

    fn run<'a>(&'a mut self, messages: u64, auditor: &'a mut Auditor) -> BoxFuture<'a, Result<Flooded, Failure>> {
        Box::pin(self.flood(messages, auditor))
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            for subscriber in self.subscribers {
                // A client that does not come to an end is dropped.
                let _ = tokio::time::timeout(Duration::from_secs(2), subscriber.close()).await;
            }
            self.publisher.close().await;
        })
    }
}
