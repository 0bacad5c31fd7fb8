//! Where a scenario is played: servers, keys of its own, and a second connection that writes behind the cache's back.

use super::outcome::{Acted, Fault};
use super::{KEYS, Way};
use crate::drivers::raw::Raw;
use crate::drivers::{CacheMode, CacheSettings, Command, Commands, Driver, Error, Resp, Servers, Settings, Value};
use crate::net::{Connection, Endpoint};

/// Names that are tried for a key on a certain master; with 60 masters 1 in 10^29 of them has none.
const MOST_NAMES: usize = 4_000;

pub struct Stage<'a> {
    pub servers: &'a Servers,
    /// Every server, replicas too.
    pub nodes: &'a [Endpoint],
    /// Whether we started them.
    pub ours: bool,
    pub settings: &'a Settings,
    pub way: Way,
    /// What all keys begin with.
    pub prefix: &'a str,
    /// Writes what is foreign to the cache.
    pub foreign: Raw,
    /// A key on each master that never exists.
    pub fences: Vec<Vec<u8>>,
}

impl<'a> Stage<'a> {
    pub async fn build(
        servers: &'a Servers,
        nodes: &'a [Endpoint],
        ours: bool,
        settings: &'a Settings,
        way: Way,
        prefix: &'a str,
    ) -> Acted<Self> {
        let foreign = Raw::connect(servers, &Settings::default()).await?;
        let mut fences = Vec::new();
        for master in &servers.endpoints {
            fences.push(key_at(master, prefix).await?);
        }
        Ok(Self { servers, nodes, ours, settings, way, prefix, foreign, fences })
    }

    pub fn options(&self) -> CacheSettings {
        let prefix = if self.way.mode == CacheMode::Broadcast { self.prefix.into() } else { Vec::new() };
        CacheSettings { mode: self.way.mode, noloop: self.way.noloop, prefix, ..CacheSettings::default() }
    }

    /// The usual keys, over all masters.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        self.some_keys(KEYS)
    }

    pub fn some_keys(&self, count: usize) -> Vec<Vec<u8>> {
        some_keys(self.prefix, count)
    }

    /// Writes `version` to all keys one by one.
    pub async fn write(&self, keys: &[Vec<u8>], version: u64) -> Acted {
        for (number, key) in keys.iter().enumerate() {
            self.foreign.set(key, &value(version, number)).await?;
        }
        Ok(())
    }

    /// Writes `version` to all keys at once.
    pub async fn write_at_once(&self, keys: &[Vec<u8>], version: u64) -> Acted {
        let writes = keys.iter().enumerate().map(|(number, key)| async move { self.foreign.set(key, &value(version, number)).await });
        futures_util::future::try_join_all(writes).await?;
        Ok(())
    }

    /// Sends one command of these words about each key.
    pub async fn each(&self, words: &[&str], keys: &[Vec<u8>], more: &[&str]) -> Acted {
        for key in keys {
            let command = words[1..].iter().fold(Command::new(words[0]), |command, word| command.arg(word)).arg(key);
            self.foreign.call(&more.iter().fold(command, |command, word| command.arg(word))).await?;
        }
        Ok(())
    }

    pub async fn delete(&self, keys: &[Vec<u8>]) -> Acted {
        self.each(&["UNLINK"], keys, &[]).await
    }

    /// How many of the keys exist.
    pub async fn existing(&self, keys: &[Vec<u8>]) -> Acted<usize> {
        use crate::drivers::Reply;
        let mut there = 0;
        for key in keys {
            let reply = self.foreign.call(&Command::new("EXISTS").arg(key)).await?.into_value()?;
            there += usize::from(reply.as_int() == Some(1));
        }
        Ok(there)
    }

    /// Sends a command to every master; their replies in order.
    pub async fn all_masters(&self, words: &[&str]) -> Acted<Vec<Value>> {
        let mut replies = Vec::new();
        for master in &self.servers.endpoints {
            replies.push(ask(master, words).await?);
        }
        Ok(replies)
    }

    pub async fn close(self) {
        self.foreign.close().await;
    }
}

/// The first keys of a scenario.
pub fn some_keys(prefix: &str, count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| format!("{prefix}{number}").into_bytes()).collect()
}

/// A key that `master` owns and nobody writes.
async fn key_at(master: &Endpoint, prefix: &str) -> Acted<Vec<u8>> {
    let mut connection = Connection::open(master, Resp::V2, true).await?;
    for number in 0..MOST_NAMES {
        let key = format!("{prefix}fence:{number}").into_bytes();
        match connection.request(&Command::new("EXISTS").arg(&key)).await {
            Ok(Value::Int(0)) => return Ok(key),
            Ok(_) => {}
            Err(error) if error.redirect().is_some() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Fault::Failed(format!("no key was found that is on {master}; does it serve slots?")))
}

/// One command over a connection of its own.
///
/// # Errors
/// Any [`Error`].
pub async fn ask(endpoint: &Endpoint, words: &[&str]) -> Result<Value, Error> {
    let command = words[1..].iter().fold(Command::new(words[0]), |command, word| command.arg(word));
    Connection::open(endpoint, Resp::V2, true).await?.request(&command).await
}

/// The value of a key: its version, and which key it belongs to.
pub fn value(version: u64, number: usize) -> Vec<u8> {
    format!("v{version}:{number}").into_bytes()
}

/// The version of a value of key `number`.
pub fn version(value: &[u8], number: usize) -> Acted<u64> {
    let parts = std::str::from_utf8(value).ok().and_then(|text| text.strip_prefix('v')?.split_once(':'));
    let read: Option<(u64, usize)> = parts.and_then(|(version, of)| Some((version.parse().ok()?, of.parse().ok()?)));
    match read {
        Some((version, of)) if of == number => Ok(version),
        Some((_, of)) => {
            Err(Fault::Failed(format!("a read of key {number} returned the value of key {of}: {:?}", String::from_utf8_lossy(value))))
        }
        None => Err(Fault::Failed(format!("a read of key {number} returned what nobody wrote: {:?}", String::from_utf8_lossy(value)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_tells_its_version_and_its_key() {
        assert_eq!(version(&value(7, 3), 3).unwrap(), 7);
        for (wrong, why) in [(value(7, 4), "the value of key 4"), (b"7:3".to_vec(), "nobody wrote"), (Vec::new(), "nobody wrote")] {
            let Err(Fault::Failed(reason)) = version(&wrong, 3) else { panic!("{wrong:?} was taken") };
            assert!(reason.contains(why), "{reason}");
        }
    }
}
