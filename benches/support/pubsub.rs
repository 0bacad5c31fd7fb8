//! The way of a publishing or subscribing cell through Criterion. Each timed run is audited, and its subscribers must have got
//! exactly what was published; a cell for which that does not hold is a failed row and leaves no estimate behind.

use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, SamplingMode, Throughput};
use redis_client_bench::drivers::{Kind, Settings};
use redis_client_bench::interrupt::{EXIT_INTERRUPTED, Graceful, interrupted};
use redis_client_bench::measure::{self, Environment};
use redis_client_bench::plan::{BenchConfig, Doing, PubSubCell};
use redis_client_bench::record::RuntimeFlavour;
use redis_client_bench::report::pubsub::{Figures, Ran, Record, Row, table};
use redis_client_bench::target::audit::Auditor;
use redis_client_bench::target::{Layout, Target, TargetSpec, provide};
use redis_client_bench::workload::pubsub::burst::{self, Mode as Publishing, Publisher};
use redis_client_bench::workload::pubsub::engine::Against;
use redis_client_bench::workload::pubsub::flood::{self, Flood};
use tokio::runtime::Runtime;

use super::args::Mode;
use super::session::{forget_estimate, results_folder, target_from_environment};
use super::{in_criterion, leave_criterion, load_config};

/// What the subscriber's own buffer must hold: more than can be on its way.
const BUFFER: usize = 1 << 16;

/// The longest that closing may take.
const CLOSES_WITHIN: Duration = Duration::from_secs(5);

/// A connected cell.
enum Open {
    Publish(Box<dyn Publisher>),
    Subscribe(Box<dyn Flood>, u64),
}

struct Session {
    config: BenchConfig,
    runtime: Runtime,
    spec: TargetSpec,
    target: Option<(Target, Auditor)>,
    record: Record,
    fatal: bool,
    graceful: Option<Graceful>,
}

/// Runs one bench target.
pub fn run(bench: &str, plan: fn(&BenchConfig) -> Vec<PubSubCell>) -> ExitCode {
    let (config, spec) = match load_config().map_err(|error| error.to_string()).and_then(|config| {
        let spec = target_from_environment().and_then(|target| target.spec()).map_err(|error| error.to_string())?;
        Ok((config, spec))
    }) {
        Ok(both) => both,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    let mode = match Mode::from_args() {
        Mode::Measure { samples: usize::MAX } => Mode::Measure { samples: config.timing.samples },
        mode => mode,
    };
    let timing = &config.timing;
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(timing.warm_up_ms))
        .measurement_time(Duration::from_millis(timing.measurement_ms))
        .sample_size(timing.samples)
        .nresamples(10_000)
        .configure_from_args();
    let cells = plan(&config);
    let runtime = config.runtime();
    let mut builder = match runtime.flavour {
        RuntimeFlavour::MultiThread => tokio::runtime::Builder::new_multi_thread(),
        RuntimeFlavour::CurrentThread => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = match builder.worker_threads(runtime.workers).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: no tokio runtime: {error}");
            return ExitCode::from(2);
        }
    };
    let mut record = Record::new(bench, Environment::read());
    record.warnings = measure::warnings(&record.environment);
    record.warnings.extend(config.left_out().into_iter().filter(|line| line.starts_with(&format!("left out of {bench}:"))));
    let spec = TargetSpec { resp: config.connection.resp, layout: Some(Layout::Standalone), ..spec };
    let session = Session { config, runtime, spec, target: None, record, fatal: false, graceful: None };
    let session = RefCell::new(session);
    let mut rest = &cells[..];
    while let Some(first) = rest.first() {
        let members = rest.iter().take_while(|cell| cell.group == first.group).count();
        let (group, after) = rest.split_at(members);
        rest = after;
        let mut criterion_group = criterion.benchmark_group(&first.group);
        criterion_group.sampling_mode(SamplingMode::Flat).throughput(Throughput::Elements(1));
        for cell in group {
            if session.borrow().gave_up() {
                break;
            }
            bench_cell(&session, &mut criterion_group, cell, mode);
        }
        criterion_group.finish();
    }
    criterion.final_summary();
    session.into_inner().finish(mode)
}

/// Sends one cell through Criterion; it connects when Criterion first asks for a run.
fn bench_cell(session: &RefCell<Session>, group: &mut BenchmarkGroup<'_, WallTime>, cell: &PubSubCell, mode: Mode) {
    let id = BenchmarkId::new(cell.driver.name, &cell.parameter);
    let mut open: Option<Open> = None;
    let mut runs: Vec<Figures> = Vec::new();
    let mut ended: Option<Ran> = None;
    let mut asked = false;
    in_criterion(|| {
        group.bench_function(id, |bencher| {
            asked = true;
            let mut session = session.borrow_mut();
            if let Some(reason) = &cell.unsupported {
                ended = Some(Ran::Unsupported { reason: reason.clone() });
                leave_criterion();
            }
            if open.is_none() {
                match session.open(cell) {
                    Ok(opened) => open = Some(opened),
                    Err(reason) => {
                        ended = Some(Ran::Failed { reason });
                        leave_criterion();
                    }
                }
            }
            let Some(open) = &mut open else { return };
            bencher.iter_custom(|messages| match session.timed(open, messages) {
                Ok(figures) => {
                    // Subscribers all get the same number, so there may be a few more messages than were asked for.
                    let elapsed = Duration::from_nanos(figures.elapsed_ns).mul_f64(messages as f64 / figures.messages as f64);
                    runs.push(figures);
                    elapsed
                }
                Err(reason) => {
                    ended = Some(Ran::Failed { reason });
                    leave_criterion();
                }
            });
        });
    });
    let mut session = session.borrow_mut();
    if let Some(open) = open {
        session.close(open);
    }
    if !asked || matches!(mode, Mode::Other) {
        return;
    }
    let ran = match (ended, mode) {
        (Some(ran), _) => ran,
        (None, Mode::Test) => Ran::Verified,
        (None, Mode::Measure { samples }) => {
            Figures::sum(&runs, samples).map_or_else(|| Ran::Failed { reason: "there was no run".into() }, Ran::Measured)
        }
        (None, Mode::Other) => return,
    };
    if !matches!(ran, Ran::Measured(_) | Ran::Verified) {
        forget_estimate(&cell.group, cell.driver.name, &cell.parameter);
    }
    if let Ran::Failed { reason } = &ran {
        eprintln!("FAILED {}: {reason}", cell.name());
    }
    // The session's own end says why nothing more was measured.
    if !(session.gave_up() && matches!(ran, Ran::Failed { .. })) {
        session.record.rows.push(Row { name: cell.name(), driver: cell.driver.name.to_owned(), client: cell.driver.client_version(), ran });
    }
}

impl Session {
    fn gave_up(&self) -> bool {
        self.fatal || interrupted()
    }

    fn provide(&mut self) -> Result<(), String> {
        if self.target.is_some() {
            return Ok(());
        }
        let deadline = self.config.deadline();
        let provided = self.runtime.block_on(async {
            let target = provide(&self.spec).await.map_err(|error| error.to_string())?;
            let nodes: Vec<_> = target.nodes.iter().map(|node| (node.role, node.endpoint.clone())).collect();
            let auditor = tokio::time::timeout(deadline, Auditor::connect(nodes)).await;
            let auditor = auditor.map_err(|_| format!("no connection for the audit within {deadline:?}"))?;
            Ok::<_, String>((target, auditor.map_err(|error| error.to_string())?))
        });
        match provided {
            Ok((target, auditor)) => {
                eprintln!("target: {target}");
                self.record.warnings.iter().chain(&target.warnings).for_each(|warning| eprintln!("warning: {warning}"));
                if let Some(name) = &self.record.subscriber {
                    eprintln!("subscriber: that of {name}, whatever the driver");
                }
                self.record.targets.push(target.facts());
                self.target = Some((target, auditor));
                self.graceful = Some(Graceful::register("interrupted; saving what was measured", CLOSES_WITHIN));
                Ok(())
            }
            Err(reason) => {
                self.fatal = true;
                eprintln!("error: {reason}");
                Err(reason)
            }
        }
    }

    fn open(&mut self, cell: &PubSubCell) -> Result<Open, String> {
        self.provide()?;
        let Some((target, _)) = &self.target else { return Err("no target".into()) };
        let deadline = self.config.deadline();
        let connection = &self.config.connection;
        let settings = Settings { resp: connection.resp, profile: connection.profile, ..Settings::default() };
        let (mode, subscribers) = match cell.doing {
            Doing::Publish(mode) => (mode, 1),
            Doing::Subscribe { subscribers, batch } => (Publishing::Batch { size: batch }, subscribers),
        };
        let plan = burst::Plan {
            messages: 1,
            mode,
            kind: Kind::Channel,
            channel: format!("rcb:bench-{:x}-{}", std::process::id(), self.record.rows.len()).into_bytes(),
            payload: cell.payload,
            buffer: NonZeroUsize::new(BUFFER),
            patience: Duration::from_secs(5),
            deadline,
        };
        let against = Against { servers: &target.servers, nodes: &target.nodes };
        self.runtime.block_on(async {
            let opening = async {
                Ok(match cell.doing {
                    Doing::Publish(_) => {
                        let connecting = burst::connect(cell.driver.name, against, &settings, &plan).map_err(|error| error.to_string())?;
                        Open::Publish(connecting.await.map_err(|failure| failure.to_string())?)
                    }
                    Doing::Subscribe { .. } => {
                        let connecting = flood::connect(cell.driver.name, against, &settings, &plan, subscribers);
                        let connecting = connecting.map_err(|error| error.to_string())?;
                        Open::Subscribe(connecting.await.map_err(|failure| failure.to_string())?, subscribers)
                    }
                })
            };
            tokio::time::timeout(deadline, opening).await.unwrap_or_else(|_| Err(format!("can't connect within {deadline:?}")))
        })
    }

    fn timed(&mut self, open: &mut Open, messages: u64) -> Result<Figures, String> {
        let Some((_, auditor)) = &mut self.target else { return Err("no target".into()) };
        let figures = self.runtime.block_on(async {
            match open {
                Open::Publish(publisher) => publisher.burst(messages, auditor).await.map(|burst| Figures::of_burst(&burst)),
                Open::Subscribe(flood, subscribers) => {
                    flood.run(messages.div_ceil(*subscribers), auditor).await.map(|flooded| Figures::of_flood(&flooded))
                }
            }
        });
        figures.map_err(|failure| failure.to_string())
    }

    fn close(&self, open: Open) {
        let closing = async {
            match open {
                Open::Publish(publisher) => publisher.close().await,
                Open::Subscribe(flood, _) => flood.close().await,
            }
        };
        // A client that does not come to an end is dropped.
        let _ = self.runtime.block_on(async { tokio::time::timeout(CLOSES_WITHIN, closing).await });
    }

    fn finish(mut self, mode: Mode) -> ExitCode {
        if let Some((target, _)) = self.target.take() {
            self.runtime.block_on(target.shutdown());
        }
        self.record.complete = !self.gave_up();
        let mut code = if interrupted() {
            EXIT_INTERRUPTED as u8
        } else if self.fatal {
            2
        } else {
            0
        };
        if !self.record.rows.is_empty() {
            println!("\n{}", table(&self.record.rows));
            if matches!(mode, Mode::Measure { .. }) {
                match self.record.save(&results_folder()) {
                    Ok(path) => println!("\nrecord: {}", path.display()),
                    Err(error) => {
                        eprintln!("error: the record could not be saved: {error}");
                        code = code.max(1);
                    }
                }
            }
            let failures = self.record.rows.iter().filter(|row| matches!(row.ran, Ran::Failed { .. })).count();
            if failures > 0 {
                eprintln!("{failures} of {} cells failed", self.record.rows.len());
                code = code.max(1);
            }
        }
        // Whoever waits for the end of this session may go on.
        self.graceful = None;
        ExitCode::from(code)
    }
}
