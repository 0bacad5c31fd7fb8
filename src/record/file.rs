//! The record's file: JSON, written whole or not at all.

use std::io::{self, Write};
use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{BadRecord, Outcome, Row, read};
use crate::measure::Environment;
use crate::target::TargetFacts;

/// Marks a file as ours.
pub const FORMAT: &str = "redis-client-bench/record";
/// Version of the format; a reader refuses a newer one.
pub const VERSION: u32 = 1;

/// Measurements with their environment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// Start of the session, RFC 3339 in UTC.
    pub created: String,
    /// What made it: `bench pipeline_window`, …
    pub made_by: String,
    /// The machine, the build and how busy it was.
    pub environment: Environment,
    /// What was measured against.
    pub targets: Vec<TargetFacts>,
    /// What a reader must know about all of it.
    pub warnings: Vec<String>,
    /// False while the session runs, and when it was interrupted.
    pub complete: bool,
    /// The cells in the order in which they ran.
    pub rows: Vec<Row>,
}

impl Record {
    /// An empty record of now.
    #[must_use]
    pub fn new(made_by: &str, environment: Environment) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            created: timestamp(SystemTime::now()),
            made_by: made_by.to_owned(),
            environment,
            targets: Vec::new(),
            warnings: Vec::new(),
            complete: false,
            rows: Vec::new(),
        }
    }

    /// The rows that failed.
    pub fn failures(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| matches!(row.outcome, Outcome::Failed { .. }))
    }

    /// Writes to `path`, by way of a temporary file beside it, so that no half-written record is ever seen.
    ///
    /// # Errors
    /// The file system's.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer_pretty(&mut file, self)?;
        file.write_all(b"\n")?;
        file.persist(path)?;
        Ok(())
    }

    /// Reads a record.
    ///
    /// # Errors
    /// [`BadRecord`], which names the file and what is wrong where.
    pub fn load(path: &Path) -> Result<Self, BadRecord> {
        let text = read::text(path)?;
        let found = read::head(path, &text)?;
        if found.format != FORMAT {
            return Err(BadRecord::Form { path: path.to_owned(), reason: format!("its format is {:?}", found.format) });
        }
        read::body(path, &text, found.version, VERSION)
    }
}

/// RFC 3339 in UTC, to the second.
#[must_use]
pub fn timestamp(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_as_it_was_saved() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/record.json");
        let record = Record::new("test", Environment::read());
        record.save(&path).unwrap();
        assert_eq!(Record::load(&path).unwrap(), record);
    }

    #[test]
    fn what_is_no_record_is_refused_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.json");
        let load = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Record::load(&path).unwrap_err().to_string()
        };
        assert!(load("{").contains("line 1"));
        assert!(load(r#"{"format":"other","version":1}"#).contains("\"other\""));
        assert!(load(&format!(r#"{{"format":"{FORMAT}","version":99}}"#)).contains("version 99"));
        assert!(load(&format!(r#"{{"format":"{FORMAT}","version":1}}"#)).contains("missing field"));
    }
}
