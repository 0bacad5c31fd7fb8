//! What a stretch of work cost this process: CPU time, allocations, memory.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};

use super::alloc::{Allocations, allocations};

/// CPU time and allocations of the whole process at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    user: Duration,
    system: Duration,
    allocations: Option<Allocations>,
}

/// What was used between two snapshots.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in the kernel on our behalf.
    pub system: Duration,
    /// `None` without the counting allocator.
    pub allocations: Option<Allocations>,
}

impl Snapshot {
    /// Reads `getrusage(RUSAGE_SELF)`, which the kernel keeps to the microsecond, and the allocation counters.
    #[must_use]
    pub fn take() -> Self {
        let (user, system) = match getrusage(UsageWho::RUSAGE_SELF) {
            Ok(usage) => (duration(usage.user_time()), duration(usage.system_time())),
            // Can't fail with RUSAGE_SELF.
            Err(_) => (Duration::ZERO, Duration::ZERO),
        };
        Self { user, system, allocations: allocations() }
    }

    /// What was used since this snapshot.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let now = Self::take();
        Usage {
            user: now.user.saturating_sub(self.user),
            system: now.system.saturating_sub(self.system),
            allocations: now.allocations.zip(self.allocations).map(|(now, before)| now - before),
        }
    }
}

fn duration(time: nix::sys::time::TimeVal) -> Duration {
    Duration::from_secs(time.tv_sec().unsigned_abs()) + Duration::from_micros(time.tv_usec().unsigned_abs())
}

/// Forgets the peak so far, where the kernel allows it (Linux); from then on [`peak_memory`] is that of what follows.
pub fn reset_peak_memory() {
    // `5` resets the peak resident set size, see proc(5), /proc/pid/clear_refs. Not vital: the peak is then the process'.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Largest resident set size in bytes since the last reset, or of the process.
#[must_use]
pub fn peak_memory() -> Option<u64> {
    let from_proc = || {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
    };
    from_proc().or_else(|| {
        let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
        getrusage(UsageWho::RUSAGE_SELF).ok().map(|usage| usage.max_rss().unsigned_abs() * unit)
    })
}

/// Resident set size of this process now, bytes; `None` where `/proc` does not tell it.
#[must_use]
pub fn resident_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_shows_in_the_cpu_time() {
        let before = Snapshot::take();
        let mut sum = 0u64;
        while before.usage().user + before.usage().system < Duration::from_millis(5) {
            sum = (0..100_000u64).fold(sum, |sum, number| std::hint::black_box(sum ^ number));
        }
        assert!(before.usage().user >= Duration::from_millis(1));
    }

    #[test]
    fn a_touched_block_raises_the_peak() {
        reset_peak_memory();
        let before = peak_memory().expect("the peak is known");
        let block = std::hint::black_box(vec![1u8; 64 << 20]);
        assert!(peak_memory().unwrap() >= before + (32 << 20), "{}", block.len());
    }
}
