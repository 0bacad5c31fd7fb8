//! One run of a cell: a closed loop of so many callers, timed and audited.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::commands::Keyspace;
use crate::drivers::{Commands, Error};
use crate::interrupt::wait;
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
    #[error("no end within {0:?} (the deadline): replies are missing, or the run was to take longer")]
    Stalled(Duration),
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
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
/// The tasks are spawned and waiting before the clock starts; it stops when the last reply was read, see [`closed_loop`].
///
/// # Errors
/// [`Failure`]; nothing of a failed run counts.
pub async fn measure<C: Commands>(client: &C, keyspace: &Arc<Keyspace>, load: &Load, auditor: &mut Auditor) -> Result<Run, Failure> {
    let work = CellWork { client: client.clone(), keyspace: keyspace.clone() };
    let calls = BTreeMap::from([(keyspace.command().to_owned(), load.operations)]);
    audited(&work, calls, load, auditor).await
}

/// Runs `work` in a closed loop, after which the servers must have executed exactly `calls`, by lower-case command.
///
/// # Errors
/// [`Failure`]; nothing of a failed run counts.
pub async fn audited<W: Work>(work: &W, calls: BTreeMap<String, u64>, load: &Load, auditor: &mut Auditor) -> Result<Run, Failure> {
    let no_audit = |error: Error| Failure::NoAudit(error.to_string());
    let Load { operations, deadline, .. } = *load;
    let in_time = |reading: Result<Result<_, Error>, _>| match reading {
        Ok(reading) => reading.map_err(no_audit),
        Err(_) => Err(Failure::NoAudit(format!("a server did not answer INFO within {deadline:?}"))),
    };
    let before = in_time(tokio::time::timeout(deadline, auditor.before()).await)?;
    // Dropping the loop aborts its callers, also those that a client keeps waiting.
    let timed = tokio::select! {
        timed = tokio::time::timeout(deadline, closed_loop(operations, load.callers, work)) => timed,
        () = wait() => return Err(Failure::Interrupted),
    };
    let (elapsed, client_usage) = timed.map_err(|_| Failure::Stalled(deadline))??;
    let after = in_time(tokio::time::timeout(deadline, auditor.after()).await)?;
    let server = auditor.usage(&before, &after).map_err(no_audit)?;
    let audit = server.audit(&Expected::exactly(calls, load.checkout, auditor.masters()));
    if !audit.is_exact() {
        return Err(Failure::Audit(audit.deviations.join("; ")));
    }
    Ok(Run { operations, elapsed, client: client_usage, server, audit })
}

/// What the callers of a closed loop do, a stretch at a time.
pub trait Work: Clone + Send + Sync + 'static {
    /// Does the operations `first` to `first + count`, one after the other. A failure tells how many had succeeded.
    fn stretch(&self, first: u64, count: u64) -> impl Future<Output = Result<(), (u64, Error)>> + Send;
}

/// The timed part of a cell.
#[derive(Clone)]
pub struct CellWork<C> {
    /// The client.
    pub client: C,
    /// What is asked of it.
    pub keyspace: Arc<Keyspace>,
}

impl<C: Commands> Work for CellWork<C> {
    async fn stretch(&self, first: u64, count: u64) -> Result<(), (u64, Error)> {
        for done in 0..count {
            self.keyspace.operate(&self.client, (first + done) as usize).await.map_err(|error| (done, error))?;
        }
        Ok(())
    }
}

/// Most operations that a caller takes at once.
const LONGEST_STRETCH: u64 = 32;

/// Runs `operations` by `callers` tasks, and returns the time from their release to the end of the last, with what the
/// process used meanwhile. Dropping the future aborts the callers.
///
/// Callers take a short stretch of operations whenever they are done with one, so that all of them stay busy to the end even
/// where a client serves them unevenly, and the counter they share is touched once a stretch.
///
/// # Errors
/// [`Failure::Command`] with the first error.
pub async fn closed_loop<W: Work>(operations: u64, callers: usize, work: &W) -> Result<(Duration, Usage), Failure> {
    let callers = callers.clamp(1, usize::try_from(operations).unwrap_or(usize::MAX).max(1));
    let stretch = (operations / (callers as u64 * 8)).clamp(1, LONGEST_STRETCH);
    let next = Arc::new(AtomicU64::new(0));
    let all = together(callers, |_, mut gate| {
        let (work, next) = (work.clone(), next.clone());
        async move {
            gate.pass().await;
            let mut done = 0;
            loop {
                let first = next.fetch_add(stretch, Ordering::Relaxed);
                if first >= operations {
                    return (Instant::now(), done, None);
                }
                let count = stretch.min(operations - first);
                if let Err((succeeded, error)) = work.stretch(first, count).await {
                    return (Instant::now(), done + succeeded, Some(error));
                }
                done += count;
            }
        }
    })
    .await;
    match all.first_error {
        None => Ok((all.elapsed, all.client)),
        Some(error) => Err(Failure::Command { kind: error.kind(), text: error.to_string(), done: all.done, wanted: operations }),
    }
}

/// What callers did together.
pub(super) struct Together {
    /// From their release to the end of the last.
    pub(super) elapsed: Duration,
    /// What the process used meanwhile.
    pub(super) client: Usage,
    /// Operations that succeeded.
    pub(super) done: u64,
    /// The first error.
    pub(super) first_error: Option<Error>,
}

/// When a caller was done, the operations that succeeded, and what ended it early.
pub(super) type Ended = (Instant, u64, Option<Error>);

/// Spawns the tasks that `caller` makes, by number, releases them when all of them wait at their [`Gate`], and waits for
/// the last. Dropping the future aborts them.
pub(super) async fn together<F: Future<Output = Ended> + Send + 'static>(callers: usize, caller: impl Fn(usize, Gate) -> F) -> Together {
    let shared = Arc::new(Start { callers, ready: AtomicUsize::new(0), all_ready: Notify::new() });
    let (release, released) = watch::channel(None);
    let mut tasks = JoinSet::new();
    for number in 0..callers {
        tasks.spawn(caller(number, Gate { shared: shared.clone(), released: released.clone() }));
    }
    shared.all_ready.notified().await;
    let snapshot = Snapshot::take();
    let start = Instant::now();
    // Cannot fail: every caller holds a receiver.
    let _ = release.send(Some(start));
    let (mut end, mut done, mut first_error) = (start, 0, None);
    while let Some(joined) = tasks.join_next().await {
        match joined {
            Ok((finished, succeeded, error)) => {
                end = end.max(finished);
                done += succeeded;
                first_error = first_error.or(error);
            }
            Err(panic) => first_error = first_error.or(Some(Error::Client(format!("a caller panicked: {panic}")))),
        }
    }
    Together { elapsed: end - start, client: snapshot.usage(), done, first_error }
}

/// Where a caller waits until all of them are there.
pub(super) struct Gate {
    shared: Arc<Start>,
    released: watch::Receiver<Option<Instant>>,
}

impl Gate {
    /// Waits, and returns the moment of the release.
    pub(super) async fn pass(&mut self) -> Instant {
        if self.shared.ready.fetch_add(1, Ordering::AcqRel) + 1 == self.shared.callers {
            self.shared.all_ready.notify_one();
        }
        // An error would mean that the run was given up.
        let start = self.released.wait_for(Option::is_some).await.ok().and_then(|start| *start);
        start.unwrap_or_else(Instant::now)
    }
}

/// What the callers of one run share.
struct Start {
    callers: usize,
    ready: AtomicUsize,
    all_ready: Notify,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Clone, Default)]
    struct Noted(Arc<Mutex<Vec<u64>>>, Option<u64>);

    impl Work for Noted {
        async fn stretch(&self, first: u64, count: u64) -> Result<(), (u64, Error)> {
            for done in 0..count {
                if self.1 == Some(first + done) {
                    return Err((done, Error::Client("scripted".into())));
                }
                self.0.lock().unwrap().push(first + done);
                tokio::task::yield_now().await;
            }
            Ok(())
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_operation_is_done_exactly_once_divisible_or_not() {
        for (operations, callers) in [(1, 1), (1, 50), (7, 3), (100, 7), (10_003, 50)] {
            let work = Noted::default();
            closed_loop(operations, callers, &work).await.unwrap();
            let mut done = work.0.lock().unwrap().clone();
            done.sort_unstable();
            assert_eq!(done, (0..operations).collect::<Vec<_>>());
        }
    }

    #[tokio::test]
    async fn a_failed_operation_fails_the_run_with_what_had_succeeded() {
        let work = Noted(Arc::default(), Some(5));
        let failure = closed_loop(10, 1, &work).await.unwrap_err();
        let wanted = Failure::Command { kind: "client", text: "client error: scripted".into(), done: 5, wanted: 10 };
        assert_eq!(failure, wanted);
    }
}
