//! `redis-rs`: one multiplexed connection.

use redis::aio::MultiplexedConnection;
use redis::caching::CacheStatistics;

use super::cache::{self, MayCache, RedisCached, cache_notes};
use super::subscriber::{self, RedisSubscriber};
use super::{api, commands_through, connect};
use crate::drivers::{
    Applied, CacheSettings, CacheSupport, ClientCache, Descriptor, Driver, Error, Lanes, PipelineReach, Resp, Servers, Settings, Subscribe,
    SubscriberSettings, Topology,
};

/// One multiplexed connection, cloned for each call as the crate's documentation advises.
#[derive(Clone)]
pub struct RedisRs(MultiplexedConnection);

commands_through!(RedisRs, self, connection = self.0.clone(), connection, lanes = Lanes::Handles(vec![self.clone()]));

impl Subscribe for RedisRs {
    type Subscriber = RedisSubscriber;

    async fn subscriber(servers: &Servers, settings: &Settings, options: &SubscriberSettings) -> Result<RedisSubscriber, Error> {
        RedisSubscriber::connect(servers, settings, options).await
    }
}

impl ClientCache for RedisRs {
    type Cached = RedisCached<Self>;

    async fn cached(servers: &Servers, settings: &Settings, options: &CacheSettings) -> Result<Self::Cached, Error> {
        let cache = cache::config(servers.topology, settings.resp, options)?;
        let client = connect::client(servers.first(), settings)?;
        let config = connect::config(settings).set_cache_config(cache);
        let connecting = async { connect::login(client.get_multiplexed_async_connection_with_config(&config).await) };
        Ok(RedisCached::new(Self(connect::limited(connecting).await?), options))
    }
}

impl MayCache for RedisRs {
    type Connection = MultiplexedConnection;
    const LOOKS_FIRST: bool = true;

    fn connection(&self) -> MultiplexedConnection {
        self.0.clone()
    }

    fn statistics(&self) -> Option<CacheStatistics> {
        self.0.get_cache_statistics()
    }
}

impl Driver for RedisRs {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "redis-rs",
        client: "redis",
        summary: "one multiplexed connection, shared by all callers",
        documentation: "https://docs.rs/redis/latest/redis/aio/struct.MultiplexedConnection.html",
        topologies: &[Topology::Standalone],
        resp: &[Resp::V2, Resp::V3],
        connections: |_, _| 1,
        most_connections: 1,
        checkout: &[],
        tells_connections: true,
        applied: Applied::as_asked,
        pipeline_reach: PipelineReach::AnySlot,
        tells_transaction_errors: api::TELLS_EACH_ERROR,
        pubsub: subscriber::STANDALONE,
        cache: CacheSupport {
            reconnects: false,
            notes: cache_notes![
                "After its connection is lost it goes on serving hits, which nobody invalidates any more, until their TTL; misses and everything else fail.",
            ],
            ..cache::SUPPORT
        },
        notes: &[
            api::AS_IT_SHIPS,
            "It does not reconnect: after a lost connection every call fails.",
            "A subscriber's messages wait in an unbounded channel: one that is too slow costs memory, not messages.",
        ],
    };

    async fn connect(servers: &Servers, settings: &Settings) -> Result<Self, Error> {
        let client = connect::client(servers.first(), settings)?;
        let config = connect::config(settings);
        connect::limited(async { connect::login(client.get_multiplexed_async_connection_with_config(&config).await) }).await.map(Self)
    }

    /// The connection ends with its last clone: the crate knows no other way.
    async fn close(self) {
        drop(self);
    }

    async fn hand_written(&self, key: &[u8], ops: u64) -> Result<u64, Error> {
        super::hand_written(&mut self.0.clone(), key, ops).await
    }
}
