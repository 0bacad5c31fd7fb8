//! What a running server or cluster is: read, checked and told before any work.

use std::time::Duration;

use super::probe::{Probe, check_resp};
use super::{Node, Role, Server, TargetError};
use crate::drivers::{Servers, Topology};
use crate::net::{Address, Endpoint};
use crate::resp::{Resp, SLOTS, Value};

/// What was found.
pub(super) struct Found {
    pub(super) servers: Servers,
    pub(super) nodes: Vec<Node>,
    pub(super) server: Server,
    pub(super) warnings: Vec<String>,
}

/// Looks at the server of the first seed that answers, and at its whole cluster.
pub(super) async fn inspect(seeds: &[Endpoint], wanted: Option<Topology>, resp: Resp, limit: Duration) -> Result<Found, TargetError> {
    let (seed, mut probe) = first_answering(seeds, limit).await?;
    let endpoint = seed.to_string();
    let info = probe.info(&["INFO"]).await?;
    let Some(server) = Server::read(&info) else {
        return Err(TargetError::NotRedis { endpoint, reason: "INFO was answered without redis_version".into() });
    };
    if info.is("redis_mode", "sentinel") {
        return Err(TargetError::Refused { endpoint, reason: "it is a Sentinel; give the server that it watches".into() });
    }
    let found = if info.is("cluster_enabled", "1") { Topology::Cluster } else { Topology::Standalone };
    if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
        return Err(TargetError::WrongTopology { endpoint, found, wanted });
    }
    check_resp(seed, &server, resp, limit).await?;
    let mut warnings = Vec::new();
    if !server.at_least(6, 0) {
        warnings.push(format!("{server} is old: without RESP3 and ACL, and its figures say little about current servers"));
    }
    let (servers, nodes) = match found {
        Topology::Standalone => {
            if seeds.len() > 1 {
                return Err(TargetError::Usage(format!("several URLs are the seeds of a cluster, but {endpoint} is a standalone server")));
            }
            if info.is("role", "slave") && !info.is("slave_read_only", "0") {
                let reason = "it is a read-only replica and would refuse every write; give its master".into();
                return Err(TargetError::Refused { endpoint, reason });
            }
            (Servers::standalone(seed.clone()), vec![Node { endpoint: seed.clone(), role: Role::Master }])
        }
        Topology::Cluster => {
            let nodes = cluster_nodes(seed, &mut probe).await?;
            reach_all(&nodes, limit).await?;
            let masters = nodes.iter().filter(|node| node.role == Role::Master).map(|node| node.endpoint.clone());
            (Servers::cluster(masters.collect()), nodes)
        }
    };
    Ok(Found { servers, nodes, server, warnings })
}

/// The first seed that answers; when none does, what the first one's trouble was.
async fn first_answering(seeds: &[Endpoint], limit: Duration) -> Result<(&Endpoint, Probe), TargetError> {
    let mut first_error = None;
    for seed in seeds {
        match Probe::open(seed, limit).await {
            Ok(probe) => return Ok((seed, probe)),
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
    Err(first_error.unwrap_or_else(|| TargetError::Usage("a target of kind url needs a URL".into())))
}

/// The nodes that serve slots, masters first, as CLUSTER SLOTS of one node announces them.
async fn cluster_nodes(seed: &Endpoint, probe: &mut Probe) -> Result<Vec<Node>, TargetError> {
    let broken = |reason: String| TargetError::BrokenCluster { endpoint: seed.to_string(), reason };
    if seed.database != 0 {
        return Err(TargetError::Usage(format!("a cluster has database 0 only, but the URL names {}", seed.database)));
    }
    let state = probe.info(&["CLUSTER", "INFO"]).await?;
    let assigned = state.number("cluster_slots_assigned").unwrap_or(0);
    if assigned != u64::from(SLOTS) {
        return Err(broken(format!("only {assigned} of {SLOTS} slots are served")));
    }
    if !state.is("cluster_state", "ok") {
        return Err(broken(format!("its state is {:?}, not \"ok\"", state.get("cluster_state").unwrap_or("unknown"))));
    }
    let reply = probe.ask(&["CLUSTER", "SLOTS"]).await?;
    let nodes = read_slots(seed, &reply).map_err(broken)?;
    Ok(nodes)
}

/// Reads a CLUSTER SLOTS reply: `[first, last, master, replica …]` per range, a node being `[host, port, id …]`.
pub(super) fn read_slots(seed: &Endpoint, reply: &Value) -> Result<Vec<Node>, String> {
    let Value::Array(ranges) = reply else { return Err(format!("CLUSTER SLOTS was answered with {}", reply.kind())) };
    let (mut masters, mut replicas) = (Vec::new(), Vec::new());
    for range in ranges {
        let Value::Array(parts) = range else { return Err("CLUSTER SLOTS gave a range that is none".into()) };
        for (index, part) in parts.iter().skip(2).enumerate() {
            let endpoint = seed.at(node_address(seed, part)?);
            let (role, list) = if index == 0 { (Role::Master, &mut masters) } else { (Role::Replica, &mut replicas) };
            let node = Node { endpoint, role };
            if !list.contains(&node) {
                list.push(node);
            }
        }
    }
    if masters.is_empty() {
        return Err("CLUSTER SLOTS names no node".into());
    }
    masters.append(&mut replicas);
    Ok(masters)
}

fn node_address(seed: &Endpoint, node: &Value) -> Result<Address, String> {
    let Value::Array(parts) = node else { return Err("CLUSTER SLOTS gave a node that is none".into()) };
    let port = parts.get(1).and_then(Value::as_int).and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0);
    let port = port.ok_or("CLUSTER SLOTS gave a node without a port")?;
    match (parts.first().and_then(Value::as_str).unwrap_or_default(), &seed.address) {
        // Nil or empty: the host that we talk to.
        ("", Address::Tcp(host, _)) => Ok(Address::Tcp(host.clone(), port)),
        ("", Address::Unix(_)) => Ok(Address::Tcp("127.0.0.1".into(), port)),
        ("?", _) => Err(format!("the node with port {port} announces no host name; set cluster-announce-hostname")),
        (host, _) => Ok(Address::Tcp(host.to_owned(), port)),
    }
}

/// Every node must answer from here, with the login of the seed.
async fn reach_all(nodes: &[Node], limit: Duration) -> Result<(), TargetError> {
    for node in nodes {
        let reached = async { Probe::open(&node.endpoint, limit).await?.info(&["INFO", "replication"]).await };
        reached.await.map_err(|error| TargetError::UnusableNode(Box::new(error)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: Option<&str>, port: i64) -> Value {
        let host = host.map_or(Value::Nil, |host| Value::Blob(host.into()));
        Value::Array(vec![host, Value::Int(port), Value::Blob("id".into()), Value::Array(Vec::new())])
    }

    fn range(first: i64, last: i64, nodes: Vec<Value>) -> Value {
        Value::Array([vec![Value::Int(first), Value::Int(last)], nodes].concat())
    }

    #[test]
    fn nodes_come_once_masters_first_with_the_login_of_the_seed() {
        let seed = Endpoint::parse("redis://bob:secret@seed:7000").unwrap();
        let reply = Value::Array(vec![
            range(0, 99, vec![node(Some("10.0.0.1"), 1), node(Some("10.0.0.2"), 2)]),
            range(100, 199, vec![node(Some(""), 3), node(None, 4)]),
            range(200, 16383, vec![node(Some("10.0.0.1"), 1), node(Some("10.0.0.2"), 2)]),
        ]);
        let nodes = read_slots(&seed, &reply).unwrap();
        let seen: Vec<_> = nodes.iter().map(|node| (node.endpoint.address.to_string(), node.role)).collect();
        let expected = [("10.0.0.1:1", Role::Master), ("seed:3", Role::Master), ("10.0.0.2:2", Role::Replica), ("seed:4", Role::Replica)];
        assert_eq!(seen, expected.map(|(address, role)| (address.to_owned(), role)));
        assert!(nodes.iter().all(|node| node.endpoint.password == seed.password && node.endpoint.username == seed.username));
    }

    #[test]
    fn nodes_without_an_address_are_an_error_and_no_guess() {
        let seed = Endpoint::parse("redis://seed:7000").unwrap();
        for reply in [
            Value::Array(vec![range(0, 16383, vec![node(Some("?"), 1)])]),
            Value::Array(vec![range(0, 16383, vec![node(Some("h"), 0)])]),
            Value::Array(Vec::new()),
            Value::Simple("OK".into()),
        ] {
            assert!(read_slots(&seed, &reply).is_err(), "{reply:?}");
        }
    }
}
