//! `rcb calibrate`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use comfy_table::{Table, presets};
use serde::Serialize;

use super::{Failure, Outcome, print, print_json, provide_target, runtime};
use crate::calibrate::{
    AllocatorCost, ClockCost, Floor, Held, ReceiveCost, Tax, allocator_cost, clock_cost, floor, held, receive_cost, tax,
};
use crate::drivers::{DRIVERS, Driver, Error, Servers, Settings, Topology, Visit, find, visit};
use crate::interrupt::{EXIT_INTERRUPTED, Graceful, interrupted};
use crate::measure::{self, Environment};
use crate::report::lines;
use crate::target::{TargetArgs, TargetFacts};

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: TargetArgs,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// Rounds of each paired comparison
    #[arg(long, default_value_t = 81, value_parser = clap::value_parser!(u16).range(3..=1000))]
    rounds: u16,
    /// Milliseconds of each side of a round
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u16).range(5..=10_000))]
    round_ms: u16,
    /// Concurrent callers when the harness tax is measured
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    callers: u16,
    /// Drivers whose harness tax is measured [default: every one for a standalone server]
    #[arg(long = "driver", value_name = "NAME")]
    drivers: Vec<String>,
}

/// The windows that are asked for, microseconds.
const WINDOWS_US: [u64; 5] = [25, 50, 75, 100, 150];
/// Lone commands sent through each window.
const HELD_COMMANDS: u64 = 4_000;
/// GETs of each run against redis-benchmark, by pipeline depth.
const FLOOR_RUNS: [(usize, u64); 2] = [(1, 100_000), (16, 1_000_000)];
/// What no step should take, however slow the machine: then the server does not answer.
const LONGEST_STEP: Duration = Duration::from_secs(60);
/// `redis-benchmark`'s own default.
const FLOOR_CONNECTIONS: usize = 50;
/// The targets of this tool.
const HELD_WITHIN_US: f64 = 30.0;
const TAX_WITHIN: f64 = 1.02;
const FLOOR_WITHIN: f64 = 0.95;
const RECEIVE_WITHIN_NS: f64 = 100.0;

#[derive(Serialize)]
struct Report {
    environment: Environment,
    target: TargetFacts,
    warnings: Vec<String>,
    clock: ClockCost,
    allocator: AllocatorCost,
    receive: ReceiveCost,
    held: Vec<Held>,
    tax: Vec<Tax>,
    floor: Vec<Floor>,
    /// What was left out or failed, with the reason.
    left_out: Vec<String>,
}

struct Measure<'a>(&'a tokio::runtime::Runtime, &'a Servers, &'a Arguments);

impl Visit for Measure<'_> {
    type Output = Result<Tax, Error>;
    fn visit<D: Driver>(self) -> Self::Output {
        let Self(runtime, servers, arguments) = self;
        let connections = D::DESCRIPTOR.most_connections.min(4);
        let connections = NonZeroUsize::new(connections).unwrap_or(NonZeroUsize::MIN);
        let settings = Settings { connections, resp: D::DESCRIPTOR.usual_resp(), ..Settings::default() };
        let length = Duration::from_millis(arguments.round_ms.into());
        let rounds = arguments.rounds.into();
        let measuring = tax::<D>(servers, &settings, arguments.callers.into(), rounds, length);
        // Two sides a round, and as much again for finding the length and for a slow machine.
        let limit = LONGEST_STEP + length * 8 * arguments.rounds.into();
        runtime.block_on(async { tokio::time::timeout(limit, measuring).await }).unwrap_or_else(|_| Err(Error::timed_out(limit)))
    }
}

pub fn run(arguments: &Arguments) -> Outcome {
    for name in &arguments.drivers {
        let driver = find(name).map_err(|error| Failure::Usage(error.to_string()))?;
        if !driver.runs_on(Topology::Standalone) {
            return Err(Failure::Usage(format!("{name} is for a cluster only; the harness tax is measured on a standalone server")));
        }
    }
    let environment = Environment::read();
    let multi_thread = runtime(false)?;
    let target = provide_target(&multi_thread, &arguments.target)?;
    if target.servers.topology == Topology::Cluster {
        return Err(Failure::Usage("calibrate needs a standalone server; the target is a cluster".into()));
    }
    // After the target, so that on Ctrl-C the server is still there for removing the keys.
    let _graceful = Graceful::register("interrupted; removing keys", Duration::from_secs(5));
    let mut report = Report {
        warnings: measure::warnings(&environment),
        environment,
        target: target.facts(),
        clock: clock_cost(),
        allocator: allocator_cost(),
        receive: receive_cost(),
        held: Vec::new(),
        tax: Vec::new(),
        floor: Vec::new(),
        left_out: Vec::new(),
    };
    let mut failed = false;
    for micros in WINDOWS_US {
        tell!("held time: window of {micros} µs");
        // Spawned, as a bench's callers are: the main thread is no worker of the runtime.
        let measuring = multi_thread.spawn(held(Duration::from_micros(micros), HELD_COMMANDS));
        match multi_thread.block_on(measuring) {
            Ok(Ok(one)) => report.held.push(one),
            Ok(Err(error)) => return Err(Failure::Measurement(error.to_string())),
            Err(panic) => return Err(Failure::Measurement(panic.to_string())),
        }
    }
    for driver in DRIVERS.iter().filter(|driver| driver.runs_on(Topology::Standalone)) {
        if !arguments.drivers.is_empty() && !arguments.drivers.iter().any(|name| name == driver.name) {
            continue;
        }
        if interrupted() {
            break;
        }
        tell!("harness tax: {}", driver.name);
        match visit(driver.name, Measure(&multi_thread, &target.servers, arguments)) {
            Ok(Ok(one)) => report.tax.push(one),
            Ok(Err(error)) => {
                failed = true;
                report.left_out.push(format!("harness tax of {}: {error}", driver.name));
            }
            Err(error) => return Err(Failure::Usage(error.to_string())),
        }
    }
    let endpoint = target.servers.first();
    match which("redis-benchmark") {
        None => report.left_out.push("raw against redis-benchmark: it is not on PATH".into()),
        Some(_) if endpoint.password.is_some() || endpoint.tls.is_some() || endpoint.database != 0 => {
            report.left_out.push("raw against redis-benchmark: not over TLS, with a login or in another database".into());
        }
        Some(program) => {
            let current_thread = runtime(true)?;
            for (pipeline, operations) in FLOOR_RUNS.into_iter().take_while(|_| !interrupted()) {
                tell!("raw against redis-benchmark: -c {FLOOR_CONNECTIONS} -P {pipeline}");
                let rounds = usize::from(arguments.rounds).min(11);
                let comparing = floor(&program, endpoint, FLOOR_CONNECTIONS, pipeline, operations, rounds);
                let limit = LONGEST_STEP * 5;
                let compared = current_thread.block_on(async { tokio::time::timeout(limit, comparing).await });
                match compared.unwrap_or_else(|_| Err(Error::timed_out(limit))) {
                    Ok(one) => report.floor.push(one),
                    Err(error) => {
                        failed = true;
                        report.left_out.push(format!("raw against redis-benchmark -P {pipeline}: {error}"));
                    }
                }
            }
        }
    }
    multi_thread.block_on(target.shutdown());
    if interrupted() {
        return Ok(ExitCode::from(EXIT_INTERRUPTED as u8));
    }
    if arguments.json {
        print_json(&report)?;
    } else {
        print(&render(&report));
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The program called `name` on PATH.
fn which(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn verdict(within: bool) -> &'static str {
    if within { "ok" } else { "OUTSIDE" }
}

fn render(report: &Report) -> String {
    let new = |header: &[&str]| {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(header.to_vec());
        table
    };
    let mut held = new(&["window", "p50 held", "p99 held", "p50 over", "p50 at most 30 µs over"]);
    for one in &report.held {
        held.add_row([
            format!("{} µs", one.asked_us),
            format!("{:.1} µs", one.p50_us),
            format!("{:.1} µs", one.p99_us),
            format!("{:+.1} µs", one.p50_us - one.asked_us),
            verdict((0.0..=HELD_WITHIN_US).contains(&(one.p50_us - one.asked_us))).to_owned(),
        ]);
    }
    let mut tax = new(&[
        "driver",
        "RESP",
        "time, cell / hand-written",
        "CPU, cell / hand-written",
        "allocs/op of both",
        "extra allocs/op",
        "tax at most 2 %, 0 allocs",
    ]);
    for one in &report.tax {
        // Beyond the limit, but by less than the rounds can tell, is neither.
        let undecided = one.time.median > TAX_WITHIN && one.time.low <= TAX_WITHIN;
        let allocates = one.extra_allocs_per_op >= 0.01;
        let judged =
            if undecided && !allocates { "undecided: more --rounds" } else { verdict(one.time.median <= TAX_WITHIN && !allocates) };
        tax.add_row([
            one.driver.clone(),
            u8::from(one.resp).to_string(),
            one.time.to_string(),
            one.cpu.to_string(),
            format!("{:.2} / {:.2}", one.cell_allocs_per_op, one.hand_written_allocs_per_op),
            format!("{:+.3}", one.extra_allocs_per_op),
            judged.to_owned(),
        ]);
    }
    let mut floor = new(&["connections", "pipeline", "raw GET/s", "redis-benchmark GET/s", "ratio", "at least 0.95"]);
    for one in &report.floor {
        floor.add_row([
            one.connections.to_string(),
            one.pipeline.to_string(),
            format!("{:.0}", one.raw_per_second),
            format!("{:.0}", one.redis_benchmark_per_second),
            one.ratio.to_string(),
            verdict(one.ratio.median >= FLOOR_WITHIN).to_owned(),
        ]);
    }
    let mut text = format!(
        "clock       {:.1} ns per reading\nallocator   {:.1} ns counted, {:.1} ns uncounted, per allocation and release\n",
        report.clock.ns, report.allocator.counting_ns, report.allocator.system_ns
    );
    text += &format!(
        "receiving   {:.1} ns per message of {} bytes for account, clock and histogram, at most {RECEIVE_WITHIN_NS} ns: {}\n",
        report.receive.ns,
        report.receive.payload,
        verdict(report.receive.ns <= RECEIVE_WITHIN_NS)
    );
    let increasing = report.held.is_sorted_by(|one, next| one.p50_us < next.p50_us);
    text +=
        &format!("\nPipeline window, held time of lone commands (p50 strictly increasing: {})\n{}\n", verdict(increasing), lines(&held));
    text += &format!("\nHarness tax (medians of paired rounds, 95 % interval)\n{}\n", lines(&tax));
    if !report.floor.is_empty() {
        text += &format!("\nThe floor against redis-benchmark (one thread each, alternating)\n{}\n", lines(&floor));
    }
    for reason in &report.left_out {
        text += &format!("\nleft out: {reason}");
    }
    for warning in report.warnings.iter().chain(&report.target.warnings) {
        text += &format!("\nwarning: {warning}");
    }
    text
}
