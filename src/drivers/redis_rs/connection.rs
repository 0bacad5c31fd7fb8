//! `redis-rs`: one multiplexed connection.

use redis::aio::MultiplexedConnection;

use super::cache;
use super::subscriber::{self, RedisSubscriber};
use super::{api, commands_through, connect};
use crate::drivers::{
    Applied, Descriptor, Driver, Error, Lanes, PipelineReach, Servers, Settings, Subscribe, SubscriberSettings, Topology,
};

/// One multiplexed connection, cloned for each call as the crate's documentation advises.
#[derive(Clone)]
pub struct RedisRs(pub(super) MultiplexedConnection);

commands_through!(RedisRs, self, connection = self.0.clone(), connection, lanes = Lanes::Handles(vec![self.clone()]));

impl Subscribe for RedisRs {
    type Subscriber = RedisSubscriber;

    async fn subscriber(servers: &Servers, settings: &Settings, options: &SubscriberSettings) -> Result<RedisSubscriber, Error> {
        RedisSubscriber::connect(servers, settings, options).await
    }
}

impl Driver for RedisRs {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "redis-rs",
        client: "redis",
        summary: "one multiplexed connection, shared by all callers",
        documentation: "https://docs.rs/redis/latest/redis/aio/struct.MultiplexedConnection.html",
        topologies: &[Topology::Standalone],
        resp: api::RESP,
        connections: |_, _| 1,
        most_connections: 1,
        checkout: &[],
        tells_connections: true,
        applied: Applied::as_asked,
        pipeline_reach: PipelineReach::AnySlot,
        tells_transaction_errors: api::TELLS_EACH_ERROR,
        pubsub: subscriber::STANDALONE,
        cache: cache::CONNECTION,
        notes: &[
            api::AS_IT_SHIPS,
            "It does not reconnect: after a lost connection every call fails.",
            "A subscriber's messages wait in an unbounded channel: one that is too slow costs memory, not messages.",
        ],
    };

    async fn connect(servers: &Servers, settings: &Settings) -> Result<Self, Error> {
        let client = connect::client(servers.first(), settings)?;
        let config = connect::config(settings);
        connect::limited(async { connect::login(api::open(&client, &config).await) }).await.map(Self)
    }

    /// The connection ends with its last clone: the crate knows no other way.
    async fn close(self) {
        drop(self);
    }

    async fn hand_written(&self, key: &[u8], ops: u64) -> Result<u64, Error> {
        super::hand_written(&mut self.0.clone(), key, ops).await
    }
}
