//! One clock for all processes of a machine, for times that travel inside of messages.

use std::sync::LazyLock;
use std::time::Duration;
#[cfg(not(unix))]
use std::time::Instant;

/// Whole nanoseconds; of what is too long to be told in them (584 years) the most that can be.
#[must_use]
#[inline]
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

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
    nanos(FIRST.elapsed())
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
    use std::time::{Duration, Instant};

    #[test]
    fn readings_never_go_back_and_pass_as_time_does() {
        let (start, before) = (Instant::now(), now_ns());
        while start.elapsed() < Duration::from_millis(2) {
            std::hint::spin_loop();
        }
        assert!(now_ns() - before >= 1_000_000);
        assert_eq!(clock_id(), clock_id());
    }
}
