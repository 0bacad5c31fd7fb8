//! Servers of our own for the tests: child processes, ended when the last test is done with them.
//! `RCB_SERVER_BIN` names another server program.

// Each test file uses its own part of this.
#![allow(dead_code)]

use std::num::NonZeroUsize;

use redis_client_bench::conformance::{Check, Report};
use redis_client_bench::drivers::{DRIVERS, Descriptor, Resp, Servers, Settings, UnknownDriver};
use redis_client_bench::target::{Layout, Node, Target, TargetSpec, provide};

/// Running servers; dropped, they are ended and their folder is removed.
pub struct Guard(Option<Target>);

impl Guard {
    /// Ends the servers now.
    pub fn kill(&mut self) {
        self.0 = None;
    }

    /// The target as a load sees it.
    pub fn target(&self) -> &Target {
        self.0.as_ref().expect("the servers are running")
    }

    /// Every server, masters first.
    pub fn nodes(&self) -> &[Node] {
        self.0.as_ref().map_or(&[], |target| &target.nodes)
    }
}

async fn process(layout: Layout) -> (Servers, Guard) {
    let spec = TargetSpec { server_bin: std::env::var_os("RCB_SERVER_BIN").map(Into::into), ..TargetSpec::process(layout) };
    let target = provide(&spec).await.expect("a server process");
    (target.servers.clone(), Guard(Some(target)))
}

/// One server.
pub async fn standalone() -> (Servers, Guard) {
    process(Layout::Standalone).await
}

/// Three masters.
pub async fn cluster() -> (Servers, Guard) {
    process(Layout::Cluster { masters: 3, replicas_each: 0 }).await
}

/// Three masters with a replica each.
pub async fn cluster_with_replicas() -> (Servers, Guard) {
    process(Layout::CLUSTER).await
}

/// Settings of a driver with up to two connections.
pub fn settings(driver: &Descriptor, resp: Resp) -> Settings {
    let connections = NonZeroUsize::new(driver.most_connections.min(2)).expect("a driver has a connection");
    Settings { connections, resp, ..Settings::default() }
}

/// Runs a suite of checks over every driver of `servers`, in each protocol that it speaks. All must pass but those that are `excused`.
pub async fn every_driver<R: Future<Output = Report>>(
    servers: &Servers,
    suite: impl Fn(&'static str, Servers, Settings) -> Result<R, UnknownDriver>,
    excused: impl Fn(&Descriptor, &Check) -> bool,
) {
    let (mut failed, mut ran) = (Vec::new(), 0);
    for driver in DRIVERS.iter().filter(|driver| driver.runs_on(servers.topology)) {
        for &resp in driver.resp {
            let report = suite(driver.name, servers.clone(), settings(driver, resp)).expect("it is in the registry").await;
            println!("{report}");
            ran += 1;
            if report.checks.is_empty() || report.failures().any(|check| !excused(driver, check)) {
                failed.push(report.to_string());
            }
        }
    }
    assert!(ran > 0 && failed.is_empty(), "{} of {ran} failed:\n{}", failed.len(), failed.join("\n"));
}
