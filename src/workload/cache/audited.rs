//! What the servers must have counted after a cached load: its misses, what goes beside each, writes, fences and probes.

use super::loader::CachedOutcome;
use super::run::sum;
use crate::drivers::Descriptor;
use crate::target::audit::Expected;
use crate::workload::load::audited;
use crate::workload::load::engine::Job;
use crate::workload::mix::{Call, Mix};

/// What the servers must have executed for `outcome`, to the command, where every command was answered.
///
/// A read that failed may have been a miss or not, counted as one or not, executed or not. What the cache counted beyond the reads that were
/// answered are such reads: by so many the servers may have executed fewer GETs than the cache counted misses.
#[must_use]
pub fn expected(mix: &Mix, job: &Job, outcome: &CachedOutcome, driver: &Descriptor, masters: usize) -> Expected {
    let CachedOutcome { outcome, cache, beside } = outcome;
    let mut expected = audited::expected(mix, job, outcome, driver.checkout, masters);
    let refused: u64 =
        mix.entries().iter().zip(&outcome.refused).filter(|(entry, _)| entry.call == Call::Get).map(|(_, &reads)| reads).sum();
    let failed = sum(mix, outcome, Call::Get, |counts| counts.failed) + outcome.abandoned + beside.probes.reads_lost;
    let answered = sum(mix, outcome, Call::Get, |counts| counts.done) + beside.probes.reads;
    let told = cache.counts.hits + cache.counts.misses;
    let at_least = cache.counts.misses.saturating_sub(told.saturating_sub(answered).min(failed));
    // Where some were refused, executed and rejected calls are compared together.
    let mut set = |name: &str, count: &dyn Fn(u64) -> u64| {
        let Expected { calls, attempts, .. } = &mut expected;
        let counts = if attempts.contains_key(name) { attempts } else { calls };
        let entry = counts.entry(name.to_owned()).or_insert(0);
        *entry = count(*entry);
    };
    set("get", &|_| at_least);
    set("set", &|callers| callers + beside.probes.writes);
    set("unlink", &|_| beside.fences);
    for (name, each) in beside.each_miss {
        set(name, &|_| at_least * each);
    }
    // Those of the callers without an answer are counted already.
    expected.unanswered += beside.each_miss.iter().map(|(_, each)| failed * each).sum::<u64>();
    expected.unanswered += refused + beside.probes.reads_lost + beside.probes.writes_lost + beside.fences_lost;
    if told < answered || told > answered + failed {
        expected.deviations.push(format!("the cache counted {told} hits and misses, we counted {answered} reads and {failed} that failed"));
    }
    expected
}
