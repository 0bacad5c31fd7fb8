//! Bare connections, each used by one exchange at a time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::Frame;
use crate::drivers::{Command, Error, PipelineReplies, Settings};
use crate::net::{Connection, Endpoint};
use crate::resp::Resp;

/// A checkout pool of bare connections. A connection whose exchange was given up is replaced by a new one.
#[derive(Clone)]
pub struct Pool(Arc<Inner>);

struct Inner {
    endpoint: Endpoint,
    resp: Resp,
    nodelay: bool,
    timeout: Option<Duration>,
    /// One permit per connection; waiters are served in order.
    permits: Semaphore,
    /// Connections at rest; `None` stands for one that must be opened anew.
    idle: Mutex<Vec<Option<Connection>>>,
}

/// A connection taken from the pool; returns to it when dropped.
struct Taken<'a> {
    pool: &'a Inner,
    connection: Option<Connection>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let usable = |connection: &Connection| !connection.is_spent() && !self.pool.permits.is_closed();
        let connection = self.connection.take().filter(usable);
        self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }
}

impl Inner {
    async fn open(&self) -> Result<Connection, Error> {
        Connection::open(&self.endpoint, self.resp, self.nodelay).await
    }

    async fn exchange<T>(&self, exchange: impl AsyncFnOnce(&mut Connection) -> Result<T, Error>) -> Result<T, Error> {
        let _permit = self.permits.acquire().await.map_err(|_| Error::Client("the pool is closed".into()))?;
        let connection = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop().flatten();
        let mut taken = Taken { pool: self, connection };
        let connection = match &mut taken.connection {
            Some(connection) => connection,
            None => taken.connection.insert(self.open().await?),
        };
        exchange(connection).await
    }
}

impl Pool {
    /// Opens all connections.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub async fn connect(endpoint: &Endpoint, settings: &Settings) -> Result<Self, Error> {
        let connections = settings.connections.get();
        let inner = Inner {
            endpoint: endpoint.clone(),
            resp: settings.resp,
            nodelay: settings.nodelay().unwrap_or(false),
            timeout: super::client_timeout(settings),
            permits: Semaphore::new(connections),
            idle: Mutex::new(Vec::with_capacity(connections)),
        };
        for _ in 0..connections {
            let connection = inner.open().await?;
            inner.idle.lock().unwrap_or_else(PoisonError::into_inner).push(Some(connection));
        }
        Ok(Self(Arc::new(inner)))
    }

    /// One command of the given words.
    ///
    /// # Errors
    /// Any [`Error`].
    pub async fn words(&self, words: &[&[u8]]) -> Result<Frame, Error> {
        let exchange = self.0.exchange(async |connection| {
            connection.begin();
            connection.queue_words(words);
            connection.send().await?;
            Frame::new(connection.receive().await?)
        });
        super::limited(self.0.timeout, exchange).await
    }

    /// One command.
    ///
    /// # Errors
    /// Any [`Error`].
    pub async fn call(&self, command: &Command) -> Result<Frame, Error> {
        let mut replies = self.pipeline(std::slice::from_ref(command)).await?;
        replies.pop().unwrap_or_else(|| Err(Error::Protocol("no reply".into())))
    }

    /// Several commands in one write.
    ///
    /// # Errors
    /// [`Error`] of the connection; error replies are in the list.
    pub async fn pipeline(&self, commands: &[Command]) -> Result<PipelineReplies<Frame>, Error> {
        let exchange = self.0.exchange(async |connection| {
            connection.begin();
            commands.iter().for_each(|command| connection.queue(command));
            connection.send().await?;
            let mut replies = Vec::with_capacity(commands.len());
            for _ in commands {
                replies.push(Frame::new(connection.receive().await?));
            }
            Ok(replies)
        });
        super::limited(self.0.timeout, exchange).await
    }

    /// `MULTI`, the commands and `EXEC` in one write.
    ///
    /// # Errors
    /// As [`Transactions::transaction`](crate::drivers::Transactions::transaction).
    pub async fn transaction(&self, commands: &[Command]) -> Result<PipelineReplies<Frame>, Error> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        let exchange = self.0.exchange(async |connection| {
            connection.begin();
            connection.queue_words(&[b"MULTI"]);
            commands.iter().for_each(|command| connection.queue(command));
            connection.queue_words(&[b"EXEC"]);
            connection.send().await?;
            let mut frames = Vec::with_capacity(commands.len() + 2);
            for _ in 0..commands.len() + 2 {
                frames.push(connection.receive().await?);
            }
            super::reply::executed(frames)
        });
        super::limited(self.0.timeout, exchange).await
    }

    /// Closes the connections at rest, and the others when they come back.
    pub fn close(&self) {
        self.0.permits.close();
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
