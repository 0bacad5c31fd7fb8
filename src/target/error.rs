//! Why a target can't be had: one sentence each, with a hint.

use std::time::Duration;

use crate::drivers::Topology;
use crate::error::Error;
use crate::net::{BadUrl, Endpoint, Secret};

/// Why there is nothing to measure. No text holds a password.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// All three ways failed.
    #[error(
        "no Redis to measure: give one with --url (or REDIS_URL), start a Docker engine for a container, or put redis-server or \
         valkey-server on PATH (scripts/setup installs one); the container: {container}; the process: {process}"
    )]
    NoTarget {
        /// Why no container.
        container: String,
        /// Why no process.
        process: String,
    },
    /// Flags that contradict each other, or a value that can't be.
    #[error("{0}")]
    Usage(String),
    /// A URL that can't be read.
    #[error(transparent)]
    BadUrl(#[from] BadUrl),
    /// Nothing listens there, or the way there is closed.
    #[error("{endpoint} can't be reached: {reason}; is the server running, and are host and port right?")]
    Unreachable {
        /// Where.
        endpoint: String,
        /// What the system said.
        reason: String,
    },
    /// Something accepts connections and says nothing.
    #[error(
        "{endpoint} accepted the connection but gave no answer within {after:?}; is it a Redis server, and free to answer (rediss:// needs a TLS port)?"
    )]
    NoAnswer {
        /// Where.
        endpoint: String,
        /// The limit.
        after: Duration,
    },
    /// Something else answers.
    #[error("{endpoint} is not a Redis server: {reason}; check the port (a TLS port needs rediss://)")]
    NotRedis {
        /// Where.
        endpoint: String,
        /// What came.
        reason: String,
    },
    /// User or password wrong or missing.
    #[error("{endpoint} refused the login: {reason}; give user and password in the URL, redis://user:password@host:port")]
    Login {
        /// Where.
        endpoint: String,
        /// The server's words.
        reason: String,
    },
    /// The server refused a command that is needed to measure it.
    #[error("{endpoint} can't be measured: {reason}")]
    Refused {
        /// Where.
        endpoint: String,
        /// The server's words, with a hint.
        reason: String,
    },
    /// The asked protocol version is newer than the server.
    #[error("{endpoint} is {server}, which has no RESP{resp}; use RESP2, or Redis 6.0 or later")]
    TooOld {
        /// Where.
        endpoint: String,
        /// Product and version.
        server: String,
        /// The version asked for.
        resp: u8,
    },
    /// A cluster where a standalone server is needed, or the reverse.
    #[error("{endpoint} is a {found} server, but a {wanted} target was asked for; {}", topology_hint(*wanted))]
    WrongTopology {
        /// Where.
        endpoint: String,
        /// What it is.
        found: Topology,
        /// What was asked for.
        wanted: Topology,
    },
    /// A cluster that does not serve all slots, or that can't be understood.
    #[error("the cluster at {endpoint} can't be measured: {reason}")]
    BrokenCluster {
        /// The node that said so.
        endpoint: String,
        /// What is wrong.
        reason: String,
    },
    /// A node that the cluster announces and that we can't talk to.
    #[error("the cluster announces a node that is of no use from here: {0}; check cluster-announce-ip and cluster-announce-port")]
    UnusableNode(Box<TargetError>),
    /// No server program.
    #[error("{0}; install one (scripts/setup), or name it with --server-bin")]
    NoServer(String),
    /// A server program that ended instead of serving.
    #[error("{server} did not start: {reason}")]
    ServerEnded {
        /// The program or image.
        server: String,
        /// Its last words.
        reason: String,
    },
    /// Servers that run but never became ready.
    #[error("{what} was not ready within {after:?}: {reason}; is the machine overloaded?")]
    NotReady {
        /// What was waited for.
        what: String,
        /// How long.
        after: Duration,
        /// What was missing at the end.
        reason: String,
    },
    /// No Docker engine that could be used.
    #[error("no Docker engine: {0}")]
    NoEngine(String),
    /// An engine answers, but the container can't be had.
    #[error("no container of {image}: {reason}")]
    Container {
        /// The image.
        image: String,
        /// What the engine said.
        reason: String,
    },
    /// The system refused something, such as a temporary directory.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        error: std::io::Error,
    },
}

fn topology_hint(wanted: Topology) -> &'static str {
    match wanted {
        Topology::Standalone => "leave out --topology, or give a server without cluster-enabled",
        Topology::Cluster => "leave out --topology, or give the nodes of a cluster",
    }
}

impl TargetError {
    /// The exit code: 2, no target.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        2
    }

    /// What `error` means when it comes from `endpoint` during the first look at it.
    pub(super) fn from_probe(endpoint: &Endpoint, limit: Duration, error: Error) -> Self {
        let secret = endpoint.password.as_ref();
        let name = endpoint.to_string();
        match error {
            Error::Connection(reason) => Self::Unreachable { endpoint: name, reason: scrub(&plain(&reason, endpoint), secret) },
            Error::Timeout(_) => Self::NoAnswer { endpoint: name, after: limit },
            Error::Login(reason) => Self::Login { endpoint: name, reason: scrub(&reason, secret) },
            Error::Protocol(reason) => Self::NotRedis { endpoint: name, reason: scrub(&reason, secret) },
            Error::Server(reply) => match reply.code.as_str() {
                "NOAUTH" => Self::Login { endpoint: name, reason: "it needs a password".into() },
                "WRONGPASS" => Self::Login { endpoint: name, reason: reply.to_string() },
                "NOPERM" => {
                    let reason = format!("the user lacks a right that is needed ({})", scrub(&reply.detail, secret));
                    Self::Refused { endpoint: name, reason }
                }
                "LOADING" => Self::Refused { endpoint: name, reason: "it is still loading its data; try again when it is done".into() },
                _ => Self::Refused { endpoint: name, reason: scrub(&reply.to_string(), secret) },
            },
            other => Self::Refused { endpoint: name, reason: scrub(&other.to_string(), secret) },
        }
    }
}

/// The reason alone where the connection named its endpoint already.
fn plain(reason: &str, endpoint: &Endpoint) -> String {
    reason.strip_prefix(&format!("can't connect to {endpoint}: ")).unwrap_or(reason).to_owned()
}

/// A server may repeat what it was sent; a password must not come out this way either.
fn scrub(text: &str, secret: Option<&Secret>) -> String {
    match secret.map(Secret::reveal) {
        Some(password) if !password.is_empty() => text.replace(password, "***"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_repeats_the_password_does_not_make_us_print_it() {
        let endpoint = Endpoint::parse("redis://bob:hunter2@h:1").unwrap();
        let limit = Duration::from_secs(1);
        for error in [
            Error::server("ERR bad command AUTH hunter2"),
            Error::server("NOPERM hunter2"),
            Error::Protocol("not RESP: hunter2".into()),
            Error::Connection("hunter2".into()),
            Error::Login("hunter2".into()),
            Error::Client("hunter2".into()),
        ] {
            let error = TargetError::from_probe(&endpoint, limit, error);
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
            assert!(error.to_string().starts_with("redis://h:1 "), "{error}");
        }
    }
}
