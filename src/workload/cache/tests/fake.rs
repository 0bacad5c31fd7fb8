//! A server and its cached clients in memory: what they forget, and when, is the test's choice.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::drivers::raw::Raw;
use crate::drivers::{
    CacheCounts, CacheMode, CacheSettings, CacheSupport, Cached, CachedRead, Capacity, Command, Commands, CountedBy, Driver, Error, Reply,
    Served, Servers, Value,
};
use crate::net::Endpoint;
use crate::workload::cache::fence::{Fence, Log, Slots};
use crate::workload::cache::keyspace::prefill;
use crate::workload::cache::loader::{Bound, CacheJob};
use crate::workload::cache::versions::Versions;
use crate::workload::mix::{CommandSpec, DataSize, Mix, MixOptions};

/// When a cache forgets a key that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgets {
    /// As soon as it was written.
    AtOnce,
    /// When the next reply comes over the tracked connection: late, and in order.
    InOrder,
    /// Never.
    Never,
}

/// What a fence is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fenced {
    Answered,
    TimedOut,
    Full,
    Disconnected,
    Refused,
    /// Nothing, for ever.
    Silence,
}

pub struct State {
    pub server: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
    cache: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
    /// Invalidations on their way.
    pushed: Mutex<VecDeque<Vec<u8>>>,
    pub forgets: Forgets,
    pub fenced: Fenced,
    /// The next write is answered with an error.
    pub fail_write: AtomicBool,
    pub served: Served,
    /// The cache holds of every key that it is gone.
    pub gone: AtomicBool,
    hits: AtomicU64,
    misses: AtomicU64,
    pub fences: AtomicU64,
}

/// A client without a cache.
#[derive(Clone)]
pub struct Plain(pub Arc<State>);

/// A client with one.
#[derive(Clone)]
pub struct Fake(pub Plain);

pub struct Answer(Value);

impl Reply for Answer {
    type Blob = Vec<u8>;
    fn into_blob(self) -> Result<Option<Vec<u8>>, Error> {
        Err(Error::Protocol("not asked for".into()))
    }
    fn into_blobs(self) -> Result<Vec<Vec<u8>>, Error> {
        Err(Error::Protocol("not asked for".into()))
    }
    fn into_ok(self) -> Result<(), Error> {
        Ok(())
    }
    fn into_value(self) -> Result<Value, Error> {
        Ok(self.0)
    }
}

impl Commands for Plain {
    type Reply = Answer;

    async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        tokio::task::yield_now().await;
        let value = self.0.server.lock().unwrap().get(key).cloned();
        self.0.deliver();
        Ok(value)
    }

    async fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        tokio::task::yield_now().await;
        if self.0.fail_write.swap(false, Ordering::AcqRel) {
            return Err(Error::Timeout("scripted".into()));
        }
        self.0.server.lock().unwrap().insert(key.to_vec(), value.to_vec());
        match self.0.forgets {
            Forgets::AtOnce => drop(self.0.cache.lock().unwrap().remove(key)),
            Forgets::InOrder => self.0.pushed.lock().unwrap().push_back(key.to_vec()),
            Forgets::Never => {}
        }
        tokio::task::yield_now().await;
        Ok(())
    }

    async fn hkeys(&self, _: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        Err(Error::Protocol("not asked for".into()))
    }

    async fn call(&self, command: &Command) -> Result<Answer, Error> {
        assert_eq!(command.name(), "UNLINK");
        self.0.fences.fetch_add(1, Ordering::AcqRel);
        tokio::task::yield_now().await;
        match self.0.fenced {
            Fenced::Answered => {
                self.0.deliver();
                Ok(Answer(Value::Int(0)))
            }
            Fenced::TimedOut => Err(Error::Timeout("scripted".into())),
            Fenced::Full => Err(Error::Client("scripted".into())),
            Fenced::Disconnected => Err(Error::Connection("scripted".into())),
            Fenced::Refused => Err(Error::server("NOPERM scripted")),
            Fenced::Silence => std::future::pending().await,
        }
    }
}

impl State {
    /// Forgets what was pushed so far.
    fn deliver(&self) {
        let pushed = std::mem::take(&mut *self.pushed.lock().unwrap());
        let mut cache = self.cache.lock().unwrap();
        for key in pushed {
            cache.remove(&key);
        }
    }
}

impl Cached for Fake {
    type Client = Plain;
    type Blob = Vec<u8>;

    fn client(&self) -> &Plain {
        &self.0
    }

    async fn get(&self, key: &[u8]) -> Result<CachedRead<Vec<u8>>, Error> {
        let state = &self.0.0;
        let told = |served| if state.served == Served::Unknown { Served::Unknown } else { served };
        if state.gone.load(Ordering::Acquire) {
            state.hits.fetch_add(1, Ordering::AcqRel);
            return Ok(CachedRead { value: None, served: told(Served::Cache) });
        }
        if let Some(value) = state.cache.lock().unwrap().get(key).cloned() {
            state.hits.fetch_add(1, Ordering::AcqRel);
            return Ok(CachedRead { value: Some(value), served: told(Served::Cache) });
        }
        state.misses.fetch_add(1, Ordering::AcqRel);
        tokio::task::yield_now().await;
        // Read and stored in one go, so that no write falls in between.
        let (server, mut cache) = (state.server.lock().unwrap(), state.cache.lock().unwrap());
        let value = server.get(key).cloned();
        if let Some(value) = &value {
            cache.insert(key.to_vec(), value.clone());
        }
        Ok(CachedRead { value, served: told(Served::Server) })
    }

    async fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.0.set(key, value).await
    }

    fn counts(&self) -> CacheCounts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Acquire);
        CacheCounts { hits: load(&self.0.0.hits), misses: load(&self.0.0.misses), ..CacheCounts::default() }
    }

    async fn close(self) {}
}

/// What the fakes say of their caches.
pub const SUPPORT: CacheSupport =
    CacheSupport { way: "in memory, by the test", reads: CountedBy::Harness, invalidations: CountedBy::Harness, ..Raw::DESCRIPTOR.cache };

/// Half of the commands read, half write, over so many keys.
pub fn mix(keys: u64) -> Arc<Mix> {
    of(&["GET __key__", "SET __key__ __data__"], keys)
}

pub fn of(commands: &[&str], keys: u64) -> Arc<Mix> {
    let specs = commands.iter().map(|text| CommandSpec::parse(text).unwrap()).collect();
    let options = MixOptions { keys, data: DataSize::Fixed(32), prefilled: true, ..MixOptions::default() };
    Arc::new(Mix::new(specs, options).unwrap().0)
}

impl Fake {
    pub fn new(mix: &Mix, forgets: Forgets, fenced: Fenced) -> Self {
        Self::told(mix, forgets, fenced, Served::Cache)
    }

    /// One that tells of each read, or of none (`Served::Unknown`).
    pub fn told(mix: &Mix, forgets: Forgets, fenced: Fenced, served: Served) -> Self {
        let filled = prefill(mix).map(|command| {
            let mut words = command.args().map(<[u8]>::to_vec);
            (words.next().unwrap(), words.next().unwrap())
        });
        Self(Plain(Arc::new(State {
            server: Mutex::new(filled.collect()),
            cache: Mutex::default(),
            pushed: Mutex::default(),
            forgets,
            fenced,
            fail_write: AtomicBool::new(false),
            served,
            gone: AtomicBool::new(false),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            fences: AtomicU64::new(0),
        })))
    }

    /// Ready to be loaded, without probes.
    pub fn bound(&self, mix: &Mix, noloop: bool) -> Bound<Fake, Raw> {
        let settings = CacheSettings {
            noloop,
            capacity: NonZeroU64::new(100).map(Capacity::Entries),
            ttl: Some(Duration::from_secs(60)),
            ..CacheSettings::default()
        };
        Bound {
            cached: self.clone(),
            foreign: None,
            job: CacheJob { settings, external_writers: false, probes_per_second: 0 },
            support: &SUPPORT,
            each_miss: &[],
            versions: Arc::new(Versions::new(mix.key_count() as usize)),
            log: Arc::new(Log::default()),
            probed: Arc::default(),
            fence: Arc::new(Fence::new(&Slots::new(), CacheMode::All)),
            slots: Slots::new(),
            servers: Servers::standalone(Endpoint::tcp("127.0.0.1", 1)),
            grown: AtomicI64::new(0),
        }
    }
}
