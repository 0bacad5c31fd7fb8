//! `redis-rs-manager`: one multiplexed connection that reconnects.

use redis::aio::ConnectionManager;
use redis::caching::CacheStatistics;
use tokio::sync::mpsc::unbounded_channel;

use super::cache::{self, MayCache, RedisCached, cache_notes};
use super::subscriber::{self, RedisSubscriber};
use super::{api, commands_through, connect};
use crate::drivers::{
    Applied, CacheSettings, CacheSupport, ClientCache, Descriptor, Driver, Error, Lanes, PipelineReach, PubSub, Resp, Servers, Settings,
    Subscribe, SubscriberSettings, Topology,
};

/// One connection that the crate renews when it is lost.
#[derive(Clone)]
pub struct RedisRsManager(ConnectionManager);

commands_through!(RedisRsManager, self, connection = self.0.clone(), connection, lanes = Lanes::Handles(vec![self.clone()]));

impl Subscribe for RedisRsManager {
    type Subscriber = RedisSubscriber;

    async fn subscriber(servers: &Servers, settings: &Settings, options: &SubscriberSettings) -> Result<RedisSubscriber, Error> {
        Self::DESCRIPTOR.pubsub.check(options.servers(servers).topology, settings.resp)?;
        let client = connect::client(options.servers(servers).first(), settings)?;
        let (sender, pushes) = unbounded_channel();
        let config = connect::manager_config(settings).set_push_sender(sender);
        let connecting = async {
            connect::probe(options.servers(servers).first(), settings).await?;
            connect::login(client.get_connection_manager_with_config(config).await)
        };
        Ok(RedisSubscriber::Manager(connect::limited(connecting).await?, pushes))
    }
}

impl ClientCache for RedisRsManager {
    type Cached = RedisCached<Self>;

    async fn cached(servers: &Servers, settings: &Settings, options: &CacheSettings) -> Result<Self::Cached, Error> {
        let cache = cache::config(servers.topology, settings.resp, options)?;
        let client = connect::client(servers.first(), settings)?;
        let config = connect::manager_config(settings).set_cache_config(cache);
        let connecting = async {
            connect::probe(servers.first(), settings).await?;
            connect::login(client.get_connection_manager_with_config(config).await)
        };
        Ok(RedisCached::new(Self(connect::limited(connecting).await?), options))
    }
}

impl MayCache for RedisRsManager {
    type Connection = ConnectionManager;
    // It first awaits the shared future of its connection, which is done at once but while it connects again.
    const LOOKS_FIRST: bool = true;

    fn connection(&self) -> ConnectionManager {
        self.0.clone()
    }

    fn statistics(&self) -> Option<CacheStatistics> {
        self.0.get_cache_statistics()
    }
}

impl Driver for RedisRsManager {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "redis-rs-manager",
        client: "redis",
        summary: "one multiplexed connection behind the crate's reconnecting ConnectionManager",
        documentation: "https://docs.rs/redis/latest/redis/aio/struct.ConnectionManager.html",
        topologies: &[Topology::Standalone],
        resp: &[Resp::V2, Resp::V3],
        connections: |_, _| 1,
        most_connections: 1,
        checkout: &[],
        tells_connections: true,
        applied: Applied::as_asked,
        pipeline_reach: PipelineReach::AnySlot,
        tells_transaction_errors: api::TELLS_EACH_ERROR,
        pubsub: PubSub {
            kinds: |topology, resp, kind| match resp {
                Resp::V2 => Err("a ConnectionManager receives messages with RESP3 only"),
                Resp::V3 => (subscriber::STANDALONE.kinds)(topology, resp, kind),
            },
            way: "a ConnectionManager of its own with set_push_sender",
            ..subscriber::STANDALONE
        },
        cache: CacheSupport {
            notes: cache_notes![
                "What it has cached over a connection is not served once it has another; each such entry is dropped, and counted as invalidated, when it is next asked for.",
            ],
            ..cache::SUPPORT
        },
        notes: &[
            api::AS_IT_SHIPS,
            "After a lost connection calls wait for the reconnection, which gives up after 6 tries (at most 6.3 s); both profiles keep that.",
            "A subscriber reconnects by itself, as it ships without its subscriptions; the driver calls it lost at the crate's Disconnection push.",
        ],
    };

    async fn connect(servers: &Servers, settings: &Settings) -> Result<Self, Error> {
        let client = connect::client(servers.first(), settings)?;
        let connecting = async {
            connect::probe(servers.first(), settings).await?;
            connect::login(client.get_connection_manager_with_config(connect::manager_config(settings)).await)
        };
        connect::limited(connecting).await.map(Self)
    }

    /// The connection ends with its last clone: the crate knows no other way.
    async fn close(self) {
        drop(self);
    }

    async fn hand_written(&self, key: &[u8], ops: u64) -> Result<u64, Error> {
        super::hand_written(&mut self.0.clone(), key, ops).await
    }
}
