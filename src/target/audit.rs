//! What the servers themselves counted: commands, reads and CPU, from `INFO` on every node.
//!
//! The commands a server executed must equal those we counted, or the figure is refused. The same reading gives the
//! pipeline depth really achieved (commands per read) and the server's CPU time.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Role;
use crate::error::Error;
use crate::net::{Connection, Endpoint};
use crate::resp::{Command, Resp, Value};

/// Commands that belong to connections, clusters and replication, not to any workload. They are counted and shown, but do
/// not fail an audit. A `|` at the end stands for every subcommand; servers before 7.0 count these under the command.
const HOUSEKEEPING: &[&str] = &[
    "info", "hello", "auth", "select", "client", "client|", "cluster", "cluster|", "command", "command|", "replconf", "psync", "readonly",
    "asking", "quit",
];

/// Reads the counters of every node.
pub struct Auditor {
    nodes: Vec<(Role, Endpoint, Option<Connection>)>,
}

/// One node's counters at one moment.
#[derive(Clone, Debug, Default)]
struct Counters {
    /// Calls by lower-case command, subcommands as `client|setinfo`.
    calls: BTreeMap<String, u64>,
    reads: u64,
    cpu: Duration,
    uptime_id: String,
}

/// All nodes' counters at one moment.
pub struct Reading(Vec<Counters>);

/// What the servers did between two readings, our own readings left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerUsage {
    /// Calls on masters by lower-case command; reads that a replica served are added.
    pub calls: BTreeMap<String, u64>,
    /// `read(2)` calls on client sockets of the masters.
    pub reads: u64,
    /// CPU time of all nodes in nanoseconds, user and system.
    pub cpu_ns: u64,
}

/// What the servers must have executed.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// Exact number of calls by lower-case command.
    pub calls: BTreeMap<String, u64>,
    /// Commands a checkout sends, lower case: counted apart, once for each command and master at the most.
    pub checkout: &'static [&'static str],
    /// Masters that a checkout may ask.
    pub masters: usize,
}

/// The outcome of comparing the servers' count with ours.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Audit {
    /// Commands of the workload, as counted by the servers.
    pub workload: u64,
    /// Commands that checkouts sent.
    pub checkout: u64,
    /// Commands of connections, topology refreshes and replication.
    pub housekeeping: u64,
    /// What did not match, in words; empty when the audit is exact.
    pub deviations: Vec<String>,
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
        self.housekeeping += other.housekeeping;
        self.deviations.extend(other.deviations);
    }
}

impl Auditor {
    /// Opens a connection of its own to every node.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub async fn connect(nodes: impl IntoIterator<Item = (Role, Endpoint)>) -> Result<Self, Error> {
        let mut open = Vec::new();
        for (role, endpoint) in nodes {
            let connection = Connection::open(&endpoint, Resp::V2, true).await?;
            open.push((role, endpoint, Some(connection)));
        }
        Ok(Self { nodes: open })
    }

    /// Reads every node's counters before a run: one write and one read each. The CPU time comes last, so that rendering
    /// the other sections is not counted as work of the run.
    ///
    /// # Errors
    /// A node that does not answer, or not with an `INFO` text.
    pub async fn before(&mut self) -> Result<Reading, Error> {
        self.read(["server", "commandstats", "stats", "cpu"]).await
    }

    /// Reads every node's counters after a run, the CPU time first.
    ///
    /// # Errors
    /// As [`Auditor::before`].
    pub async fn after(&mut self) -> Result<Reading, Error> {
        self.read(["cpu", "stats", "commandstats", "server"]).await
    }

    async fn read(&mut self, sections: [&str; 4]) -> Result<Reading, Error> {
        let mut all = Vec::with_capacity(self.nodes.len());
        for (_, endpoint, kept) in &mut self.nodes {
            let mut counters = Counters::default();
            // Put back only after a whole reading: one that failed or was given up leaves replies behind.
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => Connection::open(endpoint, Resp::V2, true).await?,
            };
            connection.begin();
            // One section each: servers before 7.0 take no more.
            for section in sections {
                connection.queue(&Command::new("INFO").arg(section));
            }
            connection.send().await?;
            for _ in sections {
                let frame = connection.receive().await?;
                let value = crate::resp::parse(&frame).map_err(|error| Error::Protocol(error.to_string()))?;
                if let Value::Error(text) = &value {
                    return Err(Error::server(text));
                }
                let text = value.as_str().ok_or_else(|| Error::Protocol(format!("INFO of {endpoint} is no text")))?;
                counters.fill(text);
            }
            *kept = Some(connection);
            all.push(counters);
        }
        Ok(Reading(all))
    }

    /// How many masters it reads.
    #[must_use]
    pub fn masters(&self) -> usize {
        self.nodes.iter().filter(|(role, ..)| *role == Role::Master).count()
    }

    /// What the servers did between two readings of this auditor.
    ///
    /// # Errors
    /// [`Error::Connection`] when a node was restarted in between, so that its counters began anew.
    pub fn usage(&self, before: &Reading, after: &Reading) -> Result<ServerUsage, Error> {
        let mut usage = ServerUsage::default();
        for (((role, endpoint, _), before), after) in self.nodes.iter().zip(&before.0).zip(&after.0) {
            if before.uptime_id != after.uptime_id {
                return Err(Error::Connection(format!("the server at {endpoint} was restarted during the measurement")));
            }
            let mut own_reads = 1; // that of `after`, which is counted before INFO answers
            for (name, &calls) in &after.calls {
                let calls = calls.saturating_sub(before.calls.get(name).copied().unwrap_or(0));
                if calls == 0 || *role == Role::Replica && !REPLICA_READS.contains(&name.as_str()) {
                    continue;
                }
                if name == "replconf" {
                    own_reads += calls;
                }
                *usage.calls.entry(name.clone()).or_default() += calls;
            }
            if *role == Role::Master {
                usage.reads += after.reads.saturating_sub(before.reads).saturating_sub(own_reads);
            }
            usage.cpu_ns += u64::try_from(after.cpu.saturating_sub(before.cpu).as_nanos()).unwrap_or(u64::MAX);
        }
        Ok(usage)
    }
}

/// Commands that, on a replica, can only come from a client: a master sends it writes and pings.
const REPLICA_READS: &[&str] = &["get", "mget", "hkeys", "hget", "hgetall", "hmget", "exists", "strlen", "lrange", "smembers", "zrange"];

impl Counters {
    fn fill(&mut self, info: &str) {
        let seconds = |text: &str| Duration::try_from_secs_f64(text.parse().unwrap_or(0.0)).unwrap_or_default();
        for line in info.lines() {
            let Some((name, value)) = line.split_once(':') else { continue };
            if let Some(command) = name.strip_prefix("cmdstat_") {
                let calls = value.split(',').find_map(|field| field.strip_prefix("calls=")).and_then(|calls| calls.parse().ok());
                self.calls.insert(command.to_ascii_lowercase(), calls.unwrap_or(0));
            }
            match name {
                "total_reads_processed" => self.reads = value.parse().unwrap_or(0),
                "used_cpu_user" | "used_cpu_sys" => self.cpu += seconds(value),
                "run_id" => self.uptime_id = value.to_owned(),
                _ => {}
            }
        }
    }
}

impl ServerUsage {
    /// Adds what another stretch of work used.
    pub fn add(&mut self, other: &ServerUsage) {
        for (name, calls) in &other.calls {
            *self.calls.entry(name.clone()).or_default() += calls;
        }
        self.reads += other.reads;
        self.cpu_ns += other.cpu_ns;
    }

    /// Compares with what must have been executed.
    #[must_use]
    pub fn audit(&self, expected: &Expected) -> Audit {
        let mut audit = Audit::default();
        for (name, &wanted) in &expected.calls {
            let executed = self.calls.get(name).copied().unwrap_or(0);
            audit.workload += executed;
            if executed != wanted {
                audit.deviations.push(format!("the server executed {executed} {}, we counted {wanted}", name.to_uppercase()));
            }
        }
        for (name, &calls) in self.calls.iter().filter(|(name, _)| !expected.calls.contains_key(*name)) {
            if expected.checkout.contains(&name.as_str()) {
                audit.checkout += calls;
            } else if is_housekeeping(name) {
                audit.housekeeping += calls;
            } else {
                audit.deviations.push(format!("the server executed {calls} {}, which nobody counted", name.to_uppercase()));
            }
        }
        let most_checkout = (expected.checkout.len() * expected.masters.max(1)) as u64 * audit.workload;
        if audit.checkout > most_checkout {
            audit.deviations.push(format!("the checkouts sent {} commands, which is more than {most_checkout}", audit.checkout));
        }
        let most_housekeeping = HOUSEKEEPING_AT_MOST + audit.workload / 100;
        if audit.housekeeping > most_housekeeping {
            let text = format!("connections sent {} commands of their own, which is more than {most_housekeeping}", audit.housekeeping);
            audit.deviations.push(text);
        }
        audit
    }
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

    fn usage(calls: &[(&str, u64)]) -> ServerUsage {
        ServerUsage { calls: calls.iter().map(|&(name, calls)| (name.to_owned(), calls)).collect(), reads: 0, cpu_ns: 0 }
    }

    fn expected(calls: &[(&str, u64)], checkout: &'static [&'static str]) -> Expected {
        Expected { calls: calls.iter().map(|&(name, calls)| (name.to_owned(), calls)).collect(), checkout, masters: 1 }
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
    fn reads_the_sections_of_info() {
        let mut counters = Counters::default();
        counters.fill("# Commandstats\r\ncmdstat_get:calls=7,usec=3,usec_per_call=0.43,rejected_calls=0,failed_calls=0\r\n");
        counters.fill("cmdstat_client|setinfo:calls=2,usec=1\r\ntotal_reads_processed:9\r\nused_cpu_sys:0.250000\r\nused_cpu_user:0.5\r\n");
        assert_eq!(counters.calls, BTreeMap::from([("get".into(), 7), ("client|setinfo".into(), 2)]));
        assert_eq!((counters.reads, counters.cpu), (9, Duration::from_millis(750)));
    }
}
