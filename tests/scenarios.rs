//! Scenarios of client-side caches: with raw, with caches of the tests' own that forget nothing or late, and as a user meets them.

mod common;

use std::collections::HashMap;
use std::process::{Command as Process, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis_client_bench::drivers::raw::Raw;
use redis_client_bench::drivers::{
    CacheCounts, CacheMode, CacheSettings, CacheSupport, Cached, CachedRead, ClientCache, Command, Commands, Driver, Error, Resp, Served,
    Servers, Settings,
};
use redis_client_bench::net::Connection;
use redis_client_bench::scenarios::{Against, Ask, Played, Scenario, Verdict, Way, play, play_by_name};

fn against(servers: &Servers, guard: &common::Guard, ours: bool) -> Against {
    Against { servers: servers.clone(), nodes: guard.nodes().iter().map(|node| node.endpoint.clone()).collect(), ours }
}

fn ask(scenario: Scenario, way: Way) -> Ask {
    let settings = Settings { resp: Resp::V3, ..Settings::default() };
    Ask { scenario, way, settings, prefix: format!("rcb:cache:test:{scenario}:{}:", way.to_string().replace(", ", "-")) }
}

async fn keys_left(against: &Against) -> i64 {
    let mut left = 0;
    for node in &against.servers.endpoints {
        let mut connection = Connection::open(node, Resp::V2, true).await.expect("the server runs");
        left += connection.request(&Command::new("DBSIZE")).await.expect("a number").as_int().expect("a number");
    }
    left
}

/// Every scenario in every way with raw: all is forgotten, and something was there to be forgotten.
async fn raw_forgets_all(against: &Against) {
    for way in Way::all() {
        let scenarios = if way == Way::FIRST { &Scenario::ALL[..] } else { &Scenario::IN_EVERY_MODE };
        for &scenario in scenarios {
            let possible = scenario.check(against.servers.topology, against.servers.endpoints.len(), against.ours, way.mode);
            let played = play_by_name("raw", against.clone(), ask(scenario, way)).expect("raw is in every build").await;
            match possible {
                Err(reason) => assert_eq!(played.verdict, Verdict::NotPossible { reason: reason.into() }, "{scenario}, {way}"),
                Ok(()) => {
                    assert_eq!(played.verdict, Verdict::Ok, "{scenario}, {way}: {played:?}");
                    let counts = played.counts.expect("it was connected");
                    assert!(counts.hits >= 64, "{scenario}, {way}: {counts:?}");
                    // One that lost its connection refuses its reads; there is nothing to judge then.
                    assert!(played.account.judged >= 128 || scenario == Scenario::ClientKill, "{scenario}, {way}: {played:?}");
                    if scenario == Scenario::ClientKill {
                        assert!(
                            played.account.away.as_ref().is_some_and(|away| away.failed_reads > 0 && away.late_keys == 0),
                            "{played:?}"
                        );
                    }
                }
            }
        }
    }
    assert_eq!(keys_left(against).await, 0, "keys are left");
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_forgets_all_on_a_standalone_server() {
    let (servers, guard) = common::standalone().await;
    raw_forgets_all(&against(&servers, &guard, true)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_forgets_all_on_a_cluster() {
    let (servers, guard) = common::cluster_with_replicas().await;
    raw_forgets_all(&against(&servers, &guard, true)).await;
}

/// Keeps what it has read for `MS` milliseconds, whatever the server says; 0 is for ever.
struct Stubborn<const MS: u64>;

#[derive(Clone)]
struct StubbornCache<const MS: u64> {
    client: Raw,
    entries: Arc<Mutex<Entries>>,
    hits: Arc<AtomicU64>,
    misses: Arc<AtomicU64>,
}

type Entries = HashMap<Vec<u8>, (Option<Vec<u8>>, Instant)>;

impl<const MS: u64> ClientCache for Stubborn<MS> {
    type Cached = StubbornCache<MS>;

    async fn cached(servers: &Servers, settings: &Settings, _: &CacheSettings) -> Result<StubbornCache<MS>, Error> {
        let client = Raw::connect(servers, settings).await?;
        Ok(StubbornCache { client, entries: Arc::default(), hits: Arc::default(), misses: Arc::default() })
    }
}

impl<const MS: u64> Cached for StubbornCache<MS> {
    type Client = Raw;
    type Blob = Vec<u8>;

    fn client(&self) -> &Raw {
        &self.client
    }

    async fn get(&self, key: &[u8]) -> Result<CachedRead<Vec<u8>>, Error> {
        let found = self.entries.lock().unwrap().get(key).cloned();
        if let Some((value, stored)) = found
            && (MS == 0 || stored.elapsed() < Duration::from_millis(MS))
        {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(CachedRead { value, served: Served::Cache });
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        let value = self.client.get(key).await?.map(|value| value.as_ref().to_vec());
        self.entries.lock().unwrap().insert(key.to_vec(), (value.clone(), Instant::now()));
        Ok(CachedRead { value, served: Served::Server })
    }

    async fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.client.set(key, value).await
    }

    fn counts(&self) -> CacheCounts {
        let (hits, misses) = (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed));
        CacheCounts { hits, misses, ..CacheCounts::default() }
    }

    async fn close(self) {
        self.client.close().await;
    }
}

const STUBBORN: CacheSupport = CacheSupport { way: "a cache of the tests", ..CacheSupport::none(|_, _, _, _| Ok(())) };

async fn stubborn<const MS: u64>(against: &Against, scenario: Scenario) -> Played {
    play::<Stubborn<MS>>(&STUBBORN, against, &ask(scenario, Way::FIRST)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_that_never_forgets_is_caught_in_every_scenario() {
    let (servers, guard) = common::standalone().await;
    let against = against(&servers, &guard, true);
    for scenario in Scenario::ALL.into_iter().filter(|scenario| !scenario.needs_cluster()) {
        let played = stubborn::<0>(&against, scenario).await;
        if scenario == Scenario::ClientKill {
            assert_eq!(played.verdict, Verdict::Failed { reason: "the servers know no tracked connection".into() });
            continue;
        }
        assert_eq!(played.verdict, Verdict::Stale, "{scenario}: {played:?}");
        let account = &played.account;
        assert!(account.stale >= 128 && account.lasting == account.stale && account.longest_ns.is_none(), "{scenario}: {account:?}");
        assert_eq!(account.examples.len(), 3, "{scenario}: {account:?}");
    }
    assert_eq!(keys_left(&against).await, 0, "keys are left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_that_forgets_late_is_stale_for_so_long() {
    let (servers, guard) = common::standalone().await;
    let played = stubborn::<700>(&against(&servers, &guard, true), Scenario::Delete).await;
    let account = &played.account;
    assert_eq!((&played.verdict, account.stale, account.judged, account.lasting), (&Verdict::Stale, 128, 128, 0), "{played:?}");
    // The entries were stored, and deleted, before the fence.
    assert!(account.longest_ns.is_some_and(|longest| longest > 0 && longest < 2_000_000_000), "{account:?}");
}

/// Answers each read with the value of a key that was read before.
struct Confused;

#[derive(Clone)]
struct ConfusedCache(StubbornCache<0>);

impl ClientCache for Confused {
    type Cached = ConfusedCache;

    async fn cached(servers: &Servers, settings: &Settings, options: &CacheSettings) -> Result<ConfusedCache, Error> {
        Ok(ConfusedCache(Stubborn::<0>::cached(servers, settings, options).await?))
    }
}

impl Cached for ConfusedCache {
    type Client = Raw;
    type Blob = Vec<u8>;

    fn client(&self) -> &Raw {
        &self.0.client
    }

    async fn get(&self, key: &[u8]) -> Result<CachedRead<Vec<u8>>, Error> {
        let other = self.0.entries.lock().unwrap().keys().find(|known| *known != key).cloned();
        self.0.get(&other.unwrap_or_else(|| key.to_vec())).await
    }

    async fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.0.set(key, value).await
    }

    fn counts(&self) -> CacheCounts {
        self.0.counts()
    }

    async fn close(self) {
        self.0.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_belongs_to_another_key_is_no_staleness_but_a_failure() {
    let (servers, guard) = common::standalone().await;
    let against = against(&servers, &guard, true);
    let played = play::<Confused>(&STUBBORN, &against, &ask(Scenario::Overwrite, Way::FIRST)).await;
    let Verdict::Failed { reason } = &played.verdict else { panic!("{played:?}") };
    assert!(reason.contains("returned the value of key"), "{reason}");
    assert_eq!(keys_left(&against).await, 0, "keys are left");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_server_of_somebody_else_only_our_keys_and_our_connection_are_touched() {
    let (servers, guard) = common::standalone().await;
    let against = against(&servers, &guard, false);
    // Somebody else's key, and somebody else's tracked connection.
    let mut other = Connection::open(servers.first(), Resp::V3, true).await.unwrap();
    other.request(&Command::new("CLIENT").arg("TRACKING").arg("ON")).await.unwrap();
    other.request(&Command::set(b"theirs", b"value")).await.unwrap();
    for scenario in Scenario::ALL {
        let played = play_by_name("raw", against.clone(), ask(scenario, Way::FIRST)).unwrap().await;
        let refused = matches!(played.verdict, Verdict::NotPossible { .. });
        let expected = scenario.check(servers.topology, 1, false, CacheMode::All).is_err();
        assert_eq!(refused, expected, "{scenario}: {played:?}");
        assert!(refused || played.verdict == Verdict::Ok, "{scenario}: {played:?}");
    }
    let value = other.request(&Command::new("GET").arg("theirs")).await.expect("this connection was not killed");
    assert_eq!(value.as_str(), Some("value"));
    assert_eq!(keys_left(&against).await, 1);
}

#[cfg(feature = "redis-rs")]
#[tokio::test(flavor = "multi_thread")]
async fn what_a_driver_says_it_cannot_is_not_possible_for_its_reason() {
    let (servers, guard) = common::standalone().await;
    let way = Way { mode: CacheMode::Broadcast, noloop: false };
    let played = play_by_name("redis-rs", against(&servers, &guard, true), ask(Scenario::Overwrite, way)).unwrap().await;
    let reason =
        (redis_client_bench::drivers::find("redis-rs").unwrap().cache.modes)(servers.topology, Resp::V3, way.mode, false).unwrap_err();
    assert_eq!(played.verdict, Verdict::NotPossible { reason: reason.into() });
}

/// `rcb cache` with no target in its environment but what the test gives.
fn rcb(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Process::new(env!("CARGO_BIN_EXE_rcb"));
    for variable in ["REDIS_URL", "RCB_TARGET_KIND", "RCB_IMAGE", "RCB_TOPOLOGY"] {
        command.env_remove(variable);
    }
    let Output { status, stdout, stderr } = command.arg("cache").args(arguments).stdin(Stdio::null()).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn mistakes_get_one_sentence_and_exit_2_before_any_work() {
    let process = ["--target", "process"];
    let on_process = |arguments: &[&'static str]| [arguments, &process].concat();
    let mut cases = vec![
        (vec!["--driver", "jedis"], "unknown driver \"jedis\""),
        (vec!["--driver", "raw,raw"], "the driver raw is named twice"),
        (vec!["--scenario", "sunrise"], "invalid value 'sunrise'"),
        (vec!["--scenario", "ttl,ttl"], "the scenario ttl is named twice"),
        (vec!["--csc-noloop"], "--csc-mode"),
        (vec!["--csc-mode", "some"], "invalid value 'some'"),
        (vec!["--json-out-file", "/nowhere/there.json"], "there is no folder /nowhere"),
        (vec!["--url", "redis://127.0.0.1:1"], "127.0.0.1:1"),
        (on_process(&["--scenario", "slot-move"]), "the scenario slot-move is not possible on this target: it needs a cluster"),
        (on_process(&["--scenario", "tracking-table", "--csc-mode", "broadcast"]), "in broadcast mode the server remembers no keys"),
        (on_process(&["--driver", "raw", "--server-arg=--rename-command", "--server-arg=HELLO", "--server-arg="]), "RESP3"),
    ];
    if cfg!(feature = "deadpool-redis") {
        cases.push((vec!["--driver", "deadpool-redis"], "deadpool-redis has no client-side cache: "));
    }
    if cfg!(feature = "redis-rs") {
        cases.push((
            on_process(&["--driver", "redis-rs", "--csc-mode", "broadcast"]),
            "redis-rs can't cache in mode broadcast: redis-rs has no",
        ));
        cases.push((on_process(&["--driver", "redis-rs-cluster"]), "redis-rs-cluster does not run on a standalone target"));
    }
    for (arguments, wanted) in cases {
        let (code, out, error) = rcb(&arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {error}");
        assert!(error.contains(wanted) && out.is_empty(), "{arguments:?}: {error}");
    }
}

#[test]
fn a_run_has_a_table_and_a_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache.json");
    let (code, out, error) =
        rcb(&["--target", "process", "--driver", "raw", "--scenario", "delete,overwrite", "--json-out-file", path.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{error}\n{out}");
    assert!(out.starts_with("mode all\n") && out.contains("\nmode broadcast, noloop\n"), "{out}");
    assert!(error.contains("raw overwrite, opt-in: ok"), "{error}");
    let record: redis_client_bench::record::scenarios::ScenariosRecord =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!((record.format.as_str(), record.version, record.complete), ("redis-client-bench/cache-scenarios", 1, true));
    // Overwriting in six ways, deleting in the first only.
    let count = |scenario| record.rows.iter().filter(|row| row.scenario == scenario).count();
    assert_eq!((record.rows.len(), count(Scenario::Overwrite), count(Scenario::Delete)), (7, 6, 1));
    assert!(record.rows.iter().all(|row| row.played.verdict == Verdict::Ok && row.played.account.judged > 0), "{record:?}");
    assert_eq!(record.stale_and_failed(), (0, 0));
}

#[cfg(feature = "fred")]
#[test]
fn what_is_stale_exits_1_unless_it_is_allowed() {
    // fred 10.1.0 drops the invalidation of FLUSHALL.
    let stale = ["--target", "process", "--driver", "fred", "--scenario", "flushall"];
    let (code, out, error) = rcb(&stale);
    assert_eq!(code, Some(1), "{error}");
    assert!(out.contains("128 of 128 stale, to the end") && error.contains("1 of 1 scenarios had stale reads, 0 failed"), "{out}\n{error}");
    let (code, out, error) = rcb(&[&stale[..], &["--allow-stale"]].concat());
    assert_eq!(code, Some(0), "{error}");
    assert!(out.contains("128 of 128 stale, to the end") && error.contains("(allowed)"), "{out}\n{error}");
}
