//! `rustis`: one client.

use rustis::client::{Client, ServerConfig};
use rustis::commands::{HashCommands, PubSubCommands, StringCommands};
use rustis::resp::{BulkString, RefBulkString};

use super::cache::{self, RustisCached};
use super::calls::{commands_through, request};
use super::connect;
use super::reply::Each;
use super::subscriber::{self, RustisSubscriber};
use crate::drivers::{
    Applied, CacheSettings, ClientCache, Descriptor, Driver, Error, Lanes, PipelineReach, Resp, Servers, Settings, Subscribe,
    SubscriberSettings, Topology,
};

/// One multiplexing client: one connection, or one to each master of a cluster.
#[derive(Clone)]
pub struct Rustis(pub(super) Client);

impl Rustis {
    fn is_clustered(&self) -> bool {
        matches!(self.0.config().server, ServerConfig::Cluster(_))
    }

    fn lanes(&self) -> Lanes<Self> {
        if self.is_clustered() { Lanes::EachCall } else { Lanes::Handles(vec![self.clone()]) }
    }
}

commands_through!(Rustis, self, take = &self.0, lanes = self.lanes());

impl Subscribe for Rustis {
    type Subscriber = RustisSubscriber;

    async fn subscriber(servers: &Servers, settings: &Settings, options: &SubscriberSettings) -> Result<RustisSubscriber, Error> {
        RustisSubscriber::connect(servers, settings, options).await
    }
}

impl ClientCache for Rustis {
    type Cached = RustisCached;

    async fn cached(servers: &Servers, settings: &Settings, options: &CacheSettings) -> Result<RustisCached, Error> {
        RustisCached::connect(servers, settings, options).await
    }
}

impl Driver for Rustis {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "rustis",
        client: "rustis",
        summary: "one multiplexing client; on a cluster, one connection to each master",
        documentation: "https://docs.rs/rustis/latest/rustis/client/struct.Client.html",
        topologies: &[Topology::Standalone, Topology::Cluster],
        resp: &[Resp::V3],
        connections: |_, _| 1,
        most_connections: 1,
        checkout: &[],
        tells_connections: true,
        applied: Applied::as_asked,
        pipeline_reach: PipelineReach::AnySlot,
        tells_transaction_errors: true,
        pubsub: subscriber::PUBSUB,
        cache: cache::SUPPORT,
        notes: super::NOTES,
    };

    async fn connect(servers: &Servers, settings: &Settings) -> Result<Self, Error> {
        Ok(Self(connect::open(connect::config(servers, settings)?).await?))
    }

    /// The connections end with the last clone: the crate knows no other way.
    async fn close(self) {
        connect::close(self.0).await;
    }

    async fn hand_written(&self, key: &[u8], ops: u64) -> Result<u64, Error> {
        if self.is_clustered() {
            return Err(Error::Unsupported("the hand-written loop is for a standalone server"));
        }
        let mut bytes = 0;
        for _ in 0..ops {
            let value: Option<BulkString> = self.0.get(RefBulkString::new(key)).await?;
            bytes += value.map_or(0, |value| value.len()) as u64;
        }
        Ok(bytes)
    }
}
