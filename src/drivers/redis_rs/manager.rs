//! `redis-rs-manager`: one multiplexed connection that reconnects.

use redis::aio::ConnectionManager;

use super::cache;
use super::subscriber;
use super::{api, commands_through, connect};
use crate::drivers::{Applied, Descriptor, Driver, Error, Lanes, PipelineReach, Servers, Settings, Topology};

/// One connection that the crate renews when it is lost.
#[derive(Clone)]
pub struct RedisRsManager(pub(super) ConnectionManager);

commands_through!(RedisRsManager, self, connection = self.0.clone(), connection, lanes = Lanes::Handles(vec![self.clone()]));

impl Driver for RedisRsManager {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "redis-rs-manager",
        client: "redis",
        summary: "one multiplexed connection behind the crate's reconnecting ConnectionManager",
        documentation: "https://docs.rs/redis/latest/redis/aio/struct.ConnectionManager.html",
        topologies: &[Topology::Standalone],
        resp: api::RESP,
        connections: |_, _| 1,
        most_connections: 1,
        checkout: &[],
        tells_connections: true,
        applied: Applied::as_asked,
        pipeline_reach: PipelineReach::AnySlot,
        tells_transaction_errors: api::TELLS_EACH_ERROR,
        pubsub: subscriber::MANAGER,
        cache: cache::MANAGER,
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
            connect::login(api::open_manager(client, connect::manager_config(settings)).await)
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
