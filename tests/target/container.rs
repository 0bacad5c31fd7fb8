//! Containers, where a Docker engine and the image named by RCB_TEST_IMAGE are there.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use redis_client_bench::drivers::Topology;
use redis_client_bench::resp::Value;
use redis_client_bench::target::{Kind, Layout, TargetSpec, provide};

use super::child::{self, Held, await_that};
use super::process::assert_whole;
use super::server::ask;

/// The image to test with; `None`, said aloud, when these tests are to be left out.
fn image() -> Option<String> {
    let image = std::env::var("RCB_TEST_IMAGE").ok().filter(|image| !image.is_empty() && cfg!(feature = "container"));
    if image.is_none() {
        eprintln!("left out: container tests need the feature `container`, a Docker engine and RCB_TEST_IMAGE=redis:8 or the like");
    }
    image
}

/// Ids of the containers of process `pid`, in whatever state.
fn containers(pid: u32) -> Vec<String> {
    let format = "{{.ID}} {{.Label \"org.redis-client-bench.owner\"}}";
    let output = Command::new("docker").args(["ps", "--all", "--filter", "label=org.redis-client-bench", "--format", format]).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.filter(|(_, owner)| owner.starts_with(&format!("{pid}:"))).map(|(id, _)| id.to_owned()).collect()
}

// One test, because they all count this process' containers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn containers_serve_and_leave_nothing() {
    let Some(image) = image() else { return };
    let own = std::process::id();

    let target = provide(&TargetSpec::container(&image, Layout::Standalone)).await.unwrap();
    assert_eq!((target.kind, target.topology()), (Kind::Container, Topology::Standalone));
    assert!(target.to_string().contains(&image) && target.to_string().contains("Docker"), "{target}");
    assert_eq!(ask(target.servers.first(), &["PING"]).await, Value::Simple("PONG".into()));
    assert_eq!(containers(own).len(), 1);
    target.shutdown().await;
    assert_eq!(containers(own), Vec::<String>::new());

    let target = provide(&TargetSpec::container(&image, Layout::CLUSTER)).await.unwrap();
    assert_whole(&target, 3, 1).await;
    drop(target);
    assert_eq!(containers(own), Vec::<String>::new());

    // A server that refuses its arguments is quoted, and its container removed.
    let extra = ["--no-such-setting", "1"].map(str::to_owned).to_vec();
    let error = provide(&TargetSpec { extra, ..TargetSpec::container(&image, Layout::Standalone) }).await.unwrap_err().to_string();
    assert!(error.contains("Bad directive"), "{error}");
    assert_eq!(containers(own), Vec::<String>::new());

    // No such image: an error when forced, a process with the reason otherwise.
    let missing = "redis:no-such-tag-of-rcb";
    let quiet = TargetSpec { progress: |_| {}, ..TargetSpec::container(missing, Layout::Standalone) };
    let error = provide(&quiet).await.unwrap_err().to_string();
    assert!(error.contains(missing), "{error}");
    let target = provide(&TargetSpec { kind: Kind::Auto, ..quiet }).await.unwrap();
    assert_eq!(target.kind, Kind::Process);
    assert!(target.warnings.iter().any(|line| line.contains("instead of a container") && line.contains(missing)), "{:?}", target.warnings);
}

#[test]
fn a_drop_outside_of_any_runtime_and_a_panic_leave_no_container() {
    let Some(image) = image() else { return };
    const NAME: &str = "target::container::a_drop_outside_of_any_runtime_and_a_panic_leave_no_container";
    match child::part().as_deref() {
        // A second process, because the first one's containers are counted elsewhere.
        Some("drop") => {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let target = runtime.block_on(provide(&TargetSpec::container(&image, Layout::Standalone))).unwrap();
            drop(runtime);
            drop(target);
            println!("\nleft {}", containers(std::process::id()).len());
        }
        Some("panic") => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let panicked = std::panic::catch_unwind(|| {
                runtime.block_on(async {
                    let _target = provide(&TargetSpec::container(&image, Layout::Standalone)).await.unwrap();
                    panic!("expected by this test");
                });
            });
            println!("\nleft {} {}", containers(std::process::id()).len(), if panicked.is_err() { "panicked" } else { "" });
        }
        _ => {
            for part in ["drop", "panic"] {
                let output = child::command(NAME, part).output().unwrap();
                let text = String::from_utf8_lossy(&output.stdout);
                assert!(text.lines().any(|line| line.starts_with("left 0")), "{part}: {text}{}", String::from_utf8_lossy(&output.stderr));
            }
        }
    }
}

#[test]
fn after_a_kill_the_watchdog_or_the_next_start_removes_the_container() {
    let Some(image) = image() else { return };
    const NAME: &str = "target::container::after_a_kill_the_watchdog_or_the_next_start_removes_the_container";
    let start = || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let target = runtime.block_on(provide(&TargetSpec::container(&image, Layout::Standalone))).unwrap();
        (runtime, target)
    };
    match child::part().as_deref() {
        Some("hold") => {
            let _held = start();
            println!("\nready");
            loop {
                std::thread::park();
            }
        }
        Some("next") => {
            start().1.nodes.iter().for_each(|node| println!("\nstarted {}", node.endpoint));
        }
        _ => {
            // Without the docker command in reach of the watchdog only the next start can do it.
            for (path, next) in [(std::env::var("PATH").unwrap(), false), ("/nonexistent".to_owned(), true)] {
                let mut command = child::command(NAME, "hold");
                let mut held = Held(command.env("PATH", path).stdout(Stdio::piped()).spawn().unwrap());
                let mut lines = BufReader::new(held.0.stdout.take().unwrap()).lines().map_while(Result::ok);
                lines.find(|line| line == "ready").expect("the second process gets ready");
                let pid = held.0.id();
                assert_eq!(containers(pid).len(), 1);
                held.0.kill().unwrap();
                held.0.wait().unwrap();
                if next {
                    assert!(child::command(NAME, "next").status().unwrap().success());
                }
                await_that("the container is left", || containers(pid).is_empty());
            }
        }
    }
}
