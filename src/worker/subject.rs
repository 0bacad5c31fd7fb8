//! What a user asks to be compared: a driver of this build, a client at a version, or a worker program.
//!
//! `NAME`, `CRATE@VERSION`, `CRATE@path:FOLDER`, `CRATE@git:FOLDER#REVISION` or `NAME@worker:PATH`, each with settings after it:
//! `fred-pool:connections=4,resp=3`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A subject as asked for. Its text is its name in tables and records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectSpec {
    /// As typed.
    pub text: String,
    /// What stands before the `@`: a driver of this build, a client crate, or any name of a worker.
    pub name: String,
    /// Where its program comes from.
    pub source: Source,
    /// Settings as typed, by key.
    pub settings: BTreeMap<String, String>,
}

/// Where a subject's program comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// A driver of this build.
    Build,
    /// A program of the user's.
    Worker(PathBuf),
    /// A client crate that a program is built with.
    Client(Origin),
}

/// Where a client crate comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// An exact version from the registry.
    Registry(String),
    /// A folder with its Cargo.toml.
    Path(PathBuf),
    /// A local clone at a revision.
    Git {
        /// The clone.
        folder: PathBuf,
        /// Branch, tag or commit; `HEAD` unless given.
        revision: String,
    },
}

/// A text that is no subject.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the subject {text:?}: {reason}; write NAME, CRATE@VERSION, CRATE@path:FOLDER, CRATE@git:FOLDER#REVISION or NAME@worker:PATH, with settings as in fred-pool:connections=4,resp=3"
)]
pub struct BadSubject {
    text: String,
    reason: String,
}

impl fmt::Display for SubjectSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// Whether `text` is settings: the first of them has a key of letters before its `=`.
fn is_settings(text: &str) -> bool {
    text.split_once('=').is_some_and(|(key, _)| !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'))
}

impl FromStr for SubjectSpec {
    type Err = BadSubject;

    fn from_str(typed: &str) -> Result<Self, BadSubject> {
        let text = typed.trim();
        let bad = |reason: String| BadSubject { text: text.to_owned(), reason };
        let mut head = text;
        let mut parts = Vec::new();
        // From the right: a path may hold colons.
        while let Some((before, settings)) = head.rsplit_once(':').filter(|(_, settings)| is_settings(settings)) {
            parts.extend(settings.split(','));
            head = before;
        }
        let mut settings = BTreeMap::new();
        for part in parts {
            let (key, value) = part.split_once('=').ok_or_else(|| bad(format!("{part:?} is no key=value")))?;
            if settings.insert(key.trim().to_owned(), value.trim().to_owned()).is_some() {
                return Err(bad(format!("{key} is given twice")));
            }
        }
        let (name, origin) = match head.split_once('@') {
            Some((name, origin)) => (name, Some(origin)),
            None => (head, None),
        };
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')) {
            return Err(bad(format!("{name:?} is no name")));
        }
        let path = |path: &str| if path.is_empty() { Err(bad("the path is missing".into())) } else { Ok(PathBuf::from(path)) };
        let source = match origin.map(|origin| origin.split_once(':').map_or((origin, None), |(kind, rest)| (kind, Some(rest)))) {
            None => Source::Build,
            Some(("worker", Some(rest))) => Source::Worker(path(rest)?),
            Some(("path", Some(rest))) => Source::Client(Origin::Path(path(rest)?)),
            Some(("git", Some(rest))) => {
                let (folder, revision) = rest.rsplit_once('#').unwrap_or((rest, "HEAD"));
                if revision.is_empty() || revision.starts_with('-') {
                    return Err(bad(format!("{revision:?} is no revision")));
                }
                Source::Client(Origin::Git { folder: path(folder)?, revision: revision.to_owned() })
            }
            Some((version, None)) if version.starts_with(|first: char| first.is_ascii_digit()) => {
                Source::Client(Origin::Registry(version.to_owned()))
            }
            Some((kind, _)) => return Err(bad(format!("{kind:?} is neither a version nor worker:, path: or git:"))),
        };
        Ok(Self { text: text.to_owned(), name: name.to_owned(), source, settings })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> SubjectSpec {
        text.parse().unwrap()
    }

    #[test]
    fn every_form_is_read() {
        assert_eq!(read("fred").source, Source::Build);
        let pool = read("fred-pool:connections=4,resp=3:profile=default");
        assert_eq!((pool.name.as_str(), pool.source), ("fred-pool", Source::Build));
        let settings: Vec<_> = pool.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(settings, ["connections=4", "profile=default", "resp=3"]);
        assert_eq!(read("redis@0.32.7").source, Source::Client(Origin::Registry("0.32.7".into())));
        assert_eq!(read("redis@2.0.0-rc.1+x").name, "redis");
        let copy = read("redis@path:../a:b/redis-rs:driver=redis-rs-pool");
        assert_eq!(copy.source, Source::Client(Origin::Path("../a:b/redis-rs".into())));
        assert_eq!(copy.settings["driver"], "redis-rs-pool");
        let clone = |revision: &str| Source::Client(Origin::Git { folder: "../fred.rs".into(), revision: revision.into() });
        assert_eq!(read("fred@git:../fred.rs#v10.1").source, clone("v10.1"));
        assert_eq!(read("fred@git:../fred.rs").source, clone("HEAD"));
        assert_eq!(read("mine@worker:./worker.py").source, Source::Worker("./worker.py".into()));
        assert_eq!(read(" fred:connections=4 ").to_string(), "fred:connections=4", "its name is what was typed");
    }

    #[test]
    fn what_is_no_subject_is_told_with_the_forms() {
        for wrong in ["", "@1", "a b", "redis@", "redis@latest", "redis@path:", "fred:resp=2,resp=3", "fred@git:x#", "fred:connections=4,x"]
        {
            let error = wrong.parse::<SubjectSpec>().expect_err(wrong).to_string();
            assert!(error.contains("CRATE@VERSION"), "{error}");
        }
    }
}
