//! The manifest of a generated package: ours, with one client in the place of all.

use std::fs;
use std::path::Path;

use toml::{Table, Value};

use super::Refused;
use super::clients::{Client, Release};
use super::origin::Dependency;

/// What the program is to be built with.
#[derive(Debug)]
pub struct Pins<'a> {
    /// The client.
    pub client: &'static Client,
    /// Where it comes from.
    pub dependency: &'a Dependency,
    /// The numbers of its version, where they are known.
    pub release: Option<Release>,
    /// With `rediss://`.
    pub tls: bool,
    /// With TCP_NODELAY, where only a feature of the client decides that.
    pub nodelay: bool,
}

/// Ours, or any other: the Cargo.toml in `folder`, read.
///
/// # Errors
/// What is wrong with it, in words.
pub fn own(folder: &Path) -> Result<Table, String> {
    let path = folder.join("Cargo.toml");
    let text = fs::read_to_string(&path).map_err(|error| format!("can't read {}: {error}", path.display()))?;
    text.parse::<Table>().map_err(|error| format!("{} is no manifest: {}", path.display(), error.message()))
}

fn table<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Table(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn list<'a>(items: impl IntoIterator<Item = &'a str>) -> Value {
    Value::Array(items.into_iter().map(|item| Value::String(item.to_owned())).collect())
}

fn dependency(place: (&str, String), features: Vec<&str>) -> Value {
    let (key, value) = place;
    table([(key, Value::String(value)), ("default-features", Value::Boolean(false)), ("features", list(features))])
}

/// The dependencies of `table` that every build has.
fn required(table: Option<&Value>) -> Table {
    let optional = |value: &Value| value.get("optional").and_then(Value::as_bool) == Some(true);
    let all = table.and_then(Value::as_table).into_iter().flatten();
    all.filter(|(_, value)| !optional(value)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The manifest of a package for `pins`, with the sources in `sources` and a program called `program`.
///
/// # Errors
/// [`Refused::Unbuildable`] when our own manifest can't be read.
pub fn text(sources: &Path, pins: &Pins<'_>, program: &str) -> Result<String, Refused> {
    let own = own(sources).map_err(Refused::Unbuildable)?;
    let path = |file: &str| Value::String(sources.join(file).to_string_lossy().into_owned());
    let get = |table: &str, key: &str| own.get(table).and_then(|table| table.get(key)).cloned();

    let mut package: Table = Table::new();
    for key in ["name", "version", "edition", "rust-version"] {
        package.extend(get("package", key).map(|value| (key.to_owned(), value)));
    }
    package.insert("publish".into(), Value::Boolean(false));
    package.insert("build".into(), path("build.rs"));
    // By this build.rs knows that the lock file beside this manifest is that of the build, whatever lies above.
    package.insert("metadata".into(), table([("rcb-worker", Value::Boolean(true))]));

    let mut dependencies = required(own.get("dependencies"));
    let mut of_tls = Vec::new();
    if pins.tls {
        // Ours for TLS: what our feature `tls` names with `dep:`.
        let feature = get("features", "tls");
        let names = feature.as_ref().and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        of_tls = names.filter_map(|name| name.strip_prefix("dep:")).map(str::to_owned).collect();
    }
    for name in &of_tls {
        if let Some(Value::Table(mut wanted)) = get("dependencies", name) {
            wanted.remove("optional");
            dependencies.insert(name.clone(), Value::Table(wanted));
        }
    }
    for companion in pins.client.companions {
        let known = Some(crate::versions::of(companion.name)).filter(|version| companion.pinned && *version != "unknown");
        let requirement = known.map_or_else(|| companion.requirement.to_owned(), |version| format!("={version}"));
        let mut features = companion.features.to_vec();
        if pins.tls && companion.name == "redis" {
            features.extend(["tokio-rustls-comp", "tls-rustls-insecure"]);
        }
        dependencies.insert(companion.name.into(), dependency(("version", requirement), features));
    }
    let place = match pins.dependency {
        Dependency::Version(version) => ("version", format!("={version}")),
        Dependency::Path(folder) => ("path", folder.to_string_lossy().into_owned()),
    };
    let mut features = pins.client.features(pins.release, pins.tls);
    let mut own_features = vec![pins.client.feature];
    if pins.tls {
        own_features.push("tls");
    }
    if let Some(feature) = pins.client.nodelay_feature(pins.release).filter(|_| pins.nodelay) {
        features.push(feature);
        own_features.push("tcp-nodelay");
    }
    dependencies.insert(pins.client.name.into(), dependency(place, features));

    // All of ours, since the sources name them; only those of the client are on.
    let names = own.get("features").and_then(Value::as_table).into_iter().flatten().map(|(name, _)| name.as_str());
    let mut choices: Table = names.filter(|name| *name != "default").map(|name| (name.to_owned(), list([]))).collect();
    choices.insert("tcp-nodelay".into(), list([]));
    for pool in ["deadpool-redis", "bb8-redis"].into_iter().filter(|pool| *pool == pins.client.feature) {
        choices.insert(pool.into(), list(["redis-rs"]));
    }
    choices.insert("default".into(), list(own_features));

    let mut target = Table::new();
    for (platform, tables) in own.get("target").and_then(Value::as_table).into_iter().flatten() {
        target.insert(platform.clone(), table([("dependencies", Value::Table(required(tables.get("dependencies"))))]));
    }
    let mut all = Table::new();
    all.insert("package".into(), Value::Table(package));
    // Not a member of whatever lies above.
    all.insert("workspace".into(), table([]));
    all.insert("features".into(), Value::Table(choices));
    // No library: of a program only what it needs is compiled.
    all.insert("bin".into(), Value::Array(vec![table([("name", Value::String(program.to_owned())), ("path", path("src/lib.rs"))])]));
    all.insert("dependencies".into(), Value::Table(dependencies));
    all.insert("build-dependencies".into(), Value::Table(required(own.get("build-dependencies"))));
    all.insert("target".into(), Value::Table(target));
    // As this build: the same settings for every version.
    all.extend(own.get("profile").map(|profile| ("profile".to_owned(), profile.clone())));
    toml::to_string(&all).map_err(|error| Refused::Unbuildable(format!("the manifest can't be written: {error}")))
}
