//! The pipeline window: commands of many callers collected into explicit pipelines, around any client.
//!
//! [`Window`] wraps whatever implements [`Pipelines`], be it one of our drivers or a client of
//! your own, and is itself used like one. [`Routed`] spreads commands over the nodes of a cluster, each with a client (or
//! a window) of its own. Never sees a workload, never names a client crate.
//!
//! The semantics of [`Strategy::Window`] are those of
//! [radix v3](https://github.com/mediocregopher/radix/blob/v3/pipeliner.go):
//!
//! * the first command that finds the queue empty arms the window;
//! * the batch is closed when the window ends, when it holds `limit` commands, or when the window is closed;
//! * a closed batch waits until fewer than `in_flight` batches are under way; what arrives meanwhile forms the next batch,
//!   whose window begins when the previous batch has left;
//! * blocking commands, transactions, subscriptions and explicit pipelines pass by and take a connection alone, for that
//!   call; what must stay on one connection (`MULTI` … `EXEC`) is sent as one explicit pipeline;
//! * a window of zero is off: each command takes a connection alone.
//!
//! ```no_run
//! # async fn example() -> Result<(), redis_client_bench::error::Error> {
//! use std::time::Duration;
//! use redis_client_bench::drivers::{Commands, Driver, Servers, Settings, Strategy, raw::Raw};
//! use redis_client_bench::net::Endpoint;
//! use redis_client_bench::window::Window;
//!
//! let strategy = Strategy::window(Duration::from_micros(75), 0);
//! let settings = Settings { strategy, ..Settings::default() };
//! let client = Raw::connect(&Servers::standalone(Endpoint::tcp("127.0.0.1", 6379)), &settings).await?;
//! let window = Window::new(client, &settings)?;
//! window.set(b"key", b"value").await?;
//! window.close().await;
//! # Ok(())
//! # }
//! ```

mod batch;
mod exclusive;
mod queue;
mod routed;
mod timer;

#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use exclusive::Exclusive;
pub use queue::Flushes;
pub use routed::Routed;
pub(crate) use routed::{SlotRange, slot_ranges};
pub use timer::{Clock, Precise, Timer};

use crate::drivers::{
    Blob, Command, Commands, Error, Lanes, PipelineReplies, Pipelines, Publish, Reply, Scope, Settings, Strategy, receivers,
};
use queue::Queue;

/// A client behind a pipeline window. Cheap to clone; all clones share the same window.
///
/// A caller that drops its future loses its own reply and nothing else. An error reply goes to the caller whose command it
/// answers; the failure of a whole batch goes to each of its callers.
pub struct Window<C: Pipelines, K: Clock = Precise>(Arc<Inner<C, K>>);

struct Inner<C: Pipelines, K: Clock> {
    /// One queue for the pool, or one per connection. Empty when the strategy is `off`.
    queues: Vec<Queue<C, K>>,
    next: AtomicUsize,
    /// For what takes a connection alone, when there is no queue.
    exclusive: Exclusive<C>,
}

impl<C: Pipelines, K: Clock> Clone for Window<C, K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C: Pipelines> Window<C> {
    /// Puts `client` behind the strategy, scope and number of batches in flight that `settings` name.
    /// Must be called inside a tokio runtime, on which the batches will run.
    ///
    /// # Errors
    /// [`Error::Client`] for the strategy `native`, and when the operating system has no timer to give; [`Error::Unsupported`] for a window per connection
    /// over a client that can't say which connection it uses.
    pub fn new(client: C, settings: &Settings) -> Result<Self, Error> {
        Self::with_clock(client, settings, &Precise)
    }
}

impl<C: Pipelines, K: Clock> Window<C, K> {
    /// As [`Window::new`], with another clock: tests control it.
    ///
    /// # Errors
    /// As [`Window::new`].
    pub fn with_clock(client: C, settings: &Settings, clock: &K) -> Result<Self, Error> {
        if settings.strategy == Strategy::Native {
            return Err(Error::Client("a pipeline window needs the strategy window, idle or off, not native".into()));
        }
        let lanes = client.lanes();
        let connections = match &lanes {
            Lanes::EachCall => settings.connections,
            Lanes::Handles(handles) => NonZeroUsize::new(handles.len()).unwrap_or(NonZeroUsize::MIN),
        };
        let in_flight = settings.in_flight.map_or(connections, |asked| asked.min(connections));
        let queues = match (settings.strategy, settings.scope, &lanes) {
            (Strategy::Native | Strategy::Off, ..) => Vec::new(),
            (strategy, Scope::Shared, _) => {
                let exclusive = Exclusive::new(client.clone(), client.lanes(), in_flight);
                vec![Queue::start(exclusive, strategy, clock)?]
            }
            (strategy, Scope::PerConnection, Lanes::Handles(handles)) => {
                let one = |lane: &C| {
                    let exclusive = Exclusive::new(lane.clone(), Lanes::Handles(vec![lane.clone()]), NonZeroUsize::MIN);
                    Queue::start(exclusive, strategy, clock)
                };
                handles.iter().map(one).collect::<Result<_, _>>()?
            }
            (_, Scope::PerConnection, Lanes::EachCall) => {
                return Err(Error::Unsupported("a window per connection: this pool does not say which connection it uses"));
            }
        };
        let exclusive = Exclusive::new(client, lanes, connections);
        Ok(Self(Arc::new(Inner { queues, next: AtomicUsize::new(0), exclusive })))
    }

    fn queue(&self) -> Option<&Queue<C, K>> {
        match &self.0.queues[..] {
            [] => None,
            [only] => Some(only),
            many => Some(&many[self.0.next.fetch_add(1, Ordering::Relaxed) % many.len()]),
        }
    }

    /// How many batches were sent so far, and why each was closed.
    #[must_use]
    pub fn flushes(&self) -> Flushes {
        self.0.queues.iter().map(Queue::flushes).fold(Flushes::default(), |sum, one| sum + one)
    }

    /// Sends what waits, waits for all batches under way, and refuses further commands.
    pub async fn close(&self) {
        for queue in &self.0.queues {
            queue.close().await;
        }
        self.0.exclusive.close().await;
    }

    /// The connections behind the window, for what must have one alone.
    fn alone(&self) -> &Exclusive<C> {
        self.queue().map_or(&self.0.exclusive, Queue::exclusive)
    }
}

impl<C: Pipelines, K: Clock> Commands for Window<C, K> {
    type Reply = C::Reply;

    async fn get(&self, key: &[u8]) -> Result<Option<Blob<Self>>, Error> {
        match self.queue() {
            Some(queue) => queue.call(Command::get(key)).await?.into_blob(),
            None => self.0.exclusive.with(async |client| client.get(key).await).await,
        }
    }

    async fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        match self.queue() {
            Some(queue) => queue.call(Command::set(key, value)).await?.into_ok(),
            None => self.0.exclusive.with(async |client| client.set(key, value).await).await,
        }
    }

    async fn hkeys(&self, key: &[u8]) -> Result<Vec<Blob<Self>>, Error> {
        match self.queue() {
            Some(queue) => queue.call(Command::hkeys(key)).await?.into_blobs(),
            None => self.0.exclusive.with(async |client| client.hkeys(key).await).await,
        }
    }

    async fn call(&self, command: &Command) -> Result<C::Reply, Error> {
        match self.queue() {
            Some(queue) if command.is_batchable() => queue.call(command.clone()).await,
            _ => self.alone().with(async |client| client.call(command).await).await,
        }
    }
}

/// In the queue it is a command like any other; where each takes a connection alone, the client's typed call.
impl<C: Pipelines + Publish, K: Clock> Publish for Window<C, K> {
    async fn publish(&self, channel: &[u8], payload: &[u8]) -> Result<u64, Error> {
        match self.queue() {
            Some(queue) => receivers(queue.call(Command::new("PUBLISH").arg(channel).arg(payload)).await?),
            None => self.0.exclusive.with(async |client| client.publish(channel, payload).await).await,
        }
    }

    async fn spublish(&self, channel: &[u8], payload: &[u8]) -> Result<u64, Error> {
        match self.queue() {
            Some(queue) => receivers(queue.call(Command::new("SPUBLISH").arg(channel).arg(payload)).await?),
            None => self.0.exclusive.with(async |client| client.spublish(channel, payload).await).await,
        }
    }
}

impl<C: Pipelines, K: Clock> Pipelines for Window<C, K> {
    async fn pipeline(&self, commands: &[Command]) -> Result<PipelineReplies<C::Reply>, Error> {
        self.alone().with(async |client| client.pipeline(commands).await).await
    }

    fn lanes(&self) -> Lanes<Self> {
        Lanes::EachCall
    }
}
