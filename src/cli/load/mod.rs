//! `rcb load`.

mod args;
mod cache;
mod caching;
mod client;
mod live;
pub(in crate::cli) mod outputs;
mod plan;
mod server;
mod session;

use std::process::ExitCode;
use std::time::Duration;

pub use args::{Arguments, EXAMPLES};

use super::{Failure, Outcome, print, provide_target};
use crate::drivers::Topology;
use crate::interrupt::{EXIT_INTERRUPTED, Graceful, interrupted};
use crate::measure::{Environment, warnings};
use crate::record::load::{LoadRecord, Status};
use crate::report;
use crate::target::Layout;
use outputs::{HdrLog, Output, csv};
use plan::Plan;
use session::Session;

/// Longest that the end may take after an interruption: waiting for the last replies, and removing the keys.
const LONGEST_END: Duration = Duration::from_secs(45);

pub fn run(arguments: &Arguments) -> Outcome {
    let usage = Failure::Usage;
    let mut plan = Plan::new(arguments).map_err(usage)?;
    let mut target = arguments.server.apply(&arguments.target).map_err(usage)?;
    if arguments.cluster {
        match target.topology {
            Some(Layout::Standalone) => return Err(usage("--cluster and --topology standalone contradict each other".to_owned())),
            Some(_) => {}
            None => target.topology = Some(Layout::CLUSTER),
        }
    }
    let runs = plan.workloads.len() * plan.subjects.len() * plan.rounds;
    if arguments.hdr_file.is_some() && runs > 1 {
        return Err(usage(format!(
            "--hdr-file is the log of one run, and this would be {runs}; --json-out-file holds the histograms of all"
        )));
    }
    let paths = [&arguments.json_out_file, &arguments.hdr_file, &arguments.csv];
    let paths: Vec<_> = paths.into_iter().flatten().collect();
    if let Some(path) = paths.iter().enumerate().find_map(|(index, path)| paths[..index].contains(path).then_some(path)) {
        return Err(usage(format!("two outputs are to be written to {}; give each a file of its own", path.display())));
    }
    let open = |path: &Option<std::path::PathBuf>| path.as_deref().map(Output::open).transpose().map_err(usage);
    let (json, hdr, table) = (open(&arguments.json_out_file)?, open(&arguments.hdr_file)?, open(&arguments.csv)?);

    let environment = Environment::read();
    let control = super::runtime(false)?;
    let target = provide_target(&control, &target)?;
    // After the target, so that on Ctrl-C the servers are still there for the last replies and for removing the keys.
    let graceful = Graceful::register("interrupted; waiting for the last replies", LONGEST_END);
    if arguments.cluster && target.topology() != Topology::Cluster {
        return Err(usage("--cluster was given, but the target is a standalone server".to_owned()));
    }
    plan.for_target(&target).map_err(usage)?;
    let told = warnings(&environment);
    for line in &told {
        tell!("warning: {line}");
    }
    for line in &plan.notices {
        tell!("note: {line}");
    }
    let record = LoadRecord::new(environment, target.facts(), told, plan.asked.clone());
    let log = hdr.map(HdrLog::new).transpose().map_err(usage)?;
    let mut session = Session::new(&control, &target, &plan, record, log).map_err(Failure::Measurement)?;
    session.check_commands()?;
    if !target.is_ours() {
        plan.spare_the_server().map_err(usage)?;
    }
    session.run_all();
    // The files first: removing many keys takes its time, and after Ctrl-C there may not be enough of it.
    let (mut record, log, cleaning) = session.into_parts();
    record.complete = !interrupted();
    if record.runs.len() > 1 {
        print(&format!("\n{}", report::load::comparison(&record)));
    }
    let allow_stale = arguments.cache.allow_stale;
    let mut failed = record.runs.iter().any(|run| has_failed(run, allow_stale));
    let json = json.map(|output| ("JSON", output.write(|mut out| record.write(&mut out))));
    let log = log.map(|log| ("HdrHistogram log", log.finish()));
    let table = table.map(|output| ("CSV", output.write(|out| csv(&record, out))));
    for (name, written) in [json, log, table].into_iter().flatten() {
        match written {
            Ok(()) => tell!("{name} saved"),
            Err(error) => {
                failed = true;
                tell!("error: {error}");
            }
        }
    }
    cleaning.run();
    control.block_on(target.shutdown());
    let code = if interrupted() { EXIT_INTERRUPTED as u8 } else { u8::from(failed) };
    drop(graceful);
    if interrupted() {
        // The process ends when the other cleanups have run.
        std::thread::park_timeout(LONGEST_END);
    }
    Ok(ExitCode::from(code))
}

/// Whether a run ended otherwise than asked, or its figures can't be trusted.
fn has_failed(run: &crate::record::load::LoadRun, allow_stale: bool) -> bool {
    let untrue = run.figures.as_ref().is_some_and(|figures| {
        let wrong = figures.errors_by_kind.iter().any(|errors| errors.kind == "wrong-reply");
        let stale = figures.cache.as_ref().is_some_and(|cache| cache.stale() > 0);
        wrong || (stale && !allow_stale) || !figures.audit.is_exact()
    });
    untrue || !matches!(run.status, Status::Done | Status::Interrupted | Status::Unsupported)
}
