//! The crate's errors under the one rule.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::drivers::{Error, ServerError};

impl From<redis::ServerError> for Error {
    fn from(error: redis::ServerError) -> Self {
        // The crate splits the line where we do, and keeps a space at its end.
        let detail = error.details().unwrap_or_default().trim_end();
        Error::Server(ServerError { code: error.code().to_owned(), detail: detail.to_owned() })
    }
}

impl From<RedisError> for Error {
    fn from(error: RedisError) -> Self {
        let error = match redis::ServerError::try_from(error) {
            Ok(reply) => return reply.into(),
            Err(other) => other,
        };
        // An aborted transaction holds the errors of the commands that the server refused to queue.
        if let ErrorKind::Server(ServerErrorKind::ExecAbort) = error.kind()
            && let Some([(_, first), ..]) = error.clone().into_server_errors().as_deref()
        {
            return first.clone().into();
        }
        let text = error.to_string();
        if error.is_timeout() {
            return Error::Timeout(text);
        }
        match error.kind() {
            ErrorKind::Io | ErrorKind::ClusterConnectionNotFound => Error::Connection(text),
            ErrorKind::AuthenticationFailed => Error::Login(text),
            ErrorKind::Parse | ErrorKind::UnexpectedReturnType | ErrorKind::RESP3NotSupported => Error::Protocol(text),
            // The cluster client's own refusal; the server never saw the commands.
            ErrorKind::Server(ServerErrorKind::CrossSlot) => Error::Client(text),
            // An error reply that the client wrapped in words of its own, as for SELECT.
            ErrorKind::Server(kind) => {
                let code = match kind {
                    ServerErrorKind::ResponseError => "ERR",
                    _ => error.code().unwrap_or("ERR"),
                };
                Error::Server(ServerError { code: code.to_owned(), detail: error.detail().unwrap_or(&text).to_owned() })
            }
            _ => Error::Client(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(line: &[u8]) -> Error {
        match redis::parse_redis_value(line).expect("a whole frame") {
            redis::Value::ServerError(error) => RedisError::from(error).into(),
            other => panic!("not an error: {other:?}"),
        }
    }

    #[test]
    fn error_replies_keep_their_whole_text() {
        for line in
            ["ERR unknown command 'NO', with args beginning with: 'a' ", "WRONGTYPE Operation against a key", "MOVED 1 h:1", "CUSTOM"]
        {
            assert_eq!(reply(format!("-{line}\r\n").as_bytes()), Error::server(line), "{line}");
        }
        let moved = reply(b"-MOVED 3999 127.0.0.1:6381\r\n");
        assert_eq!(moved.redirect().map(|to| to.port), Some(6381));
    }

    #[test]
    fn failures_without_a_reply_are_told_apart() {
        use std::io::{Error as Io, ErrorKind as Kind};
        let kind = |error: RedisError| Error::from(error).kind();
        assert_eq!(kind(Io::from(Kind::TimedOut).into()), "timeout");
        assert_eq!(kind(Io::from(Kind::BrokenPipe).into()), "connection");
        assert_eq!(kind(Io::from(Kind::ConnectionRefused).into()), "connection");
        assert_eq!(kind((ErrorKind::AuthenticationFailed, "no").into()), "login");
        assert_eq!(kind((ErrorKind::UnexpectedReturnType, "no").into()), "protocol");
        assert_eq!(kind((ServerErrorKind::CrossSlot.into(), "no").into()), "client");
        assert_eq!(kind((ErrorKind::Client, "no").into()), "client");
    }
}
