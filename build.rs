//! Reads the exact versions of our dependencies from the lock file of this build, so that no version
//! is ever typed by hand.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The lock file: that of the workspace whose target folder we build in, else our own.
fn lock_file() -> Option<PathBuf> {
    let out = PathBuf::from(env::var_os("OUT_DIR")?);
    let own = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?);
    let above = |start: &Path| start.ancestors().map(|folder| folder.join("Cargo.lock")).find(|path| path.is_file());
    // A path or workspace build has its lock file above the manifest; a build from the registry has it above the target folder.
    above(&own).or_else(|| above(&out))
}

fn versions(lock: &toml::Table) -> Option<HashMap<String, String>> {
    let packages = lock.get("package")?.as_array()?;
    let name = |package: &toml::Value| package.get("name").and_then(toml::Value::as_str).map(str::to_owned);
    let version = |package: &toml::Value| package.get("version").and_then(toml::Value::as_str).map(str::to_owned);
    let own = env::var("CARGO_PKG_NAME").ok()?;
    let this = packages.iter().find(|package| name(package).as_deref() == Some(&own))?;
    let mut found = HashMap::from([(own, env::var("CARGO_PKG_VERSION").ok()?)]);
    for dependency in this.get("dependencies")?.as_array()? {
        // "name", or "name version" where the lock file holds several versions of it.
        let mut words = dependency.as_str()?.split(' ');
        let crate_name = words.next()?.to_owned();
        let exact = match words.next() {
            Some(version) => version.to_owned(),
            None => packages.iter().find(|package| name(package).as_ref() == Some(&crate_name)).and_then(version)?,
        };
        found.insert(crate_name, exact);
    }
    Some(found)
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let mut found = HashMap::new();
    if let Some(path) = lock_file() {
        println!("cargo::rerun-if-changed={}", path.display());
        let lock = fs::read_to_string(&path).ok().and_then(|text| text.parse::<toml::Table>().ok());
        found = lock.as_ref().and_then(versions).unwrap_or_default();
    }
    let mut list: Vec<_> = found.into_iter().collect();
    list.sort();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("versions.rs");
    fs::write(out, format!("&{list:?}")).expect("the build folder is writable");

    let command = |program: &str, args: &[&str]| {
        let output = std::process::Command::new(program).args(args).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let rustc = command(&env::var("RUSTC").unwrap_or_else(|_| "rustc".into()), &["--version"]).unwrap_or_default();
    println!("cargo::rustc-env=RCB_RUSTC={rustc}");
    println!("cargo::rustc-env=RCB_TARGET={}", env::var("TARGET").unwrap_or_default());
}
