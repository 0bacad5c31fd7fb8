//! Loads through a client-side cache: every read is checked for staleness, probes tell how late invalidations come.
//!
//! `versions` says what a read may return, `fence` when the client has been told, `stale` counts the reads that return less,
//! `probe` measures the lag. The callers are those of every load ([`load`](super::load)), which `issue` tells what to do.

mod audited;
mod fence;
mod figures;
mod issue;
mod keyspace;
mod loader;
mod probe;
mod run;
mod stale;
mod uncached;
mod versions;

#[cfg(test)]
mod tests;

pub use audited::expected;
pub use figures::{CacheFigures, CacheSecond, Lag, LagFigures, ProbeReads, StaleRead, Staleness};
pub use keyspace::{check_mix, keys, prefill};
pub use loader::{Beside, CacheJob, CachedLoader, CachedOutcome, Counter, Opening, open, open_uncached};
pub use probe::ProbeCommands;
pub use uncached::Uncached;
