//! A first connection to a server: every answer bounded in time, every failure in words for the user.

use std::time::Duration;

use tokio::time::timeout;

use super::{Info, TargetError};
use crate::error::Error;
use crate::net::{Address, Connection, Endpoint};
use crate::resp::{Command, Resp, Value};

/// A connection whose every step takes at most `limit`.
pub(super) struct Probe {
    connection: Connection,
    endpoint: Endpoint,
    limit: Duration,
}

impl Probe {
    /// Connects and logs in.
    pub(super) async fn try_open(endpoint: &Endpoint, resp: Resp, limit: Duration) -> Result<Self, Error> {
        let connection = timeout(limit, Connection::open(endpoint, resp, true)).await.unwrap_or_else(|_| Err(Error::timed_out(limit)))?;
        Ok(Self { connection, endpoint: endpoint.clone(), limit })
    }

    /// Connects and logs in with RESP2, which every server speaks.
    pub(super) async fn open(endpoint: &Endpoint, limit: Duration) -> Result<Self, TargetError> {
        Self::try_open(endpoint, Resp::V2, limit).await.map_err(|error| TargetError::from_probe(endpoint, limit, error))
    }

    /// One command given as words.
    pub(super) async fn try_ask(&mut self, words: &[&str]) -> Result<Value, Error> {
        let (name, arguments) = words.split_first().unwrap_or((&"PING", &[]));
        let command = arguments.iter().fold(Command::new(name), |command, word| command.arg(word));
        timeout(self.limit, self.connection.request(&command)).await.unwrap_or_else(|_| Err(Error::timed_out(self.limit)))
    }

    /// One command given as words.
    pub(super) async fn ask(&mut self, words: &[&str]) -> Result<Value, TargetError> {
        self.try_ask(words).await.map_err(|error| self.explain(error))
    }

    /// An error of this connection in words for the user.
    pub(super) fn explain(&self, error: Error) -> TargetError {
        TargetError::from_probe(&self.endpoint, self.limit, error)
    }

    /// Where it is connected to.
    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The same for messages.
    pub(super) fn name(&self) -> String {
        self.endpoint.address.to_string()
    }

    /// The same as CLUSTER MEET takes it.
    pub(super) fn host_and_port(&self) -> (String, String) {
        match &self.endpoint.address {
            Address::Tcp(host, port) => (host.clone(), port.to_string()),
            Address::Unix(_) => (String::new(), "0".into()),
        }
    }

    /// A reply of `field:value` lines, as INFO and CLUSTER INFO give it.
    pub(super) async fn info(&mut self, words: &[&str]) -> Result<Info, TargetError> {
        let value = self.ask(words).await?;
        match value.as_bytes() {
            Some(bytes) => Ok(Info::parse(&String::from_utf8_lossy(bytes))),
            None => Err(TargetError::NotRedis {
                endpoint: self.endpoint.to_string(),
                reason: format!("{} was answered with {}", words.join(" "), value.kind()),
            }),
        }
    }
}

/// Checks that the server speaks `resp`.
pub(super) async fn check_resp(endpoint: &Endpoint, server: &super::Server, resp: Resp, limit: Duration) -> Result<(), TargetError> {
    if resp == Resp::V2 {
        return Ok(());
    }
    let too_old = || TargetError::TooOld { endpoint: endpoint.to_string(), server: server.to_string(), resp: resp.into() };
    match Probe::try_open(endpoint, resp, limit).await {
        Ok(_) => Ok(()),
        // Logged in with RESP2 a moment ago, so what is refused here is HELLO itself.
        Err(Error::Protocol(_)) => Err(too_old()),
        Err(Error::Server(reply)) if reply.code == "NOPROTO" || reply.detail.to_ascii_lowercase().contains("unknown command") => {
            Err(too_old())
        }
        Err(error) => Err(TargetError::from_probe(endpoint, limit, error)),
    }
}
