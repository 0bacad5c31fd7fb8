//! A number for every key, so that whatever is known of a key can be kept in an array.

use super::check::{Call, Check};
use super::data::DataSize;
use super::{Entry, Line, Mix, Slot};

/// Where the keys of each pattern begin; patterns in the order of [`Mix`].
pub(super) fn bases(counts: impl Iterator<Item = u64>) -> Vec<u64> {
    counts
        .scan(0_u64, |next, count| {
            let base = *next;
            *next = next.saturating_add(count);
            Some(base)
        })
        .collect()
}

impl Mix {
    /// The number of the first key of the command in `slot`, below [`Mix::key_count`]. Of a mix that
    /// [`Mix::versioned`] takes.
    #[inline]
    #[must_use]
    pub fn place(&self, slot: &Slot) -> usize {
        (self.lines[slot.entry].base + slot.key) as usize
    }

    /// Whether every command is a `GET` of a key of ours or a `SET` of its whole value, and every value has at least
    /// `least` bytes: then each key can have versions, told from its first bytes.
    ///
    /// # Errors
    /// What is in the way, for the user.
    pub fn versioned(&self, least: usize) -> Result<(), String> {
        for (line, entry) in self.lines.iter().zip(&self.entries) {
            let label = &entry.label;
            if !matches!(entry.call, Call::Get | Call::Set) {
                return Err(format!("`{label}` is neither GET key nor SET key __data__; leave it out"));
            }
            let Some(place) = line.first.filter(|_| line.arguments[0].word.is_ours) else {
                return Err(format!("`{label}` uses a key that is not of the run; write __key__ into it"));
            };
            let (pattern, key) = (&self.patterns[place], &line.arguments[0]);
            if key.draws_field || key.word.has_data {
                return Err(format!("`{label}` has a key of more than __key__; leave __field__ and __data__ out of keys"));
            }
            if self.patterns.iter().enumerate().any(|(other, found)| other != place && found.overlaps(pattern)) {
                return Err(format!("`{label}` may name the keys of another command by another pattern; write both alike"));
            }
            if entry.call == Call::Set && !(line.arguments[1].word.is_data() && line.size == pattern.size) {
                return Err(format!("`{label}` must write __data__ and nothing else, of one size for each key"));
            }
            let (DataSize::Fixed(smallest) | DataSize::Range(smallest, _)) = pattern.size;
            if smallest < least {
                return Err(format!("`{label}` has values of {smallest} bytes; a version takes {least}, so give -d {least} or more"));
            }
        }
        // Last, for what is in the way is another command's doing.
        let unknown = |entry: &&Entry| entry.call == Call::Get && entry.check != (Check::Value { required: true });
        match self.entries.iter().find(unknown) {
            Some(entry) => {
                let label = &entry.label;
                Err(format!("`{label}` may find values that this mix does not know, so they can't be checked; prefill all keys"))
            }
            None => Ok(()),
        }
    }

    /// Notes where each line's first key has its number.
    pub(super) fn number(lines: &mut [Line], counts: impl Iterator<Item = u64>) {
        let bases = bases(counts);
        for line in lines {
            line.base = line.first.map_or(0, |first| bases[first]);
        }
    }
}
