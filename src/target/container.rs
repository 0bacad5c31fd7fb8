//! One container with all the servers in it, through testcontainers.
//!
//! One container, because nodes that share a network namespace can announce `127.0.0.1` to each other and to us
//! alike, whether the ports are the host's own or mapped to it. On Linux the network is the host's; elsewhere, and
//! where the engine runs in a virtual machine, the ports are mapped 1:1.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use testcontainers::core::{IntoContainerPort, client::docker_client_instance};
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, ContainerRequest, GenericImage, ImageExt};
use tokio::time::timeout;

use super::bring_up::{self, Host, Launch, Started, last_words, server_arguments};
#[cfg(unix)]
use super::watchdog::Watchdog;
use super::{Guard, Kind, Target, TargetError, TargetSpec};
use crate::interrupt::Interrupt;

mod engine;
mod labels;

use engine::{Engine, Network};

/// The longest pull of an image.
const PULL_WITHIN: Duration = Duration::from_secs(300);
/// The longest removal of a container.
const REMOVE_WITHIN: Duration = Duration::from_secs(15);

/// Starts the container that `spec` asks for.
pub(super) async fn provide(spec: &TargetSpec) -> Result<Target, TargetError> {
    let engine = engine::find().await?;
    labels::remove_orphans(&engine.docker).await;
    pull_if_missing(&engine, spec).await?;
    let (running, found) = bring_up::start(spec, &Launcher { engine: &engine, spec }).await?;
    let mut target = found.into_target(Kind::Container, &format!("of {} on {}", spec.image(), engine.name), Guard::Container(running));
    if engine.network == Network::Mapped {
        target.warnings.push(
            "the container's ports are mapped: a userland proxy that more than halves the rate may be measured along with the client"
                .into(),
        );
    }
    Ok(target)
}

/// Name and tag, as testcontainers wants them apart; a digest counts as the tag.
fn name_and_tag(image: &str) -> (String, String) {
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name.to_owned(), tag.to_owned()),
        _ => (image.to_owned(), "latest".to_owned()),
    }
}

/// The server program in an image, by the image's name.
fn program(image: &str) -> &'static str {
    if image.contains("valkey") { "valkey-server" } else { "redis-server" }
}

async fn pull_if_missing(engine: &Engine, spec: &TargetSpec) -> Result<(), TargetError> {
    let (name, tag) = name_and_tag(spec.image());
    if engine.docker.inspect_image(&format!("{name}:{tag}")).await.is_ok() {
        return Ok(());
    }
    (spec.progress)(&format!("pulling the image {name}:{tag}"));
    let refused = |reason: String| TargetError::Container { image: spec.image().to_owned(), reason };
    match timeout(PULL_WITHIN, GenericImage::new(name, tag).pull_image()).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(refused(error.to_string())),
        Err(_) => Err(refused(format!("its pull took longer than {PULL_WITHIN:?}"))),
    }
}

/// The shell script of the container: every server in its own folder; the container ends when one of them does.
fn script(spec: &TargetSpec, network: Network, ports: &[u16], root: &str) -> (String, Vec<Started>) {
    let mut script = String::from("trap 'exit 1' TERM\n");
    let mut started = Vec::new();
    for &port in ports {
        let folder = format!("{root}/{port}");
        let mut words = vec![program(spec.image()).to_owned()];
        words.extend(server_arguments(spec, port));
        // Inside of a bridged container the loopback address can't be reached through the mapped port.
        let bind = if network == Network::Host { "127.0.0.1" } else { "0.0.0.0" };
        words.extend(["--bind", bind, "--dir", &folder, "--logfile", ""].map(str::to_owned));
        if network == Network::Mapped && ports.len() > 1 {
            words.extend(["--cluster-announce-ip", "127.0.0.1"].map(str::to_owned));
        }
        let words: Vec<String> = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
        script.push_str(&format!("mkdir -p '{folder}'\n({}; kill -s TERM 1) &\n", words.join(" ")));
        started.push(Started { port, folder });
    }
    script.push_str("wait\n");
    (script, started)
}

struct Launcher<'a> {
    engine: &'a Engine,
    spec: &'a TargetSpec,
}

impl Launch for Launcher<'_> {
    type Host = Running;

    async fn launch(&self, ports: &[u16]) -> Result<(Running, Vec<Started>), TargetError> {
        launch(self.engine, self.spec, ports).await
    }
}

async fn launch(engine: &Engine, spec: &TargetSpec, ports: &[u16]) -> Result<(Running, Vec<Started>), TargetError> {
    let token = labels::token();
    let (script, started) = script(spec, engine.network, ports, &format!("/tmp/rcb-{token}"));
    let (name, tag) = name_and_tag(spec.image());
    let image = GenericImage::new(name, tag).with_entrypoint("/bin/sh");
    let mut request: ContainerRequest<GenericImage> = image.with_cmd(["-c".to_owned(), script]).with_labels(labels::of(&token));
    match engine.network {
        Network::Host => request = request.with_network("host"),
        Network::Mapped => {
            for &port in ports {
                request = request.with_mapped_port(port, port.tcp());
            }
        }
    }
    // Registered before the start, so that an interruption during it finds the container by its label.
    let slot = Arc::new(Mutex::new(Slot { token, container: None }));
    let weak = Arc::downgrade(&slot);
    let interrupt = Interrupt::register(move || {
        if let Some(slot) = weak.upgrade() {
            remove_now(&slot);
        }
    });
    #[cfg(unix)]
    let watchdog = Watchdog::start(None).map_err(|error| TargetError::System { what: "can't start /bin/sh as a watchdog", error })?;
    let mut running = Running {
        slot,
        image: spec.image().to_owned(),
        #[cfg(unix)]
        watchdog,
        _interrupt: interrupt,
    };
    match request.start().await {
        Ok(container) => {
            #[cfg(unix)]
            if let Err(error) = running.watchdog.add_container(container.id()) {
                running.keep(container);
                return Err(TargetError::System { what: "the watchdog is gone", error });
            }
            running.keep(container);
            Ok((running, started))
        }
        // What was created already, `running` removes by its label.
        Err(error) => Err(TargetError::Container { image: spec.image().to_owned(), reason: error.to_string() }),
    }
}

/// The container, while it is there.
#[derive(Debug)]
struct Slot {
    token: String,
    container: Option<Arc<ContainerAsync<GenericImage>>>,
}

/// A running container. Dropping it removes the container; so does an interruption.
pub(super) struct Running {
    slot: Arc<Mutex<Slot>>,
    image: String,
    #[cfg(unix)]
    watchdog: Watchdog,
    _interrupt: Interrupt,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("image", &self.image).finish_non_exhaustive()
    }
}

impl Running {
    fn keep(&mut self, container: ContainerAsync<GenericImage>) {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner).container = Some(Arc::new(container));
    }

    fn container(&self) -> Option<Arc<ContainerAsync<GenericImage>>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner).container.clone()
    }

    /// Removes the container.
    pub(super) async fn shutdown(self) {
        // An error means that the task panicked, and then the drop has removed it.
        let _ = tokio::task::spawn_blocking(move || drop(self)).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        remove_now(&self.slot);
        #[cfg(unix)]
        self.watchdog.forget();
    }
}

impl Host for Running {
    async fn ended(&mut self) -> Option<String> {
        let Some(container) = self.container() else { return Some("interrupted".into()) };
        if container.is_running().await.unwrap_or(true) {
            return None;
        }
        let log = [container.stdout_to_vec().await.unwrap_or_default(), container.stderr_to_vec().await.unwrap_or_default()].concat();
        Some(last_words(&String::from_utf8_lossy(&log)).unwrap_or_else(|| "it ended without a word".into()))
    }

    fn name(&self) -> String {
        format!("a container of {}", self.image)
    }
}

/// Removes the container and waits for it, on a thread and runtime of its own: the caller's may be blocked or gone.
fn remove_now(slot: &Mutex<Slot>) {
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    let container = slot.container.take();
    let token = slot.token.clone();
    let work = std::thread::Builder::new().name("rcb-remove".into()).spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            let removal = async {
                if let Some(container) = container.and_then(Arc::into_inner) {
                    let _ = container.rm().await;
                }
                if let Ok(docker) = docker_client_instance().await {
                    labels::remove(&docker, &token).await;
                }
            };
            // Best effort: what a dead engine keeps, the next start removes by its label.
            let _ = timeout(REMOVE_WITHIN, removal).await;
        });
    });
    if let Ok(work) = work {
        let _ = work.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Layout;

    #[test]
    fn an_image_is_split_into_name_and_tag() {
        let split = |image| name_and_tag(image);
        assert_eq!(split("redis"), ("redis".into(), "latest".into()));
        assert_eq!(split("redis:8"), ("redis".into(), "8".into()));
        assert_eq!(split("localhost:5000/a/valkey"), ("localhost:5000/a/valkey".into(), "latest".into()));
        assert_eq!(split("redis@sha256:abc"), ("redis@sha256".into(), "abc".into()));
        assert_eq!(program("docker.io/valkey/valkey:8"), "valkey-server");
        assert_eq!(program("redis/redis-stack-server"), "redis-server");
    }

    #[test]
    fn mapped_nodes_announce_the_loopback_address_and_arguments_are_quoted() {
        let mut spec = TargetSpec::container("redis:8", Layout::CLUSTER);
        spec.extra = vec!["--x".into(), "a'b; c".into()];
        let (mapped, started) = script(&spec, Network::Mapped, &[7000, 7001], "/tmp/r");
        assert!(mapped.contains("'--cluster-announce-ip' '127.0.0.1'") && mapped.contains("'0.0.0.0'"), "{mapped}");
        assert!(mapped.contains(r"'a'\''b; c'"), "{mapped}");
        assert_eq!(started[1].folder, "/tmp/r/7001");
        let (host, _) = script(&spec, Network::Host, &[7000, 7001], "/tmp/r");
        assert!(!host.contains("announce") && !host.contains("0.0.0.0"), "{host}");
    }
}
