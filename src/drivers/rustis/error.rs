//! The crate's errors under the one rule.

use rustis::bb8::RunError;
use rustis::{ClientError, Error as RustisError, ErrorKind, TimeoutKind};

use crate::drivers::Error;

/// How the crate's text of an error reply begins, before the reply as the server wrote it.
const REPLY: &str = "redis server error: ";

impl From<RustisError> for Error {
    fn from(error: RustisError) -> Self {
        let text = error.to_string();
        match error.kind() {
            ErrorKind::Redis(reply) => Error::server(&reply.to_string()),
            ErrorKind::Aborted => Error::aborted(),
            ErrorKind::Timeout(TimeoutKind::Command) => Error::Timeout(text),
            ErrorKind::Timeout(_) => Error::Connection(text),
            ErrorKind::Client(reason) => client_error(reason, text),
            ErrorKind::Utf8(_) | ErrorKind::FromUtf8(_) | ErrorKind::ParseFloat(_) | ErrorKind::ParseInt(_) => Error::Protocol(text),
            _ if error.is_connection_error() => Error::Connection(text),
            _ => Error::Client(text),
        }
    }
}

fn client_error(reason: &ClientError, text: String) -> Error {
    match reason {
        // No node of a cluster answered, or one of its masters did not.
        ClientError::DisconnectedFromServer | ClientError::ClusterConfig => Error::Connection(text),
        ClientError::SerdeDeserialize(_)
        | ClientError::UnexpectedNil { .. }
        | ClientError::UnexpectedPubSubMessage
        | ClientError::UnexpectedSubscriptionConfirmation
        | ClientError::UnexpectedMessageReceived
        | ClientError::MissingTransactionReply
        | ClientError::MissingMapValue => Error::Protocol(text),
        reason if reason.to_string().starts_with("protocol: ") => Error::Protocol(text),
        _ => Error::Client(text),
    }
}

/// The error of one reply among several, whose type serde has erased: only its text is left, which for an error reply ends
/// with the reply.
pub fn reply_error(text: &str) -> Error {
    match text.strip_prefix(REPLY) {
        Some(line) => Error::server(line),
        None => Error::Protocol(text.to_owned()),
    }
}

impl From<RunError<RustisError>> for Error {
    fn from(error: RunError<RustisError>) -> Self {
        match error {
            RunError::User(error) => error.into(),
            RunError::TimedOut => Error::Client("no pooled connection became ready in time".into()),
        }
    }
}

/// An error of opening a connection: a refused login is [`Error::Login`].
pub fn login_error(error: RustisError) -> Error {
    match Error::from(error) {
        Error::Server(reply) if matches!(reply.code.as_str(), "WRONGPASS" | "NOAUTH" | "NOPERM") => Error::Login(reply.to_string()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use rustis::RedisError;

    use super::*;

    fn reply(line: &str) -> RustisError {
        RedisError::try_from(line.as_bytes()).expect("an error reply").into()
    }

    #[test]
    fn error_replies_keep_their_whole_text() {
        for line in [
            "ERR unknown command 'NO', with args beginning with: 'a' ",
            "WRONGTYPE Operation against a key",
            "MOVED 3999 127.0.0.1:6381",
            "CROSSSLOT Keys in request don't hash to the same slot",
            "NEWKIND of error",
            "CUSTOM",
        ] {
            assert_eq!(Error::from(reply(line)), Error::server(line), "{line}");
            // Among several replies only the text is left.
            assert_eq!(reply_error(&reply(line).to_string()), Error::server(line), "{line}");
        }
        assert_eq!(login_error(reply("WRONGPASS invalid username-password pair")).kind(), "login");
        assert_eq!(login_error(reply("ERR max number of clients reached")).kind(), "server");
    }

    #[test]
    fn failures_without_a_reply_are_told_apart() {
        let kind = |error: RustisError| Error::from(error).kind();
        assert_eq!(kind(ErrorKind::Timeout(TimeoutKind::Command).into()), "timeout");
        assert_eq!(kind(ErrorKind::Timeout(TimeoutKind::Connect).into()), "connection");
        assert_eq!(kind(ErrorKind::DisconnectedByPeer.into()), "connection");
        assert_eq!(kind(std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into()), "connection");
        assert_eq!(kind(ClientError::DisconnectedFromServer.into()), "connection");
        assert_eq!(kind(ClientError::SendQueueFull.into()), "client");
        assert_eq!(kind(ClientError::CrossSlot.into()), "client");
        assert_eq!(kind(ClientError::CannotParseSequence.into()), "protocol");
        assert_eq!(Error::from(RustisError::from(ErrorKind::Aborted)), Error::aborted());
        assert_eq!(Error::from(RunError::<RustisError>::TimedOut).kind(), "client");
        assert_eq!(reply_error("UTF-8 error: invalid").kind(), "protocol");
    }
}
