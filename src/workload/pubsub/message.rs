//! The messages: a fixed binary header, and a filler that is the same in every message.
//!
//! ```text
//! byte  0..3   "RCB"
//!       3      kind: 1 a message, 2 the end of a publisher's stream
//!       4..12  run: told apart from others by this number
//!      12..16  publisher
//!      16..20  channel
//!      20..28  sequence, from 0, counted by each publisher for each channel; of an end: how many there were
//!      28..36  time of sending, the planned one under a set rate, nanoseconds of the monotonic clock
//!      36..40  clock: times of another machine's clock can't be compared
//!      40..44  length of the whole message
//!      44..48  check over the bytes before
//!      48..    filler
//! ```
//!
//! All numbers are little-endian.

use std::sync::LazyLock;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Bytes of the header, and so the least size of a message.
pub const HEADER: usize = 48;

/// The largest message.
pub const LARGEST: usize = 16 << 20;

const MAGIC: [u8; 3] = *b"RCB";

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One of the stream.
    Message,
    /// The last of a publisher on a channel; its sequence is the number of messages before it.
    End,
}

/// What the header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What it is for.
    pub kind: Kind,
    /// Which run.
    pub run: u64,
    /// Which publisher of the run.
    pub publisher: u32,
    /// Which channel.
    pub channel: u32,
    /// Which message of this publisher on this channel, from 0.
    pub sequence: u64,
    /// When it was sent, or under a set rate was to be sent, see [`crate::measure::clock::now_ns`].
    pub sent_ns: u64,
    /// By which clock, see [`crate::measure::clock::clock_id`].
    pub clock: u32,
}

/// What a received payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A whole message of this run.
    Ours(Header),
    /// Sent by another run, or by something else altogether.
    Foreign,
    /// A message of ours that is not as it was sent.
    Corrupt,
}

/// Filler for every message; a longer one is made where it is needed.
static FILLER: LazyLock<Vec<u8>> = LazyLock::new(|| filler(64 << 10));

fn filler(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    StdRng::seed_from_u64(0x5EED_F111).fill(&mut bytes[..]);
    bytes
}

/// Whether `bytes` are the filler from its start. Long ones repeat it.
fn is_filler(bytes: &[u8]) -> bool {
    let filler = &FILLER[..];
    bytes.chunks(filler.len()).all(|chunk| chunk == &filler[..chunk.len()])
}

/// A buffer of `length` bytes (at least [`HEADER`]) with the filler in place, for [`write()`].
#[must_use]
pub fn template(length: usize) -> Vec<u8> {
    let length = length.max(HEADER);
    let mut bytes = vec![0; length];
    for chunk in bytes[HEADER..].chunks_mut(FILLER.len()) {
        chunk.copy_from_slice(&FILLER[..chunk.len()]);
    }
    bytes
}

/// Writes the header into the first bytes of a [`template`].
#[inline]
pub fn write(bytes: &mut [u8], header: &Header) {
    let length = bytes.len() as u32;
    let Some(head) = bytes.first_chunk_mut::<HEADER>() else { return };
    head[..3].copy_from_slice(&MAGIC);
    head[3] = match header.kind {
        Kind::Message => 1,
        Kind::End => 2,
    };
    head[4..12].copy_from_slice(&header.run.to_le_bytes());
    head[12..16].copy_from_slice(&header.publisher.to_le_bytes());
    head[16..20].copy_from_slice(&header.channel.to_le_bytes());
    head[20..28].copy_from_slice(&header.sequence.to_le_bytes());
    head[28..36].copy_from_slice(&header.sent_ns.to_le_bytes());
    head[36..40].copy_from_slice(&header.clock.to_le_bytes());
    head[40..44].copy_from_slice(&length.to_le_bytes());
    let check = check(head);
    head[44..48].copy_from_slice(&check.to_le_bytes());
}

/// A check of the header's first 44 bytes: any change of up to eight bytes in a row changes it with all but a chance of 2⁻³².
#[inline]
fn check(head: &[u8; HEADER]) -> u32 {
    // Multiply and fold, word by word; the multipliers are odd, so that no word's change is lost on the way.
    let mut mixed = 0x9E37_79B9_7F4A_7C15_u64;
    for word in head[..40].chunks_exact(8) {
        mixed = (mixed ^ u64::from_le_bytes(word.try_into().unwrap_or_default())).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        mixed ^= mixed >> 32;
    }
    let rest = u32::from_le_bytes(head[40..44].try_into().unwrap_or_default());
    mixed = (mixed ^ u64::from(rest)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (mixed ^ (mixed >> 32)) as u32
}

/// Reads a received payload. `run` is this run's number.
///
/// Whole messages of another run are foreign. What is not whole is a corrupt message of ours if it still bears our mark or the number
/// of our run, so that no damage within eight bytes makes it look foreign; anything else was sent by somebody else.
#[must_use]
#[inline]
pub fn read(bytes: &[u8], run: u64) -> Seen {
    match parse(bytes) {
        Some(header) if header.run == run => Seen::Ours(header),
        Some(_) => Seen::Foreign,
        None => broken(bytes, run),
    }
}

/// The header of a whole message, of whichever run.
#[must_use]
#[inline]
pub fn parse(bytes: &[u8]) -> Option<Header> {
    let head = bytes.first_chunk::<HEADER>()?;
    let kind = match head[3] {
        1 => Kind::Message,
        2 => Kind::End,
        _ => return None,
    };
    let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap_or_default());
    let half = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap_or_default());
    let whole = head[..3] == MAGIC && half(44) == check(head) && half(40) as usize == bytes.len() && is_filler(&bytes[HEADER..]);
    whole.then(|| Header {
        kind,
        run: word(4),
        publisher: half(12),
        channel: half(16),
        sequence: word(20),
        sent_ns: word(28),
        clock: half(36),
    })
}

#[cold]
fn broken(bytes: &[u8], run: u64) -> Seen {
    let marked = bytes.starts_with(&MAGIC);
    let numbered = bytes.get(4..12).is_some_and(|number| number == run.to_le_bytes());
    if marked || numbered { Seen::Corrupt } else { Seen::Foreign }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(run: u64, sequence: u64) -> Header {
        Header { kind: Kind::Message, run, publisher: 3, channel: 7, sequence, sent_ns: 12_345, clock: 9 }
    }

    fn message(header: &Header, length: usize) -> Vec<u8> {
        let mut bytes = template(length);
        write(&mut bytes, header);
        bytes
    }

    #[test]
    fn what_is_written_is_read_at_every_size() {
        for length in [HEADER, HEADER + 1, 128, 70_000, 200_000] {
            let header = header(5, 1 << 40);
            assert_eq!(read(&message(&header, length), 5), Seen::Ours(header), "{length}");
        }
        let end = Header { kind: Kind::End, ..header(5, 6) };
        assert_eq!(parse(&message(&end, HEADER)), Some(end));
    }

    #[test]
    fn other_runs_and_other_senders_are_foreign() {
        assert_eq!(read(&message(&header(6, 0), 100), 5), Seen::Foreign);
        for bytes in [&b""[..], b"hello", &[0xFF; 200]] {
            assert_eq!(read(bytes, 5), Seen::Foreign, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn damage_anywhere_makes_a_message_corrupt_and_never_foreign_or_another(
            at in 0usize..300, flip in 1u8..=255, sequence: u64, run: u64,
        ) {
            let mut bytes = message(&header(run, sequence), 300);
            bytes[at] ^= flip;
            prop_assert_eq!(read(&bytes, run), Seen::Corrupt);
        }

        #[test]
        fn a_cut_or_longer_message_is_corrupt(keep in 3usize..300, run: u64) {
            let bytes = message(&header(run, 1), 300);
            prop_assert_eq!(read(&bytes[..keep], run), Seen::Corrupt);
            let longer = [&bytes[..], b"x"].concat();
            prop_assert_eq!(read(&longer, run), Seen::Corrupt);
        }
    }
}
