//! From started servers to a target that is ready, the same for processes and containers.

use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::probe::Probe;
use super::{Layout, TargetError, TargetSpec, cluster, inspect, ports};
use crate::net::{Address, Endpoint};
use crate::resp::Resp;

/// How long servers may take to answer after their start.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// One answer of a server that we started.
pub(super) const REPLY_WITHIN: Duration = Duration::from_secs(5);
/// Between two looks at something that is not ready yet.
pub(super) const POLL: Duration = Duration::from_millis(20);
/// How often ports are chosen anew because somebody was faster.
const ATTEMPTS: usize = 5;

/// Settings that are short while a cluster forms, and Redis' defaults afterwards: name, while forming, at work.
const WHILE_FORMING: [(&str, &str, &str); 2] = [
    // Milliseconds; nodes tell each other what is new after half of it at the latest.
    ("cluster-node-timeout", "1000", "15000"),
    // Seconds; CLUSTER SLOTS leaves out a replica until the first ping through its replication link.
    ("repl-ping-replica-period", "1", "10"),
];

/// What runs the servers.
pub(super) trait Host: Send {
    /// The last words of a server that ended, `None` while all run.
    fn ended(&mut self) -> impl Future<Output = Option<String>> + Send;

    /// How to name what runs, in errors.
    fn name(&self) -> String;
}

/// What can start servers.
pub(super) trait Launch: Sync {
    /// What runs them then.
    type Host: Host;

    /// Starts a server on each port, without waiting until it is ready.
    fn launch(&self, ports: &[u16]) -> impl Future<Output = Result<(Self::Host, Vec<Started>), TargetError>> + Send;
}

/// A server as we started it.
#[derive(Clone, Debug)]
pub(super) struct Started {
    pub(super) port: u16,
    /// Its working directory, which nobody else's server has: proof that what answers is ours.
    pub(super) folder: String,
}

impl Started {
    fn endpoint(&self) -> Endpoint {
        let address = Address::Tcp(Ipv4Addr::LOCALHOST.to_string(), self.port);
        Endpoint { address, tls: None, username: None, password: None, database: 0 }
    }
}

/// Why a start failed.
pub(super) enum Failure {
    /// Somebody else took a port between our look and the server's start.
    PortTaken(TargetError),
    /// Anything else; trying again would not help.
    Final(TargetError),
}

impl From<TargetError> for Failure {
    fn from(error: TargetError) -> Self {
        Failure::Final(error)
    }
}

/// Starts servers with `launcher` on free ports, and makes them what `spec` asks for.
pub(super) async fn start<L: Launch>(spec: &TargetSpec, launcher: &L) -> Result<(L::Host, inspect::Found), TargetError> {
    let layout = spec.own_layout();
    let is_cluster = layout != Layout::Standalone;
    let mut attempt = 1;
    loop {
        let ports = ports::free(layout.nodes(), is_cluster)
            .map_err(|error| TargetError::System { what: "can't find free loopback ports", error })?;
        let (mut host, started) = launcher.launch(&ports).await?;
        match ready(&mut host, &started, spec).await {
            Ok(found) => return Ok((host, found)),
            Err(Failure::PortTaken(_)) if attempt < ATTEMPTS => attempt += 1,
            Err(Failure::PortTaken(error) | Failure::Final(error)) => return Err(error),
        }
    }
}

async fn ready<H: Host>(host: &mut H, started: &[Started], spec: &TargetSpec) -> Result<inspect::Found, Failure> {
    let mut probes = answering(host, started).await?;
    if let Layout::Cluster { masters, .. } = spec.own_layout() {
        cluster::form(host, &mut probes, usize::from(masters)).await?;
        for (name, _, at_work) in WHILE_FORMING {
            // Whoever set it otherwise keeps it.
            if spec.extra.iter().any(|word| word.trim_start_matches('-') == name) {
                continue;
            }
            for probe in &mut probes {
                probe.ask(&["CONFIG", "SET", name, at_work]).await?;
            }
        }
    }
    let endpoints: Vec<_> = started.iter().map(Started::endpoint).collect();
    let topology = spec.own_layout().topology();
    let seeds = if topology == crate::drivers::Topology::Cluster { &endpoints[..] } else { &endpoints[..1] };
    Ok(inspect::inspect(seeds, Some(topology), spec.resp, REPLY_WITHIN).await?)
}

/// A connection to each server, once all of them answer.
async fn answering<H: Host>(host: &mut H, started: &[Started]) -> Result<Vec<Probe>, Failure> {
    let deadline = Instant::now() + ANSWER_WITHIN;
    let mut probes = Vec::with_capacity(started.len());
    for server in started {
        let endpoint = server.endpoint();
        loop {
            if let Some(words) = host.ended().await {
                return Err(failure_of(host, words));
            }
            let reason = match Probe::try_open(&endpoint, Resp::V2, REPLY_WITHIN).await {
                Ok(mut probe) => match probe.try_ask(&["CONFIG", "GET", "dir"]).await {
                    Ok(reply) if says(&reply, &server.folder) => {
                        probes.push(probe);
                        break;
                    }
                    Ok(_) => {
                        let error = TargetError::ServerEnded { server: host.name(), reason: format!("port {} is taken", server.port) };
                        return Err(Failure::PortTaken(error));
                    }
                    Err(error) => error,
                },
                Err(error) => error,
            };
            if Instant::now() > deadline {
                let what = host.name();
                return Err(TargetError::NotReady { what, after: ANSWER_WITHIN, reason: reason.to_string() }.into());
            }
            sleep(POLL).await;
        }
    }
    Ok(probes)
}

fn says(reply: &crate::resp::Value, folder: &str) -> bool {
    matches!(reply, crate::resp::Value::Array(parts) if parts.get(1).and_then(|part| part.as_str()) == Some(folder))
}

/// What the last words of a server mean.
pub(super) fn failure_of<H: Host>(host: &H, words: String) -> Failure {
    let taken = ["Address already in use", "Failed listening on"].iter().any(|text| words.contains(text));
    let error = TargetError::ServerEnded { server: host.name(), reason: words };
    if taken { Failure::PortTaken(error) } else { Failure::Final(error) }
}

/// The arguments of a server that we start, without those of its host (address, folder, log).
pub(super) fn server_arguments(spec: &TargetSpec, port: u16) -> Vec<String> {
    let mut words: Vec<String> =
        ["--save", "", "--appendonly", "no", "--protected-mode", "no", "--loglevel", "warning"].map(str::to_owned).to_vec();
    if let Layout::Cluster { .. } = spec.own_layout() {
        let config = format!("nodes-{port}.conf");
        // No failover of its own accord: it would change what is being measured. Replicas sync at once.
        for (name, value) in [
            ("--cluster-enabled", "yes"),
            ("--cluster-config-file", config.as_str()),
            ("--cluster-slave-no-failover", "yes"),
            ("--repl-diskless-sync", "yes"),
            ("--repl-diskless-sync-delay", "0"),
        ] {
            words.extend([name.to_owned(), value.to_owned()]);
        }
        for (name, forming, _) in WHILE_FORMING {
            words.extend([format!("--{name}"), forming.to_owned()]);
        }
    }
    words.extend(spec.extra.iter().cloned());
    // Last, so that further arguments can't change what we rely on to find and end the server.
    words.extend(["--daemonize".into(), "no".into(), "--port".into(), port.to_string()]);
    words
}

/// The last line of a log that says something, without its process id, role and time.
pub(super) fn last_words(log: &str) -> Option<String> {
    let line = log.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    // "12:M 01 Jan 2026 10:00:00.000 # text"
    let text = line.split_once(" # ").or_else(|| line.split_once(" * ")).map_or(line, |(_, text)| text);
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_are_the_last_line_without_its_head() {
        let log = "1:C 01 Jan 2026 10:00:00.000 # first\n1:M 01 Jan 2026 10:00:00.000 # Failed listening on port 1 (TCP), aborting.\n\n";
        assert_eq!(last_words(log).as_deref(), Some("Failed listening on port 1 (TCP), aborting."));
        assert_eq!(last_words("plain\n").as_deref(), Some("plain"));
        assert_eq!(last_words("\n \n"), None);
    }
}
