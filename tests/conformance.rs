//! Every driver, and the pipeline window over every driver, on servers of our own.

mod common;

use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use redis_client_bench::conformance::{self, Check, Outcome, Report};
use redis_client_bench::drivers::{
    DRIVERS, Descriptor, Driver, Error, PipelineReach, Resp, Servers, Settings, Strategy, Topology, Visit, visit,
};
use redis_client_bench::net::Connection;
use redis_client_bench::resp::{Command, Value};
use redis_client_bench::window::{Routed, Window};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// The servers that all tests of this file share, one test at a time: some checks pause them.
struct Shared {
    standalone: Servers,
    cluster: Servers,
    turn: Mutex<()>,
    _guards: [common::Guard; 2],
}

/// Runs `test` with the shared servers, alone.
fn with_servers<F: Future>(test: impl FnOnce(Servers, Servers) -> F) -> F::Output {
    static SERVERS: Mutex<Weak<Shared>> = Mutex::new(Weak::new());
    let runtime = Runtime::new().expect("a runtime");
    let shared = {
        let mut known = SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
        known.upgrade().unwrap_or_else(|| {
            let (standalone, cluster) = runtime.block_on(async { tokio::join!(common::standalone(), common::cluster()) });
            let guards = [standalone.1, cluster.1];
            let shared = Arc::new(Shared { standalone: standalone.0, cluster: cluster.0, turn: Mutex::default(), _guards: guards });
            *known = Arc::downgrade(&shared);
            shared
        })
    };
    let _turn = shared.turn.lock().unwrap_or_else(PoisonError::into_inner);
    runtime.block_on(test(shared.standalone.clone(), shared.cluster.clone()))
}

type Reporting = Pin<Box<dyn Future<Output = Report>>>;

fn settings(driver: &Descriptor, resp: Resp) -> Settings {
    let connections = NonZeroUsize::new(driver.most_connections.min(4)).expect("a driver has a connection");
    Settings { connections, resp, ..Settings::default() }
}

/// Asserts that every report passed, and shows all of them when one did not.
fn assert_passed(reports: &[Report]) {
    let failed: Vec<String> = reports.iter().filter(|report| !report.passed()).map(ToString::to_string).collect();
    assert!(!reports.is_empty() && failed.is_empty(), "{} of {} failed:\n{}", failed.len(), reports.len(), failed.join("\n"));
    for report in reports {
        println!("{report}");
        // No other client gives the error of one command as that of the whole transaction.
        let mut checks = report.checks.iter().filter(|check| check.name == "an_error_inside_a_transaction");
        let whole = checks.any(|check| matches!(check.outcome, Outcome::Unsupported(_)));
        assert_eq!(whole, report.subject.starts_with("fred"), "{report}");
    }
}

/// The suite over the driver itself.
struct Native(Servers, Settings);

impl Visit for Native {
    type Output = Reporting;
    fn visit<D: Driver>(self) -> Reporting {
        Box::pin(async move { conformance::run::<D>(&self.0, &self.1, "rcb-test:native:").await })
    }
}

async fn native(servers: Servers) -> Vec<Report> {
    let mut reports = Vec::new();
    for driver in DRIVERS.iter().filter(|driver| driver.runs_on(servers.topology)) {
        for &resp in driver.resp {
            let suite = Native(servers.clone(), settings(driver, resp));
            reports.push(visit(driver.name, suite).expect("it is in the registry").await);
        }
    }
    reports
}

#[test]
fn every_driver_conforms_on_a_standalone_server() {
    assert_passed(&with_servers(|standalone, _| native(standalone)));
}

#[test]
fn every_driver_conforms_on_a_cluster() {
    assert_passed(&with_servers(|_, cluster| native(cluster)));
}

/// The suite over a window around the driver; on a cluster over our routing with a window for each node.
struct Windowed(Servers, Settings);

async fn windowed<D: Driver>(servers: Servers, settings: Settings) -> Result<Vec<Check>, Error> {
    let prefix = "rcb-test:window:";
    match servers.topology {
        Topology::Standalone => {
            let driver = D::connect(&servers, &settings).await?;
            let window = Window::new(driver.clone(), &settings)?;
            let checks = conformance::check(&window, &servers, PipelineReach::AnySlot, prefix).await;
            window.close().await;
            driver.close().await;
            Ok(checks)
        }
        Topology::Cluster => {
            let connect = move |endpoint| {
                let settings = settings.clone();
                async move { Window::new(D::connect(&Servers::standalone(endpoint), &settings).await?, &settings) }
            };
            let routed = Routed::connect(&servers, connect).await?;
            let checks = conformance::check(&routed, &servers, PipelineReach::AnySlot, prefix).await;
            for window in routed.nodes() {
                window.close().await;
            }
            Ok(checks)
        }
    }
}

impl Visit for Windowed {
    type Output = Reporting;
    fn visit<D: Driver>(self) -> Reporting {
        let subject = format!("{} {} {}", D::DESCRIPTOR.name, self.1.strategy, self.0.topology);
        Box::pin(async move {
            let checks = windowed::<D>(self.0, self.1).await;
            let failed = |error: Error| vec![Check::failed("connect", error)];
            Report { subject, checks: checks.unwrap_or_else(failed) }
        })
    }
}

async fn windows(servers: Servers) -> Vec<Report> {
    let strategies = [Strategy::window(Duration::from_micros(100), 0), Strategy::Idle { limit: 64 }, Strategy::Off];
    let mut reports = Vec::new();
    for driver in DRIVERS.iter().filter(|driver| driver.runs_on(Topology::Standalone)) {
        for (number, strategy) in strategies.into_iter().enumerate() {
            // Each version of the protocol with some driver and strategy.
            let resp = driver.resp[(number + reports.len()) % driver.resp.len()];
            let suite = Windowed(servers.clone(), Settings { strategy, ..settings(driver, resp) });
            reports.push(visit(driver.name, suite).expect("it is in the registry").await);
        }
    }
    reports
}

#[test]
fn windows_over_every_driver_conform_on_a_standalone_server() {
    assert_passed(&with_servers(|standalone, _| windows(standalone)));
}

#[test]
fn windows_over_every_driver_conform_on_a_cluster() {
    assert_passed(&with_servers(|_, cluster| windows(cluster)));
}

/// How many connections each server has, our own left out.
async fn connected(servers: &Servers) -> Vec<usize> {
    let mut counts = Vec::new();
    for endpoint in &servers.endpoints {
        let mut connection = Connection::open(endpoint, Resp::V2, true).await.expect("the server runs");
        let list = connection.request(&Command::new("CLIENT").arg("LIST").arg("TYPE").arg("normal")).await;
        let Ok(Value::Blob(list)) = list else { panic!("no client list: {list:?}") };
        counts.push(String::from_utf8_lossy(&list).lines().count() - 1);
    }
    counts
}

/// Waits until the servers have closed what earlier tests left.
async fn quiet(servers: &Servers) {
    for _ in 0..500 {
        if connected(servers).await.iter().all(|&count| count == 0) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("connections are left over: {:?}", connected(servers).await);
}

/// Connects, counts the server's connections, uses all, and closes.
struct Counted(Servers, Settings);

impl Visit for Counted {
    type Output = Pin<Box<dyn Future<Output = ()>>>;
    fn visit<D: Driver>(self) -> Self::Output {
        Box::pin(async move {
            let Self(servers, settings) = self;
            quiet(&servers).await;
            let driver = D::connect(&servers, &settings).await.expect("it connects");
            let expected = (D::DESCRIPTOR.connections)(&settings, servers.topology);
            let open = connected(&servers).await;
            // Each fred client keeps one more connection to some node of a cluster, to ask for its slots.
            let spare = if D::DESCRIPTOR.client == "fred" && servers.topology == Topology::Cluster { expected } else { 0 };
            let right = open.iter().all(|&count| count >= expected) && open.iter().sum::<usize>() <= expected * open.len() + spare;
            assert!(right, "{}: {open:?} connections instead of {expected} and {spare} spare", D::DESCRIPTOR.name);
            driver.close().await;
            quiet(&servers).await;
        })
    }
}

#[test]
fn every_driver_has_its_connections_open_when_connect_returns_and_none_after_close() {
    with_servers(|standalone, cluster| async move {
        for servers in [standalone, cluster] {
            for driver in DRIVERS.iter().filter(|driver| driver.runs_on(servers.topology)) {
                let counted = Counted(servers.clone(), settings(driver, Resp::V3));
                visit(driver.name, counted).expect("it is in the registry").await;
            }
        }
    });
}

/// bb8 takes 30 s, and the manager of redis-rs tries six times to reconnect; all others report at once.
const REPORT_LIMIT: Duration = Duration::from_secs(35);

/// Fifty callers in a loop, when the server dies.
struct Killed(Servers, Settings, common::Guard);

impl Visit for Killed {
    type Output = Pin<Box<dyn Future<Output = Result<(), String>>>>;
    fn visit<D: Driver>(self) -> Self::Output {
        Box::pin(async move {
            let Self(servers, settings, mut guard) = self;
            let driver = D::connect(&servers, &settings).await.map_err(|error| error.to_string())?;
            let served = Arc::new(AtomicU64::new(0));
            let mut callers = JoinSet::new();
            for number in 0..50 {
                let (driver, served) = (driver.clone(), served.clone());
                callers.spawn(async move {
                    let key = format!("rcb-test:killed:{number}").into_bytes();
                    loop {
                        match driver.get(&key).await {
                            Ok(_) => served.fetch_add(1, Ordering::Relaxed),
                            Err(error) => return error,
                        };
                    }
                });
            }
            while served.load(Ordering::Relaxed) < 1_000 && callers.try_join_next().is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            guard.kill();
            let errors = tokio::time::timeout(REPORT_LIMIT, callers.join_all()).await;
            let errors = errors.map_err(|_| format!("{} hangs when its server dies", D::DESCRIPTOR.name))?;
            let expected = |error: &Error| matches!(error, Error::Connection(_) | Error::Timeout(_) | Error::Client(_));
            match errors.iter().find(|error| !expected(error)) {
                Some(error) => Err(format!("{}: a lost server became a {} error: {error}", D::DESCRIPTOR.name, error.kind())),
                // Who waits for a pool's connection may be told that there is none; who has a connection must be told that it is lost.
                None if !D::DESCRIPTOR.checkout.is_empty() || errors.iter().any(|error| matches!(error, Error::Connection(_))) => Ok(()),
                None => Err(format!("{}: nobody learned that the connection was lost: {}", D::DESCRIPTOR.name, errors[0])),
            }
        })
    }
}

#[test]
fn no_driver_hangs_when_its_server_dies() {
    let runtime = Runtime::new().expect("a runtime");
    let failures = runtime.block_on(async {
        let drivers = DRIVERS.iter().filter(|driver| driver.runs_on(Topology::Standalone));
        let killed = drivers.map(|driver| async move {
            let (servers, guard) = common::standalone().await;
            let killed = Killed(servers, settings(driver, driver.resp[0]), guard);
            visit(driver.name, killed).expect("it is in the registry").await.err()
        });
        futures_util::future::join_all(killed).await
    });
    let failures: Vec<_> = failures.into_iter().flatten().collect();
    assert!(failures.is_empty(), "{failures:#?}");
}
