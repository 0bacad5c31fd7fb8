//! Which scenarios are played with which drivers, and what is refused before any work.

use std::time::{SystemTime, UNIX_EPOCH};

use super::Arguments;
use crate::cli::named_drivers;
use crate::drivers::{CacheMode, DRIVERS, Descriptor, Resp, Topology};
use crate::scenarios::{Scenario, Way};
use crate::target::Target;

/// One scenario with one driver in one mode.
#[derive(Clone, Copy)]
pub struct Turn {
    pub driver: &'static Descriptor,
    pub scenario: Scenario,
    pub way: Way,
}

/// The drivers that were named; none when all are meant.
///
/// # Errors
/// One sentence: a name that is unknown or given twice, or a driver without a cache.
pub fn named(arguments: &Arguments) -> Result<Vec<&'static Descriptor>, String> {
    let drivers = named_drivers(arguments.drivers.iter().map(String::as_str), "")?;
    for driver in &drivers {
        if !driver.cache.is_supported() {
            let topology = driver.topologies.first().copied().unwrap_or(Topology::Standalone);
            let why = why_not(driver, topology, CacheMode::All, false).unwrap_or("the driver has none");
            let able: Vec<_> = DRIVERS.iter().filter(|driver| driver.cache.is_supported()).map(|driver| driver.name).collect();
            return Err(format!("{} has no client-side cache: {why}; drivers that have one: {}", driver.name, able.join(", ")));
        }
    }
    if let Some(twice) = arguments.scenarios.iter().enumerate().find(|(place, one)| arguments.scenarios[..*place].contains(one)) {
        return Err(format!("the scenario {} is named twice; name it once", twice.1));
    }
    Ok(drivers)
}

fn why_not(driver: &Descriptor, topology: Topology, mode: CacheMode, noloop: bool) -> Option<&'static str> {
    (driver.cache.modes)(topology, Resp::V3, mode, noloop).err()
}

/// The turns in their order: client by client, the first mode before the others.
///
/// # Errors
/// One sentence: a driver that was named and can't do what was asked for on this target, or nothing left to play.
pub fn turns(arguments: &Arguments, named: &[&'static Descriptor], target: &Target) -> Result<Vec<Turn>, String> {
    let topology = target.topology();
    let asked = arguments.csc_mode.map(|mode| Way { mode, noloop: arguments.csc_noloop });
    if !target.server.at_least(6, 0) {
        return Err(format!("{} has no client-side caching; it needs 6.0 or later", target.server));
    }
    let first = asked.unwrap_or(Way::FIRST);
    for driver in named {
        if !driver.runs_on(topology) {
            return Err(format!("{} does not run on a {topology} target; leave it out, or see --topology", driver.name));
        }
        if let Some(why) = why_not(driver, topology, first.mode, first.noloop) {
            return Err(format!("{} can't cache in mode {first}: {why}", driver.name));
        }
    }
    let all = DRIVERS.iter().filter(|driver| driver.cache.is_supported() && driver.runs_on(topology));
    let drivers: Vec<_> = if named.is_empty() { all.collect() } else { named.to_vec() };
    let chosen = |scenario: &Scenario| arguments.scenarios.is_empty() || arguments.scenarios.contains(scenario);
    let possible = |scenario: &Scenario| scenario.check(topology, target.servers.endpoints.len(), target.is_ours(), first.mode);
    if let Some((scenario, why)) = arguments.scenarios.iter().find_map(|scenario| Some((scenario, possible(scenario).err()?))) {
        return Err(format!("the scenario {scenario} is not possible on this target: {why}"));
    }
    let mut turns = Vec::new();
    for driver in drivers {
        // What is not possible on this server is a row that says so; what only a cluster has is none of a single server's.
        let scenarios = Scenario::ALL.into_iter().filter(|scenario| topology == Topology::Cluster || !scenario.needs_cluster());
        let scenarios = scenarios.filter(chosen);
        turns.extend(scenarios.map(|scenario| Turn { driver, scenario, way: first }));
        if asked.is_none() {
            let further = Way::all().skip(1).filter(|way| why_not(driver, topology, way.mode, way.noloop).is_none());
            for way in further {
                let scenarios = Scenario::IN_EVERY_MODE.into_iter().filter(chosen);
                turns.extend(scenarios.map(|scenario| Turn { driver, scenario, way }));
            }
        }
    }
    Ok(turns)
}

/// A name for the keys of this run, so that two at once on one server do not meet.
pub fn run_name() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:x}-{:x}", std::process::id(), since.as_nanos())
}
