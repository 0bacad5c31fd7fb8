//! `redis-rs-cluster`: the crate's own cluster client.

use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;

use super::cache;
use super::subscriber;
use super::{api, commands_through, connect};
use crate::drivers::{Applied, Descriptor, Driver, Error, Lanes, PipelineReach, Profile, ResponseTimeout, Servers, Settings, Topology};

/// One connection to each master, behind one task that routes.
#[derive(Clone)]
pub struct RedisRsCluster(pub(super) ClusterConnection);

commands_through!(RedisRsCluster, self, connection = self.0.clone(), connection, lanes = Lanes::EachCall);

pub(super) fn builder(servers: &Servers, settings: &Settings) -> Result<ClusterClientBuilder, Error> {
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

impl Driver for RedisRsCluster {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "redis-rs-cluster",
        client: "redis",
        summary: "the crate's async cluster client, one multiplexed connection to each master",
        documentation: "https://docs.rs/redis/latest/redis/cluster_async/index.html",
        topologies: &[Topology::Cluster],
        resp: api::RESP,
        connections: |_, _| 1,
        most_connections: 1,
        checkout: &[],
        tells_connections: false,
        applied: Applied::as_asked,
        pipeline_reach: PipelineReach::OneSlot,
        tells_transaction_errors: api::TELLS_EACH_ERROR,
        pubsub: subscriber::CLUSTER,
        cache: cache::CLUSTER,
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
