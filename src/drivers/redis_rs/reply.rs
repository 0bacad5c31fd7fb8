//! The crate's reply type.

use redis::Value as Raw;

use crate::drivers::{Error, Reply, ServerError, Value};

/// A reply that is not an error.
#[derive(Clone, Debug)]
pub struct RedisReply(pub(super) Raw);

impl RedisReply {
    /// Tells an error reply from a reply.
    pub(super) fn new(value: Raw) -> Result<Self, Error> {
        match value {
            // The crate splits the line where we do, and keeps a space at its end.
            Raw::ServerError(error) => Err(Error::Server(ServerError {
                code: error.code().to_owned(),
                detail: error.details().unwrap_or_default().trim_end().to_owned(),
            })),
            value => Ok(Self(value)),
        }
    }
}

/// The reply that attributes (RESP3) belong to.
fn bare(value: Raw) -> Raw {
    match value {
        Raw::Attribute { data, .. } => bare(*data),
        value => value,
    }
}

fn kind(value: &Raw) -> &'static str {
    match value {
        Raw::Nil => "nil",
        Raw::Int(_) => "integer",
        Raw::BulkString(_) => "bulk string",
        Raw::Array(_) => "array",
        Raw::SimpleString(_) | Raw::Okay => "simple string",
        Raw::Map(_) => "map",
        Raw::Set(_) => "set",
        Raw::Double(_) => "double",
        Raw::Boolean(_) => "boolean",
        Raw::VerbatimString { .. } => "verbatim string",
        Raw::BigNumber(_) => "big number",
        Raw::Push { .. } => "push",
        Raw::ServerError(_) => "error",
        _ => "unknown reply",
    }
}

fn blob(value: Raw) -> Result<Option<Vec<u8>>, Error> {
    match bare(value) {
        Raw::BulkString(bytes) => Ok(Some(bytes)),
        Raw::Nil => Ok(None),
        Raw::SimpleString(text) | Raw::VerbatimString { text, .. } => Ok(Some(text.into_bytes())),
        Raw::Okay => Ok(Some(b"OK".to_vec())),
        other => Err(Error::unexpected("a string", kind(&other))),
    }
}

/// The digits of a big number: bytes, but an integer type when somebody else's dependencies turn the crate's feature
/// `num-bigint` on, and that type shows its digits.
fn digits<N: std::any::Any + std::fmt::Debug>(number: &N) -> String {
    match (number as &dyn std::any::Any).downcast_ref::<Vec<u8>>() {
        Some(digits) => String::from_utf8_lossy(digits).into_owned(),
        None => format!("{number:?}"),
    }
}

fn common(value: Raw) -> Result<Value, Error> {
    let list = |items: Vec<Raw>| items.into_iter().map(common).collect::<Result<Vec<_>, _>>().map(Value::Array);
    Ok(match value {
        Raw::Nil => Value::Nil,
        Raw::Int(number) => Value::Int(number),
        Raw::BulkString(bytes) => Value::Blob(bytes),
        Raw::SimpleString(text) => Value::Simple(text),
        Raw::Okay => Value::Simple("OK".into()),
        Raw::Array(items) | Raw::Set(items) => list(items)?,
        Raw::Push { data, .. } => list(data)?,
        Raw::Map(pairs) => {
            let pairs = pairs.into_iter().map(|(key, value)| Ok((common(key)?, common(value)?)));
            Value::Map(pairs.collect::<Result<_, Error>>()?)
        }
        Raw::Attribute { data, .. } => common(*data)?,
        Raw::Double(number) => Value::Double(number),
        Raw::Boolean(truth) => Value::Bool(truth),
        Raw::VerbatimString { text, .. } => Value::Blob(text.into_bytes()),
        Raw::BigNumber(number) => Value::BigNumber(digits(&number)),
        Raw::ServerError(error) => Value::Error(match error.details() {
            Some(detail) => format!("{} {detail}", error.code()),
            None => error.code().to_owned(),
        }),
        // The crate may add kinds, in the lines that say so.
        #[allow(unreachable_patterns)]
        other => return Err(Error::unexpected("a reply of RESP2 or RESP3", kind(&other))),
    })
}

impl Reply for RedisReply {
    type Blob = Vec<u8>;

    fn into_blob(self) -> Result<Option<Vec<u8>>, Error> {
        blob(self.0)
    }

    fn into_blobs(self) -> Result<Vec<Vec<u8>>, Error> {
        match bare(self.0) {
            Raw::Array(items) | Raw::Set(items) => {
                let one = |item| blob(item)?.ok_or_else(|| Error::unexpected("a string", "nil"));
                items.into_iter().map(one).collect()
            }
            other => Err(Error::unexpected("an array of strings", kind(&other))),
        }
    }

    fn into_ok(self) -> Result<(), Error> {
        match bare(self.0) {
            Raw::Okay => Ok(()),
            other => Err(Error::unexpected("OK", kind(&other))),
        }
    }

    fn into_value(self) -> Result<Value, Error> {
        common(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::parse;

    #[test]
    fn the_common_form_is_that_of_our_own_parser() {
        let frames: [&[u8]; 10] = [
            b"$3\r\na\r\n\r\n",
            b":-7\r\n",
            b"+OK\r\n",
            b"+PONG\r\n",
            b"$-1\r\n",
            b"*2\r\n$1\r\na\r\n*0\r\n",
            b"%1\r\n$1\r\nk\r\n~2\r\n#t\r\n,1.5\r\n",
            b"=7\r\ntxt:abc\r\n",
            b"(12345678901234567890123\r\n",
            b"|1\r\n+ttl\r\n:3\r\n$1\r\nx\r\n",
        ];
        for frame in frames {
            let reply = RedisReply(redis::parse_redis_value(frame).unwrap());
            assert_eq!(reply.into_value(), Ok(parse(frame).unwrap()), "{}", String::from_utf8_lossy(frame));
        }
    }

    #[test]
    fn a_reply_of_another_kind_is_a_protocol_error() {
        let integer = RedisReply(Raw::Int(1));
        assert_eq!(integer.clone().into_blob().unwrap_err().kind(), "protocol");
        assert_eq!(integer.clone().into_blobs().unwrap_err().kind(), "protocol");
        assert_eq!(integer.into_ok().unwrap_err().kind(), "protocol");
        assert_eq!(RedisReply(Raw::Nil).into_blob(), Ok(None));
    }
}
