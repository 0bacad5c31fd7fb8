//! Reads through a client-side cache, each of a known kind: what the bench `client_cache` times.
//!
//! The kind is brought about, not hoped for, and every run checks it twice: the client must have counted so many hits and
//! misses, and the servers so many reads, each exactly.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio::task::coop::consume_budget;

use super::commands::{Keyspace, Workload};
use super::run::{Failure, Load, Run, Work, audited};
use super::runner::{Opening, Runner};
use crate::drivers::{
    CacheCounts, CacheMode, CacheSettings, Cached, Capacity, Command, Driver, Error, Servers, Settings, UnknownDriver, Visit,
};
use crate::measure::{Allocations, Usage};
use crate::target::audit::{Auditor, ServerUsage};
use crate::window::Flushes;

/// What every read of a cell is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadKind {
    /// The cache has the key.
    Hit,
    /// The cache has never had the key.
    Miss,
    /// The same client without a cache.
    Uncached,
}

impl fmt::Display for ReadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReadKind::Hit => "hit",
            ReadKind::Miss => "miss",
            ReadKind::Uncached => "uncached",
        })
    }
}

/// How a cell reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CachedReads {
    /// What every read is.
    pub read: ReadKind,
    /// Which keys the server tells about.
    pub mode: CacheMode,
    /// Keys that the cache may hold.
    pub capacity: NonZeroU64,
}

/// No entry may expire while a cell runs.
const TTL: Duration = Duration::from_secs(1800);

impl CachedReads {
    fn settings(&self) -> CacheSettings {
        CacheSettings {
            mode: self.mode,
            capacity: Some(Capacity::Entries(self.capacity)),
            ttl: Some(TTL),
            prefix: super::commands::PREFIX.as_bytes().to_vec(),
            ..CacheSettings::default()
        }
    }
}

/// Commands in one pipeline while keys are written or deleted.
const AT_ONCE: usize = 256;

/// Passes over the keys until all are hits. One fills the cache, the next finds it so.
const WARMING_PASSES: usize = 10;

/// Connects the driver called `name`, with its cache unless reads are uncached, bound to a keyspace under `run`. Must be
/// called inside the runtime on which the client is to live.
///
/// # Errors
/// [`UnknownDriver`] outside; inside, why the driver can't cache so, and the errors of connecting.
pub fn open<'a>(
    name: &str,
    servers: &'a Servers,
    settings: &'a Settings,
    workload: &'a Workload,
    reads: CachedReads,
    run: &'a str,
) -> Result<Opening<'a>, UnknownDriver> {
    struct Open<'a>(&'a Servers, &'a Settings, CachedReads, Arc<Keyspace>);
    impl<'a> Visit for Open<'a> {
        type Output = Opening<'a>;
        fn visit<D: Driver>(self) -> Self::Output {
            let Open(servers, settings, reads, keyspace) = self;
            Box::pin(async move {
                let driver = D::connect(servers, settings).await?;
                let cached = if reads.read == ReadKind::Uncached { None } else { Some(Cell::<D>::cache(servers, settings, &reads).await?) };
                let state = Mutex::new(State { cached, read: 0, written: 0 });
                Ok(Box::new(Cell { driver, keyspace, servers: servers.clone(), settings: settings.clone(), reads, state })
                    as Box<dyn Runner>)
            })
        }
    }
    crate::drivers::visit(name, Open(servers, settings, reads, Keyspace::new(workload, run)))
}

/// A connected cell.
struct Cell<D: Driver> {
    /// Writes the keys, and reads them uncached.
    driver: D,
    keyspace: Arc<Keyspace>,
    servers: Servers,
    settings: Settings,
    reads: CachedReads,
    state: Mutex<State<D::Cached>>,
}

struct State<C> {
    /// `None` when reads are uncached, and after a failed opening.
    cached: Option<C>,
    /// Keys that this cache was asked for, the first of the keyspace (misses).
    read: usize,
    /// Keys that were written, the first of the keyspace.
    written: usize,
}

fn no_cache() -> Error {
    Error::Connection("the cached client is not connected".into())
}

fn command_failed(error: &Error, done: u64, wanted: u64) -> Failure {
    Failure::Command { kind: error.kind(), text: error.to_string(), done, wanted }
}

impl<D: Driver> Cell<D> {
    async fn cache(servers: &Servers, settings: &Settings, reads: &CachedReads) -> Result<D::Cached, Error> {
        D::cached(servers, settings, &reads.settings()).await
    }

    async fn each_key(&self, keys: Range<usize>, command: impl Fn(&[u8]) -> Command) -> Result<(), Error> {
        let mut next = keys.start;
        while next < keys.end {
            let end = keys.end.min(next + AT_ONCE);
            let commands: Vec<Command> = (next..end).map(|index| command(self.keyspace.key(index))).collect();
            for reply in self.driver.pipeline(&commands).await? {
                reply?;
            }
            next = end;
        }
        Ok(())
    }

    /// Writes the first `wanted` keys, as far as they are not.
    async fn write(&self, state: &mut State<D::Cached>, wanted: usize) -> Result<(), Error> {
        if wanted > state.written {
            self.each_key(state.written..wanted, |key| Command::set(key, self.keyspace.value())).await?;
            state.written = wanted;
        }
        Ok(())
    }

    async fn prepare(&self) -> Result<(), Error> {
        let state = &mut *self.state.lock().await;
        let keys = self.keyspace.len();
        if self.reads.read == ReadKind::Uncached {
            self.write(state, keys).await?;
            return self.keyspace.verify(&self.driver).await;
        }
        if self.reads.read == ReadKind::Hit {
            self.write(state, keys).await?;
        } else {
            self.write(state, 1).await?;
        }
        // Once from the server, once from the cache.
        let cached = state.cached.as_ref().ok_or_else(no_cache)?;
        let before = cached.counts();
        for _ in 0..2 {
            let read = cached.get(self.keyspace.key(0)).await?;
            self.keyspace.verify_value(read.value.as_ref().map(AsRef::as_ref))?;
        }
        let done = Told::between(before, cached.counts());
        if done != (Told { hits: 1, misses: 1 }) {
            return Err(Error::Client(format!("of the first two reads of a key the client counted {done}")));
        }
        if self.reads.read == ReadKind::Hit { self.warm(cached).await } else { self.empty(state).await }
    }

    /// Reads all keys until each is a hit.
    async fn warm(&self, cached: &D::Cached) -> Result<(), Error> {
        let keys = self.keyspace.len();
        let mut done = Told::default();
        for _ in 0..WARMING_PASSES {
            let before = cached.counts();
            for index in 0..keys {
                let read = cached.get(self.keyspace.key(index)).await?;
                self.keyspace.verify_value(read.value.as_ref().map(AsRef::as_ref))?;
                consume_budget().await;
            }
            done = Told::between(before, cached.counts());
            if done == (Told { hits: keys as u64, misses: 0 }) {
                return Ok(());
            }
        }
        Err(Error::Client(format!("the cache does not keep {keys} keys: after {WARMING_PASSES} passes over them still {done}")))
    }

    /// An empty cache in place of the used one.
    async fn empty(&self, state: &mut State<D::Cached>) -> Result<(), Error> {
        if let Some(used) = state.cached.take() {
            used.close().await;
        }
        state.read = 0;
        state.cached = Some(Self::cache(&self.servers, &self.settings, &self.reads).await?);
        Ok(())
    }

    async fn run(&self, load: &Load, auditor: &mut Auditor) -> Result<Run, Failure> {
        let state = &mut *self.state.lock().await;
        let calls = |reads| BTreeMap::from([("get".to_owned(), reads)]);
        match self.reads.read {
            ReadKind::Uncached => {
                let work = Uncached { client: self.driver.clone(), keyspace: self.keyspace.clone() };
                audited(&work, calls(load.operations), load, auditor).await
            }
            ReadKind::Hit => {
                let cached = state.cached.clone().ok_or_else(|| command_failed(&no_cache(), 0, load.operations))?;
                let wanted = Told { hits: load.operations, misses: 0 };
                self.read(cached, 0, wanted, calls(0), load, auditor).await
            }
            ReadKind::Miss => self.misses(state, load, auditor).await,
        }
    }

    /// Each key is read once; when there is none left, an empty cache takes over, outside the clock and the audit.
    async fn misses(&self, state: &mut State<D::Cached>, load: &Load, auditor: &mut Auditor) -> Result<Run, Failure> {
        let mut sum: Option<Run> = None;
        let mut done = 0;
        while done < load.operations {
            let failed = |error: Error| command_failed(&error, done, load.operations);
            if state.read == self.keyspace.len() {
                self.empty(state).await.map_err(failed)?;
            }
            let first = state.read;
            let left = usize::try_from(load.operations - done).unwrap_or(usize::MAX);
            state.read = self.keyspace.len().min(first.saturating_add(left));
            self.write(state, state.read).await.map_err(failed)?;
            let reads = (state.read - first) as u64;
            let mut calls = BTreeMap::from([("get".to_owned(), reads)]);
            for (name, each) in (D::DESCRIPTOR.cache.beside_miss)(self.reads.mode) {
                *calls.entry((*name).to_owned()).or_default() += each * reads;
            }
            let cached = state.cached.clone().ok_or_else(|| failed(no_cache()))?;
            let part = Load { operations: reads, ..*load };
            let run = self.read(cached, first, Told { hits: 0, misses: reads }, calls, &part, auditor).await?;
            sum = Some(match sum {
                None => run,
                Some(sum) => add(sum, run),
            });
            done += reads;
        }
        sum.ok_or_else(|| command_failed(&Error::Client("nothing was asked for".into()), 0, 0))
    }

    /// Reads from the key `first` on, and compares with what the client counted meanwhile.
    async fn read(
        &self,
        cached: D::Cached,
        first: usize,
        wanted: Told,
        calls: BTreeMap<String, u64>,
        load: &Load,
        auditor: &mut Auditor,
    ) -> Result<Run, Failure> {
        let work = ByCache { cached, keyspace: self.keyspace.clone(), first };
        let before = work.cached.counts();
        let run = audited(&work, calls, load, auditor).await?;
        let told = Told::between(before, work.cached.counts());
        if told == wanted { Ok(run) } else { Err(Failure::Audit(format!("the client counted {told}, we wanted {wanted}"))) }
    }
}

impl<D: Driver> Runner for Cell<D> {
    fn prepare(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.prepare())
    }

    fn run<'a>(&'a self, load: &'a Load, auditor: &'a mut Auditor) -> BoxFuture<'a, Result<Run, Failure>> {
        Box::pin(self.run(load, auditor))
    }

    fn flushes(&self) -> Option<Flushes> {
        None
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move {
            let written = self.state.lock().await.written;
            let removed = self.each_key(0..written, |key| Command::new("DEL").arg(key)).await;
            if let Some(cached) = self.state.into_inner().cached {
                cached.close().await;
            }
            self.driver.close().await;
            removed
        })
    }
}

fn add(sum: Run, more: Run) -> Run {
    let Run { mut server, mut audit, .. } = sum;
    ServerUsage::add(&mut server, &more.server);
    audit.add(more.audit);
    let both = |one: Allocations, other: Allocations| Allocations { count: one.count + other.count, bytes: one.bytes + other.bytes };
    let client = Usage {
        user: sum.client.user + more.client.user,
        system: sum.client.system + more.client.system,
        allocations: sum.client.allocations.zip(more.client.allocations).map(|(one, other)| both(one, other)),
    };
    Run { operations: sum.operations + more.operations, elapsed: sum.elapsed + more.elapsed, client, server, audit }
}

/// What a client counted between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Told {
    hits: u64,
    misses: u64,
}

impl Told {
    fn between(before: CacheCounts, after: CacheCounts) -> Self {
        Self { hits: after.hits.saturating_sub(before.hits), misses: after.misses.saturating_sub(before.misses) }
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} hits and {} misses", self.hits, self.misses)
    }
}

/// The timed part, by the cache. A hit never waits, so its caller yields by itself, or the connection's task would get no turn.
#[derive(Clone)]
struct ByCache<C> {
    cached: C,
    keyspace: Arc<Keyspace>,
    first: usize,
}

impl<C: Cached> Work for ByCache<C> {
    async fn stretch(&self, first: u64, count: u64) -> Result<(), (u64, Error)> {
        for done in 0..count {
            let index = self.first + (first + done) as usize;
            let read = self.cached.get(self.keyspace.key(index)).await.map_err(|error| (done, error))?;
            self.keyspace.check_length(read.value.map(|value| value.as_ref().len())).map_err(|error| (done, error))?;
            consume_budget().await;
        }
        Ok(())
    }
}

/// The timed part without a cache. It yields as the other does, so that this is no difference.
#[derive(Clone)]
struct Uncached<C> {
    client: C,
    keyspace: Arc<Keyspace>,
}

impl<C: crate::drivers::Commands> Work for Uncached<C> {
    async fn stretch(&self, first: u64, count: u64) -> Result<(), (u64, Error)> {
        for done in 0..count {
            self.keyspace.operate(&self.client, (first + done) as usize).await.map_err(|error| (done, error))?;
            consume_budget().await;
        }
        Ok(())
    }
}
