//! Child processes: standalone and cluster, and programs that are none.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use redis_client_bench::drivers::Topology;
use redis_client_bench::resp::{Resp, Value};
use redis_client_bench::target::{Kind, Layout, Role, Target, TargetError, TargetSpec, provide};

use super::server::{ask, info};
use super::{child, cleanup};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standalone_process_is_ready_described_and_gone_after_shutdown() {
    let spec = TargetSpec { resp: Resp::V3, ..TargetSpec::process(Layout::Standalone) };
    // Spawned, as a caller may: the future has to be Send.
    let target: Target = tokio::spawn(async move { provide(&spec).await }).await.unwrap().unwrap();
    assert_eq!((target.kind, target.topology(), target.nodes.len()), (Kind::Process, Topology::Standalone, 1));
    assert!(target.is_ours() && target.warnings.is_empty(), "{:?}", target.warnings);
    assert!(target.server.at_least(6, 0));
    let endpoint = target.servers.first().clone();
    assert_eq!(ask(&endpoint, &["PING"]).await, Value::Simple("PONG".into()));
    assert!(info(&endpoint, &["INFO", "persistence"]).await.is("aof_enabled", "0"));
    let line = target.to_string();
    assert!(line.contains("standalone") && line.contains("process") && line.contains(&target.server.version), "{line}");
    let facts = serde_json::to_value(target.facts()).unwrap();
    assert_eq!((&facts["kind"], &facts["masters"], &facts["replicas"]), (&"process".into(), &1.into(), &0.into()));
    let left = cleanup::traces(&target).await;
    target.shutdown().await;
    left.assert_gone();
}

#[tokio::test]
async fn a_cluster_of_processes_is_whole_on_every_node() {
    let target = provide(&TargetSpec::process(Layout::CLUSTER)).await.unwrap();
    assert_whole(&target, 3, 1).await;
    let left = cleanup::traces(&target).await;
    assert_eq!(left.count(), 6);
    target.shutdown().await;
    left.assert_gone();
}

#[tokio::test]
async fn a_cluster_may_be_one_master_or_have_no_replicas() {
    for (masters, replicas_each) in [(1, 0), (2, 2)] {
        let target = provide(&TargetSpec::process(Layout::Cluster { masters, replicas_each })).await.unwrap();
        assert_whole(&target, masters.into(), replicas_each.into()).await;
    }
}

/// Ready means: every node is well, serves all slots, and its replicas are in sync.
pub async fn assert_whole(target: &Target, masters: usize, replicas_each: usize) {
    let count = masters * (1 + replicas_each);
    assert_eq!((target.topology(), target.nodes.len(), target.servers.endpoints.len()), (Topology::Cluster, count, masters));
    for node in &target.nodes {
        let state = info(&node.endpoint, &["CLUSTER", "INFO"]).await;
        assert!(state.is("cluster_state", "ok") && state.is("cluster_slots_ok", "16384"), "{state:?}");
        assert_eq!(state.number("cluster_known_nodes"), Some(count as u64));
        // What was short to form it quickly is long again.
        let Value::Array(reply) = ask(&node.endpoint, &["CONFIG", "GET", "cluster-node-timeout"]).await else { panic!("no array") };
        assert_eq!(reply[1].as_str(), Some("15000"));
        let replication = info(&node.endpoint, &["INFO", "replication"]).await;
        match node.role {
            Role::Master => assert_eq!(replication.number("connected_slaves"), Some(replicas_each as u64), "{replication:?}"),
            Role::Replica => assert!(replication.is("master_link_status", "up"), "{replication:?}"),
        }
    }
    let roles: Vec<_> = target.nodes.iter().map(|node| node.role).collect();
    assert!(roles.is_sorted_by_key(|role| *role == Role::Replica), "masters first: {roles:?}");
}

#[tokio::test]
async fn further_arguments_reach_the_server() {
    let extra = ["--maxclients", "77"].map(str::to_owned).to_vec();
    let target = provide(&TargetSpec { extra, ..TargetSpec::process(Layout::Standalone) }).await.unwrap();
    let Value::Array(reply) = ask(target.servers.first(), &["CONFIG", "GET", "maxclients"]).await else { panic!("no array") };
    assert_eq!(reply[1].as_str(), Some("77"));
}

fn with_program(path: PathBuf) -> TargetSpec {
    TargetSpec { server_bin: Some(path), ..TargetSpec::process(Layout::Standalone) }
}

/// An executable shell script.
fn script(folder: &std::path::Path, text: &str) -> PathBuf {
    let path = folder.join("server");
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[tokio::test]
async fn a_program_that_is_missing_or_no_program_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("text");
    fs::write(&file, "no program").unwrap();
    for path in [folder.path().join("nothing"), file, "no-such-redis-server".into()] {
        let error = provide(&with_program(path.clone())).await.unwrap_err();
        assert!(matches!(error, TargetError::NoServer(_)), "{error:?}");
        assert!(error.to_string().contains(path.to_str().unwrap()) && error.to_string().contains("--server-bin"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
}

#[tokio::test]
async fn a_program_that_ends_at_once_is_quoted() {
    let folder = tempfile::tempdir().unwrap();
    let path = script(folder.path(), "echo 'first words'; echo 'error while loading libfoo.so' >&2; exit 7");
    let error = provide(&with_program(path)).await.unwrap_err().to_string();
    assert!(error.contains("error while loading libfoo.so") && error.contains("exit status: 7"), "{error}");
    // The server's own words about an argument that it does not know.
    let extra = ["--no-such-setting", "1"].map(str::to_owned).to_vec();
    let error = provide(&TargetSpec { extra, ..TargetSpec::process(Layout::Standalone) }).await.unwrap_err().to_string();
    assert!(error.contains("Bad directive"), "{error}");
}

#[tokio::test]
async fn a_wrapper_script_works_and_its_server_is_ended_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let target = provide(&with_program(script(folder.path(), "redis-server \"$@\"\nexit $?"))).await.unwrap();
    let left = cleanup::traces(&target).await;
    drop(target);
    left.assert_gone();
}

#[test]
fn without_any_way_the_error_names_all_three() {
    if child::part().is_some() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let error = runtime.block_on(provide(&TargetSpec::default())).unwrap_err();
        eprintln!("error: {error}");
        return;
    }
    let mut command = child::command("target::process::without_any_way_the_error_names_all_three", "none");
    let output = command.env("PATH", "").env("DOCKER_HOST", "unix:///nonexistent/docker.sock").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    for way in ["error: no Redis", "--url", "REDIS_URL", "Docker", "redis-server", "valkey-server", "PATH"] {
        assert!(text.contains(way), "{way}: {text}");
    }
}
