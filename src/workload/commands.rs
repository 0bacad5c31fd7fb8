//! GET, SET or HKEYS over a keyspace of our own, each reply checked.

use std::fmt;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

use super::erased::AnyClient;
use crate::drivers::{Command, Commands, Error, Reply};

/// The command that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// `GET` of a string of `payload` bytes.
    Get,
    /// `SET` of a string of `payload` bytes.
    Set,
    /// `HKEYS` of a hash of `fields` fields.
    Hkeys,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Get => "get",
            Operation::Set => "set",
            Operation::Hkeys => "hkeys",
        })
    }
}

/// One command over a keyspace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Workload {
    /// What is sent.
    pub operation: Operation,
    /// Bytes of a value (`get`, `set`), 0 for `hkeys`.
    pub payload: usize,
    /// Fields of a hash (`hkeys`), 0 for the others.
    pub fields: usize,
    /// Keys in the keyspace, used in turn.
    pub keys: usize,
}

/// Every key that this crate writes begins so.
pub const PREFIX: &str = "rcb:";

/// How many keys are written or deleted at the same time while preparing.
const PREPARE_AT_ONCE: usize = 64;

/// The keyspace of one workload: keys and values made once, so that the timed path allocates none.
pub struct Keyspace {
    workload: Workload,
    keys: Vec<Vec<u8>>,
    value: Vec<u8>,
}

impl Keyspace {
    /// Makes the keys (under [`PREFIX`] and `name`, which must be this run's own) and the value.
    #[must_use]
    pub fn new(workload: &Workload, name: &str) -> Arc<Self> {
        // Bytes of any value, the same in every run.
        let mut value = vec![0; workload.payload];
        StdRng::seed_from_u64(0x5EED).fill(&mut value[..]);
        Self::given(workload, &format!("{PREFIX}{name}:{}:", workload.operation), value)
    }

    /// With what all keys begin with, their numbers from 0 follow, and with the value of each.
    #[must_use]
    pub fn given(workload: &Workload, key_prefix: &str, value: Vec<u8>) -> Arc<Self> {
        let keys = (0..workload.keys.max(1)).map(|index| format!("{key_prefix}{index}").into_bytes()).collect();
        Arc::new(Self { workload: Workload { payload: value.len(), ..workload.clone() }, keys, value })
    }

    /// What is sent.
    #[must_use]
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// The key of the `index`-th operation.
    #[must_use]
    pub fn key(&self, index: usize) -> &[u8] {
        &self.keys[index % self.keys.len()]
    }

    /// The value of every key (`get`, `set`).
    #[must_use]
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// Number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Never: there is at least one key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The lower-case command that each operation executes on the server.
    #[must_use]
    pub fn command(&self) -> &'static str {
        match self.workload.operation {
            Operation::Get => "get",
            Operation::Set => "set",
            Operation::Hkeys => "hkeys",
        }
    }

    fn field(index: usize) -> String {
        format!("field:{index:08}")
    }

    async fn each_key(&self, client: &dyn AnyClient, command: impl Fn(&[u8]) -> Command) -> Result<(), Error> {
        let commands: Vec<Command> = self.keys.iter().map(|key| command(key)).collect();
        stream::iter(commands)
            .map(|command| async move { client.call(&command).await.map(drop) })
            .buffer_unordered(PREPARE_AT_ONCE)
            .try_collect::<()>()
            .await
    }

    /// Writes every key, outside any clock.
    ///
    /// # Errors
    /// The first that a command met.
    pub async fn prepare(&self, client: &dyn AnyClient) -> Result<(), Error> {
        self.remove(client).await?;
        self.each_key(client, |key| match self.workload.operation {
            Operation::Get | Operation::Set => Command::set(key, &self.value),
            Operation::Hkeys => (0..self.workload.fields.max(1))
                .fold(Command::new("HSET").arg(key), |command, index| command.arg(Self::field(index)).arg("value")),
        })
        .await
    }

    /// Deletes every key.
    ///
    /// # Errors
    /// The first that a command met.
    pub async fn remove(&self, client: &dyn AnyClient) -> Result<(), Error> {
        self.each_key(client, |key| Command::new("DEL").arg(key)).await
    }

    /// Does the work once and checks every byte of the reply; for `set`, of what was stored.
    ///
    /// # Errors
    /// [`Error::Protocol`] when a reply is not what was written, and whatever the command met.
    pub async fn verify(&self, client: &dyn AnyClient) -> Result<(), Error> {
        for key in self.keys.iter().take(16) {
            match self.workload.operation {
                Operation::Get => self.verify_value(client.get(key).await?.as_deref())?,
                Operation::Set => {
                    client.set(key, &self.value).await?;
                    let stored = client.call(&Command::get(key)).await?;
                    self.verify_value(stored.as_bytes())?;
                }
                Operation::Hkeys => {
                    let mut fields = client.hkeys(key).await?;
                    fields.sort();
                    let wanted: Vec<Vec<u8>> = (0..self.workload.fields.max(1)).map(|index| Self::field(index).into_bytes()).collect();
                    if fields != wanted {
                        return Err(Error::Protocol(format!("HKEYS returned {} other fields than were written", fields.len())));
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether these are the bytes that were written.
    ///
    /// # Errors
    /// [`Error::Protocol`] when they are not.
    pub fn verify_value(&self, got: Option<&[u8]>) -> Result<(), Error> {
        match got {
            Some(bytes) if bytes == self.value => Ok(()),
            Some(bytes) => Err(Error::Protocol(format!("GET returned {} other bytes than were written", bytes.len()))),
            None => Err(Error::Protocol("GET found no value where one was written".into())),
        }
    }

    /// One timed operation: the client's typed call, and a check of the reply that costs next to nothing.
    ///
    /// # Errors
    /// Those of the command, and [`Error::Protocol`] for a reply of the wrong length.
    #[inline]
    pub async fn operate<C: Commands>(&self, client: &C, index: usize) -> Result<(), Error> {
        let key = self.key(index);
        match self.workload.operation {
            Operation::Get => self.check_length(client.get(key).await?.map(|value| value.as_ref().len())),
            Operation::Set => client.set(key, &self.value).await,
            Operation::Hkeys => self.check_fields(client.hkeys(key).await?.len()),
        }
    }

    /// The command of the `index`-th operation, for an explicit pipeline.
    #[must_use]
    pub fn command_at(&self, index: usize) -> Command {
        match self.workload.operation {
            Operation::Get => Command::get(self.key(index)),
            Operation::Set => Command::set(self.key(index), &self.value),
            Operation::Hkeys => Command::new("HKEYS").arg(self.key(index)),
        }
    }

    /// The check of [`operate`](Self::operate) for a reply of an explicit pipeline.
    ///
    /// # Errors
    /// [`Error::Protocol`] for a reply of the wrong kind or length.
    #[inline]
    pub fn check_reply<R: Reply>(&self, reply: R) -> Result<(), Error> {
        match self.workload.operation {
            Operation::Get => self.check_length(reply.into_blob()?.map(|value| value.as_ref().len())),
            Operation::Set => reply.into_ok(),
            Operation::Hkeys => self.check_fields(reply.into_blobs()?.len()),
        }
    }

    #[inline]
    fn check_fields(&self, got: usize) -> Result<(), Error> {
        if got == self.workload.fields.max(1) { Ok(()) } else { Err(self.wrong_length("HKEYS", Some(got))) }
    }

    /// Whether a value of this length may be the one that was written.
    ///
    /// # Errors
    /// [`Error::Protocol`] when it can't.
    #[inline]
    pub fn check_length(&self, got: Option<usize>) -> Result<(), Error> {
        if got == Some(self.value.len()) { Ok(()) } else { Err(self.wrong_length("GET", got)) }
    }

    #[cold]
    fn wrong_length(&self, command: &str, got: Option<usize>) -> Error {
        let got = got.map_or("nothing".to_owned(), |length| format!("a reply of length {length}"));
        Error::Protocol(format!("{command} returned {got}, not what was written"))
    }
}
