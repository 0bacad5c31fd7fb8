//! Drivers of the [`redis`](https://docs.rs/redis) crate (redis-rs), and what the pools around it share with them.

// What differs between releases of the crate is in `api`, a file for what several lines of releases have in common; `build.rs` tells
// which line this build has. All other files fit every line.
#[cfg_attr(redis_line = "2", path = "api/v2.rs")]
#[cfg_attr(redis_line = "1", path = "api/v1.rs")]
#[cfg_attr(any(redis_line = "0.29", redis_line = "0.32"), path = "api/v0_32.rs")]
#[cfg_attr(any(redis_line = "0.26", redis_line = "0.28"), path = "api/v0_28.rs")]
#[cfg_attr(redis_line = "0.25", path = "api/v0_25.rs")]
mod api;
#[cfg_attr(any(redis_line = "0.25", redis_line = "0.26", redis_line = "0.28", redis_line = "0.29"), path = "api/no_cache.rs")]
mod cache;
mod calls;
mod cluster;
pub(super) mod connect;
mod connection;
#[cfg_attr(not(any(redis_line = "1", redis_line = "2")), path = "api/error_0.rs")]
mod error;
mod manager;
mod pool;
#[cfg_attr(redis_line = "0.25", path = "api/reply_0_25.rs")]
mod reply;
#[cfg_attr(any(redis_line = "0.25", redis_line = "0.26"), path = "api/subscriber_0.rs")]
mod subscriber;

pub(super) use calls::{commands_through, get, hand_written, hkeys, pipeline, publish, query, set, transaction};
pub use cluster::RedisRsCluster;
use connect::Login;
pub use connection::RedisRs;
pub use manager::RedisRsManager;
pub use pool::RedisRsPool;
pub use reply::RedisReply;
pub use subscriber::RedisSubscriber;
pub(super) use subscriber::spublish;
