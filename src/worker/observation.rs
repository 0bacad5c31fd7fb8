//! One observation: a worker led through its work between two readings of the servers' counters, and held to them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::process::{Failure, Limits, Running};
use super::program::Program;
use super::protocol::{Measured, Ready, Request};
use crate::measure::clock::nanos;
use crate::net::Secret;
use crate::record::comparison::Figures;
use crate::target::audit::{Audit, Auditor, Expected, ServerUsage};

/// What an observation gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// Who it was.
    pub ready: Ready,
    /// The worker's figures.
    pub measured: Measured,
    /// What the servers did meanwhile.
    pub server: ServerUsage,
    /// Whether they counted the same; exact, or there would be no figures.
    pub audit: Audit,
    /// What it took besides the work: starting, connecting, warming up, ending.
    pub overhead: Duration,
}

/// Longest that a server may take for INFO.
const LONGEST_INFO: Duration = Duration::from_secs(10);
/// The part of our own time between go and answer, but for the time to write and read the answer, that the worker's must be at
/// least: its clock may not leave out half.
const LEAST_SHARE: f64 = 0.5;
/// The time to write and read an answer, at most.
const ANSWERED_WITHIN: Duration = Duration::from_millis(100);

/// Makes one observation.
///
/// # Errors
/// [`Failure`]: also when the servers counted otherwise than the worker, or its clock and ours disagree.
pub async fn observe(
    program: &Program,
    request: &Request,
    password: Option<&Secret>,
    auditor: &mut Auditor,
    started: impl FnOnce(u32),
) -> Result<Observed, Failure> {
    let nanos = Duration::from_nanos;
    let (patience, time) = (nanos(request.patience_ns), nanos(request.time_ns));
    // The worker gives up by itself after its patience, and then says more than we could.
    let limits = Limits {
        ready: Duration::from_secs(25) + nanos(request.warm_up_ns) * 3 + patience * 3,
        work: time * 3 + patience * 2,
        end: Duration::from_secs(10),
    };
    let begun = Instant::now();
    let (mut running, ready) = Running::start(program, request, password, limits, started).await?;
    let checkout = checkout(&ready)?;
    let before = reading(auditor.before()).await?;
    let sent = Instant::now();
    let measured = running.work().await?;
    let wall = sent.elapsed();
    let after = reading(auditor.after()).await?;
    running.end().await?;
    let server = auditor.usage(&before, &after).map_err(|error| Failure::Failed(format!("no audit: {error}")))?;
    let calls = BTreeMap::from([(request.workload.operation.counted_as().to_owned(), measured.operations)]);
    let audit = server.audit(&Expected::exactly(calls, checkout, auditor.masters()));
    if !audit.is_exact() {
        return Err(Failure::Failed(format!("audit failed: {}", audit.deviations.join("; "))));
    }
    plausible(&measured, wall).map_err(Failure::Failed)?;
    Ok(Observed { ready, measured, server, audit, overhead: begun.elapsed().saturating_sub(wall) })
}

async fn reading<T>(reading: impl Future<Output = Result<T, crate::drivers::Error>>) -> Result<T, Failure> {
    match tokio::time::timeout(LONGEST_INFO, reading).await {
        Ok(reading) => reading.map_err(|error| Failure::Failed(format!("no audit: {error}"))),
        Err(_) => Err(Failure::Failed(format!("no audit: a server did not answer INFO within {LONGEST_INFO:?}"))),
    }
}

/// The commands that checkouts may add: those that do nothing to keys, since the others belong to the work.
const HARMLESS: [&str; 3] = ["ping", "echo", "unwatch"];

/// Every choice of them, at the number whose bits are their places.
const CHOICES: [&[&str]; 8] =
    [&[], &["ping"], &["echo"], &["ping", "echo"], &["unwatch"], &["ping", "unwatch"], &["echo", "unwatch"], &["ping", "echo", "unwatch"]];

fn checkout(ready: &Ready) -> Result<&'static [&'static str], Failure> {
    let choice = ready.checkout.iter().try_fold(0, |bits: usize, name| {
        let bit = 1 << HARMLESS.iter().position(|known| known == name)?;
        (bits & bit == 0).then_some(bits | bit)
    });
    let choice = choice.and_then(|bits| CHOICES.get(bits).copied());
    choice.ok_or_else(|| {
        let (said, known) = (ready.checkout.join(", "), HARMLESS.join(", "));
        Failure::Failed(format!("the worker says that its checkouts send {said}; only {known} can be, each named once"))
    })
}

/// Whether the figures can be true, as far as we can see.
fn plausible(measured: &Measured, wall: Duration) -> Result<(), String> {
    let elapsed = Duration::from_nanos(measured.elapsed_ns);
    if measured.operations == 0 {
        return Err("not one operation was done".into());
    }
    if elapsed > wall {
        return Err(format!(
            "the worker says that it took {elapsed:?}, but it had only {wall:?} from {:?} to its answer",
            super::protocol::GO
        ));
    }
    if elapsed < wall.saturating_sub(ANSWERED_WITHIN).mul_f64(LEAST_SHARE) {
        return Err(format!("the worker says that it took {elapsed:?}, but its answer came only after {wall:?}"));
    }
    if let (Some(p50), Some(p99)) = (measured.p50_ns, measured.p99_ns)
        && (p50 > p99 || p99 > measured.elapsed_ns.saturating_add(1 << 20))
    {
        return Err(format!("latencies of {p50} ns (p50) and {p99} ns (p99) in {elapsed:?} can't be"));
    }
    Ok(())
}

impl Observed {
    /// As the record keeps it.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let measured = &self.measured;
        Figures {
            operations: measured.operations,
            elapsed_ns: measured.elapsed_ns,
            user_ns: measured.user_ns,
            system_ns: measured.system_ns,
            allocations: measured.allocations,
            allocated_bytes: measured.allocated_bytes,
            p50_ns: measured.p50_ns,
            p99_ns: measured.p99_ns,
            max_ns: measured.max_ns,
            peak_memory: measured.peak_memory,
            server_commands: self.audit.workload + self.audit.checkout,
            server_reads: self.server.reads,
            server_cpu_ns: self.server.cpu_ns,
            overhead_ns: nanos(self.overhead),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_cannot_be_are_refused() {
        let second = Duration::from_secs(1);
        let sound = Measured { operations: 10, elapsed_ns: 900_000_000, p50_ns: Some(10), p99_ns: Some(20), ..Measured::default() };
        assert_eq!(plausible(&sound, second), Ok(()));
        let told = |measured: Measured| plausible(&measured, second).unwrap_err();
        assert!(told(Measured { operations: 0, ..sound.clone() }).contains("not one"));
        assert!(told(Measured { elapsed_ns: 1_100_000_000, ..sound.clone() }).contains("had only 1s"));
        assert!(told(Measured { elapsed_ns: 440_000_000, ..sound.clone() }).contains("only after 1s"));
        assert!(told(Measured { p50_ns: Some(21), ..sound }).contains("21 ns (p50)"));
    }

    #[test]
    fn only_harmless_commands_may_be_of_checkouts() {
        let ready = |names: &[&str]| Ready { checkout: names.iter().map(|name| (*name).to_owned()).collect(), ..Ready::default() };
        assert_eq!(checkout(&ready(&["unwatch", "ping"])), Ok(&["ping", "unwatch"][..]));
        assert_eq!(checkout(&ready(&[])), Ok(&[][..]));
        for wrong in [&["get"][..], &["ping", "ping"]] {
            assert!(checkout(&ready(wrong)).unwrap_err().to_string().contains("only ping, echo, unwatch"));
        }
        for driver in crate::drivers::DRIVERS {
            assert!(checkout(&ready(driver.checkout)).is_ok(), "{}", driver.name);
        }
        assert!(CHOICES.iter().enumerate().all(|(bits, names)| bits.count_ones() as usize == names.len()));
    }
}
