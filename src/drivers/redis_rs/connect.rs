//! From our endpoints and settings to the crate's own types. No URL is formatted, so no password is ever in a text.

use std::time::Duration;

use redis::{Client, ConnectionAddr, ConnectionInfo};

use super::api;
pub use super::api::{config, manager_config};
use crate::drivers::{Error, Resp, Settings};
use crate::net::{Address, Endpoint, Secret};

/// The time limit for opening one connection in the profile `tuned`.
pub const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest that a whole `connect` may take, whatever the client does.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// How to log in.
pub struct Login<'a> {
    pub username: Option<&'a str>,
    pub password: Option<&'a str>,
    pub database: i64,
    pub resp: Resp,
}

/// Where and how to log in.
pub fn info(endpoint: &Endpoint, settings: &Settings) -> Result<ConnectionInfo, Error> {
    api::check(settings)?;
    let address = match (&endpoint.address, &endpoint.tls) {
        (Address::Unix(path), _) => ConnectionAddr::Unix(path.clone()),
        (Address::Tcp(host, port), None) => ConnectionAddr::Tcp(host.clone(), *port),
        (Address::Tcp(host, port), Some(tls)) => {
            ConnectionAddr::TcpTls { host: host.clone(), port: *port, insecure: tls.insecure, tls_params: None }
        }
    };
    let login = Login {
        username: endpoint.username.as_deref(),
        password: endpoint.password.as_ref().map(Secret::reveal),
        database: i64::from(endpoint.database),
        resp: settings.resp,
    };
    with_certificates(api::info(address, login, settings)?, endpoint)
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

/// Opens one connection and drops it: for clients that retry a refused or rejected connection on and on,
/// so that the user learns the reason at once.
pub async fn probe(endpoint: &Endpoint, settings: &Settings) -> Result<(), Error> {
    let config = api::probe_config(settings);
    login(api::open(&client(endpoint, settings)?, &config).await)?;
    Ok(())
}

/// The result of opening a connection: a refused login is told apart from other error replies.
pub fn login<T>(result: Result<T, redis::RedisError>) -> Result<T, Error> {
    result.map_err(|error| login_error(error.into()))
}

/// `error` as it came of opening a connection: a refused login is [`Error::Login`]. The cluster client wraps the reason in a text.
pub fn login_error(error: Error) -> Error {
    const REFUSED: [&str; 4] = ["WRONGPASS", "NOAUTH", "NOPERM", "Password authentication failed"];
    match error {
        Error::Server(reply) if REFUSED.contains(&reply.code.as_str()) => Error::Login(reply.to_string()),
        Error::Server(reply) if reply.detail.contains("without any password configured") => Error::Login(reply.to_string()),
        Error::Connection(text) | Error::Client(text) if REFUSED.iter().any(|word| text.contains(word)) => Error::Login(text),
        other => other,
    }
}

/// Bounds the opening of all connections.
pub async fn limited<T>(connecting: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match tokio::time::timeout(CONNECT_LIMIT, connecting).await {
        Ok(result) => result,
        Err(_) => Err(Error::Connection(format!("no connection within {CONNECT_LIMIT:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_login_is_told_apart_also_in_words() {
        assert_eq!(login_error(Error::server("WRONGPASS no")).kind(), "login");
        assert_eq!(login_error(Error::Connection("failed: WRONGPASS no".into())).kind(), "login");
        assert_eq!(login_error(Error::server("ERR no")).kind(), "server");
    }
}
