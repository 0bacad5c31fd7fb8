//! A reply of the raw driver: the frame as it came, parsed by whoever asked.

use bytes::Bytes;

use crate::drivers::{Error, PipelineReplies, Reply, Value};
use crate::resp::{Scanner, parse};

/// One whole RESP frame that is not an error.
#[derive(Clone, Debug)]
pub struct Frame(Bytes);

impl Frame {
    /// Tells an error reply from a reply.
    ///
    /// # Errors
    /// [`Error::Server`] for an error frame.
    pub fn new(frame: Bytes) -> Result<Self, Error> {
        match frame.first() {
            Some(b'-') => Err(Error::server(&String::from_utf8_lossy(&frame))),
            Some(b'!') => match parse(&frame) {
                Ok(Value::Error(text)) => Err(Error::server(&text)),
                _ => Err(Error::Protocol("a malformed error reply".into())),
            },
            _ => Ok(Self(frame)),
        }
    }

    fn unexpected(&self, wanted: &str) -> Error {
        Error::unexpected(wanted, parse(&self.0).map_or("a malformed frame", |value| value.kind()))
    }
}

/// Where the bytes of a bulk string frame are.
fn string_range(frame: &[u8]) -> Option<(usize, usize)> {
    if frame.first() != Some(&b'$') || frame.get(1) == Some(&b'-') {
        return None;
    }
    let line = memchr::memchr(b'\r', frame)?;
    Some((line + 2, frame.len() - 2))
}

/// The replies of a transaction, out of the frames that answer `MULTI`, its commands and `EXEC`.
///
/// # Errors
/// As [`Transactions::transaction`](crate::drivers::Transactions::transaction).
pub(super) fn executed(mut frames: Vec<Bytes>) -> Result<PipelineReplies<Frame>, Error> {
    let exec = frames.pop().unwrap_or_default();
    let commands = frames.len().saturating_sub(1);
    // A command that was refused says why; EXEC then says only that it was.
    for queued in frames {
        Frame::new(queued)?;
    }
    let exec = Frame::new(exec)?;
    if matches!(&exec.0[..], b"*-1\r\n" | b"_\r\n") {
        return Err(Error::aborted());
    }
    let replies: PipelineReplies<Frame> = elements(&exec.0).ok_or_else(|| exec.unexpected("an array"))?.map(Frame::new).collect();
    match replies.len() {
        got if got == commands => Ok(replies),
        got => Err(Error::Protocol(format!("EXEC returned {got} replies to {commands} commands"))),
    }
}

/// The elements of an array or set, each a frame of its own; `None` for a frame of another kind. Nothing is copied.
fn elements(frame: &Bytes) -> Option<impl Iterator<Item = Bytes>> {
    let Some(b'*' | b'~') = frame.first() else { return None };
    let mut start = memchr::memchr(b'\r', frame)? + 2;
    let mut scanner = Scanner::default();
    Some(std::iter::from_fn(move || {
        let length = scanner.frame(&frame[start..]).ok().flatten()?;
        start += length;
        Some(frame.slice(start - length..start))
    }))
}

impl Reply for Frame {
    type Blob = Bytes;

    fn into_blob(self) -> Result<Option<Bytes>, Error> {
        if let Some((start, end)) = string_range(&self.0) {
            return Ok(Some(self.0.slice(start..end)));
        }
        match &self.0[..] {
            b"$-1\r\n" | b"_\r\n" => Ok(None),
            [b'+', .., b'\r', b'\n'] => Ok(Some(self.0.slice(1..self.0.len() - 2))),
            _ => Err(self.unexpected("a string")),
        }
    }

    fn into_blobs(self) -> Result<Vec<Bytes>, Error> {
        let line = match self.0.first() {
            Some(b'*' | b'~') => memchr::memchr(b'\r', &self.0).unwrap_or(0),
            _ => return Err(self.unexpected("an array of strings")),
        };
        let count: usize = std::str::from_utf8(&self.0[1..line]).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut blobs = Vec::with_capacity(count);
        let mut start = line + 2;
        let mut scanner = Scanner::default();
        for _ in 0..count {
            let length = match scanner.frame(&self.0[start..]) {
                Ok(Some(length)) => length,
                _ => return Err(self.unexpected("an array of strings")),
            };
            let (from, to) = string_range(&self.0[start..start + length]).ok_or_else(|| self.unexpected("an array of strings"))?;
            blobs.push(self.0.slice(start + from..start + to));
            start += length;
        }
        Ok(blobs)
    }

    fn into_ok(self) -> Result<(), Error> {
        if &self.0[..] == b"+OK\r\n" { Ok(()) } else { Err(self.unexpected("OK")) }
    }

    fn into_value(self) -> Result<Value, Error> {
        parse(&self.0).map_err(|error| Error::Protocol(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(frames: &[&'static str]) -> Vec<Bytes> {
        frames.iter().map(|frame| Bytes::from_static(frame.as_bytes())).collect()
    }

    #[test]
    fn the_elements_of_exec_are_the_replies_with_errors_in_their_place() {
        let exec = "*4\r\n+OK\r\n-ERR no\r\n*2\r\n$1\r\na\r\n:1\r\n$-1\r\n";
        let replies = executed(frames(&["+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "+QUEUED\r\n", exec])).unwrap();
        let values: Vec<_> = replies.into_iter().map(|reply| reply.and_then(Reply::into_value)).collect();
        let list = Value::Array(vec![Value::Blob(b"a".to_vec()), Value::Int(1)]);
        assert_eq!(values, [Ok(Value::Simple("OK".into())), Err(Error::server("ERR no")), Ok(list), Ok(Value::Nil)]);
    }

    #[test]
    fn a_transaction_fails_as_a_whole_for_the_first_reason_it_was_given() {
        let refused = ["+OK\r\n", "+QUEUED\r\n", "-ERR first\r\n", "-ERR second\r\n", "-EXECABORT because\r\n"];
        assert_eq!(executed(frames(&refused)).unwrap_err(), Error::server("ERR first"));
        let denied = ["-NOPERM no multi\r\n", "+OK\r\n", "-ERR EXEC without MULTI\r\n"];
        assert_eq!(executed(frames(&denied)).unwrap_err(), Error::server("NOPERM no multi"));
        for nil in ["*-1\r\n", "_\r\n"] {
            assert_eq!(executed(frames(&["+OK\r\n", "+QUEUED\r\n", nil])).unwrap_err(), Error::aborted());
        }
        for wrong in ["*0\r\n", "*2\r\n:1\r\n:2\r\n", "+OK\r\n"] {
            assert_eq!(executed(frames(&["+OK\r\n", "+QUEUED\r\n", wrong])).unwrap_err().kind(), "protocol", "{wrong}");
        }
    }
}
