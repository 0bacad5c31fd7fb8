//! How late invalidations come: keys that nobody else uses are read until they are cached, written, and read again until the new
//! value is there.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::figures::{Lag, LagFigures, ProbeReads};
use super::keyspace::{PROBE_KEYS, probe_key};
use super::versions::{digits, version};
use crate::drivers::{Cached, Commands, Error, Served};
use crate::measure::Distribution;
use crate::measure::clock::nanos;
use crate::measure::latency::histogram;

/// When a probe is given up.
const LONGEST: Duration = Duration::from_secs(2);
/// So long it reads without a pause but that others have a turn; later with pauses, so that an entry that stays does not cost a core.
const EAGER: Duration = Duration::from_millis(5);
/// Such a pause.
const PAUSE: Duration = Duration::from_millis(1);
/// Reads before a write that may miss.
const MOST_MISSES: usize = 10;

/// What the probes of one run came to, while they go on.
#[derive(Default)]
pub struct Probes(Mutex<Found>);

struct Found {
    reads: ProbeReads,
    /// Reads that were begun.
    begun: u64,
    /// Reads that were answered.
    answered: u64,
    /// Writes that were begun, and acknowledged.
    writes: u64,
    acknowledged: u64,
    own: Kind,
    foreign: Kind,
}

struct Kind {
    probes: u64,
    unresolved: u64,
    skipped: u64,
    /// Since when the probe that is under way waits for the new value.
    waiting: Option<Instant>,
    waited_ns: u64,
    lag: Histogram<u64>,
    gap: Histogram<u64>,
}

impl Default for Kind {
    fn default() -> Self {
        Self { probes: 0, unresolved: 0, skipped: 0, waiting: None, waited_ns: 0, lag: histogram(), gap: histogram() }
    }
}

impl Default for Found {
    fn default() -> Self {
        let (own, foreign) = (Kind::default(), Kind::default());
        Self { reads: ProbeReads::default(), begun: 0, answered: 0, writes: 0, acknowledged: 0, own, foreign }
    }
}

impl Kind {
    fn figures(&self) -> LagFigures {
        LagFigures {
            probes: self.probes,
            unresolved: self.unresolved,
            skipped: self.skipped,
            // One that is not over was ended with its task.
            waited_ns: self.waiting.map_or(self.waited_ns, |since| nanos(since.elapsed())),
            latency: Distribution::of(&self.lag),
            gap: Distribution::of(&self.gap),
        }
    }
}

/// Commands of the probes, for the audit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeCommands {
    /// Reads that were answered, from wherever.
    pub reads: u64,
    /// Reads without an answer.
    pub reads_lost: u64,
    /// Writes that were acknowledged.
    pub writes: u64,
    /// Writes that were not.
    pub writes_lost: u64,
}

impl Probes {
    fn found<T>(&self, work: impl FnOnce(&mut Found) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn kind(&self, own: bool, work: impl FnOnce(&mut Kind)) {
        self.found(|found| work(if own { &mut found.own } else { &mut found.foreign }));
    }

    /// The lags.
    #[must_use]
    pub fn lag(&self, per_second: u32) -> Lag {
        self.found(|found| Lag { per_second, own: found.own.figures(), foreign: found.foreign.figures() })
    }

    /// Its reads by who answered.
    #[must_use]
    pub fn reads(&self) -> ProbeReads {
        self.found(|found| found.reads)
    }

    /// What it sent.
    #[must_use]
    pub fn commands(&self) -> ProbeCommands {
        self.found(|found| ProbeCommands {
            reads: found.answered,
            reads_lost: found.begun - found.answered,
            writes: found.acknowledged,
            writes_lost: found.writes - found.acknowledged,
        })
    }
}

/// How a probe ended before its time.
enum Cut {
    /// The run is over.
    Over,
    /// A command failed, or the key did not stay in the cache.
    Skipped,
}

/// Which clients probe.
pub struct Prober<C, F> {
    /// The cached one.
    pub cached: C,
    /// Another, whose writes are foreign.
    pub foreign: F,
    /// Whether own writes are probed too.
    pub own: bool,
    /// Probes in a second.
    pub per_second: u32,
    /// The last version written to each key.
    pub versions: Arc<Mutex<[u64; PROBE_KEYS]>>,
}

impl<C: Cached, F: Commands> Prober<C, F> {
    /// Probes until told to stop.
    pub async fn keep(&self, probes: &Probes, stop: watch::Receiver<bool>) {
        let mut due = tokio::time::interval(Duration::from_secs(1) / self.per_second.max(1));
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stopped = stop.clone();
        for number in 0_usize.. {
            tokio::select! {
                _ = due.tick() => {}
                _ = stopped.wait_for(|stop| *stop) => return,
            }
            let own = self.own && number % 2 == 0;
            // Own and foreign probes use all keys alike.
            let ended = self.probe(number / 2 % PROBE_KEYS, own, probes, &stop).await;
            probes.kind(own, |kind| {
                let waiting = kind.waiting.take();
                match ended {
                    Ok(()) => {}
                    Err(Cut::Over) => kind.waited_ns = waiting.map_or(0, |since| nanos(since.elapsed())),
                    Err(Cut::Skipped) => kind.skipped += 1,
                }
            });
            if matches!(ended, Err(Cut::Over)) {
                return;
            }
        }
    }

    /// One read; its version.
    async fn read(&self, key: &[u8], probes: &Probes) -> Result<(u64, Served), Cut> {
        probes.found(|found| found.begun += 1);
        let read = self.cached.get(key).await;
        probes.found(|found| found.answered += u64::from(read.is_ok()));
        let read = read.map_err(|_| Cut::Skipped)?;
        Ok((read.value.as_ref().and_then(|value| version(value.as_ref())).unwrap_or(0), read.served))
    }

    async fn write(&self, key: &[u8], number: usize, own: bool, probes: &Probes) -> Result<u64, Cut> {
        let next = {
            let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
            versions[number] += 1;
            versions[number]
        };
        probes.found(|found| found.writes += 1);
        let value = digits(next);
        let written: Result<(), Error> = if own { self.cached.set(key, &value).await } else { self.foreign.set(key, &value).await };
        written.map_err(|_| Cut::Skipped)?;
        probes.found(|found| found.acknowledged += 1);
        Ok(next)
    }

    async fn probe(&self, number: usize, own: bool, probes: &Probes, stop: &watch::Receiver<bool>) -> Result<(), Cut> {
        let key = probe_key(number);
        self.warm(&key, probes, stop).await?;
        let wanted = self.write(&key, number, own, probes).await?;
        let written = Instant::now();
        probes.kind(own, |kind| kind.waiting = Some(written));
        // When the last read that returned an older version began.
        let mut before = written;
        loop {
            if *stop.borrow() {
                return Err(Cut::Over);
            }
            let begun = Instant::now();
            let (got, _) = self.read(&key, probes).await?;
            let ended = Instant::now();
            // The server had the new version before any of these reads began, and nobody else reads this key.
            // So what is older came from the cache, and the first that is not can't have.
            if got >= wanted {
                probes.found(|found| found.reads.misses += 1);
                probes.kind(own, |kind| {
                    kind.probes += 1;
                    kind.lag.saturating_record(nanos(ended.duration_since(written)).max(1));
                    kind.gap.saturating_record(nanos(ended.duration_since(before)).max(1));
                });
                return Ok(());
            }
            probes.found(|found| found.reads.hits += 1);
            before = begun;
            let waited = ended.duration_since(written);
            if waited >= LONGEST {
                probes.kind(own, |kind| (kind.probes, kind.unresolved) = (kind.probes + 1, kind.unresolved + 1));
                return Ok(());
            }
            if waited < EAGER {
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Reads until the cache answers.
    async fn warm(&self, key: &[u8], probes: &Probes, stop: &watch::Receiver<bool>) -> Result<(), Cut> {
        for _ in 0..MOST_MISSES {
            if *stop.borrow() {
                return Err(Cut::Over);
            }
            match self.read(key, probes).await?.1 {
                Served::Cache => {
                    probes.found(|found| found.reads.hits += 1);
                    return Ok(());
                }
                Served::Server => probes.found(|found| found.reads.misses += 1),
                // The probe before left it in the cache, if it stayed there.
                Served::Unknown => {
                    probes.found(|found| (found.reads.hits, found.reads.unknown) = (found.reads.hits + 1, found.reads.unknown + 1));
                    return Ok(());
                }
            }
            tokio::task::yield_now().await;
        }
        Err(Cut::Skipped)
    }
}
