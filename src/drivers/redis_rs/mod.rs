//! Drivers of the [`redis`](https://docs.rs/redis) crate (redis-rs), and what the pools around it share with them.

// What differs between releases of the crate; `build.rs` tells which line this build has. All other files fit every line.
#[cfg_attr(redis_line = "2", path = "api/v2.rs")]
#[cfg_attr(redis_line = "1", path = "api/v1.rs")]
#[cfg_attr(redis_line = "0.32", path = "api/v0_32.rs")]
mod api;
mod cache;
mod calls;
mod cluster;
pub(super) mod connect;
mod connection;
#[cfg_attr(redis_line = "0.32", path = "api/error_0.rs")]
mod error;
mod manager;
mod pool;
mod reply;
mod subscriber;

use connect::Login;

pub use cache::RedisCached;
pub(super) use calls::{commands_through, get, hand_written, hkeys, pipeline, publish, query, set, spublish, transaction};
pub use cluster::RedisRsCluster;
pub use connection::RedisRs;
pub use manager::RedisRsManager;
pub use pool::RedisRsPool;
pub use reply::RedisReply;
pub use subscriber::RedisSubscriber;
