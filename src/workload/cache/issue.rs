//! What a caller of a cached load does: reads by the cache, each checked against its key's floor, and versioned writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::fence::Log;
use super::keyspace::put;
use super::stale::{Read, Stale};
use super::versions::{VERSION_BYTES, Versions, version};
use crate::drivers::{Cached, CachedRead, Commands, Error, Served};
use crate::workload::load::issue::{Batch, Fault, Issue, first_argument};
use crate::workload::mix::{Call, Mix, Slot};

/// What all callers of one run share.
pub struct Account {
    /// The versions of all keys.
    pub versions: Arc<Versions>,
    /// Where clean writes go; `None` when writes say nothing of what the client was told.
    pub log: Option<Arc<Log>>,
    /// Stale reads.
    pub stale: Stale,
    /// Clean writes that were acknowledged.
    pub clean_writes: AtomicU64,
    /// Reads of keys whose floor was above 0.
    pub with_floor: AtomicU64,
}

/// A caller. Each clone counts by itself and adds it up when dropped.
pub struct Caller<C, F> {
    cached: C,
    /// Who writes, if not the cached client.
    writer: Option<F>,
    account: Arc<Account>,
    /// Only this caller writes it.
    with_floor: AtomicU64,
}

impl<C, F> Caller<C, F> {
    /// A caller that writes through `writer`, or the cached client itself.
    pub fn new(cached: C, writer: Option<F>, account: Arc<Account>) -> Self {
        Self { cached, writer, account, with_floor: AtomicU64::new(0) }
    }
}

impl<C: Clone, F: Clone> Clone for Caller<C, F> {
    fn clone(&self) -> Self {
        Self::new(self.cached.clone(), self.writer.clone(), self.account.clone())
    }
}

impl<C, F> Drop for Caller<C, F> {
    fn drop(&mut self) {
        self.account.with_floor.fetch_add(*self.with_floor.get_mut(), Ordering::AcqRel);
    }
}

impl<C: Cached, F: Commands> Caller<C, F> {
    async fn write(&self, place: usize, key: &[u8], value: &mut [u8]) -> Result<(), Error> {
        let account = &*self.account;
        let writing = account.versions.begin(place);
        put(value, writing.version);
        let written = match &self.writer {
            None => self.cached.set(key, value).await,
            Some(writer) => writer.set(key, value).await,
        };
        account.versions.end(&writing, written.is_ok());
        if written.is_ok() && writing.clean {
            account.clean_writes.fetch_add(1, Ordering::AcqRel);
            if let Some(log) = &account.log {
                log.note(place, writing.version);
            }
        }
        written
    }

    /// Checks what a read returned that began when the floor was `floor`.
    fn check(&self, mix: &Mix, slot: &Slot, floor: u64, read: &CachedRead<C::Blob>, verify: bool) -> Result<(), Fault> {
        let label = || &mix.entries()[slot.entry].label;
        let wrong = |text: String| Err(Fault::Wrong(format!("{} {text}", label())));
        let place = mix.place(slot);
        if floor > 0 {
            // No other thread writes it, so no locked instruction is needed.
            self.with_floor.store(self.with_floor.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        let Some(value) = &read.value else {
            // Every key was there from the beginning. So nil is no older value: the server dropped the key (eviction, FLUSHALL), and
            // a cache may hold that it is gone.
            let who = if read.served == Served::Cache { " in the cache" } else { "" };
            return wrong(format!("found nothing{who} under a key that was written before; the server may have dropped it"));
        };
        let value = value.as_ref();
        let Some(got) = version(value) else { return wrong(format!("returned {} bytes without a version", value.len())) };
        if verify && value.get(VERSION_BYTES..) != mix.expected_value(slot).get(VERSION_BYTES..) {
            return wrong(format!("returned {} other bytes than were written", value.len()));
        }
        if got >= floor && got > self.account.versions.last(place) {
            return wrong(format!("returned version {got}, which nobody wrote"));
        }
        if got < floor {
            let read = Read { key: first_argument(&slot.command, 0), place, version: got, floor, served: read.served };
            self.account.stale.note(&self.account.versions, &read);
        }
        Ok(())
    }
}

/// Classes of an entry by who answered; writes are all of the first.
pub const CLASSES: usize = 3;

/// The class of reads that were answered so.
#[must_use]
pub fn class(served: Served) -> usize {
    match served {
        Served::Cache => 0,
        Served::Server => 1,
        Served::Unknown => 2,
    }
}

impl<C: Cached, F: Commands> Issue for Caller<C, F> {
    const CLASSES: usize = CLASSES;

    async fn issue(&self, mix: &Mix, batch: &mut Batch, verify: bool) {
        let (slot, value) = batch.lone();
        let (class, replied, outcome) = if mix.entries()[slot.entry].call == Call::Get {
            // Before the read is sent, so that what is told during it asks nothing of it.
            let floor = self.account.versions.floor(mix.place(slot));
            let read = self.cached.get(first_argument(&slot.command, 0)).await;
            let replied = Instant::now();
            match read {
                Ok(read) => (class(read.served), replied, self.check(mix, slot, floor, &read, verify)),
                Err(error) => (0, replied, Err(Fault::of(error))),
            }
        } else {
            value.clear();
            value.extend_from_slice(first_argument(&slot.command, 1));
            let written = self.write(mix.place(slot), first_argument(&slot.command, 0), value).await;
            (0, Instant::now(), written.map_err(Fault::of))
        };
        batch.conclude(class, replied, outcome);
    }

    /// A hit never waits, so its caller yields by itself, or the connection's task would get no turn.
    async fn rest(&self) {
        tokio::task::coop::consume_budget().await;
    }
}
