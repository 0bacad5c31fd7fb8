//! `raw`: the floor. A minimal RESP writer and reader on bare sockets, written here, that no client can beat by much.
//!
//! With the strategy `native` its connections are shared: commands queue up, and a writer sends whatever is queued
//! ([`Shared`]). With any other strategy they are bare: each exchange has one to itself ([`Pool`]). On a cluster
//! it goes through our own slot routing.
//!
//! It follows <https://redis.io/docs/latest/develop/reference/protocol-spec/>.

mod cache;
mod pool;
mod reply;
mod shared;
mod subscriber;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub use cache::{RawCached, Tracked, TrackedNode};
pub use pool::Pool;
pub use reply::Frame;
pub use shared::Shared;
pub use subscriber::RawSubscriber;

use super::{
    Applied, Buffer, CacheSettings, ClientCache, Command, Commands, Descriptor, Driver, Error, Lanes, PipelineReach, PipelineReplies,
    Pipelines, PubSub, Publish, Resp, ResponseTimeout, Scope, Servers, Settings, Strategy, Subscribe, SubscriberSettings, Topology,
    Transactions, WhenFull,
};
use crate::window::Routed;

/// The response timeout to enforce: none unless one is set (the floor ships without).
fn client_timeout(settings: &Settings) -> Option<Duration> {
    match settings.timeout() {
        ResponseTimeout::After(after) => Some(after),
        ResponseTimeout::CrateDefault | ResponseTimeout::Never => None,
    }
}

async fn limited<T>(timeout: Option<Duration>, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match timeout {
        None => work.await,
        Some(after) => tokio::time::timeout(after, work).await.unwrap_or_else(|_| Err(Error::timed_out(after))),
    }
}

/// Connections to one server.
#[derive(Clone)]
pub enum RawNode {
    /// Multiplexed, taken round robin.
    Shared(Arc<[Shared]>, Arc<AtomicUsize>),
    /// Taken by one exchange at a time.
    Bare(Pool),
    /// The same, each connection by itself, so that a window per connection knows which it uses.
    Separate(Arc<[Pool]>, Arc<AtomicUsize>),
}

/// The raw driver.
#[derive(Clone)]
pub enum Raw {
    /// One server.
    Standalone(RawNode),
    /// One [`RawNode`] for each master.
    Cluster(Routed<RawNode>),
}

/// Runs an expression with whichever connection serves one command.
macro_rules! on_node {
    ($self:expr, $connection:ident => $call:expr) => {
        match $self {
            RawNode::Shared(connections, next) => {
                let $connection = match &connections[..] {
                    [only] => only,
                    many => &many[next.fetch_add(1, Ordering::Relaxed) % many.len()],
                };
                $call
            }
            RawNode::Bare($connection) => $call,
            RawNode::Separate(connections, next) => {
                let $connection = &connections[next.fetch_add(1, Ordering::Relaxed) % connections.len()];
                $call
            }
        }
    };
}

impl Commands for RawNode {
    type Reply = Frame;

    async fn get(&self, key: &[u8]) -> Result<Option<bytes::Bytes>, Error> {
        on_node!(self, connection => super::Reply::into_blob(connection.words(&[b"GET", key]).await?))
    }

    async fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        on_node!(self, connection => super::Reply::into_ok(connection.words(&[b"SET", key, value]).await?))
    }

    async fn hkeys(&self, key: &[u8]) -> Result<Vec<bytes::Bytes>, Error> {
        on_node!(self, connection => super::Reply::into_blobs(connection.words(&[b"HKEYS", key]).await?))
    }

    async fn call(&self, command: &Command) -> Result<Frame, Error> {
        on_node!(self, connection => connection.call(command).await)
    }
}

impl Publish for RawNode {
    async fn publish(&self, channel: &[u8], payload: &[u8]) -> Result<u64, Error> {
        on_node!(self, connection => super::receivers(connection.words(&[b"PUBLISH", channel, payload]).await?))
    }

    async fn spublish(&self, channel: &[u8], payload: &[u8]) -> Result<u64, Error> {
        on_node!(self, connection => super::receivers(connection.words(&[b"SPUBLISH", channel, payload]).await?))
    }
}

impl Pipelines for RawNode {
    async fn pipeline(&self, commands: &[Command]) -> Result<PipelineReplies<Frame>, Error> {
        on_node!(self, connection => connection.pipeline(commands).await)
    }

    fn lanes(&self) -> Lanes<Self> {
        match self {
            RawNode::Bare(_) => Lanes::EachCall,
            RawNode::Separate(connections, _) => Lanes::Handles(connections.iter().cloned().map(RawNode::Bare).collect()),
            RawNode::Shared(connections, _) => {
                Lanes::Handles(connections.iter().map(|one| RawNode::Shared(vec![one.clone()].into(), Arc::default())).collect())
            }
        }
    }
}

impl Transactions for RawNode {
    async fn transaction(&self, commands: &[Command]) -> Result<PipelineReplies<Frame>, Error> {
        on_node!(self, connection => connection.transaction(commands).await)
    }
}

impl RawNode {
    /// Connects to one server.
    ///
    /// # Errors
    /// As [`crate::net::Connection::open`].
    pub async fn connect(endpoint: &crate::net::Endpoint, settings: &Settings) -> Result<Self, Error> {
        if settings.strategy == Strategy::Native {
            let mut connections = Vec::with_capacity(settings.connections.get());
            for _ in 0..settings.connections.get() {
                connections.push(Shared::connect(endpoint, settings).await?);
            }
            Ok(RawNode::Shared(connections.into(), Arc::default()))
        } else if settings.scope == Scope::PerConnection {
            let one = Settings { connections: NonZeroUsize::MIN, ..settings.clone() };
            let mut connections = Vec::with_capacity(settings.connections.get());
            for _ in 0..settings.connections.get() {
                connections.push(Pool::connect(endpoint, &one).await?);
            }
            Ok(RawNode::Separate(connections.into(), Arc::default()))
        } else {
            Ok(RawNode::Bare(Pool::connect(endpoint, settings).await?))
        }
    }

    fn close(&self) {
        match self {
            RawNode::Shared(connections, _) => connections.iter().for_each(Shared::close),
            RawNode::Bare(pool) => pool.close(),
            RawNode::Separate(connections, _) => connections.iter().for_each(Pool::close),
        }
    }
}

/// Passes a call on to the one node or to the routing.
macro_rules! on_topology {
    ($self:expr, $client:ident => $call:expr) => {
        match $self {
            Raw::Standalone($client) => $call,
            Raw::Cluster($client) => $call,
        }
    };
}

impl Commands for Raw {
    type Reply = Frame;

    async fn get(&self, key: &[u8]) -> Result<Option<bytes::Bytes>, Error> {
        on_topology!(self, client => client.get(key).await)
    }

    async fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        on_topology!(self, client => client.set(key, value).await)
    }

    async fn hkeys(&self, key: &[u8]) -> Result<Vec<bytes::Bytes>, Error> {
        on_topology!(self, client => client.hkeys(key).await)
    }

    async fn call(&self, command: &Command) -> Result<Frame, Error> {
        on_topology!(self, client => client.call(command).await)
    }
}

impl Publish for Raw {
    async fn publish(&self, channel: &[u8], payload: &[u8]) -> Result<u64, Error> {
        on_topology!(self, client => client.publish(channel, payload).await)
    }

    async fn spublish(&self, channel: &[u8], payload: &[u8]) -> Result<u64, Error> {
        on_topology!(self, client => client.spublish(channel, payload).await)
    }
}

impl Pipelines for Raw {
    async fn pipeline(&self, commands: &[Command]) -> Result<PipelineReplies<Frame>, Error> {
        on_topology!(self, client => client.pipeline(commands).await)
    }

    fn lanes(&self) -> Lanes<Self> {
        match self {
            Raw::Standalone(node) => match node.lanes() {
                Lanes::EachCall => Lanes::EachCall,
                Lanes::Handles(handles) => Lanes::Handles(handles.into_iter().map(Raw::Standalone).collect()),
            },
            Raw::Cluster(_) => Lanes::EachCall,
        }
    }
}

impl Transactions for Raw {
    async fn transaction(&self, commands: &[Command]) -> Result<PipelineReplies<Frame>, Error> {
        on_topology!(self, client => client.transaction(commands).await)
    }
}

impl Subscribe for Raw {
    type Subscriber = RawSubscriber;

    async fn subscriber(servers: &Servers, settings: &Settings, options: &SubscriberSettings) -> Result<RawSubscriber, Error> {
        RawSubscriber::connect(servers, settings, options).await
    }
}

impl ClientCache for Raw {
    type Cached = RawCached;

    async fn cached(servers: &Servers, settings: &Settings, options: &CacheSettings) -> Result<RawCached, Error> {
        RawCached::connect(servers, settings, options).await
    }
}

impl Driver for Raw {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "raw",
        client: "redis-client-bench",
        summary: "bare sockets, the floor: multiplexed when native, else one exchange at a time on each",
        documentation: "https://redis.io/docs/latest/develop/reference/protocol-spec/",
        topologies: &[Topology::Standalone, Topology::Cluster],
        resp: &[Resp::V2, Resp::V3],
        connections: |settings, _| settings.connections.get(),
        most_connections: usize::MAX,
        checkout: &[],
        tells_connections: true,
        applied: Applied::as_asked,
        pipeline_reach: PipelineReach::AnySlot,
        tells_transaction_errors: true,
        pubsub: PubSub {
            kinds: |_, _, _| Ok(()),
            buffer: Some(Buffer { capacity: None, settable: false, when_full: WhenFull::Waits }),
            way: "a bare socket, read when the subscriber asks for the next message",
            binary_names: true,
            tells_pattern: true,
        },
        cache: cache::CACHE,
        notes: &[],
    };

    async fn connect(servers: &Servers, settings: &Settings) -> Result<Self, Error> {
        match servers.topology {
            Topology::Standalone => RawNode::connect(servers.first(), settings).await.map(Raw::Standalone),
            Topology::Cluster => {
                let settings = settings.clone();
                let connect = move |endpoint| {
                    let settings = settings.clone();
                    async move { RawNode::connect(&endpoint, &settings).await }
                };
                Routed::connect(servers, connect).await.map(Raw::Cluster)
            }
        }
    }

    async fn close(self) {
        match self {
            Raw::Standalone(node) => node.close(),
            Raw::Cluster(routed) => routed.nodes().iter().for_each(RawNode::close),
        }
    }

    async fn hand_written(&self, key: &[u8], ops: u64) -> Result<u64, Error> {
        let Raw::Standalone(node) = self else { return Err(Error::Unsupported("the hand-written loop is for a standalone server")) };
        let mut bytes = 0;
        for _ in 0..ops {
            let frame = on_node!(node, connection => connection.words(&[b"GET", key]).await?);
            bytes += super::Reply::into_blob(frame)?.map_or(0, |value| value.len()) as u64;
        }
        Ok(bytes)
    }
}
