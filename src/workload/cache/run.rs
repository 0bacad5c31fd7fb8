//! One run of a cached load: the callers of the engine, with fences and probes beside them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::fence::{Fences, slots};
use super::figures::{CacheFigures, CacheSecond, Staleness};
use super::issue::{Account, CLASSES, Caller};
use super::loader::{Beside, Bound, CachedOutcome, growth};
use super::probe::{Prober, Probes};
use super::stale::Stale;
use crate::drivers::{CacheCounts, Cached, Driver, Error};
use crate::measure::latency::{histogram, merge};
use crate::measure::{Classes, Distribution, live_bytes};
use crate::workload::load::engine::{self, Job, Outcome};
use crate::workload::load::ticker::Observer;
use crate::workload::mix::{Call, Mix};

/// How long fences and probes that are under way at the end are waited for, where [`Job::patience`] is not shorter.
const LONGEST_END: Duration = Duration::from_secs(3);
/// Pairs of readings of the clock.
const READINGS: usize = 2_001;

/// What two readings of the clock say with nothing in between, nanoseconds: the median.
fn clock_ns() -> f64 {
    let mut pairs: Vec<u128> = (0..READINGS)
        .map(|_| {
            let begun = Instant::now();
            Instant::now().duration_since(begun).as_nanos()
        })
        .collect();
    pairs.sort_unstable();
    pairs[READINGS / 2] as f64
}

/// The series of what a cache counted, without the reads of the probes.
struct Series {
    probes: Arc<Probes>,
    last: CacheCounts,
    seconds: Vec<CacheSecond>,
}

impl Series {
    fn more(&mut self, mut now: CacheCounts) -> CacheSecond {
        let probes = self.probes.reads();
        // Both go on, so that a read may be in one and not yet in the other: it is made up for in the next interval.
        now.hits = now.hits.saturating_sub(probes.hits).max(self.last.hits);
        now.misses = now.misses.saturating_sub(probes.misses).max(self.last.misses);
        let more = between(self.last, now);
        self.last = now;
        CacheSecond { hits: more.hits, misses: more.misses, invalidations: more.invalidations, evictions: more.evictions }
    }

    /// The end of an interval.
    fn tick(&mut self, now: CacheCounts) {
        let second = self.more(now);
        self.seconds.push(second);
    }

    /// What was counted after the last interval belongs to it: probes end a little after the callers.
    fn end(&mut self, now: CacheCounts) {
        let rest = self.more(now);
        if let Some(last) = self.seconds.last_mut() {
            last.hits += rest.hits;
            last.misses += rest.misses;
            last.invalidations += rest.invalidations;
            last.evictions = last.evictions.zip(rest.evictions).map(|(last, rest)| last + rest);
        }
    }
}

/// What was counted from `before` to `after`; the entries are those of `after`.
fn between(before: CacheCounts, after: CacheCounts) -> CacheCounts {
    let more = |before: Option<u64>, after: Option<u64>| before.zip(after).map(|(before, after)| after.saturating_sub(before));
    CacheCounts {
        hits: after.hits.saturating_sub(before.hits),
        misses: after.misses.saturating_sub(before.misses),
        invalidations: after.invalidations.saturating_sub(before.invalidations),
        evictions: more(before.evictions, after.evictions),
        expirations: more(before.expirations, after.expirations),
        entries: after.entries,
    }
}

/// A task beside the callers.
struct Beneath {
    task: JoinHandle<()>,
}

impl Beneath {
    /// Waits for it to end, or ends it.
    async fn join(mut self, limit: Duration) {
        if tokio::time::timeout(limit, &mut self.task).await.is_err() {
            self.task.abort();
            // Cancelled: what it had under way counts as lost.
            let _ = self.task.await;
        }
    }
}

/// Runs `job` through what `bound` holds.
pub async fn run<C: Cached, F: Driver>(
    bound: &Bound<C, F>,
    mix: &Arc<Mix>,
    job: &Job,
    threads: usize,
    observer: Observer,
) -> Result<CachedOutcome, Error> {
    if job.pipeline > 1 || job.transaction {
        return Err(Error::Unsupported("explicit pipelines and transactions pass by the cache"));
    }
    let unjudged = unjudged(bound, mix);
    let account = Arc::new(Account {
        versions: bound.versions.clone(),
        log: unjudged.is_none().then(|| bound.log.clone()),
        stale: Stale::default(),
        clean_writes: AtomicU64::new(0),
        with_floor: AtomicU64::new(0),
    });
    let (fences, probes) = (Arc::new(Fences::default()), Arc::new(Probes::default()));
    let clock_ns = clock_ns();
    let live = live_bytes();
    let before = bound.cached.counts();
    let series = Arc::new(Mutex::new(Series { probes: probes.clone(), last: before, seconds: Vec::new() }));
    let (stop, stopped) = watch::channel(false);
    let beneath = spawn(bound, &account, &fences, &probes, &stopped);
    let writer = bound.foreign.clone().filter(|_| bound.job.external_writers);
    let caller = Caller::new(bound.cached.clone(), writer, account.clone());
    let (watching, observer) = watch_counts(bound, series.clone(), observer);
    let mut outcome = engine::run(&caller, mix, job, threads, watching).await;
    // Nobody waits: all receivers may be gone.
    let _ = stop.send(true);
    for task in beneath {
        task.join(job.patience.min(LONGEST_END)).await;
    }
    drop(caller);
    outcome.observer = given_back(outcome.observer, observer);
    let after = bound.cached.counts();
    let seconds = {
        let mut series = series.lock().unwrap_or_else(PoisonError::into_inner);
        series.end(after);
        std::mem::take(&mut series.seconds)
    };
    let memory_bytes = memory(bound, live, &outcome, &seconds);
    let refused = fences.refused.lock().unwrap_or_else(PoisonError::into_inner).take();
    let unjudged = match unjudged.or(refused) {
        None if slots(&bound.servers).await.is_ok_and(|now| now != bound.slots) => {
            Some("slots moved between the masters during the run, so that fences may have gone to the wrong ones".to_owned())
        }
        known => known,
    };
    let load = |number: &AtomicU64| number.load(Ordering::Acquire);
    let done = |call: Call| sum(mix, &outcome, call, |counts| counts.done);
    let found = if unjudged.is_some() { Staleness::default() } else { account.stale.figures() };
    let begun = load(&fences.begun);
    let staleness = Staleness {
        checked: done(Call::Get),
        with_floor: load(&account.with_floor),
        writes: done(Call::Set),
        clean_writes: load(&account.clean_writes),
        fences: begun,
        fences_failed: begun - load(&fences.passed),
        unjudged,
        ..found
    };
    let classes = outcome.classes.take();
    let class = |call: Call, wanted: Option<usize>| latencies(mix, classes.as_ref(), call, wanted);
    let support = bound.support;
    let settings = &bound.job.settings;
    let cache = CacheFigures {
        mode: settings.mode,
        noloop: settings.noloop,
        capacity: settings.capacity,
        ttl_seconds: settings.ttl.map(|ttl| ttl.as_secs_f64()),
        external_writers: bound.job.external_writers,
        way: support.way.to_owned(),
        counts: between(before, after),
        probe_reads: probes.reads(),
        reads_by: support.reads,
        invalidations_by: support.invalidations,
        evictions_by: support.evictions,
        hit: class(Call::Get, Some(0)),
        miss: class(Call::Get, Some(1)),
        unknown: class(Call::Get, Some(2)),
        write: class(Call::Set, None),
        clock_ns,
        memory_bytes,
        staleness,
        lag: (bound.job.probes_per_second > 0).then(|| probes.lag(bound.job.probes_per_second)),
        seconds,
    };
    let cache = cache.split_or_not(|| class(Call::Get, None));
    let answered = load(&fences.answered);
    let beside =
        Beside { probes: probes.commands(), fences: answered, fences_lost: load(&fences.sent) - answered, each_miss: bound.each_miss };
    Ok(CachedOutcome { outcome, cache, beside })
}

/// Why writes say nothing of what the client was told; `None` when they do.
fn unjudged<C, F>(bound: &Bound<C, F>, mix: &Mix) -> Option<String> {
    let own = !bound.job.external_writers && mix.entries().iter().any(|entry| entry.call == Call::Set);
    (own && bound.job.settings.noloop && !bound.support.forgets_own)
        .then(|| "with NOLOOP the server tells nothing of own writes, and this client keeps what it overwrites".to_owned())
}

/// Starts what goes on beside the callers.
fn spawn<C: Cached, F: Driver>(
    bound: &Bound<C, F>,
    account: &Arc<Account>,
    fences: &Arc<Fences>,
    probes: &Arc<Probes>,
    stopped: &watch::Receiver<bool>,
) -> Vec<Beneath> {
    let mut tasks = Vec::new();
    if let Some(log) = account.log.clone() {
        let (cached, fence, versions) = (bound.cached.clone(), bound.fence.clone(), account.versions.clone());
        let (fences, stopped) = (fences.clone(), stopped.clone());
        let keep = async move { fence.keep(cached.client(), &log, &versions, &fences, stopped).await };
        tasks.push(Beneath { task: tokio::spawn(keep) });
    }
    if let Some(foreign) = bound.foreign.clone().filter(|_| bound.job.probes_per_second > 0) {
        let prober = Prober {
            cached: bound.cached.clone(),
            foreign,
            // Of own writes there are no invalidations with NOLOOP.
            own: !bound.job.external_writers && !bound.job.settings.noloop,
            per_second: bound.job.probes_per_second,
            versions: bound.probed.clone(),
        };
        let (probes, stopped) = (probes.clone(), stopped.clone());
        tasks.push(Beneath { task: tokio::spawn(async move { prober.keep(&probes, stopped).await }) });
    }
    tasks
}

type Kept = Arc<Mutex<Option<Observer>>>;

/// An observer that notes the cache's counts and then calls `observer`, and where that is kept.
fn watch_counts<C: Cached, F>(bound: &Bound<C, F>, series: Arc<Mutex<Series>>, observer: Observer) -> (Observer, Kept) {
    let kept: Kept = Arc::new(Mutex::new(Some(observer)));
    let (cached, theirs) = (bound.cached.clone(), kept.clone());
    let watching: Observer = Box::new(move |tick| {
        series.lock().unwrap_or_else(PoisonError::into_inner).tick(cached.counts());
        if let Some(observer) = theirs.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            observer(tick);
        }
    });
    (watching, kept)
}

fn given_back(watching: Observer, kept: Kept) -> Observer {
    drop(watching);
    kept.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_else(|| Box::new(|_| {}))
}

/// By how much the cache and its connections grew the live heap so far; `None` without the counting allocator.
fn memory<C, F>(bound: &Bound<C, F>, before: Option<u64>, outcome: &Outcome, seconds: &[CacheSecond]) -> Option<u64> {
    let after = live_bytes()?;
    // What we keep of this run ourselves takes as much as a copy of it.
    let kept = (&outcome.total, &outcome.classes, &outcome.seconds, &outcome.errors, &outcome.kept, seconds);
    let alone = live_bytes();
    let copy = (kept.0.clone(), kept.1.clone(), kept.2.clone(), kept.3.clone(), kept.4.clone(), kept.5.to_vec());
    let ours = growth(alone, live_bytes());
    drop(copy);
    let grown = growth(before, Some(after)) - ours;
    let sum = bound.grown.fetch_add(grown, Ordering::AcqRel) + grown;
    Some(u64::try_from(sum).unwrap_or(0))
}

/// What all entries of one kind counted together.
pub fn sum(mix: &Mix, outcome: &Outcome, call: Call, count: impl Fn(&crate::measure::Counts) -> u64) -> u64 {
    let of_kind = mix.entries().iter().zip(&outcome.total.0).filter(|(entry, _)| entry.call == call);
    of_kind.map(|(_, counts)| count(counts)).sum()
}

/// Latencies of all entries of one kind together, of one class or of all.
fn latencies(mix: &Mix, classes: Option<&Classes>, call: Call, wanted: Option<usize>) -> Distribution {
    let mut all = histogram();
    let by_entry = classes.iter().flat_map(|classes| classes.0.chunks(CLASSES));
    for (_, of_entry) in mix.entries().iter().zip(by_entry).filter(|(entry, _)| entry.call == call) {
        for (_, counts) in of_entry.iter().enumerate().filter(|(class, _)| wanted.is_none_or(|wanted| wanted == *class)) {
            merge(&mut all, &counts.service);
        }
    }
    Distribution::of(&all)
}
