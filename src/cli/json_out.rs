//! A JSON file for results: its place is tried before the work, and it is written whole or not at all.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Failure;

/// A file that will be there when the work is done.
pub struct JsonOut {
    path: PathBuf,
    /// Beside `path`, until it takes its place.
    file: tempfile::NamedTempFile,
}

impl JsonOut {
    /// Tries whether `path` can be written, by opening a temporary file beside it.
    ///
    /// # Errors
    /// [`Failure::Usage`] with the reason.
    pub fn prepare(path: &Path) -> Result<Self, Failure> {
        let bad = |reason: String| Failure::Usage(format!("--json-out-file {}: {reason}", path.display()));
        if path.is_dir() {
            return Err(bad("it is a folder; name a file in it".into()));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            return Err(bad(format!("there is no folder {}; make it first", folder.display())));
        }
        let file = tempfile::NamedTempFile::new_in(folder).map_err(|error| bad(format!("it can't be written: {error}")))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Writes `value`, and takes the place of what was there.
    ///
    /// # Errors
    /// [`Failure::Measurement`] with the file system's reason.
    pub fn save(mut self, value: &impl Serialize) -> Result<(), Failure> {
        let path = self.path.display().to_string();
        let failed = |reason: String| Failure::Measurement(format!("the results could not be saved to {path}: {reason}"));
        serde_json::to_writer_pretty(std::io::BufWriter::new(&mut self.file), value).map_err(|error| failed(error.to_string()))?;
        self.file.write_all(b"\n").map_err(|error| failed(error.to_string()))?;
        self.file.persist(&self.path).map_err(|error| failed(error.to_string()))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_can_not_be_written_is_told_before_the_work() {
        let folder = tempfile::tempdir().unwrap();
        let told = |path: &Path| JsonOut::prepare(path).err().unwrap().to_string();
        assert!(told(folder.path()).contains("is a folder"));
        assert!(told(&folder.path().join("deep/file.json")).contains("there is no folder"));
        let path = folder.path().join("file.json");
        std::fs::write(&path, "old").unwrap();
        let prepared = JsonOut::prepare(&path).ok().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old", "nothing is lost before there is something new");
        prepared.save(&[1, 2]).unwrap();
        assert_eq!(serde_json::from_str::<Vec<u8>>(&std::fs::read_to_string(&path).unwrap()).unwrap(), [1, 2]);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "the temporary file is gone");
    }
}
