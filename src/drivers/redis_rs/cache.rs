//! The crate's own client-side cache (`cache-aio`), the same for its three kinds of connection:
//! <https://docs.rs/redis/latest/redis/caching/index.html>.
//!
//! What a reader of its figures must know, from the source of 1.8.1:
//!
//! - A miss sends `PTTL key` before the command, and `CLIENT CACHING YES` before both in the mode `OptIn`
//!   (`caching/cmd.rs`, `pack_command`).
//! - Invalidations are handled in the connection's task, but a miss puts its reply into the cache in the task of its caller,
//!   when that runs again (`resolve`). Between the two the connection's task may handle the invalidation of that very key: it
//!   finds nothing to drop, and the older value is then stored, with nothing left that would drop it but its TTL.
//! - Entries belong to an epoch, which each connection has anew: what an earlier connection stored is not served by a later one.
//!   A plain `MultiplexedConnection` has no later one, and looks into its cache before it looks at its connection.

use std::num::NonZeroUsize;

use redis::aio::{ConnectionManager, MultiplexedConnection};
use redis::caching::{self, CacheConfig, CacheStatistics};
use redis::cluster_async::ClusterConnection;
use redis::{AsyncCommands, CommandCacheConfig};

use super::{RedisReply, RedisRs, RedisRsCluster, RedisRsManager, api, cluster, connect};
use crate::drivers::{
    CacheCounts, CacheMode, CacheSettings, CacheSupport, Cached, CachedRead, Capacity, ClientCache, Commands, CountedBy, Error, Resp,
    Served, Servers, Settings, Topology, Units, at_once,
};

/// What all three can cache. A driver adds what it does when its connection is lost.
const SUPPORT: CacheSupport = CacheSupport {
    modes,
    way: "tracking and cache by redis-rs (cache-aio)",
    units: Units::Entries,
    reads: CountedBy::Client,
    invalidations: CountedBy::Client,
    evictions: None,
    beside_miss,
    forgets_own: false,
    reconnects: true,
    notes: &[],
};

fn modes(_: Topology, resp: Resp, mode: CacheMode, noloop: bool) -> Result<(), &'static str> {
    match (resp, mode, noloop) {
        (Resp::V2, ..) => Err("redis-rs caches with RESP3 only"),
        (_, CacheMode::Broadcast, _) => Err("redis-rs has no broadcast mode (redis-rs#1886), only all and opt-in"),
        (_, _, true) => Err("redis-rs turns tracking on by itself and has no way to add NOLOOP (redis-rs#1886)"),
        (_, CacheMode::All | CacheMode::OptIn, false) => Ok(()),
    }
}

fn beside_miss(mode: CacheMode) -> &'static [(&'static str, u64)] {
    match mode {
        CacheMode::OptIn => &[("client|caching", 1), ("pttl", 1)],
        CacheMode::All | CacheMode::Broadcast => &[("pttl", 1)],
    }
}

/// What must be told of all three.
macro_rules! cache_notes {
    ($($own:literal),+ $(,)?) => {
        &[
            "As it ships: 10,000 keys, 30 minutes. From 32 keys on the capacity is split over 32 shards, each a 32nd rounded down: a full shard evicts while others have room, and 100 keys are 96.",
            "It makes the tables for its whole capacity when it connects: memory is used for keys that never come.",
            "Its invalidations also count what expired and what an earlier connection left, when that is next asked for; evictions are counted nowhere.",
            "A miss sends PTTL beside the read, in opt-in CLIENT CACHING YES as well.",
            "A reply can be put into the cache after the invalidation of its key was handled; it is then served until its TTL, whatever is written later. How often depends on who reads what. Measured with 1.8.1: once in 200 to 1,200 writes of keys that 1 or 16 callers read all the time; in `rcb cache --scenario race`, made for it, 52 to 92 of 128 keys after 16 writes each.",
            $($own),+
        ]
    };
}
/// The crate's configuration for `options`.
///
/// # Errors
/// [`Error::Unsupported`] with what [`SUPPORT`] refuses, and for a capacity in bytes.
pub fn config(topology: Topology, resp: Resp, options: &CacheSettings) -> Result<CacheConfig, Error> {
    SUPPORT.check(topology, resp, options.mode, options.noloop)?;
    let mode = match options.mode {
        CacheMode::OptIn => caching::CacheMode::OptIn,
        CacheMode::All | CacheMode::Broadcast => caching::CacheMode::All,
    };
    let config = CacheConfig::new().set_mode(mode);
    let config = match options.capacity {
        None => config,
        // No memory has room for more.
        Some(Capacity::Entries(keys)) => config.set_size(NonZeroUsize::try_from(keys).unwrap_or(NonZeroUsize::MAX)),
        Some(Capacity::Bytes(_)) => return Err(Error::Unsupported("redis-rs counts the keys of its cache, not their bytes")),
    };
    Ok(match options.ttl {
        None => config,
        Some(ttl) => config.set_default_client_ttl(ttl),
    })
}

/// A driver whose connection may have a cache.
pub trait MayCache: Commands<Reply = RedisReply> {
    /// The crate's connection.
    type Connection: AsyncCommands + Send;

    /// Whether the cache is looked into by the caller itself, before anything that waits.
    const LOOKS_FIRST: bool;

    /// A handle of the connection, as each call takes one.
    fn connection(&self) -> Self::Connection;

    /// What the cache counted; `None` without one.
    fn statistics(&self) -> Option<CacheStatistics>;
}

/// A driver that was connected with a cache.
#[derive(Clone)]
pub struct RedisCached<C> {
    client: C,
    opt_in: bool,
}

impl<C: MayCache> RedisCached<C> {
    /// `client`, connected with the cache that `options` ask for.
    pub fn new(client: C, options: &CacheSettings) -> Self {
        Self { client, opt_in: options.mode == CacheMode::OptIn }
    }

    async fn read(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let mut connection = self.client.connection();
        if !self.opt_in {
            return super::get(&mut connection, key).await;
        }
        let asked = CommandCacheConfig::new().set_enable_cache(true);
        Ok(redis::cmd("GET").arg(key).set_cache_config(asked).query_async(&mut connection).await?)
    }
}

impl<C: MayCache> Cached for RedisCached<C> {
    type Client = C;
    type Blob = Vec<u8>;

    fn client(&self) -> &C {
        &self.client
    }

    async fn get(&self, key: &[u8]) -> Result<CachedRead<Vec<u8>>, Error> {
        if C::LOOKS_FIRST {
            let (value, served) = at_once(self.read(key)).await;
            return Ok(CachedRead { value: value?, served });
        }
        Ok(CachedRead { value: self.read(key).await?, served: Served::Unknown })
    }

    async fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.client.set(key, value).await
    }

    fn counts(&self) -> CacheCounts {
        let counts = self.client.statistics().unwrap_or_default();
        CacheCounts {
            hits: counts.hit as u64,
            misses: counts.miss as u64,
            invalidations: counts.invalidate as u64,
            evictions: None,
            expirations: None,
            entries: None,
        }
    }

    /// The connections end with their last clone: the crate knows no other way.
    async fn close(self) {
        drop(self);
    }
}

/// What one connection can cache.
pub const CONNECTION: CacheSupport = CacheSupport {
    reconnects: false,
    notes: cache_notes![
        "After its connection is lost it goes on serving hits, which nobody invalidates any more, until their TTL; misses and everything else fail.",
    ],
    ..SUPPORT
};

/// What a `ConnectionManager` can cache.
pub const MANAGER: CacheSupport = CacheSupport {
    notes: cache_notes![
        "What it has cached over a connection is not served once it has another; each such entry is dropped, and counted as invalidated, when it is next asked for.",
    ],
    ..SUPPORT
};

/// What a cluster connection can cache.
pub const CLUSTER: CacheSupport = CacheSupport {
    notes: cache_notes![
        "Every read goes through a channel to the one routing task, hits too, and that task looks into the cache: a hit costs the way there and back, and nobody can tell of one read whether it was one, only how many there were.",
        "One cache for all nodes; entries of a node's lost connection are not served by its next, and a FLUSHALL of one node empties the cache of all.",
    ],
    ..SUPPORT
};

impl ClientCache for RedisRs {
    type Cached = RedisCached<Self>;

    async fn cached(servers: &Servers, settings: &Settings, options: &CacheSettings) -> Result<Self::Cached, Error> {
        let cache = config(servers.topology, settings.resp, options)?;
        let client = connect::client(servers.first(), settings)?;
        let config = connect::config(settings).set_cache_config(cache);
        let connecting = async { connect::login(api::open(&client, &config).await) };
        Ok(RedisCached::new(Self(connect::limited(connecting).await?), options))
    }
}

impl MayCache for RedisRs {
    type Connection = MultiplexedConnection;
    const LOOKS_FIRST: bool = true;

    fn connection(&self) -> MultiplexedConnection {
        self.0.clone()
    }

    fn statistics(&self) -> Option<CacheStatistics> {
        self.0.get_cache_statistics()
    }
}

impl ClientCache for RedisRsManager {
    type Cached = RedisCached<Self>;

    async fn cached(servers: &Servers, settings: &Settings, options: &CacheSettings) -> Result<Self::Cached, Error> {
        let cache = config(servers.topology, settings.resp, options)?;
        let client = connect::client(servers.first(), settings)?;
        let config = connect::manager_config(settings).set_cache_config(cache);
        let connecting = async {
            connect::probe(servers.first(), settings).await?;
            connect::login(api::open_manager(client, config).await)
        };
        Ok(RedisCached::new(Self(connect::limited(connecting).await?), options))
    }
}

impl MayCache for RedisRsManager {
    type Connection = ConnectionManager;
    // It first awaits the shared future of its connection, which is done at once but while it connects again.
    const LOOKS_FIRST: bool = true;

    fn connection(&self) -> ConnectionManager {
        self.0.clone()
    }

    fn statistics(&self) -> Option<CacheStatistics> {
        self.0.get_cache_statistics()
    }
}

impl ClientCache for RedisRsCluster {
    type Cached = RedisCached<Self>;

    async fn cached(servers: &Servers, settings: &Settings, options: &CacheSettings) -> Result<Self::Cached, Error> {
        let cache = config(servers.topology, settings.resp, options)?;
        let client = cluster::builder(servers, settings)?.cache_config(cache).build()?;
        let connecting = async { connect::login(client.get_async_connection().await) };
        Ok(RedisCached::new(Self(connect::limited(connecting).await?), options))
    }
}

impl MayCache for RedisRsCluster {
    type Connection = ClusterConnection;
    // Each command goes through a channel to the task that routes, and that task looks into the cache.
    const LOOKS_FIRST: bool = false;

    fn connection(&self) -> ClusterConnection {
        self.0.clone()
    }

    fn statistics(&self) -> Option<CacheStatistics> {
        self.0.get_cache_statistics()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::drivers::redis_rs::RedisRs;
    use crate::drivers::{ClientCache, Command, Servers, Settings};
    use crate::net::Endpoint;

    /// A server of one connection that sends in one write the reply to a GET and, as a real one may, that the key has changed since.
    async fn hasty_server(listener: tokio::net::TcpListener) {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = vec![0; 4096];
        loop {
            let read = stream.read(&mut buffer).await.unwrap_or(0);
            if read == 0 {
                return;
            }
            let mut answer = String::new();
            let text = String::from_utf8_lossy(&buffer[..read]).into_owned();
            let mut lines = text.split("\r\n");
            while let Some(line) = lines.next() {
                let Some(count) = line.strip_prefix('*') else { continue };
                let arguments: Vec<&str> = (0..count.parse().unwrap()).filter_map(|_| lines.by_ref().nth(1)).collect();
                answer += match arguments[0] {
                    "HELLO" => "%1\r\n+proto\r\n:3\r\n",
                    "PTTL" => ":-1\r\n",
                    "GET" => "$3\r\nold\r\n>2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n",
                    _ => "+OK\r\n",
                };
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    }

    /// What the notes say of late replies. When this fails, the crate has mended it and the note must go.
    #[tokio::test]
    async fn a_reply_is_stored_after_the_invalidation_of_its_key() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let servers = Servers::standalone(Endpoint::tcp("127.0.0.1", listener.local_addr().unwrap().port()));
        let server = tokio::spawn(hasty_server(listener));
        let settings = Settings { resp: Resp::V3, ..Settings::default() };
        let cached = RedisRs::cached(&servers, &settings, &CacheSettings::default()).await.unwrap();
        assert_eq!(cached.get(b"k").await.unwrap(), CachedRead { value: Some(b"old".to_vec()), served: Served::Server });
        // Its reply comes after the invalidation, over the same connection.
        cached.client().call(&Command::new("UNLINK").arg("nothing")).await.unwrap();
        assert_eq!(cached.get(b"k").await.unwrap(), CachedRead { value: Some(b"old".to_vec()), served: Served::Cache });
        assert_eq!(cached.counts(), CacheCounts { hits: 1, misses: 1, ..CacheCounts::default() });
        server.abort();
    }

    #[test]
    fn a_capacity_in_bytes_is_refused_and_everything_else_reaches_the_crate() {
        let entries = CacheSettings {
            mode: CacheMode::OptIn,
            capacity: Some(Capacity::Entries(7.try_into().unwrap())),
            ttl: Some(std::time::Duration::from_secs(9)),
            ..CacheSettings::default()
        };
        let text = format!("{:?}", config(Topology::Standalone, Resp::V3, &entries).unwrap());
        assert!(text.contains("OptIn") && text.contains("size: 7") && text.contains("9s"), "{text}");
        let bytes = CacheSettings { capacity: Some(Capacity::Bytes(7.try_into().unwrap())), ..CacheSettings::default() };
        assert_eq!(config(Topology::Standalone, Resp::V3, &bytes).unwrap_err().kind(), "unsupported");
        assert_eq!(config(Topology::Standalone, Resp::V2, &entries).unwrap_err().kind(), "unsupported");
    }
}
