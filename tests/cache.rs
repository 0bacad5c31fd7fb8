//! Client-side caches of every driver, on servers of our own.

mod common;

use std::num::NonZeroUsize;
use std::pin::Pin;
use std::time::{Duration, Instant};

use redis_client_bench::conformance::{self, Report};
use redis_client_bench::drivers::{
    CacheMode, CacheSettings, Cached, Command, Commands, DRIVERS, Descriptor, Driver, Error, Resp, Served, Servers, Settings, Topology,
    Visit, visit,
};
use redis_client_bench::net::{Connection, Endpoint};

type Doing<T> = Pin<Box<dyn Future<Output = T>>>;

/// Drivers whose cache is the harness's own.
const OURS: [&str; 2] = ["raw", "fred"];

/// Checks that a version of a client is known to fail: its driver, part of the check's name, and why. One that passes all the same is no
/// failure, for these are races.
const KNOWN: &[(&str, &str, &str)] = &[];

fn settings(driver: &Descriptor, resp: Resp) -> Settings {
    let connections = NonZeroUsize::new(driver.most_connections.min(2)).expect("a driver has a connection");
    Settings { connections, resp, ..Settings::default() }
}

fn cached_drivers(topology: Topology) -> impl Iterator<Item = &'static Descriptor> {
    DRIVERS.iter().filter(move |driver| driver.runs_on(topology) && driver.cache.check(topology, Resp::V3, CacheMode::All, false).is_ok())
}

fn is_known(driver: &str, check: &str) -> bool {
    KNOWN.iter().any(|(known, part, _)| *known == driver && check.contains(part))
}

/// The suite over one driver.
struct Suite(Servers, Settings);

impl Visit for Suite {
    type Output = Doing<Report>;
    fn visit<D: Driver>(self) -> Doing<Report> {
        Box::pin(async move { conformance::run_cache::<D>(&self.0, &self.1, "rcb-test:cache:").await })
    }
}

async fn every_driver(servers: &Servers) {
    let (mut failed, mut ran) = (Vec::new(), 0);
    for driver in DRIVERS.iter().filter(|driver| driver.runs_on(servers.topology)) {
        for &resp in driver.resp {
            let suite = Suite(servers.clone(), settings(driver, resp));
            let report = visit(driver.name, suite).expect("it is in the registry").await;
            println!("{report}");
            ran += 1;
            if report.checks.is_empty() || report.failures().any(|check| !is_known(driver.name, check.name)) {
                failed.push(report.to_string());
            }
        }
    }
    assert!(ran > 0 && failed.is_empty(), "{} of {ran} failed:\n{}", failed.len(), failed.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn caches_of_every_driver_conform_on_a_standalone_server() {
    let (servers, _guard) = common::standalone().await;
    every_driver(&servers).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn caches_of_every_driver_conform_on_a_cluster() {
    let (servers, _guard) = common::cluster().await;
    every_driver(&servers).await;
}

async fn on(endpoint: &Endpoint, words: &str) {
    let mut words = words.split(' ');
    let command = words.by_ref().take(1).map(Command::new).next().expect("a command has a name");
    let command = words.fold(command, Command::arg);
    Connection::open(endpoint, Resp::V2, true).await.expect("the server runs").request(&command).await.expect("it does it");
}

/// Reads a key until it is a hit.
async fn warmed<C: Cached>(cached: &C, key: &[u8]) -> Result<(), Error> {
    let started = Instant::now();
    while cached.get(key).await?.served == Served::Server {
        assert!(started.elapsed() < Duration::from_secs(2), "no hit");
    }
    Ok(())
}

/// Whether a key is read as missing within 2 s.
async fn is_gone<C: Cached>(cached: &C, key: &[u8]) -> Result<bool, Error> {
    let started = Instant::now();
    while cached.get(key).await?.value.is_some() {
        if started.elapsed() > Duration::from_secs(2) {
            return Ok(false);
        }
        tokio::task::yield_now().await;
    }
    Ok(true)
}

/// Everything is deleted by `FLUSHALL` on each node.
struct Flushed(Servers, Settings);

impl Visit for Flushed {
    type Output = Doing<Result<bool, Error>>;
    fn visit<D: Driver>(self) -> Self::Output {
        Box::pin(async move {
            let Self(servers, settings) = self;
            let cached = D::cached(&servers, &settings, &CacheSettings::default()).await?;
            let keys: Vec<_> = (0..32).map(|number| format!("rcb-test:flushed:{number}").into_bytes()).collect();
            for key in &keys {
                cached.client().set(key, b"value").await?;
                warmed(&cached, key).await?;
            }
            for endpoint in &servers.endpoints {
                on(endpoint, "FLUSHALL").await;
            }
            let mut gone = true;
            for key in &keys {
                gone = gone && is_gone(&cached, key).await?;
            }
            cached.close().await;
            Ok(gone)
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_cache_forgets_all_on_flushall() {
    // fred 10.1.0 reads an invalidation only if it has a list of keys, and drops that of FLUSHALL, which has a null.
    const DEAF: [&str; 1] = ["fred"];
    let mut tried = 0;
    let targets = [(Topology::Standalone, common::standalone().await), (Topology::Cluster, common::cluster().await)];
    for (topology, (servers, guard)) in &targets {
        let all = guard.nodes().iter().map(|node| servers.first().at(node.endpoint.address.clone())).collect();
        let servers = Servers { topology: *topology, endpoints: all };
        for driver in cached_drivers(*topology) {
            let flushed = Flushed(servers.clone(), settings(driver, Resp::V3));
            let gone = visit(driver.name, flushed).expect("it is in the registry").await;
            assert_eq!(gone, Ok(!DEAF.contains(&driver.name)), "{} {topology}", driver.name);
            tried += 1;
        }
    }
    assert!(tried >= 2);
}

/// A cache whose server dies.
struct Killed(Servers, Settings, common::Guard);

impl Visit for Killed {
    type Output = Doing<Result<(), String>>;
    fn visit<D: Driver>(self) -> Self::Output {
        Box::pin(async move {
            let Self(servers, settings, mut guard) = self;
            let name = D::DESCRIPTOR.name;
            let said = |error: Error| format!("{name}: {error}");
            let cached = D::cached(&servers, &settings, &CacheSettings::default()).await.map_err(said)?;
            cached.set(b"rcb-test:killed", b"value").await.map_err(said)?;
            warmed(&cached, b"rcb-test:killed").await.map_err(said)?;
            guard.kill();
            let started = Instant::now();
            loop {
                match tokio::time::timeout(Duration::from_secs(35), cached.get(b"rcb-test:killed")).await {
                    Ok(Err(Error::Connection(_) | Error::Timeout(_) | Error::Client(_))) => return Ok(()),
                    Ok(Err(other)) => return Err(format!("{name}: a lost server became a {} error: {other}", other.kind())),
                    Ok(Ok(_)) if started.elapsed() > Duration::from_secs(2) => {
                        return Err(format!("{name} serves on when its server is dead"));
                    }
                    Ok(Ok(_)) => tokio::task::yield_now().await,
                    Err(_) => return Err(format!("{name} hangs when its server is dead")),
                }
            }
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_cache_outlives_its_server() {
    let mut failures = Vec::new();
    let mut tried = 0;
    for driver in cached_drivers(Topology::Standalone) {
        let (servers, guard) = common::standalone().await;
        let killed = Killed(servers, settings(driver, Resp::V3), guard);
        failures.extend(visit(driver.name, killed).expect("it is in the registry").await.err());
        tried += 1;
    }
    assert!(tried > 0 && failures.is_empty(), "{failures:#?}");
}

/// What is promised of the harness's own cache beside the suite: missing keys are kept, own writes are forgotten with NOLOOP, its
/// counts are exact, and nothing beside the read and [`CacheSupport::beside_miss`] reaches the server.
///
/// [`CacheSupport::beside_miss`]: redis_client_bench::drivers::CacheSupport
struct Ours(Servers, Settings, CacheMode, bool);

impl Visit for Ours {
    type Output = Doing<Result<(), Error>>;
    fn visit<D: Driver>(self) -> Self::Output {
        Box::pin(async move {
            let Self(servers, settings, mode, noloop) = self;
            let case = format!("{} {mode} noloop {noloop}", D::DESCRIPTOR.name);
            let cached = D::cached(&servers, &settings, &CacheSettings { mode, noloop, ..CacheSettings::default() }).await?;
            let (key, fence) = (b"rcb-test:ours", Command::new("UNLINK").arg("rcb-test:ours:fence"));
            on(servers.first(), "CONFIG RESETSTAT").await;
            for expected in [Served::Server, Served::Cache, Served::Cache] {
                let read = cached.get(key).await?;
                assert_eq!((read.value.is_none(), read.served), (true, expected), "{case}");
            }
            for round in 0..50 {
                let value = format!("value {round}");
                cached.set(key, value.as_bytes()).await?;
                cached.client().call(&fence).await?;
                // With NOLOOP the driver itself forgets, at the latest when the write returns. Else an invalidation may be on its way.
                let started = Instant::now();
                loop {
                    let read = cached.get(key).await?;
                    if read.value.as_ref().is_some_and(|got| got.as_ref() == value.as_bytes()) {
                        break;
                    }
                    assert!(!noloop && started.elapsed() < Duration::from_secs(2), "{case}: round {round}");
                    tokio::task::yield_now().await;
                }
                warmed(&cached, key).await?;
            }
            let counts = cached.counts();
            assert_eq!(counts.entries, Some(1), "{case}");
            assert_eq!((counts.evictions, counts.expirations), (Some(0), Some(0)), "{case}");
            assert!(if noloop { counts.invalidations == 0 } else { counts.invalidations >= 50 }, "{case}: {counts:?}");
            let stats = Connection::open(servers.first(), Resp::V2, true).await?.request(&Command::new("INFO").arg("commandstats")).await?;
            let stats = stats.as_str().unwrap_or_default();
            let calls = |command: &str| -> u64 {
                let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
                line.and_then(|line| line.split(',').next()).map_or(0, |calls| calls.parse().expect("a count"))
            };
            assert_eq!(calls("get"), counts.misses, "{case}");
            let beside = if mode == CacheMode::OptIn { counts.misses } else { 0 };
            assert_eq!(calls("client|caching"), beside, "{case}");
            assert_eq!((D::DESCRIPTOR.cache.beside_miss)(mode).iter().map(|(_, calls)| calls * counts.misses).sum::<u64>(), beside);
            let deleted = cached.client().call(&Command::new("DEL").arg(key)).await;
            cached.close().await;
            deleted.map(drop)
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn our_own_cache_is_exact() {
    let (servers, _guard) = common::standalone().await;
    let mut tried = 0;
    for driver in cached_drivers(Topology::Standalone).filter(|driver| OURS.contains(&driver.name)) {
        for mode in CacheMode::ALL {
            for noloop in [false, true] {
                let ours = Ours(servers.clone(), settings(driver, Resp::V3), mode, noloop);
                visit(driver.name, ours).expect("it is in the registry").await.expect("it works");
                tried += 1;
            }
        }
    }
    assert!(tried >= 6);
}
