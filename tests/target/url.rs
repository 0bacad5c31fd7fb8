//! Servers given by URL: what is checked before any work, and how mistakes are told.

use std::io::{Read, Write};
use std::net::TcpListener;
#[cfg(feature = "tls")]
use std::process::Command;
use std::time::{Duration, Instant};

use redis_client_bench::drivers::Topology;
use redis_client_bench::resp::Resp;
use redis_client_bench::target::{Kind, Layout, Target, TargetError, TargetSpec, provide};

use super::server::{Server, ask, free_port};

const PASSWORD: &str = "hunter2-secret";

async fn given(url: &str) -> Result<Target, TargetError> {
    provide(&TargetSpec::url(url)?).await
}

#[tokio::test]
async fn a_unix_socket() {
    let server = Server::start(&[]);
    let target = given(&server.socket_url()).await.unwrap();
    assert_eq!((target.kind, target.topology()), (Kind::Url, Topology::Standalone));
    assert!(!target.is_ours());
    target.shutdown().await;
    // Somebody else's server is left running.
    assert!(given(&server.socket_url()).await.is_ok());
}

#[tokio::test]
async fn an_acl_user_logs_in_and_the_password_is_never_shown() {
    let port = free_port();
    let password = format!(">{PASSWORD}");
    let bob = ["--user", "bob", "on", &password, "~*", "&*", "+@all", "--user", "default", "off"];
    let _server = Server::start(&[&["--port", &port.to_string()], &bob[..]].concat());
    let target = given(&format!("redis://bob:{PASSWORD}@127.0.0.1:{port}")).await.unwrap();
    let facts = serde_json::to_string(&target.facts()).unwrap();
    for text in [format!("{target:?}"), target.to_string(), facts] {
        assert!(!text.contains(PASSWORD), "{text}");
    }
    for (login, wanted) in [("bob:wrong-secret@", "refused the login"), (":wrong-secret@", "refused the login"), ("", "refused the login")]
    {
        for resp in [Resp::V2, Resp::V3] {
            let spec = TargetSpec { resp, ..TargetSpec::url(&format!("redis://{login}127.0.0.1:{port}")).unwrap() };
            let error = provide(&spec).await.unwrap_err();
            assert!(error.to_string().contains(wanted), "{login}: {error}");
            assert!(!format!("{error} {error:?} {spec:?}").contains("wrong-secret"), "{error:?}");
        }
    }
}

#[tokio::test]
async fn a_user_without_the_rights_that_are_needed_is_told_which() {
    let port = free_port();
    let _server = Server::start(&["--port", &port.to_string(), "--user", "eve", "on", &format!(">{PASSWORD}"), "~*", "+get"]);
    let error = given(&format!("redis://eve:{PASSWORD}@127.0.0.1:{port}")).await.unwrap_err().to_string();
    assert!(error.contains("right") && error.contains("info") && !error.contains(PASSWORD), "{error}");
}

#[cfg(feature = "tls")]
/// A certificate and its key; `false` when there is no program that makes them.
fn make_certificate(arguments: &[String]) -> bool {
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]).args(arguments);
    openssl.output().is_ok_and(|made| made.status.success())
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn tls_with_its_own_authority() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let authority = ["-subj", "/CN=rcb authority", "-keyout", &path("ca.key"), "-out", &path("ca.pem")].map(str::to_owned);
    let server = ["-subj", "/CN=rcb", "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"];
    let files =
        ["-keyout", &path("key.pem"), "-out", &path("cert.pem"), "-CA", &path("ca.pem"), "-CAkey", &path("ca.key")].map(str::to_owned);
    if !make_certificate(&authority) || !make_certificate(&[&server.map(str::to_owned)[..], &files[..]].concat()) {
        eprintln!("left out: there is no openssl 3 to make certificates with");
        return;
    }
    let (port, plain) = (free_port(), free_port());
    let _server = Server::start(&[
        "--tls-port",
        &port.to_string(),
        "--port",
        &plain.to_string(),
        "--tls-cert-file",
        &path("cert.pem"),
        "--tls-key-file",
        &path("key.pem"),
        "--tls-ca-cert-file",
        &path("ca.pem"),
        "--tls-auth-clients",
        "no",
    ]);
    for checked in [format!("?cacert={}", path("ca.pem")), "#insecure".into()] {
        let target = given(&format!("rediss://127.0.0.1:{port}/{checked}")).await.unwrap();
        assert!(target.to_string().contains("rediss://"), "{target}");
    }
    let distrusted = given(&format!("rediss://127.0.0.1:{port}")).await.unwrap_err().to_string();
    assert!(distrusted.to_lowercase().contains("certificate"), "{distrusted}");
    // Plain to the TLS port, and TLS to the plain port.
    let error = given(&format!("redis://127.0.0.1:{port}")).await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("redis://127.0.0.1:{port} ")), "{error}");
    let url = format!("rediss://127.0.0.1:{plain}/#insecure");
    let spec = TargetSpec { answer_within: Duration::from_millis(500), ..TargetSpec::url(&url).unwrap() };
    let error = provide(&spec).await.unwrap_err().to_string();
    assert!(error.contains("rediss:// needs a TLS port"), "{error}");
}

#[tokio::test]
async fn a_web_server_is_not_redis() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    for login in ["", ":hunter2-secret@"] {
        let error = given(&format!("redis://{login}{address}")).await.unwrap_err();
        assert!(matches!(error, TargetError::NotRedis { .. }), "{error:?}");
        assert!(!error.to_string().contains(PASSWORD) && error.to_string().contains("not a Redis server"), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let answer_within = Duration::from_millis(300);
    let started = Instant::now();
    let error = provide(&TargetSpec { answer_within, ..TargetSpec::url(&url).unwrap() }).await.unwrap_err();
    assert!(matches!(error, TargetError::NoAnswer { .. }), "{error:?}");
    assert!(error.to_string().contains("300ms") && started.elapsed() >= answer_within, "{error}");
}

#[tokio::test]
async fn nothing_listens() {
    for url in [format!("redis://127.0.0.1:{}", free_port()), "redis+unix:///nonexistent/redis.sock".into()] {
        let error = given(&url).await.unwrap_err();
        assert!(matches!(error, TargetError::Unreachable { .. }), "{error:?}");
        // Named once, and not again in the reason.
        assert_eq!(error.to_string().matches(&url).count(), 1, "{error}");
    }
}

#[tokio::test]
async fn a_cluster_is_found_from_one_seed_and_topologies_are_not_mixed_up() {
    let cluster = provide(&TargetSpec::process(Layout::Cluster { masters: 2, replicas_each: 1 })).await.unwrap();
    let seed = cluster.nodes.last().unwrap().endpoint.to_string();
    let found = given(&seed).await.unwrap();
    assert_eq!((found.topology(), found.nodes.len(), found.servers.endpoints.len()), (Topology::Cluster, 4, 2));
    assert!(found.to_string().contains("cluster of 2 masters and 2 replicas"), "{found}");
    // A dead seed among several does not matter.
    let dead = free_port();
    assert!(given(&format!("redis://127.0.0.1:{dead},{seed}")).await.is_ok());

    let standalone = Server::start(&[]);
    let wanted = |url: &str, layout| TargetSpec { layout: Some(layout), ..TargetSpec::url(url).unwrap() };
    let error = provide(&wanted(&seed, Layout::Standalone)).await.unwrap_err().to_string();
    assert!(error.contains("is a cluster server") && error.contains("standalone target"), "{error}");
    let error = provide(&wanted(&standalone.socket_url(), Layout::CLUSTER)).await.unwrap_err().to_string();
    assert!(error.contains("is a standalone server") && error.contains("cluster target"), "{error}");
    let error = given(&format!("{},{seed}", standalone.socket_url())).await.unwrap_err().to_string();
    assert!(error.contains("several URLs"), "{error}");
    let error = given(&format!("{seed}/1")).await.unwrap_err().to_string();
    assert!(error.starts_with(&seed), "{error}");

    // Not whole: a slot is given up.
    ask(&cluster.nodes[0].endpoint, &["CLUSTER", "DELSLOTS", "0"]).await;
    let error = given(&cluster.nodes[0].endpoint.to_string()).await.unwrap_err().to_string();
    assert!(error.contains("16383 of 16384 slots"), "{error}");
}

#[tokio::test]
async fn replicas_and_sentinels_are_refused() {
    let port = free_port();
    let _master = Server::start(&["--port", &port.to_string()]);
    let replica = Server::start(&["--replicaof", &format!("127.0.0.1 {port}")]);
    let error = given(&replica.socket_url()).await.unwrap_err().to_string();
    assert!(error.contains("read-only replica"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("sentinel.conf");
    std::fs::write(&config, "").unwrap();
    let sentinel = Server::start_with_config(&config, &["--sentinel"]);
    let error = given(&sentinel.socket_url()).await.unwrap_err().to_string();
    assert!(error.contains("Sentinel"), "{error}");
}

#[tokio::test]
async fn a_server_without_hello_is_too_old_for_resp3_only() {
    let port = free_port();
    let server = Server::start(&["--port", &port.to_string(), "--rename-command", "HELLO", ""]);
    let spec = |resp| TargetSpec { resp, ..TargetSpec::url(&server.socket_url()).unwrap() };
    assert!(provide(&spec(Resp::V2)).await.is_ok());
    let error = provide(&spec(Resp::V3)).await.unwrap_err();
    assert!(matches!(error, TargetError::TooOld { resp: 3, .. }), "{error:?}");
    assert!(error.to_string().contains("use RESP2"), "{error}");
}
