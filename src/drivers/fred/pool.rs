//! `fred-pool`: several clients, taken round robin.

use bytes::Bytes;
use fred::interfaces::{ClientLike, KeysInterface};

use super::api::{Client, Pool};
use super::connect::{self, Serving};
use super::subscriber::{self, FredSubscriber};
use super::{FredReply, calls};
use crate::drivers::{
    Applied, CacheSettings, CacheSupport, ClientCache, Command, Commands, Descriptor, Driver, Error, Lanes, NoCache, PipelineReach,
    PipelineReplies, Pipelines, Publish, Resp, Servers, Settings, Subscribe, SubscriberSettings, Topology, Transactions,
};

/// The crate's round-robin pool; each call takes the next client.
#[derive(Clone)]
pub struct FredPool {
    pool: Pool,
    serving: Serving,
}

impl Commands for FredPool {
    type Reply = FredReply;

    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Error> {
        calls::get(self.pool.next(), key).await
    }

    async fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        calls::set(self.pool.next(), key, value).await
    }

    async fn hkeys(&self, key: &[u8]) -> Result<Vec<Bytes>, Error> {
        calls::hkeys(self.pool.next(), key).await
    }

    async fn call(&self, command: &Command) -> Result<FredReply, Error> {
        calls::call(self.pool.next(), command).await
    }
}

impl Pipelines for FredPool {
    async fn pipeline(&self, commands: &[Command]) -> Result<PipelineReplies<FredReply>, Error> {
        calls::pipeline(self.pool.next(), commands).await
    }

    fn lanes(&self) -> Lanes<Self> {
        if self.pool.next().is_clustered() {
            return Lanes::EachCall;
        }
        let one = |client: &Client| {
            let pool = Pool::from_clients(vec![client.clone()]).expect("a pool of one is not empty");
            Self { pool, serving: self.serving.clone() }
        };
        Lanes::Handles(self.pool.clients().iter().map(one).collect())
    }
}

impl Transactions for FredPool {
    async fn transaction(&self, commands: &[Command]) -> Result<PipelineReplies<FredReply>, Error> {
        calls::transaction(self.pool.next(), commands).await
    }
}

impl Publish for FredPool {
    async fn publish(&self, channel: &[u8], payload: &[u8]) -> Result<u64, Error> {
        calls::publish(self.pool.next(), channel, payload).await
    }

    async fn spublish(&self, channel: &[u8], payload: &[u8]) -> Result<u64, Error> {
        calls::spublish(self.pool.next(), channel, payload).await
    }
}

impl Subscribe for FredPool {
    type Subscriber = FredSubscriber;

    async fn subscriber(servers: &Servers, settings: &Settings, options: &SubscriberSettings) -> Result<FredSubscriber, Error> {
        FredSubscriber::connect(servers, settings, options).await
    }
}

impl ClientCache for FredPool {
    type Cached = NoCache;

    async fn cached(servers: &Servers, settings: &Settings, options: &CacheSettings) -> Result<NoCache, Error> {
        Self::DESCRIPTOR.cache.refuse(servers.topology, settings.resp, options)
    }
}

impl Driver for FredPool {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "fred-pool",
        client: "fred",
        summary: "round-robin pool of pipelining clients; on a cluster, each with a connection to every master",
        documentation: "https://docs.rs/fred/latest/fred/clients/struct.Pool.html",
        topologies: &[Topology::Standalone, Topology::Cluster],
        resp: &[Resp::V2, Resp::V3],
        connections: |settings, _| settings.connections.get(),
        most_connections: usize::MAX,
        checkout: &[],
        tells_connections: true,
        applied: Applied::as_asked,
        pipeline_reach: PipelineReach::AnySlot,
        tells_transaction_errors: false,
        pubsub: subscriber::PUBSUB,
        cache: CacheSupport::none(|_, _, _, _| Err("each client of this pool would need tracking and a cache of its own; measure fred")),
        notes: super::NOTES,
    };

    async fn connect(servers: &Servers, settings: &Settings) -> Result<Self, Error> {
        let pool = connect::builder(servers, settings)?.build_pool(settings.connections.get())?;
        let serving = connect::start(pool.clients()).await?;
        Ok(Self { pool, serving })
    }

    async fn close(self) {
        connect::quit(self.pool.clients()).await;
    }

    async fn hand_written(&self, key: &[u8], ops: u64) -> Result<u64, Error> {
        if self.pool.next().is_clustered() {
            return Err(Error::Unsupported("the hand-written loop is for a standalone server"));
        }
        let mut bytes = 0;
        for _ in 0..ops {
            let value: Option<Bytes> = self.pool.next().get(key).await?;
            bytes += value.map_or(0, |value| value.len()) as u64;
        }
        Ok(bytes)
    }
}
