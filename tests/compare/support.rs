//! `rcb compare` as its users call it, with a folder for its records.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use redis_client_bench::record::comparison::ComparisonRecord;
use tempfile::TempDir;

/// The scripted worker with settings, `cpu=1000` for example.
pub fn fake(settings: &str) -> String {
    let colon = if settings.is_empty() { "" } else { ":" };
    format!("fake@worker:{}/tests/compare/worker.bash{colon}{settings}", env!("CARGO_MANIFEST_DIR"))
}

/// A workload that the scripted worker does, in observations as short as it makes them.
pub const QUICK: &[&str] = &["--workload", "get-1", "--time", "10ms", "--warm-up", "0", "--patience", "400ms", "--max-time", "4s"];

/// A folder for records, and the flags that name it.
pub struct Results(pub TempDir);

impl Results {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn out(&self) -> PathBuf {
        self.0.path().join("out.json")
    }

    /// `rcb compare` with no target in its environment but a process.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rcb"));
        for variable in ["REDIS_URL", "REDISCLI_AUTH", "RCB_TARGET_KIND", "RCB_IMAGE", "RCB_TOPOLOGY", "RCB_PASSWORD"] {
            command.env_remove(variable);
        }
        command.arg("compare").args(arguments).arg("--results").arg(self.0.path()).stdin(Stdio::null());
        command
    }

    /// Runs it against a server of its own. Exit code, standard output and standard error.
    pub fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        self.run_on(&["--target", "process"], arguments)
    }

    pub fn run_on(&self, target: &[&str], arguments: &[&str]) -> (Option<i32>, String, String) {
        let Output { status, stdout, stderr } = self.command(&[target, arguments].concat()).output().unwrap();
        (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    }

    /// The same with `--out`, and the record that it wrote.
    pub fn recorded(&self, arguments: &[&str]) -> (Option<i32>, String, String, ComparisonRecord) {
        let out = self.out();
        let (code, text, error) = self.run(&[arguments, &["--out", out.to_str().unwrap()]].concat());
        let record = ComparisonRecord::load(&out).unwrap_or_else(|reason| panic!("{reason}: {text} {error}"));
        (code, text, error, record)
    }
}
