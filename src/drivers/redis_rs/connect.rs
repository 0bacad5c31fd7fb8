//! From our endpoints and settings to the crate's own types. No URL is formatted, so no password is ever in a text.

use std::time::Duration;

pub use super::error::login_error;
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo};

use crate::drivers::{Error, Profile, Resp, ResponseTimeout, Settings};
use crate::net::{Address, Endpoint, Secret};

/// The time limit for opening one connection in the profile `tuned`.
pub const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest that a whole `connect` may take, whatever the client does.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Where and how to log in.
pub fn info(endpoint: &Endpoint, settings: &Settings) -> Result<ConnectionInfo, Error> {
    let address = match (&endpoint.address, &endpoint.tls) {
        (Address::Unix(path), _) => ConnectionAddr::Unix(path.clone()),
        (Address::Tcp(host, port), None) => ConnectionAddr::Tcp(host.clone(), *port),
        (Address::Tcp(host, port), Some(tls)) => {
            ConnectionAddr::TcpTls { host: host.clone(), port: *port, insecure: tls.insecure, tls_params: None }
        }
    };
    let mut login = RedisConnectionInfo::default().set_db(i64::from(endpoint.database)).set_protocol(protocol(settings.resp));
    if let Some(username) = &endpoint.username {
        login = login.set_username(username);
    }
    if let Some(password) = endpoint.password.as_ref().map(Secret::reveal) {
        login = login.set_password(password);
    }
    let info = address.into_connection_info()?.set_redis_settings(login).set_tcp_settings(tcp(settings));
    with_certificates(info, endpoint)
}

/// TCP_NODELAY as the profile wants it; the crate's default is off.
pub fn tcp(settings: &Settings) -> TcpSettings {
    match settings.nodelay() {
        Some(nodelay) => TcpSettings::default().set_nodelay(nodelay),
        None => TcpSettings::default(),
    }
}

fn protocol(resp: Resp) -> ProtocolVersion {
    match resp {
        Resp::V2 => ProtocolVersion::RESP2,
        Resp::V3 => ProtocolVersion::RESP3,
    }
}

#[cfg(not(feature = "tls"))]
fn with_certificates(info: ConnectionInfo, endpoint: &Endpoint) -> Result<ConnectionInfo, Error> {
    match endpoint.tls {
        None => Ok(info),
        Some(_) => Err(Error::Unsupported("built without the feature `tls`")),
    }
}

#[cfg(feature = "tls")]
fn with_certificates(info: ConnectionInfo, endpoint: &Endpoint) -> Result<ConnectionInfo, Error> {
    match certificates(endpoint)? {
        None => Ok(info),
        // Building a client is the crate's only way of putting certificates into a `ConnectionInfo`.
        Some(certificates) => Ok(Client::build_with_tls(info, certificates)?.get_connection_info().clone()),
    }
}

/// The certificate files of `endpoint`, read; `None` when it names none.
#[cfg(feature = "tls")]
pub fn certificates(endpoint: &Endpoint) -> Result<Option<redis::TlsCertificates>, Error> {
    let Some(tls) = &endpoint.tls else { return Ok(None) };
    crate::net::tls::install_provider();
    let read =
        |path: &std::path::Path| std::fs::read(path).map_err(|error| Error::Connection(format!("can't read {}: {error}", path.display())));
    let client_tls = match (&tls.certificate, &tls.key) {
        (Some(certificate), Some(key)) => Some(redis::ClientTlsConfig { client_cert: read(certificate)?, client_key: read(key)? }),
        (None, None) => None,
        _ => return Err(Error::Connection("a client certificate and its key go together".into())),
    };
    let root_cert = tls.ca.as_deref().map(read).transpose()?;
    Ok((client_tls.is_some() || root_cert.is_some()).then_some(redis::TlsCertificates { client_tls, root_cert }))
}

/// The client for one server. Opens nothing yet.
pub fn client(endpoint: &Endpoint, settings: &Settings) -> Result<Client, Error> {
    Ok(Client::open(info(endpoint, settings)?)?)
}

/// How connections behave. The profile `tuned` raises the queue of waiting requests, which the crate fills without waiting;
/// the write buffer keeps its own size, since that shapes the client's writes, and requests in flight have no limit anyway.
pub fn config(settings: &Settings) -> AsyncConnectionConfig {
    let mut config = AsyncConnectionConfig::new();
    if settings.profile == Profile::Tuned {
        config = config.set_connection_timeout(Some(CONNECTION_TIMEOUT)).set_pipeline_buffer_size(Settings::QUEUE_CAPACITY);
    }
    match settings.timeout() {
        ResponseTimeout::CrateDefault => config,
        ResponseTimeout::Never => config.set_response_timeout(None),
        ResponseTimeout::After(after) => config.set_response_timeout(Some(after)),
    }
}

/// Opens one connection and drops it: for clients that retry a refused or rejected connection on and on,
/// so that the user learns the reason at once.
pub async fn probe(endpoint: &Endpoint, settings: &Settings) -> Result<(), Error> {
    let config = AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECTION_TIMEOUT));
    login(client(endpoint, settings)?.get_multiplexed_async_connection_with_config(&config).await)?;
    Ok(())
}

/// The result of opening a connection: a refused login is told apart from other error replies.
pub fn login<T>(result: Result<T, redis::RedisError>) -> Result<T, Error> {
    result.map_err(|error| login_error(error.into()))
}

/// Bounds the opening of all connections.
pub async fn limited<T>(connecting: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match tokio::time::timeout(CONNECT_LIMIT, connecting).await {
        Ok(result) => result,
        Err(_) => Err(Error::Connection(format!("no connection within {CONNECT_LIMIT:?}"))),
    }
}
