//! The crate's reply type.

use super::api::Value as Raw;
use bytes::Bytes;

use crate::drivers::{Error, Reply, Value};

/// A reply that is not an error.
#[derive(Clone, Debug)]
pub struct FredReply(pub(super) Raw);

fn blob(value: Raw) -> Result<Option<Bytes>, Error> {
    match value {
        Raw::Bytes(bytes) => Ok(Some(bytes)),
        Raw::String(text) => Ok(Some(text.into_inner())),
        Raw::Null => Ok(None),
        Raw::Queued => Ok(Some(Bytes::from_static(b"QUEUED"))),
        other => Err(Error::unexpected("a string", &other.kind().to_string())),
    }
}

/// fred keeps no trace of what carried a string: `+`, `$`, `=` and `(` are one kind. Only `OK` is told apart.
fn common(value: Raw) -> Result<Value, Error> {
    Ok(match value {
        Raw::Null => Value::Nil,
        Raw::Integer(number) => Value::Int(number),
        Raw::Double(number) => Value::Double(number),
        Raw::Boolean(truth) => Value::Bool(truth),
        Raw::Bytes(bytes) => Value::Blob(bytes.to_vec()),
        Raw::String(text) if &text[..] == "OK" => Value::Simple("OK".into()),
        Raw::String(text) => Value::Blob(text.into_inner().to_vec()),
        Raw::Queued => Value::Simple("QUEUED".into()),
        Raw::Array(items) => Value::Array(items.into_iter().map(common).collect::<Result<_, _>>()?),
        Raw::Map(map) => {
            let pairs = map.inner().into_iter().map(|(key, value)| Ok((common(key.into())?, common(value)?)));
            Value::Map(pairs.collect::<Result<_, Error>>()?)
        }
    })
}

impl Reply for FredReply {
    type Blob = Bytes;

    fn into_blob(self) -> Result<Option<Bytes>, Error> {
        blob(self.0)
    }

    fn into_blobs(self) -> Result<Vec<Bytes>, Error> {
        match self.0 {
            Raw::Array(items) => {
                let one = |item| blob(item)?.ok_or_else(|| Error::unexpected("a string", "nil"));
                items.into_iter().map(one).collect()
            }
            other => Err(Error::unexpected("an array of strings", &other.kind().to_string())),
        }
    }

    fn into_ok(self) -> Result<(), Error> {
        if self.0.is_ok() { Ok(()) } else { Err(Error::unexpected("OK", &self.0.kind().to_string())) }
    }

    fn into_value(self) -> Result<Value, Error> {
        common(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_of_another_kind_is_a_protocol_error() {
        let integer = FredReply(Raw::Integer(1));
        assert_eq!(integer.clone().into_blob().unwrap_err().kind(), "protocol");
        assert_eq!(integer.clone().into_blobs().unwrap_err().kind(), "protocol");
        assert_eq!(integer.into_ok().unwrap_err().kind(), "protocol");
        assert_eq!(FredReply(Raw::Null).into_blob(), Ok(None));
        assert_eq!(FredReply("OK".into()).into_ok(), Ok(()));
    }

    #[test]
    fn strings_are_bytes_again_whatever_fred_took_them_for() {
        let binary = Raw::Bytes(Bytes::from_static(b"\xff\r\n"));
        let reply = FredReply(Raw::Array(vec!["text".into(), binary]));
        assert_eq!(reply.clone().into_blobs(), Ok(vec![Bytes::from_static(b"text"), Bytes::from_static(b"\xff\r\n")]));
        assert_eq!(reply.into_value(), Ok(Value::Array(vec![Value::Blob(b"text".to_vec()), Value::Blob(b"\xff\r\n".to_vec())])));
    }
}
