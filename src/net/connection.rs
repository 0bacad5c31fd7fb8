//! A logged-in connection that does one exchange at a time.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Endpoint, Secret, Stream};
use crate::error::Error;
use crate::resp::{Command, Frames, Resp, Value, parse};

/// Receive buffers grow in steps of this many bytes.
pub const READ_CHUNK: usize = 64 * 1024;

/// A connection with its buffers. Whoever holds it mutably has it alone.
pub struct Connection {
    stream: Stream,
    buffer: BytesMut,
    frames: Frames,
    out: Vec<u8>,
    /// Replies still owed; not 0 after a future was dropped halfway, and then the connection is of no use.
    owed: usize,
}

fn lost(error: io::Error) -> Error {
    Error::Connection(error.to_string())
}

impl Connection {
    /// Connects and logs in to `endpoint` with protocol version `resp`.
    ///
    /// # Errors
    /// [`Error::Connection`], [`Error::Login`] when user or password are wrong or missing,
    /// [`Error::Protocol`] when what answers is not Redis, [`Error::Server`] for other refusals.
    pub async fn open(endpoint: &Endpoint, resp: Resp, nodelay: bool) -> Result<Self, Error> {
        let stream =
            Stream::connect(endpoint, nodelay).await.map_err(|error| Error::Connection(format!("can't connect to {endpoint}: {error}")))?;
        let mut connection =
            Self { stream, buffer: BytesMut::with_capacity(READ_CHUNK), frames: Frames::default(), out: Vec::new(), owed: 0 };
        connection.log_in(endpoint, resp).await?;
        Ok(connection)
    }

    async fn log_in(&mut self, endpoint: &Endpoint, resp: Resp) -> Result<(), Error> {
        let user = endpoint.username.as_deref().unwrap_or("default");
        let password = endpoint.password.as_ref().map(Secret::reveal);
        if resp == Resp::V3 {
            let mut hello = Command::new("HELLO").arg("3");
            if let Some(password) = password {
                hello = hello.arg("AUTH").arg(user).arg(password);
            }
            self.request(&hello).await.map_err(login_error)?;
        } else if let Some(password) = password {
            let auth = Command::new("AUTH");
            let auth = if endpoint.username.is_some() { auth.arg(user) } else { auth };
            self.request(&auth.arg(password)).await.map_err(login_error)?;
        }
        if endpoint.database != 0 {
            self.request(&Command::new("SELECT").arg(endpoint.database.to_string())).await?;
        }
        Ok(())
    }

    /// One command, one reply. An error reply is an [`Error::Server`].
    ///
    /// # Errors
    /// Any [`Error`] of the server or the connection.
    pub async fn request(&mut self, command: &Command) -> Result<Value, Error> {
        self.begin();
        self.queue(command);
        self.send().await?;
        let frame = self.receive().await?;
        match parse(&frame).map_err(|error| Error::Protocol(error.to_string()))? {
            Value::Error(text) => Err(Error::server(&text)),
            value => Ok(value),
        }
    }

    /// Starts a new batch.
    pub fn begin(&mut self) {
        self.out.clear();
    }

    /// Adds a command to the batch.
    pub fn queue(&mut self, command: &Command) {
        command.encode(&mut self.out);
        self.owed += 1;
    }

    /// Adds a command of the given words to the batch.
    pub fn queue_words(&mut self, words: &[&[u8]]) {
        crate::resp::encode_words(&mut self.out, words);
        self.owed += 1;
    }

    /// Writes the batch.
    ///
    /// # Errors
    /// [`Error::Connection`].
    pub async fn send(&mut self) -> Result<(), Error> {
        self.stream.write_all(&self.out).await.map_err(lost)?;
        self.stream.flush().await.map_err(lost)
    }

    /// The next reply of the batch, as it came.
    ///
    /// # Errors
    /// [`Error::Connection`] or [`Error::Protocol`].
    pub async fn receive(&mut self) -> Result<Bytes, Error> {
        loop {
            if let Some(frame) = self.frames.next(&mut self.buffer).map_err(|error| Error::Protocol(error.to_string()))? {
                // Pushes of RESP3 are nobody's reply.
                if frame.first() != Some(&b'>') {
                    self.owed -= 1;
                    return Ok(frame);
                }
                continue;
            }
            if read_more(&mut self.stream, &mut self.buffer).await? == 0 {
                return Err(Error::Connection("the server closed the connection".into()));
            }
        }
    }

    /// Whether a reply is still owed, because an exchange was given up or failed. Such a connection must be closed.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.owed != 0
    }

    /// The stream and what was read of it beyond the last reply.
    #[must_use]
    pub fn into_stream(self) -> (Stream, BytesMut) {
        (self.stream, self.buffer)
    }
}

/// Reads once into `buffer`; 0 at the end of the stream.
///
/// # Errors
/// [`Error::Connection`].
pub async fn read_more<R: tokio::io::AsyncRead + Unpin>(stream: &mut R, buffer: &mut BytesMut) -> Result<usize, Error> {
    if buffer.capacity() - buffer.len() < READ_CHUNK / 4 {
        buffer.reserve(READ_CHUNK);
    }
    stream.read_buf(buffer).await.map_err(lost)
}

fn login_error(error: Error) -> Error {
    match error {
        Error::Server(reply) if matches!(reply.code.as_str(), "WRONGPASS" | "NOAUTH" | "NOPERM") => Error::Login(reply.to_string()),
        Error::Server(reply) if reply.detail.to_ascii_lowercase().contains("without any password configured") => {
            Error::Login("the server has no password, but one was given".into())
        }
        Error::Server(reply) if reply.detail.starts_with("unknown command") => {
            Error::Protocol("the server knows no HELLO: RESP3 needs Redis 6.0 or later".into())
        }
        other => other,
    }
}
