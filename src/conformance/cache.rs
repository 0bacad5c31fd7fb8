//! Client-side caches.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::{Checked, Fault, ensure};
use crate::drivers::{
    CacheMode, CacheSettings, Cached, Capacity, Command, Commands, CountedBy, Driver, Error, Resp, Served, Servers, Settings, Value,
};
use crate::net::{Connection, Endpoint};

/// The longest that a cache may serve what it was told to forget.
const FORGET_LIMIT: Duration = Duration::from_secs(2);

/// What the checks of one mode share.
pub struct Scene<'a, D> {
    /// An uncached client of the same driver: what it writes is foreign to the cache.
    pub foreign: &'a D,
    pub servers: &'a Servers,
    pub settings: &'a Settings,
    pub prefix: &'a str,
    /// Every node of a cluster; else the server.
    pub nodes: Vec<Endpoint>,
    pub mode: CacheMode,
    pub noloop: bool,
}

/// A cached client whose reads are counted here too.
struct Subject<C> {
    cached: C,
    /// Whether the driver only infers where a read was served ([`at_once`](crate::drivers::at_once)): then a miss may be told as a hit.
    inferred: bool,
    hits: AtomicU64,
    misses: AtomicU64,
    /// Reads of which nobody told where they were served.
    untold: AtomicU64,
}

type Read = (Option<Vec<u8>>, Served);

impl<C: Cached> Subject<C> {
    /// A read. Where the client can't tell of one read for certain, its counts tell of reads that are made one at a time.
    async fn get(&self, key: &[u8]) -> Result<Read, Error> {
        let before = self.cached.counts().hits;
        let read = self.cached.get(key).await?;
        let counter = match read.served {
            Served::Cache => &self.hits,
            Served::Server => &self.misses,
            Served::Unknown => &self.untold,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let served = match read.served {
            told @ (Served::Cache | Served::Server) if !self.inferred => told,
            _ if self.cached.counts().hits > before => Served::Cache,
            _ => Served::Server,
        };
        Ok((read.value.map(|value| value.as_ref().to_vec()), served))
    }

    /// A read that must go to the server.
    async fn miss(&self, key: &[u8], expected: Option<&[u8]>) -> Checked {
        let (value, served) = self.get(key).await?;
        ensure!(served == Served::Server, "the first read of a key was a hit");
        ensure!(value.as_deref() == expected, "a miss returned {}", shown(value.as_deref()));
        Ok(())
    }

    /// Reads until a hit has the expected value; each read on the way must have it too.
    async fn hit(&self, key: &[u8], expected: Option<&[u8]>) -> Checked {
        let started = Instant::now();
        loop {
            let (value, served) = self.get(key).await?;
            ensure!(value.as_deref() == expected, "{served:?} returned {} instead of {}", shown(value.as_deref()), shown(expected));
            if served == Served::Cache {
                return Ok(());
            }
            ensure!(started.elapsed() < FORGET_LIMIT, "no hit within {FORGET_LIMIT:?}");
            tokio::task::yield_now().await;
        }
    }

    /// Reads until the expected value comes; false if it does not within [`FORGET_LIMIT`].
    async fn becomes(&self, key: &[u8], expected: Option<&[u8]>) -> Result<bool, Fault> {
        let started = Instant::now();
        loop {
            if self.get(key).await?.0.as_deref() == expected {
                return Ok(true);
            }
            if started.elapsed() >= FORGET_LIMIT {
                return Ok(false);
            }
            tokio::task::yield_now().await;
        }
    }

    /// Whether the expected value comes, once other keys had their time.
    async fn has_become(&self, key: &[u8], expected: Option<&[u8]>) -> Result<bool, Fault> {
        Ok(self.get(key).await?.0.as_deref() == expected)
    }

    /// As [`Subject::becomes`], and then again a hit.
    async fn forgets(&self, key: &[u8], expected: Option<&[u8]>, why: &str) -> Checked {
        ensure!(self.becomes(key, expected).await?, "{FORGET_LIMIT:?} after {why} it still serves the old value");
        self.hit(key, expected).await
    }

    /// Waits for the reply to a command about `missing`, a key that never exists, over the tracked connection: what the server had to say of
    /// keys of that node, it has said before it.
    async fn fence(&self, missing: &[u8]) -> Result<(), Error> {
        self.cached.client().call(&Command::new("UNLINK").arg(missing)).await.map(drop)
    }

    /// Whether the cache counted what the reads said; then it is closed.
    async fn agrees(self) -> Checked {
        let counts = self.cached.counts();
        let (hits, misses, untold) = (self.hits.into_inner(), self.misses.into_inner(), self.untold.into_inner());
        let agrees = match (untold, self.inferred) {
            (0, false) => (counts.hits, counts.misses) == (hits, misses),
            // A hit is always told as one.
            (0, true) => counts.hits + counts.misses == hits + misses && counts.hits <= hits,
            _ => counts.hits + counts.misses == hits + misses + untold,
        };
        ensure!(
            agrees,
            "the cache counted {} hits and {} misses, the reads said {hits} and {misses}, and {untold} did not say",
            counts.hits,
            counts.misses
        );
        self.cached.close().await;
        Ok(())
    }
}

/// A value for a message.
fn shown(value: Option<&[u8]>) -> String {
    match value {
        None => "nil".into(),
        Some(long) if long.len() > 40 => format!("{} bytes", long.len()),
        Some(short) => format!("{:?}", String::from_utf8_lossy(short)),
    }
}

impl<D: Driver> Scene<'_, D> {
    fn options(&self) -> CacheSettings {
        let prefix = if self.mode == CacheMode::Broadcast { self.prefix.into() } else { Vec::new() };
        CacheSettings { mode: self.mode, noloop: self.noloop, prefix, ..CacheSettings::default() }
    }

    async fn cached(&self, options: &CacheSettings) -> Result<Subject<D::Cached>, Error> {
        let cached = D::cached(self.servers, self.settings, options).await?;
        let inferred = D::DESCRIPTOR.cache.reads == CountedBy::Client;
        Ok(Subject { cached, inferred, hits: AtomicU64::new(0), misses: AtomicU64::new(0), untold: AtomicU64::new(0) })
    }

    /// A key with a hash tag; keys of the same tag are on the same node.
    fn key(&self, tag: &str, name: impl AsRef<[u8]>) -> Vec<u8> {
        [self.prefix.as_bytes(), b"{", tag.as_bytes(), b"}", name.as_ref()].concat()
    }

    /// A key for [`Subject::fence`], on the node of the keys tagged `tag`.
    fn fence_key(&self, tag: &str) -> Vec<u8> {
        self.key(tag, "fence")
    }

    async fn delete<'k>(&self, keys: impl IntoIterator<Item = &'k Vec<u8>>) -> Result<(), Error> {
        for key in keys {
            self.foreign.call(&Command::new("DEL").arg(key)).await?;
        }
        Ok(())
    }
}

/// The first read goes to the server, the next comes from the cache, with the same bytes.
pub async fn a_second_read_is_a_hit_with_the_same_bytes<D: Driver>(scene: &Scene<'_, D>) -> Checked {
    let subject = scene.cached(&scene.options()).await?;
    let every_byte: Vec<u8> = (0..=255).chain(*b"\r\n$3\r\n*1\r\n").collect();
    let mebibyte: Vec<u8> = (0..1 << 20).map(|place: u32| (place % 251) as u8).collect();
    let values = [b"text".to_vec(), every_byte.clone(), Vec::new(), b"$-1\r\n".to_vec(), mebibyte];
    let keys: Vec<_> = (0..values.len()).map(|number| scene.key(&number.to_string(), &every_byte)).collect();
    for (number, (key, value)) in keys.iter().zip(&values).enumerate() {
        scene.foreign.set(key, value).await?;
        subject.fence(&scene.fence_key(&number.to_string())).await?;
        subject.miss(key, Some(value)).await?;
        subject.hit(key, Some(value)).await?;
    }
    // Whether a missing key is kept is up to the client; that it is missing is not.
    let missing = scene.key("missing", "");
    for _ in 0..10 {
        let (value, _) = subject.get(&missing).await?;
        ensure!(value.is_none(), "a missing key has the value {}", shown(value.as_deref()));
    }
    for (key, value) in keys.iter().zip(&values) {
        subject.hit(key, Some(value)).await?;
    }
    scene.delete(&keys).await?;
    subject.agrees().await
}

/// What another connection writes is forgotten: values, missing keys, and keys that are deleted.
pub async fn a_foreign_write_is_forgotten<D: Driver>(scene: &Scene<'_, D>) -> Checked {
    let subject = scene.cached(&scene.options()).await?;
    // Enough tags that every master of a cluster has some.
    for tag in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        let key = scene.key(tag, b"foreign\x00\xff");
        for _ in 0..3 {
            let (value, _) = subject.get(&key).await?;
            ensure!(value.is_none(), "a missing key has the value {}", shown(value.as_deref()));
        }
        for round in 0..5 {
            let value = format!("value {round}").into_bytes();
            scene.foreign.set(&key, &value).await?;
            subject.fence(&scene.fence_key(tag)).await?;
            subject.forgets(&key, Some(&value), "another connection's SET").await?;
        }
        scene.delete([&key]).await?;
        subject.fence(&scene.fence_key(tag)).await?;
        ensure!(subject.becomes(&key, None).await?, "{FORGET_LIMIT:?} after another connection's DEL it still serves the value");
    }
    ensure!(subject.cached.counts().invalidations > 0, "it counted no invalidation");
    subject.agrees().await
}

/// What is written over the tracked connection itself is forgotten.
pub async fn an_own_write_is_forgotten<D: Driver>(scene: &Scene<'_, D>) -> Checked {
    let subject = scene.cached(&scene.options()).await?;
    let tags = ["a", "b", "c", "d", "e", "f", "g", "h"];
    for tag in tags {
        let key = scene.key(tag, "own");
        for round in 0..5 {
            let value = format!("value {round}").into_bytes();
            subject.cached.set(&key, &value).await?;
            subject.fence(&scene.fence_key(tag)).await?;
            subject.forgets(&key, Some(&value), "an own SET").await?;
        }
        // And after it another's.
        scene.foreign.set(&key, b"foreign").await?;
        subject.fence(&scene.fence_key(tag)).await?;
        subject.forgets(&key, Some(b"foreign"), "another's SET after an own").await?;
    }
    scene.delete(&tags.map(|tag| scene.key(tag, "own"))).await?;
    subject.agrees().await
}

/// All keys deleted at once: all are forgotten.
pub async fn deleted_keys_are_forgotten<D: Driver>(scene: &Scene<'_, D>) -> Checked {
    const KEYS: usize = 200;
    let subject = scene.cached(&scene.options()).await?;
    let keys: Vec<_> = (0..KEYS).map(|number| scene.key(&(number % 16).to_string(), number.to_string())).collect();
    for key in &keys {
        scene.foreign.set(key, b"value").await?;
    }
    for key in &keys {
        ensure!(subject.get(key).await?.0.is_some(), "a key is missing");
    }
    for key in &keys {
        subject.hit(key, Some(b"value")).await?;
    }
    scene.delete(&keys).await?;
    for tag in 0..16 {
        subject.fence(&scene.fence_key(&tag.to_string())).await?;
    }
    for key in &keys {
        ensure!(subject.becomes(key, None).await?, "{FORGET_LIMIT:?} after its deletion a key still has its value");
    }
    subject.agrees().await
}

/// An entry that is older than the time to live is read again.
pub async fn an_old_entry_is_read_again<D: Driver>(scene: &Scene<'_, D>) -> Checked {
    let options = CacheSettings { ttl: Some(Duration::from_millis(100)), ..scene.options() };
    let subject = scene.cached(&options).await?;
    let key = scene.key("ttl", "");
    scene.foreign.set(&key, b"value").await?;
    subject.fence(&scene.fence_key("ttl")).await?;
    subject.miss(&key, Some(b"value")).await?;
    subject.hit(&key, Some(b"value")).await?;
    let started = Instant::now();
    loop {
        let (value, served) = subject.get(&key).await?;
        ensure!(value.as_deref() == Some(b"value"), "{served:?} returned {}", shown(value.as_deref()));
        if served == Served::Server {
            break;
        }
        ensure!(started.elapsed() < Duration::from_secs(5), "5 s old, and to live 100 ms, an entry is still served");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    subject.hit(&key, Some(b"value")).await?;
    scene.delete([&key]).await?;
    subject.agrees().await
}

/// A small cache stays small, and right.
pub async fn a_small_capacity_holds<D: Driver>(scene: &Scene<'_, D>) -> Checked {
    const CAPACITY: u64 = 64;
    const KEYS: usize = 1_000;
    let options = CacheSettings { capacity: NonZeroU64::new(CAPACITY).map(Capacity::Entries), ..scene.options() };
    let subject = scene.cached(&options).await?;
    let keys: Vec<_> = (0..KEYS).map(|number| scene.key(&(number % 16).to_string(), number.to_string())).collect();
    for (number, key) in keys.iter().enumerate() {
        scene.foreign.set(key, number.to_string().as_bytes()).await?;
    }
    for _ in 0..2 {
        for (number, key) in keys.iter().enumerate() {
            let (value, served) = subject.get(key).await?;
            ensure!(value.as_deref() == Some(number.to_string().as_bytes()), "{served:?}: key {number} has {}", shown(value.as_deref()));
        }
    }
    // Some clients keep house later, and round up by their shards.
    let started = Instant::now();
    while let Some(entries) = subject.cached.counts().entries {
        if entries <= 2 * CAPACITY {
            break;
        }
        ensure!(started.elapsed() < FORGET_LIMIT, "with room for {CAPACITY} keys it holds {entries}");
        subject.get(&keys[0]).await?;
        tokio::task::yield_now().await;
    }
    let counts = subject.cached.counts();
    ensure!(counts.misses >= 2 * (KEYS as u64 - 2 * CAPACITY), "of {KEYS} keys read twice only {} were misses", counts.misses);
    if D::DESCRIPTOR.cache.evictions.is_some() {
        ensure!(counts.evictions.unwrap_or(0) > 0, "it counted no eviction");
    }
    scene.delete(&keys).await?;
    subject.agrees().await
}

/// Readers and writers of the same few keys, round after round. When all is quiet, and the server has said what it had to say, every
/// key has its last value. A cache that stores a reply after the invalidation that overtook it keeps an old one.
pub async fn a_reply_never_outlives_its_invalidation<D: Driver>(scene: &Scene<'_, D>) -> Checked {
    const KEYS: usize = 16;
    const READERS: usize = 48;
    const ROUNDS: usize = 40;
    let subject = Arc::new(scene.cached(&scene.options()).await?);
    let keys: Vec<_> = (0..KEYS).map(|number| scene.key(&number.to_string(), "raced")).collect();
    // Of own writes nobody is told with NOLOOP.
    let own_too = !scene.noloop;
    let (mut stale, mut rounds) = (Vec::new(), 0);
    while rounds < ROUNDS && stale.is_empty() {
        let mut callers: JoinSet<Result<(), Error>> = JoinSet::new();
        for (number, key) in keys.iter().enumerate() {
            let (subject, foreign, key) = (subject.clone(), scene.foreign.clone(), key.clone());
            callers.spawn(async move {
                for write in 0..4 {
                    let value = format!("{rounds}:{write}").into_bytes();
                    // One writer for each key, so that its last value is known.
                    match own_too && number % 2 == 1 {
                        true => subject.cached.set(&key, &value).await?,
                        false => foreign.set(&key, &value).await?,
                    }
                }
                Ok(())
            });
        }
        for reader in 0..READERS {
            let (subject, keys) = (subject.clone(), keys.clone());
            callers.spawn(async move {
                for turn in 0..8 {
                    subject.get(&keys[(reader + turn * 5) % KEYS]).await?;
                    tokio::task::consume_budget().await;
                }
                Ok(())
            });
        }
        for result in callers.join_all().await {
            result?;
        }
        for (number, key) in keys.iter().enumerate() {
            subject.fence(&scene.fence_key(&number.to_string())).await?;
            let last = format!("{rounds}:3").into_bytes();
            // Each needs the time but once: by then the last writes of all are as old.
            let right =
                if stale.is_empty() { subject.becomes(key, Some(&last)).await? } else { subject.has_become(key, Some(&last)).await? };
            if !right {
                let (value, served) = subject.get(key).await?;
                stale.push(format!("{} for {} ({served:?})", shown(value.as_deref()), shown(Some(&last))));
            }
        }
        rounds += 1;
    }
    scene.delete(&keys).await?;
    ensure!(
        stale.is_empty(),
        "in round {rounds} of {ROUNDS}, {} of {KEYS} keys still had an older value {FORGET_LIMIT:?} after the last write: {}",
        stale.len(),
        stale.join(", ")
    );
    match Arc::into_inner(subject) {
        Some(subject) => subject.agrees().await,
        None => Err(Fault::Failed("a caller is left over".into())),
    }
}

/// A cache that is not possible is refused, for the reason that the descriptor gives.
pub async fn what_is_impossible_is_refused<D: Driver>(
    servers: &Servers,
    settings: &Settings,
    options: &CacheSettings,
    reason: &'static str,
) -> Checked {
    match D::cached(servers, settings, options).await {
        Err(Error::Unsupported(said)) if said == reason => Err(Fault::Unsupported(reason.to_owned())),
        Err(other) => Err(Fault::Failed(format!("impossible, \"{reason}\", became a {} error: {other}", other.kind()))),
        Ok(cached) => {
            cached.close().await;
            Err(Fault::Failed(format!("it caches, and says that it can't: {reason}")))
        }
    }
}

/// Ends every tracked connection of the servers, and returns how many there were.
async fn kill_tracked(nodes: &[Endpoint]) -> Result<usize, Error> {
    let mut killed = 0;
    for node in nodes {
        let mut connection = Connection::open(node, Resp::V2, true).await?;
        let Value::Blob(list) = connection.request(&Command::new("CLIENT").arg("LIST")).await? else { continue };
        for line in String::from_utf8_lossy(&list).lines() {
            let field = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).unwrap_or_default();
            if field("flags").contains('t') {
                connection.request(&Command::new("CLIENT").arg("KILL").arg("ID").arg(field("id"))).await?;
                killed += 1;
            }
        }
    }
    Ok(killed)
}

/// A lost connection: soon no read is answered with what was written before it. A client may fail each read, or connect again.
pub async fn a_cache_does_not_outlive_its_connection<D: Driver>(scene: &Scene<'_, D>) -> Checked {
    const RECONNECT_LIMIT: Duration = Duration::from_secs(10);
    let subject = scene.cached(&scene.options()).await?;
    let tags = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let keys = tags.map(|tag| scene.key(tag, "lost"));
    for (key, tag) in keys.iter().zip(tags) {
        scene.foreign.set(key, b"old").await?;
        subject.fence(&scene.fence_key(tag)).await?;
        subject.miss(key, Some(b"old")).await?;
        subject.hit(key, Some(b"old")).await?;
    }
    ensure!(kill_tracked(&scene.nodes).await? > 0, "the servers know no tracked connection");
    for key in &keys {
        scene.foreign.set(key, b"new").await?;
    }
    let (mut old, mut failed) = (0, None);
    for key in &keys {
        let started = Instant::now();
        loop {
            match subject.cached.get(key).await {
                Ok(read) if read.value.as_ref().is_some_and(|value| value.as_ref() == b"new") => break,
                Ok(_) if old == 0 && started.elapsed() < FORGET_LIMIT => tokio::task::yield_now().await,
                Ok(_) => {
                    old += 1;
                    break;
                }
                Err(_) if D::DESCRIPTOR.cache.reconnects && started.elapsed() < RECONNECT_LIMIT => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
    }
    scene.delete(&keys).await?;
    subject.cached.close().await;
    ensure!(old == 0, "{FORGET_LIMIT:?} after its connection was killed, {old} of {} keys still have their old values", keys.len());
    match failed {
        Some(error) if D::DESCRIPTOR.cache.reconnects => Err(Fault::Failed(format!("it does not connect again: {error}"))),
        None if !D::DESCRIPTOR.cache.reconnects => Err(Fault::Failed("it connects again, and says that it does not".into())),
        _ => Ok(()),
    }
}
