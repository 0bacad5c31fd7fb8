//! What the servers must have executed, and whether they did.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::ServerUsage;

/// Commands that belong to connections, clusters and replication, not to any workload. They are counted and shown, but do
/// not fail an audit. A `|` at the end stands for every subcommand; servers before 7.0 count these under the command.
const HOUSEKEEPING: &[&str] = &[
    "info", "hello", "auth", "select", "client", "client|", "cluster", "cluster|", "command", "command|", "replconf", "psync", "readonly",
    "asking", "quit",
];

/// Commands that run scripts. No script can call them, so that their own number stays exact.
const SCRIPTS: &[&str] = &["eval", "eval_ro", "evalsha", "evalsha_ro", "fcall", "fcall_ro"];

/// What the servers must have executed.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// Exact number of executed calls by lower-case command. A subcommand is named as `object|encoding`; servers before 7.0
    /// count it under `object`, and either is accepted.
    pub calls: BTreeMap<String, u64>,
    /// Commands that were answered at all, by the same names, with a reply or with an error: executed and rejected calls
    /// together. A command of which none was answered belongs here with 0 when some are `unanswered`.
    pub attempts: BTreeMap<String, u64>,
    /// Commands whose fate is unknown, since their reply never came: so many more than counted may have been executed, of
    /// all names together.
    pub unanswered: u64,
    /// The workload runs scripts or functions: what these call is counted apart and fails nothing.
    pub scripts: bool,
    /// Commands a checkout sends, lower case: counted apart, once for each command and master at the most.
    pub checkout: &'static [&'static str],
    /// Masters that a checkout may ask.
    pub masters: usize,
    /// What was found not to match before any server was asked, in words.
    pub deviations: Vec<String>,
}

/// The outcome of comparing the servers' count with ours.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Audit {
    /// Commands of the workload, as counted by the servers.
    pub workload: u64,
    /// Commands that checkouts sent.
    pub checkout: u64,
    /// Commands that scripts called, as far as they can be told apart: those above what was counted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub by_scripts: u64,
    /// Commands without a reply that the servers executed (or rejected) all the same; they are not in `workload`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unanswered: u64,
    /// Commands of connections, topology refreshes and replication.
    pub housekeeping: u64,
    /// What did not match, in words; empty when the audit is exact.
    pub deviations: Vec<String>,
}

// The form that serde asks for.
#[expect(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Audit {
    /// Whether the servers' count equals ours.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.deviations.is_empty()
    }

    /// Adds another audit's counts and deviations.
    pub fn add(&mut self, other: Audit) {
        self.workload += other.workload;
        self.checkout += other.checkout;
        self.by_scripts += other.by_scripts;
        self.unanswered += other.unanswered;
        self.housekeeping += other.housekeeping;
        self.deviations.extend(other.deviations);
    }
}

impl Expected {
    /// Exactly these executed calls by lower-case command, and none without an answer.
    #[must_use]
    pub fn exactly(calls: BTreeMap<String, u64>, checkout: &'static [&'static str], masters: usize) -> Self {
        Self { calls, checkout, masters, ..Self::default() }
    }
}

impl ServerUsage {
    fn executed(&self, name: &str) -> u64 {
        self.calls.get(name).copied().unwrap_or(0)
    }

    fn attempted(&self, name: &str) -> u64 {
        self.executed(name) + self.rejected.get(name).copied().unwrap_or(0)
    }

    /// All names that the servers counted anything under.
    fn names(&self) -> BTreeSet<&str> {
        self.calls.keys().chain(self.rejected.keys()).map(String::as_str).collect()
    }

    /// The names under which the servers counted what we call `name`.
    fn listed<'a>(&'a self, name: &'a str, wanted: &BTreeMap<String, u64>) -> BTreeSet<&'a str> {
        let names = self.names();
        match name.split_once('|') {
            // A server before 7.0.
            Some((command, _)) if !names.contains(name) && names.contains(command) => BTreeSet::from([command]),
            Some(_) => BTreeSet::from([name]),
            None => {
                let is_subcommand = |listed: &str| listed.strip_prefix(name).is_some_and(|rest| rest.starts_with('|'));
                let subcommands = names.into_iter().filter(|listed| is_subcommand(listed) && !wanted.contains_key(*listed));
                subcommands.chain([name]).collect()
            }
        }
    }

    /// Compares with what must have been executed.
    #[must_use]
    pub fn audit(&self, expected: &Expected) -> Audit {
        let mut audit = Audit { deviations: expected.deviations.clone(), ..Audit::default() };
        let mut known = BTreeSet::new();
        self.compare(&expected.calls, "executed", Self::executed, expected, &mut audit, &mut known);
        self.compare(&expected.attempts, "executed or rejected", Self::attempted, expected, &mut audit, &mut known);
        for name in self.names().difference(&known).copied() {
            let (executed, attempted) = (self.executed(name), self.attempted(name));
            if expected.checkout.contains(&name) {
                audit.checkout += executed;
            } else if is_housekeeping(name) {
                audit.housekeeping += executed;
            } else if expected.scripts && !SCRIPTS.contains(&name) {
                audit.by_scripts += attempted;
            } else if executed > 0 {
                audit.deviations.push(format!("the server executed {executed} {}, which nobody counted", name.to_uppercase()));
            } else if attempted > 0 {
                audit.deviations.push(format!("the server rejected {attempted} {}, which nobody counted", name.to_uppercase()));
            }
        }
        let commands = audit.workload + audit.unanswered;
        let most_checkout = (expected.checkout.len() * expected.masters.max(1)) as u64 * commands;
        if audit.checkout > most_checkout {
            audit.deviations.push(format!("the checkouts sent {} commands, which is more than {most_checkout}", audit.checkout));
        }
        let most_housekeeping = HOUSEKEEPING_AT_MOST + commands / 100;
        if audit.housekeeping > most_housekeeping {
            let text = format!("connections sent {} commands of their own, which is more than {most_housekeeping}", audit.housekeeping);
            audit.deviations.push(text);
        }
        audit
    }

    /// Compares one kind of count; notes in `known` the names that it looked at.
    fn compare<'a>(
        &'a self,
        wanted: &'a BTreeMap<String, u64>,
        done: &str,
        count: impl Fn(&Self, &str) -> u64,
        expected: &Expected,
        audit: &mut Audit,
        known: &mut BTreeSet<&'a str>,
    ) {
        // Several subcommands may be one name to an older server.
        let mut groups: BTreeMap<BTreeSet<&str>, (Vec<&str>, u64)> = BTreeMap::new();
        for (name, &wanted_calls) in wanted {
            let (names, sum) = groups.entry(self.listed(name, wanted)).or_default();
            names.push(name);
            *sum += wanted_calls;
        }
        for (listed, (names, wanted)) in groups {
            let counted: u64 = listed.iter().map(|name| count(self, name)).sum();
            let more = counted.saturating_sub(wanted);
            let unanswered = more.min(expected.unanswered - audit.unanswered);
            if more > 0 && names.iter().any(|name| expected.checkout.contains(name)) {
                // A workload of PING over a pool that checks with PING: the surplus is the pool's, bounded as ever.
                audit.checkout += more;
            } else if more > 0 && names.iter().any(|name| is_housekeeping(name)) {
                audit.housekeeping += more;
            } else if more > 0 && expected.scripts && !names.iter().any(|name| SCRIPTS.contains(name)) {
                audit.by_scripts += more;
            } else if counted >= wanted && more == unanswered {
                audit.unanswered += unanswered;
            } else {
                audit.deviations.push(deviation(counted, wanted, done, &names, expected.unanswered));
            }
            audit.workload += counted.min(wanted);
            known.extend(listed);
        }
    }
}

fn deviation(counted: u64, wanted: u64, done: &str, names: &[&str], unanswered: u64) -> String {
    let names = names.iter().map(|name| name.replace('|', " ").to_uppercase()).collect::<Vec<_>>().join(" and ");
    let unknown = if unanswered == 0 { String::new() } else { format!(" and got no answer to {unanswered} commands") };
    format!("the server {done} {counted} {names}, we counted {wanted}{unknown}")
}

/// Commands of connections, topologies and replication that one run may see beside 1 % of its workload: our own `INFO`s and
/// the log-ins of a pool. More is a client that sends something with its commands, or connects again and again.
const HOUSEKEEPING_AT_MOST: u64 = 400;

fn is_housekeeping(name: &str) -> bool {
    HOUSEKEEPING.iter().any(|known| name == *known || known.ends_with('|') && name.starts_with(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(counts: &[(&str, u64)]) -> BTreeMap<String, u64> {
        counts.iter().map(|&(name, count)| (name.to_owned(), count)).collect()
    }

    fn usage(calls: &[(&str, u64)]) -> ServerUsage {
        ServerUsage { calls: counts(calls), ..ServerUsage::default() }
    }

    fn expected(calls: &[(&str, u64)], checkout: &'static [&'static str]) -> Expected {
        Expected::exactly(counts(calls), checkout, 1)
    }

    fn attempts(attempts: &[(&str, u64)]) -> Expected {
        Expected { attempts: counts(attempts), masters: 1, ..Expected::default() }
    }

    #[test]
    fn an_exact_count_passes_with_checkouts_and_housekeeping_apart() {
        let audit = usage(&[("get", 100), ("ping", 100), ("unwatch", 100), ("client|setinfo", 2), ("info", 4)])
            .audit(&expected(&[("get", 100)], &["ping", "unwatch"]));
        assert!(audit.is_exact());
        assert_eq!((audit.workload, audit.checkout, audit.housekeeping), (100, 200, 6));
    }

    #[test]
    fn one_command_too_many_or_too_few_fails() {
        for executed in [99, 101] {
            let audit = usage(&[("get", executed)]).audit(&expected(&[("get", 100)], &[]));
            assert_eq!(audit.deviations, [format!("the server executed {executed} GET, we counted 100")]);
        }
        assert!(!usage(&[]).audit(&expected(&[("get", 1)], &[])).is_exact());
    }

    #[test]
    fn habits_that_grow_with_the_workload_fail() {
        let chatty = usage(&[("get", 1000), ("client|setname", 1000)]).audit(&expected(&[("get", 1000)], &[]));
        assert!(!chatty.is_exact());
        let pings = usage(&[("get", 1000), ("ping", 1001)]).audit(&expected(&[("get", 1000)], &["ping"]));
        assert!(!pings.is_exact());
    }

    #[test]
    fn a_command_that_nobody_counted_fails() {
        let audit = usage(&[("get", 1), ("ping", 1)]).audit(&expected(&[("get", 1)], &[]));
        assert_eq!(audit.deviations, ["the server executed 1 PING, which nobody counted"]);
        assert!(!usage(&[("clientx", 1)]).audit(&expected(&[], &[])).is_exact());
    }

    #[test]
    fn a_rejected_command_was_attempted_but_not_executed() {
        let usage = ServerUsage { rejected: counts(&[("set", 10)]), ..usage(&[("get", 100), ("set", 90)]) };
        let audit = usage.audit(&attempts(&[("get", 100), ("set", 100)]));
        assert!(audit.is_exact(), "{audit:?}");
        assert_eq!(audit.workload, 200);
        for wrong in [99, 101] {
            let audit = usage.audit(&attempts(&[("get", 100), ("set", wrong)]));
            assert_eq!(audit.deviations, [format!("the server executed or rejected 100 SET, we counted {wrong}")]);
        }
        assert!(!usage.audit(&expected(&[("get", 100), ("set", 100)], &[])).is_exact(), "calls are executed calls");
        assert!(usage.audit(&expected(&[("get", 100), ("set", 90)], &[])).is_exact());
        let all_rejected = ServerUsage { rejected: counts(&[("set", 2)]), ..ServerUsage::default() };
        assert!(all_rejected.audit(&attempts(&[("set", 2)])).is_exact());
        let audit = all_rejected.audit(&attempts(&[]));
        assert_eq!(audit.deviations, ["the server rejected 2 SET, which nobody counted"]);
    }

    #[test]
    fn a_subcommand_is_found_under_either_name() {
        let newer = usage(&[("object|encoding", 5), ("object|freq", 2)]);
        let older = usage(&[("object", 7)]);
        for usage in [&newer, &older] {
            for wanted in [&[("object|encoding", 5), ("object|freq", 2)][..], &[("object", 7)]] {
                for expected in [expected(wanted, &[]), attempts(wanted)] {
                    let audit = usage.audit(&expected);
                    assert!(audit.is_exact() && audit.workload == 7, "{audit:?}");
                }
            }
        }
        assert!(newer.audit(&expected(&[("object", 2), ("object|encoding", 5)], &[])).is_exact());
        let audit = older.audit(&expected(&[("object|encoding", 5), ("object|freq", 3)], &[]));
        assert_eq!(audit.deviations, ["the server executed 7 OBJECT ENCODING and OBJECT FREQ, we counted 8"]);
        assert!(!newer.audit(&expected(&[("object|encoding", 7)], &[])).is_exact());
        assert!(!usage(&[("objects", 1)]).audit(&expected(&[("object", 1)], &[])).is_exact());
    }

    #[test]
    fn what_scripts_call_is_counted_apart() {
        let usage = usage(&[("eval", 10), ("get", 30), ("incr", 10), ("client|setinfo", 2)]);
        let scripts = Expected { scripts: true, ..attempts(&[("eval", 10), ("get", 20)]) };
        let audit = usage.audit(&scripts);
        assert!(audit.is_exact(), "{audit:?}");
        assert_eq!((audit.workload, audit.by_scripts, audit.housekeeping), (30, 20, 2));
        assert!(!usage.audit(&Expected { scripts: false, ..scripts }).is_exact());
        let too_few = Expected { scripts: true, ..attempts(&[("eval", 10), ("get", 31)]) };
        assert!(!usage.audit(&too_few).is_exact(), "scripts do not make up for commands that are missing");
        let eval = Expected { scripts: true, ..attempts(&[("eval", 9), ("get", 20)]) };
        assert!(!usage.audit(&eval).is_exact(), "no script calls EVAL");
        assert!(!usage.audit(&Expected { scripts: true, ..attempts(&[("get", 20)]) }).is_exact());
    }

    #[test]
    fn unanswered_commands_may_have_been_executed_or_not() {
        let lost = |unanswered| Expected { unanswered, ..attempts(&[("get", 100), ("set", 0)]) };
        for (executed, fate) in [(100, 0), (102, 2), (103, 3)] {
            let audit = usage(&[("get", executed)]).audit(&lost(3));
            assert!(audit.is_exact(), "{audit:?}");
            assert_eq!((audit.workload, audit.unanswered), (100, fate));
        }
        assert!(usage(&[("get", 101), ("set", 2)]).audit(&lost(3)).is_exact());
        for (get, set) in [(99, 0), (104, 0), (102, 2), (99, 4)] {
            let audit = usage(&[("get", get), ("set", set)]).audit(&lost(3));
            assert!(!audit.is_exact(), "{get} GET and {set} SET");
        }
        let audit = usage(&[("get", 104)]).audit(&lost(3));
        assert_eq!(audit.deviations, ["the server executed or rejected 104 GET, we counted 100 and got no answer to 3 commands"]);
    }

    #[test]
    fn a_workload_of_what_checkouts_send_too_is_exact_up_to_one_of_theirs_each() {
        let wanted = expected(&[("ping", 100)], &["unwatch", "ping"]);
        let audit = usage(&[("ping", 200), ("unwatch", 100)]).audit(&wanted);
        assert!(audit.is_exact(), "{audit:?}");
        assert_eq!((audit.workload, audit.checkout), (100, 200));
        assert!(!usage(&[("ping", 301), ("unwatch", 100)]).audit(&wanted).is_exact());
        assert!(!usage(&[("ping", 99), ("unwatch", 100)]).audit(&wanted).is_exact());
        let info = expected(&[("info", 100)], &[]);
        assert!(usage(&[("info", 104)]).audit(&info).is_exact(), "our own INFOs");
        assert!(!usage(&[("info", 1000)]).audit(&info).is_exact());
    }

    #[test]
    fn counts_that_are_nothing_are_not_written() {
        let text = serde_json::to_string(&(Audit::default(), ServerUsage::default())).unwrap();
        assert!(!text.contains("by_scripts") && !text.contains("unanswered") && !text.contains("rejected"), "{text}");
        let before = r#"{"workload":1,"checkout":0,"housekeeping":2,"deviations":[]}"#;
        let read: Audit = serde_json::from_str(before).unwrap();
        assert_eq!(read, Audit { workload: 1, housekeeping: 2, ..Audit::default() });
    }
}
