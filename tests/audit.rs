//! The servers' count against ours, for every driver and strategy, and what happens when they differ.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redis_client_bench::drivers::{
    Blob, Command, Commands, DRIVERS, Driver, Error, Servers, Settings, Strategy, Topology, Transactions, raw::Raw,
};
use redis_client_bench::net::Connection;
use redis_client_bench::resp::Resp;
use redis_client_bench::target::Info;
use redis_client_bench::target::audit::{Auditor, Expected};
use redis_client_bench::workload::commands::{Keyspace, Operation, Workload};
use redis_client_bench::workload::{Failure, Load, measure, open, runs_on};

mod common;

const OPERATIONS: u64 = 2_003;

fn workload(operation: Operation) -> Workload {
    match operation {
        Operation::Hkeys => Workload { operation, payload: 0, fields: 10, keys: 100 },
        Operation::Get | Operation::Set => Workload { operation, payload: 64, fields: 0, keys: 100 },
    }
}

async fn auditor(guard: &common::Guard) -> Auditor {
    Auditor::connect(guard.nodes().iter().map(|node| (node.role, node.endpoint.clone()))).await.unwrap()
}

fn load(checkout: &'static [&'static str]) -> Load {
    Load { operations: OPERATIONS, callers: 50, checkout, deadline: Duration::from_secs(30) }
}

/// Every driver × strategy × operation: the audit is exact, on every run.
async fn every_cell_is_exact(servers: Servers, guard: common::Guard) {
    let mut auditor = auditor(&guard).await;
    let strategies =
        [Strategy::Native, Strategy::Off, Strategy::Window { window: Duration::from_micros(75), limit: 0 }, Strategy::Idle { limit: 16 }];
    let mut measured = 0;
    for driver in DRIVERS {
        for strategy in strategies {
            let connections = driver.most_connections.min(3).try_into().unwrap();
            let settings = Settings { connections, resp: driver.resp[0], strategy, ..Settings::default() };
            if runs_on(driver, &settings, servers.topology).is_err() {
                continue;
            }
            for operation in [Operation::Get, Operation::Set, Operation::Hkeys] {
                let cell = format!("{} {strategy} {operation} {}", driver.name, servers.topology);
                let workload = workload(operation);
                let runner = open(driver.name, &servers, &settings, &workload, "audit")
                    .unwrap()
                    .await
                    .unwrap_or_else(|error| panic!("{cell}: {error}"));
                runner.prepare().await.unwrap_or_else(|error| panic!("{cell}: {error}"));
                for _ in 0..2 {
                    let run = runner.run(&load(driver.checkout), &mut auditor).await.unwrap_or_else(|failure| panic!("{cell}: {failure}"));
                    assert!(run.audit.is_exact() && run.audit.workload == OPERATIONS, "{cell}: {:?}", run.audit);
                    // A window takes a connection for each batch, so its checkouts are fewer than its commands.
                    assert_eq!(run.audit.checkout > 0, !driver.checkout.is_empty(), "{cell}: {:?}", run.audit);
                    assert!(
                        run.server.reads > 0 && run.server.reads <= run.audit.workload + run.audit.checkout,
                        "{cell}: {:?}",
                        run.server
                    );
                }
                runner.close().await.unwrap();
                measured += 1;
            }
        }
    }
    assert!(measured >= 12, "{measured}");
    // Nothing of ours is left on any node.
    for node in guard.nodes() {
        let mut connection = Connection::open(&node.endpoint, Resp::V2, true).await.unwrap();
        let size = connection.request(&Command::new("DBSIZE")).await.unwrap();
        assert_eq!(size.as_int(), Some(0), "{}", node.endpoint);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_cell_is_exact_on_a_standalone_server() {
    let (servers, guard) = common::standalone().await;
    every_cell_is_exact(servers, guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_cell_is_exact_on_a_cluster_with_replicas() {
    let (servers, guard) = common::cluster_with_replicas().await;
    assert_eq!((servers.topology, guard.nodes().len()), (Topology::Cluster, 6));
    every_cell_is_exact(servers, guard).await;
}

/// A client that sends something besides what it was asked for, once in a thousand.
#[derive(Clone)]
struct Chatty {
    inner: Raw,
    extra: &'static str,
    calls: Arc<std::sync::atomic::AtomicU64>,
}

impl Commands for Chatty {
    type Reply = <Raw as Commands>::Reply;
    async fn get(&self, key: &[u8]) -> Result<Option<Blob<Self>>, Error> {
        if self.calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == OPERATIONS / 2 {
            self.inner.call(&Command::new(self.extra).arg(key)).await?;
        }
        self.inner.get(key).await
    }
    async fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.inner.set(key, value).await
    }
    async fn hkeys(&self, key: &[u8]) -> Result<Vec<Blob<Self>>, Error> {
        self.inner.hkeys(key).await
    }
    async fn call(&self, command: &Command) -> Result<Self::Reply, Error> {
        self.inner.call(command).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_that_sends_one_command_too_many_fails_its_audit() {
    let (servers, guard) = common::standalone().await;
    let mut auditor = auditor(&guard).await;
    let inner = Raw::connect(&servers, &Settings::default()).await.unwrap();
    let keyspace = Keyspace::new(&workload(Operation::Get), "chatty");
    keyspace.prepare(&inner).await.unwrap();
    for (extra, wanted) in [
        ("GET", format!("the server executed {} GET, we counted {OPERATIONS}", OPERATIONS + 1)),
        ("PING", "the server executed 1 PING, which nobody counted".to_owned()),
        ("STRLEN", "the server executed 1 STRLEN, which nobody counted".to_owned()),
    ] {
        let client = Chatty { inner: inner.clone(), extra, calls: Arc::default() };
        let failure = measure(&client, &keyspace, &load(&[]), &mut auditor).await.unwrap_err();
        assert_eq!(failure, Failure::Audit(wanted));
    }
    // The same client without its extra command passes.
    measure(&inner, &keyspace, &load(&[]), &mut auditor).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_changed_fails_verification_and_the_run() {
    let (servers, guard) = common::standalone().await;
    let mut auditor = auditor(&guard).await;
    let client = Raw::connect(&servers, &Settings::default()).await.unwrap();
    let keyspace = Keyspace::new(&workload(Operation::Get), "changed");
    keyspace.prepare(&client).await.unwrap();
    keyspace.verify(&client).await.unwrap();
    client.set(keyspace.key(3), &[b'x'; 64]).await.unwrap();
    assert!(matches!(keyspace.verify(&client).await, Err(Error::Protocol(_))), "other bytes of the same length");
    client.set(keyspace.key(3), b"short").await.unwrap();
    let failure = measure(&client, &keyspace, &load(&[]), &mut auditor).await.unwrap_err();
    assert!(matches!(&failure, Failure::Command { kind: "protocol", .. }), "{failure}");
}

/// What a server really counts when commands are refused, run by scripts and in transactions.
#[tokio::test(flavor = "multi_thread")]
async fn rejected_commands_subcommands_scripts_and_transactions_are_told_apart() {
    let (servers, guard) = common::standalone().await;
    let mut auditor = auditor(&guard).await;
    let client = Raw::connect(&servers, &Settings::default()).await.unwrap();
    let (set, too_short) = (Command::set(b"rcb-audit:a", b"1"), Command::new("SET").arg("rcb-audit:a"));
    let before = auditor.before().await.unwrap();
    client.call(&set).await.unwrap();
    client.call(&too_short).await.unwrap_err();
    client.call(&Command::new("OBJECT").arg("ENCODING").arg("rcb-audit:a")).await.unwrap();
    let script = Command::new("EVAL").arg("return redis.call('INCR', KEYS[1])").arg("1").arg("rcb-audit:n");
    for _ in 0..3 {
        client.call(&script).await.unwrap();
    }
    let incr = Command::new("INCR").arg("rcb-audit:n");
    assert_eq!(client.transaction(&[incr, Command::get(b"rcb-audit:a"), Command::hkeys(b"rcb-audit:a")]).await.unwrap().len(), 3);
    // The first is queued and never executed, so that it is in no count; the second is refused.
    client.transaction(&[set, too_short]).await.unwrap_err();
    let after = auditor.after().await.unwrap();
    let usage = auditor.usage(&before, &after).unwrap();
    assert_eq!(usage.rejected, BTreeMap::from([("set".to_owned(), 2)]));
    assert_eq!(usage.failed, BTreeMap::from([("exec".to_owned(), 1), ("hkeys".to_owned(), 1)]));
    let attempts = [("set", 3), ("object|encoding", 1), ("eval", 3), ("incr", 1), ("get", 1), ("hkeys", 1), ("multi", 2), ("exec", 2)];
    let attempts = attempts.map(|(name, count)| (name.to_owned(), count)).into();
    let expected = Expected { attempts, scripts: true, masters: 1, ..Expected::default() };
    let audit = usage.audit(&expected);
    assert!(audit.is_exact(), "{audit:?}");
    assert_eq!((audit.workload, audit.by_scripts), (14, 3));
    let audit = usage.audit(&Expected { scripts: false, ..expected });
    assert_eq!(audit.deviations, ["the server executed or rejected 4 INCR, we counted 1"]);
}

/// Returns when the server has executed so many commands.
async fn under_way(servers: &Servers, commands: u64) {
    let mut connection = Connection::open(servers.first(), Resp::V2, true).await.unwrap();
    loop {
        let reply = connection.request(&Command::new("INFO").arg("stats")).await.unwrap();
        if Info::parse(reply.as_str().unwrap()).number("total_commands_processed").unwrap() >= commands {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_in_mid_cell_fails_the_run_of_every_driver_without_a_hang() {
    for driver in DRIVERS.iter().filter(|driver| driver.runs_on(Topology::Standalone)) {
        for strategy in [Strategy::Native, Strategy::Window { window: Duration::from_micros(75), limit: 0 }] {
            let (servers, mut guard) = common::standalone().await;
            let mut auditor = auditor(&guard).await;
            let connections = driver.most_connections.min(2).try_into().unwrap();
            let settings = Settings { connections, resp: driver.resp[0], strategy, ..Settings::default() };
            let runner = open(driver.name, &servers, &settings, &workload(Operation::Get), "killed").unwrap().await.unwrap();
            runner.prepare().await.unwrap();
            // Far more than can be done before the kill.
            let endless = Load { operations: u64::MAX / 2, deadline: Duration::from_secs(15), ..load(driver.checkout) };
            let killer = async {
                under_way(&servers, 5_000).await;
                tokio::task::spawn_blocking(move || guard.kill()).await.unwrap();
            };
            let (run, ()) = tokio::join!(runner.run(&endless, &mut auditor), killer);
            let failure = run.unwrap_err();
            // A client that goes on waiting for the server, as bb8-redis and the manager do for a while, is given up at the deadline.
            assert!(matches!(failure, Failure::Command { .. } | Failure::Stalled(_)), "{} {strategy}: {failure}", driver.name);
        }
    }
}
