//! From what a user asks for to a dependency: a version of the registry, a folder, or a clone at a commit.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use super::clients::{Client, Release, release};
use super::{Refused, manifest};
use crate::worker::subject::{Origin, SubjectSpec};

/// A client that was found.
#[derive(Debug)]
pub struct Chosen {
    /// What our manifest asks for.
    pub dependency: Dependency,
    /// Its exact version, where that is known beforehand.
    pub version: Option<String>,
    /// The numbers of `version`.
    pub release: Option<Release>,
    /// Names the package beside the client's name.
    pub label: String,
    /// The folder that it comes from.
    pub folder: Option<PathBuf>,
    /// The commit of a clone.
    pub commit: Option<String>,
    /// Where it comes from, in words.
    pub told: String,
}

/// A dependency of the generated package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dependency {
    /// Exactly this version.
    Version(String),
    /// The package in this folder.
    Path(PathBuf),
}

/// Finds `client` at `origin`. A clone is copied into `workers`.
///
/// # Errors
/// [`Refused::Usage`] for what the user can mend.
pub fn resolve(spec: &SubjectSpec, client: &Client, origin: &Origin, workers: &Path) -> Result<Chosen, Refused> {
    let usage = |reason: String| Refused::Usage(format!("{spec}: {reason}"));
    match origin {
        Origin::Registry(version) => {
            let release = release(version).ok_or_else(|| usage(format!("{version:?} is no exact version; write it as in 1.8.1")))?;
            Ok(Chosen {
                dependency: Dependency::Version(version.clone()),
                version: Some(version.clone()),
                release: Some(release),
                label: version.clone(),
                folder: None,
                commit: None,
                told: "the registry".into(),
            })
        }
        Origin::Path(path) => {
            let folder = std::path::absolute(path).map_err(|error| usage(error.to_string()))?;
            let package = package(&folder, client.name).map_err(usage)?;
            Ok(Chosen { label: "path".into(), told: folder.display().to_string(), ..Chosen::at(package, folder) })
        }
        Origin::Git { folder, revision } => {
            let commit = git(folder, &["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{revision}^{{commit}}")]);
            let commit = commit.map_err(|error| match error {
                NoGit::Missing(error) => usage(format!("can't start git: {error}")),
                NoGit::Failed(_) if !folder.is_dir() => usage(format!("{} is no folder", folder.display())),
                NoGit::Failed(said) if said.is_empty() => usage(format!("{} has no revision {revision:?}", folder.display())),
                NoGit::Failed(said) => usage(format!("{} is no clone of a git repository: {said}", folder.display())),
            })?;
            let copy = checkout(folder, &commit, workers).map_err(Refused::Unbuildable)?;
            let package = package(&copy, client.name).map_err(usage)?;
            let label = format!("git-{}", &commit[..commit.len().min(12)]);
            let told = format!("{} at {revision}", folder.display());
            Ok(Chosen { label, told, commit: Some(commit), ..Chosen::at(package, copy) })
        }
    }
}

impl Chosen {
    fn at((package, version): (PathBuf, Option<String>), folder: PathBuf) -> Self {
        Self {
            dependency: Dependency::Path(package),
            release: version.as_deref().and_then(release),
            version,
            label: String::new(),
            folder: Some(folder),
            commit: None,
            told: String::new(),
        }
    }
}

/// The folder of the package `name` in `folder` and its version, if that is written there. `folder` is the package's own, or that
/// of a workspace with the package in it.
fn package(folder: &Path, name: &str) -> Result<(PathBuf, Option<String>), String> {
    let own = manifest::own(folder)?;
    if named(&own) == Some(name) {
        return Ok((folder.to_owned(), version(&own, folder)));
    }
    let members = own.get("workspace").and_then(|workspace| workspace.get("members")).and_then(toml::Value::as_array);
    let Some(members) = members else {
        let found = named(&own).map_or("no package".to_owned(), |found| format!("the package {found:?}"));
        return Err(format!("{} has {found}, where {name:?} was to be expected", folder.join("Cargo.toml").display()));
    };
    let mut folders: Vec<PathBuf> = Vec::new();
    for member in members.iter().filter_map(toml::Value::as_str) {
        match member.strip_suffix("/*").or((member == "*").then_some("")) {
            None => folders.push(folder.join(member)),
            Some(above) => folders.extend(fs::read_dir(folder.join(above)).into_iter().flatten().flatten().map(|entry| entry.path())),
        }
    }
    folders.sort();
    let found = folders.into_iter().find_map(|member| {
        let manifest = manifest::own(&member).ok()?;
        (named(&manifest) == Some(name)).then(|| (member.clone(), version(&manifest, &member)))
    });
    found.ok_or_else(|| format!("the workspace {} has no package {name:?}", folder.display()))
}

fn named(manifest: &toml::Table) -> Option<&str> {
    manifest.get("package")?.get("name")?.as_str()
}

/// The version that `manifest` states, maybe by way of its workspace.
fn version(manifest: &toml::Table, folder: &Path) -> Option<String> {
    let version = manifest.get("package")?.get("version")?;
    if let Some(version) = version.as_str() {
        return Some(version.to_owned());
    }
    folder.ancestors().find_map(|above| {
        let above = manifest::own(above).ok()?;
        Some(above.get("workspace")?.get("package")?.get("version")?.as_str()?.to_owned())
    })
}

enum NoGit {
    Missing(io::Error),
    Failed(String),
}

/// What git says of `folder`.
fn git(folder: &Path, arguments: &[&str]) -> Result<String, NoGit> {
    let output = Command::new("git").arg("-C").arg(folder).args(arguments).output().map_err(NoGit::Missing)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(NoGit::Failed(text(&output.stderr))) }
}

/// The files of `commit`, in a folder of their own: the clone itself is left as it is.
fn checkout(clone: &Path, commit: &str, workers: &Path) -> Result<PathBuf, String> {
    let copies = workers.join("clones");
    let copy = copies.join(commit);
    if copy.is_dir() {
        return Ok(copy);
    }
    fs::create_dir_all(&copies).map_err(|error| format!("can't make {}: {error}", copies.display()))?;
    let unfinished = tempfile::tempdir_in(&copies).map_err(|error| format!("can't write in {}: {error}", copies.display()))?;
    let failed = |error: NoGit| match error {
        NoGit::Missing(error) => format!("can't start git: {error}"),
        NoGit::Failed(said) => format!("can't check out {commit}: {said}"),
    };
    let clone = std::path::absolute(clone).map_err(|error| error.to_string())?;
    let files = unfinished.path().join("files");
    let (from, to) = (clone.to_string_lossy().into_owned(), files.to_string_lossy().into_owned());
    git(&copies, &["clone", "--quiet", "--shared", "--no-checkout", "--", &from, &to]).map_err(failed)?;
    git(&files, &["checkout", "--quiet", "--detach", commit]).map_err(failed)?;
    match fs::rename(&files, &copy) {
        Ok(()) => Ok(copy),
        // Somebody else was faster.
        Err(_) if copy.is_dir() => Ok(copy),
        Err(error) => Err(format!("can't make {}: {error}", copy.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, text: &str) {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("Cargo.toml"), text).unwrap();
    }

    #[test]
    fn a_package_is_found_by_itself_and_in_its_workspace() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert!(package(root, "redis").unwrap_err().contains("Cargo.toml"), "none is told");
        write(root, "[workspace]\nmembers = [\"redis\", \"crates/*\"]\n[workspace.package]\nversion = \"3.2.1\"\n");
        assert!(package(root, "redis").unwrap_err().contains("has no package \"redis\""));
        write(&root.join("redis"), "[package]\nname = \"redis\"\nversion = \"1.9.0-alpha.1\"\n");
        write(&root.join("crates/deep"), "[package]\nname = \"fred\"\nversion.workspace = true\n");
        assert_eq!(package(root, "redis"), Ok((root.join("redis"), Some("1.9.0-alpha.1".into()))));
        assert_eq!(package(root, "fred"), Ok((root.join("crates/deep"), Some("3.2.1".into()))));
        let direct = root.join("crates/deep");
        assert_eq!(package(&direct, "fred"), Ok((direct.clone(), Some("3.2.1".into()))));
        let other = package(&direct, "redis").unwrap_err();
        assert!(other.contains("the package \"fred\", where \"redis\""), "{other}");
        write(root, "= broken");
        assert!(package(root, "redis").unwrap_err().contains("Cargo.toml"));
    }

    #[test]
    fn a_revision_of_a_clone_is_copied_and_the_clone_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (clone, workers) = (folder.path().join("clone"), folder.path().join("workers"));
        let found = |text: &str| {
            let spec: SubjectSpec = text.parse().unwrap();
            let crate::worker::Source::Client(origin) = spec.source.clone() else { panic!("{text}") };
            let (client, _) = super::super::client_of("fred").unwrap();
            resolve(&spec, client, &origin, &workers)
        };
        let text = |revision: &str| format!("fred@git:{}#{revision}", clone.display());
        assert!(found(&text("HEAD")).unwrap_err().to_string().contains("is no folder"));
        write(&clone, "[package]\nname = \"fred\"\nversion = \"9.1.0\"\n");
        let git = |arguments: &[&str]| {
            let identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"];
            let done = Command::new("git").arg("-C").arg(&clone).args(identity).args(arguments).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        };
        git(&["init", "--quiet"]);
        git(&["add", "."]);
        git(&["commit", "--quiet", "-m", "one"]);
        git(&["tag", "old"]);
        write(&clone, "[package]\nname = \"fred\"\nversion = \"10.9.0\"\n");
        git(&["commit", "--quiet", "-am", "two"]);
        let old = found(&text("old")).unwrap();
        assert_eq!((old.version.as_deref(), old.release), (Some("9.1.0"), Some((9, 1, 0))));
        assert!(old.folder.unwrap().starts_with(&workers));
        assert_eq!(found(&text("HEAD")).unwrap().version.as_deref(), Some("10.9.0"));
        assert_eq!(found(&text("old")).unwrap().commit, old.commit, "also from the copy");
        assert!(fs::read_to_string(clone.join("Cargo.toml")).unwrap().contains("10.9.0"));
        assert!(found(&text("v7")).unwrap_err().to_string().contains("has no revision \"v7\""));
    }
}
