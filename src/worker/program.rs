//! How a subject becomes a program.

use std::ffi::OsString;
use std::path::PathBuf;

use super::subject::{Source, SubjectSpec};
use super::versions::{self, BuildOptions};

/// A worker program, ready to be started: it reads a request on its standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// What is started.
    pub path: PathBuf,
    /// Its arguments; never a password.
    pub arguments: Vec<OsString>,
    /// What the record is to tell of it, one printable line each: the lock file, the revision of a clone, the build log.
    pub notes: Vec<String>,
}

impl Program {
    /// A program without arguments.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), arguments: Vec::new(), notes: Vec::new() }
    }
}

/// Why there is no program for a subject.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The user's mistake, told with a hint before any work: no such version, a path without a Cargo.toml, no such file.
    #[error("{0}")]
    Usage(String),
    /// The client can't be built or does not fit; the other subjects go on. May have several lines, such as the compiler's.
    #[error("{0}")]
    Unbuildable(String),
}

/// The program for `spec`, built if it has to be.
///
/// # Errors
/// [`Refused`].
pub fn program_of(spec: &SubjectSpec, options: &BuildOptions) -> Result<Program, Refused> {
    match &spec.source {
        Source::Build => {
            let own = std::env::current_exe();
            let path = own.map_err(|error| Refused::Unbuildable(format!("can't find the program that runs: {error}")))?;
            Ok(Program { path, arguments: vec!["worker".into()], notes: Vec::new() })
        }
        Source::Worker(path) => worker(path).map(Program::at),
        Source::Client(origin) => versions::program(spec, origin, options),
    }
}

/// Looks for all that the program for `spec` needs, and builds nothing.
///
/// # Errors
/// [`Refused`].
pub fn check_program(spec: &SubjectSpec, options: &BuildOptions) -> Result<(), Refused> {
    match &spec.source {
        Source::Build => Ok(()),
        Source::Worker(path) => worker(path).map(|_| ()),
        Source::Client(origin) => versions::check(spec, origin, options),
    }
}

/// Whether `path` can be started, as far as that can be told.
fn worker(path: &PathBuf) -> Result<&PathBuf, Refused> {
    let usage = |reason: &str| Refused::Usage(format!("the worker {}: {reason}; see docs/WORKER.md", path.display()));
    let facts = std::fs::metadata(path).map_err(|error| usage(&error.to_string()))?;
    if !facts.is_file() {
        return Err(usage("it is not a file"));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if facts.permissions().mode() & 0o111 == 0 {
            return Err(usage("it is not executable (chmod +x)"));
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_of_this_build_is_this_program_and_a_worker_its_path() {
        let options = BuildOptions::default();
        let own = program_of(&"raw".parse().unwrap(), &options).unwrap();
        assert_eq!((own.path, own.arguments), (std::env::current_exe().unwrap(), vec!["worker".into()]));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("worker");
        let spec: SubjectSpec = format!("mine@worker:{}", path.display()).parse().unwrap();
        let told = || program_of(&spec, &options).unwrap_err().to_string();
        assert!(told().contains("No such file") && told().contains("docs/WORKER.md"), "{}", told());
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert!(told().contains("chmod +x"));
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        assert_eq!(program_of(&spec, &options), Ok(Program::at(path)));
    }
}
