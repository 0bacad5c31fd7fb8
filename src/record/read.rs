//! Reading a record of any kind, and what is said of one that can't be read.

use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::comparison::{COMPARISON_FORMAT, ComparisonRecord};
use super::load::{LOAD_FORMAT, LOAD_VERSION, LoadRecord};
use super::publish::{PUBLISH_FORMAT, PublishRecord};
use super::pubsub::{self, PUBSUB_FORMAT};
use super::scenarios::{SCENARIOS_FORMAT, SCENARIOS_VERSION, ScenariosRecord};
use super::subscribe::{SUBSCRIBE_FORMAT, SubscribeRecord};
use super::{FORMAT, Record, VERSION};

/// The version of the formats that had but one so far.
const FIRST: u32 = 1;

/// A file that is no record of ours, or one that this version can't read.
#[derive(Debug, thiserror::Error)]
pub enum BadRecord {
    /// It can't be read.
    #[error("can't read the record {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is JSON of another form, or not JSON.
    #[error("{path} is not a record of this tool: {reason}")]
    Form {
        /// The file.
        path: PathBuf,
        /// What and where.
        reason: String,
    },
    /// It was written by a later version.
    #[error("{path} has version {found} in its field `version`, this build reads up to {known}; use a newer rcb")]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest that can be read.
        known: u32,
    },
}

/// A record of one of the kinds that this tool writes.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyRecord {
    /// Of the benches `pipeline_window`, `commands` and `client_cache`.
    Bench(Box<Record>),
    /// Of the benches `publish` and `subscribe`.
    BenchPubSub(Box<pubsub::Record>),
    /// Of `rcb load`.
    Load(Box<LoadRecord>),
    /// Of `rcb publish`.
    Publish(Box<PublishRecord>),
    /// Of `rcb subscribe`.
    Subscribe(Box<SubscribeRecord>),
    /// Of `rcb cache`: verdicts, and no figures.
    Scenarios(Box<ScenariosRecord>),
    /// Of `rcb compare`.
    Comparison(Box<ComparisonRecord>),
}

impl AnyRecord {
    /// Reads a record, of whatever kind.
    ///
    /// # Errors
    /// [`BadRecord`], which names the file, and the field and line that are wrong.
    pub fn load(path: &Path) -> Result<Self, BadRecord> {
        let text = text(path)?;
        Self::parse(path, &text)
    }

    /// The same of a file's text.
    ///
    /// # Errors
    /// [`BadRecord`].
    pub fn parse(path: &Path, text: &[u8]) -> Result<Self, BadRecord> {
        let Head { format, version } = head(path, text)?;
        match format.as_str() {
            FORMAT => body(path, text, version, VERSION).map(Box::new).map(Self::Bench),
            PUBSUB_FORMAT => body(path, text, version, FIRST).map(Box::new).map(Self::BenchPubSub),
            LOAD_FORMAT => body(path, text, version, LOAD_VERSION).map(Box::new).map(Self::Load),
            PUBLISH_FORMAT => body(path, text, version, FIRST).map(Box::new).map(Self::Publish),
            SUBSCRIBE_FORMAT => body(path, text, version, FIRST).map(Box::new).map(Self::Subscribe),
            SCENARIOS_FORMAT => body(path, text, version, SCENARIOS_VERSION).map(Box::new).map(Self::Scenarios),
            COMPARISON_FORMAT => ComparisonRecord::parse(path, text).map(Box::new).map(Self::Comparison),
            other => {
                Err(BadRecord::Form { path: path.to_owned(), reason: format!("its field `format` is {other:?}, which is none of ours") })
            }
        }
    }
}

/// What every record begins with.
#[derive(Deserialize)]
pub(super) struct Head {
    pub format: String,
    pub version: u32,
}

/// The bytes of a file.
pub(super) fn text(path: &Path) -> Result<Vec<u8>, BadRecord> {
    std::fs::read(path).map_err(|source| BadRecord::Io { path: path.to_owned(), source })
}

/// Format and version.
pub(super) fn head(path: &Path, text: &[u8]) -> Result<Head, BadRecord> {
    located(path, text)
}

/// The record itself, whose version must be one of those up to `known`.
pub(super) fn body<T: DeserializeOwned>(path: &Path, text: &[u8], found: u32, known: u32) -> Result<T, BadRecord> {
    if found > known {
        return Err(BadRecord::Newer { path: path.to_owned(), found, known });
    }
    if found == 0 {
        return Err(BadRecord::Form { path: path.to_owned(), reason: "its field `version` is 0, and versions begin with 1".into() });
    }
    located(path, text)
}

/// Parses JSON; what is wrong is told with its field and line.
fn located<T: DeserializeOwned>(path: &Path, text: &[u8]) -> Result<T, BadRecord> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let wrong = |reason: String| BadRecord::Form { path: path.to_owned(), reason };
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let field = error.path().to_string();
        if field == "." { wrong(error.inner().to_string()) } else { wrong(format!("field `{field}`: {}", error.inner())) }
    })?;
    json.end().map_err(|error| wrong(error.to_string()))?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Environment;

    fn told(text: &str) -> String {
        AnyRecord::parse(Path::new("x.json"), text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_wrong_record_is_told_with_its_field_and_line() {
        let record = serde_json::to_string_pretty(&Record::new("bench x", Environment::read())).unwrap();
        assert!(matches!(AnyRecord::parse(Path::new("x"), record.as_bytes()), Ok(AnyRecord::Bench(_))));
        let wrong = record.replace("\"cores\": ", "\"cores\": -");
        let line = wrong.lines().position(|line| line.contains("\"cores\"")).unwrap() + 1;
        let text = told(&wrong);
        assert!(text.contains("x.json") && text.contains("`environment.cores`") && text.contains(&format!("line {line} ")), "{text}");
        let missing = told(&record.replace("\"rows\"", "\"other\""));
        assert!(missing.contains("missing field `rows`") && missing.contains("line "), "{missing}");
        let cut = told(&record[..record.len() / 2]);
        assert!(cut.contains("line "), "{cut}");
        assert!(told(&format!("{record}x")).contains("trailing characters"));
    }

    #[test]
    fn other_formats_and_newer_versions_are_refused() {
        assert!(told("").contains("EOF") && told("[]").contains("line 1"));
        assert!(told(r#"{"format": "redis-client-bench/other", "version": 1}"#).contains("redis-client-bench/other"));
        for format in [FORMAT, LOAD_FORMAT, PUBSUB_FORMAT, PUBLISH_FORMAT, SUBSCRIBE_FORMAT, SCENARIOS_FORMAT, COMPARISON_FORMAT] {
            let newer = told(&format!("{{\"format\": {format:?}, \"version\": 2}}"));
            assert!(newer.contains("version 2") && newer.contains("newer rcb"), "{newer}");
            assert!(told(&format!("{{\"format\": {format:?}, \"version\": 0}}")).contains("version"));
        }
    }
}
