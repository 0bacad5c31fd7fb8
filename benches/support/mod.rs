//! What the Criterion benches share: the session with its runtime, targets and record, and the way of a cell through
//! Criterion.
//!
//! Criterion decides which cells run and how long; it knows nothing of audits. So every timed run goes through here: a cell
//! that can't be connected, verified, timed or audited becomes a failed row and leaves no estimate behind.

// Each bench target uses its own part of this.
#![allow(dead_code)]

mod args;
pub mod pubsub;
mod session;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, SamplingMode, Throughput};
use redis_client_bench::plan::{BadConfig, BenchConfig, Group, PlannedCell};
use redis_client_bench::record::{Outcome, summarise};

use args::Mode;
use session::{Open, Session};

/// Runs one bench target: plans its cells with `plan`, sends them through Criterion, prints the table.
pub fn run(bench: &str, plan: fn(&BenchConfig) -> Vec<Group>) -> ExitCode {
    let config = match load_config() {
        Ok(config) => config.for_bench(bench),
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    let mode = Mode::from_args();
    let timing = &config.timing;
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(timing.warm_up_ms))
        .measurement_time(Duration::from_millis(timing.measurement_ms))
        .sample_size(timing.samples)
        // A tenth of the default: the intervals hardly change, and the analysis no longer takes longer than the measurement.
        .nresamples(10_000)
        .configure_from_args();
    let groups = plan(&config);
    let session = match Session::start(bench, config, mode) {
        Ok(session) => RefCell::new(session),
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    for group in &groups {
        let mut criterion_group = criterion.benchmark_group(&group.name);
        // Flat: each sample does the same number of operations, so that the samples can be told from the warm-up.
        criterion_group.sampling_mode(SamplingMode::Flat);
        if !group.line_chart {
            // A throughput equal for all members takes the place of the parameter, and no line can be drawn over it.
            criterion_group.throughput(Throughput::Elements(1));
        }
        for cell in &group.cells {
            if session.borrow().gave_up() {
                break;
            }
            bench_cell(&session, &mut criterion_group, group, cell);
        }
        criterion_group.finish();
    }
    criterion.final_summary();
    session.into_inner().finish()
}

pub(crate) fn load_config() -> Result<BenchConfig, BadConfig> {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/bench.toml");
    BenchConfig::load(std::env::var_os("RCB_CONFIG").as_deref().unwrap_or(own.as_ref()).as_ref())
}

/// The payload of an unwinding that only leaves Criterion; the reason is in the session.
struct CellFailed;

/// Leaves Criterion out of the middle of a benchmark. It has no way to give up on one; unwinding out of it leaves its files as
/// they were.
fn leave_criterion() -> ! {
    resume_unwind(Box::new(CellFailed))
}

/// Runs a benchmark that may leave Criterion.
fn in_criterion(benchmark: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(benchmark))
        && !payload.is::<CellFailed>()
    {
        resume_unwind(payload);
    }
}

/// Sends one cell through Criterion. The cell connects when Criterion first asks for a run, and never when a filter or
/// `--list` leaves it out.
fn bench_cell(session: &RefCell<Session>, group: &mut BenchmarkGroup<'_, WallTime>, planned: &Group, cell: &PlannedCell) {
    let id = BenchmarkId::new(&cell.function, &cell.parameter);
    let mut open: Option<Open> = None;
    let mut runs = Vec::new();
    let mut failure: Option<Outcome> = None;
    in_criterion(|| {
        group.bench_function(id, |bencher| {
            let mut session = session.borrow_mut();
            // Only now is it known that no filter leaves the cell out.
            if let Some(reason) = &cell.unsupported {
                failure = Some(Outcome::Unsupported { reason: reason.clone() });
                leave_criterion();
            }
            if open.is_none() {
                match session.open(planned, cell) {
                    Ok(opened) => open = Some(opened),
                    Err(outcome) => {
                        failure = Some(outcome);
                        leave_criterion();
                    }
                }
            }
            let Some(open) = &mut open else { return };
            bencher.iter_custom(|operations| match session.timed(open, operations) {
                Ok(run) => {
                    let elapsed = run.run.elapsed;
                    runs.push(run);
                    elapsed
                }
                Err(reason) => {
                    failure = Some(Outcome::Failed { reason });
                    leave_criterion();
                }
            });
        });
    });
    let mut session = session.borrow_mut();
    let closed = open.map(|open| session.close(open));
    if session.gave_up() && failure.is_some() {
        // The session's own end says why.
        session.forget_estimate(&planned.name, &cell.function, &cell.parameter);
    } else if let Some(outcome) = failure {
        session.forget_estimate(&planned.name, &cell.function, &cell.parameter);
        session.push(cell, outcome);
    } else if let Some(peak_memory) = closed {
        let outcome = match session.mode() {
            Mode::Measure { samples } => summarise(&cell.cell, &runs, samples, peak_memory),
            Mode::Test => Outcome::Verified,
            Mode::Other => return,
        };
        if matches!(outcome, Outcome::Failed { .. }) {
            session.forget_estimate(&planned.name, &cell.function, &cell.parameter);
        }
        session.push(cell, outcome);
    }
}
