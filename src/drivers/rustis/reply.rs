//! The crate's reply type.

use rustis::resp::Value as Raw;
use serde::{Deserialize, Deserializer};

use super::error::reply_error;
use crate::drivers::{Error, Reply, Value};

/// A reply that is not an error.
#[derive(Debug)]
pub struct RustisReply(pub(super) Raw);

/// One reply among several, or the error in its place. Read as the crate's own value, a list fails as a whole for one error.
pub(super) struct Each(pub(super) Result<RustisReply, Error>);

impl<'de> Deserialize<'de> for Each {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match Raw::deserialize(deserializer) {
            Ok(value) => Ok(RustisReply(value)),
            Err(error) => Err(reply_error(&error.to_string())),
        }))
    }
}

fn kind(value: &Raw) -> &'static str {
    match value {
        Raw::SimpleString(_) => "simple string",
        Raw::Integer(_) => "integer",
        Raw::Double(_) => "double",
        Raw::BulkString(_) => "string",
        Raw::Boolean(_) => "boolean",
        Raw::Array(_) => "array",
        Raw::Map(_) => "map",
        Raw::Set(_) => "set",
        Raw::Push(_) => "push",
        Raw::Error(_) => "error",
        Raw::Null => "nil",
    }
}

fn blob(value: Raw) -> Result<Option<Vec<u8>>, Error> {
    match value {
        Raw::BulkString(bytes) => Ok(Some(bytes)),
        Raw::SimpleString(text) => Ok(Some(text.into_bytes())),
        Raw::Null => Ok(None),
        other => Err(Error::unexpected("a string", kind(&other))),
    }
}

/// A verbatim string and a big number are read as strings by the crate.
fn common(value: Raw) -> Value {
    match value {
        Raw::Null => Value::Nil,
        Raw::Integer(number) => Value::Int(number),
        Raw::Double(number) => Value::Double(number),
        Raw::Boolean(truth) => Value::Bool(truth),
        Raw::SimpleString(text) => Value::Simple(text),
        Raw::BulkString(bytes) => Value::Blob(bytes),
        Raw::Array(items) | Raw::Set(items) | Raw::Push(items) => Value::Array(items.into_iter().map(common).collect()),
        Raw::Map(pairs) => Value::Map(pairs.into_iter().map(|(key, value)| (common(key), common(value))).collect()),
        Raw::Error(error) => Value::Error(error.to_string()),
    }
}

impl Reply for RustisReply {
    type Blob = Vec<u8>;

    fn into_blob(self) -> Result<Option<Vec<u8>>, Error> {
        blob(self.0)
    }

    fn into_blobs(self) -> Result<Vec<Vec<u8>>, Error> {
        match self.0 {
            Raw::Array(items) | Raw::Set(items) => {
                let one = |item| blob(item)?.ok_or_else(|| Error::unexpected("a string", "nil"));
                items.into_iter().map(one).collect()
            }
            other => Err(Error::unexpected("an array of strings", kind(&other))),
        }
    }

    fn into_ok(self) -> Result<(), Error> {
        match self.0 {
            Raw::SimpleString(text) if text == "OK" => Ok(()),
            other => Err(Error::unexpected("OK", kind(&other))),
        }
    }

    fn into_value(self) -> Result<Value, Error> {
        Ok(common(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_of_another_kind_is_a_protocol_error() {
        assert_eq!(RustisReply(Raw::Integer(1)).into_blob().unwrap_err().kind(), "protocol");
        assert_eq!(RustisReply(Raw::Integer(1)).into_blobs().unwrap_err().kind(), "protocol");
        assert_eq!(RustisReply(Raw::BulkString(b"OK".to_vec())).into_ok().unwrap_err().kind(), "protocol");
        assert_eq!(RustisReply(Raw::Null).into_blob(), Ok(None));
        assert_eq!(RustisReply(Raw::SimpleString("OK".into())).into_ok(), Ok(()));
    }

    #[test]
    fn the_common_form_keeps_bytes_and_order() {
        let map = vec![(Raw::SimpleString("b".into()), Raw::BulkString(b"\xff\r\n".to_vec())), (Raw::Integer(1), Raw::Null)];
        let reply = RustisReply(Raw::Array(vec![Raw::Map(map), Raw::Set(vec![Raw::Boolean(true)])]));
        let map = vec![(Value::Simple("b".into()), Value::Blob(b"\xff\r\n".to_vec())), (Value::Int(1), Value::Nil)];
        assert_eq!(reply.into_value(), Ok(Value::Array(vec![Value::Map(map), Value::Array(vec![Value::Bool(true)])])));
    }
}
