//! Binding server and workers to cores of their own, and keeping cores awake.

use std::process::{Child, Command, Stdio};

use crate::record::comparison::Pinned;
use crate::target::{Kind, Target};

/// The first half of the cores for the servers, the others for the workers.
///
/// # Errors
/// Why that can't be had here.
pub fn cores() -> Result<Pinned, String> {
    let mut all = system::own_cores()?;
    if all.len() < 2 {
        return Err("this process may use one core only".to_owned());
    }
    let workers = all.split_off(all.len() / 2);
    Ok(Pinned { server: all, workers })
}

/// Binds the servers, with all their threads.
///
/// # Errors
/// Why that can't be had here.
pub fn bind_servers(target: &Target, pids: &[u32], cores: &[usize]) -> Result<(), String> {
    if target.kind != Kind::Process {
        return Err(format!("the servers are no processes of ours ({})", target.kind));
    }
    pids.iter().try_for_each(|pid| bind(*pid, cores))
}

/// Binds a process with all its threads.
///
/// # Errors
/// The system's.
pub fn bind(pid: u32, cores: &[usize]) -> Result<(), String> {
    system::bind(pid, cores)
}

#[cfg(target_os = "linux")]
mod system {
    use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
    use nix::unistd::Pid;

    pub fn own_cores() -> Result<Vec<usize>, String> {
        let set = sched_getaffinity(Pid::from_raw(0)).map_err(|error| error.to_string())?;
        Ok((0..CpuSet::count()).filter(|core| set.is_set(*core).unwrap_or(false)).collect())
    }

    pub fn bind(pid: u32, cores: &[usize]) -> Result<(), String> {
        let mut set = CpuSet::new();
        cores.iter().try_for_each(|core| set.set(*core)).map_err(|error| error.to_string())?;
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).map_err(|error| format!("process {pid}: {error}"))?;
        for task in tasks.flatten() {
            let Some(id) = task.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            sched_setaffinity(Pid::from_raw(id), &set).map_err(|error| format!("process {pid}: {error}"))?;
        }
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    const LINUX: &str = "binding to cores needs Linux";

    pub fn own_cores() -> Result<Vec<usize>, String> {
        Err(LINUX.to_owned())
    }

    pub fn bind(_: u32, _: &[usize]) -> Result<(), String> {
        Err(LINUX.to_owned())
    }
}

/// Loops of the lowest priority, one for each core. Dropping it ends them; so does our own end.
pub struct Spinner(Vec<Child>);

/// Goes on while its parent lives. Anything else that wants the core takes it at once from a task of the class SCHED_IDLE.
const LOOP: &str = "while kill -0 $PPID 2>/dev/null; do i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; done";

impl Spinner {
    /// Starts them.
    ///
    /// # Errors
    /// Why that can't be had here.
    pub fn start() -> Result<Self, String> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut spinner = Self(Vec::new());
        for _ in 0..cores {
            let mut command = Command::new("chrt");
            command.args(["--idle", "0", "sh", "-c", LOOP]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let child = command.spawn().map_err(|error| format!("--spin needs the program chrt of util-linux: {error}"))?;
            spinner.0.push(child);
        }
        Ok(spinner)
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // An error means that it has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_bound_and_a_process_that_is_not_there_is_told() {
        let own = system::own_cores().unwrap();
        assert!(!own.is_empty());
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        bind(child.id(), &own[..1]).unwrap();
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        assert_eq!(allowed.trim(), own[0].to_string());
        assert!(bind(u32::MAX / 4, &own).unwrap_err().starts_with("process "));
        match cores() {
            Ok(Pinned { server, workers }) => assert_eq!([server, workers].concat(), own),
            Err(reason) => assert!(own.len() < 2, "{reason}"),
        }
    }
}
