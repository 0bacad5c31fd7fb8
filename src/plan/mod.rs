//! `bench.toml`: what the benches sweep, checked before anything starts, and the cells that come of it.

mod cache;
mod cells;
mod comparison;
mod config;
mod pubsub;
#[cfg(test)]
mod tests;

pub use cache::{CacheConfig, client_cache};
pub use cells::{Group, PlannedCell, commands, pipeline_window};
pub use comparison::{ComparisonConfig, usual_workloads};
pub use config::{
    BadConfig, BenchConfig, ClusterConfig, CommandsConfig, ConnectionConfig, RuntimeConfig, Sweep, TimingConfig, WindowConfig,
};
pub use pubsub::{Doing, PubSubCell, PublishConfig, SubscribeConfig, publish, subscribe};
