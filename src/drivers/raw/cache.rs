//! Tracked connections with the harness's own cache: the floor of client-side caching.

use std::sync::Arc;

use bytes::Bytes;

use super::{Frame, Raw, Shared};
use crate::drivers::store::{self, Forgets, Found, Store};
use crate::drivers::{
    CacheCounts, CacheMode, CacheSettings, CacheSupport, Cached, CachedRead, Command, Commands, CountedBy, Driver, Error, Lanes,
    PipelineReplies, Pipelines, Reply, Resp, Served, Servers, Settings, Topology, Units,
};
use crate::net::Endpoint;
use crate::window::Routed;

/// What the driver can cache.
pub(super) const CACHE: CacheSupport = CacheSupport {
    modes: |_, resp, _, _| match resp {
        Resp::V3 => Ok(()),
        Resp::V2 => Err("with RESP2 a server sends invalidations over a second connection only; raw tracks with RESP3"),
    },
    way: "tracking and cache by the harness; invalidations are handled where replies are read, in the order of the socket",
    units: Units::EntriesOrBytes,
    reads: CountedBy::Harness,
    invalidations: CountedBy::Harness,
    evictions: Some(CountedBy::Harness),
    beside_miss: store::beside_miss,
    forgets_own: true,
    reconnects: false,
    notes: &[
        store::NOTE,
        "When a connection is lost, or on a cluster one of several, the cache is emptied and every read fails.",
        "On a cluster the whole cache is emptied when a node answers MOVED or ASK, and that reply is not stored.",
        "With NOLOOP an own write drops its key when it begins and when it ends.",
    ],
};

/// `CLIENT TRACKING ON` and its options.
fn tracking(options: &CacheSettings) -> Command {
    let mut command = Command::new("CLIENT").arg("TRACKING").arg("ON");
    match options.mode {
        CacheMode::All => {}
        CacheMode::OptIn => command.push(b"OPTIN"),
        CacheMode::Broadcast => {
            command.push(b"BCAST");
            if !options.prefix.is_empty() {
                command.push(b"PREFIX");
                command.push(&options.prefix);
            }
        }
    }
    if options.noloop {
        command.push(b"NOLOOP");
    }
    command
}

/// A tracked connection to one server.
#[derive(Clone)]
pub struct TrackedNode {
    connection: Shared,
    store: Arc<Store>,
    /// Whether a read must ask for being tracked.
    opt_in: bool,
}

impl TrackedNode {
    async fn connect(endpoint: &Endpoint, settings: &Settings, options: &CacheSettings, store: Arc<Store>) -> Result<Self, Error> {
        let connection = Shared::tracked(endpoint, settings, &tracking(options), store.clone()).await?;
        Ok(Self { connection, store, opt_in: options.mode == CacheMode::OptIn })
    }

    /// Looks whether a slot has moved: whatever was cached may be of another node now, that does not know of it.
    fn watched<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        if result.as_ref().is_err_and(|error| error.redirect().is_some()) {
            self.store.forget_all();
        }
        result
    }

    async fn words(&self, words: &[&[u8]]) -> Result<Frame, Error> {
        self.watched(self.connection.words(words).await)
    }

    /// `GET` so that the server tells when the key changes.
    async fn tracked_get(&self, key: &[u8]) -> Result<Option<Bytes>, Error> {
        let words = [b"GET", key];
        let frame = match self.opt_in {
            true => self.watched(self.connection.words_after(&[b"CLIENT", b"CACHING", b"YES"], &words).await)?,
            false => self.words(&words).await?,
        };
        frame.into_blob()
    }
}

impl Commands for TrackedNode {
    type Reply = Frame;

    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Error> {
        self.words(&[b"GET", key]).await?.into_blob()
    }

    async fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.words(&[b"SET", key, value]).await?.into_ok()
    }

    async fn hkeys(&self, key: &[u8]) -> Result<Vec<Bytes>, Error> {
        self.words(&[b"HKEYS", key]).await?.into_blobs()
    }

    async fn call(&self, command: &Command) -> Result<Frame, Error> {
        self.watched(self.connection.call(command).await)
    }
}

impl Pipelines for TrackedNode {
    async fn pipeline(&self, commands: &[Command]) -> Result<PipelineReplies<Frame>, Error> {
        let replies = self.connection.pipeline(commands).await?;
        Ok(replies.into_iter().map(|reply| self.watched(reply)).collect())
    }

    fn lanes(&self) -> Lanes<Self> {
        Lanes::Handles(vec![self.clone()])
    }
}

/// The tracked connections under a cache: one, or one to each master.
#[derive(Clone)]
pub enum Tracked {
    /// One server.
    Standalone(TrackedNode),
    /// One [`TrackedNode`] for each master.
    Cluster(Routed<TrackedNode>),
}

macro_rules! on_topology {
    ($self:expr, $client:ident => $call:expr) => {
        match $self {
            Tracked::Standalone($client) => $call,
            Tracked::Cluster($client) => $call,
        }
    };
}

impl Commands for Tracked {
    type Reply = Frame;

    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Error> {
        on_topology!(self, client => client.get(key).await)
    }

    async fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        on_topology!(self, client => client.set(key, value).await)
    }

    async fn hkeys(&self, key: &[u8]) -> Result<Vec<Bytes>, Error> {
        on_topology!(self, client => client.hkeys(key).await)
    }

    async fn call(&self, command: &Command) -> Result<Frame, Error> {
        on_topology!(self, client => client.call(command).await)
    }
}

/// The raw driver with a cache.
#[derive(Clone)]
pub struct RawCached {
    tracked: Tracked,
    store: Arc<Store>,
    noloop: bool,
}

impl RawCached {
    /// Connects, one connection to the server or to each master.
    ///
    /// # Errors
    /// As [`ClientCache::cached`](crate::drivers::ClientCache::cached).
    pub async fn connect(servers: &Servers, settings: &Settings, options: &CacheSettings) -> Result<Self, Error> {
        Raw::DESCRIPTOR.cache.check(servers.topology, settings.resp, options.mode, options.noloop)?;
        let store = Arc::new(Store::new(options));
        let tracked = match servers.topology {
            Topology::Standalone => Tracked::Standalone(TrackedNode::connect(servers.first(), settings, options, store.clone()).await?),
            Topology::Cluster => {
                let (settings, options, store) = (settings.clone(), options.clone(), store.clone());
                let connect = move |endpoint| {
                    let (settings, options, store) = (settings.clone(), options.clone(), store.clone());
                    async move { TrackedNode::connect(&endpoint, &settings, &options, store).await }
                };
                Tracked::Cluster(Routed::connect(servers, connect).await?)
            }
        };
        Ok(Self { tracked, store, noloop: options.noloop })
    }
}

impl Cached for RawCached {
    type Client = Tracked;
    type Blob = Bytes;

    fn client(&self) -> &Tracked {
        &self.tracked
    }

    async fn get(&self, key: &[u8]) -> Result<CachedRead<Bytes>, Error> {
        let ticket = match self.store.look_up(key)? {
            Found::Hit(value) => return Ok(CachedRead { value, served: Served::Cache }),
            Found::Miss(ticket) => ticket,
        };
        let value = match &self.tracked {
            Tracked::Standalone(node) => node.tracked_get(key).await?,
            Tracked::Cluster(nodes) => match nodes.client_of(key).tracked_get(key).await {
                // The slot has moved or moves. Who answers in the end may not have tracked the key, so this reply is not stored.
                Err(error) if error.redirect().is_some() => {
                    return Ok(CachedRead { value: nodes.get(key).await?, served: Served::Server });
                }
                result => result?,
            },
        };
        self.store.insert(ticket, key, value.as_deref());
        Ok(CachedRead { value, served: Served::Server })
    }

    async fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let _forgets = self.noloop.then(|| Forgets::new(&self.store, key));
        self.tracked.set(key, value).await
    }

    fn counts(&self) -> CacheCounts {
        self.store.counts()
    }

    async fn close(self) {
        match &self.tracked {
            Tracked::Standalone(node) => node.connection.close(),
            Tracked::Cluster(nodes) => nodes.nodes().iter().for_each(|node| node.connection.close()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_tracking_are_those_of_the_server() {
        let words = |mode, noloop, prefix: &str| {
            let command = tracking(&CacheSettings { mode, noloop, prefix: prefix.into(), ..CacheSettings::default() });
            command.args().map(|word| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words(CacheMode::All, false, "ignored"), "TRACKING ON");
        assert_eq!(words(CacheMode::OptIn, true, ""), "TRACKING ON OPTIN NOLOOP");
        assert_eq!(words(CacheMode::Broadcast, false, ""), "TRACKING ON BCAST");
        assert_eq!(words(CacheMode::Broadcast, true, "user:"), "TRACKING ON BCAST PREFIX user: NOLOOP");
    }
}
