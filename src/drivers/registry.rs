//! The list of drivers: one line each.

use super::{Descriptor, Driver};

/// Something to do with a driver whose type is only known at run time by its name.
pub trait Visit {
    /// What comes of it.
    type Output;
    /// Called with the driver's type; everything inside is statically dispatched.
    fn visit<D: Driver>(self) -> Self::Output;
}

/// A driver name that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum UnknownDriver {
    /// No such driver.
    #[error("unknown driver {name:?}; this build has: {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The driver exists, but this build leaves it out.
    #[error("the driver {name:?} is not in this build; build with --features {feature}")]
    LeftOut {
        /// What was asked for.
        name: &'static str,
        /// The Cargo feature that brings it.
        feature: &'static str,
    },
}

macro_rules! registry {
    ($($name:literal, feature $feature:literal: $driver:ty;)+) => {
        /// Every driver in this build.
        pub const DRIVERS: &[Descriptor] =
            &[super::raw::Raw::DESCRIPTOR, $(#[cfg(feature = $feature)] <$driver>::DESCRIPTOR),+];

        /// Names and Cargo features of the drivers that a build may leave out.
        const OPTIONAL: &[(&str, &str)] = &[$(($name, $feature)),+];

        /// Calls `visitor` with the driver called `name`.
        ///
        /// # Errors
        /// [`UnknownDriver`], which lists the known ones.
        pub fn visit<V: Visit>(name: &str, visitor: V) -> Result<V::Output, UnknownDriver> {
            match name {
                "raw" => Ok(visitor.visit::<super::raw::Raw>()),
                $(#[cfg(feature = $feature)] $name => Ok(visitor.visit::<$driver>()),)+
                _ => Err(unknown(name)),
            }
        }
    };
}

// One line a driver: its name, its Cargo feature, its type. `raw` is in every build.
registry! {
    "redis-rs", feature "redis-rs": super::redis_rs::RedisRs;
    "redis-rs-pool", feature "redis-rs": super::redis_rs::RedisRsPool;
    "redis-rs-manager", feature "redis-rs": super::redis_rs::RedisRsManager;
    "redis-rs-cluster", feature "redis-rs": super::redis_rs::RedisRsCluster;
    "fred", feature "fred": super::fred::Fred;
    "fred-pool", feature "fred": super::fred::FredPool;
    "deadpool-redis", feature "deadpool-redis": super::deadpool_redis::DeadpoolRedis;
    "bb8-redis", feature "bb8-redis": super::bb8_redis::Bb8Redis;
    "rustis", feature "rustis": super::rustis::Rustis;
    "rustis-pool", feature "rustis": super::rustis::RustisPool;
}

fn unknown(name: &str) -> UnknownDriver {
    match OPTIONAL.iter().find(|(known, _)| *known == name) {
        Some((name, feature)) => UnknownDriver::LeftOut { name, feature },
        None => {
            let known: Vec<_> = DRIVERS.iter().map(|driver| driver.name).collect();
            UnknownDriver::Unknown { name: name.to_owned(), known: known.join(", ") }
        }
    }
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
