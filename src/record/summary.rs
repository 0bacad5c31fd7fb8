//! From the runs of a cell to its figures.

use super::{Cell, Mark, Measurement, Outcome, Sample};
use crate::measure::clock::nanos;
use crate::window::Flushes;
use crate::workload::Run;

/// A run, and the batches that the window sent in it.
#[derive(Clone, Debug)]
pub struct Timed {
    /// The run.
    pub run: Run,
    /// `None` without a window.
    pub flushes: Option<Flushes>,
}

/// With fewer operations than this for each caller and sample, there is no figure: much of the time not all callers are busy.
const LEAST_PER_CALLER: u64 = 4;
/// With fewer than this the figure is marked.
const FEW_PER_CALLER: u64 = 16;

/// Sums up the last `samples` runs, which all have the same number of operations; what went before was warm-up.
#[must_use]
pub fn summarise(cell: &Cell, runs: &[Timed], samples: usize, peak_memory: Option<u64>) -> Outcome {
    let Some(last) = runs.last() else { return Outcome::Failed { reason: "there was no run".into() } };
    let per_caller = last.run.operations / cell.callers.max(1) as u64;
    if per_caller < LEAST_PER_CALLER {
        let reason =
            format!("{} operations in a sample are too few for {} callers; raise timing.measurement_ms", last.run.operations, cell.callers);
        return Outcome::Failed { reason };
    }
    let measured: Vec<&Timed> = runs.iter().rev().take(samples).take_while(|run| run.run.operations == last.run.operations).collect();
    let mut sum = Measurement { peak_memory, ..Measurement::default() };
    for Timed { run, flushes } in measured.into_iter().rev() {
        sum.samples.push(Sample { operations: run.operations, elapsed_ns: nanos(run.elapsed) });
        sum.client_user_ns += nanos(run.client.user);
        sum.client_system_ns += nanos(run.client.system);
        if let Some(allocations) = run.client.allocations {
            *sum.allocations.get_or_insert(0) += allocations.count;
            *sum.allocated_bytes.get_or_insert(0) += allocations.bytes;
        }
        sum.server.add(&run.server);
        sum.audit.add(run.audit.clone());
        if let Some(flushes) = flushes {
            sum.flushes = Some(sum.flushes.unwrap_or_default() + *flushes);
        }
    }
    let window_ns = cell.settings.window_ns as f64;
    if window_ns > 0.0 && window_ns >= 0.5 * sum.mean_latency_ns(cell.callers) {
        sum.marks.push(Mark::TimerBound);
    }
    if per_caller < FEW_PER_CALLER {
        sum.marks.push(Mark::FewOperations);
    }
    if !cell.settings.as_asked {
        sum.marks.push(Mark::NotTuned);
    }
    Outcome::Measured(Box::new(sum))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::drivers::{Settings, Strategy, Topology, find};
    use crate::measure::Usage;
    use crate::record::{CellSettings, Runtime};
    use crate::target::audit::{Audit, ServerUsage};
    use crate::workload::commands::{Operation, Workload};

    fn cell(strategy: Strategy, callers: usize) -> Cell {
        let raw = find("raw").unwrap();
        Cell {
            workload: Workload { operation: Operation::Get, payload: 64, fields: 0, keys: 10 },
            driver: "raw".into(),
            client: raw.client.into(),
            client_version: "0".into(),
            topology: Topology::Standalone,
            settings: CellSettings::new(raw, &Settings { strategy, ..Settings::default() }, Topology::Standalone),
            callers,
            runtime: Runtime { flavour: crate::record::RuntimeFlavour::MultiThread, workers: 2 },
            cached: None,
        }
    }

    /// So many operations in so many microseconds.
    fn timed(operations: u64, micros: u64) -> Timed {
        let server = ServerUsage { reads: operations / 10, cpu_ns: 5, ..ServerUsage::default() };
        let run = Run {
            operations,
            elapsed: Duration::from_micros(micros),
            client: Usage { user: Duration::from_micros(3), system: Duration::from_micros(1), allocations: None },
            server,
            audit: Audit { workload: operations, ..Audit::default() },
        };
        Timed { run, flushes: None }
    }

    fn figures(outcome: Outcome) -> Measurement {
        match outcome {
            Outcome::Measured(measurement) => *measurement,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_the_last_runs_of_equal_size_are_samples() {
        let runs: Vec<Timed> =
            [(1, 900), (2, 900), (4, 900), (100, 10), (100, 20), (100, 30)].map(|(count, micros)| timed(count, micros)).into();
        let sum = figures(summarise(&cell(Strategy::Native, 1), &runs, 10, None));
        assert_eq!((sum.samples.len(), sum.operations(), sum.elapsed_ns()), (3, 300, 60_000));
        assert_eq!((sum.ns_per_op(), sum.ops_per_second(), sum.commands_per_read()), (200.0, 5e6, Some(10.0)));
        assert_eq!((sum.client_cpu_per_op(), sum.server_cpu_per_op()), (40.0, 0.05));
        let two = figures(summarise(&cell(Strategy::Native, 1), &runs, 2, None));
        assert_eq!((two.operations(), two.elapsed_ns()), (200, 50_000));
    }

    #[test]
    fn a_warm_up_run_of_the_same_size_is_left_out() {
        let runs: Vec<Timed> = [(64, 999), (64, 10), (64, 10)].map(|(count, micros)| timed(count, micros)).into();
        assert_eq!(figures(summarise(&cell(Strategy::Native, 1), &runs, 2, None)).elapsed_ns(), 20_000);
    }

    #[test]
    fn fewer_operations_than_callers_need_give_no_figure() {
        let outcome = summarise(&cell(Strategy::Native, 256), &[timed(37, 1_000)], 1, None);
        assert!(matches!(&outcome, Outcome::Failed { reason } if reason.contains("37") && reason.contains("256")), "{outcome:?}");
        assert_eq!(figures(summarise(&cell(Strategy::Native, 10), &[timed(80, 10)], 1, None)).marks, [Mark::FewOperations]);
        assert!(figures(summarise(&cell(Strategy::Native, 10), &[timed(160, 10)], 1, None)).marks.is_empty());
        assert!(matches!(summarise(&cell(Strategy::Native, 1), &[], 1, None), Outcome::Failed { .. }));
    }

    #[test]
    fn a_window_of_half_the_latency_is_timer_bound() {
        let strategy = Strategy::Window { window: Duration::from_micros(100), limit: 0 };
        // 10 callers, 20 µs per operation: a latency of 200 µs.
        let bound = figures(summarise(&cell(strategy, 10), &[timed(1_000, 20_000)], 1, None));
        assert_eq!(bound.marks, [Mark::TimerBound]);
        let free = figures(summarise(&cell(strategy, 10), &[timed(1_000, 20_100)], 1, None));
        assert!(free.marks.is_empty());
    }
}
