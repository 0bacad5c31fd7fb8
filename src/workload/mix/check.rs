//! What a reply must be, judged from what all commands of the mix do to its key.

use super::knowledge::{self, Kind};
use super::prefill::Fill;
use super::spec::{CommandSpec, MixOptions};
use super::template::{KEY_PREFIX, Pattern, Word};
use super::{DataSize, Entry, Line};
use crate::resp::Command;

pub(super) use super::knowledge::changes_connection;

/// How a client is asked for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `GET key`: through the client's typed call.
    Get,
    /// `SET key value`: through the client's typed call.
    Set,
    /// `HKEYS key`: through the client's typed call.
    Hkeys,
    /// Any other command.
    Any,
}

/// What a reply must be. An error reply is an error whatever stands here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Anything.
    Nothing,
    /// `OK`.
    Ok,
    /// [`super::Mix::expected_value`].
    Value {
        /// Whether nil is wrong too.
        required: bool,
    },
    /// An array of so many elements.
    Count(usize),
    /// `PONG`.
    Pong,
}

/// One argument under our prefix.
struct Use {
    entry: usize,
    pattern: usize,
    /// Place among the arguments.
    at: usize,
    /// What the key is taken for; `None` for a command that is not known, and for an argument that is no key.
    kind: Option<Kind>,
    /// Whether a known command has it elsewhere than in a key's place.
    is_aside: bool,
}

/// What a command does to the values of a pattern, the worst last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Effect {
    /// Nothing, or it writes the value that is expected.
    Keeps,
    /// Keys may be absent.
    Removes,
    /// Any value may be there.
    Changes,
}

/// The uses of all patterns, and the checks that follow from them.
pub(super) struct Knowledge {
    uses: Vec<Use>,
    checks: Vec<Check>,
}

impl Knowledge {
    pub(super) fn new(lines: &[Line], patterns: &[Pattern]) -> Self {
        let mut uses = Vec::new();
        for (entry, line) in lines.iter().enumerate() {
            let first = first_key(line);
            for (at, argument) in line.arguments.iter().enumerate() {
                let Some(pattern) = patterns.iter().position(|pattern| pattern.word == argument.word) else { continue };
                let known = Kind::of(&line.name);
                let is_key = first.is_some_and(|first| knowledge::is_key(&line.name, at, first));
                let kind = known.filter(|_| is_key).map(|kind| match kind {
                    Kind::Text if written(line, at).is_some_and(|word| word.has_data) => Kind::Data,
                    kind => kind,
                });
                uses.push(Use { entry, pattern, at, kind, is_aside: known.is_some() && !is_key });
            }
        }
        Self { uses, checks: Vec::new() }
    }

    fn uses_of(&self, pattern: usize) -> impl Iterator<Item = &Use> {
        self.uses.iter().filter(move |used| used.pattern == pattern)
    }

    /// The size of a pattern's values: of the first command that writes them, else of the first that has a size of its own.
    pub(super) fn size(&self, pattern: usize, lines: &[Line], specs: &[CommandSpec]) -> Option<DataSize> {
        let writer = self.uses_of(pattern).find(|used| written(&lines[used.entry], used.at).is_some_and(Word::is_data));
        writer.map(|used| lines[used.entry].size).or_else(|| self.uses_of(pattern).find_map(|used| specs[used.entry].data))
    }

    /// The type that a pattern's keys are to have: the first that a command asks for.
    pub(super) fn kind(&self, pattern: usize) -> Option<Kind> {
        let kinds = || self.uses_of(pattern).filter_map(|used| used.kind);
        if kinds().any(|kind| kind == Kind::Counter) {
            return Some(Kind::Counter);
        }
        kinds().find(|&kind| kind != Kind::Generic).or_else(|| kinds().next())
    }

    /// The arguments of every command that has the pattern as a key.
    pub(super) fn lines_of<'a>(&'a self, pattern: usize, lines: &'a [Line]) -> impl Iterator<Item = &'a Line> {
        self.uses_of(pattern).filter(|used| used.kind.is_some()).map(|used| &lines[used.entry])
    }

    /// The first two entries that take one pattern for different types.
    pub(super) fn clash(&self) -> Option<(usize, usize)> {
        let mut pairs = self.uses.iter().enumerate().flat_map(|(place, a)| self.uses[place + 1..].iter().map(move |b| (a, b)));
        pairs
            .find(|(a, b)| a.pattern == b.pattern && matches!((a.kind, b.kind), (Some(a), Some(b)) if !a.agrees(b)))
            .map(|(a, b)| (a.entry, b.entry))
    }

    /// Decides every entry's check.
    pub(super) fn judge(&mut self, lines: &[Line], patterns: &[Pattern], fills: &[Option<Fill>], options: &MixOptions) {
        self.checks = lines.iter().map(|line| self.check(line, lines, patterns, fills, options)).collect();
    }

    fn check(&self, line: &Line, lines: &[Line], patterns: &[Pattern], fills: &[Option<Fill>], options: &MixOptions) -> Check {
        match line.name.to_ascii_uppercase().as_str() {
            "PING" if line.arguments.is_empty() => return Check::Pong,
            "MSET" | "HMSET" | "SETEX" | "PSETEX" => return Check::Ok,
            "SET" if !has_option(line, &["NX", "XX", "GET", "IFEQ", "IFNE", "IFDEQ", "IFDNE"]) => return Check::Ok,
            _ => {}
        }
        let call = call(line);
        // Only a key of our own holds what is known.
        let Some(place) = line.first.filter(|_| line.arguments[0].word.is_ours && matches!(call, Call::Get | Call::Hkeys)) else {
            return Check::Nothing;
        };
        let is_alone = patterns.iter().enumerate().all(|(other, pattern)| other == place || !pattern.overlaps(&patterns[place]));
        let fill = fills[place].as_ref().filter(|_| options.prefilled);
        let flushed = lines.iter().any(|line| knowledge::flushes(&line.name));
        if !is_alone {
            return Check::Nothing;
        }
        if call == Call::Get {
            let effects = self.uses_of(place).map(|used| effect(&lines[used.entry], used, &patterns[place]));
            return match effects.max().unwrap_or(Effect::Keeps) {
                Effect::Keeps => Check::Value { required: matches!(fill, Some(Fill::Text)) && !flushed },
                Effect::Removes => Check::Value { required: false },
                Effect::Changes => Check::Nothing,
            };
        }
        let Some(Fill::Hash { field }) = fill else { return Check::Nothing };
        let fields = options.hash_fields.max(1);
        let keeps = |used: &Use| {
            let line = &lines[used.entry];
            used.is_aside
                || knowledge::only_reads(&line.name)
                || writes_known_fields(line, used.at, field, fields as u64, options.field_range)
        };
        if !flushed && self.uses_of(place).all(keeps) { Check::Count(fields) } else { Check::Nothing }
    }

    /// The entry of a line, without label and share.
    pub(super) fn entry(&self, place: usize, line: &Line) -> Entry {
        let subcommand = line.arguments.first().filter(|_| knowledge::has_subcommands(&line.name));
        Entry {
            label: String::new(),
            name: line.name.to_ascii_lowercase(),
            subcommand: subcommand.map(|argument| argument.word.text.to_ascii_lowercase()),
            ratio: 0.0,
            call: call(line),
            check: self.checks[place],
            runs_scripts: knowledge::runs_scripts(&line.name),
            is_blocking: Command::new(&line.name).is_blocking(),
            reach: reach(line),
        }
    }
}

/// What a command may touch on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// No key, or keys under our prefix only.
    Ours,
    /// This key as well, which is not under our prefix.
    Foreign(String),
    /// A command of which it is not known.
    Unknown,
}

/// Which keys a command touches, by what is known of it. A script may touch more than it declares.
fn reach(line: &Line) -> Reach {
    let name = line.name.to_ascii_uppercase();
    let foreign = |word: &Word| (!word.is_ours).then(|| Reach::Foreign(word.text.clone()));
    let words = || line.arguments.iter().map(|argument| &argument.word);
    if knowledge::touches_nothing(&name) {
        return Reach::Ours;
    }
    if knowledge::runs_scripts(&name) {
        let declared = words().nth(1).and_then(|count| count.text.parse().ok());
        return declared.map_or(Reach::Unknown, |count| words().skip(2).take(count).find_map(foreign).unwrap_or(Reach::Ours));
    }
    let (Some(_), Some(first)) = (Kind::of(&name), first_key(line)) else { return Reach::Unknown };
    if name.starts_with('B') && name.contains("POP") {
        // Keys up to the time limit.
        return words().take(line.arguments.len().saturating_sub(1)).find_map(foreign).unwrap_or(Reach::Ours);
    }
    let keys = words().enumerate().filter(|(at, _)| knowledge::is_key(&name, *at, first));
    keys.map(|(_, word)| word).find_map(foreign).unwrap_or(Reach::Ours)
}

/// A notice for a command whose key is not under our prefix.
pub(super) fn foreign_key(line: &Line, spec: &CommandSpec) -> Option<String> {
    Kind::of(&line.name)?;
    let word = &line.arguments[first_key(line)?].word;
    (!word.is_ours).then(|| {
        let key = &word.text;
        format!(
            "`{}` uses the key `{key}` as it is, outside `{KEY_PREFIX}`, and it stays after the run: use `__key__` for a key of the run",
            spec.shown()
        )
    })
}

fn call(line: &Line) -> Call {
    match (line.name.to_ascii_uppercase().as_str(), line.arguments.len()) {
        ("GET", 1) => Call::Get,
        ("SET", 2) => Call::Set,
        ("HKEYS", 1) => Call::Hkeys,
        _ => Call::Any,
    }
}

/// Place of the key by which the command is routed.
fn first_key(line: &Line) -> Option<usize> {
    let command = line.arguments.iter().fold(Command::new(&line.name), |command, argument| command.arg(&argument.word.text));
    let key = command.key()?;
    // The key is a slice of the command's bytes, so the place of its word is where the addresses agree.
    command.args().position(|word| std::ptr::eq(word, key))
}

/// The word that the command writes as the whole value of the key at `at`.
fn written(line: &Line, at: usize) -> Option<&Word> {
    Some(&line.arguments.get(at + knowledge::value_offset(&line.name)?)?.word)
}

/// Whether a `SET` has one of the options.
fn has_option(line: &Line, options: &[&str]) -> bool {
    line.arguments.iter().skip(2).any(|argument| options.iter().any(|option| argument.word.text.eq_ignore_ascii_case(option)))
}

/// What a command does to the string values of a pattern that it uses.
fn effect(line: &Line, used: &Use, pattern: &Pattern) -> Effect {
    let expires = knowledge::value_offset(&line.name) == Some(2)
        || line.name.eq_ignore_ascii_case("SET") && has_option(line, &["EX", "PX", "EXAT", "PXAT"]);
    if used.is_aside || knowledge::only_reads(&line.name) {
        Effect::Keeps
    } else if written(line, used.at).is_some_and(Word::is_data) && line.size == pattern.size {
        if expires { Effect::Removes } else { Effect::Keeps }
    } else if knowledge::removes(&line.name) {
        Effect::Removes
    } else {
        Effect::Changes
    }
}

/// Whether an `HSET` or its like writes only fields that the prefill writes too.
fn writes_known_fields(line: &Line, at: usize, field: &Word, fields: u64, field_range: u64) -> bool {
    let is_hset = ["HSET", "HMSET", "HSETNX"].iter().any(|name| line.name.eq_ignore_ascii_case(name));
    is_hset && field_range <= fields && line.arguments[at + 1..].iter().step_by(2).all(|argument| argument.word == *field)
}
