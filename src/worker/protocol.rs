//! The worker protocol, version 1: lines of JSON on standard input and output. `docs/WORKER.md` describes it.
//!
//! The parent writes a [`Request`]; the worker connects, checks the replies, warms up and answers [`Answer::Ready`]. At the line
//! [`GO`] it does the work, and nothing else on any connection, and answers [`Answer::Measured`]. When its standard input is
//! closed it closes its connections and ends with exit code 0. Fields that are not known are ignored.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::drivers::{Servers, Topology};
use crate::net::{Endpoint, TlsOptions};

/// Marks a request as ours.
pub const PROTOCOL: &str = "redis-client-bench/worker";
/// Version of the protocol. A worker refuses another with [`Answer::Failed`].
pub const VERSION: u32 = 1;
/// The line that starts the clock.
pub const GO: &str = "go";
/// Environment variable with the password of all servers. It never stands in an argument or a line.
pub const PASSWORD: &str = "RCB_PASSWORD";
/// The longest line that a parent reads, bytes.
pub const LONGEST_LINE: usize = 4 << 20;

/// What one observation is to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// [`PROTOCOL`].
    pub protocol: String,
    /// [`VERSION`].
    pub version: u32,
    /// Where to connect to.
    pub servers: ServersRequest,
    /// Which driver, for a worker that has several.
    pub driver: String,
    /// How to connect.
    pub settings: SettingsRequest,
    /// What to do.
    pub workload: WorkloadRequest,
    /// How long the work goes on, nanoseconds: no operation begins after that.
    pub time_ns: u64,
    /// How long the same work is done before, for nothing, nanoseconds.
    pub warm_up_ns: u64,
    /// When an operation without a reply is given up, nanoseconds.
    pub patience_ns: u64,
}

/// The servers. The password, if there is one, is in [`PASSWORD`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServersRequest {
    /// Standalone or cluster.
    pub topology: Topology,
    /// URLs without a login: the server, or seeds of the cluster (all its masters).
    pub urls: Vec<String>,
    /// ACL user; without one it is `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// How `rediss://` is checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsRequest>,
}

/// How a TLS connection is checked. Paths of PEM files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsRequest {
    /// The authorities to trust instead of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// The client's certificate chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// The key of `certificate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// Accept any certificate.
    #[serde(default)]
    pub insecure: bool,
}

/// How to connect. A worker that can't do what is asked answers [`Answer::Unsupported`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SettingsRequest {
    /// Connections; on a cluster to each master.
    pub connections: usize,
    /// Version of RESP, 2 or 3.
    pub resp: u8,
    /// `tuned` (TCP_NODELAY, no response timeout, no queue limit that binds) or `default` (as the client ships).
    pub profile: String,
    /// `native`, `off`, `idle` or the pipeline window as `75us`.
    pub window: String,
    /// Most commands of one batch of a window; 0 = no limit.
    pub limit: usize,
    /// TCP_NODELAY, whatever the profile says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodelay: Option<bool>,
    /// `multi-thread` or `current-thread`.
    pub runtime: String,
    /// Threads of the runtime; 0 = as many as cores.
    pub threads: usize,
    /// Work that is added to each operation, nanoseconds of one core: shows whether a comparison sees it.
    #[serde(default)]
    pub burden_ns: u64,
    /// What this tool does not know of, as the user gave it: for workers of your own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub other: BTreeMap<String, String>,
}

/// What to do. Keys are there before the worker starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadRequest {
    /// Its name, for messages.
    pub name: String,
    /// What an operation is.
    pub operation: OperationRequest,
    /// Tasks that send, each waiting for its reply before it sends again.
    pub callers: usize,
    /// Commands sent together in an explicit pipeline; 1 for single commands. An operation is one command all the same.
    pub pipeline: usize,
}

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub enum OperationRequest {
    /// `GET`: key number n, for n in turn from 0 to `keys` - 1, is `key_prefix` with n after it; the reply must be `value`.
    Get {
        /// What all keys begin with.
        key_prefix: String,
        /// How many keys there are.
        keys: usize,
        /// What each key holds, in Base64.
        value: String,
    },
    /// `SET` of the same; the reply must be `OK`.
    Set {
        /// What all keys begin with.
        key_prefix: String,
        /// How many keys there are.
        keys: usize,
        /// What to write, in Base64.
        value: String,
    },
    /// `HKEYS` of hashes with the fields `field:00000000` to `field:` and `fields` - 1 in eight digits.
    Hkeys {
        /// What all keys begin with.
        key_prefix: String,
        /// How many keys there are.
        keys: usize,
        /// How many fields each has.
        fields: usize,
    },
    /// Receiving from one channel what the worker itself publishes, through a second connection, in explicit pipelines of
    /// `batch` and at most four of them ahead. An operation is a message received.
    Receive {
        /// The channel.
        channel: String,
        /// Bytes of a message.
        payload: usize,
        /// Messages in one pipeline of the publisher.
        batch: u64,
    },
}

impl OperationRequest {
    /// The command that the servers execute for each operation, lower case as `commandstats` has it.
    #[must_use]
    pub fn counted_as(&self) -> &'static str {
        match self {
            Self::Get { .. } => "get",
            Self::Set { .. } => "set",
            Self::Hkeys { .. } => "hkeys",
            Self::Receive { .. } => "publish",
        }
    }
}

/// A line of the worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It waits for [`GO`].
    Ready(Ready),
    /// The work is done.
    Measured(Measured),
    /// It gives no figures.
    Failed(String),
    /// The client can't do it at all: a statement, not a failure.
    Unsupported(String),
}

/// Who is ready.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ready {
    /// [`VERSION`], if it says so; another is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// The client, as its registry knows it.
    pub client: String,
    /// Its exact version.
    pub client_version: String,
    /// Commands that it sends beside the work, lower case, such as the PING of a pool's checkout: at most one for each operation
    /// and master.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkout: Vec<String>,
    /// Anything else that the record is to keep: the compiler, the runtime, the settings as applied.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
}

/// The figures of one observation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Operations done, each with its reply checked.
    pub operations: u64,
    /// From the start of the first to the end of the last, nanoseconds.
    pub elapsed_ns: u64,
    /// CPU time of the worker in user mode meanwhile, nanoseconds.
    pub user_ns: u64,
    /// CPU time in the kernel, nanoseconds.
    pub system_ns: u64,
    /// Heap allocations meanwhile; absent where nothing counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocations: Option<u64>,
    /// Bytes of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_bytes: Option<u64>,
    /// Half of the operations (of the pipelines, where commands are sent together) took at most so long, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<u64>,
    /// 99 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<u64>,
    /// The longest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ns: Option<u64>,
    /// Largest resident set of the worker, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory: Option<u64>,
}

impl ServersRequest {
    /// What a worker is told of `servers`: all but the password. They share one login, that of the first.
    #[must_use]
    pub fn of(servers: &Servers) -> Self {
        let first = servers.first();
        let tls = first.tls.clone().map(|TlsOptions { ca, certificate, key, insecure }| TlsRequest { ca, certificate, key, insecure });
        Self {
            topology: servers.topology,
            urls: servers.endpoints.iter().map(Endpoint::to_string).collect(),
            username: first.username.clone(),
            tls,
        }
    }
}

impl Request {
    /// Whether this build understands it, looking only at its head.
    ///
    /// # Errors
    /// In words for the parent.
    pub fn check_head(line: &str) -> Result<(), String> {
        #[derive(Deserialize)]
        struct Head {
            protocol: String,
            version: u32,
        }
        let head: Head = serde_json::from_str(line).map_err(|error| format!("no request of {PROTOCOL}: {error}"))?;
        if head.protocol != PROTOCOL {
            return Err(format!("the protocol is {:?}, this worker speaks {PROTOCOL}", head.protocol));
        }
        if head.version != VERSION {
            return Err(format!("the request is of version {}, this worker speaks version {VERSION} of {PROTOCOL}", head.version));
        }
        Ok(())
    }
}
