//! Drivers of the [`redis`](https://docs.rs/redis) crate (redis-rs), and what the pools around it share with them.

mod cache;
mod calls;
mod cluster;
pub(super) mod connect;
mod connection;
mod error;
mod manager;
mod pool;
mod reply;
mod subscriber;

pub use cache::RedisCached;
pub(super) use calls::{commands_through, get, hand_written, hkeys, pipeline, publish, query, set, spublish, transaction};
pub use cluster::RedisRsCluster;
pub use connection::RedisRs;
pub use manager::RedisRsManager;
pub use pool::RedisRsPool;
pub use reply::RedisReply;
pub use subscriber::RedisSubscriber;
