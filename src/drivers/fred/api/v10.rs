//! Releases 10.x.

pub use fred::clients::{Client, Pool};
pub use fred::error::{Error as FredError, ErrorKind};
pub use fred::types::client::Invalidation;
pub use fred::types::config::{Config, Server, ServerConfig};
pub use fred::types::{Key, Value};

/// Whether the client knew no connection for a command.
pub fn is_routing(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::Routing)
}

/// When it writes, for the notes of its drivers.
pub const FLUSHES: &str = "It flushes after 200 commands (max_feed_count) or when its queue is empty, also when tuned.";
