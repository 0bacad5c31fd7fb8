//! Programs of client versions that are not in this build.

use std::path::PathBuf;

use super::program::{Program, Refused};
use super::subject::{Origin, SubjectSpec};

/// How programs are built.
#[derive(Clone, Debug, Default)]
pub struct BuildOptions {
    /// Never ask the network.
    pub offline: bool,
    /// The sources of this crate, where they are not where this build was made.
    pub sources: Option<PathBuf>,
}

/// The program that runs `spec`'s client from `origin`.
///
/// # Errors
/// [`Refused`].
pub fn program(spec: &SubjectSpec, _: &Origin, _: &BuildOptions) -> Result<Program, Refused> {
    Err(Refused::Usage(format!("{spec}: this build can't build workers of other versions")))
}
