//! Releases 9.x: the same under older names.

pub use fred::clients::{RedisClient as Client, RedisPool as Pool};
pub use fred::error::{RedisError as FredError, RedisErrorKind as ErrorKind};
pub use fred::types::{Invalidation, RedisConfig as Config, RedisKey as Key, RedisValue as Value, Server, ServerConfig};

/// Whether the client knew no connection for a command: this line has no kind for that.
pub fn is_routing(_: &ErrorKind) -> bool {
    false
}

/// When it writes, for the notes of its drivers.
pub const FLUSHES: &str = "It flushes after 200 commands (max_feed_count) or when its queue is empty, and holds back callers from 10,000 commands in flight on, also when tuned.";
