//! `deadpool-redis`: a checkout pool of multiplexed connections, or of cluster connections.

use deadpool_redis::{PoolError, Runtime, TimeoutType, cluster};
use futures_util::future::try_join_all;
use redis::AsyncCommands;

use super::redis_rs::{self, RedisReply, connect};
use super::{
    Applied, CacheSettings, CacheSupport, ClientCache, Command, Commands, Descriptor, Driver, Error, Lanes, NoCache, NoSubscriber,
    PipelineReach, PipelineReplies, Pipelines, PubSub, Publish, Resp, ResponseTimeout, Servers, Settings, Subscribe, SubscriberSettings,
    Topology, Transactions,
};

/// The crate's pools: a connection belongs to one call at a time.
#[derive(Clone)]
pub enum DeadpoolRedis {
    /// Connections to one server.
    Standalone(deadpool_redis::Pool),
    /// Cluster connections, each with a connection to every master.
    Cluster(cluster::Pool),
}

impl From<PoolError> for Error {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => error.into(),
            PoolError::Timeout(TimeoutType::Wait) => Error::Client("no pooled connection became free in time".into()),
            PoolError::Timeout(_) => Error::Connection("a pooled connection could not be made ready in time".into()),
            PoolError::Closed => Error::Client("the pool is closed".into()),
            other => Error::Client(other.to_string()),
        }
    }
}

/// Runs `$call` with a connection of whichever pool it is.
macro_rules! checked_out {
    ($self:expr, $connection:ident => $call:expr) => {
        match $self {
            DeadpoolRedis::Standalone(pool) => {
                let mut $connection = pool.get().await?;
                $call
            }
            DeadpoolRedis::Cluster(pool) => {
                let mut $connection = pool.get().await?;
                $call
            }
        }
    };
}

impl Commands for DeadpoolRedis {
    type Reply = RedisReply;

    async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        checked_out!(self, connection => redis_rs::get(&mut connection, key).await)
    }

    async fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        checked_out!(self, connection => redis_rs::set(&mut connection, key, value).await)
    }

    async fn hkeys(&self, key: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        checked_out!(self, connection => redis_rs::hkeys(&mut connection, key).await)
    }

    async fn call(&self, command: &Command) -> Result<RedisReply, Error> {
        checked_out!(self, connection => redis_rs::query(&mut connection, command).await)
    }
}

impl Publish for DeadpoolRedis {
    async fn publish(&self, channel: &[u8], payload: &[u8]) -> Result<u64, Error> {
        checked_out!(self, connection => redis_rs::publish(&mut connection, channel, payload).await)
    }

    async fn spublish(&self, channel: &[u8], payload: &[u8]) -> Result<u64, Error> {
        checked_out!(self, connection => redis_rs::spublish(&mut connection, channel, payload).await)
    }
}

impl Pipelines for DeadpoolRedis {
    async fn pipeline(&self, commands: &[Command]) -> Result<PipelineReplies<RedisReply>, Error> {
        checked_out!(self, connection => redis_rs::pipeline(&mut connection, commands).await)
    }

    fn lanes(&self) -> Lanes<Self> {
        Lanes::EachCall
    }
}

impl Transactions for DeadpoolRedis {
    async fn transaction(&self, commands: &[Command]) -> Result<PipelineReplies<RedisReply>, Error> {
        checked_out!(self, connection => redis_rs::transaction(&mut connection, commands).await)
    }
}

fn standalone(servers: &Servers, settings: &Settings) -> Result<deadpool_redis::Pool, Error> {
    let manager = deadpool_redis::Manager::new_with_config(connect::info(servers.first(), settings)?, connect::config(settings))?;
    let builder = deadpool_redis::Pool::builder(manager).max_size(settings.connections.get()).runtime(Runtime::Tokio1);
    builder.build().map_err(|error| Error::Client(error.to_string()))
}

fn clustered(servers: &Servers, settings: &Settings) -> Result<cluster::Pool, Error> {
    if let ResponseTimeout::After(_) = settings.timeout() {
        return Err(Error::Unsupported("deadpool-redis takes no response timeout for a cluster"));
    }
    let tls = servers.first().tls.as_ref();
    if tls.is_some_and(|tls| tls.ca.is_some() || tls.certificate.is_some()) {
        return Err(Error::Unsupported("deadpool-redis takes no certificates for a cluster; use the system's store or #insecure"));
    }
    let seeds = servers.endpoints.iter().map(|endpoint| connect::info(endpoint, settings)).collect::<Result<Vec<_>, _>>()?;
    let manager = cluster::Manager::new(seeds, false)?;
    let builder = cluster::Pool::builder(manager).max_size(settings.connections.get()).runtime(Runtime::Tokio1);
    builder.build().map_err(|error| Error::Client(error.to_string()))
}

impl Subscribe for DeadpoolRedis {
    type Subscriber = NoSubscriber;

    async fn subscriber(servers: &Servers, settings: &Settings, options: &SubscriberSettings) -> Result<NoSubscriber, Error> {
        Self::DESCRIPTOR.pubsub.refuse(options.servers(servers).topology, settings.resp)
    }
}

impl ClientCache for DeadpoolRedis {
    type Cached = NoCache;

    async fn cached(servers: &Servers, settings: &Settings, options: &CacheSettings) -> Result<NoCache, Error> {
        Self::DESCRIPTOR.cache.refuse(servers.topology, settings.resp, options)
    }
}

impl Driver for DeadpoolRedis {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "deadpool-redis",
        client: "deadpool-redis",
        summary: "checkout pool of multiplexed connections; on a cluster, of cluster connections",
        documentation: "https://docs.rs/deadpool-redis/latest/deadpool_redis/",
        topologies: &[Topology::Standalone, Topology::Cluster],
        resp: &[Resp::V2, Resp::V3],
        connections: |settings, _| settings.connections.get(),
        most_connections: usize::MAX,
        checkout: &["unwatch", "ping"],
        tells_connections: false,
        applied: |settings, topology| match topology {
            Topology::Standalone => Applied::as_asked(settings, topology),
            // Its cluster manager takes none of these.
            Topology::Cluster => Applied { nodelay: None, response_timeout: ResponseTimeout::CrateDefault },
        },
        pipeline_reach: PipelineReach::OneSlot,
        tells_transaction_errors: true,
        pubsub: PubSub::none(|_, _, _| {
            Err(
                "the crate documents no pub/sub: its connections are handed out for one command at a time and receive no messages; subscribe with redis-rs",
            )
        }),
        cache: CacheSupport::none(|_, _, _, _| {
            Err("each pooled connection would have a cache of its own, and a caller another one at each checkout; measure redis-rs")
        }),
        notes: &[
            "Every checkout costs a round trip that can't be turned off: UNWATCH and PING; on a cluster a PING to every master.",
            "On a cluster the profile tuned can't be applied: the crate takes no TCP_NODELAY (off), timeout (none), certificates or retry limits there.",
            "On a cluster a command to a lost node is retried 16 times, up to 11 minutes apart, before it fails.",
        ],
    };

    async fn connect(servers: &Servers, settings: &Settings) -> Result<Self, Error> {
        let connections = 0..settings.connections.get();
        let reason = |error| connect::login_error(Error::from(error));
        let connecting = async {
            // All are checked out at once, so all are open; then they go back together.
            match servers.topology {
                Topology::Standalone => {
                    let pool = standalone(servers, settings)?;
                    drop(try_join_all(connections.map(|_| pool.get())).await.map_err(reason)?);
                    Ok(Self::Standalone(pool))
                }
                Topology::Cluster => {
                    let pool = clustered(servers, settings)?;
                    drop(try_join_all(connections.map(|_| pool.get())).await.map_err(reason)?);
                    Ok(Self::Cluster(pool))
                }
            }
        };
        connect::limited(connecting).await
    }

    async fn close(self) {
        match self {
            DeadpoolRedis::Standalone(pool) => pool.close(),
            DeadpoolRedis::Cluster(pool) => pool.close(),
        }
    }

    async fn hand_written(&self, key: &[u8], ops: u64) -> Result<u64, Error> {
        let Self::Standalone(pool) = self else { return Err(Error::Unsupported("the hand-written loop is for a standalone server")) };
        let mut bytes = 0;
        for _ in 0..ops {
            let value: Option<Vec<u8>> = pool.get().await?.get(key).await?;
            bytes += value.map_or(0, |value| value.len()) as u64;
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pools_own_failures_are_the_clients() {
        assert_eq!(Error::from(PoolError::Closed).kind(), "client");
        assert_eq!(Error::from(PoolError::Timeout(TimeoutType::Wait)).kind(), "client");
        assert_eq!(Error::from(PoolError::Timeout(TimeoutType::Create)).kind(), "connection");
        let lost = redis::RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        assert_eq!(Error::from(PoolError::Backend(lost)).kind(), "connection");
    }
}
