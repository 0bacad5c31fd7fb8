//! `redis-rs-cluster`: the crate's own cluster client.

use redis::caching::CacheStatistics;
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use tokio::sync::mpsc::unbounded_channel;

use super::cache::{self, MayCache, RedisCached, cache_notes};
use super::subscriber::{self, RedisSubscriber};
use super::{api, commands_through, connect};
use crate::drivers::{
    Applied, CacheSettings, CacheSupport, ClientCache, Descriptor, Driver, Error, Lanes, PipelineReach, Profile, PubSub, Resp,
    ResponseTimeout, Servers, Settings, Subscribe, SubscriberSettings, Topology,
};

/// One connection to each master, behind one task that routes.
#[derive(Clone)]
pub struct RedisRsCluster(ClusterConnection);

commands_through!(RedisRsCluster, self, connection = self.0.clone(), connection, lanes = Lanes::EachCall);

fn builder(servers: &Servers, settings: &Settings) -> Result<ClusterClientBuilder, Error> {
    let seeds = servers.endpoints.iter().map(|endpoint| connect::info(endpoint, settings)).collect::<Result<Vec<_>, _>>()?;
    let mut builder = api::cluster(ClusterClientBuilder::new(seeds), settings);
    #[cfg(feature = "tls")]
    if let Some(certificates) = connect::certificates(servers.first())? {
        builder = builder.certs(certificates);
    }
    if settings.profile == Profile::Tuned {
        // As it ships a command is retried 16 times with up to 11 minutes between two tries.
        builder = builder.connection_timeout(connect::CONNECTION_TIMEOUT).retries(3).min_retry_wait(10).max_retry_wait(500);
    }
    Ok(match settings.timeout() {
        // The cluster client ships without a response timeout, and has no call to remove one.
        ResponseTimeout::CrateDefault | ResponseTimeout::Never => builder,
        ResponseTimeout::After(after) => builder.response_timeout(after),
    })
}

impl Subscribe for RedisRsCluster {
    type Subscriber = RedisSubscriber;

    async fn subscriber(servers: &Servers, settings: &Settings, options: &SubscriberSettings) -> Result<RedisSubscriber, Error> {
        let servers = options.servers(servers);
        Self::DESCRIPTOR.pubsub.check(servers.topology, settings.resp)?;
        if servers.topology == Topology::Standalone {
            return RedisSubscriber::connect(&servers, settings, &SubscriberSettings::default()).await;
        }
        let (sender, pushes) = unbounded_channel();
        let client = builder(&servers, settings)?.push_sender(sender).build()?;
        let connection = connect::limited(async { connect::login(client.get_async_connection().await) }).await?;
        Ok(RedisSubscriber::Cluster(connection, pushes))
    }
}

impl ClientCache for RedisRsCluster {
    type Cached = RedisCached<Self>;

    async fn cached(servers: &Servers, settings: &Settings, options: &CacheSettings) -> Result<Self::Cached, Error> {
        let cache = cache::config(servers.topology, settings.resp, options)?;
        let client = builder(servers, settings)?.cache_config(cache).build()?;
        let connecting = async { connect::login(client.get_async_connection().await) };
        Ok(RedisCached::new(Self(connect::limited(connecting).await?), options))
    }
}

impl MayCache for RedisRsCluster {
    type Connection = ClusterConnection;
    // Each command goes through a channel to the task that routes, and that task looks into the cache.
    const LOOKS_FIRST: bool = false;

    fn connection(&self) -> ClusterConnection {
        self.0.clone()
    }

    fn statistics(&self) -> Option<CacheStatistics> {
        self.0.get_cache_statistics()
    }
}

impl Driver for RedisRsCluster {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "redis-rs-cluster",
        client: "redis",
        summary: "the crate's async cluster client, one multiplexed connection to each master",
        documentation: "https://docs.rs/redis/latest/redis/cluster_async/index.html",
        topologies: &[Topology::Cluster],
        resp: &[Resp::V2, Resp::V3],
        connections: |_, _| 1,
        most_connections: 1,
        checkout: &[],
        tells_connections: false,
        applied: Applied::as_asked,
        pipeline_reach: PipelineReach::OneSlot,
        tells_transaction_errors: api::TELLS_EACH_ERROR,
        pubsub: PubSub {
            kinds: |topology, resp, kind| match (topology, resp) {
                (Topology::Standalone, _) => (subscriber::STANDALONE.kinds)(topology, resp, kind),
                (Topology::Cluster, Resp::V2) => Err("a ClusterConnection receives messages with RESP3 only"),
                (Topology::Cluster, Resp::V3) => Ok(()),
            },
            way: "a ClusterConnection of its own with push_sender; at a chosen node as redis-rs",
            ..subscriber::STANDALONE
        },
        cache: CacheSupport {
            notes: cache_notes![
                "Every read goes through a channel to the one routing task, hits too, and that task looks into the cache: a hit costs the way there and back, and nobody can tell of one read whether it was one, only how many there were.",
                "One cache for all nodes; entries of a node's lost connection are not served by its next, and a FLUSHALL of one node empties the cache of all.",
            ],
            ..cache::SUPPORT
        },
        notes: &[
            "Its queues can't be changed: 100 requests to the one routing task, 50 to each node. More callers wait in them, also when tuned.",
            "As it ships: TCP_NODELAY off, no response timeout (unlike the crate's other connections), 16 retries up to 11 minutes apart; tuned: 3 retries at most 0.5 s apart.",
            "Its SUBSCRIBE, PSUBSCRIBE and their ends go to the node of their first name's slot, so the driver sends one name in each: an UNSUBSCRIBE of part of a SUBSCRIBE would reach another node.",
            "A subscriber reconnects and subscribes again by itself, without what was published meanwhile; the driver calls it lost at the crate's Disconnection push.",
        ],
    };

    async fn connect(servers: &Servers, settings: &Settings) -> Result<Self, Error> {
        let client = builder(servers, settings)?.build()?;
        connect::limited(async { connect::login(client.get_async_connection().await) }).await.map(Self)
    }

    /// The connections end with the last clone: the crate knows no other way.
    async fn close(self) {
        drop(self);
    }

    async fn hand_written(&self, _: &[u8], _: u64) -> Result<u64, Error> {
        Err(Error::Unsupported("the hand-written loop is for a standalone server"))
    }
}
