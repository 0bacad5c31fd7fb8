//! A connected cached driver, ready to be loaded. Its type is erased here, once per run.

use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;

use super::fence::{Fence, Log, Slots, slots};
use super::figures::CacheFigures;
use super::keyspace::PROBE_KEYS;
use super::probe::ProbeCommands;
use super::run::run;
use super::uncached::Uncached;
use super::versions::Versions;
use crate::drivers::{CacheCounts, CacheSettings, CacheSupport, Cached, Driver, Error, Servers, Settings, UnknownDriver, Visit};
use crate::measure::live_bytes;
use crate::workload::load::engine::{Job, Outcome};
use crate::workload::load::ticker::Observer;
use crate::workload::mix::Mix;

/// How a cached load is done, besides its [`Job`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheJob {
    /// How the cached client is opened.
    pub settings: CacheSettings,
    /// SETs go through a second, plain client of the same driver.
    pub external_writers: bool,
    /// Probes of the lag in a second; 0 = none.
    pub probes_per_second: u32,
}

/// What came of a cached load.
pub struct CachedOutcome {
    /// As of every load; the callers' commands only.
    pub outcome: Outcome,
    /// What is of the cache.
    pub cache: CacheFigures,
    /// Commands beside those of the callers.
    pub beside: Beside,
}

/// Commands that the harness sent beside those of the callers, for the audit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// Of the probes.
    pub probes: ProbeCommands,
    /// UNLINKs of fences that were answered.
    pub fences: u64,
    /// Those that were not.
    pub fences_lost: u64,
    /// Commands that the client sends with each miss beside the read, lower case, with how many of each.
    pub each_miss: &'static [(&'static str, u64)],
}

/// Reads what a cache has counted so far.
pub type Counter = Arc<dyn Fn() -> CacheCounts + Send + Sync>;

/// A loader that is being connected.
pub type Opening<'a> = BoxFuture<'a, Result<Box<dyn CachedLoader>, Error>>;

/// A cached client that takes jobs.
pub trait CachedLoader: Send + Sync {
    /// Runs one job of the mix that it was opened for. The keys must hold what [`prefill`](super::prefill) writes when the first one begins.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for explicit pipelines and transactions, before anything is sent; that the masters of a cluster
    /// can't be asked for.
    fn run<'a>(
        &'a self,
        mix: &'a Arc<Mix>,
        job: &'a Job,
        threads: usize,
        observer: Observer,
    ) -> BoxFuture<'a, Result<CachedOutcome, Error>>;

    /// Reads what its cache has counted so far, probes included.
    fn counter(&self) -> Counter;

    /// Closes the connections.
    fn close(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// A cached client, and all that outlives one run of it.
pub struct Bound<C, F> {
    /// The cached client.
    pub cached: C,
    /// A plain one, where external writers or probes need it.
    pub foreign: Option<F>,
    /// What it was opened for.
    pub job: CacheJob,
    /// What its driver says of its cache.
    pub support: &'static CacheSupport,
    /// See [`Beside::each_miss`].
    pub each_miss: &'static [(&'static str, u64)],
    /// Versions of all keys.
    pub versions: Arc<Versions>,
    /// Clean writes that were not yet fenced.
    pub log: Arc<Log>,
    /// Versions of the probes' keys.
    pub probed: Arc<Mutex<[u64; PROBE_KEYS]>>,
    /// How it is fenced.
    pub fence: Arc<Fence>,
    /// Which master serves what, as it was when the fence was made.
    pub slots: Slots,
    /// To be asked again at the end.
    pub servers: Servers,
    /// By how much the live heap grew since the cached client began to be opened, in opening and runs, bytes.
    pub grown: AtomicI64,
}

impl<C: Cached, F: Driver> CachedLoader for Bound<C, F> {
    fn run<'a>(
        &'a self,
        mix: &'a Arc<Mix>,
        job: &'a Job,
        threads: usize,
        observer: Observer,
    ) -> BoxFuture<'a, Result<CachedOutcome, Error>> {
        Box::pin(run(self, mix, job, threads, observer))
    }

    fn counter(&self) -> Counter {
        let cached = self.cached.clone();
        Arc::new(move || cached.counts())
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.cached.close().await;
            if let Some(foreign) = self.foreign {
                foreign.close().await;
            }
        })
    }
}

/// The growth of the live heap between two readings, bytes; 0 without the counting allocator.
pub fn growth(before: Option<u64>, after: Option<u64>) -> i64 {
    let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    before.zip(after).map_or(0, |(before, after)| signed(after) - signed(before))
}

type EachMiss = &'static [(&'static str, u64)];

/// Opens what `open` gives, and all that a load of it needs. The plain client comes first, so that it is no part of the cache's memory.
async fn bind<C, F, O>(
    servers: &Servers,
    settings: &Settings,
    job: CacheJob,
    keys: u64,
    cache: (&'static CacheSupport, EachMiss),
    open: impl FnOnce() -> O + Send,
) -> Result<Box<dyn CachedLoader>, Error>
where
    C: Cached,
    F: Driver,
    O: Future<Output = Result<C, Error>> + Send,
{
    let slots = slots(servers).await?;
    let fence = Arc::new(Fence::new(&slots, job.settings.mode));
    let versions = Arc::new(Versions::new(usize::try_from(keys).unwrap_or(usize::MAX)));
    let foreign = if job.external_writers || job.probes_per_second > 0 { Some(F::connect(servers, settings).await?) } else { None };
    let before = live_bytes();
    let cached = match open().await {
        Ok(cached) => cached,
        Err(error) => {
            if let Some(foreign) = foreign {
                foreign.close().await;
            }
            return Err(error);
        }
    };
    let grown = AtomicI64::new(growth(before, live_bytes()));
    let (log, probed, servers) = (Arc::default(), Arc::default(), servers.clone());
    let (support, each_miss) = cache;
    Ok(Box::new(Bound { cached, foreign, job, support, each_miss, versions, log, probed, fence, slots, servers, grown }))
}

/// Connects the driver called `name` with its cache, for loads of `mix`, which [`check_mix`](super::check_mix) takes. Must be called inside
/// the runtime on which the client is to live.
///
/// # Errors
/// [`UnknownDriver`] outside; inside, why the driver can't cache so, and those of connecting.
pub fn open<'a>(
    name: &str,
    servers: &'a Servers,
    settings: &'a Settings,
    job: &'a CacheJob,
    mix: &'a Arc<Mix>,
) -> Result<Opening<'a>, UnknownDriver> {
    crate::drivers::visit(name, Open { servers, settings, job, keys: mix.key_count(), cached: true })
}

/// As [`open`], without the cache: each read goes to the server, and there are no probes.
///
/// # Errors
/// [`UnknownDriver`] outside; inside, those of connecting.
pub fn open_uncached<'a>(
    name: &str,
    servers: &'a Servers,
    settings: &'a Settings,
    job: &'a CacheJob,
    mix: &'a Arc<Mix>,
) -> Result<Opening<'a>, UnknownDriver> {
    crate::drivers::visit(name, Open { servers, settings, job, keys: mix.key_count(), cached: false })
}

struct Open<'a> {
    servers: &'a Servers,
    settings: &'a Settings,
    job: &'a CacheJob,
    keys: u64,
    cached: bool,
}

impl<'a> Visit for Open<'a> {
    type Output = Opening<'a>;
    fn visit<D: Driver>(self) -> Self::Output {
        let Self { servers, settings, job, keys, cached } = self;
        let support = &D::DESCRIPTOR.cache;
        if cached {
            let open = move || D::cached(servers, settings, &job.settings);
            let cache = (support, (support.beside_miss)(job.settings.mode));
            Box::pin(bind::<D::Cached, D, _>(servers, settings, job.clone(), keys, cache, open))
        } else {
            let open = move || async move { Ok(Uncached::new(D::connect(servers, settings).await?)) };
            let job = CacheJob { probes_per_second: 0, ..job.clone() };
            Box::pin(bind::<Uncached<D>, D, _>(servers, settings, job, keys, (support, &[]), open))
        }
    }
}
