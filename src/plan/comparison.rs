//! The workloads of `rcb compare`: the usual ones, and those of `bench.toml`.

use std::path::Path;

use serde::Deserialize;

use super::BadConfig;
use crate::record::comparison::{What, WorkloadPlan};
use crate::workload::pubsub::message::HEADER;

/// The section `[compare]` of `bench.toml`. The other sections are the benches'.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComparisonConfig {
    /// `[[compare.workload]]`, one each.
    #[serde(default)]
    pub workload: Vec<WorkloadPlan>,
}

#[derive(Deserialize)]
struct File {
    compare: ComparisonConfig,
}

/// Most callers, keys, fields, messages and bytes that make sense here.
const MOST: usize = 1 << 20;

impl ComparisonConfig {
    /// Reads the workloads of a file.
    ///
    /// # Errors
    /// [`BadConfig`] with the file, the place and a hint.
    pub fn load(path: &Path) -> Result<Vec<WorkloadPlan>, BadConfig> {
        let bad = |reason: String| BadConfig::Form { path: path.display().to_string(), reason };
        // No hint at RCB_CONFIG, which is for the benches.
        let text = std::fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
        let file: File = toml::from_str(&text).map_err(|error| bad(error.to_string().trim_end().to_owned()))?;
        let workloads = file.compare.workload;
        if workloads.is_empty() {
            return Err(bad("it has no [[compare.workload]]".to_owned()));
        }
        check(&workloads).map_err(bad)?;
        Ok(workloads)
    }
}

/// What a file may not ask for.
pub(super) fn check(workloads: &[WorkloadPlan]) -> Result<(), String> {
    for (place, workload) in workloads.iter().enumerate() {
        let wrong = |reason: &str| Err(format!("compare.workload {:?}: {reason}", workload.name));
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if workload.name.is_empty() || workload.name.len() > 64 || !workload.name.bytes().all(plain) {
            return wrong("a name is up to 64 letters, digits and - _ .");
        }
        if workloads[..place].iter().any(|other| other.name == workload.name) {
            return wrong("there are two of this name");
        }
        let numbers = [workload.callers, workload.pipeline, workload.payload, workload.fields, workload.keys];
        if numbers.iter().any(|number| *number == 0 || *number > MOST) || workload.batch == 0 {
            return wrong("callers, pipeline, payload, fields, keys and batch are 1 to 1048576");
        }
        if workload.command == What::Receive && workload.payload < HEADER {
            return wrong("a message has 48 bytes at least, for its header");
        }
        if workload.command == What::Receive && (workload.callers > 1 || workload.pipeline > 1) {
            return wrong("receiving has one subscriber and its publisher's batch; leave out callers and pipeline");
        }
    }
    Ok(())
}

/// The workloads of a comparison unless others are named.
#[must_use]
pub fn usual_workloads() -> Vec<WorkloadPlan> {
    let get = |callers: usize| WorkloadPlan {
        name: format!("get-{callers}"),
        command: What::Get,
        callers,
        pipeline: 1,
        payload: 64,
        fields: 100,
        keys: 1000,
        batch: 100,
    };
    let mut all: Vec<_> = [1, 16, 64, 256, 1024].map(get).into();
    all.push(WorkloadPlan { name: "pipeline-100".into(), pipeline: 100, ..get(1) });
    all.push(WorkloadPlan { name: "hkeys-100".into(), command: What::Hkeys, keys: 100, ..get(16) });
    all.push(WorkloadPlan { name: "set-16k".into(), command: What::Set, payload: 16 << 10, keys: 100, ..get(16) });
    all.push(WorkloadPlan { name: "receive".into(), command: What::Receive, ..get(1) });
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bench.toml");
        std::fs::write(&path, text).unwrap();
        match ComparisonConfig::load(&path) {
            Ok(workloads) => format!("{workloads:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_usual_workloads_are_sound() {
        check(&usual_workloads()).unwrap();
    }

    #[test]
    fn a_file_may_have_its_own() {
        let read = told("[[compare.workload]]\nname = \"mine\"\ncommand = \"set\"\ncallers = 8\npayload = 100\n[other]\nx = 1\n");
        assert!(read.contains("\"mine\"") && read.contains("callers: 8, pipeline: 1, payload: 100"), "{read}");
        for (wrong, hint) in [
            ("", "missing field `compare`"),
            ("[compare]\n", "no [[compare.workload]]"),
            ("[[compare.workload]]\nname = \"a b\"\ncommand = \"get\"\n", "letters"),
            ("[[compare.workload]]\nname = \"a\"\ncommand = \"del\"\n", "unknown variant `del`"),
            ("[[compare.workload]]\nname = \"a\"\ncommand = \"get\"\ncaller = 1\n", "unknown field `caller`"),
            ("[[compare.workload]]\nname = \"a\"\ncommand = \"get\"\ncallers = 0\n", "1 to"),
            ("[[compare.workload]]\nname = \"a\"\ncommand = \"receive\"\ncallers = 2\n", "one subscriber"),
            ("[[compare.workload]]\nname = \"a\"\ncommand = \"receive\"\npayload = 47\n", "48 bytes"),
            ("[[compare.workload]]\nname = \"a\"\ncommand = \"get\"\n[[compare.workload]]\nname = \"a\"\ncommand = \"set\"\n", "two of"),
        ] {
            let error = told(wrong);
            assert!(error.contains(hint) && error.contains("bench.toml"), "{error}");
        }
    }
}
