//! Finding and parsing RESP2/RESP3 frames in a stream of bytes.

use bytes::{Bytes, BytesMut};

use super::Value;

/// The stream is not RESP.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not RESP: {0}")]
pub struct FrameError(pub String);

/// No aggregate may announce more elements than this: a server that is not Redis, not a reply.
const MOST_ELEMENTS: usize = 1 << 27;
/// Redis' own limit of a bulk string (`proto-max-bulk-len`) is 512 MiB.
const MOST_BYTES: usize = 1 << 30;
/// Nesting beyond this is refused, so that a reply can't exhaust the stack.
const MOST_DEPTH: usize = 128;

/// Finds where the next frame ends. Remembers how far it looked, so that a reply arriving
/// in many reads costs one pass over its bytes.
#[derive(Debug, Clone)]
pub struct Scanner {
    /// Where the next element begins.
    position: usize,
    /// Elements still to come before the frame is complete.
    outstanding: usize,
}

impl Default for Scanner {
    fn default() -> Self {
        Self { position: 0, outstanding: 1 }
    }
}

impl Scanner {
    /// The length in bytes of the first frame of `buffer`, `None` while it is incomplete.
    /// `buffer` must begin with the same bytes until a frame was returned.
    ///
    /// # Errors
    /// [`FrameError`] when the bytes are not RESP; the stream can't be used further.
    pub fn frame(&mut self, buffer: &[u8]) -> Result<Option<usize>, FrameError> {
        while self.outstanding > 0 {
            let Some((kind, line, next)) = header(buffer, self.position)? else { return Ok(None) };
            let mut children = 0;
            let mut end = next;
            match kind {
                b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => {}
                b'$' | b'=' | b'!' => {
                    if let Some(length) = length(line, MOST_BYTES)? {
                        end = next + length + 2;
                        if buffer.len() < end {
                            return Ok(None);
                        }
                        if &buffer[end - 2..end] != b"\r\n" {
                            return Err(FrameError("bulk string without its line end".into()));
                        }
                    }
                }
                b'*' | b'~' | b'>' => children = length(line, MOST_ELEMENTS)?.unwrap_or(0),
                b'%' => children = 2 * length(line, MOST_ELEMENTS)?.unwrap_or(0),
                // An attribute precedes the reply it describes.
                b'|' => children = 2 * length(line, MOST_ELEMENTS)?.unwrap_or(0) + 1,
                other => return Err(FrameError(format!("unknown type byte 0x{other:02x}"))),
            }
            self.position = end;
            self.outstanding = self.outstanding - 1 + children;
        }
        let length = self.position;
        *self = Self::default();
        Ok(Some(length))
    }
}

/// Splits whole frames off a receive buffer, without copying.
#[derive(Debug, Default)]
pub struct Frames {
    scanner: Scanner,
}

impl Frames {
    /// Takes the next whole frame off `buffer`, `None` while it is incomplete.
    ///
    /// # Errors
    /// [`FrameError`] when the bytes are not RESP.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<Bytes>, FrameError> {
        Ok(self.scanner.frame(buffer)?.map(|length| buffer.split_to(length).freeze()))
    }
}

/// Type byte, rest of the line and where the next line begins.
type Header<'a> = (u8, &'a [u8], usize);

fn header(buffer: &[u8], position: usize) -> Result<Option<Header<'_>>, FrameError> {
    let Some(rest) = buffer.get(position..) else { return Ok(None) };
    let Some(end) = memchr::memchr(b'\r', rest) else {
        // An aggregate or bulk header is short; only simple strings and errors may be long.
        return match rest.first() {
            Some(b'+' | b'-' | b'(' | b',') | None if rest.len() < MOST_BYTES => Ok(None),
            Some(b':' | b'_' | b'#' | b'$' | b'=' | b'!' | b'*' | b'~' | b'>' | b'%' | b'|') if rest.len() < 64 => Ok(None),
            Some(byte) => Err(FrameError(format!("unknown type byte 0x{byte:02x} or endless line"))),
            None => Ok(None),
        };
    };
    if rest.len() < end + 2 {
        return Ok(None);
    }
    if rest[end + 1] != b'\n' || end == 0 {
        return Err(FrameError("line without its end".into()));
    }
    Ok(Some((rest[0], &rest[1..end], position + end + 2)))
}

/// A length, `None` for -1 (null).
fn length(line: &[u8], most: usize) -> Result<Option<usize>, FrameError> {
    if line == b"-1" {
        return Ok(None);
    }
    let text = std::str::from_utf8(line).unwrap_or_default();
    match text.parse::<usize>() {
        Ok(length) if length <= most => Ok(Some(length)),
        _ => Err(FrameError(format!("bad length {:?}", String::from_utf8_lossy(line)))),
    }
}

/// Parses the first value of `frame`, which must be a whole frame as [`Scanner::frame`] finds it.
///
/// # Errors
/// [`FrameError`] when it is not a whole, well-formed frame.
pub fn parse(frame: &[u8]) -> Result<Value, FrameError> {
    parse_at(frame, &mut 0, 0)
}

fn parse_at(frame: &[u8], position: &mut usize, depth: usize) -> Result<Value, FrameError> {
    if depth > MOST_DEPTH {
        return Err(FrameError("nested too deeply".into()));
    }
    let truncated = || FrameError("truncated frame".into());
    let (kind, line, next) = header(frame, *position)?.ok_or_else(truncated)?;
    *position = next;
    let text = || String::from_utf8_lossy(line).into_owned();
    let elements = |position: &mut usize, count: usize| -> Result<Vec<Value>, FrameError> {
        let mut values = Vec::with_capacity(count.min(1024));
        for _ in 0..count {
            values.push(parse_at(frame, position, depth + 1)?);
        }
        Ok(values)
    };
    Ok(match kind {
        b'+' => Value::Simple(text()),
        b'-' => Value::Error(text()),
        b':' => Value::Int(text().parse().map_err(|_| FrameError(format!("bad integer {:?}", text())))?),
        b'_' => Value::Nil,
        b',' => Value::Double(text().parse().map_err(|_| FrameError(format!("bad double {:?}", text())))?),
        b'#' => Value::Bool(line == b"t"),
        b'(' => Value::BigNumber(text()),
        b'$' | b'=' | b'!' => {
            let Some(length) = length(line, MOST_BYTES)? else { return Ok(Value::Nil) };
            let bytes = frame.get(next..next + length).ok_or_else(truncated)?;
            *position = next + length + 2;
            match kind {
                b'!' => Value::Error(String::from_utf8_lossy(bytes).into_owned()),
                // `=15\r\ntxt:Some string`: three letters of format and a colon.
                b'=' => Value::Blob(bytes.get(4..).unwrap_or_default().to_vec()),
                _ => Value::Blob(bytes.to_vec()),
            }
        }
        b'*' | b'~' | b'>' => match length(line, MOST_ELEMENTS)? {
            None => Value::Nil,
            Some(count) => Value::Array(elements(position, count)?),
        },
        b'%' => {
            let flat = elements(position, 2 * length(line, MOST_ELEMENTS)?.unwrap_or(0))?;
            let mut flat = flat.into_iter();
            let mut pairs = Vec::with_capacity(flat.len() / 2);
            while let (Some(key), Some(value)) = (flat.next(), flat.next()) {
                pairs.push((key, value));
            }
            Value::Map(pairs)
        }
        b'|' => {
            elements(position, 2 * length(line, MOST_ELEMENTS)?.unwrap_or(0))?;
            parse_at(frame, position, depth + 1)?
        }
        other => return Err(FrameError(format!("unknown type byte 0x{other:02x}"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SAMPLE: &[u8] = b"*5\r\n$3\r\na\r\n\r\n:-7\r\n%1\r\n+k\r\n~2\r\n#t\r\n,1.5\r\n_\r\n=7\r\ntxt:abc\r\n";

    fn sample() -> Value {
        Value::Array(vec![
            Value::Blob(b"a\r\n".to_vec()),
            Value::Int(-7),
            Value::Map(vec![(Value::Simple("k".into()), Value::Array(vec![Value::Bool(true), Value::Double(1.5)]))]),
            Value::Nil,
            Value::Blob(b"abc".to_vec()),
        ])
    }

    #[test]
    fn parses_nested_frames_of_both_versions() {
        assert_eq!(parse(SAMPLE), Ok(sample()));
        assert_eq!(parse(b"$-1\r\n"), Ok(Value::Nil));
        assert_eq!(parse(b"*-1\r\n"), Ok(Value::Nil));
        assert_eq!(parse(b"-WRONGTYPE x\r\n"), Ok(Value::Error("WRONGTYPE x".into())));
        assert_eq!(parse(b"|1\r\n+ttl\r\n:3\r\n+OK\r\n"), Ok(Value::Simple("OK".into())));
    }

    #[test]
    fn a_frame_is_found_however_it_is_cut() {
        for cut in 0..SAMPLE.len() {
            let mut frames = Frames::default();
            let mut buffer = BytesMut::from(&SAMPLE[..cut]);
            assert_eq!(frames.next(&mut buffer), Ok(None), "cut at {cut}");
            buffer.extend_from_slice(&SAMPLE[cut..]);
            buffer.extend_from_slice(b"+next\r\n");
            let frame = frames.next(&mut buffer).unwrap().expect("whole now");
            assert_eq!(parse(&frame), Ok(sample()));
            assert_eq!(frames.next(&mut buffer).unwrap().as_deref(), Some(&b"+next\r\n"[..]));
        }
    }

    #[test]
    fn what_is_not_resp_is_refused_at_once() {
        for bytes in [&b"HTTP/1.1 400 Bad Request\r\n"[..], b"SSH-2.0-OpenSSH\r\n", b"$abc\r\n", b"*99999999999\r\n", b"$3\r\nabcde"] {
            assert!(Scanner::default().frame(bytes).is_err(), "{}", String::from_utf8_lossy(bytes));
        }
    }

    proptest! {
        #[test]
        fn no_input_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(Some(length)) = Scanner::default().frame(&bytes) {
                prop_assert!(length <= bytes.len());
                let _ = parse(&bytes[..length]);
            }
        }

        #[test]
        fn a_bulk_string_comes_back_as_it_went(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut out = Vec::new();
            super::super::command::encode_words(&mut out, &[&bytes]);
            prop_assert_eq!(Scanner::default().frame(&out), Ok(Some(out.len())));
            prop_assert_eq!(parse(&out), Ok(Value::Array(vec![Value::Blob(bytes)])));
        }
    }
}
