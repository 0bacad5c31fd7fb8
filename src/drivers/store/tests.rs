use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;

/// A clock that a test sets.
#[derive(Clone, Default)]
struct ByHand(Arc<AtomicU64>);

impl ByHand {
    fn forward(&self, milliseconds: u64) {
        self.0.fetch_add(milliseconds, Ordering::Relaxed);
    }
}

impl Ticks for ByHand {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

fn entries(most: u64) -> CacheSettings {
    CacheSettings { capacity: NonZeroU64::new(most).map(Capacity::Entries), ..CacheSettings::default() }
}

fn bytes(most: u64) -> CacheSettings {
    CacheSettings { capacity: NonZeroU64::new(most).map(Capacity::Bytes), ..CacheSettings::default() }
}

fn miss<T: Ticks>(store: &Store<T>, key: &[u8]) -> Ticket {
    match store.look_up(key).unwrap() {
        Found::Miss(ticket) => ticket,
        Found::Hit(value) => panic!("a hit: {value:?}"),
    }
}

/// A whole read of a value that the server has.
fn read<T: Ticks>(store: &Store<T>, key: &[u8], value: Option<&[u8]>) -> Option<Bytes> {
    match store.look_up(key).unwrap() {
        Found::Hit(value) => value,
        Found::Miss(ticket) => {
            store.insert(ticket, key, value);
            value.map(Bytes::copy_from_slice)
        }
    }
}

fn hit<T: Ticks>(store: &Store<T>, key: &[u8]) -> Option<Option<Bytes>> {
    match store.look_up(key).unwrap() {
        Found::Hit(value) => Some(value),
        Found::Miss(_) => None,
    }
}

#[test]
fn replies_are_kept_until_they_are_invalidated_and_missing_keys_too() {
    let store = Store::new(&CacheSettings::default());
    for value in [Some(&b"\x00\r\n\xff"[..]), Some(b""), None] {
        read(&store, b"key", value);
        assert_eq!(hit(&store, b"key").unwrap().as_deref(), value);
        store.invalidate(b"key");
        assert!(hit(&store, b"key").is_none());
        store.invalidate(b"key");
    }
    let counts = store.counts();
    assert_eq!((counts.hits, counts.misses, counts.invalidations, counts.entries), (3, 6, 3, Some(0)));
    assert_eq!((counts.evictions, counts.expirations), (Some(0), Some(0)));
}

#[test]
fn a_reply_that_was_sent_before_an_invalidation_is_not_stored_after_it() {
    type Event = fn(&Store);
    let events: [(&str, Event); 5] = [
        ("invalidate", |store| store.invalidate(b"key")),
        ("invalidate all", Store::invalidate_all),
        ("forget", |store| store.forget(b"key")),
        ("a push", |store| store.pushed(b">2\r\n$10\r\ninvalidate\r\n*2\r\n$5\r\nother\r\n$3\r\nkey\r\n")),
        ("a push of all", |store| store.pushed(b">2\r\n$10\r\ninvalidate\r\n_\r\n")),
    ];
    for (name, event) in events {
        let store = Store::new(&CacheSettings::default());
        let ticket = miss(&store, b"key");
        event(&store);
        store.insert(ticket, b"key", Some(b"old"));
        assert!(hit(&store, b"key").is_none(), "{name}");
        read(&store, b"key", Some(b"new"));
        assert_eq!(hit(&store, b"key").unwrap().unwrap(), "new", "{name}");
        event(&store);
        assert!(hit(&store, b"key").is_none(), "{name}");
    }
}

#[test]
fn a_write_without_invalidation_forgets_at_its_begin_and_at_its_end() {
    let store = Store::new(&CacheSettings::default());
    read(&store, b"key", Some(b"old"));
    let write = Forgets::new(&store, b"key");
    assert!(hit(&store, b"key").is_none());
    read(&store, b"key", Some(b"old"));
    let ticket = miss(&store, b"other");
    drop(write);
    assert!(hit(&store, b"key").is_none());
    store.insert(ticket, b"other", None);
    assert_eq!(store.counts().invalidations, 0, "nothing of it came from the server");
}

#[test]
fn an_entry_is_not_served_beyond_its_time() {
    let clock = ByHand::default();
    let store = Store::with_clock(&CacheSettings { ttl: Some(Duration::from_millis(100)), ..entries(8) }, clock.clone());
    read(&store, b"key", Some(b"value"));
    clock.forward(100);
    assert!(hit(&store, b"key").is_some());
    clock.forward(1);
    let ticket = miss(&store, b"key");
    assert_eq!((store.counts().expirations, store.counts().entries), (Some(1), Some(0)));
    store.insert(ticket, b"key", Some(b"value"));
    clock.forward(60);
    assert!(hit(&store, b"key").is_some(), "its time begins anew");
    assert_eq!((store.counts().expirations, store.counts().invalidations), (Some(1), 0));
}

#[test]
fn a_capacity_is_never_exceeded_and_evictions_are_counted() {
    for most in [1, 2, 31, 64, 65, 1_000] {
        let store = Store::new(&entries(most));
        for number in 0..5_000_u32 {
            assert_eq!(read(&store, &number.to_be_bytes(), Some(b"value")).unwrap(), "value");
        }
        let counts = store.counts();
        let held = counts.entries.unwrap();
        assert!(held >= 1 && held <= most && held >= most / 2, "{held} of {most}");
        assert_eq!(counts.evictions, Some(5_000 - held), "capacity {most}");
    }
    let store = Store::new(&bytes(10_000));
    for number in 0..1_000_u32 {
        read(&store, &number.to_be_bytes(), Some(&[7; 96]));
    }
    let held = store.counts().entries.unwrap();
    assert!((50..=100).contains(&held) && store.cache.weight() <= 10_000, "{held} entries of 100 bytes in 10,000");
    read(&store, b"large", Some(&[7; 20_000]));
    assert!(hit(&store, b"large").is_none());
    assert!(store.cache.weight() <= 10_000);
}

#[test]
fn replacing_is_no_eviction() {
    let store = Store::new(&entries(8));
    let tickets = [miss(&store, b"key"), miss(&store, b"key"), miss(&store, b"key")];
    for ticket in tickets {
        store.insert(ticket, b"key", Some(b"value"));
    }
    assert_eq!((store.counts().evictions, store.counts().entries, store.counts().misses), (Some(0), Some(1), 3));
}

#[test]
fn only_keys_that_the_server_tells_about_are_stored() {
    let store = Store::new(&CacheSettings { mode: CacheMode::Broadcast, prefix: b"told:".to_vec(), ..CacheSettings::default() });
    for key in [&b"told:key"[..], b"other", b"told"] {
        read(&store, key, Some(b"value"));
    }
    assert!(hit(&store, b"told:key").is_some() && hit(&store, b"other").is_none() && hit(&store, b"told").is_none());
    // In the other modes a prefix means nothing.
    let store = Store::new(&CacheSettings { prefix: b"told:".to_vec(), ..CacheSettings::default() });
    read(&store, b"other", Some(b"value"));
    assert!(hit(&store, b"other").is_some());
}

#[test]
fn after_the_end_nothing_is_served_or_stored() {
    let store = Store::new(&CacheSettings::default());
    read(&store, b"key", Some(b"value"));
    let ticket = miss(&store, b"late");
    let reason = Error::Connection("it is gone".into());
    store.end(&reason);
    store.end(&Error::Client("a second end".into()));
    store.insert(ticket, b"late", Some(b"value"));
    assert_eq!(store.counts().entries, Some(0));
    assert_eq!(store.counts().invalidations, 0);
    for key in [&b"key"[..], b"late", b"new"] {
        assert_eq!(store.look_up(key).map(drop), Err(reason.clone()));
    }
    assert_eq!((store.counts().hits, store.counts().misses), (0, 2));
}

/// Readers, writers and now and then a flush. What the "server" has is a number per key. A read that begins after an
/// invalidation was handled may not be served what was before, and in the end nothing old is left.
#[test]
fn no_stale_entry_survives_many_threads() {
    const KEYS: usize = 16;
    const WRITES: u64 = 20_000;
    let store = Store::new(&CacheSettings::default());
    let server: [AtomicU64; KEYS] = Default::default();
    let floor: [AtomicU64; KEYS] = Default::default();
    let done = AtomicBool::new(false);
    let stale = AtomicU64::new(0);
    let served = AtomicU64::new(0);
    let value = |entry: Option<Bytes>| u64::from_be_bytes(entry.unwrap()[..].try_into().unwrap());
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..4_usize)
            .map(|thread| {
                let (store, server, floor, done, stale, served) = (&store, &server, &floor, &done, &stale, &served);
                scope.spawn(move || {
                    let mut turn = thread;
                    while !done.load(Ordering::Acquire) {
                        turn = turn.wrapping_mul(25).wrapping_add(13);
                        let key = (turn >> 3) % KEYS;
                        let wanted = floor[key].load(Ordering::Acquire);
                        match store.look_up(&[key as u8]).unwrap() {
                            Found::Hit(entry) => {
                                served.fetch_add(1, Ordering::Relaxed);
                                stale.fetch_add(u64::from(value(entry) < wanted), Ordering::Relaxed);
                            }
                            Found::Miss(ticket) => {
                                let reply = server[key].load(Ordering::Acquire).to_be_bytes();
                                // The longer the reply is under way, the more can come between.
                                if turn % 3 == 0 {
                                    std::thread::yield_now();
                                }
                                store.insert(ticket, &[key as u8], Some(&reply));
                            }
                        }
                    }
                })
            })
            .collect();
        let writers: Vec<_> = (0..2_usize)
            .map(|thread| {
                let (store, server, floor) = (&store, &server, &floor);
                scope.spawn(move || {
                    for write in 0..WRITES {
                        // Each key has one writer, so that its numbers only rise.
                        let key = (write as usize * 2 + thread) % KEYS;
                        let number = server[key].fetch_add(1, Ordering::AcqRel) + 1;
                        if write % 512 == 0 {
                            store.invalidate_all()
                        } else {
                            store.invalidate(&[key as u8])
                        }
                        floor[key].store(number, Ordering::Release);
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Release);
        for reader in readers {
            reader.join().unwrap();
        }
    });
    assert_eq!(stale.into_inner(), 0, "stale among {} hits", served.load(Ordering::Relaxed));
    for (key, number) in server.iter().enumerate() {
        if let Some(entry) = hit(&store, &[key as u8]) {
            assert_eq!(value(entry), number.load(Ordering::Relaxed), "key {key}");
        }
    }
    assert!(served.load(Ordering::Relaxed) > 0 && store.counts().invalidations > 0, "{:?}", store.counts());
}

#[derive(Clone, Debug)]
enum Step {
    Read(u8),
    /// A read whose reply is stored by a later step.
    Send(u8),
    Answer,
    Write(u8),
    WriteAll,
    Wait(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..12_u8).prop_map(Step::Read),
        2 => (0..12_u8).prop_map(Step::Send),
        2 => Just(Step::Answer),
        3 => (0..12_u8).prop_map(Step::Write),
        1 => Just(Step::WriteAll),
        1 => (1..60_u8).prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 1..200)
}

proptest! {
    /// Against a server that is a map, and a model of what may still be served.
    #[test]
    fn it_agrees_with_a_map(steps in steps(), limited in any::<bool>()) {
        let clock = ByHand::default();
        let options = CacheSettings { ttl: Some(Duration::from_millis(100)), ..entries(if limited { 4 } else { 1_000 }) };
        let store = Store::with_clock(&options, clock.clone());
        let mut server: HashMap<u8, u64> = HashMap::new();
        let mut kept: HashMap<u8, Duration> = HashMap::new();
        let mut under_way = Vec::new();
        let (mut reads, mut hits, mut version, mut expired) = (0, 0, 0, 0);
        for step in steps {
            let now = clock.now();
            match step {
                Step::Read(key) | Step::Send(key) => {
                    let later = matches!(step, Step::Send(_));
                    let value = server.get(&key).map(|version| version.to_be_bytes().to_vec());
                    reads += 1;
                    let old = kept.get(&key).is_some_and(|stored| now - *stored > Duration::from_millis(100));
                    if old {
                        kept.remove(&key);
                        expired += 1;
                    }
                    match store.look_up(&[key]).unwrap() {
                        Found::Hit(got) => {
                            hits += 1;
                            prop_assert!(kept.contains_key(&key), "a hit of a key that was never stored, or dropped");
                            prop_assert_eq!(got.map(|got| got.to_vec()), value);
                        }
                        Found::Miss(ticket) => {
                            prop_assert!(limited || !kept.contains_key(&key), "a miss of a stored key");
                            if later {
                                under_way.push((ticket, key, value));
                            } else {
                                store.insert(ticket, &[key], value.as_deref());
                                kept.insert(key, now);
                            }
                        }
                    }
                }
                Step::Answer => if let Some((ticket, key, value)) = under_way.pop() {
                    let Ticket(Some((stripe, epoch))) = ticket else { panic!("every key can be stored") };
                    if *store.lock(stripe) == epoch {
                        kept.insert(key, now);
                        prop_assert_eq!(&value, &server.get(&key).map(|version| version.to_be_bytes().to_vec()));
                    }
                    store.insert(ticket, &[key], value.as_deref());
                },
                Step::Write(key) => {
                    version += 1;
                    server.insert(key, version);
                    store.invalidate(&[key]);
                    kept.remove(&key);
                }
                Step::WriteAll => {
                    server.clear();
                    store.invalidate_all();
                    kept.clear();
                }
                Step::Wait(milliseconds) => clock.forward(milliseconds.into()),
            }
            let counts = store.counts();
            prop_assert_eq!((counts.hits, counts.hits + counts.misses), (hits, reads));
            if limited {
                prop_assert!(counts.entries.unwrap() <= 4);
            } else {
                prop_assert_eq!(counts.entries, Some(kept.len() as u64));
                prop_assert_eq!((counts.evictions, counts.expirations), (Some(0), Some(expired)));
            }
        }
    }
}
