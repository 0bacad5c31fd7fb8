//! A connection that many callers share: commands queue up in one buffer, a writer task sends whatever is queued,
//! a reader task hands out the replies in order.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncWriteExt;
use tokio::sync::{Notify, oneshot};

use super::Frame;
use crate::drivers::store::Store;
use crate::drivers::{Command, Error, PipelineReplies, Settings};
use crate::net::{Connection, Endpoint, ReadHalf, WriteHalf, read_more};
use crate::resp::{Frames, encode_words};

/// A multiplexed bare connection.
#[derive(Clone)]
pub struct Shared(Arc<Handle>);

/// What the callers hold. The two tasks hold `Inner`; when the last handle goes, the connection ends and they with it.
struct Handle {
    inner: Arc<Inner>,
    timeout: Option<Duration>,
}

struct Inner {
    state: Mutex<State>,
    /// Rung when `State::out` stops being empty, and when the connection ends.
    bell: Notify,
    /// Where invalidations go, and what ends with the connection.
    store: Option<Arc<Store>>,
}

struct State {
    /// Encoded commands that were not yet taken by the writer.
    out: Vec<u8>,
    /// How many entries of `waiting` these are.
    queued: usize,
    /// Who waits for which reply, in the order of the commands.
    waiting: VecDeque<Waiter>,
    /// Why the connection ended.
    ended: Option<Error>,
}

enum Waiter {
    One(oneshot::Sender<Result<Bytes, Error>>),
    Many(Many),
}

/// A pipeline whose replies are coming in.
struct Many {
    left: usize,
    frames: Vec<Bytes>,
    sender: oneshot::Sender<Result<Vec<Bytes>, Error>>,
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection: everybody who waits gets the reason.
    fn end(&self, reason: &Error) {
        if let Some(store) = &self.store {
            store.end(reason);
        }
        let waiting = {
            let mut state = self.lock();
            state.ended.get_or_insert_with(|| reason.clone());
            state.out.clear();
            state.queued = 0;
            std::mem::take(&mut state.waiting)
        };
        for waiter in waiting {
            match waiter {
                Waiter::One(sender) => drop(sender.send(Err(reason.clone()))),
                Waiter::Many(many) => drop(many.sender.send(Err(reason.clone()))),
            }
        }
        self.bell.notify_one();
    }

    /// Appends to the queue and rings for the writer if it was empty.
    fn enqueue(&self, waiter: Waiter, encode: impl FnOnce(&mut Vec<u8>)) -> Result<(), Error> {
        let first = {
            let mut state = self.lock();
            if let Some(reason) = &state.ended {
                return Err(reason.clone());
            }
            let first = state.out.is_empty();
            encode(&mut state.out);
            state.queued += 1;
            state.waiting.push_back(waiter);
            first
        };
        if first {
            self.bell.notify_one();
        }
        Ok(())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.inner.end(&closed());
    }
}

fn closed() -> Error {
    Error::Client("the connection was closed".into())
}

impl Shared {
    /// Opens one connection and starts its two tasks.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub async fn connect(endpoint: &Endpoint, settings: &Settings) -> Result<Self, Error> {
        Ok(Self::start(Self::open(endpoint, settings).await?, settings, None))
    }

    /// As [`Shared::connect`], with `tracking` sent first. What the server invalidates is dropped from `store` before any later reply is
    /// handed out, and when the connection ends so does the store.
    ///
    /// # Errors
    /// As [`Connection::open`], and the refusal of `tracking`.
    pub async fn tracked(endpoint: &Endpoint, settings: &Settings, tracking: &Command, store: Arc<Store>) -> Result<Self, Error> {
        let mut connection = Self::open(endpoint, settings).await?;
        connection.request(tracking).await?;
        Ok(Self::start(connection, settings, Some(store)))
    }

    async fn open(endpoint: &Endpoint, settings: &Settings) -> Result<Connection, Error> {
        Connection::open(endpoint, settings.resp, settings.nodelay().unwrap_or(false)).await
    }

    /// Starts the two tasks of a connection.
    fn start(connection: Connection, settings: &Settings, store: Option<Arc<Store>>) -> Self {
        let (stream, buffer) = connection.into_stream();
        let (read, write) = stream.into_split();
        let state = State { out: Vec::new(), queued: 0, waiting: VecDeque::new(), ended: None };
        let inner = Arc::new(Inner { state: Mutex::new(state), bell: Notify::new(), store });
        tokio::spawn(write_queued(inner.clone(), write));
        tokio::spawn(read_replies(inner.clone(), read, buffer));
        Self(Arc::new(Handle { inner, timeout: super::client_timeout(settings) }))
    }

    async fn one(&self, encode: impl FnOnce(&mut Vec<u8>)) -> Result<Frame, Error> {
        let (sender, receiver) = oneshot::channel();
        self.0.inner.enqueue(Waiter::One(sender), encode)?;
        super::limited(self.0.timeout, async { Frame::new(receiver.await.unwrap_or_else(|_| Err(closed()))?) }).await
    }

    /// The frames that answer `count` commands.
    async fn many(&self, count: usize, encode: impl FnOnce(&mut Vec<u8>)) -> Result<Vec<Bytes>, Error> {
        let (sender, receiver) = oneshot::channel();
        self.0.inner.enqueue(Waiter::Many(Many { left: count, frames: Vec::with_capacity(count), sender }), encode)?;
        super::limited(self.0.timeout, async { receiver.await.unwrap_or_else(|_| Err(closed())) }).await
    }

    /// One command of the given words.
    ///
    /// # Errors
    /// Any [`Error`].
    pub async fn words(&self, words: &[&[u8]]) -> Result<Frame, Error> {
        self.one(|out| encode_words(out, words)).await
    }

    /// Two commands with no other caller's in between; the reply of the second.
    ///
    /// # Errors
    /// Any [`Error`], of either.
    pub async fn words_after(&self, first: &[&[u8]], words: &[&[u8]]) -> Result<Frame, Error> {
        let encode = |out: &mut Vec<u8>| {
            encode_words(out, first);
            encode_words(out, words);
        };
        let frames: [Bytes; 2] = self.many(2, encode).await?.try_into().map_err(|_| Error::Protocol("too few replies".into()))?;
        let [first, second] = frames.map(Frame::new);
        first.and(second)
    }

    /// One command.
    ///
    /// # Errors
    /// Any [`Error`].
    pub async fn call(&self, command: &Command) -> Result<Frame, Error> {
        self.one(|out| command.encode(out)).await
    }

    /// Several commands in one write.
    ///
    /// # Errors
    /// [`Error`] of the connection; error replies are in the list.
    pub async fn pipeline(&self, commands: &[Command]) -> Result<PipelineReplies<Frame>, Error> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        let frames = self.many(commands.len(), |out| commands.iter().for_each(|command| command.encode(out))).await?;
        Ok(frames.into_iter().map(Frame::new).collect())
    }

    /// `MULTI`, the commands and `EXEC` in one write, with no other caller's command in between.
    ///
    /// # Errors
    /// As [`Transactions::transaction`](crate::drivers::Transactions::transaction).
    pub async fn transaction(&self, commands: &[Command]) -> Result<PipelineReplies<Frame>, Error> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        let encode = |out: &mut Vec<u8>| {
            encode_words(out, &[b"MULTI"]);
            commands.iter().for_each(|command| command.encode(out));
            encode_words(out, &[b"EXEC"]);
        };
        super::reply::executed(self.many(commands.len() + 2, encode).await?)
    }

    /// Ends the connection for all who share it.
    pub fn close(&self) {
        self.0.inner.end(&closed());
    }
}

/// Sends whatever is queued, as soon as the previous write is done and those about to ask again had a turn.
async fn write_queued(inner: Arc<Inner>, mut socket: WriteHalf) {
    let mut batch = Vec::new();
    loop {
        batch.clear();
        // When others wait for replies, some of them are about to ask again: one turn for them first, so that their commands
        // join this write. A lone caller is not made to wait.
        let company = {
            let state = inner.lock();
            state.queued > 0 && state.waiting.len() > state.queued
        };
        if company {
            tokio::task::yield_now().await;
        }
        let ended = {
            let mut state = inner.lock();
            std::mem::swap(&mut batch, &mut state.out);
            state.queued = 0;
            state.ended.is_some()
        };
        if ended {
            // An error here changes nothing: the connection is given up.
            let _ = socket.shutdown().await;
            return;
        }
        if batch.is_empty() {
            inner.bell.notified().await;
            continue;
        }
        let written = match socket.write_all(&batch).await {
            Ok(()) => socket.flush().await,
            failed => failed,
        };
        if let Err(error) = written {
            inner.end(&Error::Connection(error.to_string()));
        }
    }
}

/// Hands out replies in the order of their commands.
async fn read_replies(inner: Arc<Inner>, mut socket: ReadHalf, mut buffer: BytesMut) {
    let mut frames = Frames::default();
    // The pipeline that the last reply belonged to, when it still lacks some: held here, its replies need no lock.
    let mut current = None;
    let reason = loop {
        if let Err(error) = hand_out(&inner, &mut frames, &mut buffer, &mut current) {
            break error;
        }
        match read_more(&mut socket, &mut buffer).await {
            Ok(0) => break Error::Connection("the server closed the connection".into()),
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    inner.end(&reason);
    if let Some(many) = current {
        // A failed send means that the caller gave up.
        let _ = many.sender.send(Err(inner.lock().ended.clone().unwrap_or(reason)));
    }
}

/// Gives every whole frame of `buffer` to the caller it belongs to. A failed send means that the caller gave up; the reply is
/// dropped and the order kept.
fn hand_out(inner: &Inner, frames: &mut Frames, buffer: &mut BytesMut, current: &mut Option<Many>) -> Result<(), Error> {
    while let Some(frame) = frames.next(buffer).map_err(|error| Error::Protocol(error.to_string()))? {
        // Pushes of RESP3 are nobody's reply.
        if frame.first() == Some(&b'>') {
            if let Some(store) = &inner.store {
                store.pushed(&frame);
            }
            continue;
        }
        let many = match current {
            Some(many) => many,
            None => {
                let waiter = inner.lock().waiting.pop_front();
                match waiter.ok_or_else(|| Error::Protocol("a reply that nobody asked for".into()))? {
                    Waiter::One(sender) => {
                        let _ = sender.send(Ok(frame));
                        continue;
                    }
                    Waiter::Many(many) => current.insert(many),
                }
            }
        };
        many.frames.push(frame);
        many.left -= 1;
        if many.left == 0
            && let Some(many) = current.take()
        {
            let _ = many.sender.send(Ok(many.frames));
        }
    }
    Ok(())
}
