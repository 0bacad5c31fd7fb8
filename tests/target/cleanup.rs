//! Nothing that we start survives us, however we end.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use redis_client_bench::target::{Layout, Target, TargetSpec, provide};

use super::child::{self, Held, await_that, children, is_alive};
use super::server::{ask, info};

/// What a process target leaves in the system while it runs.
pub struct Traces {
    processes: Vec<u32>,
    folders: HashSet<PathBuf>,
}

/// The traces of a target of processes.
pub async fn traces(target: &Target) -> Traces {
    let mut traces = Traces { processes: Vec::new(), folders: HashSet::new() };
    for node in &target.nodes {
        let server = info(&node.endpoint, &["INFO", "server"]).await;
        traces.processes.push(server.number("process_id").unwrap() as u32);
        let folder = ask(&node.endpoint, &["CONFIG", "GET", "dir"]).await;
        let redis_client_bench::resp::Value::Array(parts) = folder else { panic!("no array") };
        traces.folders.insert(Path::new(parts[1].as_str().unwrap()).parent().unwrap().to_owned());
    }
    assert!(traces.processes.iter().all(|pid| is_alive(*pid)));
    assert_eq!(traces.folders.len(), 1);
    for folder in &traces.folders {
        assert!(folder.file_name().unwrap().to_str().unwrap().starts_with("rcb-"), "{folder:?}");
    }
    traces
}

impl Traces {
    pub fn count(&self) -> usize {
        self.processes.len()
    }

    fn are_gone(&self) -> bool {
        !self.processes.iter().any(|pid| is_alive(*pid)) && !self.folders.iter().any(|folder| folder.exists())
    }

    /// Nothing is left, at once.
    pub fn assert_gone(&self) {
        assert!(self.are_gone(), "left: {:?} {:?}", self.processes, self.folders);
    }

    fn print(&self) {
        let folder = self.folders.iter().next().unwrap().display();
        println!("\ntraces {folder} {}", self.processes.iter().map(u32::to_string).collect::<Vec<_>>().join(" "));
    }

    fn read(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("traces ")?.split(' ');
        let folders = HashSet::from([PathBuf::from(words.next()?)]);
        Some(Self { processes: words.filter_map(|pid| pid.parse().ok()).collect(), folders })
    }
}

#[tokio::test]
async fn a_drop_and_a_panic_leave_nothing() {
    let target = provide(&TargetSpec::process(Layout::Standalone)).await.unwrap();
    let left = traces(&target).await;
    drop(target);
    left.assert_gone();
    let target = provide(&TargetSpec::process(Layout::Cluster { masters: 1, replicas_each: 1 })).await.unwrap();
    let left = traces(&target).await;
    let panicked = std::panic::catch_unwind(AssertUnwindSafe(move || {
        let _held = target;
        panic!("expected by this test");
    }));
    assert!(panicked.is_err());
    left.assert_gone();
}

#[test]
fn a_drop_outside_of_any_runtime_leaves_nothing() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (target, left) = runtime.block_on(async {
        let target = provide(&TargetSpec::process(Layout::Standalone)).await.unwrap();
        let left = traces(&target).await;
        (target, left)
    });
    drop(runtime);
    drop(target);
    left.assert_gone();
}

#[test]
fn a_start_that_is_given_up_leaves_nothing() {
    if child::part().is_some() {
        // A second process, so that no other test's servers are counted.
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let spec = TargetSpec::process(Layout::CLUSTER);
            let mut provided = Box::pin(provide(&spec));
            let all_started = async {
                while children(std::process::id()).len() < 7 {
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
            };
            tokio::select! {
                _ = &mut provided => panic!("a cluster forms faster than this test looks"),
                () = all_started => {}
            }
            drop(provided);
        });
        println!("\nleft {:?}", children(std::process::id()));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = child::command("target::cleanup::a_start_that_is_given_up_leaves_nothing", "give up");
    let output = command.env("TMPDIR", folder.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("left []"), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "a directory is left");
}

/// Holds a target until it is killed, or signalled.
fn hold(layout: Layout) -> ! {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let target = runtime.block_on(async {
        let target = provide(&TargetSpec::process(layout)).await.unwrap();
        traces(&target).await.print();
        target
    });
    // The newest cleanup runs first, so the server still answers while results are saved.
    let endpoint = target.servers.first().clone();
    let _saved = redis_client_bench::interrupt::Interrupt::register(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        println!("\nsaved {:?}", runtime.block_on(ask(&endpoint, &["PING"])));
    });
    println!("\nready");
    loop {
        std::thread::park();
    }
}

/// Starts a second process that holds a target, and reads its traces.
fn holder(test: &str, part: &str) -> (Held, Traces, impl Iterator<Item = String>) {
    let mut held = Held(child::command(test, part).stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(held.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    let traces = lines.by_ref().find_map(|line| Traces::read(&line)).expect("the second process prints its traces");
    lines.by_ref().find(|line| line == "ready").expect("the second process gets ready");
    (held, traces, lines)
}

#[test]
fn a_kill_of_the_parent_leaves_nothing() {
    if child::part().is_some() {
        hold(Layout::Cluster { masters: 1, replicas_each: 1 });
    }
    let (mut held, left, _) = holder("target::cleanup::a_kill_of_the_parent_leaves_nothing", "hold");
    let watched = children(held.0.id());
    assert_eq!(watched.len(), 3, "two servers and the watchdog: {watched:?}");
    held.0.kill().unwrap();
    held.0.wait().unwrap();
    await_that("servers or their directory are left", || left.are_gone());
    await_that("the watchdog is left", || !watched.iter().any(|pid| is_alive(*pid)));
}

#[test]
fn a_signal_runs_the_cleanups_first_and_exits_with_130() {
    if child::part().is_some() {
        hold(Layout::Standalone);
    }
    for signal in ["INT", "TERM"] {
        let (mut held, left, mut lines) = holder("target::cleanup::a_signal_runs_the_cleanups_first_and_exits_with_130", "hold");
        let watched = children(held.0.id());
        let pid = held.0.id().to_string();
        assert!(std::process::Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
        let saved = lines.find(|line| line.starts_with("saved")).expect("results are saved before the end");
        assert!(saved.contains("PONG"), "{saved}");
        assert_eq!(held.0.wait().unwrap().code(), Some(130), "SIG{signal}");
        left.assert_gone();
        assert!(!watched.iter().any(|pid| is_alive(*pid)));
    }
}
