//! What every check gets: the client, and keys of its own.

use std::sync::{Mutex, PoisonError};

use futures_util::future::join_all;

use super::Checked;
use crate::drivers::{Command, Error, PipelineReplies, Pipelines, Servers, Topology};

/// A client under test.
pub struct Context<'a, C> {
    pub client: &'a C,
    pub servers: &'a Servers,
    prefix: &'a str,
    /// All keys of a pipeline must share a slot.
    pub one_slot: bool,
    keys: Mutex<Vec<Vec<u8>>>,
}

impl<'a, C: Pipelines> Context<'a, C> {
    pub fn new(client: &'a C, servers: &'a Servers, prefix: &'a str, one_slot: bool) -> Self {
        Self { client, servers, prefix, one_slot, keys: Mutex::default() }
    }

    /// A key, to be deleted at the end.
    pub fn key(&self, name: impl AsRef<[u8]>) -> Vec<u8> {
        let key = [self.prefix.as_bytes(), name.as_ref()].concat();
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).push(key.clone());
        key
    }

    /// A key for a pipeline called `pipeline`: on a cluster with hash tags where all keys must be of one slot.
    pub fn pipeline_key(&self, pipeline: &str, number: usize) -> Vec<u8> {
        if self.one_slot { self.key(format!("{{{pipeline}}}:{number}")) } else { self.key(format!("{pipeline}:{number}")) }
    }

    /// A key for a transaction called `transaction`: on a cluster with a hash tag, since all its keys must be of one slot.
    pub fn transaction_key(&self, transaction: &str, number: usize) -> Vec<u8> {
        match self.servers.topology {
            Topology::Cluster => self.key(format!("{{transaction:{transaction}}}:{number}")),
            Topology::Standalone => self.key(format!("transaction:{transaction}:{number}")),
        }
    }

    pub async fn call(&self, command: Command) -> Result<C::Reply, Error> {
        self.client.call(&command).await
    }

    pub async fn pipeline(&self, commands: &[Command]) -> Result<PipelineReplies<C::Reply>, Error> {
        self.client.pipeline(commands).await
    }

    /// Deletes all keys that were handed out.
    pub async fn delete_keys(&self) -> Checked {
        let keys = std::mem::take(&mut *self.keys.lock().unwrap_or_else(PoisonError::into_inner));
        for some in keys.chunks(500) {
            let commands: Vec<_> = some.iter().map(|key| Command::new("DEL").arg(key)).collect();
            let deleted = if self.one_slot {
                join_all(commands.iter().map(|command| self.client.call(command))).await
            } else {
                self.pipeline(&commands).await?
            };
            for reply in deleted {
                reply?;
            }
        }
        Ok(())
    }
}
