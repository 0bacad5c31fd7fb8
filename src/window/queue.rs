//! The queue in which commands wait for each other, and the task that closes batches.

use std::ops::{Add, Sub};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use super::batch::Batch;
use super::exclusive::{Exclusive, closed};
use super::timer::{Clock, Timer};
use crate::drivers::{Command, Error, Pipelines, Strategy};

/// How many batches were sent, by what closed them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Flushes {
    /// The window ended.
    pub by_window: u64,
    /// The limit was reached.
    pub by_limit: u64,
    /// A connection was free ([`Strategy::Idle`]).
    pub by_idle: u64,
    /// The window was being closed.
    pub by_close: u64,
    /// Commands in all these batches.
    pub commands: u64,
}

impl Flushes {
    /// All batches.
    #[must_use]
    pub fn batches(&self) -> u64 {
        self.by_window + self.by_limit + self.by_idle + self.by_close
    }
}

macro_rules! fieldwise {
    ($trait:ident, $method:ident) => {
        impl $trait for Flushes {
            type Output = Self;
            fn $method(self, other: Self) -> Self {
                Self {
                    by_window: self.by_window.$method(other.by_window),
                    by_limit: self.by_limit.$method(other.by_limit),
                    by_idle: self.by_idle.$method(other.by_idle),
                    by_close: self.by_close.$method(other.by_close),
                    commands: self.commands.$method(other.commands),
                }
            }
        }
    };
}

fieldwise!(Add, add);
fieldwise!(Sub, sub);

/// What a queue's callers and its task share.
struct Shared<R> {
    state: Mutex<State<R>>,
    /// Rung when the queue stops being empty, when the limit is reached, and at the close.
    bell: Notify,
    limit: usize,
}

struct State<R> {
    waiting: Batch<R>,
    closed: bool,
    flushes: Flushes,
}

impl<R> Shared<R> {
    fn lock(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One queue with its task.
pub struct Queue<C: Pipelines, K: Clock> {
    shared: Arc<Shared<C::Reply>>,
    exclusive: Exclusive<C>,
    task: tokio::sync::Mutex<Option<JoinHandle<()>>>,
    _clock: std::marker::PhantomData<fn() -> K>,
}

impl<C: Pipelines, K: Clock> Drop for Queue<C, K> {
    fn drop(&mut self) {
        // Without a close, what waits is still sent; the task ends by itself.
        self.shared.lock().closed = true;
        self.shared.bell.notify_one();
    }
}

impl<C: Pipelines, K: Clock> Queue<C, K> {
    /// Starts the task of a queue over `exclusive`.
    pub fn start(exclusive: Exclusive<C>, strategy: Strategy, clock: &K) -> Result<Self, Error> {
        let (window, limit) = match strategy {
            Strategy::Window { window, limit } => (Some(window), limit),
            Strategy::Idle { limit } => (None, limit),
            Strategy::Native | Strategy::Off => return Err(Error::Client("a queue needs the strategy window or idle".into())),
        };
        let state = State { waiting: Batch::default(), closed: false, flushes: Flushes::default() };
        let shared = Arc::new(Shared { state: Mutex::new(state), bell: Notify::new(), limit });
        let task = match window {
            Some(window) => {
                let timer = clock.timer().map_err(|error| Error::Client(format!("no timer for the pipeline window: {error}")))?;
                tokio::spawn(flush_on_window(shared.clone(), exclusive.clone(), window, timer))
            }
            None => tokio::spawn(flush_when_idle(shared.clone(), exclusive.clone())),
        };
        Ok(Self { shared, exclusive, task: tokio::sync::Mutex::new(Some(task)), _clock: std::marker::PhantomData })
    }

    pub fn exclusive(&self) -> &Exclusive<C> {
        &self.exclusive
    }

    pub fn flushes(&self) -> Flushes {
        self.shared.lock().flushes
    }

    /// Queues a command and waits for its reply.
    pub async fn call(&self, command: Command) -> Result<C::Reply, Error> {
        let (slot, reply) = oneshot::channel();
        let ring = {
            let mut state = self.shared.lock();
            if state.closed {
                return Err(closed());
            }
            state.waiting.push(command, slot);
            state.waiting.len() == 1 || state.waiting.len() == self.shared.limit
        };
        if ring {
            self.shared.bell.notify_one();
        }
        reply.await.unwrap_or_else(|_| Err(Error::Client("the batch was lost: its task panicked".into())))
    }

    /// Flushes what waits, and returns when every batch has its replies.
    pub async fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.bell.notify_one();
        let mut task = self.task.lock().await;
        if let Some(running) = task.as_mut() {
            // The task can't panic; if it did, nothing is left to wait for. It is forgotten only once it has ended, so that a
            // close that was given up can be repeated.
            let _ = running.await;
            *task = None;
        }
        drop(task);
        self.exclusive.close().await;
    }
}

/// Waits until something is queued; false when the queue is closed and empty.
async fn wait_for_first<R: Send + 'static>(shared: &Shared<R>) -> bool {
    loop {
        {
            let state = shared.lock();
            if state.waiting.len() > 0 {
                return true;
            }
            if state.closed {
                return false;
            }
        }
        shared.bell.notified().await;
    }
}

/// Radix v3: see the module documentation of [`super`].
async fn flush_on_window<C: Pipelines, T: Timer>(shared: Arc<Shared<C::Reply>>, exclusive: Exclusive<C>, window: Duration, mut timer: T) {
    while wait_for_first(&shared).await {
        {
            let mut ended = pin!(timer.wait(window));
            loop {
                {
                    let state = shared.lock();
                    if state.closed || shared.limit > 0 && state.waiting.len() >= shared.limit {
                        break;
                    }
                }
                tokio::select! {
                    biased;
                    () = &mut ended => break,
                    () = shared.bell.notified() => {}
                }
            }
        }
        let batch = {
            let mut state = shared.lock();
            let batch = state.waiting.take(shared.limit);
            let counter = match (state.closed, shared.limit > 0 && batch.len() == shared.limit) {
                (_, true) => &mut state.flushes.by_limit,
                (true, false) => &mut state.flushes.by_close,
                (false, false) => &mut state.flushes.by_window,
            };
            *counter += 1;
            state.flushes.commands += batch.len() as u64;
            batch
        };
        // The batch is closed: what arrives while it waits for a connection belongs to the next one.
        let Ok(lent) = exclusive.lend().await else { return };
        tokio::spawn(batch.send(lent));
    }
}

/// Rueidis: whatever is queued goes as soon as a connection is free.
async fn flush_when_idle<C: Pipelines>(shared: Arc<Shared<C::Reply>>, exclusive: Exclusive<C>) {
    while wait_for_first(&shared).await {
        let Ok(lent) = exclusive.lend().await else { return };
        let batch = {
            let mut state = shared.lock();
            let batch = state.waiting.take(shared.limit);
            state.flushes.by_idle += 1;
            state.flushes.commands += batch.len() as u64;
            batch
        };
        tokio::spawn(batch.send(lent));
    }
}
