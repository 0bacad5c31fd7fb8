//! The commands on either of the crate's clients, as its documentation shows them.

use rustis::resp::{Command as Request, CommandBuilder, FastPathCommandBuilder, RefBulkString};

use crate::drivers::Command;

fn is(command: &Command, name: &str) -> bool {
    command.name().eq_ignore_ascii_case(name)
}

/// Any command, its key marked for a cluster's routing. GET and SET are built as the typed calls do.
pub(super) fn request(command: &Command) -> Request {
    let mut args = command.args();
    match (args.next(), args.next(), args.next()) {
        (Some(key), None, _) if is(command, "GET") => return FastPathCommandBuilder::get(RefBulkString::new(key)),
        (Some(key), Some(value), None) if is(command, "SET") => {
            return FastPathCommandBuilder::set(RefBulkString::new(key), RefBulkString::new(value));
        }
        _ => {}
    }
    let mut key = command.key();
    let mut request = CommandBuilder::new(command.name().as_bytes());
    for argument in command.args() {
        let bytes = RefBulkString::new(argument);
        request = match key {
            // The very argument, not one of equal bytes.
            Some(marked) if std::ptr::eq(marked, argument) => {
                key = None;
                request.key(bytes)
            }
            _ => request.arg(bytes),
        };
    }
    request.into()
}

/// Implements [`Commands`](crate::drivers::Commands), [`Pipelines`](crate::drivers::Pipelines),
/// [`Transactions`](crate::drivers::Transactions) and [`Publish`](crate::drivers::Publish) by taking a client for each call
/// with `$take`: the crate's two clients have the same methods, and no trait in common.
macro_rules! commands_through {
    ($driver:ty, $self:ident, take = $take:expr, lanes = $lanes:expr) => {
        impl $crate::drivers::Commands for $driver {
            type Reply = $crate::drivers::rustis::RustisReply;

            async fn get(&$self, key: &[u8]) -> Result<Option<Vec<u8>>, $crate::drivers::Error> {
                let client = $take;
                let value: Option<BulkString> = (&*client).get(RefBulkString::new(key)).await?;
                Ok(value.map(Vec::from))
            }

            async fn set(&$self, key: &[u8], value: &[u8]) -> Result<(), $crate::drivers::Error> {
                let client = $take;
                Ok((&*client).set(RefBulkString::new(key), RefBulkString::new(value)).await?)
            }

            async fn hkeys(&$self, key: &[u8]) -> Result<Vec<Vec<u8>>, $crate::drivers::Error> {
                let client = $take;
                let fields: Vec<BulkString> = (&*client).hkeys(RefBulkString::new(key)).await?;
                Ok(fields.into_iter().map(Vec::from).collect())
            }

            async fn call(&$self, command: &$crate::drivers::Command) -> Result<Self::Reply, $crate::drivers::Error> {
                let client = $take;
                Ok($crate::drivers::rustis::RustisReply(client.send(request(command), None).await?))
            }
        }

        impl $crate::drivers::Pipelines for $driver {
            async fn pipeline(
                &$self,
                commands: &[$crate::drivers::Command],
            ) -> Result<$crate::drivers::PipelineReplies<Self::Reply>, $crate::drivers::Error> {
                let client = $take;
                let mut pipeline = client.create_pipeline();
                pipeline.reserve(commands.len());
                for command in commands {
                    pipeline.queue_command(request(command));
                }
                let replies: Vec<Each> = pipeline.execute().await?;
                Ok(replies.into_iter().map(|Each(reply)| reply).collect())
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
                if commands.is_empty() {
                    return Ok(Vec::new());
                }
                let client = $take;
                let mut transaction = client.create_transaction();
                for command in commands {
                    transaction.queue_command(request(command));
                }
                let replies: Vec<Each> = transaction.execute().await?;
                Ok(replies.into_iter().map(|Each(reply)| reply).collect())
            }
        }

        impl $crate::drivers::Publish for $driver {
            async fn publish(&$self, channel: &[u8], payload: &[u8]) -> Result<u64, $crate::drivers::Error> {
                let client = $take;
                Ok((&*client).publish(RefBulkString::new(channel), RefBulkString::new(payload)).await? as u64)
            }

            async fn spublish(&$self, channel: &[u8], payload: &[u8]) -> Result<u64, $crate::drivers::Error> {
                let client = $take;
                Ok((&*client).spublish(RefBulkString::new(channel), RefBulkString::new(payload)).await? as u64)
            }
        }
    };
}
pub(super) use commands_through;
