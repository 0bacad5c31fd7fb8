//! Servers of our own for the tests, started as child processes and killed when the last test is done with them.

use std::fs::File;
use std::net::TcpListener;
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

use redis_client_bench::drivers::Servers;
use redis_client_bench::net::{Connection, Endpoint};
use redis_client_bench::resp::{Command, Resp, Value};

/// Running servers; dropped, they are killed and their folder is removed.
pub struct Guard {
    children: Vec<Child>,
    _folder: tempfile::TempDir,
}

impl Guard {
    /// Kills the servers now.
    pub fn kill(&mut self) {
        for child in &mut self.children {
            // An error means that it is gone already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Three numbers are enough for a server, its cluster bus and no clash between the two.
fn free_ports(count: usize) -> Vec<u16> {
    let mut listeners = Vec::new();
    while listeners.len() < count {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        if port < 55_000 && TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok() {
            listeners.push(listener);
        }
    }
    listeners.iter().map(|listener| listener.local_addr().expect("its address").port()).collect()
}

fn start(ports: &[u16], cluster: bool) -> Guard {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let chosen = std::env::var("RCB_SERVER_BIN").ok();
    let programs = chosen.as_deref().map_or(vec!["redis-server", "valkey-server"], |program| vec![program]);
    let children = ports.iter().map(|port| {
        let own = folder.path().join(port.to_string());
        std::fs::create_dir(&own).expect("a folder for the server");
        let child = programs.iter().find_map(|program| {
            Process::new(program)
                .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no"])
                .args(["--cluster-enabled", if cluster { "yes" } else { "no" }])
                .current_dir(&own)
                .stdout(File::create(own.join("log")).expect("a log file"))
                .stderr(Stdio::null())
                .spawn()
                .ok()
        });
        child.unwrap_or_else(|| panic!("none of {programs:?} could be started; set RCB_SERVER_BIN"))
    });
    Guard { children: children.collect(), _folder: folder }
}

/// Repeats `attempt` until it gives something, at most 20 s.
async fn wait_for<T>(what: &str, attempt: impl AsyncFn() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = attempt().await {
            return found;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{what} did not happen in 20 s");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn connection(endpoint: &Endpoint) -> Connection {
    wait_for("a connection", async || Connection::open(endpoint, Resp::V2, true).await.ok()).await
}

fn words(text: &str) -> Command {
    let mut words = text.split(' ');
    words.by_ref().next().map(Command::new).map(|name| words.fold(name, |command, word| command.arg(word))).expect("a word")
}

/// Starts one server.
pub async fn standalone() -> (Servers, Guard) {
    let ports = free_ports(1);
    let guard = start(&ports, false);
    let endpoint = Endpoint::tcp("127.0.0.1", ports[0]);
    connection(&endpoint).await;
    (Servers::standalone(endpoint), guard)
}

/// Starts a cluster of three masters.
pub async fn cluster() -> (Servers, Guard) {
    const RANGES: [&str; 3] = ["0 5460", "5461 10922", "10923 16383"];
    let ports = free_ports(3);
    let guard = start(&ports, true);
    let endpoints: Vec<_> = ports.iter().map(|&port| Endpoint::tcp("127.0.0.1", port)).collect();
    for (number, endpoint) in endpoints.iter().enumerate() {
        let mut node = connection(endpoint).await;
        for command in [
            format!("CLUSTER SET-CONFIG-EPOCH {}", number + 1),
            format!("CLUSTER ADDSLOTSRANGE {}", RANGES[number]),
            format!("CLUSTER MEET 127.0.0.1 {}", ports[0]),
        ] {
            node.request(&words(&command)).await.expect("the cluster takes its set-up");
        }
    }
    for endpoint in &endpoints {
        wait_for("a whole cluster", async || {
            let info = connection(endpoint).await.request(&words("CLUSTER INFO")).await.ok()?;
            let slots = connection(endpoint).await.request(&words("CLUSTER SLOTS")).await.ok()?;
            let whole = info.as_str()?.contains("cluster_state:ok") && matches!(slots, Value::Array(ranges) if ranges.len() == 3);
            whole.then_some(())
        })
        .await;
    }
    (Servers::cluster(endpoints), guard)
}
