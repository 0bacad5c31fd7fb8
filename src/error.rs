//! One error rule for all clients.

use std::fmt;
use std::time::Duration;

/// How a command failed, told apart the same way whatever the client does with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The server answered with an error reply.
    #[error("server error: {0}")]
    Server(ServerError),
    /// No reply within the client's or the harness's time limit.
    #[error("timeout: {0}")]
    Timeout(String),
    /// The connection could not be made, or was lost.
    #[error("connection lost: {0}")]
    Connection(String),
    /// The login was refused.
    #[error("login refused: {0}")]
    Login(String),
    /// What came is not what the protocol allows, or not the kind of reply that was asked for.
    #[error("protocol error: {0}")]
    Protocol(String),
    /// The client refused on its own account: a full queue, an exhausted pool, a wrong call.
    #[error("client error: {0}")]
    Client(String),
    /// This client can't do it, by its documentation.
    #[error("unsupported: {0}")]
    Unsupported(&'static str),
}

/// An error reply, split at its first space: `WRONGTYPE` and the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// The first word, such as `ERR`, `WRONGTYPE`, `MOVED`.
    pub code: String,
    /// What follows it; empty when there is nothing.
    pub detail: String,
}

impl ServerError {
    /// Splits an error reply, with or without its leading `-`.
    #[must_use]
    pub fn parse(line: &str) -> Self {
        let line = line.trim_start_matches('-').trim_end();
        let (code, detail) = line.split_once(' ').unwrap_or((line, ""));
        Self { code: code.to_owned(), detail: detail.to_owned() }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.detail.is_empty() { f.write_str(&self.code) } else { write!(f, "{} {}", self.code, self.detail) }
    }
}

impl Error {
    /// The error of an error reply, with or without its leading `-`.
    #[must_use]
    pub fn server(line: &str) -> Self {
        Self::Server(ServerError::parse(line))
    }

    /// A time limit of `after` that the harness itself set.
    #[must_use]
    pub fn timed_out(after: Duration) -> Self {
        Self::Timeout(format!("no reply within {after:?}"))
    }

    /// A transaction that was not executed since a watched key was changed. The server says so with a nil in place of EXEC's
    /// reply; this puts it under the code of all other aborted transactions.
    #[must_use]
    pub fn aborted() -> Self {
        Self::server("EXECABORT Transaction discarded because a watched key was changed")
    }

    /// A reply of another kind than the command promises.
    #[must_use]
    pub fn unexpected(wanted: &str, got: &str) -> Self {
        Self::Protocol(format!("expected {wanted}, got {got}"))
    }

    /// The kind as one lower-case word, as records and counts name it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Error::Server(_) => "server",
            Error::Timeout(_) => "timeout",
            Error::Connection(_) => "connection",
            Error::Login(_) => "login",
            Error::Protocol(_) => "protocol",
            Error::Client(_) => "client",
            Error::Unsupported(_) => "unsupported",
        }
    }

    /// Where a `MOVED` or `ASK` reply points.
    #[must_use]
    pub fn redirect(&self) -> Option<Redirect<'_>> {
        let Error::Server(error) = self else { return None };
        let ask = match error.code.as_str() {
            "MOVED" => false,
            "ASK" => true,
            _ => return None,
        };
        let (slot, address) = error.detail.split_once(' ')?;
        let (host, port) = address.rsplit_once(':')?;
        Some(Redirect { ask, slot: slot.parse().ok()?, host: host.trim_matches(['[', ']']), port: port.parse().ok()? })
    }
}

/// A cluster's pointer to another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirect<'a> {
    /// `ASK` (this command only) rather than `MOVED` (from now on).
    pub ask: bool,
    /// The slot that moves or moved.
    pub slot: u16,
    /// The node's host; empty means the host that answered.
    pub host: &'a str,
    /// The node's port.
    pub port: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_read_with_ipv6_and_empty_hosts() {
        let moved = Error::server("-MOVED 3999 127.0.0.1:6381\r\n");
        assert_eq!(moved.redirect(), Some(Redirect { ask: false, slot: 3999, host: "127.0.0.1", port: 6381 }));
        let ask = Error::server("ASK 1 ::1:7000");
        assert_eq!(ask.redirect(), Some(Redirect { ask: true, slot: 1, host: "::1", port: 7000 }));
        assert_eq!(Error::server("MOVED 1 :7000").redirect().map(|to| to.host), Some(""));
        assert_eq!(Error::server("WRONGTYPE x").redirect(), None);
    }
}
