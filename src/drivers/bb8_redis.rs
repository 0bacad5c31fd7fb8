//! `bb8-redis`: a checkout pool of multiplexed connections.

use bb8_redis::RedisConnectionManager;
use bb8_redis::bb8::{Pool, RunError};
use futures_util::future::try_join_all;
use redis::{AsyncCommands, RedisError};

use super::redis_rs::{commands_through, connect};
use super::{
    Applied, CacheSettings, CacheSupport, ClientCache, Descriptor, Driver, Error, Lanes, NoCache, NoSubscriber, PipelineReach, PubSub,
    Resp, ResponseTimeout, Servers, Settings, Subscribe, SubscriberSettings, Topology,
};

/// The crate's pool: a connection belongs to one call at a time.
#[derive(Clone)]
pub struct Bb8Redis(Pool<RedisConnectionManager>);

commands_through!(Bb8Redis, self, connection = self.0.get().await?, *connection, lanes = Lanes::EachCall);

impl From<RunError<RedisError>> for Error {
    fn from(error: RunError<RedisError>) -> Self {
        match error {
            RunError::User(error) => error.into(),
            RunError::TimedOut => Error::Client("no pooled connection became ready in time".into()),
        }
    }
}

impl Subscribe for Bb8Redis {
    type Subscriber = NoSubscriber;

    async fn subscriber(servers: &Servers, settings: &Settings, options: &SubscriberSettings) -> Result<NoSubscriber, Error> {
        Self::DESCRIPTOR.pubsub.refuse(options.servers(servers).topology, settings.resp)
    }
}

impl ClientCache for Bb8Redis {
    type Cached = NoCache;

    async fn cached(servers: &Servers, settings: &Settings, options: &CacheSettings) -> Result<NoCache, Error> {
        Self::DESCRIPTOR.cache.refuse(servers.topology, settings.resp, options)
    }
}

impl Driver for Bb8Redis {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "bb8-redis",
        client: "bb8-redis",
        summary: "checkout pool of multiplexed connections",
        documentation: "https://docs.rs/bb8-redis/latest/bb8_redis/",
        topologies: &[Topology::Standalone],
        resp: &[Resp::V2, Resp::V3],
        connections: |settings, _| settings.connections.get(),
        most_connections: usize::MAX,
        checkout: &["ping"],
        tells_connections: false,
        applied: |settings, _| Applied { nodelay: settings.nodelay(), response_timeout: ResponseTimeout::CrateDefault },
        pipeline_reach: PipelineReach::AnySlot,
        tells_transaction_errors: true,
        pubsub: PubSub::none(|_, _, _| {
            Err(
                "the crate documents no pub/sub: its connections are handed out for one command at a time and receive no messages; subscribe with redis-rs",
            )
        }),
        cache: CacheSupport::none(|_, _, _, _| {
            Err("the crate takes no settings for its connections, so their cache can't be turned on; measure redis-rs")
        }),
        notes: &[
            "It takes no AsyncConnectionConfig: the response timeout of 500 ms and the queue of 50 stay, also when tuned.",
            "Every checkout sends PING and waits for it (test_on_check_out, as it ships), and arms a timer.",
            "Callers wait at most 30 s for a connection, as it ships: so long does it take to report a lost server, without its reason.",
        ],
    };

    async fn connect(servers: &Servers, settings: &Settings) -> Result<Self, Error> {
        if let ResponseTimeout::After(_) = settings.timeout() {
            return Err(Error::Unsupported("bb8-redis takes no response timeout; its connections keep the crate's 500 ms"));
        }
        let connections = settings.connections.get();
        let size = u32::try_from(connections).map_err(|_| Error::Client("bb8-redis holds at most 4,294,967,295 connections".into()))?;
        let manager = RedisConnectionManager::new(connect::info(servers.first(), settings)?)?;
        let builder = Pool::builder().max_size(size).min_idle(size);
        let connecting = async {
            connect::probe(servers.first(), settings).await?;
            let pool = connect::login(builder.build(manager).await)?;
            // All are checked out at once, so all are open and tested; then they go back together.
            drop(try_join_all((0..connections).map(|_| pool.get())).await?);
            Ok(Self(pool))
        };
        connect::limited(connecting).await
    }

    /// The connections end with the last clone of the pool: the crate knows no other way.
    async fn close(self) {
        drop(self);
    }

    async fn hand_written(&self, key: &[u8], ops: u64) -> Result<u64, Error> {
        let mut bytes = 0;
        for _ in 0..ops {
            let value: Option<Vec<u8>> = self.0.get().await?.get(key).await?;
            bytes += value.map_or(0, |value| value.len()) as u64;
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_ended_is_not_a_response_timeout() {
        assert_eq!(Error::from(RunError::<RedisError>::TimedOut).kind(), "client");
    }
}
