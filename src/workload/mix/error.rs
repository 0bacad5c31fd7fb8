//! What can be wrong with a mix, each in one sentence with a hint.

use super::data::LARGEST;
use super::keys::MOST_KEYS;

/// A mix that can't be run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MixError {
    /// No command at all.
    #[error("there is no command to send: name one, such as `SET __key__ __data__`")]
    NoCommand,
    /// A command without a word.
    #[error("a command is empty: write it as you would in redis-cli, such as `GET __key__`")]
    EmptyCommand,
    /// Quotes that don't end.
    #[error("the quotes of the command `{0}` don't match: close each ' and \"")]
    Quotes(String),
    /// A placeholder in the place of the command's name.
    #[error("the command `{0}` begins with a placeholder: its first word must be a command's name")]
    NameIsPlaceholder(String),
    /// A command that takes its connection out of request and reply.
    #[error("`{0}` changes what its connection is used for, so it can't be part of a mix: leave it out")]
    ChangesConnection(String),
    /// `__key__` without keys.
    #[error("`{0}` uses `__key__`, but there are 0 keys: give the number of keys, such as -r 100000")]
    NoKeys(String),
    /// More keys than twelve digits can name.
    #[error("{0} keys are more than the {MOST_KEYS} that twelve digits can name: give fewer")]
    TooManyKeys(u64),
    /// `__field__` without fields.
    #[error("`{0}` uses `__field__`, but the range of fields is 0: give one, such as --field-range 100")]
    NoFields(String),
    /// A ratio that is no share.
    #[error("the ratio {0} is not a share: ratios are numbers from 0 up, and at least one is above 0")]
    BadRatio(f64),
    /// Ratios for some commands only.
    #[error("`{0}` has no ratio while others have one: give every command a ratio, or none")]
    MissingRatio(String),
    /// As many ratios as commands, or none.
    #[error("{ratios} ratios were given for {commands} commands: give one for each command, in the same order, or none")]
    RatioCount {
        /// Number of commands.
        commands: usize,
        /// Number of ratios.
        ratios: usize,
    },
    /// A distribution that is not known, or whose parameter is out of range.
    #[error("`{0}` is no distribution of keys: use uniform, sequential, gaussian or zipfian[:exponent] with an exponent from 0 to 100")]
    Distribution(String),
    /// A size that can't be read, or a range that ends before it begins.
    #[error("`{0}` is no size of data: use bytes such as 64 or 4KiB, or a range such as 32-1024, of at most {LARGEST} bytes")]
    DataSize(String),
    /// A preset that is not known.
    #[error("`{name}` is no preset: choose from {known}")]
    Preset {
        /// What was asked for.
        name: String,
        /// The known names.
        known: String,
    },
}
