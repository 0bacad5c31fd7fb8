//! Errors of a load, counted by kind.

use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use super::issue::Fault;

/// Errors of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCount {
    /// An error reply's code such as `WRONGTYPE`, `wrong-reply`, or how the client failed: `timeout`, `connection`, …
    pub kind: String,
    /// How many.
    pub count: u64,
    /// The first one's text.
    pub first: String,
}

/// Kinds that are told apart; further ones are counted as `other`, so that memory stays bounded.
const MOST_KINDS: usize = 64;

/// The errors of all callers.
#[derive(Default)]
pub struct Errors(Mutex<Vec<ErrorCount>>);

impl Errors {
    /// Counts one.
    #[cold]
    pub fn note(&self, fault: &Fault) {
        let mut list = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let kind = fault.kind();
        let full = list.len() >= MOST_KINDS && !list.iter().any(|known| known.kind == kind);
        let kind = if full { "other".to_owned() } else { kind };
        match list.iter_mut().find(|known| known.kind == kind) {
            Some(known) => known.count += 1,
            None => list.push(ErrorCount { kind, count: 1, first: fault.text() }),
        }
    }

    /// Whether there was none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).is_empty()
    }

    /// All of them, the first kind first.
    #[must_use]
    pub fn list(&self) -> Vec<ErrorCount> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }
}
