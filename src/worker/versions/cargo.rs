//! Has Cargo build a package, once, and tells what it said when it could not.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::{LOG, PROGRAM, Refused, unreadable};
use crate::worker::protocol::PASSWORD;
use crate::worker::subject::SubjectSpec;

/// Says that the lock file beside it is whole.
const RESOLVED: &str = ".resolved";
/// Lines of the compiler's words that are shown; all of them are in the log.
const SHOWN: usize = 40;

/// A package to be built.
#[derive(Debug)]
pub struct Order<'a> {
    /// Who asks.
    pub spec: &'a SubjectSpec,
    /// The client crate.
    pub client: &'a str,
    /// Its version, where that is known.
    pub version: Option<&'a str>,
    /// Name of the program.
    pub program: &'a str,
    /// The package's folder.
    pub package: &'a Path,
    /// The text of its manifest.
    pub manifest: &'a str,
    /// Our sources, whose lock file is the beginning of its.
    pub sources: &'a Path,
    /// Where Cargo builds; shared by all packages.
    pub target: &'a Path,
    /// Never ask the network.
    pub offline: bool,
    /// Let Cargo look again at a program that is there.
    pub always: bool,
}

fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Build scripts of other crates run in it, and nothing that they print may hold a password.
    for variable in ["REDIS_URL", "REDISCLI_AUTH", PASSWORD] {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null());
    command
}

fn started(result: io::Result<Output>) -> Result<Output, Refused> {
    result.map_err(|error| Refused::Unbuildable(format!("can't start cargo, which builds workers of other versions: {error}")))
}

/// What decides beside the sources what comes out: the toolchain and the flags of the environment.
pub fn toolchain() -> Result<String, Refused> {
    let output = started(cargo().args(["-vV"]).output())?;
    let flags = ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC"].map(|name| std::env::var(name).unwrap_or_default());
    let rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())).arg("-vV").output();
    let rustc = rustc.map_err(|error| Refused::Unbuildable(format!("can't start rustc: {error}")))?;
    Ok(format!("{}{}{flags:?}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&rustc.stdout)))
}

/// Builds the program, unless it is there, and gives the exact version of the client in it, as its lock file has it.
///
/// # Errors
/// [`Refused::Usage`] for a version that the registry does not have, [`Refused::Unbuildable`] with the compiler's words.
pub fn build(order: &Order<'_>) -> Result<String, Refused> {
    let Order { spec, package, .. } = order;
    let program = package.join(PROGRAM);
    let lock = package.join("Cargo.lock");
    if program.is_file() && !order.always {
        return locked(&lock, order);
    }
    resolve(order)?;
    if !program.is_file() {
        tell!("building {spec} in {}", package.display());
    }
    compile(order)?;
    let version = locked(&lock, order)?;
    // The name is this package's alone, so that nobody else's build can have taken its place.
    let built = order.target.join("release").join(format!("{}{}", order.program, std::env::consts::EXE_SUFFIX));
    let copy = package.join(format!("{PROGRAM}.new"));
    let placed = fs::copy(&built, &copy).and_then(|_| fs::rename(&copy, &program));
    placed.map_err(|error| failed(format!("can't copy {} to {}: {error}", built.display(), program.display())))?;
    Ok(version)
}

fn failed(reason: impl Into<String>) -> Refused {
    Refused::Unbuildable(reason.into())
}

/// Writes the package and chooses the version of every crate, which is all that the registry is asked. Once.
///
/// # Errors
/// As [`build`].
pub fn resolve(order: &Order<'_>) -> Result<(), Refused> {
    let package = order.package;
    let write =
        |path: &Path, text: &[u8]| fs::write(path, text).map_err(|error| failed(format!("can't write {}: {error}", path.display())));
    let (manifest, lock, resolved) = (package.join("Cargo.toml"), package.join("Cargo.lock"), package.join(RESOLVED));
    if resolved.is_file() && lock.is_file() && !order.always {
        return Ok(());
    }
    fs::create_dir_all(package).map_err(|error| failed(format!("can't make {}: {error}", package.display())))?;
    write(&manifest, order.manifest.as_bytes())?;
    if !lock.is_file() {
        // The crates that both have are of the same version; Cargo changes what does not fit.
        let own = order.sources.join("Cargo.lock");
        match fs::read(&own) {
            Ok(text) => write(&lock, &text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unreadable(&own, &error)),
        }
    }
    let mut command = cargo();
    // Unlike generate-lockfile this keeps what fits.
    command.args(["metadata", "--format-version=1", "--quiet", "--manifest-path"]).arg(&manifest);
    if order.offline {
        command.arg("--offline");
    }
    let output = started(command.output())?;
    if output.status.success() {
        return write(&resolved, b"");
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // Nothing of it is of use.
    let _ = fs::remove_dir_all(package);
    let missing = said.contains(&format!("for the requirement `{} = ", order.client)) || said.contains("no matching package");
    let answer = answer(&said);
    match (missing, order.offline) {
        (true, false) => Err(Refused::Usage(format!("{}: there is no such version: {answer}", order.spec))),
        (true, true) => Err(failed(format!("it is not on this machine, and --offline forbids to ask the registry: {answer}"))),
        (false, _) => Err(failed(format!("Cargo can't find what it needs: {answer}"))),
    }
}

/// The registry's answer without the lines that speak of our package.
fn answer(said: &str) -> String {
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let ours = ["required by package", "location searched", "perhaps a crate was updated", "if you are looking for the prerelease"];
    let kept = lines.filter(|line| !ours.iter().any(|start| line.starts_with(start)) && !line.contains(" = { version = "));
    kept.map(|line| line.strip_prefix("error: ").unwrap_or(line)).collect::<Vec<_>>().join("; ")
}

fn compile(order: &Order<'_>) -> Result<(), Refused> {
    let log = order.package.join(LOG);
    let unwritten = |error: io::Error| failed(format!("can't write {}: {error}", log.display()));
    let file = File::create(&log).map_err(unwritten)?;
    let mut command = cargo();
    command.args(["build", "--release", "--locked", "--color=never", "--bin", order.program, "--manifest-path"]);
    command.arg(order.package.join("Cargo.toml")).arg("--target-dir").arg(order.target);
    if order.offline {
        command.arg("--offline");
    }
    command.stdout(file.try_clone().map_err(unwritten)?).stderr(file);
    let output = started(command.output())?;
    if output.status.success() {
        return Ok(());
    }
    let said = fs::read(&log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    Err(failed(format!("it can't be built; all of it is in {}:\n{}", log.display(), words(&said))))
}

/// The first of what the compiler complains about.
fn words(said: &str) -> String {
    let from = said.lines().position(|line| line.starts_with("error")).unwrap_or(0);
    said.lines().skip(from).take(SHOWN).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

/// The client's version in the lock file, which must be the one that was asked for.
fn locked(lock: &Path, order: &Order<'_>) -> Result<String, Refused> {
    let text = fs::read_to_string(lock).map_err(|error| unreadable(lock, &error))?;
    let found = version_in(&text, order.client, order.version);
    found.map_err(|found| failed(format!("its lock file {} has {found}", lock.display())))
}

fn version_in(lock: &str, client: &str, wanted: Option<&str>) -> Result<String, String> {
    let lock: toml::Table = lock.parse().map_err(|error: toml::de::Error| format!("no packages: {}", error.message()))?;
    let packages = lock.get("package").and_then(toml::Value::as_array).into_iter().flatten();
    let named = packages.filter(|package| package.get("name").and_then(toml::Value::as_str) == Some(client));
    let versions: Vec<_> = named.filter_map(|package| package.get("version").and_then(toml::Value::as_str)).collect();
    match (versions.as_slice(), wanted) {
        // Metadata of a build is no part of what was asked for.
        ([version], Some(wanted)) if version.split('+').next() == wanted.split('+').next() => Ok((*version).to_owned()),
        ([version], None) => Ok((*version).to_owned()),
        ([], _) => Err(format!("no {client}")),
        (several, _) => Err(format!("{client} at {}", several.join(" and "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registrys_answer_is_told_once_and_without_our_package() {
        let said = "    Updating crates.io index\nerror: failed to select a version for the requirement `redis = \"=9.9.9\"`\ncandidate versions found which didn't match: 2.0.0-rc.2, 1.8.1, ...\nlocation searched: crates.io index\nrequired by package `redis-client-bench v0.1.0 (/x)`\nif you are looking for the prerelease package it needs to be specified explicitly\n    redis = { version = \"2.0.0-rc.2\" }\n";
        let told = answer(said.trim_start_matches("    Updating crates.io index\n"));
        assert_eq!(
            told,
            "failed to select a version for the requirement `redis = \"=9.9.9\"`; candidate versions found which didn't match: 2.0.0-rc.2, 1.8.1, ..."
        );
    }

    #[test]
    fn the_compilers_first_words_are_shown() {
        let said = "   Compiling a v1\nwarning: x\nerror[E0599]: no method\n --> a.rs\n\nerror: could not compile";
        assert_eq!(words(said), "error[E0599]: no method\n --> a.rs\n\nerror: could not compile");
        assert_eq!(words(&format!("error: x\n{}", "y\n".repeat(100))).lines().count(), SHOWN);
    }

    #[test]
    fn another_version_in_the_lock_file_is_refused() {
        let lock = "[[package]]\nname = \"redis\"\nversion = \"1.8.1\"\n[[package]]\nname = \"fred\"\nversion = \"9.4.0\"\n";
        assert_eq!(version_in(lock, "redis", Some("1.8.1")), Ok("1.8.1".into()));
        assert_eq!(version_in(lock, "fred", None), Ok("9.4.0".into()));
        assert!(version_in(lock, "redis", Some("1.8.0")).unwrap_err().contains("1.8.1"));
        assert!(version_in(lock, "rustis", None).is_err());
        let two = format!("{lock}[[package]]\nname = \"redis\"\nversion = \"0.32.7\"\n");
        assert!(version_in(&two, "redis", Some("1.8.1")).unwrap_err().contains("1.8.1 and 0.32.7"));
    }
}
