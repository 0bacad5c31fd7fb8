//! A redis-server for a test to give by URL, in a temporary directory of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis_client_bench::net::{Connection, Endpoint};
use redis_client_bench::resp::{Resp, Value};
use tempfile::TempDir;

/// A running server; dropping it ends it.
pub struct Server {
    child: Child,
    folder: TempDir,
}

impl Server {
    /// Starts one that listens on a unix socket only, and on what `arguments` add.
    pub fn start(arguments: &[&str]) -> Self {
        Self::launch(None, arguments)
    }

    /// The same with a configuration file.
    pub fn start_with_config(config: &Path, arguments: &[&str]) -> Self {
        Self::launch(Some(config), arguments)
    }

    fn launch(config: Option<&Path>, arguments: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("rcb-test-").tempdir().unwrap();
        let socket = folder.path().join("socket");
        let child = Command::new("redis-server")
            .args(config)
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no", "--port", "0", "--loglevel", "warning"])
            .args(arguments)
            .arg("--dir")
            .arg(folder.path())
            .arg("--unixsocket")
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(fs::File::create(folder.path().join("output")).unwrap())
            .spawn()
            .expect("redis-server is on PATH");
        let mut server = Self { child, folder };
        let deadline = Instant::now() + Duration::from_secs(20);
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            let ended = server.child.try_wait().unwrap();
            let output = fs::read_to_string(server.folder.path().join("output")).unwrap_or_default();
            assert!(ended.is_none() && Instant::now() < deadline, "redis-server did not start: {output}");
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    pub fn socket_url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A loopback port that was free a moment ago.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// One command on a connection of its own.
pub async fn ask(endpoint: &Endpoint, words: &[&str]) -> Value {
    let mut connection = Connection::open(endpoint, Resp::V2, true).await.unwrap();
    let command = words[1..].iter().fold(redis_client_bench::resp::Command::new(words[0]), |command, word| command.arg(word));
    connection.request(&command).await.unwrap()
}

/// The reply of INFO or CLUSTER INFO.
pub async fn info(endpoint: &Endpoint, words: &[&str]) -> redis_client_bench::target::Info {
    redis_client_bench::target::Info::parse(ask(endpoint, words).await.as_str().unwrap())
}
