//! Sizes of values, and the pool of bytes that all values are slices of.

use std::fmt;
use std::str::FromStr;

use super::error::MixError;
use super::rng::{CounterRng, hash, scale, scramble};

/// The largest value, in bytes: what a Redis server takes as one string (`proto-max-bulk-len`).
pub const LARGEST: usize = 512 << 20;

/// How many bytes `__data__` stands for.
///
/// Read from `64`, `4KiB`, `1MiB` or a range `32-1024`, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataSize {
    /// Always as many.
    Fixed(usize),
    /// Any number from the first to the second, equally likely, decided by the key.
    Range(usize, usize),
}

impl DataSize {
    /// The most bytes that a value of this size has.
    #[must_use]
    pub fn largest(self) -> usize {
        match self {
            Self::Fixed(size) | Self::Range(_, size) => size,
        }
    }

    /// Checks that the range is one, and that a server takes the largest.
    pub(super) fn checked(self) -> Result<Self, MixError> {
        let in_order = !matches!(self, Self::Range(from, to) if from > to);
        if in_order && self.largest() <= LARGEST { Ok(self) } else { Err(MixError::DataSize(self.to_string())) }
    }
}

impl FromStr for DataSize {
    type Err = MixError;

    fn from_str(text: &str) -> Result<Self, MixError> {
        let bad = || MixError::DataSize(text.to_owned());
        let size = match text.split_once('-') {
            Some((from, to)) => Self::Range(bytes(from).ok_or_else(bad)?, bytes(to).ok_or_else(bad)?),
            None => Self::Fixed(bytes(text).ok_or_else(bad)?),
        };
        size.checked().map_err(|_| bad())
    }
}

impl fmt::Display for DataSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(size) => write!(f, "{size}"),
            Self::Range(from, to) => write!(f, "{from}-{to}"),
        }
    }
}

/// A number of bytes with an optional unit of 1024 or 1024².
fn bytes(text: &str) -> Option<usize> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match text[digits.len()..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        _ => return None,
    };
    digits.parse::<usize>().ok()?.checked_mul(unit)
}

/// Places at which a value can begin in the pool.
const PLACES: u64 = 64 << 10;

/// Sets the pool's draws apart from those of the commands.
const POOL: u64 = 0x504F_4F4C;

/// The bytes of a pool: one for each value of six bits.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Pseudo-random printable bytes. Every value is a slice of it, so that making or expecting one copies nothing.
pub(super) struct Pool {
    bytes: Box<[u8]>,
    seed: u64,
}

impl Pool {
    /// A pool for values of at most `largest` bytes.
    pub(super) fn new(seed: u64, largest: usize) -> Self {
        let seed = hash(seed, POOL);
        let mut bytes = vec![0; PLACES as usize + largest];
        for (chunk, index) in bytes.chunks_mut(10).zip(0..) {
            // Ten bytes of six bits each.
            let mut bits = CounterRng::at(seed, index).draw();
            for byte in chunk {
                *byte = ALPHABET[(bits & 63) as usize];
                bits >>= 6;
            }
        }
        Self { bytes: bytes.into_boxed_slice(), seed }
    }

    /// The value of number `number` of the pattern with the hash `pattern`.
    #[inline]
    pub(super) fn value(&self, pattern: u64, number: u64, size: DataSize) -> &[u8] {
        let bits = hash(self.seed ^ pattern, number);
        let from = scale(bits, PLACES) as usize;
        let length = match size {
            DataSize::Fixed(size) => size,
            DataSize::Range(least, most) => least + scale(scramble(bits), (most - least) as u64 + 1) as usize,
        };
        &self.bytes[from..from + length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_units_and_ranges() {
        let read = |text: &str| text.parse::<DataSize>().ok();
        assert_eq!(read("64"), Some(DataSize::Fixed(64)));
        assert_eq!(read("0"), Some(DataSize::Fixed(0)));
        assert_eq!(read("4KiB"), Some(DataSize::Fixed(4096)));
        assert_eq!(read("1 MiB"), Some(DataSize::Fixed(1 << 20)));
        assert_eq!(read("32-1024"), Some(DataSize::Range(32, 1024)));
        assert_eq!(read("1k-1m"), Some(DataSize::Range(1024, 1 << 20)));
        for bad in ["", "x", "-1", "10-", "5-4", "1GiB", "513MiB", "1.5k", "99999999999999999999", "18446744073709551615k"] {
            assert_eq!(read(bad), None, "{bad}");
        }
        let error = "5-4".parse::<DataSize>().unwrap_err().to_string();
        assert!(error.contains("`5-4`") && error.contains("32-1024"), "{error}");
    }

    #[test]
    fn values_are_printable_and_of_every_length_of_the_range() {
        let pool = Pool::new(1, 8);
        let mut lengths = [0; 9];
        for number in 0..9_000 {
            let value = pool.value(7, number, DataSize::Range(0, 8));
            assert!(value.iter().all(u8::is_ascii_graphic));
            lengths[value.len()] += 1;
        }
        assert!(lengths.iter().all(|&count| (800..1_200).contains(&count)), "{lengths:?}");
    }

    #[test]
    fn values_depend_on_seed_pattern_and_number() {
        let size = DataSize::Fixed(32);
        let value = |seed, pattern, number| Pool::new(seed, 32).value(pattern, number, size).to_vec();
        assert_eq!(value(1, 2, 3), value(1, 2, 3));
        assert_ne!(value(1, 2, 3), value(1, 2, 4));
        assert_ne!(value(1, 2, 3), value(1, 3, 3));
        assert_ne!(value(1, 2, 3), value(2, 2, 3));
    }
}
