//! A mix of commands: what command number `index` is, as a function of the seed and the index alone.
//!
//! Any caller may draw any index, in any order, on any machine: the commands are the same, and so is the keyspace that they
//! leave (for commands whose effects don't depend on their order). Nothing here does I/O or knows a driver.
//!
//! In every argument, at every occurrence:
//!
//! - `__key__` becomes a key's number in twelve digits, drawn once per argument; the argument gets the prefix
//!   [`KEY_PREFIX`], so that all keys are ours.
//! - `__field__` becomes a number below [`MixOptions::field_range`], drawn once per argument.
//! - `__data__` becomes the value of the nearest key at or to the left of its argument. It depends on the seed, the key and
//!   the entry's [`DataSize`] only: whoever writes a key writes the same bytes, and a read can be checked in full. Without a
//!   key it is a value of the index.
//!
//! Choices, uniform and sequential keys and values are made in integers. Zipfian and gaussian keys go through the `f64`
//! functions of the platform, whose last bit may differ between platforms.

mod check;
mod data;
mod error;
mod keys;
mod knowledge;
mod places;
mod prefill;
mod preset;
mod rng;
mod spec;
mod template;

pub use check::{Call, Check, Reach};
pub use data::{DataSize, LARGEST};
pub use error::MixError;
pub use keys::{Distribution, MOST_KEYS, ZIPFIAN_EXPONENT};
pub use preset::{PRESETS, large_mix, preset};
pub use spec::{CommandSpec, MixOptions};
pub use template::KEY_PREFIX;

use check::Knowledge;
use data::Pool;
use keys::Sampler;
use prefill::Fill;
pub(crate) use rng::CounterRng;
use rng::hash;
use template::{Filling, Pattern, Piece, Word, has_placeholder};

use crate::resp::Command;

/// Sets the commands' draws apart from those of the pool.
const DRAWS: u64 = 0x4D49_5845;

/// The pattern hash of values without a key.
const KEYLESS: u64 = 0;

/// One command of a mix, and what is known of it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The command as typed, or what it was called instead.
    pub label: String,
    /// Its lower-case name, as the server's `commandstats` shows it.
    pub name: String,
    /// The lower-case subcommand, which `commandstats` shows after a `|` (from Redis 7 on); `None` for commands without.
    pub subcommand: Option<String>,
    /// Its share of the mix; all shares sum to 1.
    pub ratio: f64,
    /// How a client is asked for it.
    pub call: Call,
    /// What its reply must be.
    pub check: Check,
    /// Whether it executes further commands on the server, which `commandstats` counts too.
    pub runs_scripts: bool,
    /// Whether it may hold its connection (`BLPOP` …).
    pub is_blocking: bool,
    /// What it may touch on the server.
    pub reach: Reach,
}

/// A place for one command, filled again and again.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Place of the command's entry in [`Mix::entries`].
    pub entry: usize,
    /// The command, ready to be sent.
    pub command: Command,
    /// The number that was asked for.
    pub index: u64,
    /// Number of the first key under our prefix; 0 without one.
    pub key: u64,
}

impl Default for Slot {
    fn default() -> Self {
        Self { entry: 0, command: Command::new(""), index: 0, key: 0 }
    }
}

/// What [`Mix::generate`] needs of an entry.
struct Line {
    name: String,
    arguments: Box<[Argument]>,
    /// `None` when no argument has `__key__`.
    sampler: Option<Sampler>,
    /// Arguments with `__key__`.
    draws: u64,
    size: DataSize,
    /// Place in [`Mix::patterns`] of the first argument under our prefix.
    first: Option<usize>,
    /// Size of what the first key must hold.
    expected: DataSize,
    /// Number of the first key of the pattern `first`.
    base: u64,
}

struct Argument {
    word: Word,
    draws_key: bool,
    draws_field: bool,
}

/// Which commands are sent; immutable, shared by all callers.
pub struct Mix {
    seed: u64,
    entries: Vec<Entry>,
    lines: Vec<Line>,
    /// The end of each entry's share of the 64-bit numbers.
    ends: Box<[u64]>,
    field_range: u64,
    pool: Pool,
    patterns: Vec<Pattern>,
    /// What each pattern is prefilled with.
    fills: Vec<Option<Fill>>,
    hash_fields: usize,
    knowledge: Knowledge,
}

impl Mix {
    /// Compiles the commands; the notices are for the user, one line each.
    ///
    /// # Errors
    /// A [`MixError`] for the first thing that is wrong.
    pub fn new(specs: Vec<CommandSpec>, options: MixOptions) -> Result<(Self, Vec<String>), MixError> {
        if specs.is_empty() {
            return Err(MixError::NoCommand);
        }
        let (shares, notice) = spec::shares(&specs)?;
        let mut notices: Vec<String> = notice.into_iter().collect();
        options.distribution.checked()?;
        let mut patterns: Vec<Pattern> = Vec::new();
        let mut lines = Vec::with_capacity(specs.len());
        for spec in &specs {
            lines.push(compile(spec, &options, &mut patterns)?);
        }
        let mut knowledge = Knowledge::new(&lines, &patterns);
        for (place, pattern) in patterns.iter_mut().enumerate() {
            pattern.size = knowledge.size(place, &lines, &specs).unwrap_or(pattern.size);
        }
        for line in &mut lines {
            if let Some(first) = line.first {
                line.expected = if line.arguments.iter().any(|argument| argument.word.has_data) { line.size } else { patterns[first].size };
            }
        }
        Self::number(&mut lines, patterns.iter().map(Pattern::count));
        let fills = prefill::fills(&knowledge, &lines, &patterns, options.hash_fields);
        knowledge.judge(&lines, &patterns, &fills, &options);
        notices.extend(lines.iter().zip(&specs).filter_map(|(line, spec)| check::foreign_key(line, spec)));
        let entries = (lines.iter().zip(&specs).zip(&shares).enumerate())
            .map(|(place, ((line, spec), &ratio))| Entry { label: spec.shown(), ratio, ..knowledge.entry(place, line) })
            .collect();
        let largest = patterns.iter().map(|pattern| pattern.size).chain(lines.iter().map(|line| line.size)).map(DataSize::largest).max();
        let mix = Self {
            seed: hash(options.seed, DRAWS),
            entries,
            lines,
            ends: ends(&shares),
            field_range: options.field_range,
            pool: Pool::new(options.seed, largest.unwrap_or(0)),
            patterns,
            fills,
            hash_fields: options.hash_fields.max(1),
            knowledge,
        };
        Ok((mix, notices))
    }

    /// Gives each of `commands` its ratio, in order; no ratios leave them as they are.
    ///
    /// # Errors
    /// [`MixError::RatioCount`] when there are neither as many as commands nor none.
    pub fn ratios(commands: &mut [CommandSpec], ratios: &[f64]) -> Result<(), MixError> {
        if !ratios.is_empty() && ratios.len() != commands.len() {
            return Err(MixError::RatioCount { commands: commands.len(), ratios: ratios.len() });
        }
        for (command, &ratio) in commands.iter_mut().zip(ratios) {
            command.ratio = Some(ratio);
        }
        Ok(())
    }

    /// The commands of the mix, in the order in which they were given.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Fills `slot` with command number `index`. Allocates nothing once `slot` has held as large a command.
    #[inline]
    pub fn generate(&self, index: u64, slot: &mut Slot) {
        let mut rng = CounterRng::at(self.seed, index);
        let choice = rng.draw();
        let entry = self.ends.iter().position(|&end| choice < end || end == u64::MAX).unwrap_or(0);
        let line = &self.lines[entry];
        slot.entry = entry;
        slot.index = index;
        slot.key = 0;
        slot.command.restart(&line.name);
        let mut owner = None;
        let mut turn = index.wrapping_mul(line.draws);
        for argument in &line.arguments {
            let word = &argument.word;
            let mut filling = Filling { key: 0, field: 0, data: &[] };
            if argument.draws_key
                && let Some(sampler) = &line.sampler
            {
                filling.key = sampler.sample(&mut rng, turn);
                turn = turn.wrapping_add(1);
            }
            if word.is_ours {
                if owner.is_none() {
                    slot.key = filling.key;
                }
                owner = Some((word.hash, filling.key));
            }
            if argument.draws_field {
                filling.field = rng.below(self.field_range);
            }
            if word.has_data {
                let (pattern, number) = owner.unwrap_or((KEYLESS, index));
                filling.data = self.pool.value(pattern, number, line.size);
            }
            word.push(&mut slot.command, filling);
        }
    }

    /// What the first key of the command in `slot` must hold if it is a string that this mix wrote: a slice of the shared
    /// pool, empty for a command without a key of ours.
    #[must_use]
    pub fn expected_value(&self, slot: &Slot) -> &[u8] {
        let line = &self.lines[slot.entry];
        line.first.map_or(&[], |first| self.pool.value(self.patterns[first].word.hash, slot.key, line.expected))
    }

    /// Two entries that use the same keys as different types, so that the server will answer `WRONGTYPE` or the like.
    #[must_use]
    pub fn likely_clash(&self) -> Option<(usize, usize)> {
        self.knowledge.clash()
    }
}

/// Cuts the words of a command and enters its keys into `patterns`.
fn compile(spec: &CommandSpec, options: &MixOptions, patterns: &mut Vec<Pattern>) -> Result<Line, MixError> {
    let (name, arguments) = spec.words.split_first().filter(|(name, _)| !name.is_empty()).ok_or(MixError::EmptyCommand)?;
    if has_placeholder(name) {
        return Err(MixError::NameIsPlaceholder(spec.shown()));
    }
    if check::changes_connection(&spec.words) {
        return Err(MixError::ChangesConnection(spec.shown()));
    }
    let keys = spec.keys.unwrap_or(options.keys);
    let size = spec.data.unwrap_or(options.data).checked()?;
    let arguments: Box<[Argument]> = arguments
        .iter()
        .map(|typed| {
            let word = Word::new(typed);
            Argument { draws_key: word.has(&Piece::Key), draws_field: word.has(&Piece::Field), word }
        })
        .collect();
    let draws = arguments.iter().filter(|argument| argument.draws_key).count() as u64;
    if draws > 0 && keys == 0 {
        return Err(MixError::NoKeys(spec.shown()));
    }
    if keys > MOST_KEYS {
        return Err(MixError::TooManyKeys(keys));
    }
    if options.field_range == 0 && arguments.iter().any(|argument| argument.draws_field) {
        return Err(MixError::NoFields(spec.shown()));
    }
    let mut first = None;
    for argument in arguments.iter().filter(|argument| argument.word.is_ours) {
        let keys = if argument.draws_key { keys } else { 1 };
        let fields = if argument.draws_field { options.field_range } else { 1 };
        let place = patterns.iter().position(|pattern| pattern.word == argument.word).unwrap_or_else(|| {
            patterns.push(Pattern { word: argument.word.clone(), keys, fields, size: options.data });
            patterns.len() - 1
        });
        patterns[place].keys = patterns[place].keys.max(keys);
        first = first.or(Some(place));
    }
    let sampler = if draws > 0 { Some(Sampler::new(options.distribution, keys)?) } else { None };
    Ok(Line { name: name.clone(), arguments, sampler, draws, size, first, expected: size, base: 0 })
}

/// Where each entry's share of the 64-bit numbers ends. An entry of share 0 is never chosen, the last of a share above 0
/// takes what rounding leaves.
fn ends(shares: &[f64]) -> Box<[u64]> {
    let last = shares.iter().rposition(|&share| share > 0.0).unwrap_or(0);
    let mut sum = 0.0;
    (shares.iter().enumerate())
        .map(|(place, share)| {
            sum += share;
            // `as` saturates.
            if place >= last { u64::MAX } else { (sum * 2.0_f64.powi(64)) as u64 }
        })
        .collect()
}

#[cfg(test)]
mod tests;
