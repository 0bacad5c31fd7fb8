//! What is measured against: a server given by URL, a container or a child process; standalone or cluster.
//!
//! [`provide`] finds or starts it, checks it, and says what it chose. Nothing that it starts survives: see
//! [`Target::shutdown`].

mod args;
pub mod audit;
mod bring_up;
mod cluster;
#[cfg(feature = "container")]
mod container;
mod error;
mod info;
mod inspect;
mod ports;
mod probe;
#[cfg(unix)]
mod process;
mod spec;
#[cfg(unix)]
mod watchdog;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use args::TargetArgs;
pub use error::TargetError;
pub use info::{Info, Server};
pub use spec::{DEFAULT_IMAGE, Kind, Layout, TargetSpec, parse_urls};

use crate::drivers::{Servers, Topology};
use crate::net::Endpoint;

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Takes writes.
    Master,
    /// Follows a master.
    Replica,
}

/// One server of the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Where it is, with the login to it.
    pub endpoint: Endpoint,
    /// What it does.
    pub role: Role,
}

/// A Redis to measure against, ready for work.
#[derive(Debug)]
pub struct Target {
    /// How it was provided; never [`Kind::Auto`].
    pub kind: Kind,
    /// What drivers connect to: the server, or the masters of the cluster.
    pub servers: Servers,
    /// Every server, masters first.
    pub nodes: Vec<Node>,
    /// Product and version.
    pub server: Server,
    /// How it was provided, as one printable line.
    pub provided: String,
    /// What the user should know, such as why there is no container, or a mapped port.
    pub warnings: Vec<String>,
    guard: Guard,
}

/// What a record keeps of a target. Holds no login.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetFacts {
    /// How it was provided.
    pub kind: Kind,
    /// Standalone or cluster.
    pub topology: Topology,
    /// Servers that take writes.
    pub masters: usize,
    /// Servers that follow them.
    pub replicas: usize,
    /// Product and version.
    pub server: Server,
    /// Addresses of all servers, masters first.
    pub addresses: Vec<String>,
    /// How it was provided, as one printable line.
    pub provided: String,
    /// What was printed about it.
    pub warnings: Vec<String>,
}

impl Target {
    /// Standalone or cluster.
    #[must_use]
    pub fn topology(&self) -> Topology {
        self.servers.topology
    }

    /// Whether we started it ourselves. A server given by URL belongs to somebody: only keys under our own prefix
    /// may be touched there, and nothing configured or flushed.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.kind != Kind::Url
    }

    /// The nodes that take writes.
    pub fn masters(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.role == Role::Master)
    }

    /// What a record keeps of it.
    #[must_use]
    pub fn facts(&self) -> TargetFacts {
        let masters = self.masters().count();
        TargetFacts {
            kind: self.kind,
            topology: self.topology(),
            masters,
            replicas: self.nodes.len() - masters,
            server: self.server.clone(),
            addresses: self.nodes.iter().map(|node| node.endpoint.to_string()).collect(),
            provided: self.provided.clone(),
            warnings: self.warnings.clone(),
        }
    }

    /// Ends and removes what we started; does nothing to a server given by URL.
    ///
    /// Dropping does the same, waiting for it. So does an interruption, and a watchdog does when we are killed.
    pub async fn shutdown(self) {
        match self.guard {
            Guard::Url => {}
            #[cfg(unix)]
            Guard::Process(fleet) => drop(fleet),
            #[cfg(feature = "container")]
            Guard::Container(container) => container.shutdown().await,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.provided)
    }
}

/// What keeps the target alive, and ends it when dropped.
#[derive(Debug)]
enum Guard {
    /// Somebody else's.
    Url,
    #[cfg(unix)]
    Process(process::Fleet),
    #[cfg(feature = "container")]
    Container(container::Running),
}

/// Finds or starts what `spec` asks for, and waits until it is ready.
///
/// In this order, unless `spec` forces one: its URL; a container when a Docker engine answers; a child process. A
/// container that can't be had, for want of its image for example, gives way to a process, with a warning that says why.
///
/// # Errors
/// [`TargetError`], in words for the user.
pub async fn provide(spec: &TargetSpec) -> Result<Target, TargetError> {
    match spec.kind {
        Kind::Url => by_url(spec).await,
        Kind::Auto if !spec.urls.is_empty() => by_url(spec).await,
        Kind::Container => by_container(spec).await,
        Kind::Process => by_process(spec).await,
        Kind::Auto => {
            let refusal = match by_container(spec).await {
                Ok(target) => return Ok(target),
                Err(refusal) => refusal,
            };
            match by_process(spec).await {
                Ok(mut target) => {
                    // Without an engine a process is simply the next way; otherwise it is not what was to be expected.
                    if !matches!(refusal, TargetError::NoEngine(_)) {
                        target.warnings.push(format!("a process instead of a container: {refusal}"));
                    }
                    Ok(target)
                }
                Err(error @ TargetError::NoServer(_)) => {
                    Err(TargetError::NoTarget { container: refusal.to_string(), process: error.to_string() })
                }
                Err(error) => Err(error),
            }
        }
    }
}

async fn by_url(spec: &TargetSpec) -> Result<Target, TargetError> {
    let found = inspect::inspect(&spec.urls, spec.layout.map(Layout::topology), spec.resp, spec.answer_within).await?;
    Ok(found.into_target(Kind::Url, "given by URL", Guard::Url))
}

#[cfg(feature = "container")]
async fn by_container(spec: &TargetSpec) -> Result<Target, TargetError> {
    container::provide(spec).await
}

#[cfg(not(feature = "container"))]
async fn by_container(_: &TargetSpec) -> Result<Target, TargetError> {
    Err(TargetError::NoEngine("this build lacks the feature `container`".into()))
}

#[cfg(unix)]
async fn by_process(spec: &TargetSpec) -> Result<Target, TargetError> {
    process::provide(spec).await
}

#[cfg(not(unix))]
async fn by_process(_: &TargetSpec) -> Result<Target, TargetError> {
    Err(TargetError::NoServer("child processes need a unix system".into()))
}

impl inspect::Found {
    fn into_target(self, kind: Kind, how: &str, guard: Guard) -> Target {
        let masters = self.servers.endpoints.len();
        let shape = match self.servers.topology {
            Topology::Standalone => format!("standalone at {}", self.servers.first()),
            Topology::Cluster => {
                format!("cluster of {masters} masters and {} replicas at {}", self.nodes.len() - masters, self.servers.first())
            }
        };
        let provided = format!("{} {shape}, {kind} {how}", self.server);
        Target { kind, servers: self.servers, nodes: self.nodes, server: self.server, provided, warnings: self.warnings, guard }
    }
}
