//! What a driver can subscribe to, for people and machines.

use serde::Serialize;

use crate::drivers::{Descriptor, Kind, Resp, Topology};

#[derive(Serialize)]
pub struct PubSub {
    pub way: Option<&'static str>,
    subscriptions: Vec<Subscriptions>,
    buffer: Option<Buffer>,
}

#[derive(Serialize)]
struct Subscriptions {
    topology: String,
    resp: u8,
    kinds: Vec<Kind>,
    /// Why the other kinds are not possible.
    reasons: Vec<&'static str>,
}

#[derive(Serialize)]
struct Buffer {
    /// Messages; none where no number of messages limits it.
    capacity: Option<usize>,
    settable: bool,
    when_full: String,
}

impl PubSub {
    pub fn new(driver: &Descriptor) -> Self {
        let topologies = [Topology::Standalone, Topology::Cluster];
        let each = topologies.iter().flat_map(|&topology| driver.resp.iter().map(move |&resp| (topology, resp)));
        let subscriptions = each.map(|(topology, resp)| {
            let (mut kinds, mut reasons) = (Vec::new(), Vec::new());
            for kind in Kind::ALL {
                match (driver.pubsub.kinds)(topology, resp, kind) {
                    Ok(()) => kinds.push(kind),
                    Err(reason) if reasons.contains(&reason) => {}
                    Err(reason) => reasons.push(reason),
                }
            }
            Subscriptions { topology: topology.to_string(), resp: resp.into(), kinds, reasons }
        });
        let buffer = driver.pubsub.buffer.map(|buffer| Buffer {
            capacity: buffer.capacity,
            settable: buffer.settable,
            when_full: buffer.when_full.to_string(),
        });
        Self { way: driver.pubsub.is_supported().then_some(driver.pubsub.way), subscriptions: subscriptions.collect(), buffer }
    }

    /// The kinds on a topology with a version of the protocol.
    pub fn cell(&self, topology: Topology, resp: Resp) -> String {
        let found = self.subscriptions.iter().find(|one| one.topology == topology.to_string() && one.resp == u8::from(resp));
        match found.map_or(&[][..], |one| &one.kinds) {
            [] => "–".to_owned(),
            kinds if kinds.len() == Kind::ALL.len() => "all".to_owned(),
            kinds => kinds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        }
    }

    pub fn buffer_cell(&self) -> String {
        match &self.buffer {
            None => "–".to_owned(),
            Some(Buffer { capacity: Some(capacity), when_full, .. }) => format!("{capacity}, {when_full}"),
            Some(Buffer { when_full, .. }) => when_full.clone(),
        }
    }

    /// Every reason why something is not possible, once.
    pub fn reasons(&self) -> Vec<&'static str> {
        let mut reasons: Vec<&'static str> = Vec::new();
        for reason in self.subscriptions.iter().flat_map(|one| &one.reasons) {
            if !reasons.contains(reason) {
                reasons.push(reason);
            }
        }
        reasons
    }
}
