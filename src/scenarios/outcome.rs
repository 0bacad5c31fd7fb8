//! What came of a scenario.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::drivers::{CacheCounts, Error};
use crate::measure::clock::nanos;

/// How long a client may take to notice that its connection was closed; what it serves until then is counted and not held against it.
pub const NOTICE_WITHIN: Duration = Duration::from_millis(100);

/// Stale reads that are described; the others are only counted.
const MOST_EXAMPLES: usize = 3;

/// What the reads of a scenario returned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Reads that were judged: after each change and its fence, one of each key.
    pub judged: u64,
    /// Of these, how many returned what was there before the change. In the scenario `ttl`: what was too old to be served.
    pub stale: u64,
    /// Of the stale ones, how many keys were as stale after all patience, 2 s.
    pub lasting: u64,
    /// Longest time from the fence's reply to the end of a right read, of keys that were stale at first. Nanoseconds.
    pub longest_ns: Option<u64>,
    /// Judged reads that failed, where a client may refuse what it can't know.
    pub refused: u64,
    /// What was served while the tracked connection was away; only where it was killed.
    pub away: Option<Away>,
    /// The first stale reads, in words.
    pub examples: Vec<String>,
    /// What else a reader should know, in words.
    pub remarks: Vec<String>,
}

/// Reads between the loss of the tracked connection and the first reply over the next one. All keys had been overwritten before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Away {
    /// Keys that were read, again and again.
    pub keys: u64,
    /// Reads that returned the overwritten value.
    pub old_reads: u64,
    /// Keys of which a read that began later than 100 ms after the loss did so.
    pub late_keys: u64,
    /// Beginning of the last such read, from the loss on. Nanoseconds.
    pub last_old_ns: Option<u64>,
    /// Reads that returned the new value.
    pub new_reads: u64,
    /// Reads that failed.
    pub failed_reads: u64,
    /// Reads that were given up after 100 ms.
    pub slow_reads: u64,
    /// When a command had its reply again on every tracked connection, from the loss on. Nanoseconds; `None` if never.
    pub back_ns: Option<u64>,
    /// What the client first said of the loss.
    pub said: Option<String>,
}

impl Account {
    /// Counts a stale read.
    pub(super) fn stale(&mut self, describe: impl FnOnce() -> String) {
        self.stale += 1;
        if self.examples.len() < MOST_EXAMPLES {
            self.examples.push(describe());
        }
    }

    /// Notes that a key which was stale was read right, so long after the fence.
    pub(super) fn mended(&mut self, after: Duration) {
        self.longest_ns = self.longest_ns.max(Some(nanos(after)));
    }

    /// Whether it served what it should have forgotten.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.stale > 0 || self.away.as_ref().is_some_and(|away| away.late_keys > 0)
    }
}

/// What is to be said of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub enum Verdict {
    /// All was forgotten.
    Ok,
    /// Something was not.
    Stale,
    /// It can't be played with this client or target.
    NotPossible {
        /// Why.
        reason: String,
    },
    /// It could not be played to its end, or the client answered what nobody ever wrote.
    Failed {
        /// Why.
        reason: String,
    },
}

/// A scenario that was played, or why not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Played {
    /// What is to be said of it.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// What the reads returned, as far as it came.
    pub account: Account,
    /// What the cache counted at the end; `None` when there was none.
    pub counts: Option<CacheCounts>,
    /// How long it took, seconds.
    pub took_s: f64,
}

impl Played {
    /// One that was not played.
    #[must_use]
    pub fn not_possible(reason: impl Into<String>) -> Self {
        Self { verdict: Verdict::NotPossible { reason: reason.into() }, account: Account::default(), counts: None, took_s: 0.0 }
    }
}

impl Played {
    /// One of which nothing is known but that it failed.
    #[must_use]
    pub fn failed(reason: String) -> Self {
        Self { verdict: Verdict::Failed { reason }, ..Self::not_possible("") }
    }
}

/// Why a scenario ends early.
#[derive(Debug)]
pub(super) enum Fault {
    Failed(String),
    NotPossible(String),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match error {
            Error::Unsupported(reason) => Fault::NotPossible(reason.to_owned()),
            error => Fault::Failed(error.to_string()),
        }
    }
}

impl From<String> for Fault {
    fn from(reason: String) -> Self {
        Fault::Failed(reason)
    }
}

pub(super) type Acted<T = ()> = Result<T, Fault>;
