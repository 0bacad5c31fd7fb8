//! Reads the exact versions of our dependencies from the lock file of this build, so that no version
//! is ever typed by hand.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Lock files that may be this build's, the likeliest first.
fn lock_files() -> Vec<PathBuf> {
    let folder = |variable| env::var_os(variable).map(PathBuf::from).unwrap_or_default();
    let own = folder("CARGO_MANIFEST_DIR");
    // It lies in the target folder of some other build.
    if generated() {
        return vec![own.join("Cargo.lock")];
    }
    let above = |start: &Path| start.ancestors().map(|folder| folder.join("Cargo.lock")).find(|path| path.is_file());
    // Whoever builds us has the lock file above the target folder, if that is in its usual place.
    let mut found: Vec<PathBuf> = above(&folder("OUT_DIR")).into_iter().collect();
    // Else it is our own workspace, unless we are a dependency that was fetched: its lock file says nothing of this build.
    let fetched = own.components().any(|part| part.as_os_str() == "registry" || part.as_os_str() == "checkouts");
    if !fetched {
        found.extend(above(&own));
    }
    found
}

/// Whether this is the package of a worker, which `rcb compare` generates.
fn generated() -> bool {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("Cargo.toml");
    let manifest = fs::read_to_string(manifest).ok().and_then(|text| text.parse::<toml::Table>().ok());
    let mark = |manifest: toml::Table| manifest.get("package")?.get("metadata")?.get("rcb-worker")?.as_bool();
    manifest.and_then(mark) == Some(true)
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

/// Lines of a client's releases whose API differs where its driver uses it: the first release of each, oldest first, and the
/// line's name. A driver's `api/v*.rs` is chosen by it.
type Lines = &'static [((u64, u64), &'static str)];

/// The cfg, the client, its lines, and the one that our own manifest asks for.
const LINES: &[(&str, &str, Lines, &str)] = &[
    (
        "redis_line",
        "redis",
        &[((0, 0), "0.25"), ((0, 26), "0.26"), ((0, 28), "0.28"), ((0, 29), "0.29"), ((0, 32), "0.32"), ((1, 0), "1"), ((2, 0), "2")],
        "1",
    ),
    ("fred_line", "fred", &[((0, 0), "9"), ((10, 0), "10")], "10"),
];

/// Tells the drivers which line of their client this build has.
fn choose_lines(versions: &HashMap<String, String>) {
    for (cfg, client, lines, usual) in LINES {
        let names: Vec<_> = lines.iter().map(|(_, name)| format!("{name:?}")).collect();
        println!("cargo::rustc-check-cfg=cfg({cfg}, values({}))", names.join(", "));
        let release = versions.get(*client).and_then(|version| {
            let mut parts = version.split('.');
            Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
        });
        let line = release.and_then(|release| lines.iter().rev().find(|(first, _)| *first <= release)).map_or(*usual, |(_, name)| name);
        println!("cargo::rustc-cfg={cfg}={line:?}");
    }
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let mut found = HashMap::new();
    for path in lock_files() {
        println!("cargo::rerun-if-changed={}", path.display());
        let lock = fs::read_to_string(&path).ok().and_then(|text| text.parse::<toml::Table>().ok());
        // One that does not know us belongs to something else.
        if let Some(versions) = lock.as_ref().and_then(versions) {
            found = versions;
            break;
        }
    }
    choose_lines(&found);
    println!("cargo::rustc-check-cfg=cfg(rcb_worker)");
    if generated() {
        println!("cargo::rustc-cfg=rcb_worker");
    }
    // Turned on by generated workers of clients in which only a feature of theirs decides of TCP_NODELAY.
    println!("cargo::rustc-check-cfg=cfg(feature, values(\"tcp-nodelay\"))");
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
