//! Programs of client versions that are not in this build.
//!
//! Cargo can't hold two releases of one semver line in one program, so each version gets a program of its own: a generated package
//! that compiles this crate's own sources with exactly that client (`manifest`), in a folder named after the client, its version
//! and the hash of all that goes into it (`content`). So nothing is built twice, and a changed source is never taken for the one
//! that was built. Cargo.lock, build log and program stay in that folder.

mod cargo;
mod clients;
mod content;
mod manifest;
mod origin;

use std::path::{Path, PathBuf};

use self::clients::{Client, client_of};
use self::content::Content;
use self::manifest::Pins;
use self::origin::Chosen;
use super::program::{Program, Refused};
use super::subject::{Origin, SubjectSpec};

/// Where generated packages go, instead of `rcb-workers` in the target folder.
const FOLDER: &str = "RCB_WORKERS";
/// The program in the folder of its package.
const PROGRAM: &str = "rcb-worker";
/// What Cargo said while it built the program.
const LOG: &str = "build.log";

/// How programs are built.
#[derive(Clone, Debug, Default)]
pub struct BuildOptions {
    /// Never ask the network.
    pub offline: bool,
    /// The sources of this crate, where they are not where this build was made.
    pub sources: Option<PathBuf>,
}

/// The driver that is to run `spec`, and the client crate that it belongs to. `settings` of a subject may name another driver of
/// the same client.
///
/// # Errors
/// [`Refused::Usage`] for a client that no driver knows.
pub fn driver_of(spec: &SubjectSpec) -> Result<&'static str, Refused> {
    Ok(choose(spec)?.1)
}

fn choose(spec: &SubjectSpec) -> Result<(&'static Client, &'static str), Refused> {
    let (client, driver) = client_of(&spec.name).ok_or_else(|| {
        Refused::Usage(format!("{spec}: there is no worker for {:?}; clients at other versions: {}", spec.name, clients::names()))
    })?;
    let Some(asked) = spec.settings.get(super::settings::DRIVER) else { return Ok((client, driver)) };
    let known = client.drivers.iter().copied().find(|known| known == asked);
    let driver = known
        .ok_or_else(|| Refused::Usage(format!("{spec}: {} has no driver {asked:?}; it has {}", client.name, client.drivers.join(", "))))?;
    Ok((client, driver))
}

/// Looks for `spec`'s client at `origin`, and asks the registry for what it needs. Builds nothing, so that a mistake is told
/// before anything else is done.
///
/// # Errors
/// [`Refused`].
pub fn check(spec: &SubjectSpec, origin: &Origin, options: &BuildOptions) -> Result<(), Refused> {
    cargo::resolve(&Package::of(spec, origin, options)?.order(spec, options))
}

/// The program that runs `spec`'s client from `origin`.
///
/// # Errors
/// [`Refused`].
pub fn program(spec: &SubjectSpec, origin: &Origin, options: &BuildOptions) -> Result<Program, Refused> {
    let package = Package::of(spec, origin, options)?;
    let version = cargo::build(&package.order(spec, options))?;
    let Package { client, chosen, folder, .. } = package;
    let mut notes = vec![format!("{} {version} from {}", client.name, chosen.told)];
    notes.extend(chosen.commit.map(|commit| format!("commit {commit}")));
    notes.push(format!("lock file {}", folder.join("Cargo.lock").display()));
    notes.push(format!("build log {}", folder.join(LOG).display()));
    Ok(Program { path: folder.join(PROGRAM), arguments: Vec::new(), notes })
}

/// A package that may be generated.
struct Package {
    client: &'static Client,
    chosen: Chosen,
    sources: PathBuf,
    program: String,
    folder: PathBuf,
    target: PathBuf,
    manifest: String,
}

impl Package {
    fn of(spec: &SubjectSpec, origin: &Origin, options: &BuildOptions) -> Result<Self, Refused> {
        let (client, _) = choose(spec)?;
        let workers = workers();
        let sources = sources(options)?;
        let chosen = origin::resolve(spec, client, origin, &workers)?;
        let release = chosen.release;
        if let Some(reason) = release.and_then(|release| client.refuses(release)) {
            return Err(Refused::Usage(format!("{spec}: {reason}")));
        }
        let pins = Pins { client, dependency: &chosen.dependency, release, tls: cfg!(feature = "tls"), nodelay: nodelay(spec) };
        let mut content = Content::of_sources(&sources)?;
        content.add(cargo::toolchain()?.as_bytes());
        content.add(manifest::text(&sources, &pins, "")?.as_bytes());
        if let Some(folder) = &chosen.folder {
            content.add_folder(folder).map_err(|error| unreadable(folder, &error))?;
        }
        let name = format!("{}-{}-{}", client.name, chosen.label, content.hash());
        // A program's name is that of a crate, too.
        let program = name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
        let manifest = manifest::text(&sources, &pins, &program)?;
        Ok(Self { client, folder: workers.join(&name), target: workers.join("target"), chosen, sources, program, manifest })
    }

    fn order<'a>(&'a self, spec: &'a SubjectSpec, options: &BuildOptions) -> cargo::Order<'a> {
        cargo::Order {
            spec,
            client: self.client.name,
            version: self.chosen.version.as_deref(),
            program: &self.program,
            package: &self.folder,
            manifest: &self.manifest,
            sources: &self.sources,
            target: &self.target,
            offline: options.offline,
            // What a path leads to may lie outside of the folder that was read.
            always: self.chosen.folder.is_some() && self.chosen.commit.is_none(),
        }
    }
}

/// Whether TCP_NODELAY is to be on in a client in which only its build decides.
fn nodelay(spec: &SubjectSpec) -> bool {
    match spec.settings.get("nodelay") {
        Some(set) => set != "off",
        None => spec.settings.get("profile").is_none_or(|profile| profile != "default"),
    }
}

/// The folder of all generated packages.
fn workers() -> PathBuf {
    let set = |variable| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set(FOLDER).unwrap_or_else(|| set("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()).join("rcb-workers"));
    // Cargo and the workers are started with paths, which must not depend on where.
    std::path::absolute(&folder).unwrap_or(folder)
}

/// The sources of this very version.
fn sources(options: &BuildOptions) -> Result<PathBuf, Refused> {
    let folder = options.sources.clone().unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let usage = |reason: &str| {
        let own = env!("CARGO_PKG_VERSION");
        Refused::Usage(format!("{}: {reason}; --sources names a folder with the sources of redis-client-bench {own}", folder.display()))
    };
    let manifest = manifest::own(&folder).map_err(|reason| usage(&reason))?;
    let package = |key: &str| manifest.get("package").and_then(|package| package.get(key)).and_then(toml::Value::as_str);
    if package("name") != Some(env!("CARGO_PKG_NAME")) || package("version") != Some(env!("CARGO_PKG_VERSION")) {
        return Err(usage("these are not the sources of this version"));
    }
    std::path::absolute(&folder).map_err(|error| usage(&error.to_string()))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Refused {
    Refused::Unbuildable(format!("can't read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests;
