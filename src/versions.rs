//! Exact versions of the crates in this build, as `build.rs` read them from the lock file.

/// `(crate, version)` of our direct dependencies, and of this crate itself.
pub const VERSIONS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/versions.rs"));

/// The exact version of `name` in this build, or `"unknown"`.
#[must_use]
pub fn of(name: &str) -> &'static str {
    VERSIONS.iter().find(|(known, _)| *known == name).map_or("unknown", |(_, version)| version)
}
