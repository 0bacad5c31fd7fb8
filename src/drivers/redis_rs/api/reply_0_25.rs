//! The crate's reply type in 0.25, which knows RESP2 only. An error reply fails the call that got it.

use redis::Value as Raw;

use crate::drivers::{Error, Reply, Value};

/// A reply that is not an error.
#[derive(Clone, Debug)]
pub struct RedisReply(pub(super) Raw);

impl RedisReply {
    pub(super) fn new(value: Raw) -> Result<Self, Error> {
        Ok(Self(value))
    }
}

fn kind(value: &Raw) -> &'static str {
    match value {
        Raw::Nil => "nil",
        Raw::Int(_) => "integer",
        Raw::Data(_) => "bulk string",
        Raw::Bulk(_) => "array",
        Raw::Status(_) | Raw::Okay => "simple string",
    }
}

fn blob(value: Raw) -> Result<Option<Vec<u8>>, Error> {
    match value {
        Raw::Data(bytes) => Ok(Some(bytes)),
        Raw::Nil => Ok(None),
        Raw::Status(text) => Ok(Some(text.into_bytes())),
        Raw::Okay => Ok(Some(b"OK".to_vec())),
        other => Err(Error::unexpected("a string", kind(&other))),
    }
}

fn common(value: Raw) -> Value {
    match value {
        Raw::Nil => Value::Nil,
        Raw::Int(number) => Value::Int(number),
        Raw::Data(bytes) => Value::Blob(bytes),
        Raw::Bulk(items) => Value::Array(items.into_iter().map(common).collect()),
        Raw::Status(text) => Value::Simple(text),
        Raw::Okay => Value::Simple("OK".into()),
    }
}

impl Reply for RedisReply {
    type Blob = Vec<u8>;

    fn into_blob(self) -> Result<Option<Vec<u8>>, Error> {
        blob(self.0)
    }

    fn into_blobs(self) -> Result<Vec<Vec<u8>>, Error> {
        match self.0 {
            Raw::Bulk(items) => {
                let one = |item| blob(item)?.ok_or_else(|| Error::unexpected("a string", "nil"));
                items.into_iter().map(one).collect()
            }
            other => Err(Error::unexpected("an array of strings", kind(&other))),
        }
    }

    fn into_ok(self) -> Result<(), Error> {
        match self.0 {
            Raw::Okay => Ok(()),
            other => Err(Error::unexpected("OK", kind(&other))),
        }
    }

    fn into_value(self) -> Result<Value, Error> {
        Ok(common(self.0))
    }
}
