//! Scenarios of client-side caching: what a cache must forget, played against real servers, with every stale read counted.
//!
//! A scenario fills a fresh cache over fresh keys, changes the keys behind its back, waits until the server has told it, and
//! reads each key once. Nothing is timed against other clients. Generic over the client; names none.
//!
//! What separates "not yet told" from "stale" is the *delivery fence*: a command about a key that never exists, sent over the tracked
//! connection after the change was acknowledged, and its reply awaited. The server writes the invalidations of a change to that connection before
//! it answers anything that comes later, so with the fence's reply the client has received them. A read that begins after it and returns
//! what was there before is stale.

mod cluster;
mod expiry;
mod kill;
mod outcome;
mod play;
mod race;
mod room;
mod stage;
mod subject;
mod writes;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use outcome::{Account, Away, NOTICE_WITHIN, Played, Verdict};
pub use play::{Against, Ask, CELL_LIMIT, play, play_by_name};

use crate::drivers::{CacheMode, Topology};

/// Keys of a scenario, unless it says otherwise.
pub const KEYS: usize = 128;

/// What happens to cached keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
#[value(rename_all = "kebab-case")]
pub enum Scenario {
    /// An entry is older than the client's own time to live: it must be asked of the server again
    Ttl,
    /// The server expires the keys
    ServerExpiry,
    /// Another connection overwrites the keys: one by one, then all at once
    Overwrite,
    /// The cached client overwrites the keys itself
    OwnWrites,
    /// Another connection deletes the keys
    Delete,
    /// FLUSHALL on every master; only on servers that rcb starts
    Flushall,
    /// FLUSHDB on every master; only on servers that rcb starts
    Flushdb,
    /// The tracked connection is killed, and the keys are overwritten while it is away
    ClientKill,
    /// More keys than the cache may hold, then all of them are overwritten
    Eviction,
    /// The server has no room to remember who read what; only on servers that rcb starts
    TrackingTable,
    /// FLUSHALL on one master of a cluster; only on servers that rcb starts
    FlushOneMaster,
    /// A slot moves to another master and its keys are overwritten there; only on servers that rcb starts
    SlotMove,
    /// Callers read a key all the time while it is overwritten: is an old reply kept after its invalidation?
    Race,
}

impl Scenario {
    /// All of them, in the order in which they are played.
    pub const ALL: [Scenario; 13] = [
        Scenario::Overwrite,
        Scenario::OwnWrites,
        Scenario::Delete,
        Scenario::Ttl,
        Scenario::ServerExpiry,
        Scenario::Flushall,
        Scenario::Flushdb,
        Scenario::FlushOneMaster,
        Scenario::SlotMove,
        Scenario::ClientKill,
        Scenario::Eviction,
        Scenario::TrackingTable,
        Scenario::Race,
    ];

    /// Those that are also played in the modes beside the first.
    pub const IN_EVERY_MODE: [Scenario; 3] = [Scenario::Overwrite, Scenario::OwnWrites, Scenario::ClientKill];

    /// As the command line has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Scenario::Ttl => "ttl",
            Scenario::ServerExpiry => "server-expiry",
            Scenario::Overwrite => "overwrite",
            Scenario::OwnWrites => "own-writes",
            Scenario::Delete => "delete",
            Scenario::Flushall => "flushall",
            Scenario::Flushdb => "flushdb",
            Scenario::ClientKill => "client-kill",
            Scenario::Eviction => "eviction",
            Scenario::TrackingTable => "tracking-table",
            Scenario::FlushOneMaster => "flush-one-master",
            Scenario::SlotMove => "slot-move",
            Scenario::Race => "race",
        }
    }

    /// Whether it means nothing on a single server.
    #[must_use]
    pub fn needs_cluster(self) -> bool {
        matches!(self, Scenario::FlushOneMaster | Scenario::SlotMove)
    }

    /// Why it can't be played on such a target in such a mode, whatever the client.
    ///
    /// # Errors
    /// The reason.
    pub fn check(self, topology: Topology, masters: usize, ours: bool, mode: CacheMode) -> Result<(), &'static str> {
        use Scenario::{ClientKill, FlushOneMaster, Flushall, Flushdb, SlotMove, TrackingTable};
        match self {
            FlushOneMaster | SlotMove if topology == Topology::Standalone => Err("it needs a cluster"),
            FlushOneMaster | SlotMove if masters < 2 => Err("it needs a cluster of 2 masters or more"),
            Flushall | Flushdb | FlushOneMaster if !ours => Err("a server given by URL is somebody's, and is not flushed"),
            SlotMove if !ours => Err("a cluster given by URL is somebody's, and its slots stay where they are"),
            TrackingTable if !ours => Err("a server given by URL is somebody's, and is not configured"),
            ClientKill if !ours && topology == Topology::Cluster => {
                Err("on a cluster given by URL nobody can tell which tracked connections are ours, and no other is killed")
            }
            TrackingTable if mode == CacheMode::Broadcast => Err("in broadcast mode the server remembers no keys"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The mode of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Way {
    /// Which keys the server tells about.
    pub mode: CacheMode,
    /// No invalidation for what the client itself writes.
    pub noloop: bool,
}

impl Way {
    /// The first, in which every scenario is played.
    pub const FIRST: Self = Self { mode: CacheMode::All, noloop: false };

    /// All ways, the first first.
    pub fn all() -> impl Iterator<Item = Self> {
        CacheMode::ALL.into_iter().flat_map(|mode| [false, true].map(|noloop| Self { mode, noloop }))
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noloop = if self.noloop { ", noloop" } else { "" };
        write!(f, "{}{noloop}", self.mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_has_its_name_on_the_command_line_and_in_the_record() {
        use clap::ValueEnum;
        assert_eq!(Scenario::value_variants().len(), Scenario::ALL.len());
        for scenario in Scenario::ALL {
            assert_eq!(Scenario::from_str(scenario.name(), false), Ok(scenario));
            assert_eq!(serde_json::to_value(scenario).unwrap(), scenario.name());
        }
    }

    #[test]
    fn a_server_of_somebody_else_is_neither_flushed_nor_configured() {
        let refused: Vec<_> =
            Scenario::ALL.into_iter().filter(|scenario| scenario.check(Topology::Cluster, 3, false, CacheMode::All).is_err()).collect();
        use Scenario::*;
        assert_eq!(refused, [Flushall, Flushdb, FlushOneMaster, SlotMove, ClientKill, TrackingTable]);
        assert!(Scenario::ALL.into_iter().all(|scenario| scenario.check(Topology::Cluster, 3, true, CacheMode::All).is_ok()));
        assert_eq!(Way::all().next(), Some(Way::FIRST));
        assert_eq!(Way::all().map(|way| way.to_string()).collect::<Vec<_>>().join("; "), {
            "all; all, noloop; opt-in; opt-in, noloop; broadcast; broadcast, noloop"
        });
    }
}
