//! Cached loads of real clients on real servers: every count beside the servers' own, and what is called stale.

mod common;

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use redis_client_bench::drivers::{CacheMode, CacheSettings, Capacity, DRIVERS, Descriptor, Resp, Servers, Settings, Topology};
use redis_client_bench::target::Role;
use redis_client_bench::target::audit::Auditor;
use redis_client_bench::workload::cache::{self, CacheJob, CachedOutcome, Opening, check_mix, expected, keys, prefill};
use redis_client_bench::workload::load::engine::{Ended, Job};
use redis_client_bench::workload::load::keyspace::Keyspace;
use redis_client_bench::workload::mix::{Call, CommandSpec, DataSize, KEY_PREFIX, Mix, MixOptions};

const WORKERS: usize = 2;

fn mix(commands: &[(&str, f64)], keys: u64) -> Arc<Mix> {
    let specs = commands.iter().map(|&(text, ratio)| {
        let mut spec = CommandSpec::parse(text).unwrap();
        spec.ratio = Some(ratio);
        spec
    });
    let options = MixOptions { keys, data: DataSize::Range(16, 200), prefilled: true, ..MixOptions::default() };
    let mix = Mix::new(specs.collect(), options).unwrap().0;
    check_mix(&mix).unwrap();
    Arc::new(mix)
}

fn mixed(keys: u64) -> Arc<Mix> {
    mix(&[("GET __key__", 0.9), ("SET __key__ __data__", 0.1)], keys)
}

fn cache_job(mode: CacheMode, entries: u64) -> CacheJob {
    let prefix = if mode == CacheMode::Broadcast { KEY_PREFIX.into() } else { Vec::new() };
    let capacity = NonZeroU64::new(entries).map(Capacity::Entries);
    let settings = CacheSettings { mode, capacity, ttl: Some(Duration::from_secs(60)), prefix, noloop: false };
    CacheJob { settings, external_writers: false, probes_per_second: 100 }
}

fn job(commands: u64) -> Job {
    Job {
        callers: 8,
        pipeline: 1,
        transaction: false,
        commands: Some(commands),
        time: None,
        open: None,
        seed: 1,
        first: 0,
        continue_on_error: false,
        verify: true,
        patience: Duration::from_secs(20),
    }
}

type Open = for<'a> fn(
    &str,
    &'a Servers,
    &'a Settings,
    &'a CacheJob,
    &'a Arc<Mix>,
) -> Result<Opening<'a>, redis_client_bench::drivers::UnknownDriver>;

/// One load, after which the servers must have counted what we did.
async fn audited(
    guard: &common::Guard,
    servers: &Servers,
    name: &str,
    mix: &Arc<Mix>,
    cached: &CacheJob,
    job: &Job,
    open: Open,
) -> CachedOutcome {
    let driver = DRIVERS.iter().find(|driver| driver.name == name).unwrap();
    let keyspace = Keyspace::new(guard.target());
    keyspace.clear(mix).await.unwrap();
    keyspace.remove(keys()).await.unwrap();
    keyspace.write(prefill(mix)).await.unwrap();
    let settings = Settings { resp: Resp::V3, ..Settings::default() };
    let mut auditor = Auditor::connect(guard.nodes().iter().map(|node| (node.role, node.endpoint.clone()))).await.unwrap();
    let loader = open(name, servers, &settings, cached, mix).unwrap().await.unwrap_or_else(|error| panic!("{name}: {error}"));
    let before = auditor.before().await.unwrap();
    let done = loader.run(mix, job, WORKERS, Box::new(|_| {})).await.unwrap();
    let after = auditor.after().await.unwrap();
    let counter = loader.counter();
    assert!(counter().hits >= done.cache.counts.hits);
    drop(counter);
    loader.close().await;
    let usage = auditor.usage(&before, &after).unwrap();
    let wanted = expected(mix, job, &done, driver, auditor.masters());
    let audit = usage.audit(&wanted);
    assert!(audit.is_exact(), "{name} {cached:?}: {:?}", audit.deviations);
    assert_eq!(done.outcome.ended, Ended::Done, "{name}: {:?}", done.outcome.errors);
    let entries = mix.entries().iter().zip(&done.outcome.total.0);
    let of = |call: Call| entries.clone().filter(|(entry, _)| entry.call == call).map(|(_, counts)| counts.done).sum::<u64>();
    let cache = &done.cache;
    let sum = cache.counts.hits + cache.counts.misses;
    assert_eq!(sum, of(Call::Get) + cache.probe_reads.hits + cache.probe_reads.misses, "{name} {cached:?}");
    assert_eq!(usage.calls.get("get").copied().unwrap_or(0), cache.counts.misses, "{name} {cached:?}");
    assert_eq!((cache.staleness.checked, cache.staleness.writes), (of(Call::Get), of(Call::Set)));
    assert_eq!(cache.staleness.unjudged, None, "{name} {cached:?}");
    // What a server answers is never too old.
    assert_eq!((cache.staleness.stale_from_server, cache.staleness.after_disconnect), (0, 0), "{name}: {:?}", cache.staleness.first);
    if name == "raw" {
        // It forgets before it hands on the next reply.
        assert_eq!(cache.stale(), 0, "{cached:?}: {:?}", cache.staleness.first);
    }
    done
}

fn cached_drivers(topology: Topology, mode: CacheMode) -> impl Iterator<Item = &'static Descriptor> {
    DRIVERS.iter().filter(move |driver| driver.runs_on(topology) && driver.cache.check(topology, Resp::V3, mode, false).is_ok())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_client_in_each_of_its_modes_is_counted_exactly() {
    let (servers, guard) = common::standalone().await;
    let mix = mixed(100);
    let mut tried = 0;
    for mode in CacheMode::ALL {
        for driver in cached_drivers(Topology::Standalone, mode) {
            let done = audited(&guard, &servers, driver.name, &mix, &cache_job(mode, 1_000), &job(20_000), cache::open).await;
            let found = &done.cache.staleness;
            assert!(done.cache.hits() > 0 && done.cache.misses() > 0 && done.cache.counts.invalidations > 0, "{} {mode}", driver.name);
            assert!(found.with_floor > 0 && found.clean_writes > 0 && found.fences > 0 && found.fences_failed == 0, "{found:?}");
            let lag = done.cache.lag.as_ref().unwrap();
            assert!(lag.own.probes + lag.foreign.probes > 0 && lag.foreign.unresolved + lag.own.unresolved == 0, "{} {lag:?}", driver.name);
            tried += 1;
        }
    }
    assert!(tried >= 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_writes_are_found_stale_or_not_as_own_ones_are() {
    let (servers, guard) = common::standalone().await;
    let mix = mixed(100);
    for mode in CacheMode::ALL {
        for driver in cached_drivers(Topology::Standalone, mode) {
            for noloop in [false, true] {
                if driver.cache.check(Topology::Standalone, Resp::V3, mode, noloop).is_err() {
                    continue;
                }
                let mut cached = CacheJob { external_writers: true, ..cache_job(mode, 1_000) };
                cached.settings.noloop = noloop;
                let done = audited(&guard, &servers, driver.name, &mix, &cached, &job(10_000), cache::open).await;
                assert!(done.cache.staleness.with_floor > 0, "{} {mode}: {:?}", driver.name, done.cache.staleness);
                let lag = done.cache.lag.as_ref().unwrap();
                assert_eq!(lag.own.probes, 0, "all writes are foreign");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_noloop_own_writes_are_judged_where_the_driver_says_that_it_forgets() {
    let (servers, guard) = common::standalone().await;
    let mix = mixed(100);
    for driver in cached_drivers(Topology::Standalone, CacheMode::All).filter(|driver| driver.cache.forgets_own) {
        for mode in CacheMode::ALL {
            let mut cached = cache_job(mode, 1_000);
            cached.settings.noloop = true;
            let done = audited(&guard, &servers, driver.name, &mix, &cached, &job(10_000), cache::open).await;
            assert!(done.cache.staleness.with_floor > 0, "{} {mode}", driver.name);
            assert_eq!(done.cache.stale(), 0, "{} {mode}: {:?}", driver.name, done.cache.staleness.first);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_cache_misses_what_it_evicted() {
    let (servers, guard) = common::standalone().await;
    let mix = mixed(2_000);
    for driver in cached_drivers(Topology::Standalone, CacheMode::All) {
        let done = audited(&guard, &servers, driver.name, &mix, &cache_job(CacheMode::All, 64), &job(20_000), cache::open).await;
        assert!(done.cache.misses() > 10_000, "{}: {:?}", driver.name, done.cache.counts);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_writes_each_key_is_read_once_from_the_server_and_there_are_no_fences() {
    let (servers, guard) = common::standalone().await;
    let mix = mix(&[("GET __key__", 1.0)], 50);
    for driver in cached_drivers(Topology::Standalone, CacheMode::All) {
        let cached = CacheJob { probes_per_second: 0, ..cache_job(CacheMode::All, 10_000) };
        let done = audited(&guard, &servers, driver.name, &mix, &cached, &job(20_000), cache::open).await;
        let cache = &done.cache;
        assert!(cache.misses() >= 50 && cache.misses() < 1_000, "{}: {:?}", driver.name, cache.counts);
        assert_eq!((cache.staleness.fences, cache.staleness.with_floor, cache.stale()), (0, 0, 0));
        assert_eq!(cache.lag, None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_cache_every_client_reads_from_the_server_and_is_never_stale() {
    let (servers, guard) = common::standalone().await;
    let mix = mixed(20);
    for driver in cached_drivers(Topology::Standalone, CacheMode::All) {
        for external_writers in [false, true] {
            let cached = CacheJob { external_writers, ..cache_job(CacheMode::All, 1_000) };
            let done = audited(&guard, &servers, driver.name, &mix, &cached, &job(10_000), cache::open_uncached).await;
            assert_eq!((done.cache.hits(), done.cache.stale(), done.cache.lag.is_none()), (0, 0, true), "{}", driver.name);
            assert!(done.cache.staleness.with_floor > 0, "{}", driver.name);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_cluster_each_master_is_fenced_and_all_is_counted_exactly() {
    let (servers, guard) = common::cluster().await;
    let masters = guard.nodes().iter().filter(|node| node.role == Role::Master).count() as u64;
    let mix = mixed(200);
    for driver in cached_drivers(Topology::Cluster, CacheMode::All) {
        for external_writers in [false, true] {
            let cached = CacheJob { external_writers, ..cache_job(CacheMode::All, 1_000) };
            let done = audited(&guard, &servers, driver.name, &mix, &cached, &job(20_000), cache::open).await;
            assert!(done.cache.hits() > 0 && done.cache.staleness.with_floor > 0, "{}: {:?}", driver.name, done.cache.staleness);
            assert_eq!(done.beside.fences, masters * done.cache.staleness.fences, "{}", driver.name);
            assert_eq!(done.beside.fences_lost, 0);
        }
    }
}
