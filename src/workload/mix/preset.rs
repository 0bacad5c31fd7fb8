//! Ready-made commands, named as redis-benchmark names them.

use super::data::DataSize;
use super::error::MixError;
use super::spec::CommandSpec;

/// The presets and their commands. Each type of key has a pattern of its own, so that no mix of them clashes.
pub const PRESETS: &[(&str, &str)] = &[
    ("ping", "PING"),
    ("set", "SET __key__ __data__"),
    ("get", "GET __key__"),
    ("incr", "INCR counter:__key__"),
    ("lpush", "LPUSH list:__key__ __data__"),
    ("rpush", "RPUSH list:__key__ __data__"),
    ("lpop", "LPOP list:__key__"),
    ("rpop", "RPOP list:__key__"),
    ("sadd", "SADD set:__key__ element:__field__"),
    ("hset", "HSET hash:__key__ field:__field__ __data__"),
    ("hkeys", "HKEYS hash:__key__"),
    ("hgetall", "HGETALL hash:__key__"),
    ("spop", "SPOP set:__key__"),
    ("zadd", "ZADD zset:__key__ __field__ element:__field__"),
    ("zpopmin", "ZPOPMIN zset:__key__"),
    ("lrange_100", "LRANGE list:__key__ 0 99"),
    ("lrange_300", "LRANGE list:__key__ 0 299"),
    ("lrange_500", "LRANGE list:__key__ 0 499"),
    ("lrange_600", "LRANGE list:__key__ 0 599"),
    (
        "mset",
        "MSET __key__ __data__ __key__ __data__ __key__ __data__ __key__ __data__ __key__ __data__ \
         __key__ __data__ __key__ __data__ __key__ __data__ __key__ __data__ __key__ __data__",
    ),
];

/// The command of a preset, labelled with its name. `mset` writes ten keys, which a cluster takes only in one slot.
///
/// # Errors
/// [`MixError::Preset`] with the known names.
pub fn preset(name: &str) -> Result<CommandSpec, MixError> {
    let found = PRESETS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name.trim()));
    let (label, command) = found.ok_or_else(|| {
        let known: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
        MixError::Preset { name: name.to_owned(), known: known.join(", ") }
    })?;
    Ok(CommandSpec { label: Some((*label).to_owned()), ..CommandSpec::new(command.split_ascii_whitespace()) })
}

/// Keys of the large values.
const LARGE_KEYS: u64 = 16;

/// Small reads beside reads of `size` bytes on the same connections, to see how long the small ones are held up: `ratio` is
/// the share of the large ones. Only with prefilled keys is there something to read.
#[must_use]
pub fn large_mix(ratio: f64, size: usize) -> Vec<CommandSpec> {
    vec![
        CommandSpec { ratio: Some(1.0 - ratio), label: Some("small GET".into()), ..CommandSpec::new(["GET", "__key__"]) },
        CommandSpec {
            ratio: Some(ratio),
            label: Some("large GET".into()),
            data: Some(DataSize::Fixed(size)),
            keys: Some(LARGE_KEYS),
            ..CommandSpec::new(["GET", "large:__key__"])
        },
    ]
}
