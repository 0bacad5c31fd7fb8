//! `redis-rs-pool`: several multiplexed connections, taken round robin.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use super::subscriber::{self, RedisSubscriber};
use super::{api, commands_through, connect};
use crate::drivers::{
    Applied, CacheSettings, CacheSupport, ClientCache, Descriptor, Driver, Error, Lanes, NoCache, PipelineReach, Servers, Settings,
    Subscribe, SubscriberSettings, Topology,
};

/// Multiplexed connections; each call takes the next one.
#[derive(Clone)]
pub struct RedisRsPool {
    connections: Arc<[MultiplexedConnection]>,
    next: Arc<AtomicUsize>,
}

impl RedisRsPool {
    fn new(connections: Vec<MultiplexedConnection>) -> Self {
        Self { connections: connections.into(), next: Arc::default() }
    }

    fn next(&self) -> &MultiplexedConnection {
        &self.connections[self.next.fetch_add(1, Ordering::Relaxed) % self.connections.len()]
    }

    fn lanes(&self) -> Lanes<Self> {
        Lanes::Handles(self.connections.iter().map(|one| Self::new(vec![one.clone()])).collect())
    }
}

commands_through!(RedisRsPool, self, connection = self.next().clone(), connection, lanes = self.lanes());

impl Subscribe for RedisRsPool {
    type Subscriber = RedisSubscriber;

    async fn subscriber(servers: &Servers, settings: &Settings, options: &SubscriberSettings) -> Result<RedisSubscriber, Error> {
        RedisSubscriber::connect(servers, settings, options).await
    }
}

impl ClientCache for RedisRsPool {
    type Cached = NoCache;

    async fn cached(servers: &Servers, settings: &Settings, options: &CacheSettings) -> Result<NoCache, Error> {
        Self::DESCRIPTOR.cache.refuse(servers.topology, settings.resp, options)
    }
}

impl Driver for RedisRsPool {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "redis-rs-pool",
        client: "redis",
        summary: "multiplexed connections, each call on the next one",
        documentation: "https://docs.rs/redis/latest/redis/aio/struct.MultiplexedConnection.html",
        topologies: &[Topology::Standalone],
        resp: api::RESP,
        connections: |settings, _| settings.connections.get(),
        most_connections: usize::MAX,
        checkout: &[],
        tells_connections: true,
        applied: Applied::as_asked,
        pipeline_reach: PipelineReach::AnySlot,
        tells_transaction_errors: api::TELLS_EACH_ERROR,
        pubsub: subscriber::STANDALONE,
        cache: CacheSupport::none(|_, _, _, _| Err("each connection of this pool would have a cache of its own; measure redis-rs")),
        notes: &[
            api::AS_IT_SHIPS,
            "The round robin is ours: the crate has no pool of multiplexed connections.",
            "It does not reconnect: after a lost connection every call on it fails.",
        ],
    };

    async fn connect(servers: &Servers, settings: &Settings) -> Result<Self, Error> {
        let client = connect::client(servers.first(), settings)?;
        let config = connect::config(settings);
        let connecting = async {
            let mut connections = Vec::with_capacity(settings.connections.get());
            for _ in 0..settings.connections.get() {
                connections.push(connect::login(api::open(&client, &config).await)?);
            }
            Ok(Self::new(connections))
        };
        connect::limited(connecting).await
    }

    /// Each connection ends with its last clone: the crate knows no other way.
    async fn close(self) {
        drop(self);
    }

    async fn hand_written(&self, key: &[u8], ops: u64) -> Result<u64, Error> {
        // The turn is shared by all callers, as in any pool: turns of their own would have them meet on one connection.
        let (pool, turn, mut bytes) = (&self.connections, &self.next, 0);
        for _ in 0..ops {
            let mut connection = pool[turn.fetch_add(1, Ordering::Relaxed) % pool.len()].clone();
            let value: Option<Vec<u8>> = connection.get(key).await?;
            bytes += value.map_or(0, |value| value.len()) as u64;
        }
        Ok(bytes)
    }
}
