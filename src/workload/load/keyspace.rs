//! What is done to the keyspace around a load, outside of any clock and through connections of our own: the same for every
//! driver.

use futures_util::stream::{self, StreamExt, TryStreamExt};

use crate::drivers::raw::Raw;
use crate::drivers::{Command, Driver, Error, Pipelines, Servers, Settings, Topology};
use crate::net::Connection;
use crate::resp::{Resp, Value, parse};
use crate::target::Target;
use crate::workload::mix::{Mix, Slot};

/// Commands of one pipeline.
const CHUNK: usize = 256;
/// Pipelines at the same time.
const AT_ONCE: usize = 4;

/// The servers whose keys are written, removed and asked about. Each step has connections of its own: a server may close one
/// that is idle for a whole run.
pub struct Keyspace {
    servers: Servers,
    /// Whether the servers are our own, so that they may be flushed.
    ours: bool,
}

impl Keyspace {
    /// The keyspace of `target`.
    #[must_use]
    pub fn new(target: &Target) -> Self {
        Self { servers: target.servers.clone(), ours: target.is_ours() }
    }

    async fn send(&self, commands: impl Iterator<Item = Command>) -> Result<(), Error> {
        let raw = &Raw::connect(&self.servers, &Settings::default()).await?;
        let mut commands = commands.peekable();
        let chunks = std::iter::from_fn(|| commands.peek().is_some().then(|| commands.by_ref().take(CHUNK).collect::<Vec<_>>()));
        let sent = stream::iter(chunks)
            .map(|chunk| async move { raw.pipeline(&chunk).await?.into_iter().try_for_each(|reply| reply.map(drop)) })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await;
        raw.clone().close().await;
        sent
    }

    /// Empties the keyspace of `mix`: flushes servers of our own, and on others removes the keys under our prefix.
    ///
    /// # Errors
    /// The first that a command met.
    pub async fn clear(&self, mix: &Mix) -> Result<(), Error> {
        if !self.ours {
            return self.remove(mix.keys()).await;
        }
        for endpoint in &self.servers.endpoints {
            ask(&mut Connection::open(endpoint, Resp::V2, true).await?, &Command::new("FLUSHALL")).await?;
        }
        Ok(())
    }

    /// Removes `keys`.
    ///
    /// # Errors
    /// The first that a command met.
    pub async fn remove(&self, keys: impl Iterator<Item = Vec<u8>>) -> Result<(), Error> {
        // On a cluster the keys of one command must be of one slot.
        let together = if self.servers.topology == Topology::Cluster { 1 } else { CHUNK };
        let mut keys = keys.peekable();
        let removals = std::iter::from_fn(|| {
            keys.peek()?;
            Some(keys.by_ref().take(together).fold(Command::new("DEL"), Command::arg))
        });
        self.send(removals).await
    }

    /// Writes every key that the mix may read.
    ///
    /// # Errors
    /// The first that a command met.
    pub async fn prefill(&self, mix: &Mix) -> Result<(), Error> {
        self.write(mix.prefill()).await
    }

    /// Sends `commands`, whose replies must not be errors.
    ///
    /// # Errors
    /// The first that a command met.
    pub async fn write(&self, commands: impl Iterator<Item = Command>) -> Result<(), Error> {
        self.send(commands).await
    }

    /// Asks a server whether it knows each command of the mix with that many arguments, and returns the server's own error for
    /// the first that it refuses. A command that it knows is not executed.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn refused(&self, mix: &Mix) -> Result<Option<(usize, Error)>, Error> {
        let mut connection = Connection::open(self.servers.first(), Resp::V2, true).await?;
        for (entry, command) in samples(mix) {
            let Ok(Value::Array(known)) = ask(&mut connection, &Command::new("COMMAND").arg("INFO").arg(command.name())).await else {
                // Not every server has COMMAND INFO; the first command of the run will tell.
                return Ok(None);
            };
            let words = i64::try_from(command.args().len()).unwrap_or(i64::MAX) + 1;
            let takes = match known.first() {
                Some(Value::Array(details)) => match details.get(1).and_then(Value::as_int) {
                    Some(arity) if arity >= 0 => words == arity,
                    Some(arity) => words >= -arity,
                    None => true,
                },
                _ => false,
            };
            if !takes && let Err(error) = ask(&mut connection, &command).await {
                return Ok(Some((entry, error)));
            }
        }
        Ok(None)
    }
}

/// One command of each entry.
fn samples(mix: &Mix) -> Vec<(usize, Command)> {
    let mut found: Vec<Option<Command>> = vec![None; mix.entries().len()];
    let mut slot = Slot::default();
    // An entry of a tiny share may not be met; the run will tell then.
    for index in 0..10_000 {
        mix.generate(index, &mut slot);
        found[slot.entry].get_or_insert_with(|| slot.command.clone());
        if found.iter().all(Option::is_some) {
            break;
        }
    }
    found.into_iter().enumerate().filter_map(|(entry, command)| Some((entry, command?))).collect()
}

async fn ask(connection: &mut Connection, command: &Command) -> Result<Value, Error> {
    connection.begin();
    connection.queue(command);
    connection.send().await?;
    match parse(&connection.receive().await?) {
        Ok(Value::Error(text)) => Err(Error::server(&text)),
        Ok(value) => Ok(value),
        Err(error) => Err(Error::Protocol(error.to_string())),
    }
}
