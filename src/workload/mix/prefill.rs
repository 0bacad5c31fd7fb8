//! What the keyspace holds before a run, and which keys may be there after it.

use super::Mix;
use super::check::Knowledge;
use super::knowledge::Kind;
use super::template::{Filling, Pattern, Piece, Word};
use super::{Argument, Line};
use crate::resp::Command;

/// What the keys of a pattern are filled with.
#[derive(Clone, Debug)]
pub(super) enum Fill {
    /// The key's value.
    Text,
    /// The number 0.
    Counter,
    /// All fields, each with the key's value.
    Hash {
        field: Word,
    },
    /// So many times the key's value.
    List {
        length: usize,
    },
    Set {
        member: Word,
    },
    /// The members with their number as score.
    SortedSet {
        member: Word,
    },
}

/// Decides what each pattern is filled with; `None` for what can't be known (streams, commands of modules) and for arguments
/// that are no keys.
pub(super) fn fills(knowledge: &Knowledge, lines: &[Line], patterns: &[Pattern], hash_fields: usize) -> Vec<Option<Fill>> {
    let fill = |place| {
        let arguments = || knowledge.lines_of(place, lines).flat_map(|line| line.arguments.iter());
        let has_field = |argument: &&Argument| argument.word.has(&Piece::Field) && !argument.word.is_ours;
        let named = |found: Option<&Argument>, default| found.map_or_else(|| Word::new(default), |argument| argument.word.clone());
        Some(match knowledge.kind(place)? {
            Kind::Text | Kind::Data | Kind::Generic => Fill::Text,
            Kind::Counter => Fill::Counter,
            Kind::Hash => Fill::Hash { field: named(arguments().find(has_field), "field:__field__") },
            Kind::Set => Fill::Set { member: named(arguments().find(has_field), "member:__field__") },
            // The score comes before the member.
            Kind::SortedSet => Fill::SortedSet { member: named(arguments().filter(has_field).last(), "member:__field__") },
            Kind::List => {
                Fill::List { length: knowledge.lines_of(place, lines).filter_map(longest_range).max().unwrap_or(hash_fields.max(1)) }
            }
            Kind::Stream | Kind::HyperLogLog => return None,
        })
    };
    (0..patterns.len()).map(fill).collect()
}

/// How many elements an `LRANGE key 0 stop` asks for.
fn longest_range(line: &Line) -> Option<usize> {
    let stop = line.arguments.get(2).filter(|_| line.name.eq_ignore_ascii_case("LRANGE"))?;
    stop.word.text.parse::<usize>().ok()?.checked_add(1)
}

impl Mix {
    /// The commands that load the keyspace, made as they are asked for: one for each key of each pattern, with all its
    /// fields, members or elements. Their order doesn't matter. The keys must be absent before (see [`Mix::keys`]), because
    /// lists would grow.
    pub fn prefill(&self) -> impl Iterator<Item = Command> {
        self.filled().flat_map(move |(pattern, fill)| (0..pattern.count()).map(move |place| self.load(pattern, fill, place)))
    }

    /// How many commands [`Mix::prefill`] gives.
    #[must_use]
    pub fn prefill_count(&self) -> u64 {
        self.filled().fold(0, |sum, (pattern, _)| sum.saturating_add(pattern.count()))
    }

    /// Every key under our prefix that a run or the prefill may write, made as it is asked for.
    pub fn keys(&self) -> impl Iterator<Item = Vec<u8>> {
        self.patterns.iter().flat_map(move |pattern| {
            (0..pattern.count()).filter_map(move |place| {
                let mut command = Command::new("");
                pattern.word.push(&mut command, pattern.filling(&self.pool, place));
                command.args().next().map(<[u8]>::to_vec)
            })
        })
    }

    /// How many keys [`Mix::keys`] gives.
    #[must_use]
    pub fn key_count(&self) -> u64 {
        self.patterns.iter().fold(0, |sum, pattern| sum.saturating_add(pattern.count()))
    }

    /// Bytes of the largest key and its value that a run may write.
    #[must_use]
    pub fn largest_pair(&self) -> usize {
        let pairs = self.patterns.iter().map(|pattern| {
            let mut command = Command::new("");
            // The numbers in keys are padded, so all keys of a pattern are as long as its first.
            pattern.word.push(&mut command, pattern.filling(&self.pool, 0));
            command.args().next().map_or(0, <[u8]>::len) + pattern.size.largest()
        });
        pairs.max().unwrap_or(0)
    }

    fn filled(&self) -> impl Iterator<Item = (&Pattern, &Fill)> {
        self.patterns.iter().zip(&self.fills).filter_map(|(pattern, fill)| Some((pattern, fill.as_ref()?)))
    }

    fn load(&self, pattern: &Pattern, fill: &Fill, place: u64) -> Command {
        let filling = pattern.filling(&self.pool, place);
        let value = self.pool.value(pattern.word.hash, filling.key, pattern.size);
        let mut command = Command::new(match fill {
            Fill::Text | Fill::Counter => "SET",
            Fill::Hash { .. } => "HSET",
            Fill::List { .. } => "RPUSH",
            Fill::Set { .. } => "SADD",
            Fill::SortedSet { .. } => "ZADD",
        });
        pattern.word.push(&mut command, filling);
        let numbered = |field| Filling { field, ..filling };
        let fields = 0..self.hash_fields as u64;
        match fill {
            Fill::Text => command.push(value),
            Fill::Counter => command.push(b"0"),
            Fill::List { length } => (0..*length).for_each(|_| command.push(value)),
            Fill::Set { member } => fields.for_each(|field| member.push(&mut command, numbered(field))),
            Fill::Hash { field: word } => fields.for_each(|field| {
                word.push(&mut command, numbered(field));
                command.push(value);
            }),
            Fill::SortedSet { member } => fields.for_each(|field| {
                command.push(itoa::Buffer::new().format(field).as_bytes());
                member.push(&mut command, numbered(field));
            }),
        }
        command
    }
}
