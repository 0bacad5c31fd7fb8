//! What the servers must have counted after a load.

use std::collections::BTreeMap;

use super::engine::{Job, Outcome};
use crate::target::audit::Expected;
use crate::workload::mix::Mix;

/// What the servers must have executed for `outcome`, to the command; for those without an answer, either way.
#[must_use]
pub fn expected(mix: &Mix, job: &Job, outcome: &Outcome, checkout: &'static [&'static str], masters: usize) -> Expected {
    let (mut calls, mut attempts) = (BTreeMap::new(), BTreeMap::new());
    let answers = outcome.total.0.iter().zip(&outcome.refused);
    for (entry, (counts, &refused)) in mix.entries().iter().zip(answers) {
        let name = entry.subcommand.as_ref().map_or_else(|| entry.name.clone(), |sub| format!("{}|{sub}", entry.name));
        *calls.entry(name.clone()).or_insert(0) += counts.done;
        *attempts.entry(name).or_insert(0) += counts.done + refused;
    }
    if job.transaction {
        let both = [("multi".to_owned(), outcome.batches), ("exec".to_owned(), outcome.batches)];
        if outcome.unanswered == 0 {
            calls.extend(both);
        } else {
            // What was refused as a whole: EXEC may have been rejected, and a client may send DISCARD after it.
            attempts.extend(both);
            attempts.entry("discard".to_owned()).or_insert(0);
        }
    }
    // An error reply comes before or after the execution, so both together must fit. Without one the executed calls alone
    // do, so that redirections of a cluster, which are rejections too, need no account.
    calls.retain(|name, executed| attempts.get(name).is_none_or(|answered| answered == executed));
    attempts.retain(|name, _| !calls.contains_key(name));
    let unknown = if job.transaction { outcome.unanswered * 3 } else { outcome.unanswered };
    Expected {
        calls,
        attempts,
        unanswered: unknown,
        scripts: mix.entries().iter().any(|entry| entry.runs_scripts),
        checkout,
        masters,
        deviations: Vec::new(),
    }
}
