//! The commands on any connection of the crate, as its documentation shows them.

use redis::AsyncCommands;
use redis::aio::ConnectionLike;

use super::{RedisReply, api};
use crate::drivers::{Command, Error, PipelineReplies};

/// `GET` through [`AsyncCommands`].
pub async fn get<C: AsyncCommands>(connection: &mut C, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    Ok(connection.get(key).await?)
}

/// `SET` through [`AsyncCommands`].
pub async fn set<C: AsyncCommands>(connection: &mut C, key: &[u8], value: &[u8]) -> Result<(), Error> {
    Ok(connection.set(key, value).await?)
}

/// `HKEYS` through [`AsyncCommands`].
pub async fn hkeys<C: AsyncCommands>(connection: &mut C, key: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    Ok(connection.hkeys(key).await?)
}

/// `PUBLISH` through [`AsyncCommands`].
pub async fn publish<C: AsyncCommands>(connection: &mut C, channel: &[u8], payload: &[u8]) -> Result<u64, Error> {
    Ok(connection.publish::<_, _, u64>(channel, payload).await?)
}

fn request(command: &Command) -> redis::Cmd {
    let mut request = redis::cmd(command.name());
    for argument in command.args() {
        request.arg(argument);
    }
    request
}

/// Any command.
pub async fn query<C: ConnectionLike>(connection: &mut C, command: &Command) -> Result<RedisReply, Error> {
    Ok(RedisReply(request(command).query_async(connection).await?))
}

/// An explicit pipeline.
pub async fn pipeline<C: ConnectionLike>(connection: &mut C, commands: &[Command]) -> Result<PipelineReplies<RedisReply>, Error> {
    // The crate refuses an empty pipeline.
    if commands.is_empty() {
        return Ok(Vec::new());
    }
    let replies = api::replies(&mut requests(commands), connection).await?;
    Ok(replies.into_iter().map(RedisReply::new).collect())
}

fn requests(commands: &[Command]) -> redis::Pipeline {
    let mut pipeline = api::pipeline_for(commands.len());
    for command in commands {
        pipeline.cmd(command.name());
        for argument in command.args() {
            pipeline.arg(argument);
        }
    }
    pipeline
}

/// `MULTI`, the commands and `EXEC`, as an atomic pipeline.
pub async fn transaction<C: ConnectionLike>(connection: &mut C, commands: &[Command]) -> Result<PipelineReplies<RedisReply>, Error> {
    if commands.is_empty() {
        return Ok(Vec::new());
    }
    // Nil when a watched key was changed.
    let replies = api::executed(&mut requests(commands), connection).await?;
    Ok(replies.ok_or_else(Error::aborted)?.into_iter().map(RedisReply::new).collect())
}

/// The loop that a user would write around one connection.
pub async fn hand_written<C: AsyncCommands>(connection: &mut C, key: &[u8], ops: u64) -> Result<u64, Error> {
    let mut bytes = 0;
    for _ in 0..ops {
        let value: Option<Vec<u8>> = connection.get(key).await?;
        bytes += value.map_or(0, |value| value.len()) as u64;
    }
    Ok(bytes)
}

/// Implements [`Commands`](crate::drivers::Commands), [`Pipelines`](crate::drivers::Pipelines) and
/// [`Transactions`](crate::drivers::Transactions) and [`Publish`](crate::drivers::Publish) by taking a connection for
/// each call with `$take` and using it as `$place`.
macro_rules! commands_through {
    ($driver:ty, $self:ident, $connection:ident = $take:expr, $place:expr, lanes = $lanes:expr) => {
        impl $crate::drivers::Commands for $driver {
            type Reply = $crate::drivers::redis_rs::RedisReply;

            async fn get(&$self, key: &[u8]) -> Result<Option<Vec<u8>>, $crate::drivers::Error> {
                let mut $connection = $take;
                $crate::drivers::redis_rs::get(&mut $place, key).await
            }

            async fn set(&$self, key: &[u8], value: &[u8]) -> Result<(), $crate::drivers::Error> {
                let mut $connection = $take;
                $crate::drivers::redis_rs::set(&mut $place, key, value).await
            }

            async fn hkeys(&$self, key: &[u8]) -> Result<Vec<Vec<u8>>, $crate::drivers::Error> {
                let mut $connection = $take;
                $crate::drivers::redis_rs::hkeys(&mut $place, key).await
            }

            async fn call(&$self, command: &$crate::drivers::Command) -> Result<Self::Reply, $crate::drivers::Error> {
                let mut $connection = $take;
                $crate::drivers::redis_rs::query(&mut $place, command).await
            }
        }

        impl $crate::drivers::Pipelines for $driver {
            async fn pipeline(
                &$self,
                commands: &[$crate::drivers::Command],
            ) -> Result<$crate::drivers::PipelineReplies<Self::Reply>, $crate::drivers::Error> {
                let mut $connection = $take;
                $crate::drivers::redis_rs::pipeline(&mut $place, commands).await
            }

            fn lanes(&$self) -> $crate::drivers::Lanes<Self> {
                $lanes
            }
        }

        impl $crate::drivers::Transactions for $driver {
            async fn transaction(
                &$self,
                commands: &[$crate::drivers::Command],
            ) -> Result<$crate::drivers::PipelineReplies<Self::Reply>, $crate::drivers::Error> {
                let mut $connection = $take;
                $crate::drivers::redis_rs::transaction(&mut $place, commands).await
            }
        }

        impl $crate::drivers::Publish for $driver {
            async fn publish(&$self, channel: &[u8], payload: &[u8]) -> Result<u64, $crate::drivers::Error> {
                let mut $connection = $take;
                $crate::drivers::redis_rs::publish(&mut $place, channel, payload).await
            }

            async fn spublish(&$self, channel: &[u8], payload: &[u8]) -> Result<u64, $crate::drivers::Error> {
                let mut $connection = $take;
                $crate::drivers::redis_rs::spublish(&mut $place, channel, payload).await
            }
        }
    };
}
pub(in crate::drivers) use commands_through;
