//! From each kind of record to the common form, one file a kind. What can't be stood behind becomes a reason, never a figure.

mod bench;
mod comparison;
mod load;
mod publish;
mod pubsub;
mod scenarios;
mod subscribe;

use super::sheet::{Entry, Figure, LeftOut, Name, Sheet};
use crate::measure::{Environment, Machine};
use crate::record::AnyRecord;
use crate::target::TargetFacts;

impl Sheet {
    /// The common form of a record that was read from `path`.
    #[must_use]
    pub fn of(path: &str, record: &AnyRecord) -> Self {
        match record {
            AnyRecord::Bench(record) => bench::sheet(path, record),
            AnyRecord::BenchPubSub(record) => pubsub::sheet(path, record),
            AnyRecord::Load(record) => load::sheet(path, record),
            AnyRecord::Publish(record) => publish::sheet(path, record),
            AnyRecord::Subscribe(record) => subscribe::sheet(path, record),
            AnyRecord::Scenarios(record) => scenarios::sheet(path, record),
            AnyRecord::Comparison(record) => comparison::sheet(path, record),
        }
    }
}

/// What all records have.
struct Head<'a> {
    path: &'a str,
    created: &'a str,
    made_by: &'a str,
    complete: bool,
    environment: &'a Environment,
    targets: &'a [TargetFacts],
    warnings: &'a [String],
}

impl Head<'_> {
    fn sheet(self) -> Sheet {
        Sheet {
            record: self.path.to_owned(),
            created: self.created.to_owned(),
            made_by: self.made_by.to_owned(),
            complete: self.complete,
            machine: Machine::of(self.environment),
            environment: self.environment.clone(),
            targets: self.targets.to_vec(),
            warnings: self.warnings.to_vec(),
            entries: Vec::new(),
            left_out: Vec::new(),
        }
    }
}

impl Sheet {
    fn leave_out(&mut self, name: impl std::fmt::Display, reason: impl Into<String>) {
        self.left_out.push(LeftOut { name: name.to_string(), reason: reason.into(), unsupported: false });
    }

    fn unsupported(&mut self, name: impl std::fmt::Display, reason: &str) {
        self.left_out.push(LeftOut { name: name.to_string(), reason: reason.to_owned(), unsupported: true });
    }

    /// Adds a cell; one whose figures are no numbers is left out.
    fn push(&mut self, name: Name, client: (&str, &str), facts: Facts, figures: Vec<Option<Figure>>) {
        let figures: Vec<Figure> = figures.into_iter().flatten().collect();
        if figures.is_empty() {
            self.leave_out(name, "nothing was measured");
            return;
        }
        self.entries.push(Entry {
            lineage: name.to_string(),
            name,
            client: client.0.to_owned(),
            client_version: client.1.to_owned(),
            target: facts.target,
            workers: facts.workers,
            control: false,
            of_another_session: false,
            operations: facts.operations,
            marks: facts.marks,
            figures,
        });
    }
}

/// What an entry has beside its figures.
#[derive(Default)]
struct Facts {
    target: usize,
    workers: Option<usize>,
    operations: Vec<u64>,
    marks: Vec<String>,
}

/// `redis 1.8.1` as crate and version.
fn client(text: &str) -> (&str, &str) {
    text.rsplit_once(' ').unwrap_or((text, ""))
}

/// `k=v,…` as pairs; a word alone is the value of `usual`.
fn pairs(text: &str, usual: &str) -> Vec<(String, String)> {
    let pair = |part: &str| {
        let (key, value) = part.split_once('=').unwrap_or((usual, part));
        (key.to_owned(), value.to_owned())
    };
    text.split(',').filter(|part| !part.is_empty()).map(pair).collect()
}

/// A list of parameters that leaves out what is as usual.
#[derive(Default)]
struct Parameters(Vec<(String, String)>);

impl Parameters {
    fn always(&mut self, key: &str, value: impl std::fmt::Display) {
        self.0.push((key.to_owned(), value.to_string()));
    }

    fn differing(&mut self, key: &str, value: impl std::fmt::Display, usual: impl std::fmt::Display) {
        if value.to_string() != usual.to_string() {
            self.always(key, value);
        }
    }
}
