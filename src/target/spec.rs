//! What the user asked to be measured against.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::TargetError;
use crate::drivers::Topology;
use crate::net::Endpoint;
use crate::resp::Resp;

/// The image of a container target unless another is named.
pub const DEFAULT_IMAGE: &str = "redis:8";

/// How a target is provided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The first of the three that can be had.
    #[default]
    Auto,
    /// A server that runs already.
    Url,
    /// A container that we start and remove.
    Container,
    /// A child process that we start and end.
    Process,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Auto => "auto",
            Kind::Url => "url",
            Kind::Container => "container",
            Kind::Process => "process",
        })
    }
}

/// How many servers, and what they are together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// One server.
    Standalone,
    /// A cluster.
    Cluster {
        /// Nodes that own slots, at least 1.
        masters: u16,
        /// Replicas of each of them.
        replicas_each: u16,
    },
}

impl Layout {
    /// Three masters with one replica each.
    pub const CLUSTER: Self = Layout::Cluster { masters: 3, replicas_each: 1 };

    /// The most nodes that one machine is asked to run.
    pub const MOST_NODES: u16 = 60;

    /// Without the numbers.
    #[must_use]
    pub fn topology(self) -> Topology {
        match self {
            Layout::Standalone => Topology::Standalone,
            Layout::Cluster { .. } => Topology::Cluster,
        }
    }

    /// Masters and replicas together.
    #[must_use]
    pub fn nodes(self) -> usize {
        match self {
            Layout::Standalone => 1,
            Layout::Cluster { masters, replicas_each } => usize::from(masters) * (1 + usize::from(replicas_each)),
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Layout::Standalone => f.write_str("standalone"),
            Layout::Cluster { masters, replicas_each } => write!(f, "{masters}x{replicas_each}"),
        }
    }
}

impl FromStr for Layout {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "standalone" => return Ok(Layout::Standalone),
            "cluster" => return Ok(Layout::CLUSTER),
            _ => {}
        }
        let numbers =
            text.split_once(['x', 'X', '×']).and_then(|(masters, replicas)| Some((masters.parse().ok()?, replicas.parse().ok()?)));
        let Some((masters, replicas_each)) = numbers else {
            return Err("use standalone, cluster (3x1), or MASTERSxREPLICAS such as 3x0".into());
        };
        if masters == 0 || u32::from(masters) * (1 + u32::from(replicas_each)) > u32::from(Self::MOST_NODES) {
            return Err(format!("a cluster has 1 to {} nodes, masters and replicas together", Self::MOST_NODES));
        }
        Ok(Layout::Cluster { masters, replicas_each })
    }
}

/// What the user asked for. Parts that are left open are chosen by [`provide`](super::provide).
#[derive(Clone, Debug)]
pub struct TargetSpec {
    /// One way, or any.
    pub kind: Kind,
    /// The server, or seeds of the cluster, for [`Kind::Url`].
    pub urls: Vec<Endpoint>,
    /// The image for [`Kind::Container`]; [`DEFAULT_IMAGE`] when `None`.
    pub image: Option<String>,
    /// The program for [`Kind::Process`]; `redis-server` or `valkey-server` on PATH when `None`.
    pub server_bin: Option<PathBuf>,
    /// What is needed. `None`: whatever the URL's server is, standalone where we start it.
    pub layout: Option<Layout>,
    /// Further arguments for the servers that we start, such as `--io-threads 2`.
    pub extra: Vec<String>,
    /// The protocol version that will be spoken, checked before any work.
    pub resp: Resp,
    /// The longest wait for one answer of a server given by URL.
    pub answer_within: Duration,
    /// Where server programs are looked for; the variable PATH when `None`.
    pub path: Option<OsString>,
    /// Where progress goes, such as the pull of an image; standard error by default.
    pub progress: fn(&str),
}

impl Default for TargetSpec {
    fn default() -> Self {
        Self {
            kind: Kind::Auto,
            urls: Vec::new(),
            image: None,
            server_bin: None,
            layout: None,
            extra: Vec::new(),
            resp: Resp::V2,
            answer_within: Duration::from_secs(5),
            path: None,
            progress: |line| tell!("{line}"),
        }
    }
}

impl TargetSpec {
    /// A server that runs already, or several seeds of a cluster, separated by commas.
    ///
    /// # Errors
    /// A URL that can't be read; the text holds no password.
    pub fn url(text: &str) -> Result<Self, TargetError> {
        Ok(Self { kind: Kind::Url, urls: parse_urls(text)?, ..Self::default() })
    }

    /// A child process.
    #[must_use]
    pub fn process(layout: Layout) -> Self {
        Self { kind: Kind::Process, layout: Some(layout), ..Self::default() }
    }

    /// A container of `image`.
    #[must_use]
    pub fn container(image: &str, layout: Layout) -> Self {
        Self { kind: Kind::Container, image: Some(image.to_owned()), layout: Some(layout), ..Self::default() }
    }

    /// The layout for servers that we start.
    #[must_use]
    pub fn own_layout(&self) -> Layout {
        self.layout.unwrap_or(Layout::Standalone)
    }

    /// The image of a container target.
    #[must_use]
    pub fn image(&self) -> &str {
        self.image.as_deref().unwrap_or(DEFAULT_IMAGE)
    }
}

/// The endpoints of a list of URLs separated by commas. A comma inside of a password is none of the list's.
///
/// # Errors
/// A URL that can't be read; the text holds no password.
pub fn parse_urls(text: &str) -> Result<Vec<Endpoint>, TargetError> {
    let mut urls: Vec<String> = Vec::new();
    for piece in text.split(',') {
        match urls.last_mut() {
            Some(last) if !piece.contains("://") => {
                last.push(',');
                last.push_str(piece);
            }
            _ => urls.push(piece.trim().to_owned()),
        }
    }
    Ok(urls.iter().map(|url| Endpoint::parse(url)).collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_read_and_printed_alike() {
        assert_eq!("3x1".parse(), Ok(Layout::CLUSTER));
        assert_eq!("cluster".parse(), Ok(Layout::CLUSTER));
        assert_eq!("standalone".parse(), Ok(Layout::Standalone));
        assert_eq!("1×0".parse(), Ok(Layout::Cluster { masters: 1, replicas_each: 0 }));
        for layout in [Layout::Standalone, Layout::Cluster { masters: 5, replicas_each: 2 }] {
            assert_eq!(layout.to_string().parse(), Ok(layout));
        }
        for wrong in ["", "3", "x", "0x1", "3x", "65535x65535", "-1x1", "61x0"] {
            assert!(wrong.parse::<Layout>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_list_of_urls_is_split_at_its_own_commas_only() {
        let urls = parse_urls("redis://:a,b@one:1, redis://two:2,rediss://three:3").unwrap();
        assert_eq!(urls.iter().map(ToString::to_string).collect::<Vec<_>>(), ["redis://one:1", "redis://two:2", "rediss://three:3"]);
        assert_eq!(urls[0].password.as_ref().map(crate::net::Secret::reveal), Some("a,b"));
        let error = parse_urls("redis://:hunter2@one:1,ftp://:hunter2@x").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    }
}
