//! Forming a cluster of fresh servers with plain commands, and waiting until it is whole.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::bring_up::{Failure, Host, POLL, failure_of};
use super::inspect::read_slots;
use super::probe::Probe;
use super::{Info, Role, TargetError};
use crate::error::Error;
use crate::resp::{SLOTS, Value};

/// How long a cluster may take to become whole.
const WHOLE_WITHIN: Duration = Duration::from_secs(60);

/// Makes one cluster of the servers behind `nodes`: the first `masters` of them share the slots, the others
/// follow them in turn. Returns when every node reports `cluster_state:ok`, every slot is served, and every
/// replica is in sync and known to all.
pub(super) async fn form<H: Host>(host: &mut H, nodes: &mut [Probe], masters: usize) -> Result<(), Failure> {
    let mut wait = Wait { deadline: Instant::now() + WHOLE_WITHIN };
    let mut ids = Vec::with_capacity(nodes.len());
    for (index, node) in nodes.iter_mut().enumerate() {
        // Different epochs from the start: nodes with the same one would have to settle it first.
        node.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]).await?;
        if index < masters {
            let slots: Vec<String> = slots_of(index, masters).map(|slot| slot.to_string()).collect();
            let words: Vec<&str> = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str)).collect();
            node.ask(&words).await?;
        }
        let id = node.ask(&["CLUSTER", "MYID"]).await?;
        ids.push(id.as_str().unwrap_or_default().to_owned());
    }
    introduce(nodes).await?;
    for (index, node) in nodes.iter_mut().enumerate().skip(masters) {
        follow(host, &mut wait, node, &ids[index % masters]).await?;
    }
    loop {
        match missing(nodes, masters).await? {
            None => return Ok(()),
            Some(reason) => wait.on(host, reason).await?,
        }
    }
}

/// An equal share of the slots for the master `index`.
fn slots_of(index: usize, masters: usize) -> std::ops::Range<usize> {
    let slots = usize::from(SLOTS);
    index * slots / masters..(index + 1) * slots / masters
}

/// Each node meets those before it, so that nobody has to wait for gossip.
async fn introduce(nodes: &mut [Probe]) -> Result<(), TargetError> {
    let addresses: Vec<(String, String)> = nodes.iter().map(Probe::host_and_port).collect();
    for (index, node) in nodes.iter_mut().enumerate() {
        for (host, port) in &addresses[..index] {
            node.ask(&["CLUSTER", "MEET", host, port]).await?;
        }
    }
    Ok(())
}

/// Makes `node` a replica, as soon as it knows its master.
async fn follow<H: Host>(host: &mut H, wait: &mut Wait, node: &mut Probe, master: &str) -> Result<(), Failure> {
    loop {
        match node.try_ask(&["CLUSTER", "REPLICATE", master]).await {
            Ok(_) => return Ok(()),
            Err(Error::Server(reply)) => wait.on(host, format!("a replica can't follow its master: {reply}")).await?,
            Err(error) => return Err(node.explain(error).into()),
        }
    }
}

/// What the cluster still lacks.
async fn missing(nodes: &mut [Probe], masters: usize) -> Result<Option<String>, TargetError> {
    let count = nodes.len();
    for (index, node) in nodes.iter_mut().enumerate() {
        let state = node.info(&["CLUSTER", "INFO"]).await?;
        for (field, wanted) in [
            ("cluster_state", "ok".to_owned()),
            ("cluster_slots_assigned", SLOTS.to_string()),
            ("cluster_slots_ok", SLOTS.to_string()),
            ("cluster_known_nodes", count.to_string()),
            ("cluster_size", masters.to_string()),
        ] {
            if !state.is(field, &wanted) {
                return Ok(Some(format!("{} reports {field}:{}", node.name(), state.get(field).unwrap_or("nothing"))));
            }
        }
        let replication = node.info(&["INFO", "replication"]).await?;
        if let Some(reason) = out_of_sync(&replication, index >= masters, count / masters - 1) {
            return Ok(Some(format!("{} {reason}", node.name())));
        }
        let view = node.ask(&["CLUSTER", "SLOTS"]).await?;
        if !knows_all(node, &view, masters, count) {
            return Ok(Some(format!("{} does not know every node yet", node.name())));
        }
    }
    Ok(None)
}

fn out_of_sync(replication: &Info, replica: bool, replicas_each: usize) -> Option<String> {
    if replica {
        return (!replication.is("role", "slave") || !replication.is("master_link_status", "up"))
            .then(|| format!("reports master_link_status:{}", replication.get("master_link_status").unwrap_or("nothing")));
    }
    let online =
        (0..replicas_each).filter_map(|index| replication.get(&format!("slave{index}"))).filter(|line| line.contains("state=online"));
    let online = online.count();
    (online != replicas_each).then(|| format!("has {online} of {replicas_each} replicas online"))
}

fn knows_all(node: &Probe, view: &Value, masters: usize, count: usize) -> bool {
    let Ok(seen) = read_slots(node.endpoint(), view) else { return false };
    let of = |role| seen.iter().filter(|node| node.role == role).map(|node| &node.endpoint.address).collect::<HashSet<_>>().len();
    of(Role::Master) == masters && of(Role::Replica) == count - masters
}

/// A wait that ends when the time is over or a server is.
struct Wait {
    deadline: Instant,
}

impl Wait {
    async fn on<H: Host>(&mut self, host: &mut H, reason: String) -> Result<(), Failure> {
        if let Some(words) = host.ended().await {
            return Err(failure_of(host, words));
        }
        if Instant::now() > self.deadline {
            return Err(TargetError::NotReady { what: "the cluster".into(), after: WHOLE_WITHIN, reason }.into());
        }
        sleep(POLL).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_one_master_and_shares_differ_by_one_at_most() {
        for masters in 1..=20 {
            let shares: Vec<_> = (0..masters).map(|index| slots_of(index, masters)).collect();
            assert_eq!((shares[0].start, shares[masters - 1].end), (0, usize::from(SLOTS)));
            assert!(shares.windows(2).all(|pair| pair[0].end == pair[1].start));
            let sizes = shares.iter().map(ExactSizeIterator::len);
            assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1);
        }
    }

    #[test]
    fn a_master_is_in_sync_when_all_its_replicas_are_online() {
        let one = Info::parse("role:master\r\nconnected_slaves:2\r\nslave0:ip=1,state=online\r\nslave1:ip=2,state=wait_bgsave\r\n");
        assert_eq!(out_of_sync(&one, false, 2).as_deref(), Some("has 1 of 2 replicas online"));
        assert_eq!(out_of_sync(&one, false, 1), None);
        let down = Info::parse("role:slave\r\nmaster_link_status:down\r\n");
        assert!(out_of_sync(&down, true, 1).unwrap().ends_with("down"));
        assert_eq!(out_of_sync(&Info::parse("role:slave\r\nmaster_link_status:up\r\n"), true, 1), None);
    }
}
