//! What 1.x and 2.x have in common. The limits of time are `Option`s, TCP settings belong to the address, and error replies stay in their place
//! when asked for.

use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig, MultiplexedConnection};
use redis::cluster::ClusterClientBuilder;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, Pipeline, ProtocolVersion, RedisConnectionInfo,
    RedisResult,
};

use super::Login;
use super::connect::CONNECTION_TIMEOUT;
use crate::drivers::{Error, Profile, Resp, ResponseTimeout, Settings};

/// Whether a command that fails inside of a pipeline or transaction is told by itself.
pub const TELLS_EACH_ERROR: bool = true;

/// Protocol versions.
pub const RESP: &[Resp] = &[Resp::V2, Resp::V3];

/// Refuses settings that this line can't have.
pub fn check(_: &Settings) -> Result<(), Error> {
    Ok(())
}

/// TCP_NODELAY as the profile wants it.
fn tcp(settings: &Settings) -> TcpSettings {
    match settings.nodelay() {
        Some(nodelay) => TcpSettings::default().set_nodelay(nodelay),
        None => TcpSettings::default(),
    }
}

fn protocol(resp: Resp) -> ProtocolVersion {
    match resp {
        Resp::V2 => ProtocolVersion::RESP2,
        Resp::V3 => ProtocolVersion::RESP3,
    }
}

/// Where and how to log in.
pub fn info(address: ConnectionAddr, login: Login<'_>, settings: &Settings) -> Result<ConnectionInfo, Error> {
    let mut redis = RedisConnectionInfo::default().set_db(login.database).set_protocol(protocol(login.resp));
    if let Some(username) = login.username {
        redis = redis.set_username(username);
    }
    if let Some(password) = login.password {
        redis = redis.set_password(password);
    }
    Ok(address.into_connection_info()?.set_redis_settings(redis).set_tcp_settings(tcp(settings)))
}

/// How connections behave. The profile `tuned` raises the queue of waiting requests, which the crate fills without waiting;
/// the write buffer keeps its own size, since that shapes the client's writes, and requests in flight have no limit anyway.
pub fn config(settings: &Settings) -> AsyncConnectionConfig {
    let mut config = AsyncConnectionConfig::new();
    if settings.profile == Profile::Tuned {
        config = config.set_connection_timeout(Some(CONNECTION_TIMEOUT)).set_pipeline_buffer_size(Settings::QUEUE_CAPACITY);
    }
    match settings.timeout() {
        ResponseTimeout::CrateDefault => config,
        ResponseTimeout::Never => config.set_response_timeout(None),
        ResponseTimeout::After(after) => config.set_response_timeout(Some(after)),
    }
}

/// For a connection that only tries whether there is one.
pub fn probe_config(_: &Settings) -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECTION_TIMEOUT))
}

/// As [`config`], of the crate's `ConnectionManager`.
pub fn manager_config(settings: &Settings) -> ConnectionManagerConfig {
    let mut config = ConnectionManagerConfig::new();
    if settings.profile == Profile::Tuned {
        config = config.set_connection_timeout(Some(CONNECTION_TIMEOUT)).set_pipeline_buffer_size(Settings::QUEUE_CAPACITY);
    }
    match settings.timeout() {
        ResponseTimeout::CrateDefault => config,
        ResponseTimeout::Never => config.set_response_timeout(None),
        ResponseTimeout::After(after) => config.set_response_timeout(Some(after)),
    }
}

/// The TCP settings of a cluster's connections.
pub fn cluster(builder: ClusterClientBuilder, settings: &Settings) -> ClusterClientBuilder {
    builder.tcp_settings(tcp(settings))
}

/// A multiplexed connection.
pub async fn open(client: &Client, config: &AsyncConnectionConfig) -> RedisResult<MultiplexedConnection> {
    client.get_multiplexed_async_connection_with_config(config).await
}

/// A connection that the crate renews.
pub async fn open_manager(client: Client, config: ConnectionManagerConfig) -> RedisResult<ConnectionManager> {
    client.get_connection_manager_with_config(config).await
}

/// The replies of a pipeline, errors among them.
pub async fn replies<C: ConnectionLike>(pipeline: &mut Pipeline, connection: &mut C) -> RedisResult<Vec<redis::Value>> {
    pipeline.ignore_errors().query_async(connection).await
}

/// The replies inside of that to `EXEC`, errors among them; `None` when it was not executed.
pub async fn executed<C: ConnectionLike>(pipeline: &mut Pipeline, connection: &mut C) -> RedisResult<Option<Vec<redis::Value>>> {
    pipeline.atomic().ignore_errors().query_async(connection).await
}
