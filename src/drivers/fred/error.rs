//! The crate's errors under the one rule.

use super::api::{ErrorKind, FredError, is_routing};

use crate::drivers::Error;

/// Whether `text` begins as an error reply does: with a code in capitals. fred keeps the whole line of a reply as
/// the error's details, and its own texts are sentences.
fn is_reply(text: &str) -> bool {
    let code = text.split(' ').next().unwrap_or_default();
    code.len() > 1 && code.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-'))
}

impl From<FredError> for Error {
    fn from(error: FredError) -> Self {
        let text = error.details();
        match error.kind() {
            ErrorKind::Timeout => Error::Timeout(text.to_owned()),
            ErrorKind::IO | ErrorKind::Canceled => Error::Connection(text.to_owned()),
            ErrorKind::Protocol | ErrorKind::Parse | ErrorKind::NotFound => Error::Protocol(text.to_owned()),
            ErrorKind::Backpressure | ErrorKind::Url | ErrorKind::Sentinel => Error::Client(text.to_owned()),
            kind if is_routing(kind) => Error::Client(text.to_owned()),
            // The kinds that fred gives to error replies, by their code.
            _ if is_reply(text) => Error::server(text),
            ErrorKind::Auth => Error::Login(text.to_owned()),
            // Its router is gone, or knows no connection: "Failed to route command", "Failed to send command to router".
            ErrorKind::Unknown => Error::Connection(text.to_owned()),
            _ => Error::Client(error.to_string()),
        }
    }
}

/// An error of opening a connection: a refused login is [`Error::Login`].
pub fn login_error(error: FredError) -> Error {
    match error.kind() {
        ErrorKind::Auth => Error::Login(error.details().to_owned()),
        _ => match Error::from(error) {
            Error::Server(reply) if matches!(reply.code.as_str(), "WRONGPASS" | "NOAUTH" | "NOPERM") => Error::Login(reply.to_string()),
            other => other,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(kind: ErrorKind, text: &'static str) -> &'static str {
        Error::from(FredError::new(kind, text)).kind()
    }

    #[test]
    fn error_replies_keep_their_whole_text() {
        let replies = [
            (ErrorKind::Unknown, "ERR unknown command 'NO', with args beginning with: 'a' "),
            (ErrorKind::InvalidArgument, "WRONGTYPE Operation against a key"),
            (ErrorKind::Cluster, "MOVED 3999 127.0.0.1:6381"),
            (ErrorKind::Config, "ERR This instance has cluster support disabled"),
            (ErrorKind::Unknown, "CUSTOM"),
        ];
        for (kind, text) in replies {
            assert_eq!(Error::from(FredError::new(kind, text)), Error::server(text), "{text}");
        }
    }

    #[test]
    fn failures_without_a_reply_are_told_apart() {
        assert_eq!(kind(ErrorKind::Timeout, "Request timed out."), "timeout");
        assert_eq!(kind(ErrorKind::Canceled, "Canceled."), "connection");
        assert_eq!(kind(ErrorKind::IO, "Os { code: 104 }"), "connection");
        assert_eq!(kind(ErrorKind::Unknown, "Failed to send command to router."), "connection");
        assert_eq!(kind(ErrorKind::Parse, "Cannot parse into bytes."), "protocol");
        assert_eq!(kind(ErrorKind::Backpressure, "Max command queue length exceeded."), "client");
        assert_eq!(kind(ErrorKind::InvalidArgument, "Invalid argument type: Map"), "client");
        assert_eq!(login_error(FredError::new(ErrorKind::Auth, "WRONGPASS invalid")).kind(), "login");
    }
}
