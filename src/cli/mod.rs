//! The verbs of `rcb`, one file each. Data goes to standard output, progress to standard error.
//!
//! Exit codes: 0 success, 1 a cell failed, 2 wrong usage or no target, 3 a regression was found, 130 interrupted.

mod cache;
mod calibrate;
mod compare;
mod drivers;
mod export;
mod history;
mod limits;
mod load;
mod publish;
mod record;
mod subscribe;
mod target;

use std::num::NonZeroUsize;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Parser, Subcommand};
use serde::Serialize;
use tokio::runtime::{Builder, Runtime};

use self::load::outputs::Output;
use crate::drivers::{Descriptor, Resp, find};
use crate::target::{Target, TargetArgs, TargetError, provide};

const EXAMPLES: &str = "\
Examples:
  rcb drivers                             what can be measured, with exact versions
  rcb target                              what would be measured against
  rcb target --topology 3x1               the same for a cluster that is started for it
  rcb target --url redis://db.local:6379  the same for a server of yours
  rcb subscribe --driver fred             whether every message is received, and how fast
  rcb publish -n 100000                   what batches, concurrency and a window do for publishing
  rcb compare redis@0.32.7 redis@1.8.1    whether a client got slower, with a verdict
  rcb cache                               whether client-side caches forget what they must
  rcb calibrate                           how good the instrument is on this machine

The sweeps themselves are Criterion benches: cargo bench --bench pipeline_window";

/// Compare Redis client crates, their pools and their pipeline windows under the same, server-audited work.
#[derive(Parser)]
#[command(name = "rcb", version, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// List the drivers of this build: clients, exact versions, capabilities
    Drivers(drivers::Arguments),
    /// Show what would be measured against, and what to know about this machine
    Target(target::Arguments),
    /// Subscribers with an exact account of every message, and the publishers that feed them
    Subscribe(Box<subscribe::Arguments>),
    /// Publish n messages in several ways, to a subscriber that must get exactly these
    Publish(publish::Arguments),
    /// Client-side caches: does each client forget what it must? Scenarios with every stale read counted
    Cache(cache::Arguments),
    /// Measure the instrument: clock, timer, allocator, harness tax, and the floor against redis-benchmark
    Calibrate(calibrate::Arguments),
    /// Send a mix of commands through a client: closed loop or at a set rate, every command counted, timed and checked
    #[command(disable_help_flag = true, after_help = load::EXAMPLES)]
    Load(Box<load::Arguments>),
    /// Whether a client got slower: versions, drivers or settings in interleaved rounds, with a verdict that holds in CI
    Compare(Box<compare::Arguments>),
    /// Make one observation as rcb compare asks for it on standard input; see docs/WORKER.md
    #[command(hide = true)]
    Worker,
    /// Write the figures of records in the format of another tool: CSV, Markdown, benchstat, Bencher, github-action-benchmark
    Export(export::Arguments),
    /// Store a session's record under results/: one file each, named by time, kind and machine
    Record(record::Arguments),
    /// Show a client's figures over its versions, from stored records: table and SVG chart
    History(history::Arguments),
}

/// Parses the command line and does what it says.
#[must_use]
pub fn run() -> ExitCode {
    let outcome = match Arguments::parse().verb {
        Verb::Drivers(arguments) => drivers::run(&arguments),
        Verb::Target(arguments) => target::run(&arguments),
        Verb::Subscribe(arguments) => subscribe::run(&arguments),
        Verb::Publish(arguments) => publish::run(&arguments),
        Verb::Cache(arguments) => cache::run(&arguments),
        Verb::Calibrate(arguments) => calibrate::run(&arguments),
        Verb::Load(arguments) => load::run(&arguments),
        Verb::Compare(arguments) => compare::run(&arguments),
        Verb::Worker => return crate::worker::serve(),
        Verb::Export(arguments) => export::run(&arguments),
        Verb::Record(arguments) => record::run(&arguments),
        Verb::History(arguments) => history::run(&arguments),
    };
    match outcome {
        Ok(_) if UNPRINTED.load(Ordering::Relaxed) => ExitCode::FAILURE,
        Ok(code) => code,
        // What fails while an interruption is under way fails because of it.
        Err(_) if crate::interrupt::interrupted() => ExitCode::from(crate::interrupt::EXIT_INTERRUPTED as u8),
        Err(error) => {
            tell!("error: {error}");
            error.code()
        }
    }
}

/// Why a verb ended early.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The target can't be had, or the flags make no sense.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A flag makes no sense.
    #[error("{0}")]
    Usage(String),
    /// Something measured went wrong.
    #[error("{0}")]
    Measurement(String),
}

impl Failure {
    fn code(&self) -> ExitCode {
        match self {
            Failure::Target(_) | Failure::Usage(_) => ExitCode::from(2),
            Failure::Measurement(_) => ExitCode::FAILURE,
        }
    }
}

type Outcome = Result<ExitCode, Failure>;

/// The drivers called `names`, each of which may be named once; `repeat` says what to do instead of naming one twice.
fn named_drivers<'a>(names: impl IntoIterator<Item = &'a str>, repeat: &str) -> Result<Vec<&'static Descriptor>, String> {
    let mut drivers: Vec<&'static Descriptor> = Vec::new();
    for name in names {
        let driver = find(name).map_err(|error| error.to_string())?;
        if drivers.iter().any(|known| known.name == driver.name) {
            return Err(format!("the driver {name} is named twice; name it once{repeat}"));
        }
        drivers.push(driver);
    }
    Ok(drivers)
}

/// Whether `driver` speaks the version of `--resp`.
fn check_resp(driver: &Descriptor, resp: Resp) -> Result<(), String> {
    let hint = u8::from(driver.usual_resp());
    driver.check_resp(resp).map_err(|error| format!("{}: {error}; give --resp {hint}, or another driver", driver.name))
}

/// Why `driver` can't have so many connections.
fn too_many_connections(driver: &Descriptor, asked: NonZeroUsize) -> Option<String> {
    let most = driver.most_connections;
    (asked.get() > most).then(|| format!("{} has at most {most} connection, and {asked} were asked for", driver.name))
}

/// The file for the results, tried before the work.
fn json_file(path: Option<&Path>) -> Result<Option<Output>, Failure> {
    let Some(path) = path else { return Ok(None) };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(Failure::Usage(format!("--json-out-file {}: there is no folder {}; make it first", path.display(), folder.display())));
    }
    Output::open(path).map(Some).map_err(|reason| Failure::Usage(format!("--json-out-file: {reason}")))
}

/// Writes the results whole, or leaves what was there.
fn save_json(file: Output, results: &impl Serialize) -> Result<(), Failure> {
    let written = file.write(|out| {
        serde_json::to_writer_pretty(&mut *out, results)?;
        out.write_all(b"\n")
    });
    written.map_err(Failure::Measurement)
}

/// A multi-thread runtime with as many workers as cores, or a current-thread one.
fn runtime(current_thread: bool) -> Result<Runtime, Failure> {
    let mut builder = if current_thread { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    builder.enable_all().build().map_err(|error| Failure::Measurement(format!("no tokio runtime: {error}")))
}

/// Provides the target that `arguments` ask for and prints its line and warnings to standard error.
fn provide_target(runtime: &Runtime, arguments: &TargetArgs) -> Result<Target, Failure> {
    let target = runtime.block_on(provide(&arguments.spec()?))?;
    tell!("target: {target}");
    for warning in &target.warnings {
        tell!("warning: {warning}");
    }
    Ok(target)
}

/// Whether data was lost on its way to standard output.
static UNPRINTED: AtomicBool = AtomicBool::new(false);

/// Prints to standard output; a closed pipe ends the output, not the program.
fn print(text: &str) {
    use std::io::{ErrorKind, Write};
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
        && !UNPRINTED.swap(true, Ordering::Relaxed)
    {
        tell!("error: can't write to standard output: {error}");
    }
}

/// Prints `value` as JSON.
fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::Measurement(error.to_string()))?;
    print(&text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every `rcb …` of a document in which lines end with a backslash, as a shell would split it.
    fn commands(text: &str) -> Vec<Vec<String>> {
        let joined = text.replace("\\\n", " ");
        let lines = joined.lines().map(str::trim).filter(|line| line.starts_with("rcb "));
        lines.filter_map(|line| shell_words::split(line.split(" >> ").next()?).ok()).collect()
    }

    #[test]
    fn the_workflow_for_other_repositories_uses_flags_and_workloads_that_exist() {
        let commands = commands(include_str!("../../docs/github-workflow.yml").replace("$MAX_REGRESSION", "5%").as_str());
        assert_eq!(commands.len(), 2, "{commands:?}");
        let mut verbs = commands.iter().map(|command| match Arguments::try_parse_from(command) {
            Ok(arguments) => arguments.verb,
            Err(error) => panic!("{command:?}: {error}"),
        });
        let Some(Verb::Compare(compare)) = verbs.next() else { panic!("{commands:?}") };
        assert!(compare.max_regression.is_some() && compare.subjects.len() == 2);
        let known = crate::plan::usual_workloads();
        assert!(compare.workloads.iter().all(|name| known.iter().any(|workload| workload.name == *name)), "{:?}", compare.workloads);
        assert!(matches!(verbs.next(), Some(Verb::Export(_))));
    }
}
