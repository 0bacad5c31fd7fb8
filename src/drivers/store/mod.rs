//! The harness's own client-side cache, for drivers whose client brings the invalidations and no cache: a [`quick_cache`] of
//! whole replies, a time to live, and the rule that a reply never outlives its invalidation.
//!
//! A read that misses may be answered before, and be stored after, the invalidation of its key. So keys fall into stripes, each
//! with a count of invalidations. A miss notes the count *before* its command is sent; its reply is stored only if the count
//! is the same, and under the stripe's lock. An invalidation raises the count and drops the entry under the same lock. A hit takes no
//! lock but that of the cache's shard, for reading, and copies no bytes.
//!
//! The price: a reply is not stored either when another key of its stripe was invalidated meanwhile. It is read again then.

mod counters;

#[cfg(test)]
mod tests;

use std::hash::BuildHasher;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter};

use super::{CacheCounts, CacheMode, CacheSettings, Capacity, Error};
use crate::resp::{Invalidated, invalidated};
use counters::Counters;

/// Keys that the cache holds when nothing else is said.
pub const DEFAULT_ENTRIES: NonZeroU64 = NonZeroU64::new(1 << 16).unwrap();

/// What these caches have in common, for the notes of their drivers.
pub const NOTE: &str = "The harness's cache is quick_cache (S3-FIFO). As it ships: 65,536 keys, no time to live. Missing keys are cached too. A reply is not stored when an invalidation of its key, or of another key in the same of 2,048 stripes, came since its command was sent.";

/// What goes before each `GET` whose reply is to be stored.
pub fn beside_miss(mode: CacheMode) -> &'static [(&'static str, u64)] {
    match mode {
        CacheMode::OptIn => &[("client|caching", 1)],
        CacheMode::All | CacheMode::Broadcast => &[],
    }
}

const STRIPES: usize = 2_048;

/// What an entry is taken to weigh where only the bytes of all are known; decides nothing but the number of shards.
const USUAL_BYTES: u64 = 128;

/// Entries that a shard must have room for, or there are fewer shards.
const LEAST_IN_SHARD: u64 = 32;

/// A clock that only goes forward.
pub trait Ticks: Send + Sync + 'static {
    /// Time since some fixed moment.
    fn now(&self) -> Duration;
}

/// The system's monotonic clock.
#[derive(Debug)]
pub struct Monotonic(Instant);

impl Ticks for Monotonic {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

#[derive(Clone)]
struct Entry {
    /// `None` is a missing key.
    value: Option<Bytes>,
    /// When it was stored; zero where nothing expires.
    stored: Duration,
}

#[derive(Clone, Copy)]
enum Weight {
    Entries,
    Bytes,
}

impl Weighter<Bytes, Entry> for Weight {
    fn weight(&self, key: &Bytes, entry: &Entry) -> u64 {
        match self {
            Weight::Entries => 1,
            // Not zero: what weighs nothing is never evicted.
            Weight::Bytes => (key.len() + entry.value.as_ref().map_or(0, Bytes::len)).max(1) as u64,
        }
    }
}

/// Counts what is dropped for want of room, and what is too large to be let in.
#[derive(Clone)]
struct Evicted(Arc<Counters>);

impl Lifecycle<Bytes, Entry> for Evicted {
    type RequestState = ();

    fn on_evict(&self, (): &mut (), _: Bytes, _: Entry) {
        self.0.evictions.add(1);
    }
}

/// What a miss knows of its key's stripe since before its command was sent.
#[derive(Debug)]
pub struct Ticket(Option<(usize, u64)>);

/// What a read finds.
#[derive(Debug)]
pub enum Found {
    /// The cached reply, `None` for nil.
    Hit(Option<Bytes>),
    /// Nothing; the ticket is for [`Store::insert`].
    Miss(Ticket),
}

/// A cache that all callers of one cached client share.
pub struct Store<T: Ticks = Monotonic> {
    cache: Cache<Bytes, Entry, Weight, DefaultHashBuilder, Evicted>,
    stripes: Box<[Mutex<u64>]>,
    hasher: DefaultHashBuilder,
    counters: Arc<Counters>,
    ttl: Option<Duration>,
    /// Beginning of the keys that the server tells about; others are not stored. Empty for all.
    prefix: Box<[u8]>,
    /// Why no read is served any more.
    ended: OnceLock<Error>,
    ticks: T,
}

impl Store {
    /// An empty cache.
    pub fn new(options: &CacheSettings) -> Self {
        Self::with_clock(options, Monotonic(Instant::now()))
    }
}

impl<T: Ticks> Store<T> {
    /// As [`Store::new`], with another clock: tests control it.
    pub fn with_clock(options: &CacheSettings, ticks: T) -> Self {
        let capacity = options.capacity.unwrap_or(Capacity::Entries(DEFAULT_ENTRIES));
        let (weight, most, entries) = match capacity {
            Capacity::Entries(most) => (Weight::Entries, most.get(), most.get()),
            Capacity::Bytes(most) => (Weight::Bytes, most.get(), most.get().div_ceil(USUAL_BYTES)),
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let fitting = (entries / LEAST_IN_SHARD).clamp(1, (cores * 4).next_power_of_two());
        // A power of two, rounded down.
        let shards = 1_u64 << fitting.ilog2();
        let cache_options = OptionsBuilder::new()
            .shards(shards as usize)
            // Enough that no shards are taken away again, so that what each may hold comes to what was asked for, and to no more.
            .estimated_items_capacity(usize::try_from(entries.max(shards * LEAST_IN_SHARD)).unwrap_or(usize::MAX))
            .weight_capacity(most - most % shards)
            .build()
            .expect("both capacities are set");
        let counters = Arc::new(Counters::default());
        let prefix = if options.mode == CacheMode::Broadcast { options.prefix.as_slice() } else { &[] };
        Self {
            cache: Cache::with_options(cache_options, weight, DefaultHashBuilder::default(), Evicted(counters.clone())),
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            hasher: DefaultHashBuilder::default(),
            counters,
            ttl: options.ttl,
            prefix: prefix.into(),
            ended: OnceLock::new(),
            ticks,
        }
    }

    fn stripe(&self, key: &[u8]) -> usize {
        self.hasher.hash_one(key) as usize % STRIPES
    }

    fn lock(&self, stripe: usize) -> MutexGuard<'_, u64> {
        self.stripes[stripe].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_expired(&self, entry: &Entry) -> bool {
        self.ttl.is_some_and(|ttl| self.ticks.now().saturating_sub(entry.stored) > ttl)
    }

    /// Looks a key up and counts a hit or a miss.
    ///
    /// # Errors
    /// What [`Store::end`] was given.
    pub fn look_up(&self, key: &[u8]) -> Result<Found, Error> {
        if let Some(entry) = self.cache.get(key) {
            if !self.is_expired(&entry) {
                // Asked last: what was found before the end is not served after it.
                if let Some(reason) = self.ended.get() {
                    return Err(reason.clone());
                }
                self.counters.hits.add_one();
                return Ok(Found::Hit(entry.value));
            }
            if self.cache.remove_if(key, |entry| self.is_expired(entry)).is_some() {
                self.counters.expirations.add(1);
            }
        }
        if let Some(reason) = self.ended.get() {
            return Err(reason.clone());
        }
        self.counters.misses.add_one();
        let told = key.starts_with(&self.prefix);
        Ok(Found::Miss(Ticket(told.then(|| {
            let stripe = self.stripe(key);
            (stripe, *self.lock(stripe))
        }))))
    }

    /// Stores the reply to a miss, unless its key may have been invalidated since. Copies: the reply is a part of a larger buffer, which
    /// would be kept for it.
    pub fn insert(&self, ticket: Ticket, key: &[u8], value: Option<&[u8]>) {
        let Ticket(Some((stripe, epoch))) = ticket else { return };
        let (key, value) = (Bytes::copy_from_slice(key), value.map(Bytes::copy_from_slice));
        let stored = if self.ttl.is_some() { self.ticks.now() } else { Duration::ZERO };
        let current = self.lock(stripe);
        if *current == epoch {
            // What another miss stored meanwhile would be counted as evicted when replaced.
            self.cache.remove_if(&key, |_| true);
            self.cache.insert(key, Entry { value, stored });
        }
    }

    fn remove(&self, key: &[u8]) -> bool {
        let mut epoch = self.lock(self.stripe(key));
        *epoch += 1;
        self.cache.remove_if(key, |_| true).is_some()
    }

    /// Drops a key because the server said so.
    pub fn invalidate(&self, key: &[u8]) {
        if self.remove(key) {
            self.counters.invalidations.add(1);
        }
    }

    /// Drops a key for a reason of our own.
    pub fn forget(&self, key: &[u8]) {
        self.remove(key);
    }

    /// Drops all entries for a reason of our own, and returns how many.
    pub fn forget_all(&self) -> u64 {
        // First no reply that is under way can be stored, then what is stored goes.
        for stripe in &self.stripes {
            *stripe.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        }
        let dropped = std::cell::Cell::new(0);
        self.cache.retain(|_, _| {
            dropped.set(dropped.get() + 1);
            false
        });
        dropped.get()
    }

    /// Drops all entries because the server said so.
    pub fn invalidate_all(&self) {
        self.counters.invalidations.add(self.forget_all());
    }

    /// Does what a push says, if it is an invalidation.
    pub fn pushed(&self, frame: &[u8]) {
        match invalidated(frame) {
            Some(Invalidated::Keys(keys)) => keys.for_each(|key| self.invalidate(key)),
            Some(Invalidated::All) => self.invalidate_all(),
            None => {}
        }
    }

    /// Ends the cache: it can't know any more what changes. All entries go, and each read from now on fails with `reason`.
    pub fn end(&self, reason: &Error) {
        if self.ended.set(reason.clone()).is_ok() {
            self.forget_all();
        }
    }

    /// What was counted so far.
    pub fn counts(&self) -> CacheCounts {
        CacheCounts {
            hits: self.counters.hits.get(),
            misses: self.counters.misses.get(),
            invalidations: self.counters.invalidations.get(),
            evictions: Some(self.counters.evictions.get()),
            expirations: Some(self.counters.expirations.get()),
            entries: Some(self.cache.len() as u64),
        }
    }
}

/// Forgets a key when dropped: for a write of which the server sends no invalidation to its own connection. What was read before
/// the write and is stored during it goes with its end, also when nobody waits for that.
pub struct Forgets<'a>(&'a Store, &'a [u8]);

impl<'a> Forgets<'a> {
    /// Forgets the key now and again at the end.
    pub fn new(store: &'a Store, key: &'a [u8]) -> Self {
        store.forget(key);
        Self(store, key)
    }
}

impl Drop for Forgets<'_> {
    fn drop(&mut self) {
        self.0.forget(self.1);
    }
}
