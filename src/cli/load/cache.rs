//! The flags of `rcb load --csc`, and the mistakes that can be told from them alone.

use std::num::NonZeroU64;
use std::time::Duration;

use super::args::{Arguments, Window, nonzero_duration};
use crate::drivers::{CacheMode, DRIVERS, Descriptor, Error, Resp, Topology};
use crate::workload::mix::DataSize;

/// Probes of the lag in a second unless the flags say otherwise.
const PROBES: u32 = 50;
/// Most keys that a cache may hold: one of the clients takes room for all of them at once, about 35 bytes each.
const MOST_ENTRIES: u64 = 100_000_000;
/// Most probes in a second: each reads in a loop, so more would be a load of their own.
const MOST_PROBES: u32 = 1000;

/// Reading through the client's own cache.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Client-side caching")]
pub struct CacheArgs {
    /// Read through the client's cache, and check every read for staleness; GET and SET only [implies --resp 3 and --prefill]
    #[arg(long)]
    pub csc: bool,
    /// Keys that the server tells the client about: all that it read, those it asked for, or all of a prefix
    #[arg(long, value_enum, default_value_t = CacheMode::All, requires = "csc", value_name = "MODE")]
    pub csc_mode: CacheMode,
    /// No invalidations for what the client itself writes (NOLOOP)
    #[arg(long, requires = "csc")]
    pub csc_noloop: bool,
    /// Longest that the cache may serve an entry, in seconds or with a unit
    #[arg(long, value_parser = nonzero_duration, default_value = "60s", requires = "csc", value_name = "TIME")]
    pub csc_ttl: Duration,
    /// Keys that the cache may hold [default: twice the keys of the mix, so that none is evicted]
    #[arg(long, value_parser = entries, requires = "csc", value_name = "COUNT")]
    pub csc_entries: Option<NonZeroU64>,
    /// Bytes of keys and values that it may hold, such as 64MiB; a client that counts keys gets as many as fit
    #[arg(long, value_parser = bytes, requires = "csc", conflicts_with = "csc_entries", value_name = "SIZE")]
    pub csc_per_client_bytes: Option<NonZeroU64>,
    /// SETs go through a second, plain client, so that every invalidation is of a foreign write
    #[arg(long, requires = "csc")]
    pub external_writers: bool,
    /// Each driver also without its cache: the same keys, values, callers and checks on one connection with RESP3, but no probes of the lag
    #[arg(long, requires = "csc")]
    pub csc_baseline: bool,
    /// Keys written in a second to see how long the old value is served, 0 = none
    #[arg(long, value_parser = probes, default_value_t = PROBES, requires = "csc", value_name = "COUNT")]
    pub csc_lag_probes: u32,
    /// Exit code 0 though reads were stale; else 1
    #[arg(long, requires = "csc")]
    pub allow_stale: bool,
}

fn entries(text: &str) -> Result<NonZeroU64, String> {
    match text.replace(['_', ','], "").parse() {
        Ok(count) if count > MOST_ENTRIES => Err(format!("more than {MOST_ENTRIES} keys; give at most so many")),
        Ok(count) => {
            NonZeroU64::new(count).ok_or_else(|| "a cache of 0 keys caches nothing; give at least 1, or leave out --csc".to_owned())
        }
        Err(_) => Err(format!("{text:?} is not a whole number of keys")),
    }
}

fn bytes(text: &str) -> Result<NonZeroU64, String> {
    let nothing = || "a cache of 0 bytes caches nothing; give more, or leave out --csc".to_owned();
    let form = || format!("{text:?} is no size; write bytes, or a unit as in 64MiB");
    let (number, factor) = ["KiB", "MiB", "GiB"]
        .iter()
        .zip([1_u64 << 10, 1 << 20, 1 << 30])
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))
        .unwrap_or((text, 1));
    let number: u64 = number.trim().replace('_', "").parse().map_err(|_| form())?;
    NonZeroU64::new(number.checked_mul(factor).ok_or_else(form)?).ok_or_else(nothing)
}

fn probes(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(count) if count <= MOST_PROBES => Ok(count),
        Ok(_) => Err(format!("more than {MOST_PROBES} probes a second are a load of their own; give less")),
        Err(_) => Err(format!("{text:?} is not a whole number")),
    }
}

impl CacheArgs {
    /// What can't go with a cache, whichever driver it is.
    pub fn check(&self, arguments: &Arguments) -> Result<(), String> {
        if !self.csc {
            return Ok(());
        }
        let refused = |flag: &str, why: &str, hint: &str| Err(format!("--csc and {flag}: {why}; {hint}"));
        if arguments.resp == Some(Resp::V2) {
            return refused("--resp 2", "invalidations come over the connection that reads with RESP3 only", "leave out --resp");
        }
        if arguments.pipeline.get() > 1 {
            return refused("-P", "an explicit pipeline passes by the cache", "leave out -P");
        }
        if arguments.multi {
            return refused("--multi", "a transaction passes by the cache", "leave out --multi");
        }
        if matches!(arguments.window, Some(Window::Off | Window::Idle | Window::After(_))) {
            return refused("--window", "a pipeline window would stand between the callers and the cache", "leave out --window");
        }
        if arguments.mix_large.is_some() {
            return refused("--mix-large", "its values carry no versions", "give --cmd with a range of sizes, as in -d 64-4096");
        }
        if arguments.no_verify {
            return refused("--no-verify", "each read is checked for staleness", "leave out --no-verify");
        }
        if arguments.connections.is_some_and(|connections| connections.get() > 1) {
            return refused(
                "--connections",
                "a cache has one tracked connection, on a cluster one to each master",
                "leave out --connections",
            );
        }
        if let DataSize::Fixed(size) | DataSize::Range(size, _) = arguments.data
            && size < VERSION_BYTES
        {
            return Err(format!(
                "-d {}: with --csc each value begins with a version of {VERSION_BYTES} bytes; give -d {VERSION_BYTES} or more",
                arguments.data
            ));
        }
        Ok(())
    }

    /// Whether `driver` can cache at all, and in that mode on any topology; the rest is known with the target.
    pub fn check_driver(&self, driver: &Descriptor) -> Result<(), String> {
        if !self.csc {
            return Ok(());
        }
        let mut answers = driver.topologies.iter().map(|&topology| self.supported(driver, topology));
        let first = answers.next().unwrap_or(Err(Error::Unsupported("it runs nowhere")));
        if first.is_ok() || answers.any(|answer| answer.is_ok()) {
            return Ok(());
        }
        first.map_err(|error| self.refusal(driver, &error, None))
    }

    /// Whether `driver` can cache so on a topology that it runs on.
    pub fn check_topology(&self, driver: &Descriptor, topology: Topology) -> Result<(), String> {
        if !self.csc {
            return Ok(());
        }
        self.supported(driver, topology).map_err(|error| self.refusal(driver, &error, Some(topology)))
    }

    fn supported(&self, driver: &Descriptor, topology: Topology) -> Result<(), Error> {
        driver.cache.check(topology, Resp::V3, self.csc_mode, self.csc_noloop)
    }

    /// Why `driver` can't take part, and which drivers can, on that topology if one is given.
    fn refusal(&self, driver: &Descriptor, error: &Error, on: Option<Topology>) -> String {
        let reason = reason(error);
        let able = |other: &&Descriptor| {
            let mut topologies = other.topologies.iter().copied().filter(|topology| on.is_none_or(|on| on == *topology));
            topologies.any(|topology| self.supported(other, topology).is_ok())
        };
        let names = DRIVERS.iter().filter(able).map(|driver| driver.name).collect::<Vec<_>>().join(", ");
        let names = if names.is_empty() { "none".to_owned() } else { names };
        let what = match (driver.cache.is_supported(), self.csc_noloop) {
            (false, _) => "has no client-side cache".to_owned(),
            (true, false) => format!("can't cache with --csc-mode {}", self.csc_mode),
            (true, true) => format!("can't cache with --csc-mode {} --csc-noloop", self.csc_mode),
        };
        format!("{} {what}: {reason}; drivers that can: {names}", driver.name)
    }
}

/// Bytes of the version at the beginning of each value.
const VERSION_BYTES: usize = 16;

fn reason(error: &Error) -> String {
    match error {
        Error::Unsupported(reason) => (*reason).to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_and_nothing_is_no_size() {
        let of = |text| bytes(text).map(NonZeroU64::get);
        assert_eq!((of("1000"), of("64KiB"), of("2 MiB")), (Ok(1000), Ok(65536), Ok(2 << 20)));
        for text in ["0", "0MiB"] {
            assert!(of(text).unwrap_err().contains("caches nothing"), "{text}");
        }
        for text in ["", "-1", "1.5MiB", "99999999999GiB", "64MB"] {
            assert!(of(text).unwrap_err().contains("no size"), "{text}");
        }
        assert!(entries("0").unwrap_err().contains("caches nothing"));
        assert!(entries("many").is_err() && entries("1_000").is_ok());
        assert!(entries("18446744073709551615").unwrap_err().contains("at most"));
        assert!(probes("1001").is_err() && probes("0") == Ok(0));
    }
}
