//! The list of drivers: one line each.

use super::{Descriptor, Driver};

/// Something to do with a driver whose type is only known at run time by its name.
pub trait Visit {
    /// What comes of it.
    type Output;
    /// Called with the driver's type; everything inside is statically dispatched.
    fn visit<D: Driver>(self) -> Self::Output;
}

/// A driver name that is not known, or not compiled in.
#[derive(Debug, thiserror::Error)]
#[error("unknown driver {name:?}; this build has: {known}")]
pub struct UnknownDriver {
    name: String,
    known: String,
}

macro_rules! registry {
    ($($(#[$cfg:meta])* $driver:ty),+ $(,)?) => {
        /// Every driver in this build.
        pub const DRIVERS: &[Descriptor] = &[$($(#[$cfg])* <$driver>::DESCRIPTOR),+];

        /// Calls `visitor` with the driver called `name`.
        ///
        /// # Errors
        /// [`UnknownDriver`], which lists the known ones.
        pub fn visit<V: Visit>(name: &str, visitor: V) -> Result<V::Output, UnknownDriver> {
            $($(#[$cfg])* if name == <$driver>::DESCRIPTOR.name { return Ok(visitor.visit::<$driver>()); })+
            Err(unknown(name))
        }
    };
}

registry! {
    super::raw::Raw,
    #[cfg(feature = "redis-rs")] super::redis_rs::RedisRs,
    #[cfg(feature = "redis-rs")] super::redis_rs::RedisRsPool,
    #[cfg(feature = "redis-rs")] super::redis_rs::RedisRsManager,
    #[cfg(feature = "redis-rs")] super::redis_rs::RedisRsCluster,
    #[cfg(feature = "fred")] super::fred::Fred,
    #[cfg(feature = "fred")] super::fred::FredPool,
    #[cfg(feature = "deadpool-redis")] super::deadpool_redis::DeadpoolRedis,
    #[cfg(feature = "bb8-redis")] super::bb8_redis::Bb8Redis,
}

fn unknown(name: &str) -> UnknownDriver {
    let known: Vec<_> = DRIVERS.iter().map(|driver| driver.name).collect();
    UnknownDriver { name: name.to_owned(), known: known.join(", ") }
}

/// The descriptor of the driver called `name`.
///
/// # Errors
/// [`UnknownDriver`], which lists the known ones.
pub fn find(name: &str) -> Result<&'static Descriptor, UnknownDriver> {
    DRIVERS.iter().find(|driver| driver.name == name).ok_or_else(|| unknown(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct NameOf;
    impl Visit for NameOf {
        type Output = &'static str;
        fn visit<D: Driver>(self) -> &'static str {
            D::DESCRIPTOR.name
        }
    }

    #[test]
    fn every_driver_is_found_by_its_name_and_states_its_version() {
        for driver in DRIVERS {
            assert_eq!(visit(driver.name, NameOf).unwrap(), driver.name);
            let version = driver.version();
            assert!(version.split('.').count() >= 3, "{} has no exact version: {version:?}", driver.name);
            assert!(driver.documentation.starts_with("https://"), "{}", driver.name);
        }
        let error = visit("jedis", NameOf).unwrap_err().to_string();
        assert!(error.contains("\"jedis\"") && error.contains("raw"), "{error}");
    }
}
