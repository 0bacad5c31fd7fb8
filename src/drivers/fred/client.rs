//! `fred`: one client.

use bytes::Bytes;
use fred::interfaces::{ClientLike, KeysInterface};

use super::api::Client;
use super::cache::{self, FredCached};
use super::connect::{self, Serving};
use super::subscriber::{self, FredSubscriber};
use super::{FredReply, calls};
use crate::drivers::{
    Applied, CacheSettings, ClientCache, Command, Commands, Descriptor, Driver, Error, Lanes, PipelineReach, PipelineReplies, Pipelines,
    Publish, Resp, Servers, Settings, Subscribe, SubscriberSettings, Topology, Transactions,
};

/// One client: one connection, or one to each master of a cluster.
#[derive(Clone)]
pub struct Fred {
    pub(super) client: Client,
    pub(super) _serving: Serving,
}

impl Commands for Fred {
    type Reply = FredReply;

    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Error> {
        calls::get(&self.client, key).await
    }

    async fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        calls::set(&self.client, key, value).await
    }

    async fn hkeys(&self, key: &[u8]) -> Result<Vec<Bytes>, Error> {
        calls::hkeys(&self.client, key).await
    }

    async fn call(&self, command: &Command) -> Result<FredReply, Error> {
        calls::call(&self.client, command).await
    }
}

impl Pipelines for Fred {
    async fn pipeline(&self, commands: &[Command]) -> Result<PipelineReplies<FredReply>, Error> {
        calls::pipeline(&self.client, commands).await
    }

    fn lanes(&self) -> Lanes<Self> {
        if self.client.is_clustered() { Lanes::EachCall } else { Lanes::Handles(vec![self.clone()]) }
    }
}

impl Transactions for Fred {
    async fn transaction(&self, commands: &[Command]) -> Result<PipelineReplies<FredReply>, Error> {
        calls::transaction(&self.client, commands).await
    }
}

impl Publish for Fred {
    async fn publish(&self, channel: &[u8], payload: &[u8]) -> Result<u64, Error> {
        calls::publish(&self.client, channel, payload).await
    }

    async fn spublish(&self, channel: &[u8], payload: &[u8]) -> Result<u64, Error> {
        calls::spublish(&self.client, channel, payload).await
    }
}

impl Subscribe for Fred {
    type Subscriber = FredSubscriber;

    async fn subscriber(servers: &Servers, settings: &Settings, options: &SubscriberSettings) -> Result<FredSubscriber, Error> {
        FredSubscriber::connect(servers, settings, options).await
    }
}

impl ClientCache for Fred {
    type Cached = FredCached;

    async fn cached(servers: &Servers, settings: &Settings, options: &CacheSettings) -> Result<FredCached, Error> {
        FredCached::connect(servers, settings, options).await
    }
}

impl Driver for Fred {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "fred",
        client: "fred",
        summary: "one pipelining client; on a cluster, one connection to each master",
        documentation: "https://docs.rs/fred/latest/fred/clients/struct.Client.html",
        topologies: &[Topology::Standalone, Topology::Cluster],
        resp: &[Resp::V2, Resp::V3],
        connections: |_, _| 1,
        most_connections: 1,
        checkout: &[],
        tells_connections: true,
        applied: Applied::as_asked,
        pipeline_reach: PipelineReach::AnySlot,
        tells_transaction_errors: false,
        pubsub: subscriber::PUBSUB,
        cache: cache::CACHE,
        notes: super::NOTES,
    };

    async fn connect(servers: &Servers, settings: &Settings) -> Result<Self, Error> {
        let client = connect::builder(servers, settings)?.build()?;
        let serving = connect::start(std::slice::from_ref(&client)).await?;
        Ok(Self { client, _serving: serving })
    }

    async fn close(self) {
        connect::quit(std::slice::from_ref(&self.client)).await;
    }

    async fn hand_written(&self, key: &[u8], ops: u64) -> Result<u64, Error> {
        if self.client.is_clustered() {
            return Err(Error::Unsupported("the hand-written loop is for a standalone server"));
        }
        let mut bytes = 0;
        for _ in 0..ops {
            let value: Option<Bytes> = self.client.get(key).await?;
            bytes += value.map_or(0, |value| value.len()) as u64;
        }
        Ok(bytes)
    }
}
