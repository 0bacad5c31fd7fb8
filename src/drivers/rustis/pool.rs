//! `rustis-pool`: a checkout pool of exclusive clients.

use futures_util::future::try_join_all;
use rustis::bb8::Pool;
use rustis::client::PooledClientManager;
use rustis::commands::{HashCommands, PubSubCommands, StringCommands};
use rustis::resp::{BulkString, RefBulkString};

use super::calls::{commands_through, request};
use super::connect;
use super::error::login_error;
use super::reply::Each;
use super::subscriber::{self, RustisSubscriber};
use crate::drivers::{
    Applied, CacheSettings, CacheSupport, ClientCache, Descriptor, Driver, Error, Lanes, NoCache, PipelineReach, Resp, Servers, Settings,
    Subscribe, SubscriberSettings, Topology,
};

/// The crate's manager in a bb8 pool: a client belongs to one call at a time.
#[derive(Clone)]
pub struct RustisPool {
    pool: Pool<PooledClientManager>,
    topology: Topology,
}

commands_through!(RustisPool, self, take = self.pool.get().await?, lanes = Lanes::EachCall);

impl Subscribe for RustisPool {
    type Subscriber = RustisSubscriber;

    async fn subscriber(servers: &Servers, settings: &Settings, options: &SubscriberSettings) -> Result<RustisSubscriber, Error> {
        RustisSubscriber::connect(servers, settings, options).await
    }
}

impl ClientCache for RustisPool {
    type Cached = NoCache;

    async fn cached(servers: &Servers, settings: &Settings, options: &CacheSettings) -> Result<NoCache, Error> {
        Self::DESCRIPTOR.cache.refuse(servers.topology, settings.resp, options)
    }
}

impl Driver for RustisPool {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "rustis-pool",
        client: "rustis",
        summary: "checkout pool (bb8) of exclusive clients; on a cluster, each with a connection to every master",
        documentation: "https://docs.rs/rustis/latest/rustis/client/struct.PooledClientManager.html",
        topologies: &[Topology::Standalone, Topology::Cluster],
        resp: &[Resp::V3],
        connections: |settings, _| settings.connections.get(),
        most_connections: usize::MAX,
        checkout: &["ping"],
        tells_connections: false,
        applied: Applied::as_asked,
        pipeline_reach: PipelineReach::AnySlot,
        tells_transaction_errors: true,
        pubsub: subscriber::PUBSUB,
        cache: CacheSupport::none(|_, _, _, _| {
            Err("each client of this pool would need tracking and a cache of its own, and a checkout in front of each read; measure rustis")
        }),
        notes: &[
            "Every checkout sends PING and waits for it (test_on_check_out, as bb8 ships); on a cluster to every master.",
            "Callers wait at most 30 s for a connection, as bb8 ships: so long does it take to report a lost server, without its reason.",
            "The rest is as with rustis, whose notes hold for each client of the pool and for its subscribers.",
            super::NOTES[0],
            super::NOTES[1],
        ],
    };

    async fn connect(servers: &Servers, settings: &Settings) -> Result<Self, Error> {
        let connections = settings.connections.get();
        let size = u32::try_from(connections).map_err(|_| Error::Client("bb8 holds at most 4,294,967,295 connections".into()))?;
        let config = connect::config(servers, settings)?;
        let connecting = async {
            // bb8 tries for 30 s, and says then that it was too long.
            connect::close(connect::open(config.clone()).await?).await;
            let manager = PooledClientManager::new(config)?;
            let pool = Pool::builder().max_size(size).min_idle(size).build(manager).await.map_err(login_error)?;
            // All are checked out at once, so all are open and tested; then they go back together.
            drop(try_join_all((0..connections).map(|_| pool.get())).await?);
            Ok(Self { pool, topology: servers.topology })
        };
        connect::limited(connecting).await
    }

    /// The connections end with the last clone of the pool: the crate knows no other way.
    async fn close(self) {
        drop(self);
    }

    async fn hand_written(&self, key: &[u8], ops: u64) -> Result<u64, Error> {
        if self.topology == Topology::Cluster {
            return Err(Error::Unsupported("the hand-written loop is for a standalone server"));
        }
        let mut bytes = 0;
        for _ in 0..ops {
            let client = self.pool.get().await?;
            let value: Option<BulkString> = client.get(RefBulkString::new(key)).await?;
            bytes += value.map_or(0, |value| value.len()) as u64;
        }
        Ok(bytes)
    }
}
