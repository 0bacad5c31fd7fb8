//! What a driver can cache, for people and machines.

use serde::Serialize;

use crate::drivers::{CacheMode, CountedBy, Descriptor, Resp, Topology, Units};

#[derive(Serialize)]
pub struct Cache {
    /// None where the client has no cache.
    pub way: Option<&'static str>,
    modes: Vec<Modes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
}

#[derive(Serialize)]
struct Modes {
    topology: String,
    resp: u8,
    modes: Vec<CacheMode>,
    /// Those of `modes` that also work without invalidations for own writes.
    noloop: Vec<CacheMode>,
    /// Why the others are not possible.
    reasons: Vec<&'static str>,
}

#[derive(Serialize)]
struct Details {
    capacity: &'static str,
    hits_and_misses: CountedBy,
    invalidations: CountedBy,
    /// None where nobody can tell.
    evictions: Option<CountedBy>,
    beside_miss: Vec<Beside>,
    reconnects: bool,
    notes: &'static [&'static str],
}

/// What a miss sends beside the read.
#[derive(Serialize)]
struct Beside {
    mode: CacheMode,
    command: &'static str,
    calls: u64,
}

fn add(reasons: &mut Vec<&'static str>, reason: &'static str) {
    if !reasons.contains(&reason) {
        reasons.push(reason);
    }
}

impl Modes {
    fn new(driver: &Descriptor, topology: Topology, resp: Resp) -> Self {
        let (mut modes, mut noloop, mut reasons) = (Vec::new(), Vec::new(), Vec::new());
        for mode in CacheMode::ALL {
            for (without_own, list) in [(false, &mut modes), (true, &mut noloop)] {
                match (driver.cache.modes)(topology, resp, mode, without_own) {
                    Ok(()) => list.push(mode),
                    Err(reason) => add(&mut reasons, reason),
                }
            }
        }
        Self { topology: topology.to_string(), resp: resp.into(), modes, noloop, reasons }
    }
}

impl Cache {
    pub fn new(driver: &'static Descriptor) -> Self {
        let cache = &driver.cache;
        let each = driver.topologies.iter().flat_map(|&topology| driver.resp.iter().map(move |&resp| (topology, resp)));
        let details = cache.is_supported().then(|| Details {
            capacity: match cache.units {
                Units::Entries => "entries",
                Units::EntriesOrBytes => "entries or bytes",
            },
            hits_and_misses: cache.reads,
            invalidations: cache.invalidations,
            evictions: cache.evictions,
            beside_miss: CacheMode::ALL
                .into_iter()
                .flat_map(|mode| (cache.beside_miss)(mode).iter().map(move |&(command, calls)| Beside { mode, command, calls }))
                .collect(),
            reconnects: cache.reconnects,
            notes: cache.notes,
        });
        Self {
            way: cache.is_supported().then_some(cache.way),
            modes: each.map(|(topology, resp)| Modes::new(driver, topology, resp)).collect(),
            details,
        }
    }

    /// The columns of the table, without the driver's name; `None` for a driver without a cache.
    pub fn cells(&self) -> Option<[String; 7]> {
        let details = self.details.as_ref()?;
        let beside = details.beside_miss.iter().map(|Beside { mode, command, calls }| {
            let times = if *calls == 1 { String::new() } else { format!("{calls} ") };
            format!("{times}{} ({mode})", command.to_uppercase().replace('|', " "))
        });
        let beside: Vec<_> = beside.collect();
        Some([
            self.modes_cell(Topology::Standalone),
            self.modes_cell(Topology::Cluster),
            details.capacity.to_owned(),
            details.hits_and_misses.to_string(),
            details.evictions.map_or("nobody can tell".to_owned(), |who| who.to_string()),
            if beside.is_empty() { "–".to_owned() } else { beside.join(", ") },
            self.way.unwrap_or_default().to_owned(),
        ])
    }

    /// The modes on a topology with RESP3.
    fn modes_cell(&self, topology: Topology) -> String {
        let found = self.modes.iter().find(|one| one.topology == topology.to_string() && one.resp == u8::from(Resp::V3));
        let Some(Modes { modes, noloop, .. }) = found.filter(|one| !one.modes.is_empty() || !one.noloop.is_empty()) else {
            return "–".to_owned();
        };
        let list = |modes: &[CacheMode]| match modes {
            all if all.len() == CacheMode::ALL.len() => "every mode".to_owned(),
            some => some.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        };
        match noloop {
            none if none.is_empty() => list(modes),
            same if same == modes => format!("{}; noloop", list(modes)),
            some => format!("{}; noloop: {}", list(modes), list(some)),
        }
    }

    /// Every reason why something is not possible, once.
    pub fn reasons(&self) -> Vec<&'static str> {
        let mut reasons = Vec::new();
        self.modes.iter().flat_map(|one| &one.reasons).for_each(|reason| add(&mut reasons, reason));
        reasons
    }

    pub fn notes(&self) -> &'static [&'static str] {
        self.details.as_ref().map_or(&[], |details| details.notes)
    }
}
