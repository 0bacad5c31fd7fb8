//! Tracking by the crate, with the harness's own cache: fred tells what to forget and keeps nothing itself.

use std::sync::Arc;

use bytes::Bytes;
use fred::clients::Pipeline;
use fred::interfaces::{ClientLike, KeysInterface, TrackingInterface};
use fred::types::{ClusterHash, CustomCommand, MultipleStrings};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::api::{Client, Invalidation, Value};
use super::{Fred, FredReply, calls, connect};
use crate::drivers::store::{self, Forgets, Found, Store};
use crate::drivers::{
    CacheCounts, CacheMode, CacheSettings, CacheSupport, Cached, CachedRead, CountedBy, Driver, Error, Profile, Reply, Resp, Served,
    Servers, Settings, Topology, Units,
};
use crate::resp::key_slot;

/// Invalidations that may wait for the cache in the profile `tuned`.
const WAITING: usize = 1 << 14;

/// What the crate's tracking can do.
pub(super) const CACHE: CacheSupport = CacheSupport {
    modes: |topology, resp, mode, _| match (resp, topology, mode) {
        (Resp::V2, ..) => Err("fred's tracking interface is for RESP3"),
        (Resp::V3, Topology::Cluster, CacheMode::Broadcast) => {
            Err("on a cluster fred asks only one node for broadcasts, and each node tells of its own keys only")
        }
        (Resp::V3, ..) => Ok(()),
    },
    way: "tracking by fred, cache by the harness",
    units: Units::EntriesOrBytes,
    reads: CountedBy::Harness,
    invalidations: CountedBy::Harness,
    evictions: Some(CountedBy::Harness),
    beside_miss: store::beside_miss,
    forgets_own: true,
    reconnects: false,
    notes: &[
        store::NOTE,
        "fred gives invalidations to a broadcast channel and replies to their callers, so that a reply may overtake an invalidation that came before it.",
        "That channel holds 32 invalidations as it ships and 16,384 tuned (broadcast_channel_capacity). When it overflows fred says how many it dropped, and the whole cache is emptied.",
        "fred drops the invalidation of everything (FLUSHALL, FLUSHDB) without a word: it expects a list of keys. What is cached stays until its time to live ends.",
        "Its Options::caching is accepted and never sent. In opt-in mode a miss is an explicit pipeline of CLIENT CACHING YES and GET, as its example shows for RESP2.",
        "When a connection is lost, or the cluster changes, the cache is emptied and every read fails: fred starts no tracking on new connections.",
        "With NOLOOP an own write drops its key when it begins and when it ends.",
    ],
};

/// One tracking client and the harness's cache.
#[derive(Clone)]
pub struct FredCached {
    fred: Fred,
    store: Arc<Store>,
    opt_in: bool,
    noloop: bool,
}

/// Drops what fred says.
async fn forget(mut invalidations: Receiver<Invalidation>, store: Arc<Store>) {
    loop {
        match invalidations.recv().await {
            Ok(invalidation) => invalidation.keys.iter().for_each(|key| store.invalidate(key.as_bytes())),
            // Nobody knows which keys they named.
            Err(RecvError::Lagged(_)) => drop(store.forget_all()),
            Err(RecvError::Closed) => return store.end(&Error::Connection("fred closed its channel of invalidations".into())),
        }
    }
}

fn prefixes(options: &CacheSettings) -> Result<MultipleStrings, Error> {
    if options.mode != CacheMode::Broadcast || options.prefix.is_empty() {
        return Ok(MultipleStrings::from(Vec::<String>::new()));
    }
    match std::str::from_utf8(&options.prefix) {
        Ok(prefix) => Ok(vec![prefix.to_owned()].into()),
        Err(_) => Err(Error::Client("fred takes only text (UTF-8) as a prefix of keys".into())),
    }
}

impl FredCached {
    /// Connects one client.
    pub async fn connect(servers: &Servers, settings: &Settings, options: &CacheSettings) -> Result<Self, Error> {
        Fred::DESCRIPTOR.cache.check(servers.topology, settings.resp, options.mode, options.noloop)?;
        let prefixes = prefixes(options)?;
        let mut builder = connect::builder(servers, settings)?;
        if settings.profile == Profile::Tuned {
            builder.with_performance_config(|performance| performance.broadcast_channel_capacity = WAITING);
        }
        let client = builder.build()?;
        let store = Arc::new(Store::new(options));
        // Before tracking is on, so that none is missed.
        let invalidations = client.invalidation_rx();
        let ends = store.clone();
        let serving = connect::start_tracked(&client, forget(invalidations, store.clone()), move |reason| ends.end(&reason)).await?;
        let (broadcast, opt_in) = (options.mode == CacheMode::Broadcast, options.mode == CacheMode::OptIn);
        client.start_tracking(prefixes, broadcast, opt_in, false, options.noloop).await?;
        Ok(Self { fred: Fred { client, _serving: serving }, store, opt_in, noloop: options.noloop })
    }
}

/// `CLIENT CACHING YES` and `GET` with no other caller's command in between.
async fn opted_in(client: &Client, key: &[u8]) -> Result<Option<Bytes>, Error> {
    let hash = if client.is_clustered() { ClusterHash::Custom(key_slot(key)) } else { ClusterHash::FirstKey };
    let pipeline: Pipeline<Client> = client.pipeline();
    let caching = CustomCommand::new_static("CLIENT", hash, false);
    let _queued: Value = pipeline.custom(caching, vec!["CACHING", "YES"]).await?;
    let _queued: Value = pipeline.get(key).await?;
    let mut replies = pipeline.try_all::<Value>().await;
    match (replies.len(), replies.pop()) {
        // The first reply is only good or bad.
        (2, Some(value)) => {
            replies.swap_remove(0)?;
            FredReply(value?).into_blob()
        }
        (1, Some(Err(error))) => Err(error.into()),
        (got, _) => Err(Error::Protocol(format!("fred returned {got} replies to 2 commands"))),
    }
}

impl Cached for FredCached {
    type Client = Fred;
    type Blob = Bytes;

    fn client(&self) -> &Fred {
        &self.fred
    }

    async fn get(&self, key: &[u8]) -> Result<CachedRead<Bytes>, Error> {
        let ticket = match self.store.look_up(key)? {
            Found::Hit(value) => return Ok(CachedRead { value, served: Served::Cache }),
            Found::Miss(ticket) => ticket,
        };
        let client = &self.fred.client;
        let value = if self.opt_in { opted_in(client, key).await? } else { calls::get(client, key).await? };
        self.store.insert(ticket, key, value.as_deref());
        Ok(CachedRead { value, served: Served::Server })
    }

    async fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let _forgets = self.noloop.then(|| Forgets::new(&self.store, key));
        calls::set(&self.fred.client, key, value).await
    }

    fn counts(&self) -> CacheCounts {
        self.store.counts()
    }

    async fn close(self) {
        self.store.end(&Error::Client("the connection was closed".into()));
        connect::quit(std::slice::from_ref(&self.fred.client)).await;
    }
}
