//! One clock for all processes of a machine, for times that travel inside of messages.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// The time `ago` before now, on the clock of [`now_ns`]; used to turn an [`Instant`] into it.
static START: LazyLock<(Instant, u64)> = LazyLock::new(|| (Instant::now(), read()));

/// Nanoseconds of the monotonic clock: the same for every process since the machine was started, never set back.
#[must_use]
#[inline]
pub fn now_ns() -> u64 {
    read()
}

#[cfg(unix)]
#[inline]
fn read() -> u64 {
    match nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC) {
        Ok(time) => (time.tv_sec() as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec() as u64),
        // Can't fail for this clock.
        Err(_) => 0,
    }
}

#[cfg(not(unix))]
fn read() -> u64 {
    static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(FIRST.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// `instant` on the clock of [`now_ns`], to within the time that two readings of a clock take.
#[must_use]
pub fn at_ns(instant: Instant) -> u64 {
    let (start, start_ns) = *START;
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    match instant.checked_duration_since(start) {
        Some(later) => start_ns.saturating_add(nanos(later)),
        None => start_ns.saturating_sub(nanos(start.duration_since(instant))),
    }
}

/// Tells the clock of this machine, since its last start, from those of others. Times of two clocks can't be compared.
#[must_use]
pub fn clock_id() -> u32 {
    static ID: LazyLock<u32> = LazyLock::new(|| {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_else(|_| std::process::id().to_string());
        // FNV-1a, 32 bits.
        boot.trim().bytes().fold(0x811C_9DC5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
    });
    *ID
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_never_go_back_and_instants_fit_in() {
        let before = now_ns();
        let instant = Instant::now();
        let after = now_ns();
        assert!(before <= after);
        // The two pairs of readings are not taken at the same time; a millisecond is far beyond what they take.
        let placed = at_ns(instant);
        assert!(placed + 50_000_000 >= before && placed <= after + 50_000_000, "{before} {placed} {after}");
        assert_eq!(clock_id(), clock_id());
    }
}
