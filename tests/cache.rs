//! Client-side caches of every driver, on servers of our own.

mod common;

use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use common::settings;
use redis_client_bench::conformance::{self, Report};
use redis_client_bench::drivers::{
    CacheMode, CacheSettings, Cached, Command, Commands, DRIVERS, Descriptor, Driver, Error, Profile, Resp, Served, Servers, Settings,
    Topology, Value, Visit, visit,
};
use redis_client_bench::net::{Address, Connection, Endpoint};
use redis_client_bench::resp::key_slot;

type Doing<T> = Pin<Box<dyn Future<Output = T>>>;

/// Drivers whose cache is the harness's own.
const OURS: [&str; 2] = ["raw", "fred"];

/// Checks that a version of a client is known to fail: its driver, part of the check's name, and why. One that passes all the same is no
/// failure, for these are races.
const KNOWN: &[(&str, &str, &str)] = &[
    ("redis-rs", OUTLIVES, LATE),
    ("redis-rs-manager", OUTLIVES, LATE),
    ("redis-rs-cluster", OUTLIVES, LATE),
    ("redis-rs", "a_cache_does_not_outlive_its_connection", "redis 1.8.1 looks into the cache before it looks at its connection"),
    (
        "rustis",
        OUTLIVES,
        "rustis 0.27.2: a reader of the newer value removes the mark by which an earlier one, that is late, would know its own as old",
    ),
];

const OUTLIVES: &str = "a_reply_never_outlives_its_invalidation";
const LATE: &str = "redis 1.8.1 stores a reply when its caller runs again, though its invalidation was handled meanwhile";

/// Drivers that go on serving what they hold when their server is dead; their notes say so.
const SERVE_ON: [&str; 2] = ["redis-rs", "rustis"];

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
    common::every_driver(
        servers,
        |name, servers, settings| visit(name, Suite(servers, settings)),
        |driver, check| is_known(driver.name, check.name),
    )
    .await;
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
    ask(endpoint, &words.split(' ').collect::<Vec<_>>()).await;
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
    // The invalidation of FLUSHALL has a null in place of a list of keys: fred 10.1.0 drops it, rustis 0.27.2 reads it as no keys.
    const DEAF: [&str; 2] = ["fred", "rustis"];
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
        let ended = visit(driver.name, killed).expect("it is in the registry").await;
        match (ended, SERVE_ON.contains(&driver.name)) {
            (Err(reason), true) if reason.contains("serves on") => {}
            (Ok(()), true) => failures.push(format!("{} does no longer serve on: its notes and SERVE_ON must say so", driver.name)),
            (ended, _) => failures.extend(ended.err()),
        }
        tried += 1;
    }
    assert!(tried > 0 && failures.is_empty(), "{failures:#?}");
}

/// A read whose caller looks at its reply only when the key was written again, and if the last is true was read again too.
struct Late(Servers, Settings, bool);

impl Visit for Late {
    type Output = Doing<Result<bool, Error>>;
    fn visit<D: Driver>(self) -> Self::Output {
        Box::pin(async move {
            let Self(servers, settings, second) = self;
            let foreign = D::connect(&servers, &settings).await?;
            let cached = D::cached(&servers, &settings, &CacheSettings::default()).await?;
            let (key, fence) = (b"rcb-test:late", Command::new("UNLINK").arg("rcb-test:late:fence"));
            foreign.set(key, b"old").await?;
            let mut late = Box::pin(cached.get(key));
            let waits = std::future::poll_fn(|context| Poll::Ready(late.as_mut().poll(context).is_pending())).await;
            assert!(waits, "{}: a reply before anything was sent", D::DESCRIPTOR.name);
            // Over the same connection, so the first reply is there now.
            cached.client().call(&fence).await?;
            foreign.set(key, b"new").await?;
            cached.client().call(&fence).await?;
            // And what was said of the key is handled.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            if second {
                assert!(becomes(&cached, key, b"new").await, "{}: the second reader", D::DESCRIPTOR.name);
            }
            let old = late.await?.value.is_some_and(|value| value.as_ref() == b"old");
            assert!(old, "{}: the first reply is that of before the write", D::DESCRIPTOR.name);
            let right = becomes(&cached, key, b"new").await;
            foreign.call(&Command::new("DEL").arg(key)).await?;
            cached.close().await;
            foreign.close().await;
            Ok(right)
        })
    }
}

/// What the notes say of late replies; when it fails for one of these a version has mended it, and its note must go. On a cluster the routing task of redis-rs takes the
/// replies, and can't be held up from here.
#[tokio::test]
async fn a_late_reply_is_not_stored() {
    const STORED: [(&str, bool); 5] =
        [("redis-rs", false), ("redis-rs", true), ("redis-rs-manager", false), ("redis-rs-manager", true), ("rustis", true)];
    let (servers, _guard) = common::standalone().await;
    let mut tried = 0;
    for driver in cached_drivers(Topology::Standalone) {
        for second in [false, true] {
            let late = Late(servers.clone(), settings(driver, Resp::V3), second);
            let right = visit(driver.name, late).expect("it is in the registry").await;
            assert_eq!(right, Ok(!STORED.contains(&(driver.name, second))), "{} second reader {second}", driver.name);
            tried += 1;
        }
    }
    assert!(tried >= 2);
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

/// Reads until the value is `expected`; an error ends it as well, for a client may refuse what it can't know. False for neither in 2 s.
async fn becomes<C: Cached>(cached: &C, key: &[u8], expected: &[u8]) -> bool {
    let started = Instant::now();
    while let Ok(read) = cached.get(key).await {
        if read.value.as_ref().is_some_and(|value| value.as_ref() == expected) {
            return true;
        }
        if started.elapsed() > Duration::from_secs(2) {
            return false;
        }
        tokio::task::yield_now().await;
    }
    true
}

/// More invalidations at once than any client queues as it ships.
struct Flooded(Servers, Settings);

impl Visit for Flooded {
    type Output = Doing<Result<usize, Error>>;
    fn visit<D: Driver>(self) -> Self::Output {
        Box::pin(async move {
            let settings = Settings { profile: Profile::Default, ..self.1 };
            let foreign = D::connect(&self.0, &settings).await?;
            let cached = D::cached(&self.0, &settings, &CacheSettings::default()).await?;
            let keys: Vec<_> = (0..3_000).map(|number| format!("rcb-test:flooded:{number}").into_bytes()).collect();
            for key in &keys {
                foreign.set(key, b"old").await?;
                cached.get(key).await?;
            }
            // One connection that writes all at once.
            let mut writer = Connection::open(self.0.first(), Resp::V2, true).await?;
            writer.begin();
            keys.iter().for_each(|key| writer.queue(&Command::set(key, b"new")));
            writer.send().await?;
            for _ in &keys {
                writer.receive().await?;
            }
            cached.client().call(&Command::new("UNLINK").arg("rcb-test:flooded:fence")).await?;
            let mut old = 0;
            for key in &keys {
                if !becomes(&cached, key, b"new").await {
                    old += 1;
                    if old == 3 {
                        break;
                    }
                }
            }
            for key in &keys {
                foreign.call(&Command::new("DEL").arg(key)).await?;
            }
            cached.close().await;
            foreign.close().await;
            Ok(old)
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_cache_misses_one_of_many_invalidations() {
    let (servers, _guard) = common::standalone().await;
    let mut tried = 0;
    for driver in cached_drivers(Topology::Standalone) {
        let flooded = Flooded(servers.clone(), settings(driver, Resp::V3));
        let old = visit(driver.name, flooded).expect("it is in the registry").await;
        assert_eq!(old, Ok(0), "{}: keys that keep their old values", driver.name);
        tried += 1;
    }
    assert!(tried > 0);
}

async fn ask(endpoint: &Endpoint, words: &[&str]) -> Value {
    let command = words[1..].iter().fold(Command::new(words[0]), |command, word| command.arg(word));
    let mut connection = Connection::open(endpoint, Resp::V2, true).await.expect("the server runs");
    connection.request(&command).await.unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

/// Moves the slot of `keys` to another master, and returns that.
async fn move_slot(servers: &Servers, keys: &[Vec<u8>]) -> Endpoint {
    let slot = key_slot(&keys[0]).to_string();
    let (mut from, mut to) = (None, None);
    for endpoint in &servers.endpoints {
        let id = ask(endpoint, &["CLUSTER", "MYID"]).await.as_str().expect("an id").to_owned();
        let has = ask(endpoint, &["CLUSTER", "COUNTKEYSINSLOT", &slot]).await.as_int().is_some_and(|keys| keys > 0);
        *(if has { &mut from } else { &mut to }) = Some((endpoint.clone(), id));
    }
    let ((from, from_id), (to, to_id)) = (from.expect("an owner"), to.expect("another master"));
    let Address::Tcp(host, port) = &to.address else { panic!("cluster nodes have ports") };
    ask(&to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]).await;
    ask(&from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]).await;
    for key in keys {
        ask(&from, &["MIGRATE", host, &port.to_string(), std::str::from_utf8(key).expect("text"), "0", "5000"]).await;
    }
    for endpoint in [&to, &from] {
        ask(endpoint, &["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]).await;
    }
    to
}

/// A slot moves, and what is cached of it is written at its new node.
struct Moved(Servers, Settings);

impl Visit for Moved {
    type Output = Doing<Result<(), String>>;
    fn visit<D: Driver>(self) -> Self::Output {
        Box::pin(async move {
            let name = D::DESCRIPTOR.name;
            let said = |error: Error| format!("{name}: {error}");
            let cached = D::cached(&self.0, &self.1, &CacheSettings::default()).await.map_err(said)?;
            let keys: Vec<_> = (0..8).map(|number| format!("{{rcb-test:moved:{name}}}:{number}").into_bytes()).collect();
            for key in &keys {
                cached.client().set(key, b"old").await.map_err(said)?;
                warmed(&cached, key).await.map_err(said)?;
            }
            let node = move_slot(&self.0, &keys).await;
            let mut writer = Connection::open(&node, Resp::V2, true).await.map_err(said)?;
            for value in [&b"new"[..], b"newer", b"newest"] {
                for key in &keys {
                    writer.request(&Command::set(key, value)).await.map_err(said)?;
                }
                for key in &keys {
                    if !becomes(&cached, key, value).await {
                        return Err(format!("{name} keeps a value from before {}", String::from_utf8_lossy(value)));
                    }
                    // Into the cache again, where it still reads.
                    let _ = cached.get(key).await;
                }
            }
            cached.close().await;
            Ok(())
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_cached_of_a_slot_that_moves_is_forgotten() {
    let (servers, _guard) = common::cluster().await;
    let (mut failures, mut tried) = (Vec::new(), 0);
    for driver in cached_drivers(Topology::Cluster) {
        let moved = Moved(servers.clone(), settings(driver, Resp::V3));
        failures.extend(visit(driver.name, moved).expect("it is in the registry").await.err());
        tried += 1;
    }
    assert!(tried > 0 && failures.is_empty(), "{failures:#?}");
}

/// What the notes say of fred 10.1.0. When a later version does better, so can its driver.
#[cfg(feature = "fred")]
#[tokio::test(flavor = "multi_thread")]
async fn fred_sends_no_caching_and_asks_one_node_for_broadcasts() {
    use fred::interfaces::{ClientLike, KeysInterface, TrackingInterface};
    use fred::types::config::{Config, Options, Server, ServerConfig};
    use fred::types::{Builder, RespVersion};

    let (servers, _guard) = common::cluster().await;
    let hosts = servers.endpoints.iter().map(|endpoint| match &endpoint.address {
        Address::Tcp(host, port) => Server::new(host.as_str(), *port),
        Address::Unix(_) => panic!("cluster nodes have ports"),
    });
    let server = ServerConfig::Clustered { hosts: hosts.collect(), policy: Default::default() };
    let config = Config { server, version: RespVersion::RESP3, ..Config::default() };
    let calls = async |command: &str| {
        let mut calls = Vec::new();
        for endpoint in &servers.endpoints {
            let stats = ask(endpoint, &["INFO", "commandstats"]).await;
            let line = format!("cmdstat_{command}:calls=");
            let count =
                stats.as_str().and_then(|stats| stats.lines().find_map(|stat| stat.strip_prefix(&line)?.split(',').next()?.parse().ok()));
            calls.push(count.unwrap_or(0_u64));
        }
        calls
    };
    for (broadcast, nodes) in [(false, 3), (true, 1)] {
        for endpoint in &servers.endpoints {
            on(endpoint, "CONFIG RESETSTAT").await;
        }
        let client = Builder::from_config(config.clone()).build().expect("a client");
        let _task = client.init().await.expect("it connects");
        client.start_tracking(Vec::<String>::new(), broadcast, !broadcast, false, false).await.expect("it tracks");
        let tracking = calls("client|tracking").await;
        assert_eq!((tracking.iter().sum::<u64>(), tracking.iter().filter(|&&calls| calls > 0).count()), (nodes, nodes as usize));
        let options = Options { caching: Some(true), ..Options::default() };
        let value: Option<String> = client.with_options(&options).get("rcb-test:caching").await.expect("a reply");
        assert_eq!((value, calls("get").await.iter().sum::<u64>(), calls("client|caching").await.iter().sum()), (None, 1, 0));
        client.quit().await.expect("it closes");
    }
}
