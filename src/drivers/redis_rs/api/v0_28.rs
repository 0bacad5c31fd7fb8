//! Releases 0.26 to 0.28. As 0.29 to 0.32, but only a feature of the crate, `tcp_nodelay`, decides of TCP_NODELAY.

use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig, MultiplexedConnection};
use redis::cluster::ClusterClientBuilder;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, Pipeline, ProtocolVersion, RedisConnectionInfo, RedisResult};

use super::Login;
use super::connect::CONNECTION_TIMEOUT;
use crate::drivers::{Error, Profile, Resp, ResponseTimeout, Settings};

/// What it does as it ships, for the notes of its drivers.
pub const AS_IT_SHIPS: &str = "As it ships: TCP_NODELAY off, no response timeout, 50 requests in a connection's queue, which can't be changed: so it is when tuned, too.";

/// Whether a command that fails inside of a pipeline or transaction is told by itself.
pub const TELLS_EACH_ERROR: bool = false;

/// Protocol versions.
pub const RESP: &[Resp] = &[Resp::V2, Resp::V3];

/// Refuses settings that this line can't have.
pub fn check(settings: &Settings) -> Result<(), Error> {
    if settings.nodelay().unwrap_or_default() == cfg!(feature = "tcp-nodelay") {
        return Ok(());
    }
    Err(Error::Unsupported("only a feature of the crate decides of TCP_NODELAY, and this build has it the other way"))
}

fn protocol(resp: Resp) -> ProtocolVersion {
    match resp {
        Resp::V2 => ProtocolVersion::RESP2,
        Resp::V3 => ProtocolVersion::RESP3,
    }
}

/// Where and how to log in.
pub fn info(addr: ConnectionAddr, login: Login<'_>, _: &Settings) -> Result<ConnectionInfo, Error> {
    let redis = RedisConnectionInfo {
        db: login.database,
        username: login.username.map(str::to_owned),
        password: login.password.map(str::to_owned),
        protocol: protocol(login.resp),
    };
    Ok(ConnectionInfo { addr, redis })
}

/// How connections behave.
pub fn config(settings: &Settings) -> AsyncConnectionConfig {
    let mut config = AsyncConnectionConfig::new();
    if settings.profile == Profile::Tuned {
        config = config.set_connection_timeout(CONNECTION_TIMEOUT);
    }
    match settings.timeout() {
        ResponseTimeout::CrateDefault | ResponseTimeout::Never => config,
        ResponseTimeout::After(after) => config.set_response_timeout(after),
    }
}

/// For a connection that only tries whether there is one.
pub fn probe_config(_: &Settings) -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_connection_timeout(CONNECTION_TIMEOUT)
}

/// As [`config`], of the crate's `ConnectionManager`.
pub fn manager_config(settings: &Settings) -> ConnectionManagerConfig {
    let mut config = ConnectionManagerConfig::new();
    if settings.profile == Profile::Tuned {
        config = config.set_connection_timeout(CONNECTION_TIMEOUT);
    }
    match settings.timeout() {
        ResponseTimeout::CrateDefault | ResponseTimeout::Never => config,
        ResponseTimeout::After(after) => config.set_response_timeout(after),
    }
}

/// The TCP settings of a cluster's connections, of which there are none.
pub fn cluster(builder: ClusterClientBuilder, _: &Settings) -> ClusterClientBuilder {
    builder
}

/// A multiplexed connection.
pub async fn open(client: &Client, config: &AsyncConnectionConfig) -> RedisResult<MultiplexedConnection> {
    client.get_multiplexed_async_connection_with_config(config).await
}

/// A connection that the crate renews.
pub async fn open_manager(client: Client, config: ConnectionManagerConfig) -> RedisResult<ConnectionManager> {
    client.get_connection_manager_with_config(config).await
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
