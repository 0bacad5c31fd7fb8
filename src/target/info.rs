//! The reply of INFO, and what it says of the server's make.

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The fields of an INFO reply by name.
#[derive(Clone, Debug, Default)]
pub struct Info(HashMap<String, String>);

impl Info {
    /// Reads `field:value` lines; headings and empty lines are left out.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let fields = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(':'));
        Self(fields.map(|(name, value)| (name.to_owned(), value.trim_end().to_owned())).collect())
    }

    /// A field's value; `None` when the server did not send it.
    #[must_use]
    pub fn get(&self, field: &str) -> Option<&str> {
        self.0.get(field).map(String::as_str)
    }

    /// Whether a field has this value.
    #[must_use]
    pub fn is(&self, field: &str, value: &str) -> bool {
        self.get(field) == Some(value)
    }

    /// A field as a number.
    #[must_use]
    pub fn number(&self, field: &str) -> Option<u64> {
        self.get(field)?.parse().ok()
    }
}

/// What a server is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// `redis`, `valkey`, or the name that another make gives itself.
    pub product: String,
    /// The version of that product.
    pub version: String,
    /// The Redis version whose commands it has: `redis_version`, which other makes keep for compatibility.
    pub redis_version: String,
}

impl Server {
    /// What the section `server` of INFO says; `None` when it is not Redis' INFO at all.
    #[must_use]
    pub fn read(info: &Info) -> Option<Self> {
        let redis_version = info.get("redis_version")?.to_owned();
        let (product, version) = ["valkey", "dragonfly", "garnet"]
            .iter()
            .find_map(|product| Some((*product, info.get(&format!("{product}_version"))?)))
            .unwrap_or((info.get("server_name").unwrap_or("redis"), &redis_version));
        Some(Self { product: product.to_owned(), version: version.to_owned(), redis_version: redis_version.clone() })
    }

    /// Whether it has what Redis has from `major.minor` on.
    #[must_use]
    pub fn at_least(&self, major: u32, minor: u32) -> bool {
        let mut numbers = self.redis_version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (major, minor)
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.product, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_make_and_version_are_told_apart() {
        let redis = Server::read(&Info::parse("# Server\r\nredis_version:7.0.15\r\nos:Linux a:b\r\n")).unwrap();
        assert_eq!(redis.to_string(), "redis 7.0.15");
        assert!(redis.at_least(7, 0) && redis.at_least(6, 2) && !redis.at_least(7, 1));
        let valkey = Server::read(&Info::parse("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.0\r\n")).unwrap();
        assert_eq!(valkey.to_string(), "valkey 8.1.0");
        assert!(!valkey.at_least(8, 0));
        assert_eq!(Server::read(&Info::parse("HTTP/1.1 400 Bad Request\r\nServer: x\r\n")), None);
    }
}
