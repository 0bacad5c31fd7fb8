//! The commands on a client, as the crate's documentation shows them.

use bytes::Bytes;
use fred::clients::Pipeline;
use fred::interfaces::{ClientLike, HashesInterface, KeysInterface, PubsubInterface, TransactionInterface};
use fred::types::{ClusterHash, CustomCommand};

use super::FredReply;
use super::api::{Client, FredError, Value};
use crate::drivers::{Command, Error, PipelineReplies, receivers};

/// `GET` through [`KeysInterface`].
pub async fn get(client: &Client, key: &[u8]) -> Result<Option<Bytes>, Error> {
    Ok(client.get(key).await?)
}

/// `SET` through [`KeysInterface`].
pub async fn set(client: &Client, key: &[u8], value: &[u8]) -> Result<(), Error> {
    Ok(client.set(key, value, None, None, false).await?)
}

/// `HKEYS` through [`HashesInterface`].
pub async fn hkeys(client: &Client, key: &[u8]) -> Result<Vec<Bytes>, Error> {
    Ok(client.hkeys(key).await?)
}

/// `PUBLISH` through [`PubsubInterface`], which takes texts as channels; other bytes go as any command does.
pub async fn publish(client: &Client, channel: &[u8], payload: &[u8]) -> Result<u64, Error> {
    match std::str::from_utf8(channel) {
        Ok(channel) => Ok(client.publish(channel, payload).await?),
        Err(_) => receivers(call(client, &Command::new("PUBLISH").arg(channel).arg(payload)).await?),
    }
}

/// `SPUBLISH`, as [`publish`].
pub async fn spublish(client: &Client, channel: &[u8], payload: &[u8]) -> Result<u64, Error> {
    match std::str::from_utf8(channel) {
        Ok(channel) => Ok(client.spublish(channel, payload).await?),
        Err(_) => receivers(call(client, &Command::new("SPUBLISH").arg(channel).arg(payload)).await?),
    }
}

fn is(command: &Command, name: &str, args: usize) -> bool {
    command.args().len() == args && command.name().eq_ignore_ascii_case(name)
}

/// Any command: typed where the contract has a typed call, else as a custom command. In a pipeline or transaction it returns at once.
async fn issue<C: ClientLike + KeysInterface + HashesInterface>(client: &C, command: &Command) -> Result<Value, FredError> {
    let mut args = command.args();
    match (args.next(), args.next()) {
        (Some(key), None) if is(command, "GET", 1) => client.get(key).await,
        (Some(key), Some(value)) if is(command, "SET", 2) => client.set(key, value, None, None, false).await,
        (Some(key), None) if is(command, "HKEYS", 1) => client.hkeys(key).await,
        _ => {
            let hash = match command.slot() {
                _ if !client.is_clustered() => ClusterHash::FirstKey,
                Some(slot) => ClusterHash::Custom(slot),
                None => ClusterHash::Random,
            };
            let custom = CustomCommand::new(command.name(), hash, command.is_blocking());
            client.custom(custom, command.args().collect()).await
        }
    }
}

/// Any command.
pub async fn call(client: &Client, command: &Command) -> Result<FredReply, Error> {
    Ok(FredReply(issue(client, command).await?))
}

/// An explicit pipeline. `try_all` keeps an error reply in its place; `all` would fail the whole pipeline.
pub async fn pipeline(client: &Client, commands: &[Command]) -> Result<PipelineReplies<FredReply>, Error> {
    let pipeline: Pipeline<Client> = client.pipeline();
    for command in commands {
        let _queued: Value = issue(&pipeline, command).await?;
    }
    let mut replies = pipeline.try_all::<Value>().await;
    match (replies.len(), commands.len()) {
        (got, sent) if got == sent => Ok(replies.into_iter().map(|reply| Ok(FredReply(reply?))).collect()),
        // The failure of the whole pipeline comes as its only reply.
        (1, _) => match replies.pop() {
            Some(Err(error)) => Err(error.into()),
            _ => Err(Error::Protocol("fred returned one reply to a whole pipeline".into())),
        },
        (got, sent) => Err(Error::Protocol(format!("fred returned {got} replies to {sent} commands"))),
    }
}

/// A transaction. fred reads EXEC's reply as one value, so the first error inside of it is that of the whole.
/// `exec(true)` returns the server's error for a command that it refused to queue; `exec(false)` returns only `EXECABORT`.
pub async fn transaction(client: &Client, commands: &[Command]) -> Result<PipelineReplies<FredReply>, Error> {
    if commands.is_empty() {
        return Ok(Vec::new());
    }
    let transaction = client.multi();
    for command in commands {
        let _queued: Value = issue(&transaction, command).await?;
    }
    match transaction.exec(true).await? {
        Value::Array(replies) if replies.len() == commands.len() => Ok(replies.into_iter().map(|reply| Ok(FredReply(reply))).collect()),
        Value::Null => Err(Error::aborted()),
        other => Err(Error::unexpected("one reply for each command of a transaction", &other.kind().to_string())),
    }
}
