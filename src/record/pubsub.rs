//! The record of the benches `publish` and `subscribe`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::timestamp;
use crate::measure::Environment;
use crate::measure::clock::nanos;
use crate::target::TargetFacts;
use crate::workload::pubsub::burst::{Burst, SUBSCRIBER};
use crate::workload::pubsub::flood::Flooded;

/// Marks a file as one of these.
pub const PUBSUB_FORMAT: &str = "redis-client-bench/bench-pubsub";

/// Counts and sums of one or many runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Messages: published and received by one subscriber, or delivered to all.
    pub messages: u64,
    /// From the first sent to the last received.
    pub elapsed_ns: u64,
    /// Client CPU in user mode and in the kernel; publisher and subscribers are one process.
    pub client_ns: u64,
    /// CPU of all servers.
    pub server_ns: u64,
    /// Commands of the publisher, as the servers counted them.
    pub commands: u64,
    /// `read(2)` calls of the servers.
    pub reads: u64,
    /// Runs that these are the sums of.
    pub runs: u64,
}

impl Figures {
    /// Those of one burst.
    #[must_use]
    pub fn of_burst(burst: &Burst) -> Self {
        let seconds = |seconds: f64| (seconds * 1e9).round() as u64;
        let commands = burst.audit.workload + burst.audit.checkout;
        Self {
            messages: burst.messages,
            elapsed_ns: seconds(burst.real_s),
            client_ns: seconds(burst.user_s + burst.system_s),
            server_ns: seconds(burst.server_cpu_s),
            commands,
            reads: burst.commands_per_read.map_or(0, |depth| (commands as f64 / depth).round() as u64),
            runs: 1,
        }
    }

    /// Those of one flood.
    #[must_use]
    pub fn of_flood(flooded: &Flooded) -> Self {
        Self {
            messages: flooded.delivered,
            elapsed_ns: nanos(flooded.elapsed),
            client_ns: nanos(flooded.client.user + flooded.client.system),
            server_ns: flooded.server.cpu_ns,
            commands: flooded.audit.workload,
            reads: flooded.server.reads,
            runs: 1,
        }
    }

    /// The last `samples` runs, which all have the same number of messages; what went before was warm-up. `None` without any.
    #[must_use]
    pub fn sum(runs: &[Figures], samples: usize) -> Option<Self> {
        let size = runs.last()?.messages;
        let mut sum = Self::default();
        for run in runs.iter().rev().take(samples).take_while(|run| run.messages == size) {
            sum.messages += run.messages;
            sum.elapsed_ns += run.elapsed_ns;
            sum.client_ns += run.client_ns;
            sum.server_ns += run.server_ns;
            sum.commands += run.commands;
            sum.reads += run.reads;
            sum.runs += run.runs;
        }
        Some(sum)
    }

    /// A sum's share of one message.
    #[must_use]
    pub fn per_message(&self, total: u64) -> f64 {
        total as f64 / self.messages.max(1) as f64
    }

    /// Nanoseconds per message: all time over all messages.
    #[must_use]
    pub fn ns_per_message(&self) -> f64 {
        self.per_message(self.elapsed_ns)
    }
}

/// What became of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum Ran {
    /// Every message was received, and every run audited.
    Measured(Figures),
    /// The same, once and not timed (`--test`).
    Verified,
    /// No figure can be stood behind.
    Failed {
        /// Why.
        reason: String,
    },
    /// The driver can't do it, by its own statement.
    Unsupported {
        /// Why.
        reason: String,
    },
}

/// A cell and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// `workload/driver/k=v,…`
    pub name: String,
    /// The driver.
    pub driver: String,
    /// Its client, with the version.
    pub client: String,
    /// What became of it.
    #[serde(flatten)]
    pub ran: Ran,
}

impl Row {
    /// The figures, if there are any.
    #[must_use]
    pub fn figures(&self) -> Option<&Figures> {
        match &self.ran {
            Ran::Measured(figures) => Some(figures),
            _ => None,
        }
    }

    /// The same cell with another driver.
    #[must_use]
    pub fn is_twin(&self, other: &Row) -> bool {
        let parts = |row: &Row| {
            row.name.split('/').enumerate().filter(|(place, _)| *place != 1).map(|(_, part)| part.to_owned()).collect::<Vec<_>>()
        };
        parts(self) == parts(other)
    }
}

/// The file of one invocation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Marks it as one of these.
    pub format: String,
    /// Version of the format.
    pub version: u32,
    /// Start of the session, RFC 3339 in UTC.
    pub created: String,
    /// `publish` or `subscribe`.
    pub bench: String,
    /// The machine and the build.
    pub environment: Environment,
    /// What was measured against.
    pub targets: Vec<TargetFacts>,
    /// What a reader must know about all of it.
    pub warnings: Vec<String>,
    /// Whose subscriber receives what each driver publishes; `None` where each driver has its own.
    #[serde(default)]
    pub subscriber: Option<String>,
    /// False when it was interrupted.
    pub complete: bool,
    /// The cells in the order in which they ran.
    pub rows: Vec<Row>,
}

impl Record {
    /// An empty one of now.
    #[must_use]
    pub fn new(bench: &str, environment: Environment) -> Self {
        Self {
            format: PUBSUB_FORMAT.into(),
            version: 1,
            created: timestamp(std::time::SystemTime::now()),
            bench: bench.to_owned(),
            environment,
            targets: Vec::new(),
            warnings: Vec::new(),
            subscriber: (bench == "publish").then(|| SUBSCRIBER.name.to_owned()),
            complete: false,
            rows: Vec::new(),
        }
    }

    /// Writes it to `folder` under its time and as the newest, each whole or not at all; returns the former.
    ///
    /// # Errors
    /// The file system's.
    pub fn save(&self, folder: &Path) -> io::Result<PathBuf> {
        std::fs::create_dir_all(folder)?;
        let path = folder.join(format!("{}-{}.json", self.bench, self.created.replace(':', "")));
        for path in [&path, &folder.join(format!("{}.json", self.bench))] {
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            serde_json::to_writer_pretty(&mut file, self)?;
            file.write_all(b"\n")?;
            file.persist(path)?;
        }
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(driver: &str, ran: Ran) -> Row {
        Row { name: format!("publish-128B/{driver}/serial"), driver: driver.into(), client: "x 1".into(), ran }
    }

    #[test]
    fn only_the_last_runs_of_one_size_are_summed() {
        let run = |messages, elapsed_ns| Figures { messages, elapsed_ns, runs: 1, ..Figures::default() };
        let sum = Figures::sum(&[run(1, 900), run(10, 5_000), run(10, 1_000), run(10, 2_000)], 2).unwrap();
        assert_eq!((sum.messages, sum.elapsed_ns, sum.runs, sum.ns_per_message()), (20, 3_000, 2, 150.0));
        assert_eq!(Figures::sum(&[run(1, 900), run(10, 5_000)], 10).unwrap().messages, 10);
        assert_eq!(Figures::sum(&[], 10), None);
    }

    #[test]
    fn a_record_is_saved_twice_and_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut record = Record::new("publish", Environment::read());
        record.rows.push(row("raw", Ran::Verified));
        let path = record.save(folder.path()).unwrap();
        for path in [path, folder.path().join("publish.json")] {
            assert_eq!(serde_json::from_str::<Record>(&std::fs::read_to_string(path).unwrap()).unwrap(), record);
        }
    }
}
