//! Where one Redis server is and how to log in: the parsed form of a Redis URL.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use url::Url;

/// A password. Never printed: `Debug` shows `***`, and there is no `Display` or `Serialize`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a password.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The password itself, for the login only.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// Host name or address without brackets, and port.
    Tcp(String, u16),
    /// Path of a unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp(host, port) => write!(f, "{host}:{port}"),
            Address::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// How a TLS connection is checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// A PEM file of the authorities to trust instead of the system's.
    pub ca: Option<PathBuf>,
    /// A PEM file with the client's certificate chain, when the server asks for one.
    pub certificate: Option<PathBuf>,
    /// A PEM file with the key of `certificate`.
    pub key: Option<PathBuf>,
    /// Accept any certificate (`#insecure`).
    pub insecure: bool,
}

/// One server and the login to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Where it listens.
    pub address: Address,
    /// `Some` for TLS.
    pub tls: Option<TlsOptions>,
    /// ACL user; `None` is Redis' `default` user.
    pub username: Option<String>,
    /// Password of that user.
    pub password: Option<Secret>,
    /// Database number, 0 unless set.
    pub database: u32,
}

/// A Redis URL that can't be used. The text never contains the URL's password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a usable Redis URL: {reason}; write redis://[user:password@]host:port[/db], rediss:// for TLS, or redis+unix:///path/to.sock")]
pub struct BadUrl {
    reason: String,
}

impl Endpoint {
    /// A server on TCP without login.
    #[must_use]
    pub fn tcp(host: &str, port: u16) -> Self {
        Self { address: Address::Tcp(host.into(), port), tls: None, username: None, password: None, database: 0 }
    }

    /// Parses `redis://`, `rediss://`, `redis+unix://` and `unix://` URLs (`valkey…` too).
    /// TLS options are query parameters `cacert`, `cert` and `key` (paths); `#insecure` skips the check.
    ///
    /// # Errors
    /// [`BadUrl`] with what is wrong and the accepted forms.
    pub fn parse(text: &str) -> Result<Self, BadUrl> {
        let bad = |reason: &str| BadUrl { reason: reason.to_owned() };
        if !text.contains("://") {
            return Err(bad("it has no scheme"));
        }
        let url = Url::parse(text).map_err(|error| bad(&error.to_string()))?;
        let decode = |text: &str| -> Result<String, BadUrl> {
            percent_decode(text).ok_or_else(|| bad("user or password is not valid percent-encoded UTF-8"))
        };
        let scheme = url.scheme();
        let unix = matches!(scheme, "redis+unix" | "valkey+unix" | "unix");
        let tls = matches!(scheme, "rediss" | "valkeys");
        if !unix && !tls && !matches!(scheme, "redis" | "valkey") {
            return Err(bad(&format!("the scheme {scheme:?} is not known")));
        }
        let mut endpoint = Endpoint {
            address: Address::Unix(PathBuf::new()),
            tls: tls.then(TlsOptions::default),
            username: Some(decode(url.username())?).filter(|name| !name.is_empty()),
            password: url.password().map(&decode).transpose()?.map(|text| Secret::new(&text)),
            database: 0,
        };
        if unix {
            let path = decode(url.path())?;
            if path.len() < 2 || url.host_str().is_some_and(|host| !host.is_empty()) {
                return Err(bad("a unix socket needs three slashes and an absolute path"));
            }
            endpoint.address = Address::Unix(path.into());
        } else {
            let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| bad("it has no host"))?;
            endpoint.address = Address::Tcp(host.trim_matches(['[', ']']).to_owned(), url.port().unwrap_or(6379));
            let path = url.path().trim_matches('/');
            if !path.is_empty() {
                endpoint.database = path.parse().map_err(|_| bad(&format!("the database {path:?} is not a number")))?;
            }
        }
        for (name, value) in url.query_pairs() {
            match (name.as_ref(), &mut endpoint.tls) {
                ("db", _) => {
                    endpoint.database = value.parse().map_err(|_| bad(&format!("the database {value:?} is not a number")))?;
                }
                ("cacert", Some(tls)) => tls.ca = Some(value.as_ref().into()),
                ("cert", Some(tls)) => tls.certificate = Some(value.as_ref().into()),
                ("key", Some(tls)) => tls.key = Some(value.as_ref().into()),
                (other, _) => return Err(bad(&format!("the parameter {other:?} is not known here"))),
            }
        }
        match (url.fragment(), &mut endpoint.tls) {
            (None, _) => {}
            (Some("insecure"), Some(tls)) => tls.insecure = true,
            (Some(_), _) => return Err(bad("only #insecure may follow, on rediss://")),
        }
        Ok(endpoint)
    }

    /// The same login at another address, as for a further node of a cluster.
    #[must_use]
    pub fn at(&self, address: Address) -> Self {
        Self { address, ..self.clone() }
    }
}

impl fmt::Display for Endpoint {
    /// The URL without user and password: safe for logs, records and error texts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Unix(path) => write!(f, "redis+unix://{}", path.display())?,
            tcp @ Address::Tcp(..) => write!(f, "{}://{tcp}", if self.tls.is_some() { "rediss" } else { "redis" })?,
        }
        if self.database != 0 { write!(f, "?db={}", self.database) } else { Ok(()) }
    }
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let high = char::from(rest.next()?).to_digit(16)?;
            let low = char::from(rest.next()?).to_digit(16)?;
            bytes.push((high * 16 + low) as u8);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_part_of_a_url() {
        let endpoint = Endpoint::parse("rediss://al%69ce:p%40ss@[::1]:7000/3?cacert=/tmp/ca.pem").unwrap();
        assert_eq!(endpoint.address, Address::Tcp("::1".into(), 7000));
        assert_eq!(endpoint.username.as_deref(), Some("alice"));
        assert_eq!(endpoint.password.as_ref().map(Secret::reveal), Some("p@ss"));
        assert_eq!(endpoint.database, 3);
        assert_eq!(endpoint.tls.unwrap().ca, Some("/tmp/ca.pem".into()));
        let socket = Endpoint::parse("redis+unix:///run/redis.sock?db=2").unwrap();
        assert_eq!(socket.address, Address::Unix("/run/redis.sock".into()));
        assert_eq!(socket.database, 2);
        assert_eq!(Endpoint::parse("redis://localhost").unwrap().address, Address::Tcp("localhost".into(), 6379));
    }

    #[test]
    fn no_text_about_an_endpoint_shows_its_password() {
        let endpoint = Endpoint::parse("redis://bob:hunter2@h:1").unwrap();
        assert!(!format!("{endpoint:?} {endpoint}").contains("hunter2"));
        let errors = ["http://bob:hunter2@h", "redis://bob:hunter2@h:99999", "redis://bob:hunter2@h/x", "redis://:hunter2@", "hunter2"];
        for text in errors {
            let error = Endpoint::parse(text).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
            assert!(error.contains("redis://[user:password@]host:port"), "{error}");
        }
    }
}
