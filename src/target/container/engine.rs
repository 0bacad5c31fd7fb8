//! Whether a Docker engine answers that can give us a server on this machine.

use std::time::Duration;

use testcontainers::bollard::Docker;
use testcontainers::core::client::docker_client_instance;
use tokio::time::timeout;

use crate::target::TargetError;

/// An engine on this machine answers at once; one that does not is none for us.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// How containers are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    /// They share the host's network.
    Host,
    /// Their ports are mapped, through whatever proxy the engine uses.
    Mapped,
}

/// A Docker engine.
pub(super) struct Engine {
    pub(super) docker: Docker,
    pub(super) network: Network,
    /// Name and version.
    pub(super) name: String,
}

/// Asks the engine for its name.
pub(super) async fn find() -> Result<Engine, TargetError> {
    if let Some(elsewhere) = std::env::var("DOCKER_HOST").ok().filter(|host| !is_local(host)) {
        return Err(TargetError::NoEngine(format!("the one that DOCKER_HOST names is not on this machine ({elsewhere})")));
    }
    let asked = async {
        let docker = docker_client_instance().await.map_err(|error| error.to_string())?;
        let info = docker.info().await.map_err(|error| error.to_string())?;
        Ok::<_, String>((docker, info))
    };
    let (docker, info) = match timeout(ANSWER_WITHIN, asked).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(reason)) => return Err(TargetError::NoEngine(reason)),
        Err(_) => return Err(TargetError::NoEngine(format!("no answer within {ANSWER_WITHIN:?}"))),
    };
    let system = info.operating_system.unwrap_or_default();
    let rootless = info.security_options.unwrap_or_default().iter().any(|option| option.contains("rootless"));
    // Docker Desktop's engine lives in a virtual machine and a rootless one in a network namespace: their host is not ours.
    let shared = cfg!(target_os = "linux") && !rootless && !system.contains("Docker Desktop");
    Ok(Engine {
        docker,
        network: if shared { Network::Host } else { Network::Mapped },
        name: format!("Docker {}", info.server_version.unwrap_or_default()),
    })
}

fn is_local(host: &str) -> bool {
    let Some((scheme, rest)) = host.split_once("://") else { return false };
    let name = rest.split('/').next().unwrap_or_default();
    let name = name.rsplit_once(':').map_or(name, |(name, _)| name).trim_matches(['[', ']']);
    matches!(scheme, "unix" | "npipe") || matches!(scheme, "tcp" | "http" | "https") && matches!(name, "localhost" | "127.0.0.1" | "::1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_engine_on_this_machine_is_used() {
        for local in ["unix:///var/run/docker.sock", "npipe:////./pipe/docker_engine", "tcp://localhost:2375", "tcp://[::1]:2375"] {
            assert!(is_local(local), "{local}");
        }
        for remote in ["tcp://10.0.0.1:2375", "ssh://me@host", "tcp://localhost.example.com:1", "nonsense"] {
            assert!(!is_local(remote), "{remote}");
        }
    }
}
