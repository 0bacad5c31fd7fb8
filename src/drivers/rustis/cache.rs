//! The crate's cache (`rustis::cache::Cache`), with a count of what its store does.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use moka::notification::RemovalCause;
use rustis::cache::{Cache, CacheBuilder, CacheStore, CachedValue, MokaStore};
use rustis::commands::{ClientTrackingOptions, ClientTrackingStatus, ConnectionCommands};
use rustis::resp::{BulkString, RefBulkString};

use super::client::Rustis;
use super::connect::{self, Closer};
use crate::drivers::{
    CacheCounts, CacheMode, CacheSettings, CacheSupport, Cached, CachedRead, Capacity, Commands, CountedBy, Error, Resp, Served, Servers,
    Settings, Topology, Units,
};

/// What the crate can cache.
pub(super) const SUPPORT: CacheSupport = CacheSupport {
    modes: |_, resp, mode, _| match (resp, mode) {
        (Resp::V2, _) => Err(super::RESP3_ONLY),
        (_, CacheMode::OptIn) => Err("rustis sends no CLIENT CACHING YES, so with OPTIN the server would never tell its cache of a key"),
        _ => Ok(()),
    },
    way: "rustis::cache::Cache over its MokaStore, counted by a CacheStore around it; the client tracks",
    units: Units::Entries,
    reads: CountedBy::Harness,
    invalidations: CountedBy::Harness,
    evictions: Some(CountedBy::Harness),
    beside_miss: |_| &[],
    forgets_own: false,
    reconnects: true,
    notes: &[
        "As it ships: 10,000 keys. It ships with no age, which its constructor wants to be told; 60 s, as in its documentation, is what is set for it.",
        "Its size can't be set in bytes: the store weighs a key's entry before the value is in it.",
        "When it is full a key that is read less often than the one that would go for it is not kept (moka's TinyLFU): that counts as an eviction too.",
        "moka evicts and expires in batches, some time after the store outgrew its size or the entry its age: these counts lag. What a flush of the whole cache drops is counted as invalidations, as it is swept.",
        "A hit builds the GET as a miss would, to look it up by its bytes, and copies the value out of the cache. A task-local of ours tells a hit from a miss.",
        "The marks of invalidated keys that are not read again stay in its memory for ever, in broadcast mode those of all keys that anybody writes.",
        "With NOLOOP it goes on serving what this client overwrote itself, until the entry is too old: a write changes nothing in its cache.",
        "FLUSHALL and FLUSHDB leave it as it is: the server tells them by a nil in place of keys, which it reads as no keys.",
        "While its connection is down it goes on serving what it holds; it drops all when it is connected again, after 1 s and more.",
        "Of two readers of one key that both miss while it changes, the later may store the old value after the other has stored the new and cleared the record that would have stopped it: it is served until the key's next change or its age. Seen with 0.27.2 in some runs of `rcb cache --scenario race`, 1 to 3 of 128 keys.",
        "With a prefix it caches what else is read too, of which the server tells it nothing.",
        "Invalidations that nobody takes are held up to 8 MiB, in either profile; beyond, it drops the oldest and the whole cache.",
        "On a cluster it tracks on every node, and for that connects to the replicas too. It sends these CLIENT TRACKING twice, and a prefix is refused the second time; the driver has it connect to them before. In broadcast mode the replicas tell of each write too, so a key can be dropped twice.",
        "The crate's cache never lets its client go; the driver closes it by QUIT and a reconnection policy that ends then.",
    ],
};

/// The crate's own size ([`Cache::new`]).
const SHIPPED_KEYS: u64 = 10_000;

/// The age in the crate's documentation of [`Cache::new`], which has no default.
const SHIPPED_TTL: Duration = Duration::from_secs(60);

tokio::task_local! {
    /// Where the answer of the read that is being polled came from.
    static SERVED: Cell<Served>;
}

#[derive(Default)]
struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
    invalidations: AtomicU64,
    evictions: AtomicU64,
    expirations: AtomicU64,
}

fn add_one(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Counters {
    fn removed(&self, cause: RemovalCause) {
        match cause {
            RemovalCause::Explicit => add_one(&self.invalidations),
            RemovalCause::Size => add_one(&self.evictions),
            RemovalCause::Expired => add_one(&self.expirations),
            RemovalCause::Replaced => {}
        }
    }
}

/// The crate's store, its reads counted.
struct Counted {
    store: MokaStore,
    counters: Arc<Counters>,
}

impl Counted {
    fn new(keys: u64, ttl: Duration, counters: Arc<Counters>) -> Self {
        let removals = counters.clone();
        let builder = CacheBuilder::new(keys).time_to_live(ttl).eviction_listener(move |_, _, cause| removals.removed(cause));
        Self { store: MokaStore::from_builder(builder), counters }
    }
}

impl CacheStore for Counted {
    async fn get(&self, key: &BulkString, subkey: &Bytes) -> Option<CachedValue> {
        let found = self.store.get(key, subkey).await;
        if found.is_some() {
            add_one(&self.counters.hits);
            // Outside of a read of ours nobody asks.
            let _ = SERVED.try_with(|served| served.set(Served::Cache));
        } else {
            add_one(&self.counters.misses);
        }
        found
    }

    async fn insert(&self, key: BulkString, subkey: Bytes, response: CachedValue) {
        self.store.insert(key, subkey, response).await;
    }

    async fn invalidate(&self, key: &BulkString) {
        self.store.invalidate(key).await;
    }

    fn invalidate_all(&self) {
        self.store.invalidate_all();
    }
}

/// A client and the crate's cache over it.
#[derive(Clone)]
pub struct RustisCached {
    cache: Arc<Cache<Counted>>,
    driver: Rustis,
    counters: Arc<Counters>,
    closer: Arc<Closer>,
}

fn tracking(options: &CacheSettings) -> Result<ClientTrackingOptions, Error> {
    let mut tracking = ClientTrackingOptions::default();
    if options.mode == CacheMode::Broadcast {
        tracking = tracking.broadcasting();
        if !options.prefix.is_empty() {
            let prefix = std::str::from_utf8(&options.prefix);
            tracking = tracking.prefix(prefix.map_err(|_| Error::Client("rustis takes a prefix of keys that is UTF-8 only".into()))?);
        }
    }
    Ok(if options.noloop { tracking.noloop() } else { tracking })
}

impl RustisCached {
    /// Connects, and turns tracking on.
    pub async fn connect(servers: &Servers, settings: &Settings, options: &CacheSettings) -> Result<Self, Error> {
        SUPPORT.check(servers.topology, settings.resp, options.mode, options.noloop)?;
        let keys = match options.capacity {
            None => SHIPPED_KEYS,
            Some(Capacity::Entries(keys)) => keys.get(),
            Some(Capacity::Bytes(_)) => return Err(Error::Unsupported("the size of rustis's cache is a number of keys")),
        };
        let tracking = tracking(options)?;
        let mut config = connect::config(servers, settings)?;
        let closing: Arc<AtomicBool> = Closer::prepare(&mut config);
        let client = connect::open(config).await?;
        let closer = Arc::new(Closer::new(client.clone(), closing));
        let counters = Arc::<Counters>::default();
        let store = Counted::new(keys, options.ttl.unwrap_or(SHIPPED_TTL), counters.clone());
        if servers.topology == Topology::Cluster && !options.prefix.is_empty() {
            // The first command for all nodes has the crate connect to the replicas, and replay there what it records of a connection's state,
            // that very command with it, before it sends it: a prefix is refused the second time, and nothing else would be.
            connect::limited(async { Ok(client.client_tracking(ClientTrackingStatus::Off, ClientTrackingOptions::default()).await?) })
                .await?;
        }
        let cache = Cache::with_store(client.clone(), store, tracking);
        let cache = connect::limited(async { Ok(cache.await?) }).await?;
        Ok(Self { cache, driver: Rustis(client), counters, closer })
    }
}

impl Cached for RustisCached {
    type Client = Rustis;
    type Blob = Vec<u8>;

    fn client(&self) -> &Rustis {
        &self.driver
    }

    async fn get(&self, key: &[u8]) -> Result<CachedRead<Vec<u8>>, Error> {
        let read = async {
            let value: Option<BulkString> = self.cache.get(RefBulkString::new(key)).await?;
            Ok(CachedRead { value: value.map(Vec::from), served: SERVED.with(Cell::get) })
        };
        SERVED.scope(Cell::new(Served::Server), read).await
    }

    async fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.driver.set(key, value).await
    }

    fn counts(&self) -> CacheCounts {
        let Counters { hits, misses, invalidations, evictions, expirations } = &*self.counters;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CacheCounts {
            hits: count(hits),
            misses: count(misses),
            invalidations: count(invalidations),
            evictions: Some(count(evictions)),
            expirations: Some(count(expirations)),
            entries: None,
        }
    }

    async fn close(self) {
        self.closer.close().await;
    }
}
