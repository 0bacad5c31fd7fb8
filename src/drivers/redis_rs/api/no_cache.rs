//! Client-side caches of the releases before 0.32, which the driver does not measure: the crate has none before 0.29, and none for
//! clusters before 0.32.

use super::{RedisRs, RedisRsCluster, RedisRsManager};
use crate::drivers::{CacheSettings, CacheSupport, ClientCache, Driver, Error, NoCache, Servers, Settings};

const NONE: CacheSupport = CacheSupport::none(|_, _, _, _| Err("the driver caches with redis 0.32 and later"));
/// What one connection can cache.
pub const CONNECTION: CacheSupport = NONE;
/// What a `ConnectionManager` can cache.
pub const MANAGER: CacheSupport = NONE;
/// What a cluster connection can cache.
pub const CLUSTER: CacheSupport = NONE;

macro_rules! no_cache {
    ($($driver:ty),+) => {
        $(impl ClientCache for $driver {
            type Cached = NoCache;

            async fn cached(servers: &Servers, settings: &Settings, options: &CacheSettings) -> Result<NoCache, Error> {
                Self::DESCRIPTOR.cache.refuse(servers.topology, settings.resp, options)
            }
        })+
    };
}
no_cache!(RedisRs, RedisRsManager, RedisRsCluster);
