//! What the servers themselves counted: commands, reads and CPU, from `INFO` on every node.
//!
//! The commands a server executed must equal those we counted, or the figure is refused. The same reading gives the
//! pipeline depth really achieved (commands per read) and the server's CPU time.

mod expected;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use expected::{Audit, Expected};

use super::Role;
use crate::error::Error;
use crate::measure::clock::nanos;
use crate::net::{Connection, Endpoint};
use crate::resp::{Command, Resp, Value};

/// Reads the counters of every node.
pub struct Auditor {
    nodes: Vec<(Role, Endpoint, Option<Connection>)>,
}

/// One node's counters at one moment.
#[derive(Clone, Debug, Default)]
struct Counters {
    /// Calls by lower-case command, subcommands as `client|setinfo`.
    calls: BTreeMap<String, u64>,
    /// Calls refused before they were executed, from Redis 6.2 on.
    rejected: BTreeMap<String, u64>,
    /// Calls that ended in an error, of those in `calls`, from Redis 6.2 on.
    failed: BTreeMap<String, u64>,
    reads: u64,
    cpu: Duration,
    uptime_id: String,
    process_id: u32,
}

/// All nodes' counters at one moment.
pub struct Reading(Vec<Counters>);

/// What the servers did between two readings, our own readings left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerUsage {
    /// Calls on masters by lower-case command; reads that a replica served are added.
    pub calls: BTreeMap<String, u64>,
    /// Calls refused before they were executed (unknown arguments, a full memory, a missing permission, `MOVED`), not in
    /// `calls`; only names with any. Servers before 6.2 do not count them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rejected: BTreeMap<String, u64>,
    /// Calls that were executed and ended in an error, also in `calls`; only names with any. Servers before 6.2 do not count them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failed: BTreeMap<String, u64>,
    /// `read(2)` calls on client sockets of the masters.
    pub reads: u64,
    /// CPU time of all nodes in nanoseconds, user and system.
    pub cpu_ns: u64,
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
            let read = match kept.take() {
                Some(connection) => counters.read(connection, endpoint, &sections).await,
                None => Err(Error::Connection("not connected".into())),
            };
            let connection = match read {
                // A server may close a connection that was idle for a whole run (`timeout`).
                Err(Error::Connection(_)) => {
                    counters = Counters::default();
                    counters.read(Connection::open(endpoint, Resp::V2, true).await?, endpoint, &sections).await?
                }
                read => read?,
            };
            *kept = Some(connection);
            all.push(counters);
        }
        Ok(Reading(all))
    }

    /// The process ids of all servers on their own machines, as they say.
    ///
    /// # Errors
    /// A node that does not answer.
    pub async fn process_ids(&mut self) -> Result<Vec<u32>, Error> {
        Ok(self.read(["server"; 4]).await?.0.iter().map(|counters| counters.process_id).collect())
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
            own_reads += increase(&before.calls, &after.calls).filter(|(name, _)| *name == "replconf").map(|(_, calls)| calls).sum::<u64>();
            let of_clients = |name: &str| *role == Role::Master || REPLICA_READS.contains(&name);
            for (sum, before, after) in [
                (&mut usage.calls, &before.calls, &after.calls),
                (&mut usage.rejected, &before.rejected, &after.rejected),
                (&mut usage.failed, &before.failed, &after.failed),
            ] {
                for (name, more) in increase(before, after).filter(|(name, _)| of_clients(name)) {
                    *sum.entry(name.clone()).or_default() += more;
                }
            }
            if *role == Role::Master {
                usage.reads += after.reads.saturating_sub(before.reads).saturating_sub(own_reads);
            }
            usage.cpu_ns += nanos(after.cpu.saturating_sub(before.cpu));
        }
        Ok(usage)
    }
}

/// The counters that grew, and by how much.
fn increase<'a>(before: &'a BTreeMap<String, u64>, after: &'a BTreeMap<String, u64>) -> impl Iterator<Item = (&'a String, u64)> {
    let more = |(name, &count): (&'a String, &u64)| (name, count.saturating_sub(before.get(name).copied().unwrap_or(0)));
    after.iter().map(more).filter(|&(_, more)| more > 0)
}

/// Commands that, on a replica, can only come from a client: a master sends it writes and pings.
const REPLICA_READS: &[&str] = &["get", "mget", "hkeys", "hget", "hgetall", "hmget", "exists", "strlen", "lrange", "smembers", "zrange"];

impl Counters {
    /// Fills them over `connection`, and gives it back.
    async fn read(&mut self, mut connection: Connection, endpoint: &Endpoint, sections: &[&str]) -> Result<Connection, Error> {
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
            self.fill(text);
        }
        Ok(connection)
    }

    fn fill(&mut self, info: &str) {
        let seconds = |text: &str| Duration::try_from_secs_f64(text.parse().unwrap_or(0.0)).unwrap_or_default();
        for line in info.lines() {
            let Some((name, value)) = line.split_once(':') else { continue };
            if let Some(command) = name.strip_prefix("cmdstat_") {
                let command = command.to_ascii_lowercase();
                let count =
                    |field| value.split(',').find_map(|part| part.strip_prefix(field)?.strip_prefix('=')?.parse().ok()).unwrap_or(0);
                self.calls.insert(command.clone(), count("calls"));
                self.rejected.insert(command.clone(), count("rejected_calls"));
                self.failed.insert(command, count("failed_calls"));
            }
            match name {
                "total_reads_processed" => self.reads = value.parse().unwrap_or(0),
                "used_cpu_user" | "used_cpu_sys" => self.cpu += seconds(value),
                "process_id" => self.process_id = value.parse().unwrap_or(0),
                "run_id" => self.uptime_id = value.to_owned(),
                _ => {}
            }
        }
    }
}

impl ServerUsage {
    /// Adds what another stretch of work used.
    pub fn add(&mut self, other: &ServerUsage) {
        let fields = [(&mut self.calls, &other.calls), (&mut self.rejected, &other.rejected), (&mut self.failed, &other.failed)];
        for (sum, more) in fields {
            for (name, calls) in more {
                *sum.entry(name.clone()).or_default() += calls;
            }
        }
        self.reads += other.reads;
        self.cpu_ns += other.cpu_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_sections_of_info() {
        let mut counters = Counters::default();
        counters.fill("# Commandstats\r\ncmdstat_get:calls=7,usec=3,usec_per_call=0.43,rejected_calls=2,failed_calls=1\r\n");
        counters.fill("cmdstat_client|setinfo:calls=2,usec=1\r\ntotal_reads_processed:9\r\nused_cpu_sys:0.250000\r\nused_cpu_user:0.5\r\n");
        let both = |get, client: u64| BTreeMap::from([("get".to_owned(), get), ("client|setinfo".to_owned(), client)]);
        assert_eq!(counters.calls, both(7, 2));
        // Servers before 6.2 know no further counts.
        assert_eq!((counters.rejected, counters.failed), (both(2, 0), both(1, 0)));
        assert_eq!((counters.reads, counters.cpu), (9, Duration::from_millis(750)));
    }

    #[tokio::test]
    async fn only_what_grew_is_used() {
        let counters = |get: u64, rejected: u64| {
            let mut counters = Counters::default();
            counters.fill(&format!("cmdstat_get:calls={get},rejected_calls={rejected},failed_calls=3\r\ncmdstat_set:calls=5\r\n"));
            counters
        };
        let auditor = Auditor { nodes: vec![(Role::Master, Endpoint::tcp("127.0.0.1", 1), None)] };
        let usage = auditor.usage(&Reading(vec![counters(1, 2)]), &Reading(vec![counters(8, 6)])).unwrap();
        let mut sum = usage.clone();
        sum.add(&usage);
        assert_eq!((usage.calls, usage.rejected), (BTreeMap::from([("get".into(), 7)]), BTreeMap::from([("get".into(), 4)])));
        assert!(usage.failed.is_empty());
        assert_eq!((sum.calls["get"], sum.rejected["get"]), (14, 8));
    }
}
