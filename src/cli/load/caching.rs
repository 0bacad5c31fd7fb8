//! What the flags of client-side caching come to for each driver and workload.

use std::num::NonZeroU64;
use std::time::Duration;

use super::cache::CacheArgs;
use crate::drivers::{CacheMode, CacheSettings, Capacity, Descriptor, Units};
use crate::record::load::AskedCache;
use crate::workload::cache::{CacheJob, check_mix};
use crate::workload::mix::{Call, KEY_PREFIX, Mix};

/// How many times the mix's keys a cache may hold unless the flags say otherwise: the prober has keys too, and a cache may evict
/// before it is quite full.
const ROOM: u64 = 2;

/// How a driver's reads go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Without `--csc`: as every load.
    Plain,
    /// Through its cache.
    Cached,
    /// As a cached run does it, but to the server each time: `--csc-baseline`.
    Uncached,
}

/// All that holds for every cached run of an invocation.
pub struct Caching {
    asked: AskedCache,
    ttl: Duration,
}

impl Caching {
    /// `None` without `--csc`.
    pub fn new(arguments: &CacheArgs) -> Option<Self> {
        let capacity = (arguments.csc_entries.map(Capacity::Entries)).or(arguments.csc_per_client_bytes.map(Capacity::Bytes));
        arguments.csc.then_some(Self {
            asked: AskedCache {
                mode: arguments.csc_mode,
                noloop: arguments.csc_noloop,
                ttl_seconds: arguments.csc_ttl.as_secs_f64(),
                capacity,
                external_writers: arguments.external_writers,
                probes_per_second: arguments.csc_lag_probes,
                baseline: arguments.csc_baseline,
                allow_stale: arguments.allow_stale,
            },
            ttl: arguments.csc_ttl,
        })
    }

    /// What the record keeps of it.
    pub fn asked(&self) -> AskedCache {
        self.asked.clone()
    }

    /// Whether a cache makes sense of a mix; what it does not say may still be told as a notice.
    pub fn check(&self, workload: &str, mix: &Mix) -> Result<Option<String>, String> {
        check_mix(mix)?;
        let has = |call: Call| mix.entries().iter().any(|entry| entry.call == call);
        if !has(Call::Get) {
            return Err(format!("{workload} reads nothing, so there is nothing to cache; add --cmd 'GET __key__'"));
        }
        let idle = self.asked.external_writers && !has(Call::Set);
        Ok(idle.then(|| "--external-writers: the mix writes nothing, so only the probes of the lag do".to_owned()))
    }

    /// How the cache of `driver` is opened for `mix`, and what to say about it.
    pub fn job(&self, driver: &Descriptor, mix: &Mix) -> Result<(CacheJob, Option<String>), String> {
        let (capacity, notice) = capacity(self.asked.capacity, driver, mix)?;
        // Of other keys on a server that is not ours nobody wants to be told.
        let prefix = if self.asked.mode == CacheMode::Broadcast { KEY_PREFIX.into() } else { Vec::new() };
        let settings =
            CacheSettings { mode: self.asked.mode, noloop: self.asked.noloop, capacity: Some(capacity), ttl: Some(self.ttl), prefix };
        let job = CacheJob { settings, external_writers: self.asked.external_writers, probes_per_second: self.asked.probes_per_second };
        Ok((job, notice))
    }
}

/// The capacity in the unit that the driver counts in.
fn capacity(asked: Option<Capacity>, driver: &Descriptor, mix: &Mix) -> Result<(Capacity, Option<String>), String> {
    let bytes = match asked {
        None => {
            let entries = NonZeroU64::new(mix.key_count().saturating_mul(ROOM)).unwrap_or(NonZeroU64::MIN);
            return Ok((Capacity::Entries(entries), None));
        }
        Some(Capacity::Bytes(bytes)) if driver.cache.units == Units::Entries => bytes,
        Some(asked) => return Ok((asked, None)),
    };
    let largest = (mix.largest_pair() as u64).max(1);
    let Some(entries) = NonZeroU64::new(bytes.get() / largest) else {
        return Err(format!("--csc-per-client-bytes {bytes}: not one key with its value of {largest} bytes fits; give more"));
    };
    let notice = format!(
        "{} counts keys, not bytes: {bytes} bytes are {entries} keys of {largest} bytes, the largest key with its value",
        driver.name
    );
    Ok((Capacity::Entries(entries), Some(notice)))
}
