//! When the client has been told: a command over the tracked connection whose reply comes after every invalidation of what was written
//! before it was sent.
//!
//! A server puts the invalidation of a key into the output of each client that tracks it while it executes the write (`trackingInvalidateKey`
//! in `tracking.c`): for other clients before the writer gets its reply, for the writer itself right behind its reply, in the same
//! go. So when a write is acknowledged its invalidation is in the tracked connection's output, and the reply to whatever is sent over that
//! connection from then on comes after it. Threads for I/O change nothing: commands are executed, and output is lined up, by one thread (Redis 8 keeps
//! tracking clients on it altogether, `isClientMustHandledByMainThread`).
//!
//! In broadcast mode the invalidations of one turn of the server's event loop are put into the output at its end (`beforeSleep`), after the replies
//! to commands of the same turn. A write's reply may be sent before that where another thread sends it, or the writer's output had
//! been full. So a fence may fall into the same turn and its reply come first. In one turn a connection is read once: a second fence, sent after the
//! first one's reply, is of a later turn, and its reply comes after the invalidation. Hence two round trips.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::{Notify, watch};

use super::versions::{Raised, Versions};
use crate::drivers::{CacheMode, Command, Commands, Error, Servers, Topology};
use crate::net::Endpoint;
use crate::resp::key_slot;
use crate::window::slot_ranges;
use crate::workload::mix::KEY_PREFIX;

/// Shortest time from the start of a fence to that of the next: 500 in a second.
const APART: Duration = Duration::from_millis(2);
/// Writes that may wait for a fence before it is looked whether they are of the same keys: 16 MiB.
const MOST_WAITING: usize = 1 << 20;
/// More tags than are ever tried before each master has one: 16,384 slots.
const MOST_TAGS: u32 = 1 << 20;

/// Writes that were acknowledged and not yet fenced: the number of the key and the version.
#[derive(Default)]
pub struct Log {
    writes: Mutex<Vec<(usize, u64)>>,
    filled: Notify,
}

impl Log {
    /// Notes a clean write that was acknowledged.
    pub fn note(&self, place: usize, version: u64) {
        let mut writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        writes.push((place, version));
        if writes.len() == 1 {
            self.filled.notify_one();
        }
    }

    /// Moves all into `into`, behind what is there.
    fn take(&self, into: &mut Vec<(usize, u64)>) {
        into.append(&mut self.writes.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// What the fences of one run came to.
#[derive(Default)]
pub struct Fences {
    /// Fences that were begun.
    pub begun: AtomicU64,
    /// Those of them that passed. The others failed, or one was under way when the run was over for good.
    pub passed: AtomicU64,
    /// Commands that were sent for them.
    pub sent: AtomicU64,
    /// Commands that were answered as wanted.
    pub answered: AtomicU64,
    /// Why there are none, if that is so.
    pub refused: Mutex<Option<String>>,
}

/// The slots of a cluster's masters, by their addresses.
pub type Slots = BTreeMap<(u16, u16), String>;

/// Who serves which slots; empty for a standalone server.
///
/// # Errors
/// No seed answers.
pub async fn slots(servers: &Servers) -> Result<Slots, Error> {
    if servers.topology == Topology::Standalone {
        return Ok(Slots::new());
    }
    let mut reason = Error::Connection("no seed of the cluster was given".into());
    for seed in &servers.endpoints {
        match slot_ranges(seed).await {
            Ok(ranges) => {
                return Ok(ranges.into_iter().map(|(first, last, address)| ((first, last), node(seed, address))).collect());
            }
            Err(error) => reason = error,
        }
    }
    Err(reason)
}

fn node(seed: &Endpoint, address: crate::net::Address) -> String {
    seed.at(address).to_string()
}

/// How to send a fence.
pub struct Fence {
    /// One for each master.
    commands: Vec<Command>,
    /// How often one after the other.
    rounds: u64,
}

impl Fence {
    /// For servers whose masters have `slots`.
    #[must_use]
    pub fn new(slots: &Slots, mode: CacheMode) -> Self {
        let fence = |key: &str| Command::new("UNLINK").arg(key);
        let rounds = if mode == CacheMode::Broadcast { 2 } else { 1 };
        if slots.is_empty() {
            return Self { commands: vec![fence(&format!("{KEY_PREFIX}fence"))], rounds };
        }
        let mut masters: Vec<&String> = slots.values().collect();
        masters.sort();
        masters.dedup();
        let mut commands = Vec::new();
        for tag in 0..MOST_TAGS {
            if masters.is_empty() {
                break;
            }
            let key = format!("{KEY_PREFIX}fence:{{{tag}}}");
            let slot = key_slot(key.as_bytes());
            let owner = slots.iter().find(|((first, last), _)| (*first..=*last).contains(&slot)).map(|(_, owner)| owner);
            if let Some(place) = masters.iter().position(|master| Some(*master) == owner) {
                masters.remove(place);
                commands.push(fence(&key));
            }
        }
        Self { commands, rounds }
    }

    /// Returns when all that was acknowledged before has been told to `client`.
    async fn pass<C: Commands>(&self, client: &C, fences: &Fences) -> Result<(), Error> {
        fences.begun.fetch_add(1, Ordering::AcqRel);
        for _ in 0..self.rounds {
            fences.sent.fetch_add(self.commands.len() as u64, Ordering::AcqRel);
            let replies = join_all(self.commands.iter().map(|command| client.call(command))).await;
            let answered = replies.iter().filter(|reply| reply.is_ok()).count();
            fences.answered.fetch_add(answered as u64, Ordering::AcqRel);
            if let Some(Err(error)) = replies.into_iter().find(Result::is_err) {
                return Err(error);
            }
        }
        fences.passed.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Fences whatever comes into `log` and raises the floors, until told to stop.
    pub async fn keep<C: Commands>(&self, client: &C, log: &Log, versions: &Versions, fences: &Fences, mut stop: watch::Receiver<bool>) {
        let mut writes = Vec::new();
        loop {
            log.take(&mut writes);
            if writes.is_empty() {
                tokio::select! {
                    () = log.filled.notified() => continue,
                    _ = stop.wait_for(|stop| *stop) => return,
                }
            }
            let begun = Instant::now();
            let told = self.pass(client, fences).await;
            let raised = |disconnected| Raised { at_ns: versions.now_ns(), disconnected };
            match told {
                Ok(()) => raise(versions, &mut writes, raised(false)),
                // Whatever it is that the server refuses, it will do so again.
                Err(error @ (Error::Server(_) | Error::Unsupported(_))) => {
                    let mut refused = fences.refused.lock().unwrap_or_else(PoisonError::into_inner);
                    *refused = Some(format!("a delivery fence (UNLINK of a key that is not there) was refused: {error}"));
                    return;
                }
                // Nobody can have told the client: what it serves from now on is as stale as a user sees it.
                Err(Error::Connection(_)) => raise(versions, &mut writes, raised(true)),
                // It may be slow, or have too much to do, so the next fence has to tell.
                Err(_) => compact(&mut writes),
            }
            tokio::select! {
                () = tokio::time::sleep_until((begun + APART).into()) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }
}

/// Keeps the highest version of each key once there are so many that most must be of few.
fn compact(writes: &mut Vec<(usize, u64)>) {
    if writes.len() >= MOST_WAITING {
        writes.sort_unstable_by_key(|&(place, version)| (place, std::cmp::Reverse(version)));
        writes.dedup_by_key(|(place, _)| *place);
    }
}

fn raise(versions: &Versions, writes: &mut Vec<(usize, u64)>, raised: Raised) {
    for (place, version) in writes.drain(..) {
        versions.raise(place, version, raised);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_writes_that_wait_too_long_the_last_of_each_key_is_kept() {
        let mut writes: Vec<_> = (0..MOST_WAITING).map(|write| (write % 3, write as u64 + 1)).collect();
        let last = writes[MOST_WAITING - 3..].to_vec();
        compact(&mut writes);
        let mut kept = writes.clone();
        kept.sort_unstable_by_key(|&(_, version)| version);
        assert_eq!(kept, last);
        compact(&mut writes);
        assert_eq!(writes.len(), 3);
    }

    #[test]
    fn each_master_has_a_fence_of_its_own_whatever_slots_it_has() {
        let slots: Slots = [((0, 10), "a"), ((11, 16_000), "b"), ((16_001, 16_001), "c"), ((16_002, 16_383), "a")]
            .map(|(range, owner)| (range, owner.to_owned()))
            .into();
        let fence = Fence::new(&slots, CacheMode::All);
        let mut owners: Vec<_> = (fence.commands.iter())
            .map(|command| {
                let slot = key_slot(command.key().unwrap());
                slots.iter().find(|((first, last), _)| (*first..=*last).contains(&slot)).unwrap().1.as_str()
            })
            .collect();
        owners.sort_unstable();
        assert_eq!(owners, ["a", "b", "c"]);
        assert_eq!(Fence::new(&Slots::new(), CacheMode::Broadcast).rounds, 2);
    }
}
