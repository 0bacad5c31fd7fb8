//! `rcb publish`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::limits::parse_time;
use super::{Failure, Outcome, check_resp, json_file, named_drivers, print, runtime, save_json, too_many_connections};
use crate::drivers::{DRIVERS, Descriptor, Kind, Profile, Resp, Settings, Strategy, Topology, find};
use crate::interrupt::{EXIT_INTERRUPTED, Graceful, interrupted};
use crate::measure::clock::nanos;
use crate::measure::{self, Environment};
use crate::record::publish::{PUBLISH_FORMAT, PublishRecord, PublishRow as Row, Ran};
use crate::target::audit::Auditor;
use crate::target::{Target, TargetArgs, provide};
use crate::workload::commands::PREFIX;
use crate::workload::pubsub::account::fresh_run;
use crate::workload::pubsub::burst::{Mode, Plan, SUBSCRIBER, connect};
use crate::workload::pubsub::engine::Against;
use crate::workload::pubsub::message::{HEADER, LARGEST};
use crate::workload::runs_on;

const EXAMPLES: &str = "\
Examples:
  rcb publish -n 100000                          every driver, every way of publishing
  rcb publish -n 100000 --batchsize 1,10,1000 --driver redis-rs
  rcb publish -n 100000 --concurrent 64 --window 75us --driver fred
  rcb publish --sharded --topology cluster       SPUBLISH to a shard channel
  rcb publish --serial --repeat 20               the same 20 times

Without --serial, --batchsize, --concurrent or --window, all of them are done.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Driver, once for each [default: every one for the target]
    #[arg(long = "driver", value_name = "NAME")]
    drivers: Vec<String>,
    /// Messages
    #[arg(short = 'n', long = "messages", value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    messages: u64,
    /// One message at a time
    #[arg(long)]
    serial: bool,
    /// Explicit pipelines of so many messages, one after the other
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=100_000))]
    batchsize: Vec<u64>,
    /// So many callers on one client, each with one message at a time
    #[arg(long, value_name = "CALLERS", num_args = 0..=1, default_missing_value = "256", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    concurrent: Option<u64>,
    /// The same callers through a pipeline window of this length
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "75us", value_parser = parse_time)]
    window: Option<Duration>,
    /// SPUBLISH to a shard channel instead of PUBLISH
    #[arg(long)]
    sharded: bool,
    /// Bytes of a message
    #[arg(long, value_name = "BYTES", default_value_t = 128)]
    data_size: usize,
    /// Connections of the publishing client; on a cluster to each master
    #[arg(long, value_name = "N", default_value_t = NonZeroUsize::MIN)]
    connections: NonZeroUsize,
    /// Protocol version, 2 or 3
    #[arg(long, value_name = "VERSION", default_value = "2")]
    resp: Resp,
    /// The client's knobs
    #[arg(long, value_enum, default_value_t = Profile::Tuned)]
    profile: Profile,
    /// Rounds, in each of which every driver has its turn in every way, in shuffled order
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: u32,
    /// Seed of the order of the drivers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How long nothing may arrive before a row is given up
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "5")]
    patience: Duration,
    /// The longest that a row may take
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "120")]
    deadline: Duration,
    /// Also write everything to this file, as JSON
    #[arg(long, value_name = "PATH")]
    json_out_file: Option<PathBuf>,
    #[command(flatten)]
    target: TargetArgs,
}

/// Callers unless others are asked for.
const USUAL_CALLERS: u64 = 256;
/// The pipeline window unless another is asked for.
const USUAL_WINDOW: Duration = Duration::from_micros(75);
/// Sizes of explicit pipelines unless others are asked for.
const USUAL_BATCHES: [u64; 3] = [1, 10, 1000];

impl Arguments {
    fn modes(&self) -> Vec<Mode> {
        let all = !self.serial && self.batchsize.is_empty() && self.concurrent.is_none() && self.window.is_none();
        let callers = self.concurrent.unwrap_or(USUAL_CALLERS);
        let mut modes = Vec::new();
        if self.serial || all {
            modes.push(Mode::Serial);
        }
        let batches = if all { &USUAL_BATCHES[..] } else { &self.batchsize[..] };
        modes.extend(batches.iter().map(|&size| Mode::Batch { size }));
        if self.concurrent.is_some() || all {
            modes.push(Mode::Concurrent { callers });
        }
        if let Some(window) = self.window.or(all.then_some(USUAL_WINDOW)) {
            modes.push(Mode::Windowed { callers, window_ns: nanos(window) });
        }
        modes
    }

    fn kind(&self) -> Kind {
        if self.sharded { Kind::Sharded } else { Kind::Channel }
    }

    fn check(&self) -> Result<(), String> {
        let size = self.data_size;
        if size < HEADER {
            return Err(format!("--data-size {size} is too small: the header of a message has {HEADER} bytes; use {HEADER} or more"));
        }
        if size > LARGEST {
            return Err(format!("--data-size {size} is too large; use {LARGEST} at most"));
        }
        if self.patience.is_zero() || self.deadline.is_zero() {
            return Err("--patience and --deadline must be longer than 0".into());
        }
        if self.window.is_some_and(|window| window.is_zero()) {
            return Err("--window is 0; use 1us or more, or --concurrent for none".into());
        }
        Ok(())
    }

    /// Whether the named drivers are there, each once, speak the protocol, and can have so many connections.
    fn check_named(&self) -> Result<(), String> {
        let names = self.drivers.iter().map(String::as_str);
        for driver in named_drivers(names, ", and give --repeat for more rounds")? {
            check_resp(driver, self.resp)?;
            if let Some(reason) = too_many_connections(driver, self.connections) {
                return Err(format!("{reason}; give --connections {} or another driver", driver.most_connections));
            }
        }
        Ok(())
    }

    /// The drivers to be measured on `topology`.
    fn drivers(&self, topology: Topology) -> Result<Vec<&'static Descriptor>, String> {
        if self.drivers.is_empty() {
            // Those that can't are rows that say so.
            return Ok(DRIVERS.iter().filter(|driver| driver.runs_on(topology)).collect());
        }
        let named = self.drivers.iter().map(|name| find(name).map_err(|error| error.to_string()));
        named
            .map(|driver| {
                let driver = driver?;
                let name = driver.name;
                if !driver.runs_on(topology) {
                    return Err(format!("{name} does not run on a {topology} target"));
                }
                Ok(driver)
            })
            .collect()
    }
}

pub fn run(arguments: &Arguments) -> Outcome {
    arguments.check().map_err(Failure::Usage)?;
    arguments.check_named().map_err(Failure::Usage)?;
    let json = json_file(arguments.json_out_file.as_deref())?;
    let environment = Environment::read();
    let runtime = runtime(false)?;
    let mut spec = arguments.target.spec()?;
    spec.resp = arguments.resp;
    let target = runtime.block_on(provide(&spec))?;
    // After the target, so that on Ctrl-C the servers are still there for the end of the run.
    let graceful = Graceful::register("interrupted; ending the row", Duration::from_secs(10));
    tell!("target: {target}");
    let drivers = arguments.drivers(target.topology()).and_then(|drivers| {
        if arguments.sharded && !target.server.at_least(7, 0) {
            return Err(format!("--sharded needs Redis 7.0 or later, and this is {}; leave it out", target.server));
        }
        Ok(drivers)
    });
    let drivers = match drivers {
        Ok(drivers) => drivers,
        Err(reason) => {
            runtime.block_on(target.shutdown());
            return Err(Failure::Usage(reason));
        }
    };
    let mut warnings = measure::warnings(&environment);
    warnings.extend(target.warnings.iter().cloned());
    warnings.iter().for_each(|warning| tell!("warning: {warning}"));
    let mut report = PublishRecord {
        format: PUBLISH_FORMAT.to_owned(),
        version: 1,
        created: crate::record::timestamp(std::time::SystemTime::now()),
        environment,
        target: target.facts(),
        warnings,
        messages: arguments.messages,
        data_size: arguments.data_size,
        sharded: arguments.sharded,
        connections: arguments.connections.get(),
        subscriber: SUBSCRIBER.name.to_owned(),
        resp: arguments.resp,
        profile: arguments.profile,
        rounds: arguments.repeat,
        seed: arguments.seed,
        complete: false,
        rows: Vec::new(),
    };
    tell!("subscriber: that of {}, whatever the driver", SUBSCRIBER.name);
    let mut random = StdRng::seed_from_u64(arguments.seed);
    let mut turns = drivers.clone();
    'rounds: for round in 1..=arguments.repeat {
        for mode in arguments.modes() {
            // One way after the other, so that those that are held against each other are close in time.
            turns.shuffle(&mut random);
            for &driver in &turns {
                if interrupted() {
                    break 'rounds;
                }
                let result = measure_one(&runtime, &target, driver, mode, arguments);
                match &result {
                    Ran::Measured(burst) => {
                        let real = Duration::from_secs_f64(burst.real_s);
                        tell!("{} {mode}: got {} messages in {real:?}", driver.name, burst.received);
                    }
                    Ran::Failed { reason } => tell!("{} {mode}: FAILED: {reason}", driver.name),
                    Ran::Unsupported { reason } => tell!("{} {mode}: unsupported: {reason}", driver.name),
                }
                report.rows.push(Row { driver: driver.name.to_owned(), client: driver.client_version(), round, mode, result });
            }
        }
    }
    runtime.block_on(target.shutdown());
    print(&table(&report.rows, &drivers, &arguments.modes()));
    if let Some(json) = json {
        report.complete = !interrupted();
        save_json(json, &report)?;
    }
    if interrupted() {
        // Whoever waits for the end of this run may go on.
        drop(graceful);
        return Ok(ExitCode::from(EXIT_INTERRUPTED as u8));
    }
    let failed = report.rows.iter().any(|row| matches!(row.result, Ran::Failed { .. }));
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn measure_one(runtime: &tokio::runtime::Runtime, target: &Target, driver: &Descriptor, mode: Mode, arguments: &Arguments) -> Ran {
    if let Some(reason) = too_many_connections(driver, arguments.connections) {
        return Ran::Unsupported { reason };
    }
    let settings = Settings { connections: arguments.connections, resp: arguments.resp, profile: arguments.profile, ..Settings::default() };
    let strategy = match mode {
        Mode::Windowed { window_ns, .. } => Strategy::window(Duration::from_nanos(window_ns), 0),
        _ => Strategy::Native,
    };
    if let Err(error) = runs_on(driver, &Settings { strategy, ..settings.clone() }, target.topology()) {
        return Ran::Unsupported { reason: error.to_string() };
    }
    let plan = Plan {
        messages: arguments.messages,
        mode,
        kind: arguments.kind(),
        channel: format!("{PREFIX}publish-{:016x}", fresh_run()).into_bytes(),
        payload: arguments.data_size,
        buffer: None,
        patience: arguments.patience,
        deadline: arguments.deadline,
    };
    let against = Against { servers: &target.servers, nodes: &target.nodes };
    let measuring = async {
        let mut publisher = match connect(driver.name, against, &settings, &plan) {
            Ok(connecting) => connecting.await.map_err(|failure| failure.to_string())?,
            Err(error) => return Err(error.to_string()),
        };
        let nodes: Vec<_> = target.nodes.iter().map(|node| (node.role, node.endpoint.clone())).collect();
        let auditor = tokio::time::timeout(arguments.patience, Auditor::connect(nodes)).await;
        let mut auditor = match auditor {
            Ok(auditor) => auditor.map_err(|error| error.to_string())?,
            Err(_) => return Err("a server did not answer".to_owned()),
        };
        let burst = publisher.burst(plan.messages, &mut auditor).await.map_err(|failure| failure.to_string());
        publisher.close().await;
        burst
    };
    match runtime.block_on(measuring) {
        Ok(burst) => Ran::Measured(Box::new(burst)),
        Err(reason) => Ran::Failed { reason },
    }
}

/// Every row, those of a driver and mode together. The share of raw is that of its run in the same round.
fn table(rows: &[Row], drivers: &[&'static Descriptor], modes: &[Mode]) -> String {
    let mut table = Table::new();
    let header = [
        "driver",
        "mode",
        "round",
        "got",
        "real",
        "user",
        "sys",
        "messages/s",
        "of raw",
        "client µs/msg",
        "server µs/msg",
        "cmds/read",
        "what",
    ];
    table.load_style(presets::NOTHING).set_header(header);
    for index in 2..header.len() - 1 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let rate = |row: &Row| match &row.result {
        Ran::Measured(burst) => Some(burst.rate()),
        _ => None,
    };
    let place = |row: &&Row| {
        let driver = drivers.iter().position(|driver| driver.name == row.driver);
        (driver, modes.iter().position(|mode| *mode == row.mode), row.round)
    };
    let mut sorted: Vec<&Row> = rows.iter().collect();
    sorted.sort_by_key(place);
    for row in sorted {
        let mut cells = vec![row.driver.clone(), row.mode.to_string(), row.round.to_string()];
        let note = |cells: &mut Vec<String>, text: String| {
            cells.extend((3..header.len() - 1).map(|_| "–".to_owned()));
            cells.push(text);
        };
        match &row.result {
            Ran::Failed { reason } => note(&mut cells, format!("FAILED: {reason}")),
            Ran::Unsupported { reason } => note(&mut cells, reason.clone()),
            Ran::Measured(burst) => {
                let twin = |other: &&Row| other.driver == "raw" && other.mode == row.mode && other.round == row.round;
                let raw = rows.iter().find(twin).and_then(rate);
                cells.extend([
                    burst.received.to_string(),
                    format!("{:.3}s", burst.real_s),
                    format!("{:.3}s", burst.user_s),
                    format!("{:.3}s", burst.system_s),
                    format!("{:.0}", burst.rate()),
                    raw.map_or_else(|| "–".to_owned(), |raw| format!("{:.0}%", burst.rate() / raw * 100.0)),
                    format!("{:.2}", burst.client_ns_per_message() / 1e3),
                    format!("{:.2}", burst.server_cpu_s * 1e6 / burst.messages as f64),
                    burst.commands_per_read.map_or_else(|| "–".to_owned(), |depth| format!("{depth:.1}")),
                    "exact".to_owned(),
                ]);
            }
        }
        table.add_row(cells);
    }
    table.to_string().lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::audit::Audit;
    use crate::workload::pubsub::burst::Burst;

    #[test]
    fn shares_are_of_raw_in_the_same_round() {
        let row = |driver: &str, round, mode, real_s| {
            let (messages, received) = (100, 100);
            let burst = Burst {
                messages,
                received,
                real_s,
                user_s: 0.0,
                system_s: 0.0,
                server_cpu_s: 0.0,
                commands_per_read: None,
                audit: Audit::default(),
            };
            let driver = driver.to_owned();
            Row { driver, client: "x 1".into(), round, mode, result: Ran::Measured(Box::new(burst)) }
        };
        let batch = Mode::Batch { size: 10 };
        let rows = [
            row("redis-rs", 1, Mode::Serial, 2.0),
            row("raw", 1, Mode::Serial, 1.0),
            row("raw", 1, batch, 0.1),
            row("raw", 2, Mode::Serial, 4.0),
            row("redis-rs", 2, Mode::Serial, 5.0),
        ];
        let text = table(&rows, &[find("raw").unwrap(), find("redis-rs").unwrap()], &[Mode::Serial, batch]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].contains("serial") && lines[2].contains("serial") && lines[3].contains("batch 10"), "{text}");
        assert!(lines[4].contains("redis-rs") && lines[4].contains("50%"), "{text}");
        assert!(lines[5].contains("redis-rs") && lines[5].contains("80%"), "{text}");
    }
}
