//! A server that the tests hold by its process, and `rcb load` as its users call it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use redis_client_bench::drivers::find;
use redis_client_bench::net::{Connection, Endpoint};
use redis_client_bench::resp::{self, Resp, Value};
use serde_json::Value as Json;
use tempfile::TempDir;

/// A running server; dropping it ends it.
pub struct Server {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Server {
    pub fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("rcb-load-").tempdir().unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(std::env::var_os("RCB_SERVER_BIN").unwrap_or("redis-server".into()))
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no"])
            .args(arguments)
            .arg("--dir")
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("a server program");
        let mut server = Self { child, port, _folder: folder };
        let deadline = Instant::now() + Duration::from_secs(20);
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(server.child.try_wait().unwrap().is_none() && Instant::now() < deadline, "the server did not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }

    pub fn port(&self) -> String {
        self.port.to_string()
    }

    pub fn endpoint(&self) -> Endpoint {
        Endpoint::tcp("127.0.0.1", self.port)
    }

    pub fn signal(&self, signal: Signal) {
        send(&self.child, signal);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
}

/// One command on a connection of its own.
pub fn ask(endpoint: &Endpoint, words: &[&str]) -> Value {
    let command = words[1..].iter().fold(resp::Command::new(words[0]), |command, word| command.arg(word));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { Connection::open(endpoint, Resp::V2, true).await.unwrap().request(&command).await.unwrap() })
}

/// How often the servers executed each command, and rejected it, as they themselves say.
pub fn executed(endpoints: &[Endpoint]) -> BTreeMap<String, u64> {
    let mut sum = BTreeMap::new();
    for endpoint in endpoints {
        let text = ask(endpoint, &["INFO", "commandstats"]).as_str().unwrap().to_owned();
        for line in text.lines().filter_map(|line| line.trim().strip_prefix("cmdstat_")) {
            let (name, fields) = line.split_once(':').unwrap();
            let calls: u64 = fields.split(',').find_map(|field| field.strip_prefix("calls=")).unwrap().parse().unwrap();
            *sum.entry(name.to_owned()).or_insert(0) += calls;
        }
    }
    sum
}

/// What of `name` the servers executed since `before`.
pub fn more(endpoints: &[Endpoint], before: &BTreeMap<String, u64>, name: &str) -> u64 {
    executed(endpoints).get(name).copied().unwrap_or(0) - before.get(name).copied().unwrap_or(0)
}

/// `rcb load` with no target in its environment but what the test gives.
pub fn rcb(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rcb"));
    for variable in ["REDIS_URL", "REDISCLI_AUTH", "RCB_TARGET_KIND", "RCB_IMAGE", "RCB_TOPOLOGY", "RCB_SERVER_BIN"] {
        command.env_remove(variable);
    }
    command.arg("load").args(arguments).stdin(Stdio::null());
    command
}

/// Exit code, standard output and standard error.
pub fn output(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// Runs `rcb load` with a JSON file, and returns its exit code, standard output, standard error and that file.
pub fn load(arguments: &[&str]) -> (Option<i32>, String, String, Json) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.json");
    let (code, out, error) = output(&mut rcb(&[&["--json-out-file", path.to_str().unwrap()], arguments].concat()));
    let json = std::fs::read_to_string(&path).unwrap_or_else(|reason| panic!("{reason}: {arguments:?} {out} {error}"));
    (code, out, error, serde_json::from_str(&json).unwrap())
}

/// Starts `command`, calls `then` once its live line has shown that commands are answered, and returns what [`output`] does.
pub fn once_under_way(command: &mut Command, then: impl FnOnce(&Child)) -> (Option<i32>, String, String) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut error = BufReader::new(child.stderr.take().unwrap());
    let mut text = String::new();
    // Time, share done, commands: `1s [ 10.0%]  1234 …`.
    let shows_commands = |line: &str| {
        let commands = line.split_once("%]").and_then(|(_, rest)| rest.split_whitespace().next()?.parse::<u64>().ok());
        commands.is_some_and(|commands| commands > 0)
    };
    while !text.lines().last().is_some_and(shows_commands) {
        assert_ne!(error.read_line(&mut text).unwrap(), 0, "it ended before its live line: {text}");
    }
    then(&child);
    error.read_to_string(&mut text).unwrap();
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    (child.wait().unwrap().code(), out, text)
}

/// For `--resp`: the version that the driver called `name` has where nobody asks for one.
pub fn resp_of(name: &str) -> &'static str {
    match find(name).unwrap().usual_resp() {
        Resp::V2 => "2",
        Resp::V3 => "3",
    }
}

/// The only run of a record.
pub fn only(json: &Json) -> &Json {
    let runs = json["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 1, "{json}");
    &runs[0]
}
