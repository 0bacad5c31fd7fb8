//! Words with placeholders, cut into pieces once so that filling them in is copying.

use super::data::{DataSize, Pool};
use super::rng::hash_text;
use crate::resp::Command;

/// Every key that a mix writes begins so.
pub const KEY_PREFIX: &str = "rcb:load:";

const KEY: &str = "__key__";
const DATA: &str = "__data__";
const FIELD: &str = "__field__";

/// A part of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Bytes as typed.
    Literal(Box<[u8]>),
    /// A key's number.
    Key,
    /// A value.
    Data,
    /// A field's number.
    Field,
}

/// What the placeholders of one word stand for.
#[derive(Clone, Copy)]
pub(super) struct Filling<'a> {
    pub(super) key: u64,
    pub(super) field: u64,
    pub(super) data: &'a [u8],
}

/// A word of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// The text, a key's with the prefix.
    pub(super) text: String,
    pub(super) pieces: Box<[Piece]>,
    /// Whether it stands under our prefix: it has `__key__`, or was typed with the prefix.
    pub(super) is_ours: bool,
    /// Whether it has `__data__`.
    pub(super) has_data: bool,
    /// Hash of the text, for the values of its keys.
    pub(super) hash: u64,
}

impl Word {
    /// Cuts a word; one with `__key__` gets the prefix unless it has it.
    pub(super) fn new(typed: &str) -> Self {
        let prefixed = typed.starts_with(KEY_PREFIX);
        let is_ours = prefixed || typed.contains(KEY);
        let text = if is_ours && !prefixed { format!("{KEY_PREFIX}{typed}") } else { typed.to_owned() };
        let pieces = cut(&text);
        Self { hash: hash_text(text.as_bytes()), has_data: pieces.contains(&Piece::Data), pieces, is_ours, text }
    }

    pub(super) fn has(&self, piece: &Piece) -> bool {
        self.pieces.contains(piece)
    }

    /// Whether it is `__data__` and nothing else.
    pub(super) fn is_data(&self) -> bool {
        self.text == DATA
    }

    /// Appends the filled word to `command`.
    #[inline]
    pub(super) fn push(&self, command: &mut Command, filling: Filling<'_>) {
        command.push(b"");
        for piece in &self.pieces {
            match piece {
                Piece::Literal(bytes) => command.extend_last(bytes),
                Piece::Key => command.extend_last(&digits(filling.key)),
                Piece::Data => command.extend_last(filling.data),
                Piece::Field => command.extend_last(&digits(filling.field)),
            }
        }
    }
}

/// A key pattern: what a word under our prefix stands for, shared by all entries with the same text.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    pub(super) word: Word,
    /// Key numbers, 1 without `__key__`.
    pub(super) keys: u64,
    /// Field numbers, 1 without `__field__`.
    pub(super) fields: u64,
    /// Size of its values.
    pub(super) size: DataSize,
}

impl Pattern {
    /// How many keys it stands for.
    pub(super) fn count(&self) -> u64 {
        self.keys.saturating_mul(self.fields)
    }

    /// The filling of its key number `place` of [`Pattern::count`].
    pub(super) fn filling<'a>(&self, pool: &'a Pool, place: u64) -> Filling<'a> {
        let key = place / self.fields;
        Filling { key, field: place % self.fields, data: pool.value(self.word.hash, key, self.size) }
    }

    /// Whether some key of one may be a key of the other; digits may be any. Patterns with values in them are taken as apart.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let shape = |pattern: &Self| {
            let mut shape = Vec::new();
            for piece in &pattern.word.pieces {
                match piece {
                    Piece::Literal(bytes) => shape.extend(bytes.iter().map(|&byte| Some(byte))),
                    Piece::Key | Piece::Field => shape.extend([None; DIGITS]),
                    Piece::Data => return None,
                }
            }
            Some(shape)
        };
        let fits = |a: &Option<u8>, b: &Option<u8>| match (a, b) {
            (Some(a), Some(b)) => a == b,
            (Some(byte), None) | (None, Some(byte)) => byte.is_ascii_digit(),
            (None, None) => true,
        };
        match (shape(self), shape(other)) {
            (Some(a), Some(b)) => a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| fits(a, b)),
            _ => false,
        }
    }
}

/// Whether a text has any placeholder.
pub(super) fn has_placeholder(text: &str) -> bool {
    [KEY, DATA, FIELD].iter().any(|placeholder| text.contains(placeholder))
}

fn cut(text: &str) -> Box<[Piece]> {
    let mut pieces = Vec::new();
    let mut rest = text;
    loop {
        let next = [(KEY, Piece::Key), (DATA, Piece::Data), (FIELD, Piece::Field)]
            .into_iter()
            .filter_map(|(placeholder, piece)| Some((rest.find(placeholder)?, placeholder.len(), piece)))
            .min_by_key(|&(at, ..)| at);
        let (literal, after) = match &next {
            Some((at, length, _)) => (&rest[..*at], &rest[at + length..]),
            None => (rest, ""),
        };
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal.as_bytes().into()));
        }
        match next {
            Some((.., piece)) => pieces.push(piece),
            None => return pieces.into_boxed_slice(),
        }
        rest = after;
    }
}

/// Digits of a key or a field, as redis-benchmark writes them.
const DIGITS: usize = 12;

/// The number in twelve digits, zero-padded.
#[inline]
fn digits(number: u64) -> [u8; DIGITS] {
    const HALF: u64 = 1_000_000;
    let mut digits = [b'0'; DIGITS];
    // Two halves of 32 bits divide faster than one of 64, and beside each other.
    let mut halves = [(number / HALF % HALF) as u32, (number % HALF) as u32];
    for place in (0..DIGITS / 2).rev() {
        digits[place] += (halves[0] % 10) as u8;
        digits[place + DIGITS / 2] += (halves[1] % 10) as u8;
        halves = halves.map(|half| half / 10);
    }
    digits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn filled(typed: &str, filling: Filling<'_>) -> String {
        let mut command = Command::new("X");
        Word::new(typed).push(&mut command, filling);
        String::from_utf8(command.args().next().unwrap().to_vec()).unwrap()
    }

    #[test]
    fn every_occurrence_is_replaced_and_keys_get_the_prefix() {
        let filling = Filling { key: 42, field: 7, data: b"<v>" };
        for (typed, wanted) in [
            ("__key__", "rcb:load:000000000042"),
            ("{tag}__key__", "rcb:load:{tag}000000000042"),
            ("a__key__b__key__", "rcb:load:a000000000042b000000000042"),
            ("rcb:load:__key__", "rcb:load:000000000042"),
            ("__key__:__field__=__data____data__", "rcb:load:000000000042:000000000007=<v><v>"),
            ("f__field__", "f000000000007"),
            ("____data____", "__<v>__"),
            ("plain", "plain"),
            ("", ""),
        ] {
            assert_eq!(filled(typed, filling), wanted, "{typed}");
        }
    }

    #[test]
    fn patterns_that_can_name_the_same_key_overlap() {
        let pattern = |text| Pattern { word: Word::new(text), keys: 1, fields: 1, size: DataSize::Fixed(1) };
        let overlap = |a, b| pattern(a).overlaps(&pattern(b));
        assert!(overlap("__key__0", "0__key__"));
        assert!(overlap("rcb:load:000000000042", "__key__"));
        assert!(!overlap("a__key__", "0__key__"));
        assert!(!overlap("rcb:load:00000000004x", "__key__"));
        assert!(!overlap("list:__key__", "__key__"));
    }

    proptest! {
        #[test]
        fn digits_are_those_of_the_format_macro(number in 0..1_000_000_000_000_u64) {
            let digits = digits(number);
            prop_assert_eq!(std::str::from_utf8(&digits).unwrap(), format!("{number:012}"));
        }
    }
}
