//! Publish/subscribe of every driver, on servers of our own.

mod common;

use std::pin::Pin;
use std::time::Duration;

use common::settings;
use redis_client_bench::conformance::{self, Report};
use redis_client_bench::drivers::{
    DRIVERS, Driver, Error, Kind, Servers, Settings, Subscriber, SubscriberSettings, Topology, Visit, visit,
};

type Doing<T> = Pin<Box<dyn Future<Output = T>>>;

/// The suite over one driver.
struct Suite(Servers, Settings);

impl Visit for Suite {
    type Output = Doing<Report>;
    fn visit<D: Driver>(self) -> Doing<Report> {
        Box::pin(async move { conformance::run_pubsub::<D>(&self.0, &self.1, "rcb-test:pubsub:").await })
    }
}

async fn every_driver(servers: &Servers) {
    common::every_driver(servers, |name, servers, settings| visit(name, Suite(servers, settings)), |_, _| false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribers_of_every_driver_conform_on_a_standalone_server() {
    let (servers, _guard) = common::standalone().await;
    every_driver(&servers).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribers_of_every_driver_conform_on_a_cluster() {
    let (servers, _guard) = common::cluster_with_replicas().await;
    every_driver(&servers).await;
}

/// A subscriber that waits for messages, when the server dies.
struct Killed(Servers, Settings, common::Guard);

impl Visit for Killed {
    type Output = Doing<Result<(), String>>;
    fn visit<D: Driver>(self) -> Self::Output {
        Box::pin(async move {
            let Self(servers, settings, mut guard) = self;
            let name = D::DESCRIPTOR.name;
            let mut subscriber =
                D::subscriber(&servers, &settings, &SubscriberSettings::default()).await.map_err(|error| error.to_string())?;
            subscriber.subscribe(Kind::Channel, &[b"rcb-test:killed".to_vec()]).await.map_err(|error| error.to_string())?;
            let waiting = tokio::spawn(async move { subscriber.next().await.map(drop) });
            guard.kill();
            match tokio::time::timeout(Duration::from_secs(5), waiting).await {
                Ok(Ok(Err(Error::Connection(_)))) => Ok(()),
                Ok(other) => Err(format!("{name}: a dead server became {other:?}")),
                Err(_) => Err(format!("{name} waits on when its server is dead")),
            }
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_subscriber_hangs_when_its_server_dies() {
    let mut failures = Vec::new();
    let mut tried = 0;
    for driver in DRIVERS.iter().filter(|driver| driver.runs_on(Topology::Standalone)) {
        for &resp in driver.resp {
            if driver.pubsub.check_kind(Topology::Standalone, resp, Kind::Channel).is_err() {
                continue;
            }
            let (servers, guard) = common::standalone().await;
            let killed = Killed(servers, settings(driver, resp), guard);
            failures.extend(visit(driver.name, killed).expect("it is in the registry").await.err());
            tried += 1;
        }
    }
    assert!(tried > 0 && failures.is_empty(), "{failures:#?}");
}
