//! The test's own program run again, as another process that holds a target.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Names the part that the second process plays.
const PART: &str = "RCB_TEST_PART";

/// The part of this process, if it is such a second one.
pub fn part() -> Option<String> {
    std::env::var(PART).ok()
}

/// This test program as a second process that runs `test` only and plays `part` there.
pub fn command(test: &str, part: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(PART, part);
    command.env_remove("REDIS_URL").stdin(Stdio::null());
    command
}

/// A process of which the system still knows, other than as one that waits to be collected.
pub fn is_alive(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    !stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
}

/// Waits until `done`, at most 20 s.
pub fn await_that(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The children of `pid`.
pub fn children(pid: u32) -> Vec<u32> {
    let text = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks.flatten().map(text).collect::<String>().split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// A child that is killed when the test ends early.
pub struct Held(pub Child);

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
