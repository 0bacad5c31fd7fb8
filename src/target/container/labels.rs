//! The labels by which our containers are found again.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use testcontainers::bollard::Docker;
use testcontainers::bollard::query_parameters::{ListContainersOptionsBuilder, RemoveContainerOptionsBuilder};

/// Marks every container of ours.
const MARK: &str = "org.redis-client-bench";
/// One start of one container.
const TOKEN: &str = "org.redis-client-bench.token";
/// The process that started it, as [`owner`] names it.
const OWNER: &str = "org.redis-client-bench.owner";
/// The system that this process runs in, as [`system`] names it.
const SYSTEM: &str = "org.redis-client-bench.system";

/// A name for one start.
pub(super) fn token() -> String {
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
}

/// The labels of a container of this process.
pub(super) fn of(token: &str) -> Vec<(String, String)> {
    let pid = std::process::id();
    [(MARK, "1".to_owned()), (TOKEN, token.to_owned()), (OWNER, owner(pid).unwrap_or(format!("{pid}:"))), (SYSTEM, system())]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
}

/// Process id and start time; `None` when there is no such process, or when the system does not tell.
fn owner(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name, in brackets, may hold anything; the start time is the 20th field after it.
    let started = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?;
    Some(format!("{pid}:{started}"))
}

/// The boot and the process namespace, outside of which a process id says nothing.
fn system() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{}/{}", boot.trim(), namespace.display())
}

/// Whether the process that an owner label names is gone. Where the system does not tell, it is not.
fn is_gone(label: &str) -> bool {
    let Some(pid) = label.split(':').next().and_then(|pid| pid.parse().ok()) else { return false };
    owner(std::process::id()).is_some() && owner(pid).as_deref() != Some(label)
}

async fn list(docker: &Docker, label: String) -> Vec<(String, HashMap<String, String>)> {
    let filters = HashMap::from([("label".to_owned(), vec![label])]);
    let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
    let containers = docker.list_containers(Some(options)).await.unwrap_or_default();
    containers.into_iter().filter_map(|found| Some((found.id?, found.labels.unwrap_or_default()))).collect()
}

async fn remove_one(docker: &Docker, id: &str) {
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
    // An error means that it is being removed already, or that the engine is gone.
    let _ = docker.remove_container(id, Some(options)).await;
}

/// Removes the container of one start, in whatever state it is.
pub(super) async fn remove(docker: &Docker, token: &str) {
    for (id, _) in list(docker, format!("{TOKEN}={token}")).await {
        remove_one(docker, &id).await;
    }
}

/// Removes the containers of processes that are gone: killed ones could not do it themselves.
pub(super) async fn remove_orphans(docker: &Docker) {
    let here = system();
    for (id, labels) in list(docker, MARK.to_owned()).await {
        let ours = labels.get(SYSTEM) == Some(&here);
        if ours && labels.get(OWNER).is_some_and(|owner| is_gone(owner)) {
            remove_one(docker, &id).await;
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_gone_when_its_id_is_unused_or_another_has_it() {
        let own = owner(std::process::id()).unwrap();
        assert!(!is_gone(&own));
        assert!(is_gone(&format!("{}:1", std::process::id())), "another process has the id");
        let mut child = std::process::Command::new("/bin/sh").args(["-c", "exit 0"]).spawn().unwrap();
        let label = owner(child.id()).unwrap();
        child.wait().unwrap();
        assert!(is_gone(&label));
        assert!(!is_gone("nonsense"));
    }
}
