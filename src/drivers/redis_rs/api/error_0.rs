//! Errors of the releases before 1.0, which know an error reply by its kind and code only.

use redis::{ErrorKind, RedisError};

use crate::drivers::{Error, ServerError};

/// How the crate describes whatever a server answered.
const FROM_SERVER: &str = "An error was signalled by the server";

impl From<RedisError> for Error {
    fn from(error: RedisError) -> Self {
        let text = error.to_string();
        if error.is_timeout() {
            return Error::Timeout(text);
        }
        match error.kind() {
            ErrorKind::IoError | ErrorKind::ClusterConnectionNotFound => Error::Connection(text),
            ErrorKind::AuthenticationFailed => Error::Login(text),
            ErrorKind::ParseError | ErrorKind::TypeError => Error::Protocol(text),
            // The cluster client's own refusal has words of its own; the server never saw the commands.
            ErrorKind::CrossSlot if !text.contains(FROM_SERVER) => Error::Client(text),
            _ => match error.code() {
                Some(code) => {
                    let detail = error.detail().unwrap_or(&text).trim_end();
                    Error::Server(ServerError { code: code.to_owned(), detail: detail.to_owned() })
                }
                None => Error::Client(text),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_apart() {
        use std::io::{Error as Io, ErrorKind as Kind};
        let kind = |error: RedisError| Error::from(error).kind();
        assert_eq!(kind(Io::from(Kind::TimedOut).into()), "timeout");
        assert_eq!(kind(Io::from(Kind::BrokenPipe).into()), "connection");
        assert_eq!(kind((ErrorKind::AuthenticationFailed, "no").into()), "login");
        assert_eq!(kind((ErrorKind::TypeError, "no").into()), "protocol");
        assert_eq!(kind((ErrorKind::CrossSlot, "no").into()), "client");
        assert_eq!(kind((ErrorKind::ClientError, "no").into()), "client");
        let known: RedisError = (ErrorKind::ResponseError, FROM_SERVER, "unknown command".to_owned()).into();
        assert_eq!(Error::from(known), Error::server("ERR unknown command"));
    }
}
