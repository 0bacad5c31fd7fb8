//! One run of a cell: a closed loop of so many callers, timed and audited.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::commands::Keyspace;
use crate::drivers::{Commands, Error};
use crate::measure::{Snapshot, Usage};
use crate::target::audit::{Audit, Auditor, Expected, ServerUsage};

/// What one run gave.
#[derive(Clone, Debug)]
pub struct Run {
    /// Operations done, each with its reply checked.
    pub operations: u64,
    /// From the release of the callers to the last reply.
    pub elapsed: Duration,
    /// What this process used meanwhile.
    pub client: Usage,
    /// What the servers did meanwhile.
    pub server: ServerUsage,
    /// Whether the servers counted the same.
    pub audit: Audit,
}

/// Why a run gave no figure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A command failed.
    #[error("{kind} error after {done} of {wanted} operations: {text}")]
    Command {
        /// [`Error::kind`].
        kind: &'static str,
        /// The first error.
        text: String,
        /// Operations that succeeded, all callers.
        done: u64,
        /// Operations asked for.
        wanted: u64,
    },
    /// The run did not end in time.
    #[error("no end within {0:?}: replies are missing")]
    Stalled(Duration),
    /// The servers' counters could not be read.
    #[error("no audit: {0}")]
    NoAudit(String),
    /// The servers counted otherwise.
    #[error("audit failed: {0}")]
    Audit(String),
}

/// How much of a workload one run does, and how it is judged.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Commands to send, exactly.
    pub operations: u64,
    /// Tasks that send them, each waiting for its reply before its next command.
    pub callers: usize,
    /// Commands that the driver's checkouts add, for the audit.
    pub checkout: &'static [&'static str],
    /// When a run without an end is given up.
    pub deadline: Duration,
}

/// Runs a closed loop on the current runtime, audited.
///
/// The tasks are spawned and waiting before the clock starts; it stops when the last reply was read. Operations are shared
/// out evenly beforehand, so that no counter is contended while the clock runs.
///
/// # Errors
/// [`Failure`]; nothing of a failed run counts.
pub async fn measure<C: Commands>(client: &C, keyspace: &Arc<Keyspace>, load: &Load, auditor: &mut Auditor) -> Result<Run, Failure> {
    let no_audit = |error: Error| Failure::NoAudit(error.to_string());
    let Load { operations, deadline, .. } = *load;
    let before = auditor.before().await.map_err(no_audit)?;
    let timed = tokio::time::timeout(deadline, timed(client, keyspace, operations, load.callers)).await;
    let (elapsed, client_usage) = timed.map_err(|_| Failure::Stalled(deadline))??;
    let after = auditor.after().await.map_err(no_audit)?;
    let server = auditor.usage(&before, &after).map_err(no_audit)?;
    let calls = BTreeMap::from([(keyspace.command().to_owned(), operations)]);
    let audit = server.audit(&Expected { calls, checkout: load.checkout });
    if !audit.is_exact() {
        return Err(Failure::Audit(audit.deviations.join("; ")));
    }
    Ok(Run { operations, elapsed, client: client_usage, server, audit })
}

/// The timed part of [`measure`].
async fn timed<C: Commands>(
    client: &C,
    keyspace: &Arc<Keyspace>,
    operations: u64,
    callers: usize,
) -> Result<(Duration, Usage), Failure> {
    closed_loop(operations, callers, |caller, share| {
        let (client, keyspace) = (client.clone(), keyspace.clone());
        // Callers begin at different keys, so that they do not all ask for the same one.
        let first = caller * keyspace.len() / callers.max(1);
        async move {
            for index in 0..share as usize {
                if let Err(error) = keyspace.operate(&client, first + index).await {
                    return Err((index as u64, error));
                }
            }
            Ok(())
        }
    })
    .await
}

/// Runs `operations` shared out among `callers` tasks, each made by `caller(number, its share)`, and returns the time from
/// their release to the end of the last, with what the process used meanwhile. A caller that fails tells how many of its
/// operations had succeeded. Dropping the future aborts the callers.
///
/// # Errors
/// [`Failure::Command`] with the first error.
pub async fn closed_loop<F>(operations: u64, callers: usize, caller: impl Fn(usize, u64) -> F) -> Result<(Duration, Usage), Failure>
where
    F: Future<Output = Result<(), (u64, Error)>> + Send + 'static,
{
    let callers = callers.clamp(1, usize::try_from(operations).unwrap_or(usize::MAX).max(1));
    let ready = Arc::new((AtomicUsize::new(0), Notify::new()));
    let (release, released) = watch::channel(false);
    let mut tasks = JoinSet::new();
    for number in 0..callers {
        let share = operations / callers as u64 + u64::from((number as u64) < operations % callers as u64);
        let (work, ready, mut released) = (caller(number, share), ready.clone(), released.clone());
        tasks.spawn(async move {
            if ready.0.fetch_add(1, Ordering::AcqRel) + 1 == callers {
                ready.1.notify_one();
            }
            // An error would mean that the run was given up.
            let _ = released.wait_for(|&go| go).await;
            let result = work.await;
            (Instant::now(), share, result)
        });
    }
    ready.1.notified().await;
    let snapshot = Snapshot::take();
    let start = Instant::now();
    // Cannot fail: every caller holds a receiver.
    let _ = release.send(true);
    let (mut end, mut done, mut first_error) = (start, 0, None);
    while let Some(joined) = tasks.join_next().await {
        match joined {
            Ok((finished, share, Ok(()))) => {
                end = end.max(finished);
                done += share;
            }
            Ok((_, _, Err((succeeded, error)))) => {
                done += succeeded;
                first_error = first_error.or(Some(error));
            }
            Err(panic) => first_error = first_error.or(Some(Error::Client(format!("a caller panicked: {panic}")))),
        }
    }
    let usage = snapshot.usage();
    match first_error {
        None => Ok((end - start, usage)),
        Some(error) => Err(Failure::Command { kind: error.kind(), text: error.to_string(), done, wanted: operations }),
    }
}
