//! Child processes on loopback ports, in a temporary directory of their own.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::bring_up::{self, Host, Launch, Started, last_words, server_arguments};
use super::watchdog::Watchdog;
use super::{Guard, Kind, Target, TargetError, TargetSpec};
use crate::interrupt::Interrupt;

/// How long a killed group may take to disappear; longer only where nobody reaps orphans.
const GROUP_GONE_WITHIN: Duration = Duration::from_secs(1);

/// The programs that are looked for on PATH, in this order.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

/// Starts the servers that `spec` asks for.
pub(super) async fn provide(spec: &TargetSpec) -> Result<Target, TargetError> {
    let program = find_program(spec)?;
    let how = format!("{} on this machine", program.display());
    let (fleet, found) = bring_up::start(spec, &Launcher { program, spec }).await?;
    Ok(found.into_target(Kind::Process, &how, Guard::Process(fleet)))
}

struct Launcher<'a> {
    program: PathBuf,
    spec: &'a TargetSpec,
}

impl Launch for Launcher<'_> {
    type Host = Fleet;

    async fn launch(&self, ports: &[u16]) -> Result<(Fleet, Vec<Started>), TargetError> {
        Fleet::start(&self.program, self.spec, ports)
    }
}

fn find_program(spec: &TargetSpec) -> Result<PathBuf, TargetError> {
    let path = spec.path.clone().or_else(|| std::env::var_os("PATH")).unwrap_or_default();
    let on_path = |name: &OsStr| {
        let folders = std::env::split_paths(&path).filter(|folder| !folder.as_os_str().is_empty());
        folders.map(|folder| folder.join(name)).find(|path| is_program(path))
    };
    let Some(named) = &spec.server_bin else {
        let found = PROGRAMS.iter().find_map(|name| on_path(name.as_ref()));
        return found.ok_or_else(|| TargetError::NoServer("there is no redis-server or valkey-server on PATH".into()));
    };
    // A bare name is looked for on PATH; the servers run in another directory, so a path becomes absolute. Symbolic links stay: where
    // redis-server is a link to redis-check-rdb, as Debian has it, the program goes by the name that it is called.
    let found = if named.components().count() == 1 { on_path(named.as_os_str()) } else { None };
    match found.or_else(|| std::path::absolute(named).ok().filter(|path| path.exists())) {
        Some(path) if is_program(&path) => Ok(path),
        Some(path) => Err(TargetError::NoServer(format!("{} is not an executable file", path.display()))),
        None => Err(TargetError::NoServer(format!("there is no server program {}", named.display()))),
    }
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Running servers. Dropping it ends them and removes their directory; so does an interruption.
#[derive(Debug)]
pub(super) struct Fleet {
    running: Arc<Mutex<Option<Running>>>,
    program: PathBuf,
    _interrupt: Interrupt,
}

impl Fleet {
    fn start(program: &Path, spec: &TargetSpec, ports: &[u16]) -> Result<(Self, Vec<Started>), TargetError> {
        let system = |what| move |error| TargetError::System { what, error };
        let folder = tempfile::Builder::new().prefix("rcb-").tempdir().map_err(system("can't make a temporary directory"))?;
        // As the server itself will report it, without symbolic links.
        let root = fs::canonicalize(folder.path()).map_err(system("can't read the temporary directory"))?;
        let watchdog = Watchdog::start(Some(&root)).map_err(system("can't start /bin/sh to watch over the servers"))?;
        let running = Arc::new(Mutex::new(Some(Running { servers: Vec::new(), watchdog, folder })));
        let weak = Arc::downgrade(&running);
        let interrupt = Interrupt::register(move || {
            if let Some(running) = weak.upgrade() {
                end(&running);
            }
        });
        let fleet = Self { running, program: program.to_owned(), _interrupt: interrupt };
        let mut started = Vec::with_capacity(ports.len());
        for &port in ports {
            let folder = root.join(port.to_string());
            let name = folder.to_string_lossy().into_owned();
            fs::create_dir(&folder).map_err(system("can't make a directory for the server"))?;
            fleet
                .start_server(spec, port, folder)
                .map_err(|error| TargetError::ServerEnded { server: program.display().to_string(), reason: error.to_string() })?;
            started.push(Started { port, folder: name });
        }
        Ok((fleet, started))
    }

    fn start_server(&self, spec: &TargetSpec, port: u16, folder: PathBuf) -> io::Result<()> {
        let mut list = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(running) = list.as_mut() else { return Err(io::Error::other("interrupted")) };
        let said = File::create(folder.join("output"))?;
        let mut command = Command::new(&self.program);
        command.args(server_arguments(spec, port)).args(["--bind", "127.0.0.1", "--logfile", "log", "--dir"]).arg(&folder);
        // Not the terminal's group: its Ctrl-C is for us, who may have results to save first.
        command.current_dir(&folder).process_group(0);
        command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said);
        let child = command.spawn()?;
        // Listed before anything can fail, so that it is ended in any case.
        let leader = child.id();
        running.servers.push(Server { child, folder });
        running.watchdog.add_group(leader)
    }
}

impl Host for Fleet {
    async fn ended(&mut self) -> Option<String> {
        let mut list = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(running) = list.as_mut() else { return Some("interrupted".into()) };
        running.servers.iter_mut().find_map(Server::last_words)
    }

    fn name(&self) -> String {
        self.program.display().to_string()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        end(&self.running);
    }
}

/// Ends the servers under the lock, so that whoever else wants to end them waits until it is done.
fn end(running: &Mutex<Option<Running>>) {
    let mut list = running.lock().unwrap_or_else(PoisonError::into_inner);
    *list = None;
}

#[derive(Debug)]
struct Server {
    child: Child,
    folder: PathBuf,
}

impl Server {
    /// `None` while it runs.
    fn last_words(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        let read = |name: &str| fs::read(self.folder.join(name)).ok().and_then(|text| last_words(&String::from_utf8_lossy(&text)));
        Some(match read("log").or_else(|| read("output")) {
            Some(words) => format!("{words} ({status})"),
            None => format!("it ended without a word ({status})"),
        })
    }
}

#[derive(Debug)]
struct Running {
    servers: Vec<Server>,
    watchdog: Watchdog,
    folder: TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        for server in &self.servers {
            // Its whole group: a wrapper script has the server as its child. An error says that it is gone already.
            if let Ok(leader) = i32::try_from(server.child.id()) {
                let _ = killpg(Pid::from_raw(leader), Signal::SIGKILL);
            }
        }
        // Until they are waited for, their process ids can't be another's.
        self.watchdog.forget();
        for server in &mut self.servers {
            let _ = server.child.wait();
            // The server of a wrapper script is not our child, so it can't be waited for; its group is empty when it is gone.
            let until = Instant::now() + GROUP_GONE_WITHIN;
            while let Ok(leader) = i32::try_from(server.child.id())
                && killpg(Pid::from_raw(leader), None).is_ok()
                && Instant::now() < until
            {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let _ = fs::remove_dir_all(self.folder.path());
    }
}
