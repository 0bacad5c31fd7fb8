//! Stale reads: how many, from where, and for how long.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use hdrhistogram::Histogram;

use super::figures::{StaleRead, Staleness};
use super::versions::Versions;
use crate::drivers::Served;
use crate::measure::Distribution;
use crate::measure::latency::histogram;

/// Stale reads that are kept whole.
const KEPT: usize = 5;

/// The stale reads of one run.
pub struct Stale(Mutex<Found>);

struct Found {
    from_cache: u64,
    from_server: u64,
    after_disconnect: u64,
    ages: Histogram<u64>,
    first: Vec<StaleRead>,
    /// Of each key that was found stale: the version that it had, and since when that was too old. Its floor may have been raised
    /// again since.
    since: HashMap<usize, (u64, u64)>,
}

/// A read that returned less than its floor.
pub struct Read<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Its number.
    pub place: usize,
    /// What was returned.
    pub version: u64,
    /// The floor when the read began.
    pub floor: u64,
    /// Who answered.
    pub served: Served,
}

impl Default for Stale {
    fn default() -> Self {
        let found =
            Found { from_cache: 0, from_server: 0, after_disconnect: 0, ages: histogram(), first: Vec::new(), since: HashMap::new() };
        Self(Mutex::new(found))
    }
}

impl Stale {
    /// Notes one.
    #[cold]
    pub fn note(&self, versions: &Versions, read: &Read<'_>) {
        let (raised, now) = (versions.raised(read.place), versions.now_ns());
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = match found.since.get(&read.place) {
            Some(&(version, since)) if version == read.version => since,
            _ => {
                found.since.insert(read.place, (read.version, raised.at_ns));
                raised.at_ns
            }
        };
        let age_ns = now.saturating_sub(since);
        found.ages.saturating_record(age_ns.max(1));
        match (raised.disconnected, read.served) {
            (true, _) => found.after_disconnect += 1,
            (false, Served::Server) => found.from_server += 1,
            // A server has what it acknowledged, so what nobody tells of was the cache's.
            (false, Served::Cache | Served::Unknown) => found.from_cache += 1,
        }
        if found.first.len() < KEPT {
            let key = String::from_utf8_lossy(read.key).into_owned();
            found.first.push(StaleRead { key, version: Some(read.version), floor: read.floor, age_ns });
        }
    }

    /// What was found, with nothing else filled in.
    #[must_use]
    pub fn figures(&self) -> Staleness {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Staleness {
            stale_from_cache: found.from_cache,
            stale_from_server: found.from_server,
            after_disconnect: found.after_disconnect,
            longest_ns: if found.ages.is_empty() { 0 } else { found.ages.max() },
            ages: Distribution::of(&found.ages),
            first: found.first.clone(),
            ..Staleness::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::cache::versions::Raised;

    fn read(version: u64, floor: u64, served: Served) -> Read<'static> {
        Read { key: b"k", place: 0, version, floor, served }
    }

    #[test]
    fn reads_of_one_version_age_from_when_it_was_first_too_old() {
        let (versions, stale) = (Versions::new(1), Stale::default());
        let raise = |version| {
            let at_ns = versions.now_ns();
            versions.raise(0, version, Raised { at_ns, disconnected: false });
            at_ns
        };
        let first = raise(5);
        stale.note(&versions, &read(3, 5, Served::Cache));
        while versions.now_ns() < first + 2_000_000 {
            std::hint::spin_loop();
        }
        let second = raise(6);
        stale.note(&versions, &read(3, 6, Served::Cache));
        // A later version is another story.
        stale.note(&versions, &read(5, 6, Served::Cache));
        let ages: Vec<u64> = stale.figures().first.iter().map(|read| read.age_ns).collect();
        assert!(ages[1] >= second - first, "though its floor was raised again: {ages:?}");
        assert!(ages[2] < ages[1], "{ages:?}");
        assert_eq!((stale.figures().stale_from_cache, stale.figures().ages.latency.unwrap().count), (3, 3));
    }

    #[test]
    fn who_answered_and_a_lost_connection_are_told_apart() {
        let (versions, stale) = (Versions::new(1), Stale::default());
        versions.raise(0, 1, Raised { at_ns: 0, disconnected: false });
        stale.note(&versions, &read(0, 1, Served::Server));
        stale.note(&versions, &read(0, 1, Served::Cache));
        stale.note(&versions, &read(0, 1, Served::Unknown));
        versions.raise(0, 2, Raised { at_ns: 0, disconnected: true });
        (0..6).for_each(|_| stale.note(&versions, &read(1, 2, Served::Cache)));
        let figures = stale.figures();
        assert_eq!((figures.stale_from_server, figures.stale_from_cache, figures.after_disconnect), (1, 2, 6));
        assert_eq!((figures.first.len(), figures.first[1].version), (KEPT, Some(0)));
    }
}
