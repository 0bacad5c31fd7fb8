//! Loads through a client-side cache.

mod figures;
mod loader;
mod uncached;

pub use figures::{CacheFigures, CacheSecond, Lag, LagFigures, ProbeReads, StaleRead, Staleness};
pub use loader::{CacheJob, CachedLoader, CachedOutcome, Counter, Opening, check_mix, expected, keys, open, open_uncached, prefill};
pub use uncached::Uncached;
