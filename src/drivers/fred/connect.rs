//! From our endpoints and settings to the crate's own types. No URL is formatted, so no password is ever in a text.

use std::sync::Arc;
use std::time::Duration;

use fred::clients::SubscriberClient;
use fred::interfaces::{ClientLike, EventInterface};
use fred::types::{Builder, ConnectHandle, RespVersion};
use tokio::task::JoinSet;

use super::api::{Client, Config, Server, ServerConfig};
use crate::drivers::{Error, Profile, Resp, ResponseTimeout, Servers, Settings, Topology};
use crate::net::{Address, Endpoint, Secret};

/// The time limit for opening one connection in the profile `tuned`.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest that a whole `connect` may take, whatever the client does.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// The longest that a client may take to say goodbye.
const QUIT_LIMIT: Duration = Duration::from_secs(2);

fn server(endpoint: &Endpoint) -> Result<Server, Error> {
    match &endpoint.address {
        Address::Tcp(host, port) => Ok(Server::new(host.as_str(), *port)),
        Address::Unix(_) => Err(Error::Client("a cluster needs TCP addresses".into())),
    }
}

/// Where and how to log in, and every knob that the profile turns.
pub fn builder(servers: &Servers, settings: &Settings) -> Result<Builder, Error> {
    let endpoint = servers.first();
    let mut config = Config {
        server: match (servers.topology, &endpoint.address) {
            (Topology::Cluster, _) => {
                let hosts = servers.endpoints.iter().map(server).collect::<Result<Vec<_>, _>>()?;
                ServerConfig::Clustered { hosts, policy: Default::default() }
            }
            (Topology::Standalone, Address::Unix(path)) => ServerConfig::Unix { path: path.clone() },
            (Topology::Standalone, Address::Tcp(..)) => ServerConfig::Centralized { server: server(endpoint)? },
        },
        version: match settings.resp {
            Resp::V2 => RespVersion::RESP2,
            Resp::V3 => RespVersion::RESP3,
        },
        username: endpoint.username.clone(),
        password: endpoint.password.as_ref().map(|password| Secret::reveal(password).to_owned()),
        ..Config::default()
    };
    if endpoint.database != 0 {
        let database = u8::try_from(endpoint.database).map_err(|_| Error::Client("fred knows the databases 0 to 255 only".into()))?;
        config.database = Some(database);
    }
    secure(&mut config, endpoint)?;
    let mut builder = Builder::from_config(config);
    builder.with_connection_config(|connection| {
        connection.tcp.nodelay = settings.nodelay();
        if settings.profile == Profile::Tuned {
            connection.connection_timeout = CONNECTION_TIMEOUT;
        }
    });
    if let ResponseTimeout::After(after) = settings.timeout() {
        builder.with_performance_config(|performance| performance.default_command_timeout = after);
    }
    Ok(builder)
}

#[cfg(feature = "tls")]
fn secure(config: &mut Config, endpoint: &Endpoint) -> Result<(), Error> {
    if let Some(options) = &endpoint.tls {
        let rustls = crate::net::tls::client_config(options).map_err(|error| Error::Connection(error.to_string()))?;
        config.tls = Some(Arc::unwrap_or_clone(rustls).into());
    }
    Ok(())
}

#[cfg(not(feature = "tls"))]
fn secure(_: &mut Config, endpoint: &Endpoint) -> Result<(), Error> {
    match endpoint.tls {
        None => Ok(()),
        Some(_) => Err(Error::Unsupported("built without the feature `tls`")),
    }
}

/// The tasks that serve clients; they end with the last handle, since fred's clients keep them running otherwise.
#[derive(Clone)]
pub struct Serving {
    _tasks: Arc<Tasks>,
}

#[derive(Default)]
struct Tasks(JoinSet<()>);

impl Tasks {
    /// Lets `task` serve `client`, and closes the client's queue when it ends. Without a reconnect policy fred keeps the queue
    /// for a later `connect`, and what is sent after the last reply waits in it for ever.
    fn serve(&mut self, client: Client, task: ConnectHandle) {
        let task = AbortOnDrop(task);
        self.0.spawn(async move {
            let mut task = task;
            // Why it ended, its callers are told by fred.
            let _ = (&mut task.0).await;
            drop(client.inner().take_command_rx());
        });
    }
}

struct AbortOnDrop(ConnectHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Connects all of `clients`, one after the other.
pub async fn start(clients: &[Client]) -> Result<Serving, Error> {
    let mut tasks = Tasks::default();
    let connecting = async {
        for client in clients {
            let task = client.init().await.map_err(super::error::login_error)?;
            tasks.serve(client.clone(), task);
        }
        Ok(())
    };
    match tokio::time::timeout(CONNECT_LIMIT, connecting).await {
        Ok(result) => result.map(|()| Serving { _tasks: Arc::new(tasks) }),
        Err(_) => Err(Error::Connection(format!("no connection within {CONNECT_LIMIT:?}"))),
    }
}

/// Connects a subscriber. When a connection of it is lost its channel of messages is closed, so that whoever waits for one
/// learns of it: fred itself only reports the error on another channel, and keeps this one open for a later `connect`.
pub async fn start_subscriber(client: &SubscriberClient) -> Result<Serving, Error> {
    let mut errors = client.error_rx();
    let connecting = async { client.init().await.map_err(super::error::login_error) };
    let task = match tokio::time::timeout(CONNECT_LIMIT, connecting).await {
        Ok(task) => AbortOnDrop(task?),
        Err(_) => return Err(Error::Connection(format!("no connection within {CONNECT_LIMIT:?}"))),
    };
    let mut tasks = Tasks::default();
    let client = client.clone();
    tasks.0.spawn(async move {
        let mut task = task;
        tokio::select! {
            _ = &mut task.0 => {}
            _ = errors.recv() => {}
        }
        let inner = client.inner();
        let capacity = inner.performance_config().broadcast_channel_capacity;
        inner.notifications.close_public_receivers(capacity);
        drop(inner.take_command_rx());
    });
    Ok(Serving { _tasks: Arc::new(tasks) })
}

/// Connects a client for tracking. When a connection of it is lost, `ended` is called with the reason and its queue is closed.
/// So it is when the client notices a change of the cluster: connections that it opens then are not tracked. `beside` runs as long as
/// the client is served.
pub async fn start_tracked(
    client: &Client,
    beside: impl Future<Output = ()> + Send + 'static,
    ended: impl FnOnce(Error) + Send + 'static,
) -> Result<Serving, Error> {
    let connecting = async { client.init().await.map_err(super::error::login_error) };
    let task = match tokio::time::timeout(CONNECT_LIMIT, connecting).await {
        Ok(task) => AbortOnDrop(task?),
        Err(_) => return Err(Error::Connection(format!("no connection within {CONNECT_LIMIT:?}"))),
    };
    let (mut errors, mut changes) = (client.error_rx(), client.cluster_change_rx());
    let mut tasks = Tasks::default();
    tasks.0.spawn(beside);
    let client = client.clone();
    tasks.0.spawn(async move {
        let mut task = task;
        let reason = tokio::select! {
            _ = &mut task.0 => "a tracked connection was lost",
            _ = errors.recv() => "a tracked connection was lost",
            _ = changes.recv() => "the cluster changed, and fred does not track what it connects to then",
        };
        ended(Error::Connection(reason.into()));
        drop(client.inner().take_command_rx());
    });
    Ok(Serving { _tasks: Arc::new(tasks) })
}

/// Closes the connections of all of `clients`.
pub async fn quit<C: ClientLike>(clients: &[C]) {
    let quitting = futures_util::future::join_all(clients.iter().map(ClientLike::quit));
    // An error says that a connection is gone already.
    let _ = tokio::time::timeout(QUIT_LIMIT, quitting).await;
}
