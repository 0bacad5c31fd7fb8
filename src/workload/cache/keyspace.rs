//! The keys of a cached load: those of its mix, each with a version in its value, and those of the probes.

use super::versions::{VERSION_BYTES, digits};
use crate::resp::Command;
use crate::workload::mix::{KEY_PREFIX, Mix};

/// Most keys that versions are kept of: 24 bytes each.
const MOST_KEYS: u64 = 100_000_000;

/// Keys that the probes take turns with: few, since they take room in the cache.
pub const PROBE_KEYS: usize = 8;

/// The key number `number` of the probes.
#[must_use]
pub fn probe_key(number: usize) -> Vec<u8> {
    format!("{KEY_PREFIX}probe:{number}").into_bytes()
}

/// Whether `mix` can be driven through a cache with every read checked.
///
/// # Errors
/// What is in the way, for the user.
pub fn check_mix(mix: &Mix) -> Result<(), String> {
    mix.versioned(VERSION_BYTES).map_err(|reason| format!("--csc: {reason}"))?;
    if mix.key_count() > MOST_KEYS {
        return Err(format!("--csc: the version of each key is kept, of {MOST_KEYS} keys at most; give a smaller -r"));
    }
    Ok(())
}

/// The commands that write every key of the load, with version 0.
pub fn prefill(mix: &Mix) -> impl Iterator<Item = Command> {
    let versioned = mix.prefill().map(|command| {
        let mut words = command.args();
        let (key, value) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut value = value.to_vec();
        put(&mut value, 0);
        Command::set(key, &value)
    });
    versioned.chain(keys().map(|key| Command::set(&key, &digits(0))))
}

/// The keys of a load that are not those of its mix.
pub fn keys() -> impl Iterator<Item = Vec<u8>> {
    (0..PROBE_KEYS).map(probe_key)
}

/// Writes `version` over the beginning of `value`.
#[inline]
pub fn put(value: &mut [u8], version: u64) {
    if let Some(beginning) = value.get_mut(..VERSION_BYTES) {
        beginning.copy_from_slice(&digits(version));
    }
}
