//! From our endpoints and settings to the crate's own types. No URL is formatted, so no password is ever in a text.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustis::client::{Client, ClusterConfig, Config, CustomReconnectionPolicy, ReconnectionConfig, ServerConfig};
use tokio::sync::watch;

use super::error::login_error;
use crate::drivers::{Error, Profile, Resp, ResponseTimeout, Servers, Settings, Topology};
use crate::net::{Address, Endpoint, Secret};

/// The time limit for opening one connection in the profile `tuned`.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest that a whole `connect` may take, whatever the client does.
const CONNECT_LIMIT: Duration = Duration::from_secs(7);

/// The longest that a client may take to say goodbye.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// The crate's own wait before it connects again, without its jitter.
const RECONNECT_AFTER: Duration = Duration::from_secs(1);

/// Where and how to log in, and every knob that the profile turns.
pub fn config(servers: &Servers, settings: &Settings) -> Result<Config, Error> {
    if settings.resp != Resp::V3 {
        return Err(Error::Unsupported(super::RESP3_ONLY));
    }
    let endpoint = servers.first();
    let mut config = Config::default();
    config.server = match servers.topology {
        Topology::Standalone => standalone(endpoint)?,
        Topology::Cluster => cluster(servers)?,
    };
    // The crate leaves out a user without a password.
    let password = endpoint.password.as_ref().map(Secret::reveal).or(endpoint.username.as_ref().map(|_| ""));
    config.password = password.map(str::to_owned);
    config.username = endpoint.username.clone();
    config.database = endpoint.database as usize;
    if let Some(nodelay) = settings.nodelay() {
        config.no_delay = nodelay;
    }
    if settings.profile == Profile::Tuned {
        config.connect_timeout = CONNECTION_TIMEOUT;
        // None: the crate counts commands in bytes, of those in flight too.
        config.backpressure.max_queued_bytes = 0;
    }
    config.command_timeout = match settings.timeout() {
        ResponseTimeout::CrateDefault => config.command_timeout,
        ResponseTimeout::Never => Duration::ZERO,
        ResponseTimeout::After(after) => after,
    };
    Ok(config)
}

fn standalone(endpoint: &Endpoint) -> Result<ServerConfig, Error> {
    match &endpoint.address {
        _ if endpoint.tls.is_some() => tls(endpoint),
        Address::Unix(path) => Ok(ServerConfig::UnixSocket { path: path.clone() }),
        Address::Tcp(host, port) => Ok(ServerConfig::Standalone { host: host.clone(), port: *port }),
    }
}

fn cluster(servers: &Servers) -> Result<ServerConfig, Error> {
    let mut cluster = ClusterConfig::default();
    for endpoint in &servers.endpoints {
        let Address::Tcp(host, port) = &endpoint.address else { return Err(Error::Client("a cluster needs TCP addresses".into())) };
        if endpoint.tls.is_some() {
            return Err(Error::Unsupported(
                "rustis to a cluster by TLS: its own TLS is not in this build, as it would bring a second crypto library",
            ));
        }
        cluster.nodes.push((host.clone(), *port));
    }
    Ok(ServerConfig::Cluster(cluster))
}

/// A stream of ours under the crate's custom transport: the crate's own TLS comes with another crypto library.
#[cfg(feature = "tls")]
fn tls(endpoint: &Endpoint) -> Result<ServerConfig, Error> {
    use rustis::client::{CustomTransport, TransportReader, TransportWriter};

    let endpoint = endpoint.clone();
    Ok(ServerConfig::Custom(CustomTransport::new(move || {
        let endpoint = endpoint.clone();
        async move {
            // On, as the crate does it.
            let connecting = crate::net::Stream::connect(&endpoint, true);
            let stream = tokio::time::timeout(CONNECTION_TIMEOUT, connecting).await.map_err(std::io::Error::from)??;
            let (reader, writer) = stream.into_split();
            Ok((Box::new(reader) as TransportReader, Box::new(writer) as TransportWriter))
        }
    })))
}

#[cfg(not(feature = "tls"))]
fn tls(_: &Endpoint) -> Result<ServerConfig, Error> {
    Err(Error::Unsupported("built without the feature `tls`"))
}

/// Bounds the opening of all connections. Boxed before anything else: the crate's future has some 20 KiB, which every future around it would have
/// too, several times in a debug build, and a thread's stack has 2 MiB.
pub fn limited<T>(connecting: impl Future<Output = Result<T, Error>>) -> impl Future<Output = Result<T, Error>> {
    let connecting = Box::pin(connecting);
    async {
        match tokio::time::timeout(CONNECT_LIMIT, connecting).await {
            Ok(result) => result,
            Err(_) => Err(Error::Connection(format!("no connection within {CONNECT_LIMIT:?}"))),
        }
    }
}

/// Connects a client.
pub async fn open(config: Config) -> Result<Client, Error> {
    limited(async {
        probe(&config).await?;
        Client::connect(config).await.map_err(login_error)
    })
    .await
}

/// Logs in to a seed of a cluster and leaves again: the crate only says of a cluster that it is misconfigured, whatever the
/// reason.
async fn probe(config: &Config) -> Result<(), Error> {
    let ServerConfig::Cluster(cluster) = &config.server else { return Ok(()) };
    let mut refusal = Error::Client("a cluster needs a seed".into());
    for (host, port) in &cluster.nodes {
        let mut seed = config.clone();
        seed.server = ServerConfig::Standalone { host: host.clone(), port: *port };
        match Client::connect(seed).await {
            Ok(client) => {
                close(client).await;
                return Ok(());
            }
            Err(error) => refusal = login_error(error),
        }
    }
    Err(refusal)
}

/// Closes a client's connections, if this is its last handle.
pub async fn close(client: Client) {
    // An error says that its task is gone already.
    let _ = tokio::time::timeout(CLOSE_LIMIT, client.close()).await;
}

/// Keeps a client from connecting again. Its connection's loss is told by the receiver, after all that came before was delivered:
/// the task that delivers asks the policy.
pub fn never_reconnect(config: &mut Config) -> watch::Receiver<bool> {
    let (lost, told) = watch::channel(false);
    config.reconnection = ReconnectionConfig::Custom(CustomReconnectionPolicy::new(move |_attempt: u32| {
        lost.send_replace(true);
        None
    }));
    told
}

/// A way to close a client of which the crate itself keeps a handle for ever, as its cache does. Dropped, it closes the client.
pub struct Closer {
    client: Client,
    closing: Arc<AtomicBool>,
}

impl Closer {
    /// Lets `config` connect again as it ships, until the closer of its client is dropped.
    pub fn prepare(config: &mut Config) -> Arc<AtomicBool> {
        let closing = Arc::new(AtomicBool::new(false));
        let asked = closing.clone();
        config.reconnection = ReconnectionConfig::Custom(CustomReconnectionPolicy::new(move |_attempt: u32| {
            (!asked.load(Ordering::Acquire)).then_some(RECONNECT_AFTER)
        }));
        closing
    }

    /// The closer of `client`, which was opened with what [`Closer::prepare`] made.
    pub fn new(client: Client, closing: Arc<AtomicBool>) -> Self {
        Self { client, closing }
    }

    fn ask(&self) {
        if !self.closing.swap(true, Ordering::AcqRel) {
            // The server ends the connection, and the policy the client. Between two connections it waits for the next one.
            let _ = self.client.send_and_forget(rustis::resp::cmd("QUIT"), Some(true));
        }
    }

    /// Closes the client's connections.
    pub async fn close(&self) {
        self.ask();
        let ended = async {
            while !self.client.is_terminated() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let _ = tokio::time::timeout(CLOSE_LIMIT, ended).await;
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        self.ask();
    }
}
