//! The timed part of a load: callers in a closed loop, or at the planned times of an open one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::arrivals::{Arrivals, OpenLoop};
use super::errors::{ErrorCount, Errors};
use super::issue::{Batch, Fault, Issue};
use super::pacer::{Paced, Pacer, Queue};
use super::ticker::{Collected, Observer, Second, Ticker, Watched};
use crate::interrupt::wait;
use crate::measure::clock::nanos;
use crate::measure::{Classes, Snapshot, Tally, Usage};
use crate::workload::mix::Mix;

/// What a load does. At least one of `commands` and `time` is set.
#[derive(Clone, Debug)]
pub struct Job {
    /// Tasks that send, each waiting for its reply before its next command.
    pub callers: usize,
    /// Commands sent together; 1 for single commands.
    pub pipeline: usize,
    /// Each batch is a transaction: MULTI, the commands, EXEC.
    pub transaction: bool,
    /// Ends after exactly this many commands.
    pub commands: Option<u64>,
    /// No command is sent after this time.
    pub time: Option<Duration>,
    /// At planned times; `None` = each caller sends as soon as it has its reply.
    pub open: Option<OpenLoop>,
    /// Of the planned times, where they are random.
    pub seed: u64,
    /// Number of the first command in the mix's sequence.
    pub first: u64,
    /// Count errors instead of stopping at the first.
    pub continue_on_error: bool,
    /// Check the replies.
    pub verify: bool,
    /// A run in which nothing has ended for so long, with commands under way, is given up; so is waiting for the last replies.
    pub patience: Duration,
}

/// Why a load ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All commands, or the time.
    Done,
    /// An error.
    OnError,
    /// Ctrl-C.
    Interrupted,
    /// Replies did not come.
    Stalled,
}

/// How an open loop kept to its plan. In commands.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Planned to be sent until the end.
    pub offered: u64,
    /// Sent.
    pub sent: u64,
    /// Due and not sent at the moment when the last one was due.
    pub backlog: u64,
    /// Callers that there were.
    pub callers: usize,
    /// Whether the plan went to its end: no error and no Ctrl-C before.
    pub whole: bool,
    /// Commands planned for one moment.
    pub together: u64,
    /// How long the offered commands take at the planned rate.
    pub span: Duration,
    /// How late we ourselves released them, nanoseconds.
    pub lateness: Histogram<u64>,
    /// CPU time that releasing them took; it is part of the client's.
    pub pacer_cpu: Duration,
}

impl Kept {
    /// Whether client and server could not keep up: when the last command was due, more than 1 % of all were not sent, and
    /// more than one for each caller; those planned for that very moment left out. Of a plan that was given up it is not known.
    #[must_use]
    pub fn overloaded(&self) -> bool {
        self.whole && too_late(self.backlog, self.together, self.offered, self.callers)
    }
}

/// Whether a backlog is more than the start and end of a run explain. In commands.
fn too_late(backlog: u64, together: u64, offered: u64, callers: usize) -> bool {
    let late = backlog.saturating_sub(together);
    late > offered / 100 && late > callers as u64
}

/// What came of a load.
pub struct Outcome {
    /// Why it ended.
    pub ended: Ended,
    /// From the release of the callers to the last reply; in an open loop with a time not shorter than that.
    pub elapsed: Duration,
    /// What this process used.
    pub client: Usage,
    /// Counts and latencies by entry.
    pub total: Classes,
    /// The same by class of each entry, [`Issue::CLASSES`] after another for each; `None` where there is but one.
    pub classes: Option<Classes>,
    /// The series.
    pub seconds: Vec<Second>,
    /// Failures by kind.
    pub errors: Vec<ErrorCount>,
    /// Commands by entry that were answered with an error or a wrong reply.
    pub refused: Vec<u64>,
    /// Commands whose fate is unknown: no reply came.
    pub unanswered: u64,
    /// Those of them that were given up with the run. They are in no entry's count, and in `errors` as `unanswered`.
    pub abandoned: u64,
    /// Batches that were answered: explicit pipelines, transactions, single commands.
    pub batches: u64,
    /// `None` in a closed loop.
    pub kept: Option<Kept>,
    /// The observer, given back.
    pub observer: Observer,
}

/// Most commands that a caller takes at once.
const LONGEST_STRETCH: u64 = 32;
/// How long after the planned end arrivals that were due before it are still sent.
const GRACE: Duration = Duration::from_millis(100);
/// Longest that the last replies are waited for after an interruption.
const LONGEST_DRAIN: Duration = Duration::from_secs(20);
/// How often it is looked whether a run still goes on.
const LOOK: Duration = Duration::from_millis(50);

struct Shared {
    mix: Arc<Mix>,
    job: Job,
    tally: Arc<Tally>,
    errors: Errors,
    refused: Box<[AtomicU64]>,
    unanswered: AtomicU64,
    abandoned: AtomicU64,
    batches: AtomicU64,
    /// Next command of a closed loop.
    next: AtomicU64,
    queue: Option<Arc<Queue>>,
    /// Batches under way in an open loop.
    under_way: AtomicU64,
    /// No further command is to be sent.
    stop: AtomicBool,
    failed: Notify,
    ready: AtomicUsize,
    all_ready: Notify,
}

/// Commands under way; dropped with some, their fate is unknown.
struct Flight<'a> {
    shared: &'a Shared,
    commands: u64,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.shared.abandoned.fetch_add(self.commands, Ordering::AcqRel);
    }
}

impl Shared {
    /// Sends one batch and notes what came of it. Returns when its last reply was there.
    #[inline]
    async fn exchange<I: Issue>(
        &self,
        issue: &I,
        batch: &mut Batch,
        flight: &mut Flight<'_>,
        begun: Instant,
        planned: Option<Instant>,
    ) -> Instant {
        issue.issue(&self.mix, batch, self.job.verify).await;
        let ended = batch.ended::<I>();
        let since = |earlier: Instant| nanos(ended.saturating_duration_since(earlier));
        let (service, planned) = (since(begun), planned.map(since));
        if batch.is_plain() {
            self.tally.shard().note(batch.class::<I>(batch.first_entry()), flight.commands, service, planned);
            self.batches.fetch_add(1, Ordering::Relaxed);
        } else {
            self.settle::<I>(batch, service, planned);
        }
        flight.commands = 0;
        ended
    }

    fn settle<I: Issue>(&self, batch: &mut Batch, service: u64, planned: Option<u64>) {
        let (mut answered, mut failed) = (false, false);
        // A batch of several commands is of one class.
        let class = batch.class::<I>(0);
        for (entry, fault) in batch.outcomes() {
            let Some(fault) = fault else {
                answered = true;
                self.tally.shard().note(entry * I::CLASSES + class, 1, service, planned);
                continue;
            };
            failed = true;
            self.tally.shard().0[entry * I::CLASSES + class].failed += 1;
            if matches!(fault, Fault::Unanswered(_)) {
                self.unanswered.fetch_add(1, Ordering::AcqRel);
            } else {
                answered = true;
                self.refused[entry].fetch_add(1, Ordering::AcqRel);
            }
            self.errors.note(&fault);
        }
        self.batches.fetch_add(u64::from(answered), Ordering::Relaxed);
        if failed && !self.job.continue_on_error {
            self.end_all();
            self.failed.notify_one();
        }
    }

    /// Whether more is late, after all was released, than can be caught up with.
    fn is_overloaded(&self, queue: &Queue) -> bool {
        let unit = self.job.pipeline as u64;
        let together = self.job.open.as_ref().map_or(unit, |open| open.burst.max(unit));
        too_late(queue.backlog_at_end() * unit, together, queue.released() * unit, self.job.callers)
    }

    /// Has no further command be sent.
    fn end_all(&self) {
        self.stop.store(true, Ordering::Release);
        if let Some(queue) = &self.queue {
            queue.end(self.job.callers);
        }
    }

    /// A number that grows whenever a command ends.
    fn progress(&self) -> u64 {
        self.batches.load(Ordering::Acquire) + self.unanswered.load(Ordering::Acquire)
    }

    /// A caller of a closed loop.
    async fn closed<I: Issue>(&self, issue: &I, start: Instant, stretch: u64) -> Instant {
        let mut batch = Batch::new(self.job.pipeline);
        let mut flight = Flight { shared: self, commands: 0 };
        let until = self.job.time.map(|time| start + time);
        let budget = self.job.commands.unwrap_or(u64::MAX);
        let mut last = start;
        loop {
            let first = self.next.fetch_add(stretch, Ordering::Relaxed);
            if first >= budget {
                return last;
            }
            let end = (first + stretch).min(budget);
            let mut at = first;
            while at < end {
                let count = (self.job.pipeline as u64).min(end - at);
                batch.fill(&self.mix, self.job.first + at, count as usize);
                let begun = Instant::now();
                if self.stop.load(Ordering::Relaxed) || until.is_some_and(|until| begun >= until) {
                    return last;
                }
                flight.commands = count;
                last = self.exchange(issue, &mut batch, &mut flight, begun, None).await;
                issue.rest().await;
                at += count;
            }
        }
    }

    /// A caller of an open loop.
    async fn open<I: Issue>(&self, issue: &I, start: Instant, queue: &Queue) -> Instant {
        let mut batch = Batch::new(self.job.pipeline);
        let mut flight = Flight { shared: self, commands: 0 };
        let unit = self.job.pipeline as u64;
        let mut last = start;
        while let Some(arrival) = queue.take().await {
            let first = arrival.number * unit;
            let count = self.job.commands.map_or(unit, |commands| unit.min(commands - first));
            batch.fill(&self.mix, self.job.first + first, count as usize);
            self.under_way.fetch_add(1, Ordering::AcqRel);
            flight.commands = count;
            let begun = Instant::now();
            last = self.exchange(issue, &mut batch, &mut flight, begun, Some(start + arrival.planned)).await;
            self.under_way.fetch_sub(1, Ordering::AcqRel);
            issue.rest().await;
        }
        last
    }
}

/// Runs `job` over `issue` on the current runtime, to its end, an error, an interruption or a standstill. `threads` is how
/// many threads the runtime's workers are.
pub async fn run<I: Issue>(issue: &I, mix: &Arc<Mix>, job: &Job, threads: usize, observer: Observer) -> Outcome {
    let entries = mix.entries().len();
    let unit = job.pipeline as u64;
    let plan = job.open.as_ref().map(|open| Arrivals::new(open, unit, job.seed));
    let most = job.commands.map_or(u64::MAX, |commands| commands.div_ceil(unit));
    let shared = Arc::new(Shared {
        mix: mix.clone(),
        job: job.clone(),
        tally: Arc::new(Tally::new(threads, entries * I::CLASSES)),
        errors: Errors::default(),
        refused: (0..entries).map(|_| AtomicU64::new(0)).collect(),
        unanswered: AtomicU64::new(0),
        abandoned: AtomicU64::new(0),
        batches: AtomicU64::new(0),
        next: AtomicU64::new(0),
        queue: plan.clone().map(|plan| Arc::new(Queue::new(plan, most))),
        under_way: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        failed: Notify::new(),
        ready: AtomicUsize::new(0),
        all_ready: Notify::new(),
    });
    let stretch = stretch(job);
    let (release, released) = watch::channel(None);
    let mut tasks = JoinSet::new();
    for _ in 0..job.callers {
        let (issue, shared, mut released) = (issue.clone(), shared.clone(), released.clone());
        tasks.spawn(async move {
            if shared.ready.fetch_add(1, Ordering::AcqRel) + 1 == shared.job.callers {
                shared.all_ready.notify_one();
            }
            // An error would mean that the run was given up.
            let start = released.wait_for(Option::is_some).await.ok().and_then(|start| *start);
            let start = start.unwrap_or_else(Instant::now);
            match &shared.queue {
                Some(queue) => shared.open(&issue, start, queue).await,
                None => shared.closed(&issue, start, stretch).await,
            }
        });
    }
    shared.all_ready.notified().await;
    let snapshot = Snapshot::take();
    let start = Instant::now();
    let watched =
        Watched { tally: shared.tally.clone(), entries, classes: I::CLASSES, queue: shared.queue.clone().map(|queue| (unit, queue)) };
    let ticker = Ticker::start(watched, start, observer);
    // Cannot fail: every caller holds a receiver.
    let _ = release.send(Some(start));
    let pacer = plan.clone().zip(shared.queue.clone()).map(|(plan, queue)| Pacer::start(plan, queue, start, job.time, job.callers));
    let (ended, last) = supervise(&shared, &mut tasks, start).await;
    let client = snapshot.usage();
    let paced = pacer.map(Pacer::stop);
    let Collected { total, seconds, observer } = ticker.stop();
    let (total, classes) = if I::CLASSES > 1 { (total.joined(I::CLASSES), Some(total)) } else { (total, None) };
    let kept = shared.queue.as_ref().zip(paced).zip(plan).map(|((queue, paced), plan)| kept(job, queue, paced, plan, ended));
    // A time that was given is the run's, though nothing may have been due at its end.
    let planned = match (&kept, ended, job.time) {
        (Some(kept), Ended::Done, Some(time)) if kept.span == time => time,
        _ => Duration::ZERO,
    };
    let load = |number: &AtomicU64| number.load(Ordering::Acquire);
    let (errors, abandoned) = (shared.errors.list(), load(&shared.abandoned));
    let first = "no reply when the run was given up".to_owned();
    let given_up = (abandoned > 0).then(|| ErrorCount { kind: "unanswered".to_owned(), count: abandoned, first });
    Outcome {
        ended,
        elapsed: (last - start).max(planned),
        client,
        total,
        classes,
        seconds,
        errors: errors.into_iter().chain(given_up).collect(),
        refused: shared.refused.iter().map(load).collect(),
        unanswered: load(&shared.unanswered) + abandoned,
        abandoned,
        batches: load(&shared.batches),
        kept,
        observer,
    }
}

/// How many commands a caller of a closed loop takes at once: few enough that all stay busy to the end.
fn stretch(job: &Job) -> u64 {
    let unit = job.pipeline as u64;
    let share = job.commands.unwrap_or(u64::MAX) / (job.callers as u64 * 8);
    let stretch = share.clamp(1, LONGEST_STRETCH);
    stretch.div_ceil(unit) * unit
}

fn kept(job: &Job, queue: &Queue, paced: Paced, mut plan: Arrivals, ended: Ended) -> Kept {
    let unit = job.pipeline as u64;
    let most = job.commands.unwrap_or(u64::MAX);
    let commands = |arrivals: u64| (arrivals * unit).min(most);
    let together = plan.together() * unit;
    let span = match job.time {
        // The plan went on to its end in time.
        Some(time) if ended == Ended::Done && commands(queue.released()) < most => time,
        _ => {
            // Until the command after the last would be due.
            let last = (0..queue.released()).filter_map(|_| plan.next()).last();
            plan.peek().or(last).unwrap_or_default().min(job.time.unwrap_or(Duration::MAX))
        }
    };
    let (released, sent) = (commands(queue.released()), commands(queue.taken()));
    let (offered, backlog) = match (&job.open, job.time) {
        // A rate beyond what can be released: the plan says what was offered, not how far we came with it.
        (Some(open), Some(time)) if ended == Ended::Done && !queue.is_complete() => {
            let offered = (open.schedule.commands_before(time) as u64).clamp(released, most.max(released));
            (offered, offered - sent.min(offered))
        }
        _ => (released, commands(queue.backlog_at_end())),
    };
    let whole = matches!(ended, Ended::Done | Ended::Stalled);
    Kept { offered, sent, backlog, callers: job.callers, whole, together, span, lateness: paced.lateness, pacer_cpu: paced.cpu }
}

/// Waits for the callers, and ends them when the run is over for another reason. Returns that reason and the last reply's time.
async fn supervise(shared: &Shared, tasks: &mut JoinSet<Instant>, start: Instant) -> (Ended, Instant) {
    let job = &shared.job;
    let mut ended = Ended::Done;
    let mut last = start;
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut seen, mut moved) = (0, Instant::now());
    // When the last replies must have come.
    let mut deadline: Option<Instant> = None;
    let end_all = || shared.end_all();
    loop {
        tokio::select! {
            joined = tasks.join_next() => match joined {
                None => {
                    // The last command of all may be the one that failed.
                    let failed = ended == Ended::Done && !job.continue_on_error && !shared.errors.is_empty();
                    return (if failed { Ended::OnError } else { ended }, last);
                }
                Some(Ok(finished)) => last = last.max(finished),
                Some(Err(error)) if error.is_cancelled() => {}
                Some(Err(panic)) => {
                    shared.errors.note(&Fault::Unanswered(crate::drivers::Error::Client(format!("a caller panicked: {panic}"))));
                    ended = Ended::OnError;
                    end_all();
                }
            },
            () = wait(), if ended == Ended::Done => {
                ended = Ended::Interrupted;
                deadline = Some(Instant::now() + job.patience.min(LONGEST_DRAIN));
                end_all();
            }
            () = shared.failed.notified(), if ended == Ended::Done => {
                ended = Ended::OnError;
                deadline = Some(Instant::now() + job.patience);
                end_all();
            }
            _ = look.tick() => {
                let now = Instant::now();
                if let (Some(queue), Some(time)) = (&shared.queue, job.time) {
                    let over = now.saturating_duration_since(start + time);
                    // What is late is sent all the same, or the longest latencies would be missing; unless it is so much that
                    // there is no latency to report.
                    let hopeless = || !queue.is_complete() || shared.is_overloaded(queue);
                    let done = queue.is_complete() && queue.backlog() == 0;
                    if deadline.is_none() && now >= start + time && (done || over >= GRACE && hopeless()) {
                        deadline = Some(now + job.patience);
                        end_all();
                    }
                }
                let ended_now = shared.progress();
                let idle = shared.queue.is_some() && shared.under_way.load(Ordering::Acquire) == 0;
                if ended_now != seen || idle {
                    (seen, moved) = (ended_now, now);
                }
                if now >= moved + job.patience || deadline.is_some_and(|deadline| now >= deadline) {
                    if ended == Ended::Done {
                        ended = Ended::Stalled;
                    }
                    last = now;
                    end_all();
                    // Waits until all are dropped, so that what was under way is counted.
                    tasks.shutdown().await;
                    return (ended, last);
                }
            }
        }
    }
}
