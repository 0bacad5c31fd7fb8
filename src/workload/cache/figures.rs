//! What a cached run gave beside what every run gives.

use serde::{Deserialize, Serialize};

use crate::drivers::{CacheCounts, CacheMode, Capacity, CountedBy};
use crate::measure::Distribution;

/// What a cache did in a run, and whether it lied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CacheFigures {
    /// Which keys the server told about.
    pub mode: CacheMode,
    /// Without invalidations for own writes.
    pub noloop: bool,
    /// As the client got it; `None` = as it ships.
    pub capacity: Option<Capacity>,
    /// Longest that an entry was served, seconds; `None` = as it ships.
    pub ttl_seconds: Option<f64>,
    /// SETs went through a second, plain client.
    pub external_writers: bool,
    /// Whose tracking and whose cache it is.
    pub way: String,
    /// What the cache counted in the run, probes included.
    pub counts: CacheCounts,
    /// Reads of the probes among them.
    pub probe_reads: ProbeReads,
    /// Who counted hits and misses.
    pub reads_by: CountedBy,
    /// Who counted invalidations.
    pub invalidations_by: CountedBy,
    /// Who counted evictions; `None` when nobody can.
    pub evictions_by: Option<CountedBy>,
    /// Latency of hits.
    pub hit: Distribution,
    /// Of misses.
    pub miss: Distribution,
    /// Of reads of which nobody can tell.
    pub unknown: Distribution,
    /// Of writes.
    pub write: Distribution,
    /// What two readings of the clock with nothing in between say, nanoseconds: so much of each of these latencies is the clock.
    pub clock_ns: f64,
    /// Growth of the live heap from before the cached client was opened to the end of the run, without what the harness keeps:
    /// the cache and the buffers of its connections, bytes. `None` without the counting allocator.
    pub memory_bytes: Option<u64>,
    /// Whether reads were older than what the client had been told of.
    pub staleness: Staleness,
    /// How late invalidations came; `None` without probes.
    pub lag: Option<Lag>,
    /// The series.
    pub seconds: Vec<CacheSecond>,
}

/// Reads of the probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeReads {
    /// From the cache.
    pub hits: u64,
    /// From the server.
    pub misses: u64,
    /// Those of `hits` that are taken for hits, since the client does not say: one for each probe.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown: u64,
}

// The form that serde asks for.
#[expect(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The account of versions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Staleness {
    /// Reads of the callers that were answered, each of which was checked.
    pub checked: u64,
    /// Those of them whose key had a floor: it was written in this run or its warm-up, and the client had been told.
    #[serde(default)]
    pub with_floor: u64,
    /// Writes that were acknowledged.
    pub writes: u64,
    /// Those of them beside which no other write of the key was under way: only these give a floor.
    pub clean_writes: u64,
    /// Delivery fences.
    pub fences: u64,
    /// Fences that failed.
    pub fences_failed: u64,
    /// Stale reads that the cache answered.
    pub stale_from_cache: u64,
    /// Stale reads that a server answered.
    pub stale_from_server: u64,
    /// Stale reads after the tracked connection was lost.
    pub after_disconnect: u64,
    /// The oldest stale read, nanoseconds: from when its version was first found too old for its key to its end.
    pub longest_ns: u64,
    /// The same of all stale reads.
    #[serde(default)]
    pub ages: Distribution,
    /// The first few.
    pub first: Vec<StaleRead>,
    /// Why reads could not be judged, and no stale read is counted; `None` when they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unjudged: Option<String>,
}

/// One stale read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StaleRead {
    /// The key.
    pub key: String,
    /// The version that was returned; `None`, for nil, is in older records only.
    pub version: Option<u64>,
    /// The version that it must have had at least.
    pub floor: u64,
    /// Nanoseconds from when that version was first found too old for its key to the end of the read.
    pub age_ns: u64,
}

/// How late invalidations came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lag {
    /// Probes that were asked for.
    pub per_second: u32,
    /// Of own writes.
    pub own: LagFigures,
    /// Of foreign writes.
    pub foreign: LagFigures,
}

/// Lag of one kind of writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LagFigures {
    /// Probes that went to their end.
    pub probes: u64,
    /// Probes whose new value was not seen in time.
    pub unresolved: u64,
    /// Probes that were given up: the key did not stay in the cache, or a command failed.
    #[serde(default)]
    pub skipped: u64,
    /// How long a probe had been waiting for the new value when the run ended, nanoseconds from the write's reply: it is in none of
    /// the other figures. 0 when none was under way.
    #[serde(default)]
    pub waited_ns: u64,
    /// From a write's reply to the end of the first read that returned it, of those that saw it.
    pub latency: Distribution,
    /// How finely that could be told: from the beginning of the last read that returned the old value (or the write's reply) to the same end. The
    /// invalidation came somewhere in between.
    #[serde(default)]
    pub gap: Distribution,
}

/// One interval of the series, without the reads of the probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CacheSecond {
    /// Reads of the callers from the cache.
    pub hits: u64,
    /// Reads of the callers from the server.
    pub misses: u64,
    /// Entries dropped because the server said so.
    pub invalidations: u64,
    /// Entries dropped for want of room.
    pub evictions: Option<u64>,
}

impl CacheFigures {
    /// Hits of the callers.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.counts.hits.saturating_sub(self.probe_reads.hits)
    }

    /// Misses of the callers.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.counts.misses.saturating_sub(self.probe_reads.misses)
    }

    /// Misses of the callers that are among the latencies of hits, since their replies were there when their callers first looked
    /// ([`at_once`](crate::drivers::at_once)): by how much these are more than the hits that the client counted.
    #[must_use]
    pub fn mistaken(&self) -> u64 {
        self.hit.latency.map_or(0, |latency| latency.count).saturating_sub(self.hits())
    }

    /// Hits and misses as one class, unless nearly every read was told right: at most 1 % of what is among the hits may be misses,
    /// and at most 10 % of the misses may be missing from theirs, which are rather the slow ones.
    #[must_use]
    pub(super) fn split_or_not(mut self, all: impl FnOnce() -> Distribution) -> Self {
        let mistaken = self.mistaken();
        let hits = self.hit.latency.map_or(0, |latency| latency.count);
        if mistaken > hits / 100 || mistaken > self.misses() / 10 {
            self.unknown = all();
            (self.hit, self.miss) = (Distribution::default(), Distribution::default());
        }
        self
    }

    /// Hits of all reads of the callers, 0 to 1.
    #[must_use]
    pub fn hit_ratio(&self) -> Option<f64> {
        let reads = self.hits() + self.misses();
        (reads > 0).then(|| self.hits() as f64 / reads as f64)
    }

    /// All stale reads.
    #[must_use]
    pub fn stale(&self) -> u64 {
        self.staleness.stale_from_cache + self.staleness.stale_from_server + self.staleness.after_disconnect
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::latency::histogram;

    fn distribution(count: u64) -> Distribution {
        let mut values = histogram();
        values.record_n(100, count).unwrap();
        Distribution::of(&values)
    }

    /// Of a client that counted `hits` and `misses`, of which `mistaken` misses were told as hits.
    fn told(hits: u64, misses: u64, mistaken: u64) -> CacheFigures {
        let figures = CacheFigures {
            mode: CacheMode::All,
            noloop: false,
            capacity: None,
            ttl_seconds: None,
            external_writers: false,
            way: String::new(),
            counts: CacheCounts { hits, misses, ..CacheCounts::default() },
            probe_reads: ProbeReads::default(),
            reads_by: CountedBy::Client,
            invalidations_by: CountedBy::Client,
            evictions_by: None,
            hit: distribution(hits + mistaken),
            miss: distribution(misses - mistaken),
            unknown: Distribution::default(),
            write: Distribution::default(),
            clock_ns: 0.0,
            memory_bytes: None,
            staleness: Staleness::default(),
            lag: None,
            seconds: Vec::new(),
        };
        figures.split_or_not(|| distribution(hits + misses))
    }

    #[test]
    fn hits_and_misses_are_timed_apart_only_where_nearly_all_were_told_right() {
        let apart = |figures: &CacheFigures| figures.unknown == Distribution::default();
        assert_eq!(told(10_000, 1_000, 99).mistaken(), 99);
        assert!(apart(&told(10_000, 1_000, 0)) && apart(&told(10_000, 1_000, 99)));
        let many_among_hits = told(1_000, 1_000, 20);
        let many_of_misses = told(100_000, 100, 11);
        for (figures, reads) in [(many_among_hits, 2_000), (many_of_misses, 100_100)] {
            assert_eq!((&figures.hit, &figures.miss), (&Distribution::default(), &Distribution::default()));
            assert_eq!(figures.unknown.latency.unwrap().count, reads);
        }
    }
}
