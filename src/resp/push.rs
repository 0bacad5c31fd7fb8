//! Messages of publish/subscribe in a stream of bytes: arrays in RESP2, pushes in RESP3, of the same words. And the pushes by
//! which a server says what a client must forget.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::{FrameError, Scanner};

/// A published message: its whole frame, and where its parts are in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedMessage {
    frame: Bytes,
    pattern: Option<Range<usize>>,
    channel: Range<usize>,
    payload: Range<usize>,
}

impl PublishedMessage {
    /// The channel that it was published to.
    #[must_use]
    pub fn channel(&self) -> &[u8] {
        &self.frame[self.channel.clone()]
    }

    /// The pattern that matched, for a subscription by pattern.
    #[must_use]
    pub fn pattern(&self) -> Option<&[u8]> {
        self.pattern.clone().map(|range| &self.frame[range])
    }

    /// What was published.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.frame[self.payload.clone()]
    }
}

/// What a subscribed connection receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// A message.
    Message(PublishedMessage),
    /// Any other frame, such as a confirmation.
    Other(Bytes),
}

/// Splits what a subscribed connection receives off its buffer, without copying.
#[derive(Debug, Default)]
pub struct Pushes {
    /// For frames of another form; it remembers how far it looked.
    scanner: Scanner,
    /// The frame at the front of the buffer is one of those.
    other: bool,
}

/// The end of a message's frame, and its parts.
type Parts = (usize, [Range<usize>; 3], usize);

impl Pushes {
    /// Takes the next whole frame off `buffer`, `None` while it is incomplete.
    ///
    /// # Errors
    /// [`FrameError`] when the bytes are not RESP.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<Pushed>, FrameError> {
        if !self.other {
            match message(buffer) {
                Found::Whole((end, parts, words)) => {
                    let frame = buffer.split_to(end).freeze();
                    let [first, second, third] = parts;
                    return Ok(Some(Pushed::Message(match words {
                        2 => PublishedMessage { frame, pattern: None, channel: first, payload: second },
                        _ => PublishedMessage { frame, pattern: Some(first), channel: second, payload: third },
                    })));
                }
                Found::Incomplete => return Ok(None),
                Found::Other => self.other = true,
            }
        }
        let Some(length) = self.scanner.frame(buffer)? else { return Ok(None) };
        self.other = false;
        Ok(Some(Pushed::Other(buffer.split_to(length).freeze())))
    }
}

enum Found {
    Whole(Parts),
    Incomplete,
    Other,
}

/// The bulk string at `position`: where its bytes are, and where the next element begins.
fn bulk(buffer: &[u8], position: usize) -> Option<(Range<usize>, usize)> {
    let digits = buffer.get(position + 1..)?;
    let mut length = 0usize;
    for (place, &byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' => length = length.checked_mul(10)?.checked_add(usize::from(byte - b'0'))?,
            _ => {
                let start = position + 1 + place + 2;
                let end = start.checked_add(length)?;
                return (buffer.len() >= end.checked_add(2)?).then_some((start..end, end + 2));
            }
        }
    }
    None
}

/// Looks for a message at the front of `buffer`. Frames of servers have one form only: `*3` or `>3` with `message` or `smessage`,
/// `*4` or `>4` with `pmessage`, all words bulk strings.
fn message(buffer: &[u8]) -> Found {
    const NAMES: [(&[u8], usize); 3] = [(b"3\r\n$7\r\nmessage\r\n", 2), (b"3\r\n$8\r\nsmessage\r\n", 2), (b"4\r\n$8\r\npmessage\r\n", 3)];
    let rest = match buffer.split_first() {
        None => return Found::Incomplete,
        Some((b'*' | b'>', rest)) => rest,
        Some(_) => return Found::Other,
    };
    let Some(&(name, words)) = NAMES.iter().find(|(name, _)| rest.starts_with(name)) else {
        let cut_short = NAMES.iter().any(|(name, _)| name.starts_with(rest));
        return if cut_short { Found::Incomplete } else { Found::Other };
    };
    let mut position = 1 + name.len();
    let mut parts = [0..0, 0..0, 0..0];
    for part in &mut parts[..words] {
        match buffer.get(position) {
            None => return Found::Incomplete,
            Some(b'$') => {}
            // A reply that happens to begin like a message.
            Some(_) => return Found::Other,
        }
        let Some((range, next)) = bulk(buffer, position) else { return Found::Incomplete };
        (*part, position) = (range, next);
    }
    Found::Whole((position, parts, words))
}

/// What a client must forget that caches on its own side.
#[derive(Clone, Copy, Debug)]
pub enum Invalidated<'a> {
    /// Everything: the database was emptied.
    All,
    /// These keys.
    Keys(InvalidatedKeys<'a>),
}

/// The keys of an invalidation, in the server's order.
#[derive(Clone, Copy, Debug)]
pub struct InvalidatedKeys<'a> {
    frame: &'a [u8],
    position: usize,
}

impl<'a> Iterator for InvalidatedKeys<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.frame.get(self.position).filter(|&&kind| kind == b'$')?;
        let (range, next) = bulk(self.frame, self.position)?;
        self.position = next;
        Some(&self.frame[range])
    }
}

/// Reads the whole frame of a push, `None` when it is no invalidation. One that can't be understood means everything.
#[must_use]
pub fn invalidated(frame: &[u8]) -> Option<Invalidated<'_>> {
    const NAME: &[u8] = b">2\r\n$10\r\ninvalidate\r\n";
    let rest = frame.strip_prefix(NAME)?;
    let keys = || {
        let first = NAME.len() + memchr::memchr(b'\n', rest)? + 1;
        let count: usize = std::str::from_utf8(rest[..first - NAME.len()].strip_prefix(b"*")?.trim_ascii_end()).ok()?.parse().ok()?;
        let keys = InvalidatedKeys { frame, position: first };
        (keys.count() == count).then_some(keys)
    };
    Some(keys().map_or(Invalidated::All, Invalidated::Keys))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_an_invalidation_are_read_byte_for_byte() {
        let keys = |frame: &'static [u8]| match invalidated(frame) {
            Some(Invalidated::Keys(keys)) => Some(keys.collect::<Vec<_>>()),
            Some(Invalidated::All) => None,
            None => panic!("no invalidation: {frame:?}"),
        };
        let two = b">2\r\n$10\r\ninvalidate\r\n*2\r\n$0\r\n\r\n$7\r\n\r\n$1\r\n\xff\r\n";
        assert_eq!(keys(two), Some(vec![&b""[..], b"\r\n$1\r\n\xff"]));
        for all in ["_\r\n", "*-1\r\n", ":1\r\n", "*2\r\n$1\r\na\r\n:1\r\n"] {
            assert_eq!(keys(format!(">2\r\n$10\r\ninvalidate\r\n{all}").leak().as_bytes()), None, "{all:?}");
        }
        for other in [&b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\np\r\n"[..], b"+OK\r\n", b""] {
            assert!(invalidated(other).is_none(), "{other:?}");
        }
    }

    const STREAM: &[u8] = b">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n\
        *3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$4\r\n\r\n$1\r\n\
        >4\r\n$8\r\npmessage\r\n$2\r\nc*\r\n$2\r\nch\r\n$0\r\n\r\n\
        -ERR no\r\n\
        >3\r\n$8\r\nsmessage\r\n$1\r\ns\r\n$1\r\n\xff\r\n";

    fn read(chunk: usize) -> Vec<Pushed> {
        let (mut pushes, mut buffer, mut seen) = (Pushes::default(), BytesMut::new(), Vec::new());
        for bytes in STREAM.chunks(chunk) {
            buffer.extend_from_slice(bytes);
            while let Some(pushed) = pushes.next(&mut buffer).unwrap() {
                seen.push(pushed);
            }
        }
        assert!(buffer.is_empty());
        seen
    }

    #[test]
    fn messages_are_found_however_the_stream_is_cut() {
        let whole = read(STREAM.len());
        for chunk in 1..STREAM.len() {
            assert_eq!(read(chunk), whole, "cut every {chunk} bytes");
        }
        let [Pushed::Other(_), Pushed::Message(plain), Pushed::Message(pattern), Pushed::Other(error), Pushed::Message(sharded)] =
            &whole[..]
        else {
            panic!("{whole:?}")
        };
        assert_eq!((plain.pattern(), plain.channel(), plain.payload()), (None, &b"c"[..], &b"\r\n$1"[..]));
        assert_eq!((pattern.pattern(), pattern.channel(), pattern.payload()), (Some(&b"c*"[..]), &b"ch"[..], &b""[..]));
        assert_eq!((sharded.pattern(), sharded.channel(), sharded.payload()), (None, &b"s"[..], &b"\xff"[..]));
        assert_eq!(&error[..], b"-ERR no\r\n");
    }

    #[test]
    fn what_is_not_resp_is_an_error() {
        assert!(Pushes::default().next(&mut BytesMut::from(&b"HTTP/1.1 400\r\n"[..])).is_err());
    }
}
