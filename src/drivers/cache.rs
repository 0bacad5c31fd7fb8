//! Client-side caching: reads that a client answers from its own memory, on the server's promise to say when a key changes
//! (<https://redis.io/docs/latest/develop/reference/client-side-caching/>).
//!
//! A cached client is a client of its own, opened by [`ClientCache::cached`] with one tracked connection (on a cluster one to
//! each master). Where a client brings a cache, that one is measured. Where it only brings the invalidations, the cache is
//! ours, and [`CacheSupport::way`] says so.

use std::num::NonZeroU64;
use std::time::Duration;
use std::{fmt, future};

use serde::{Deserialize, Serialize};

use super::{Command, Commands, Error, Reply, Resp, Servers, Settings, Topology};
use crate::resp::Value;

/// Which keys the server tells a client about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum CacheMode {
    /// All keys that it has read (`CLIENT TRACKING on`).
    #[default]
    All,
    /// Those that it has read after asking for it, command by command (`OPTIN`, `CLIENT CACHING YES`).
    OptIn,
    /// All keys that begin with a prefix, read or not (`BCAST`).
    Broadcast,
}

impl CacheMode {
    /// All modes.
    pub const ALL: [CacheMode; 3] = [CacheMode::All, CacheMode::OptIn, CacheMode::Broadcast];
}

impl fmt::Display for CacheMode {
    /// As the command line has it: `all`, `opt-in`, `broadcast`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CacheMode::All => "all",
            CacheMode::OptIn => "opt-in",
            CacheMode::Broadcast => "broadcast",
        })
    }
}

/// How much a cache may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capacity {
    /// Keys.
    Entries(NonZeroU64),
    /// Bytes of keys and values together, without what the cache needs around them.
    Bytes(NonZeroU64),
}

/// How a cached client is opened, besides [`Settings`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheSettings {
    /// Which keys the server tells about.
    pub mode: CacheMode,
    /// No invalidation for what this client itself writes (`NOLOOP`).
    pub noloop: bool,
    /// In a unit that [`CacheSupport::units`] has; `None` = as it ships.
    pub capacity: Option<Capacity>,
    /// Longest that an entry is served; `None` = as it ships.
    pub ttl: Option<Duration>,
    /// Beginning of the keys in [`CacheMode::Broadcast`]; empty = all keys.
    pub prefix: Vec<u8>,
}

/// Where a read's answer came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Served {
    /// The cache: a hit.
    Cache,
    /// The server: a miss.
    Server,
    /// Nobody can tell of one read: the client looks into its cache in a task of its own, and says only how many were hits.
    /// Latencies of such a client can't be split into hits and misses.
    Unknown,
}

/// The answer of a cached read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedRead<B> {
    /// The value, `None` for nil.
    pub value: Option<B>,
    /// Where it came from. With [`CountedBy::Client`] for [`CacheSupport::reads`] the driver infers it, and a miss may be told as a hit
    /// (see [`at_once`]); else it is certain.
    pub served: Served,
}

/// What a cache did since it was opened. Who counted it, [`CacheSupport`] says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheCounts {
    /// Reads answered from the cache.
    pub hits: u64,
    /// Reads that went to the server.
    pub misses: u64,
    /// Entries that were dropped because the server said so. Some clients count in this what expired too; their notes say it.
    pub invalidations: u64,
    /// Entries that were dropped for want of room; `None` where nobody can tell.
    pub evictions: Option<u64>,
    /// Entries that were dropped for their age; `None` where nobody can tell.
    pub expirations: Option<u64>,
    /// Entries that it holds now; `None` where nobody can tell.
    pub entries: Option<u64>,
}

/// A client with a cache. Cheap to clone and shared by all callers, who share the cache too.
pub trait Cached: Clone + Send + Sync + 'static {
    /// The client under the cache.
    type Client: Commands;
    /// The bytes of a value, as cached reads return them.
    type Blob: AsRef<[u8]> + Send + 'static;

    /// The client under the cache: what is sent through it goes over the tracked connection (on a cluster, that of the key's node),
    /// in order with the cached reads that miss. Whether its own GET goes by the cache is up to the client.
    fn client(&self) -> &Self::Client;

    /// `GET key` by the cache, through the client's documented call. A hit returns without waiting, so who reads in a loop must
    /// yield by himself (`tokio::task::coop::consume_budget`), or the invalidations never get a turn.
    fn get(&self, key: &[u8]) -> impl Future<Output = Result<CachedRead<Self::Blob>, Error>> + Send;

    /// `SET key value` over the tracked connection, as a user of this cache would write: nothing is done for the cache that
    /// the client (or for a cache of ours, the driver) does not do by itself.
    fn set(&self, key: &[u8], value: &[u8]) -> impl Future<Output = Result<(), Error>> + Send;

    /// What the cache did so far. Costs no round trip.
    fn counts(&self) -> CacheCounts;

    /// Closes the connections.
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// Opening cached clients.
pub trait ClientCache: Sized {
    /// The client with its cache; [`NoCache`] where it has none.
    type Cached: Cached;

    /// Connects a cached client: one tracked connection, on a cluster one to each master, whatever
    /// [`Settings::connections`] says. The cache is empty, and tracking is on, when it returns.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with what [`CacheSupport::check`] says; else why it can't connect.
    fn cached(servers: &Servers, settings: &Settings, options: &CacheSettings) -> impl Future<Output = Result<Self::Cached, Error>> + Send;
}

/// Runs a client's read and tells whether it was done when it was first polled: then it can't have waited for a server. For clients that do not
/// say themselves whether a read was a hit.
///
/// A hit is always told as one. A miss is taken for a hit when its reply is there already as its caller first looks for it, because
/// the kernel took the caller off its core in between: on two idle cores that befell none to 16 of a million misses, on the same two while compilers
/// wanted them, in a debug build, up to 16 of 56. So the counts of a run are the client's own and the server's, never the sum of these; the difference of
/// the two says how many were told wrong.
pub async fn at_once<T>(read: impl Future<Output = T> + Send) -> (T, Served) {
    let mut read = std::pin::pin!(read);
    let mut polls = 0_u32;
    let output = future::poll_fn(|context| {
        polls = polls.saturating_add(1);
        read.as_mut().poll(context)
    })
    .await;
    (output, if polls == 1 { Served::Cache } else { Served::Server })
}

/// Who counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CountedBy {
    /// The client reports it.
    Client,
    /// The harness counts it, in a cache of ours or in a hook that the client documents.
    Harness,
}

impl fmt::Display for CountedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CountedBy::Client => "reported by the client",
            CountedBy::Harness => "counted by the harness",
        })
    }
}

/// The units in which a cache's capacity can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Units {
    /// Keys only.
    Entries,
    /// Keys or bytes.
    EntriesOrBytes,
}

/// What a client can cache.
#[derive(Clone, Copy, Debug)]
pub struct CacheSupport {
    /// Whether a mode, with or without NOLOOP, is possible on a topology with a protocol version; else why not.
    pub modes: fn(Topology, Resp, CacheMode, bool) -> Result<(), &'static str>,
    /// One line: whose tracking and whose cache it is; empty when there is none.
    pub way: &'static str,
    /// How its capacity can be set.
    pub units: Units,
    /// Who counts hits and misses.
    pub reads: CountedBy,
    /// Who counts invalidations.
    pub invalidations: CountedBy,
    /// Who counts evictions; `None` when nobody can.
    pub evictions: Option<CountedBy>,
    /// Commands that the client sends with each miss beside the read, lower case, with how many of each; from its documentation.
    /// The audit wants them exactly.
    pub beside_miss: fn(CacheMode) -> &'static [(&'static str, u64)],
    /// Whether it connects again by itself when its connection is lost.
    pub reconnects: bool,
    /// What else a reader of its figures must know.
    pub notes: &'static [&'static str],
}

impl CacheSupport {
    /// A client without a cache, for the reason that `modes` gives.
    #[must_use]
    pub const fn none(modes: fn(Topology, Resp, CacheMode, bool) -> Result<(), &'static str>) -> Self {
        Self {
            modes,
            way: "",
            units: Units::Entries,
            reads: CountedBy::Client,
            invalidations: CountedBy::Client,
            evictions: None,
            beside_miss: |_| &[],
            reconnects: false,
            notes: &[],
        }
    }

    /// Whether there is any.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        !self.way.is_empty()
    }

    /// What to say of a mode.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with the reason.
    pub fn check(&self, topology: Topology, resp: Resp, mode: CacheMode, noloop: bool) -> Result<(), Error> {
        (self.modes)(topology, resp, mode, noloop).map_err(Error::Unsupported)
    }

    /// The refusal of a client without a cache.
    ///
    /// # Errors
    /// Always: [`Error::Unsupported`] with the reason.
    pub fn refuse(&self, topology: Topology, resp: Resp, options: &CacheSettings) -> Result<NoCache, Error> {
        self.check(topology, resp, options.mode, options.noloop)?;
        Err(Error::Unsupported("this client has no client-side cache"))
    }
}

/// The cache of a client that has none. It can't be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoCache {}

impl AsRef<[u8]> for NoCache {
    fn as_ref(&self) -> &[u8] {
        match *self {}
    }
}

impl Reply for NoCache {
    type Blob = NoCache;

    fn into_blob(self) -> Result<Option<NoCache>, Error> {
        match self {}
    }

    fn into_blobs(self) -> Result<Vec<NoCache>, Error> {
        match self {}
    }

    fn into_ok(self) -> Result<(), Error> {
        match self {}
    }

    fn into_value(self) -> Result<Value, Error> {
        match self {}
    }
}

impl Commands for NoCache {
    type Reply = NoCache;

    async fn get(&self, _: &[u8]) -> Result<Option<NoCache>, Error> {
        match *self {}
    }

    async fn set(&self, _: &[u8], _: &[u8]) -> Result<(), Error> {
        match *self {}
    }

    async fn hkeys(&self, _: &[u8]) -> Result<Vec<NoCache>, Error> {
        match *self {}
    }

    async fn call(&self, _: &Command) -> Result<NoCache, Error> {
        match *self {}
    }
}

impl Cached for NoCache {
    type Client = NoCache;
    type Blob = NoCache;

    fn client(&self) -> &NoCache {
        match *self {}
    }

    async fn get(&self, _: &[u8]) -> Result<CachedRead<NoCache>, Error> {
        match *self {}
    }

    async fn set(&self, _: &[u8], _: &[u8]) -> Result<(), Error> {
        match *self {}
    }

    fn counts(&self) -> CacheCounts {
        match *self {}
    }

    async fn close(self) {
        match self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drivers::DRIVERS;

    #[test]
    fn every_driver_states_what_it_can_cache_and_why_not() {
        for driver in DRIVERS {
            let mut any = false;
            for (&topology, &resp) in driver.topologies.iter().flat_map(|topology| driver.resp.iter().map(move |resp| (topology, resp))) {
                for mode in CacheMode::ALL {
                    for noloop in [false, true] {
                        match driver.cache.check(topology, resp, mode, noloop) {
                            Ok(()) if resp == Resp::V2 => panic!("{}: client-side caching here is for RESP3", driver.name),
                            Ok(()) => any = true,
                            Err(Error::Unsupported(reason)) => assert!(reason.len() > 20, "{}: {reason:?} is no reason", driver.name),
                            Err(other) => panic!("{}: {other}", driver.name),
                        }
                    }
                }
            }
            assert_eq!(any, driver.cache.is_supported(), "{}", driver.name);
        }
    }

    #[tokio::test]
    async fn only_what_is_ready_when_first_polled_was_done_at_once() {
        assert_eq!(at_once(async { 7 }).await, (7, Served::Cache));
        let (_, served) = at_once(tokio::task::yield_now()).await;
        assert_eq!(served, Served::Server);
    }
}
