//! Servers of our own for the tests: child processes, ended when the last test is done with them.
//! `RCB_SERVER_BIN` names another server program.

// Each test file uses its own part of this.
#![allow(dead_code)]

use redis_client_bench::drivers::Servers;
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
