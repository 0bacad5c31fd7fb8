//! Releases 0.25: RESP2, limits of time as arguments, and only a feature of the crate, `tcp_nodelay`, decides of TCP_NODELAY.

use std::time::Duration;

use redis::aio::{ConnectionLike, ConnectionManager, MultiplexedConnection};
use redis::cluster::ClusterClientBuilder;
use redis::{Client, ConnectionAddr, ConnectionInfo, Pipeline, RedisConnectionInfo, RedisResult};

use super::Login;
use super::connect::CONNECTION_TIMEOUT;
use crate::drivers::{Error, Profile, Resp, ResponseTimeout, Settings};

/// What it does as it ships, for the notes of its drivers.
pub const AS_IT_SHIPS: &str = "As it ships: TCP_NODELAY off, no response timeout, 50 requests in a connection's queue, which can't be changed: so it is when tuned, too.";

/// Whether a command that fails inside of a pipeline or transaction is told by itself.
pub const TELLS_EACH_ERROR: bool = false;

/// Protocol versions.
pub const RESP: &[Resp] = &[Resp::V2];

/// Refuses settings that this line can't have.
pub fn check(settings: &Settings) -> Result<(), Error> {
    if settings.nodelay().unwrap_or_default() == cfg!(feature = "tcp-nodelay") {
        return Ok(());
    }
    Err(Error::Unsupported("only a feature of the crate decides of TCP_NODELAY, and this build has it the other way"))
}

/// Where and how to log in.
pub fn info(addr: ConnectionAddr, login: Login<'_>, _: &Settings) -> Result<ConnectionInfo, Error> {
    if login.resp == Resp::V3 {
        return Err(Error::Unsupported("redis 0.25 speaks RESP2 only"));
    }
    let redis = RedisConnectionInfo {
        db: login.database,
        username: login.username.map(str::to_owned),
        password: login.password.map(str::to_owned),
    };
    Ok(ConnectionInfo { addr, redis })
}

/// Limits of time, as the crate's calls take them.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    response: Duration,
    connection: Duration,
}

/// How connections behave.
pub fn config(settings: &Settings) -> Limits {
    let response = match settings.timeout() {
        ResponseTimeout::CrateDefault | ResponseTimeout::Never => Duration::MAX,
        ResponseTimeout::After(after) => after,
    };
    Limits { response, connection: if settings.profile == Profile::Tuned { CONNECTION_TIMEOUT } else { Duration::MAX } }
}

/// For a connection that only tries whether there is one.
pub fn probe_config(_: &Settings) -> Limits {
    Limits { response: Duration::MAX, connection: CONNECTION_TIMEOUT }
}

/// As [`config`], of the crate's `ConnectionManager`.
pub fn manager_config(settings: &Settings) -> Limits {
    config(settings)
}

/// The TCP settings of a cluster's connections, of which there are none.
pub fn cluster(builder: ClusterClientBuilder, _: &Settings) -> ClusterClientBuilder {
    builder
}

/// A multiplexed connection.
pub async fn open(client: &Client, limits: &Limits) -> RedisResult<MultiplexedConnection> {
    client.get_multiplexed_async_connection_with_timeouts(limits.response, limits.connection).await
}

/// A connection that the crate renews, with the base, factor and number of its retries as they ship.
pub async fn open_manager(client: Client, limits: Limits) -> RedisResult<ConnectionManager> {
    ConnectionManager::new_with_backoff_and_timeouts(client, 2, 100, 6, limits.response, limits.connection).await
}

/// An empty pipeline with room for `commands`.
pub fn pipeline_for(commands: usize) -> Pipeline {
    Pipeline::with_capacity(commands)
}

/// The replies of a pipeline, or the first error among them.
pub async fn replies<C: ConnectionLike>(pipeline: &mut Pipeline, connection: &mut C) -> RedisResult<Vec<redis::Value>> {
    pipeline.query_async(connection).await
}

/// The replies inside of that to `EXEC`, or the first error among them; `None` when it was not executed.
pub async fn executed<C: ConnectionLike>(pipeline: &mut Pipeline, connection: &mut C) -> RedisResult<Option<Vec<redis::Value>>> {
    pipeline.atomic().query_async(connection).await
}
