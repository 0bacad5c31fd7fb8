//! Free ports on the loopback address.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::RangeInclusive;

/// A cluster node's bus listens this far above its port, by the cluster specification.
pub(super) const BUS_OFFSET: u16 = 10_000;

/// Below every system's range for outgoing connections, and so are the bus ports: what is free when we look
/// can then only be taken by another server.
const RANGE: RangeInclusive<u16> = 11_000..=22_000;

/// `count` ports on which nobody listens; with `bus`, their cluster bus ports are free as well.
///
/// # Errors
/// When there are too few.
pub(super) fn free(count: usize, bus: bool) -> io::Result<Vec<u16>> {
    // A random start, so that two of us at the same time rarely look at the same ports.
    free_from(RandomState::new().hash_one(std::process::id()) as usize % size(), count, bus)
}

fn size() -> usize {
    usize::from(RANGE.end() - RANGE.start()) + 1
}

fn free_from(start: usize, count: usize, bus: bool) -> io::Result<Vec<u16>> {
    let mut found = Vec::with_capacity(count);
    let mut held = Vec::new();
    for port in (0..size()).map(|step| RANGE.start() + ((start + step) % size()) as u16) {
        if found.len() == count {
            return Ok(found);
        }
        let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) else { continue };
        if bus {
            // Held until all are found, because another node's port could be this one's bus port.
            let Ok(bus) = TcpListener::bind((Ipv4Addr::LOCALHOST, port + BUS_OFFSET)) else { continue };
            held.push(bus);
        }
        held.push(listener);
        found.push(port);
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, format!("fewer than {count} free ports in {RANGE:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_bus_ports_are_all_different_and_none_is_taken() {
        let ports = free(20, true).unwrap();
        let mut all: Vec<u16> = ports.iter().flat_map(|port| [*port, port + BUS_OFFSET]).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 40);
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, ports[0])).unwrap();
        let port = taken.local_addr().unwrap().port();
        let next = free_from(usize::from(port - RANGE.start()), 1, false).unwrap();
        assert!(next[0] != port, "{port} is taken");
    }
}
