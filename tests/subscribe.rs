//! Runs of subscribers and bursts of messages against real servers: every account is exact.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis_client_bench::drivers::{DRIVERS, Kind, Resp, Servers, Settings, Topology, find};
use redis_client_bench::net::Connection;
use redis_client_bench::resp::Command;
use redis_client_bench::target::audit::Auditor;
use redis_client_bench::workload::pubsub::burst::{self, Burst, Mode};
use redis_client_bench::workload::pubsub::channels::{Channels, usual_prefix};
use redis_client_bench::workload::pubsub::engine::{Against, Failure, News, start};
use redis_client_bench::workload::pubsub::outcome::Outcome;
use redis_client_bench::workload::pubsub::plan::Plan;
use tokio::sync::Notify;

mod common;

/// Channels of its own: on a cluster's bus messages of the run before may still be on their way to a node that had no subscriber of them.
fn plan(kind: Kind) -> Plan {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let prefix = format!("{}{}-", usual_prefix(), RUNS.fetch_add(1, Ordering::Relaxed));
    Plan {
        channels: Channels { prefix, minimum: 1, maximum: 4 },
        kind,
        per_channel: 2,
        channels_per_subscriber: 1,
        distribute: false,
        publishers: 2,
        publish_only: false,
        rate: None,
        batch: 1,
        payload: 128,
        messages: Some(150),
        test_time: Duration::from_secs(60),
        warm_up: Duration::ZERO,
        drain: Duration::from_secs(2),
        churn: None,
        delay: Duration::ZERO,
        buffer: NonZeroUsize::new(1 << 14),
        run: None,
        open_within: Duration::from_secs(20),
    }
}

async fn run(name: &str, servers: &Servers, guard: &common::Guard, resp: Resp, plan: &Plan) -> Result<Outcome, Failure> {
    let settings = Settings { resp, ..Settings::default() };
    let against = Against { servers, nodes: guard.nodes() };
    start(name, against, &settings, plan, &mut |_| {}).unwrap().await
}

/// Nothing but what had to be, in order.
fn assert_exact(what: &str, outcome: &Outcome, plan: &Plan) {
    assert_complete(what, outcome, plan);
    assert_eq!(outcome.tally.reordered, 0, "{what}: {outcome:?}");
}

/// Nothing but what had to be, in any order.
fn assert_complete(what: &str, outcome: &Outcome, plan: &Plan) {
    let wanted = plan.messages.unwrap() * plan.subscriptions();
    assert_eq!((outcome.tally.received, outcome.tally.expected()), (wanted, wanted), "{what}: {outcome:?}");
    assert!(!outcome.is_unsound() && !outcome.is_lossy(), "{what}: {outcome:?}");
    assert_eq!((outcome.strays.foreign, outcome.unanswered, outcome.subscriptions), (0, 0, plan.subscriptions()), "{what}: {outcome:?}");
    assert_eq!(outcome.measured, wanted, "{what}");
    assert_eq!(outcome.latency.as_ref().map(|latency| latency.count), Some(wanted), "{what}");
    assert_eq!(outcome.series.last().map(|tick| tick.total), Some(wanted), "{what}");
    assert_eq!(outcome.server.map(|server| server.publishes), Some(plan.messages.unwrap() * u64::from(plan.channels.count())), "{what}");
    assert_eq!((outcome.ended_by.as_ref(), outcome.remarks.len()), (None, 0), "{what}: {outcome:?}");
}

async fn every_driver_and_kind(servers: &Servers, guard: &common::Guard, distribute: bool) -> usize {
    let mut ran = 0;
    for driver in DRIVERS {
        for kind in Kind::ALL {
            for &resp in driver.resp {
                for (batch, channels_per_subscriber) in [(1, 1), (16, 3)] {
                    let plan = Plan { batch, channels_per_subscriber, distribute, ..plan(kind) };
                    if plan.check_driver(driver, servers.topology, resp).is_err() {
                        continue;
                    }
                    let what = format!("{} {kind} {resp:?} batch {batch} on a {}", driver.name, servers.topology);
                    let outcome = run(driver.name, servers, guard, resp, &plan).await.unwrap_or_else(|failure| panic!("{what}: {failure}"));
                    assert_complete(&what, &outcome, &plan);
                    // rustis 0.27.2 sends each PUBLISH of its typed call to another node of a cluster, as its notes say.
                    let scatters =
                        driver.client == "rustis" && servers.topology == Topology::Cluster && kind != Kind::Sharded && batch == 1;
                    assert!(scatters || outcome.tally.reordered == 0, "{what}: {outcome:?}");
                    let counted = servers.topology == Topology::Standalone || kind == Kind::Sharded;
                    assert_eq!(outcome.given, counted.then_some(outcome.tally.received), "{what}");
                    if distribute && kind != Kind::Sharded {
                        let each: Vec<u64> = outcome.per_node.iter().map(|node| node.subscriptions).collect();
                        assert!(each.iter().all(|&count| count > 0), "{what}: {each:?}");
                    }
                    ran += 1;
                }
            }
        }
    }
    ran
}

#[tokio::test(flavor = "multi_thread")]
async fn every_driver_and_kind_is_exact_on_a_standalone_server() {
    let (servers, guard) = common::standalone().await;
    // raw alone: three kinds, two protocol versions, two shapes.
    assert!(every_driver_and_kind(&servers, &guard, false).await >= 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_driver_and_kind_is_exact_on_a_cluster() {
    let (servers, guard) = common::cluster().await;
    assert!(every_driver_and_kind(&servers, &guard, false).await >= 12);
    assert!(every_driver_and_kind(&servers, &guard, true).await >= 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_subscriptions_on_few_connections_are_confirmed_and_measured_in_memory() {
    let (servers, guard) = common::standalone().await;
    let channels = Channels { maximum: 2_500, ..plan(Kind::Channel).channels };
    let plan = Plan { channels, channels_per_subscriber: 250, messages: Some(2), publishers: 1, batch: 2, ..plan(Kind::Channel) };
    let outcome = run("raw", &servers, &guard, Resp::V2, &plan).await.unwrap();
    assert_exact("5000 subscriptions", &outcome, &plan);
    assert_eq!((outcome.subscriptions, outcome.subscribers, outcome.per_node[0].subscriptions), (5_000, 20, 5_000));
    assert!(outcome.server_memory.is_some_and(|bytes| bytes > 5_000 * 16), "{:?}", outcome.server_memory);
}

#[tokio::test(flavor = "multi_thread")]
async fn churn_keeps_the_account_exact() {
    let (servers, guard) = common::standalone().await;
    for driver in DRIVERS {
        for kind in Kind::ALL {
            let churn = Some(Duration::from_millis(5));
            let timed = Plan {
                messages: None,
                test_time: Duration::from_millis(600),
                churn,
                publishers: 5,
                channels_per_subscriber: 2,
                ..plan(kind)
            };
            if timed.check_driver(driver, Topology::Standalone, Resp::V2).is_err() {
                continue;
            }
            let outcome = run(driver.name, &servers, &guard, Resp::V2, &timed).await.unwrap();
            let what = format!("{} {kind}: {:?} {:?} {:?}", driver.name, outcome.tally, outcome.deviations, outcome.remarks);
            assert!(outcome.churned > 3 && outcome.tally.received > 0, "{} {what}", outcome.churned);
            assert!(!outcome.is_lossy() && !outcome.is_unsound(), "{what}");
            // What nobody was subscribed to was never given.
            assert_eq!(outcome.given, Some(outcome.tally.received), "{what}");
            let all = outcome.begun * u64::from(timed.per_channel);
            assert_eq!(outcome.tally.received + outcome.tally.unjudged, all, "{what}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_churn_that_waits_for_its_next_turn_is_no_part_of_the_time_of_a_set_number() {
    let (servers, guard) = common::standalone().await;
    let far = Plan { churn: Some(Duration::from_secs(20)), ..plan(Kind::Channel) };
    let outcome = run("raw", &servers, &guard, Resp::V2, &far).await.unwrap();
    assert_exact("churn", &outcome, &far);
    // All arrived before the publishers had their last answers, or so.
    let last = outcome.series.iter().filter(|tick| tick.received > 0).map(|tick| tick.at_s).fold(0.0, f64::max);
    assert!(outcome.duration_s > 0.0 && outcome.duration_s <= last && outcome.duration_s < 10.0, "{} {last}", outcome.duration_s);
}

#[tokio::test(flavor = "multi_thread")]
async fn under_a_set_rate_latency_counts_from_the_planned_time() {
    let (servers, guard) = common::standalone().await;
    // All of it is due at once, and sent one by one.
    let due = Plan { rate: Some(1e8), publishers: 1, messages: Some(500), ..plan(Kind::Channel) };
    let outcome = run("raw", &servers, &guard, Resp::V2, &due).await.unwrap();
    assert_exact("a rate", &outcome, &due);
    let (behind, latency) = (outcome.behind_s.unwrap(), outcome.latency.unwrap());
    assert!(behind > 0.0 && latency.max_us >= behind * 1e6 * 0.99, "{behind} {latency:?}");
    assert!(latency.p50_us >= behind * 1e6 / 10.0, "{behind} {latency:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn under_a_set_rate_only_what_was_due_before_the_end_is_sent() {
    let (servers, guard) = common::standalone().await;
    let slow = Plan { rate: Some(2.0), messages: None, test_time: Duration::from_millis(1_300), ..plan(Kind::Channel) };
    let outcome = run("raw", &servers, &guard, Resp::V2, &slow).await.unwrap();
    // The two publishers in turn, and so one message every half second.
    let due = (outcome.duration_s * 2.0).floor() as u64 + 1;
    assert!(outcome.begun > 0 && outcome.begun <= due, "{} of {due}", outcome.begun);
    assert_eq!((outcome.tally.lost, outcome.unanswered), (0, 0), "{outcome:?}");
}

#[cfg(feature = "fred")]
#[tokio::test(flavor = "multi_thread")]
async fn what_fred_says_it_dropped_is_what_is_lost() {
    let (servers, guard) = common::standalone().await;
    let one = Channels { maximum: 1, ..plan(Kind::Channel).channels };
    // Each subscriber dawdles, so a buffer of 32 can't hold what comes in one write.
    let burst = Plan {
        channels: one,
        publishers: 1,
        messages: Some(3_000),
        batch: 1_000,
        buffer: None,
        delay: Duration::from_millis(1),
        ..plan(Kind::Channel)
    };
    let outcome = run("fred", &servers, &guard, Resp::V2, &burst).await.unwrap();
    assert!(outcome.tally.lost > 0 && outcome.is_lossy());
    assert_eq!((outcome.tally.lost, outcome.tally.expected()), (outcome.strays.lagged, 6_000), "{outcome:?}");
    assert_eq!(outcome.given, Some(6_000), "the server gave it all");
    let roomy = Plan { buffer: NonZeroUsize::new(4_096), delay: Duration::ZERO, ..burst };
    assert_exact("a large buffer", &run("fred", &servers, &guard, Resp::V2, &roomy).await.unwrap(), &roomy);
}

/// Publishes that a server has executed, as its INFO says.
async fn executed(connection: &mut Connection) -> u64 {
    let info = connection.request(&Command::new("INFO").arg("commandstats")).await.unwrap();
    let line = info.as_str().unwrap().lines().find_map(|line| line.strip_prefix("cmdstat_publish:calls=")).map(str::to_owned);
    line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
}

async fn under_way(connection: &mut Connection) {
    while executed(connection).await < 200 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribers_that_are_thrown_out_come_back_and_what_they_missed_is_lost() {
    let timed = Plan { messages: None, test_time: Duration::from_secs(1), ..plan(Kind::Channel) };
    for driver in DRIVERS.iter().filter(|driver| timed.check_driver(driver, Topology::Standalone, Resp::V2).is_ok()) {
        let (servers, guard) = common::standalone().await;
        let settings = Settings::default();
        let ready = Arc::new(Notify::new());
        let kill = {
            let (ready, endpoint) = (ready.clone(), servers.first().clone());
            tokio::spawn(async move {
                ready.notified().await;
                let mut connection = Connection::open(&endpoint, Resp::V2, true).await.unwrap();
                under_way(&mut connection).await;
                connection.request(&Command::new("CLIENT").arg("KILL").arg("TYPE").arg("pubsub")).await.unwrap().as_int()
            })
        };
        let mut listener = |news: News<'_>| {
            if matches!(news, News::Ready(_)) {
                ready.notify_one();
            }
        };
        let against = Against { servers: &servers, nodes: guard.nodes() };
        let outcome = start(driver.name, against, &settings, &timed, &mut listener).unwrap().await.unwrap();
        assert_eq!(kill.await.unwrap(), Some(8));
        let what = format!("{}: {:?} {:?} {:?}", driver.name, outcome.tally, outcome.given, outcome.deviations);
        assert_eq!((outcome.disconnections, outcome.reconnections), (8, 8), "{what}");
        assert!(outcome.tally.lost > 0 && !outcome.is_unsound(), "{what}");
        assert_eq!(outcome.tally.expected(), outcome.begun * u64::from(timed.per_channel), "{what}");
        assert!(outcome.tally.received <= outcome.given.unwrap() && outcome.given.unwrap() < outcome.tally.expected(), "{what}");
        assert_eq!(outcome.series.last().map(|tick| tick.active), Some(8), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn churn_among_subscribers_that_are_thrown_out_invents_nothing() {
    let timed = Plan {
        messages: None,
        // Longer than the servers' confirmation is waited for, and then once around.
        test_time: Duration::from_secs(7),
        churn: Some(Duration::from_millis(5)),
        channels_per_subscriber: 4,
        ..plan(Kind::Channel)
    };
    let (servers, guard) = common::standalone().await;
    let ready = Arc::new(Notify::new());
    let kill = {
        let (ready, endpoint) = (ready.clone(), servers.first().clone());
        tokio::spawn(async move {
            ready.notified().await;
            let mut connection = Connection::open(&endpoint, Resp::V2, true).await.unwrap();
            under_way(&mut connection).await;
            // One of the two at a time: while it is away, the servers' count for the other's churn is of one alone.
            let mut killed = 0;
            for _ in 0..6 {
                let list = connection.request(&Command::new("CLIENT").arg("LIST").arg("TYPE").arg("pubsub")).await.unwrap();
                let id = list.as_str().and_then(|list| list.strip_prefix("id=")?.split(' ').next()).map(str::to_owned);
                if let Some(id) = id {
                    killed += connection.request(&Command::new("CLIENT").arg("KILL").arg("ID").arg(&id)).await.unwrap().as_int().unwrap();
                }
                tokio::time::sleep(Duration::from_millis(150)).await;
            }
            killed
        })
    };
    let mut seconds = Vec::new();
    let mut listener = |news: News<'_>| match news {
        News::Ready(_) => ready.notify_one(),
        News::Tick(tick) => seconds.push(tick.active),
    };
    let against = Against { servers: &servers, nodes: guard.nodes() };
    let settings = Settings::default();
    let outcome = start("raw", against, &settings, &timed, &mut listener).unwrap().await.unwrap();
    assert!(kill.await.unwrap() >= 2 && outcome.disconnections >= 2, "{outcome:?}");
    let what = format!("{:?} {:?} {:?}", outcome.tally, outcome.deviations, outcome.remarks);
    let all = outcome.begun * u64::from(timed.per_channel);
    let accounted = outcome.tally.received.checked_add(outcome.tally.lost).and_then(|sum| sum.checked_add(outcome.tally.unjudged));
    assert_eq!(accounted, Some(all), "{what}");
    assert!(outcome.tally.received > 0 && !outcome.is_unsound(), "{what}");
    assert!(seconds.iter().chain(outcome.series.iter().map(|tick| &tick.active)).all(|&active| active <= 8), "{seconds:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_ends_the_run_with_the_reason_and_the_account() {
    let (servers, mut guard) = common::standalone().await;
    let nodes = guard.nodes().to_vec();
    let timed = Plan { messages: None, test_time: Duration::from_secs(40), ..plan(Kind::Channel) };
    let settings = Settings::default();
    let ready = Arc::new(Notify::new());
    let kill = {
        let (ready, endpoint) = (ready.clone(), servers.first().clone());
        tokio::spawn(async move {
            ready.notified().await;
            let mut connection = Connection::open(&endpoint, Resp::V2, true).await.unwrap();
            under_way(&mut connection).await;
            tokio::task::spawn_blocking(move || guard.kill()).await.unwrap();
        })
    };
    let mut listener = |news: News<'_>| {
        if matches!(news, News::Ready(_)) {
            ready.notify_one();
        }
    };
    let running = start("raw", Against { servers: &servers, nodes: &nodes }, &settings, &timed, &mut listener).unwrap();
    let outcome = tokio::time::timeout(Duration::from_secs(35), running).await.expect("it ends by itself").unwrap();
    kill.await.unwrap();
    assert!(outcome.ended_by.as_ref().is_some_and(|reason| reason.contains("no publisher was left")), "{outcome:?}");
    assert!(outcome.remarks.iter().any(|remark| remark.contains("no count by the servers")), "{:?}", outcome.remarks);
    let answered = outcome.begun - outcome.unanswered;
    assert!(outcome.unanswered > 0 && outcome.tally.received > 0);
    // Only what was answered had to arrive; the rest may have.
    assert!(outcome.tally.expected() >= answered * 2 && outcome.tally.expected() <= outcome.begun * 2, "{outcome:?}");
    assert!(outcome.deviations.is_empty(), "{:?}", outcome.deviations);
    assert!(outcome.is_unsound() && outcome.uncounted, "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_gone_at_the_end_makes_the_run_unsound() {
    let (servers, mut guard) = common::standalone().await;
    let nodes = guard.nodes().to_vec();
    // Shorter than publishers go on without an answer.
    let timed = Plan { messages: None, test_time: Duration::from_secs(2), drain: Duration::from_millis(300), ..plan(Kind::Channel) };
    let settings = Settings::default();
    let ready = Arc::new(Notify::new());
    let kill = {
        let (ready, endpoint) = (ready.clone(), servers.first().clone());
        tokio::spawn(async move {
            ready.notified().await;
            let mut connection = Connection::open(&endpoint, Resp::V2, true).await.unwrap();
            under_way(&mut connection).await;
            tokio::task::spawn_blocking(move || guard.kill()).await.unwrap();
        })
    };
    let mut listener = |news: News<'_>| {
        if matches!(news, News::Ready(_)) {
            ready.notify_one();
        }
    };
    let against = Against { servers: &servers, nodes: &nodes };
    let outcome = start("raw", against, &settings, &timed, &mut listener).unwrap().await.unwrap();
    kill.await.unwrap();
    assert_eq!((outcome.disconnections, outcome.reconnections), (8, 0), "{outcome:?}");
    assert!(outcome.is_unsound() && !outcome.is_whole(), "{outcome:?}");
    let reason = outcome.ended_by.unwrap();
    assert!(reason.contains("no count at the end") && reason.contains("8 of 8 subscribers were without a connection"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn publishers_of_another_process_are_accounted_from_what_they_say() {
    let (servers, guard) = common::standalone().await;
    let receiving = Plan { publishers: 0, messages: None, ..plan(Kind::Channel) };
    let sending = Plan { publish_only: true, channels: receiving.channels.clone(), ..plan(Kind::Channel) };
    let settings = Settings::default();
    let against = Against { servers: &servers, nodes: guard.nodes() };
    let ready = Notify::new();
    let mut listener = |news: News<'_>| {
        if matches!(news, News::Ready(_)) {
            ready.notify_one();
        }
    };
    let receiver = start("raw", against, &settings, &receiving, &mut listener).unwrap();
    let sender = async {
        ready.notified().await;
        start("raw", against, &settings, &sending, &mut |_| {}).unwrap().await
    };
    let (received, sent) = tokio::join!(receiver, sender);
    let (received, sent) = (received.unwrap(), sent.unwrap());
    assert_eq!((sent.begun, sent.server.map(|server| server.publishes)), (600, Some(600)));
    assert_eq!((received.tally.received, received.tally.lost, received.strays.foreign), (1_200, 0, 0), "{received:?}");
    assert_eq!(received.run, sent.run, "the subscribers took the run of the publishers");
    assert_eq!(received.ended_by, None);
}

fn burst_plan(mode: Mode, kind: Kind) -> burst::Plan {
    burst::Plan {
        messages: 503,
        mode,
        kind,
        channel: b"rcb:publish-test".to_vec(),
        payload: 64,
        buffer: NonZeroUsize::new(1 << 12),
        patience: Duration::from_secs(5),
        deadline: Duration::from_secs(30),
    }
}

async fn burst(name: &str, servers: &Servers, guard: &common::Guard, plan: &burst::Plan, times: usize) -> Result<Vec<Burst>, Failure> {
    let settings = Settings { resp: find(name).unwrap().usual_resp(), ..Settings::default() };
    let mut auditor = Auditor::connect(guard.nodes().iter().map(|node| (node.role, node.endpoint.clone()))).await.unwrap();
    let mut publisher = burst::connect(name, Against { servers, nodes: guard.nodes() }, &settings, plan).unwrap().await?;
    let mut bursts = Vec::new();
    for _ in 0..times {
        bursts.push(publisher.burst(plan.messages, &mut auditor).await?);
    }
    publisher.close().await;
    Ok(bursts)
}

const MODES: [Mode; 5] = [
    Mode::Serial,
    Mode::Batch { size: 1 },
    Mode::Batch { size: 100 },
    Mode::Concurrent { callers: 32 },
    Mode::Windowed { callers: 32, window_ns: 75_000 },
];

async fn every_driver_publishes(servers: &Servers, guard: &common::Guard, kind: Kind) {
    for driver in DRIVERS.iter().filter(|driver| driver.runs_on(servers.topology)) {
        for mode in MODES {
            if matches!(mode, Mode::Windowed { .. }) && !driver.runs_on(Topology::Standalone) {
                continue;
            }
            let plan = burst_plan(mode, kind);
            let what = format!("{} {mode} {kind} on a {}", driver.name, servers.topology);
            let bursts = burst(driver.name, servers, guard, &plan, 2).await.unwrap_or_else(|failure| panic!("{what}: {failure}"));
            for burst in bursts {
                assert_eq!((burst.messages, burst.received, burst.audit.workload), (503, 503, 503), "{what}");
                assert!(burst.real_s > 0.0 && burst.commands_per_read.is_some_and(|depth| depth > 0.0), "{what}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_driver_publishes_exactly_in_every_mode_on_a_standalone_server() {
    let (servers, guard) = common::standalone().await;
    every_driver_publishes(&servers, &guard, Kind::Channel).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_driver_publishes_exactly_in_every_mode_on_a_cluster() {
    let (servers, guard) = common::cluster().await;
    every_driver_publishes(&servers, &guard, Kind::Channel).await;
    every_driver_publishes(&servers, &guard, Kind::Sharded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_falls_silent_is_a_failed_burst_and_no_hang() {
    let (servers, guard) = common::standalone().await;
    let mut connection = Connection::open(servers.first(), Resp::V2, true).await.unwrap();
    for mode in [Mode::Serial, Mode::Batch { size: 50 }, Mode::Concurrent { callers: 8 }] {
        // Far more than can be done before the pause.
        let endless = burst::Plan {
            messages: 50_000_000,
            patience: Duration::from_secs(2),
            deadline: Duration::from_millis(1_500),
            ..burst_plan(mode, Kind::Channel)
        };
        let before = executed(&mut connection).await;
        let pause = async {
            while executed(&mut connection).await < before + 100 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            connection.request(&Command::new("CLIENT").arg("PAUSE").arg("1500").arg("WRITE")).await.unwrap();
        };
        let failing = burst("raw", &servers, &guard, &endless, 1);
        let (failed, ()) = tokio::time::timeout(Duration::from_secs(20), async { tokio::join!(failing, pause) }).await.expect("no hang");
        let failure = failed.unwrap_err().to_string();
        assert!(failure.contains("not all messages were answered within 1.5s"), "{mode}: {failure}");
        connection.request(&Command::new("CLIENT").arg("UNPAUSE")).await.unwrap();
    }
}
