//! Versions of values, and for each key the oldest that a read may return.
//!
//! Every write gives its value the next version of its key, before it is sent. A write is *clean* when no other write of the key
//! was under way as it began: all older ones were acknowledged by then, so once it is acknowledged the server never has an
//! older version again, whatever the order in which later ones arrive. An unclean write proves nothing: the one beside it, with a
//! lower version, may come after it. A write that was not acknowledged with OK may still arrive at any time, so it stays under way for
//! ever, and its key has no clean write any more.
//!
//! The *floor* of a key is the highest version of which the client is known to have been told, see [`fence`](super::fence).

use crate::measure::clock::nanos;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Bytes of a version at the beginning of a value: 16 lower-case hexadecimal digits.
pub const VERSION_BYTES: usize = 16;

/// The digits of `version`.
#[inline]
#[must_use]
pub fn digits(version: u64) -> [u8; VERSION_BYTES] {
    let mut digits = [0; VERSION_BYTES];
    for (place, digit) in digits.iter_mut().enumerate() {
        let four = (version >> (60 - 4 * place)) as u8 & 15;
        *digit = if four < 10 { b'0' + four } else { b'a' + four - 10 };
    }
    digits
}

/// The version at the beginning of `value`; `None` when there is none.
#[inline]
#[must_use]
pub fn version(value: &[u8]) -> Option<u64> {
    value.get(..VERSION_BYTES)?.iter().try_fold(0_u64, |version, &digit| {
        let four = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(version << 4 | u64::from(four))
    })
}

/// In an allocation: writes under way.
const UNDER_WAY: u64 = (1 << 23) - 1;
/// In an allocation: a write was not acknowledged.
const LOST: u64 = 1 << 23;
/// In an allocation: one version.
const ONE: u64 = 1 << 24;

/// A write that was begun. Dropped before it [ended](Versions::end), it stays under way.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Writing {
    /// Number of the key.
    pub place: usize,
    /// What it writes.
    pub version: u64,
    /// No other write of the key was under way.
    pub clean: bool,
}

/// When and how a floor was raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raised {
    /// Nanoseconds of [`Versions::now_ns`].
    pub at_ns: u64,
    /// The tracked connection was lost, so that the client could not be told.
    pub disconnected: bool,
}

/// The versions of all keys.
pub struct Versions {
    /// Of each key: last version given out, whether one was lost, writes under way.
    allocations: Box<[AtomicU64]>,
    floors: Box<[AtomicU64]>,
    /// When the floor was raised, in half nanoseconds; an odd one was raised without delivery.
    raised: Box<[AtomicU64]>,
    start: Instant,
}

fn zeros(count: usize) -> Box<[AtomicU64]> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

impl Versions {
    /// Of `keys` keys, all of which have version 0.
    #[must_use]
    pub fn new(keys: usize) -> Self {
        Self { allocations: zeros(keys), floors: zeros(keys), raised: zeros(keys), start: Instant::now() }
    }

    /// Nanoseconds since this was made.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        nanos(self.start.elapsed())
    }

    /// Begins a write of the key `place`.
    #[inline]
    pub fn begin(&self, place: usize) -> Writing {
        let before = self.allocations[place].fetch_add(ONE + 1, Ordering::AcqRel);
        Writing { place, version: before / ONE + 1, clean: before & (UNDER_WAY | LOST) == 0 }
    }

    /// Ends a write, acknowledged or not.
    #[inline]
    pub fn end(&self, writing: &Writing, acknowledged: bool) {
        let allocation = &self.allocations[writing.place];
        if !acknowledged {
            allocation.fetch_or(LOST, Ordering::AcqRel);
        }
        allocation.fetch_sub(1, Ordering::AcqRel);
    }

    /// The last version of the key `place` that was given out.
    #[inline]
    #[must_use]
    pub fn last(&self, place: usize) -> u64 {
        self.allocations[place].load(Ordering::Acquire) / ONE
    }

    /// The oldest version that a read of the key `place` may return if it begins after this.
    #[inline]
    #[must_use]
    pub fn floor(&self, place: usize) -> u64 {
        self.floors[place].load(Ordering::Acquire)
    }

    /// Raises a floor. Of all threads only one may.
    pub fn raise(&self, place: usize, version: u64, raised: Raised) {
        if version > self.floors[place].load(Ordering::Relaxed) {
            // First: whoever sees the floor sees this, or what is later and makes a stale read look younger.
            self.raised[place].store(raised.at_ns << 1 | u64::from(raised.disconnected), Ordering::Release);
            self.floors[place].store(version, Ordering::Release);
        }
    }

    /// When the floor of the key `place` was raised.
    #[must_use]
    pub fn raised(&self, place: usize) -> Raised {
        let raised = self.raised[place].load(Ordering::Acquire);
        Raised { at_ns: raised >> 1, disconnected: raised & 1 == 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELIVERED: Raised = Raised { at_ns: 5, disconnected: false };

    #[test]
    fn a_version_is_sixteen_digits_and_comes_back() {
        for number in [0, 1, 9, 10, 255, 0xdead_beef, u64::MAX] {
            let text = digits(number);
            assert_eq!(std::str::from_utf8(&text).unwrap(), format!("{number:016x}"));
            assert_eq!(version(&[&text[..], b"body"].concat()), Some(number));
        }
        for bad in [&b""[..], b"000000000000000", b"00000000000000 0", b"000000000000000A", b"-000000000000001"] {
            assert_eq!(version(bad), None);
        }
    }

    #[test]
    fn a_write_is_clean_when_no_other_of_its_key_is_under_way() {
        let versions = Versions::new(2);
        let first = versions.begin(0);
        assert_eq!((first.version, first.clean), (1, true));
        let beside = versions.begin(0);
        assert_eq!((beside.version, beside.clean), (2, false), "the first may be applied after it");
        assert!(versions.begin(1).clean, "another key's write is none of its business");
        versions.end(&first, true);
        assert!(!versions.begin(0).clean, "the second is still under way");
        assert_eq!((versions.last(0), versions.last(1)), (3, 1));
    }

    #[test]
    fn a_key_is_clean_again_once_all_its_writes_were_acknowledged() {
        let versions = Versions::new(1);
        let (first, second) = (versions.begin(0), versions.begin(0));
        versions.end(&second, true);
        assert!(!versions.begin(0).clean);
        let versions = Versions::new(1);
        let (one, other) = (versions.begin(0), versions.begin(0));
        versions.end(&other, true);
        versions.end(&one, true);
        assert!(versions.begin(0).clean);
        drop(first);
    }

    #[test]
    fn a_lost_write_leaves_its_key_without_clean_writes_for_ever() {
        let versions = Versions::new(1);
        let lost = versions.begin(0);
        versions.end(&lost, false);
        for expected in 2..100 {
            let later = versions.begin(0);
            assert_eq!((later.version, later.clean), (expected, false));
            versions.end(&later, true);
        }
    }

    #[test]
    fn more_lost_writes_than_can_be_counted_do_not_look_clean() {
        let versions = Versions::new(1);
        versions.end(&versions.begin(0), false);
        for _ in 0..100 {
            let _given_up = versions.begin(0);
        }
        versions.end(&versions.begin(0), false);
        assert_eq!(versions.begin(0), Writing { place: 0, version: 103, clean: false });
    }

    #[test]
    fn a_floor_only_rises_and_tells_when() {
        let versions = Versions::new(1);
        versions.raise(0, 7, DELIVERED);
        versions.raise(0, 3, Raised { at_ns: 9, disconnected: true });
        assert_eq!((versions.floor(0), versions.raised(0)), (7, DELIVERED));
        versions.raise(0, 8, Raised { at_ns: 9, disconnected: true });
        assert_eq!((versions.floor(0), versions.raised(0)), (8, Raised { at_ns: 9, disconnected: true }));
    }
}
