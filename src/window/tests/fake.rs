//! A client without a server, and a clock without time.

use std::io;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};

use crate::drivers::{Command, Commands, Error, Lanes, PipelineReplies, Pipelines, Reply, Settings, Strategy, Transactions, Value};
use crate::window::{Clock, Timer, Window};

/// A reply that is the common form already.
#[derive(Debug)]
pub struct Plain(pub Value);

impl Reply for Plain {
    type Blob = Vec<u8>;
    fn into_blob(self) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.0.as_bytes().map(<[u8]>::to_vec))
    }
    fn into_blobs(self) -> Result<Vec<Vec<u8>>, Error> {
        Ok(vec![])
    }
    fn into_ok(self) -> Result<(), Error> {
        Ok(())
    }
    fn into_value(self) -> Result<Value, Error> {
        Ok(self.0)
    }
}

/// What the client was asked, in the order of its writes: the first argument of each command.
pub type Batches = Vec<Vec<String>>;

/// A client that answers each command with its first argument. `FAIL` answers with an error reply, `BREAK` loses the
/// connection. Each exchange first takes a permit, so that a test decides when replies come.
#[derive(Clone)]
pub struct Fake {
    pub sent: Arc<Mutex<Batches>>,
    pub replies: Arc<Semaphore>,
    pub under_way: Arc<AtomicUsize>,
    pub most_under_way: Arc<AtomicUsize>,
    handles: Option<usize>,
}

impl Fake {
    /// Replies come at once.
    pub fn new() -> Self {
        Self {
            sent: Arc::default(),
            replies: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
            under_way: Arc::default(),
            most_under_way: Arc::default(),
            handles: None,
        }
    }

    /// Replies come when the test adds permits to `replies`.
    pub fn held_back() -> Self {
        Self { replies: Arc::new(Semaphore::new(0)), ..Self::new() }
    }

    /// With so many connections that can be used one by one.
    pub fn with_handles(self, handles: usize) -> Self {
        Self { handles: Some(handles), ..self }
    }

    pub fn batches(&self) -> Batches {
        self.sent.lock().unwrap().clone()
    }

    async fn exchange(&self, commands: &[Command]) -> Result<PipelineReplies<Plain>, Error> {
        let words = |command: &Command| String::from_utf8_lossy(command.args().next().unwrap_or_default()).into_owned();
        self.sent.lock().unwrap().push(commands.iter().map(words).collect());
        let now = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_under_way.fetch_max(now, Ordering::SeqCst);
        self.replies.acquire().await.unwrap().forget();
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        if commands.iter().any(|command| command.name() == "BREAK") {
            return Err(Error::Connection("broken".into()));
        }
        let reply = |command: &Command| match command.name() {
            "FAIL" => Err(Error::server(&format!("ERR {}", words(command)))),
            _ => Ok(Plain(Value::Blob(words(command).into_bytes()))),
        };
        Ok(commands.iter().map(reply).collect())
    }
}

impl Commands for Fake {
    type Reply = Plain;
    async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.call(&Command::get(key)).await?.into_blob()
    }
    async fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.call(&Command::set(key, value)).await?.into_ok()
    }
    async fn hkeys(&self, key: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        self.call(&Command::hkeys(key)).await?.into_blobs()
    }
    async fn call(&self, command: &Command) -> Result<Plain, Error> {
        self.exchange(std::slice::from_ref(command)).await?.remove(0)
    }
}

impl Pipelines for Fake {
    async fn pipeline(&self, commands: &[Command]) -> Result<PipelineReplies<Plain>, Error> {
        self.exchange(commands).await
    }
    fn lanes(&self) -> Lanes<Self> {
        match self.handles {
            None => Lanes::EachCall,
            Some(handles) => Lanes::Handles(vec![self.clone(); handles]),
        }
    }
}

impl Transactions for Fake {
    async fn transaction(&self, commands: &[Command]) -> Result<PipelineReplies<Plain>, Error> {
        self.exchange(commands).await
    }
}

/// A clock that stands still until a test ends the armed windows.
#[derive(Clone, Default)]
pub struct Manual(Arc<Mutex<Armed>>);

#[derive(Default)]
struct Armed {
    /// How often a window was armed.
    count: usize,
    /// Length of the last one.
    window: Duration,
    waiting: Vec<oneshot::Sender<()>>,
}

pub struct ManualTimer(Manual);

impl Manual {
    /// Ends every armed window; false when none is armed.
    pub fn end_windows(&self) -> bool {
        let waiting = std::mem::take(&mut self.0.lock().unwrap().waiting);
        let live: Vec<bool> = waiting.into_iter().map(|alarm| alarm.send(()).is_ok()).collect();
        live.contains(&true)
    }

    pub fn armed(&self) -> usize {
        self.0.lock().unwrap().count
    }

    pub fn window(&self) -> Duration {
        self.0.lock().unwrap().window
    }
}

impl Clock for Manual {
    type Timer = ManualTimer;
    fn timer(&self) -> io::Result<ManualTimer> {
        Ok(ManualTimer(self.clone()))
    }
}

impl Timer for ManualTimer {
    async fn wait(&mut self, window: Duration) {
        let (alarm, rung) = oneshot::channel();
        {
            let mut armed = self.0.0.lock().unwrap();
            armed.count += 1;
            armed.window = window;
            armed.waiting.push(alarm);
        }
        // The clock outlives every window of a test.
        let _ = rung.await;
    }
}

/// Lets every task go as far as it can (the tests run on one thread).
pub async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

/// Settings of a strategy over so many connections.
pub fn settings(strategy: Strategy, connections: usize) -> Settings {
    Settings { strategy, connections: NonZeroUsize::new(connections).unwrap(), ..Settings::default() }
}

/// A window of 100 µs over `fake`.
pub fn window(fake: &Fake, limit: usize, connections: usize) -> (Window<Fake, Manual>, Manual) {
    let clock = Manual::default();
    let strategy = Strategy::Window { window: Duration::from_micros(100), limit };
    (Window::with_clock(fake.clone(), &settings(strategy, connections), &clock).unwrap(), clock)
}

/// A caller in a task of its own.
pub fn spawn_call(window: &Window<Fake, Manual>, name: &str, argument: &str) -> tokio::task::JoinHandle<Result<String, Error>> {
    let (window, command) = (window.clone(), Command::new(name).arg(argument));
    tokio::spawn(async move { window.call(&command).await.map(|reply| reply.0.as_str().unwrap().to_owned()) })
}
