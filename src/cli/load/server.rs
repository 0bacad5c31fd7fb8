//! The server as the users of `redis-cli` and `redis-benchmark` name it: `-h -p -a --user --tls …`, made into a URL.

use std::path::PathBuf;

use crate::target::TargetArgs;

/// The server of `redis-benchmark`'s flags.
#[derive(Clone, Default, clap::Args)]
#[command(next_help_heading = "Server, as redis-benchmark names it")]
pub struct ServerArgs {
    /// Host of a server that runs already [default: 127.0.0.1, when another of these flags is given]
    #[arg(short = 'h', long = "host", conflicts_with = "url", value_name = "HOST")]
    pub host: Option<String>,
    /// Its port [default: 6379]
    #[arg(short = 'p', long = "port", conflicts_with = "url", value_name = "PORT")]
    pub port: Option<u16>,
    /// Its unix socket instead of host and port
    #[arg(short = 's', long = "socket", conflicts_with_all = ["url", "host", "port"], value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Password; other users of the machine can see a command line, so rather set REDISCLI_AUTH
    #[arg(short = 'a', long = "password", conflicts_with = "url", value_name = "PASSWORD")]
    pub password: Option<String>,
    /// ACL user
    #[arg(long, conflicts_with = "url", value_name = "NAME")]
    pub user: Option<String>,
    /// Database number
    #[arg(long = "dbnum", conflicts_with = "url", value_name = "NUMBER")]
    pub database: Option<u32>,
    /// Connect by TLS; the host must be the name that the server's certificate is for
    #[arg(long, conflicts_with = "url")]
    pub tls: bool,
    /// PEM file of the authorities to trust [default: the system's]
    #[arg(long, requires = "tls", value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// PEM file of the client's certificate
    #[arg(long, requires_all = ["tls", "key"], value_name = "FILE")]
    pub cert: Option<PathBuf>,
    /// PEM file of its key
    #[arg(long, requires_all = ["tls", "cert"], value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Accept any certificate
    #[arg(long, requires = "tls")]
    pub insecure: bool,
}

impl ServerArgs {
    /// `target` with the URL that these flags stand for, if there are any.
    pub fn apply(&self, target: &TargetArgs) -> Result<TargetArgs, String> {
        let named = self.host.is_some()
            || self.port.is_some()
            || self.socket.is_some()
            || self.password.is_some()
            || self.user.is_some()
            || self.database.is_some()
            || self.tls;
        if !named {
            return Ok(target.clone());
        }
        let from_environment = std::env::var("REDISCLI_AUTH").ok().filter(|password| !password.is_empty());
        let password = self.password.clone().or(from_environment);
        if self.user.is_some() && password.is_none() {
            return Err("--user needs a password: give -a, or set REDISCLI_AUTH".to_owned());
        }
        Ok(TargetArgs { url: Some(self.url(password.as_deref())?), ..target.clone() })
    }

    fn url(&self, password: Option<&str>) -> Result<String, String> {
        let mut url = match &self.socket {
            Some(path) => {
                let path = path.to_str().filter(|path| path.starts_with('/')).ok_or("-s needs an absolute path in UTF-8")?;
                url::Url::parse("redis+unix:///").and_then(|base| base.join(path)).map_err(|error| error.to_string())?
            }
            None => {
                let scheme = if self.tls { "rediss" } else { "redis" };
                let host = self.host.as_deref().unwrap_or("127.0.0.1");
                let host = if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() };
                let port = self.port.unwrap_or(6379);
                url::Url::parse(&format!("{scheme}://{host}:{port}")).map_err(|error| format!("{host:?} is no host: {error}"))?
            }
        };
        let unusable = |()| "this login can't be used with this kind of server".to_owned();
        if let Some(password) = password {
            // Setting a part of a URL encodes all but the percent sign itself.
            let encoded = |text: &str| text.replace('%', "%25");
            url.set_password(Some(&encoded(password))).map_err(unusable)?;
            url.set_username(&encoded(self.user.as_deref().unwrap_or_default())).map_err(unusable)?;
        }
        let path = |path: &PathBuf| path.to_str().map(str::to_owned).ok_or("a certificate's path must be UTF-8");
        for (name, file) in [("cacert", &self.cacert), ("cert", &self.cert), ("key", &self.key)] {
            if let Some(file) = file {
                url.query_pairs_mut().append_pair(name, &path(file)?);
            }
        }
        if let Some(database) = self.database {
            url.query_pairs_mut().append_pair("db", &database.to_string());
        }
        if self.insecure {
            url.set_fragment(Some("insecure"));
        }
        Ok(url.to_string())
    }
}

impl std::fmt::Debug for ServerArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerArgs").field("host", &self.host).field("port", &self.port).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{Address, Endpoint, Secret};

    fn endpoint(server: ServerArgs) -> Endpoint {
        Endpoint::parse(&server.apply(&TargetArgs::default()).unwrap().url.unwrap()).unwrap()
    }

    #[test]
    fn flags_become_the_endpoint_that_they_name() {
        let found = endpoint(ServerArgs {
            host: Some("::1".into()),
            port: Some(7000),
            user: Some("al:ice".into()),
            password: Some("p@ss/wo rd%#?".into()),
            database: Some(3),
            ..ServerArgs::default()
        });
        assert_eq!(found.address, Address::Tcp("::1".into(), 7000));
        assert_eq!(found.username.as_deref(), Some("al:ice"));
        assert_eq!(found.password.as_ref().map(Secret::reveal), Some("p@ss/wo rd%#?"));
        assert_eq!(found.database, 3);
        let tls =
            endpoint(ServerArgs { tls: true, cacert: Some("/a b/ca.pem".into()), insecure: true, ..ServerArgs::default() }).tls.unwrap();
        assert_eq!((tls.ca, tls.insecure), (Some("/a b/ca.pem".into()), true));
        let socket = endpoint(ServerArgs { socket: Some("/tmp/a.sock".into()), ..ServerArgs::default() });
        assert_eq!(socket.address, Address::Unix("/tmp/a.sock".into()));
    }

    #[test]
    fn no_flags_leave_the_target_as_it_is() {
        assert_eq!(ServerArgs::default().apply(&TargetArgs::default()).unwrap().url, None);
    }

    #[test]
    fn debug_shows_no_password() {
        let server = ServerArgs { password: Some("hunter2".into()), ..ServerArgs::default() };
        assert!(!format!("{server:?}").contains("hunter2"));
    }
}
