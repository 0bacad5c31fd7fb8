//! `rcb compare`.

mod args;
mod baseline;
mod pin;
mod plan;
mod session;

use std::process::ExitCode;
use std::time::Duration;

pub use args::Arguments;

use self::pin::Spinner;
use self::plan::Plan;
use self::session::Session;
use super::{Failure, Outcome, print, provide_target};
use crate::compare::Look;
use crate::interrupt::{EXIT_INTERRUPTED, Graceful, interrupted};
use crate::measure::{Environment, warnings};
use crate::record::comparison::{ComparisonRecord, Older, Pinned};
use crate::report::comparison as report;
use crate::target::Target;
use crate::target::audit::Auditor;

/// Longest that the end may take after an interruption: removing the keys and saving the record.
const LONGEST_END: Duration = Duration::from_secs(30);

/// The exit code of a regression.
const REGRESSION: u8 = 3;

pub fn run(arguments: &Arguments) -> Outcome {
    let usage = Failure::Usage;
    if arguments.list {
        let workloads = plan::known_workloads(arguments.config.as_deref()).map_err(usage)?;
        print(&report::workloads(&workloads));
        return Ok(ExitCode::SUCCESS);
    }
    let save_as = arguments.save_baseline.as_deref().map(|name| baseline::path(&arguments.results, name)).transpose().map_err(usage)?;
    let environment = Environment::read();
    let mut plan = Plan::new(arguments, &environment).map_err(usage)?;
    let control = super::runtime(true)?;
    let target = provide_target(&control, &arguments.target)?;
    // After the target, so that on Ctrl-C the servers are still there for removing the keys.
    let graceful = Graceful::register("interrupted; what was measured is kept", LONGEST_END);
    let mut notes = warnings(&environment);
    notes.extend(plan.unequal());
    let spinner = if plan.asked.spinner { Some(Spinner::start().map_err(usage)?) } else { None };
    if arguments.pin || plan.asked.pinned.is_some() {
        plan.asked.pinned = pinned(&control, &target, &mut notes);
    }
    let against_itself = plan.is_against_itself();
    let record = record(arguments, &mut plan, environment, &target, notes)?;
    for warning in &record.warnings {
        tell!("warning: {warning}");
    }
    tell!("{}", report::heading(&record));
    let path = plan::out(arguments, &record.created);
    if let Err(error) = record.save(&path) {
        return Err(usage(format!("can't write {}: {error}; name another file with --out", path.display())));
    }
    let mut session = Session::new(&control, &target, plan, record, path.clone()).map_err(Failure::Measurement)?;
    session.run();
    drop(spinner);
    for warning in session.record.unlike_builds() {
        tell!("warning: {warning}");
        session.record.warnings.push(warning);
    }
    session.save();
    let unsaved = session.unsaved.take();
    let record = session.end();

    let provisional = if record.complete { None } else { Some(record.judge(Look::ONLY)) };
    print(&report::text(&record, provisional.as_ref(), against_itself));
    tell!("{}", unsaved.as_ref().map_or_else(|| format!("record: {}", path.display()), |reason| format!("error: {reason}")));
    let mut failed = record.has_failed() || unsaved.is_some();
    if !record.complete {
        tell!("interrupted; go on with rcb compare --resume {}", path.display());
    } else if let Some(path) = save_as {
        // The new session of a subject that was compared with an older one is a baseline as good as a first one.
        let place = usize::from(record.asked.baseline.is_some());
        match record.as_baseline(place).save(&path) {
            Ok(()) => tell!("baseline: {}", path.display()),
            Err(error) => {
                failed = true;
                tell!("error: can't write {}: {error}", path.display());
            }
        }
    }
    let regressed = record.complete
        && arguments.max_regression.is_some_and(|gate| {
            let regressions: Vec<_> = report::regressions(&record, gate);
            print(&report::gate(&record, gate, &regressions));
            !regressions.is_empty()
        });
    control.block_on(target.shutdown());
    let code = match () {
        () if interrupted() => EXIT_INTERRUPTED as u8,
        () if regressed => REGRESSION,
        () => u8::from(failed),
    };
    drop(graceful);
    if interrupted() {
        // The process ends when the other cleanups have run.
        std::thread::park_timeout(LONGEST_END);
    }
    Ok(ExitCode::from(code))
}

/// The record to be filled: a new one, or that of the session that goes on.
fn record(
    arguments: &Arguments,
    plan: &mut Plan,
    environment: Environment,
    target: &Target,
    notes: Vec<String>,
) -> Result<ComparisonRecord, Failure> {
    let facts = target.facts();
    if let Some(mut record) = plan.resumed.take() {
        let other = baseline::other_target(&record.target, &facts);
        if !other.is_empty() && !arguments.force {
            return Err(Failure::Usage(format!(
                "the session was begun with another target: {}; --force goes on all the same",
                other.join("; ")
            )));
        }
        record.warnings.extend(other.into_iter().map(|other| format!("gone on with by --force: {other}")));
        record.asked.pinned.clone_from(&plan.asked.pinned);
        for note in notes {
            if !record.warnings.contains(&note) {
                record.warnings.push(note);
            }
        }
        return Ok(record);
    }
    let mut subjects: Vec<_> = plan.contenders.iter().flatten().map(|contender| contender.subject.clone()).collect();
    if let Some(older) = &plan.older {
        let mut other = baseline::other_machine(older, &environment);
        other.extend(baseline::other_target(&older.target, &facts));
        other.extend(baseline::otherwise_asked(&older.asked, &plan.asked));
        let name = arguments.baseline.clone().unwrap_or_default();
        if !other.is_empty() && !arguments.force {
            let text =
                format!("the baseline {name:?} can't be compared with: {}; --force compares all the same, and says so", other.join("; "));
            return Err(Failure::Usage(text));
        }
        plan.workloads.retain(|workload| older.workloads.contains(workload) && older.rounds_of(&workload.name).next().is_some());
        if plan.workloads.is_empty() {
            let known: Vec<_> = older.workloads.iter().map(|workload| workload.name.as_str()).collect();
            return Err(Failure::Usage(format!("the baseline {name:?} has none of these workloads; it has {}", known.join(", "))));
        }
        subjects.insert(0, older.subjects[0].clone());
        plan.asked.baseline = Some(Older { name, created: older.created.clone(), forced: other });
    }
    let mut record = ComparisonRecord::new(environment, facts, plan.asked.clone(), subjects, plan.workloads.clone());
    record.warnings = notes;
    if let Some(older) = &plan.asked.baseline {
        record.warnings.extend(older.forced.iter().map(|other| format!("compared by --force: {other}")));
    }
    Ok(record)
}

/// Binds the servers and says which cores are the workers'; what can't be bound is a warning.
fn pinned(control: &tokio::runtime::Runtime, target: &Target, notes: &mut Vec<String>) -> Option<Pinned> {
    let binding = || {
        let cores = pin::cores()?;
        let nodes: Vec<_> = target.nodes.iter().map(|node| (node.role, node.endpoint.clone())).collect();
        let pids = control.block_on(async {
            let mut auditor = Auditor::connect(nodes).await?;
            auditor.process_ids().await
        });
        pin::bind_servers(target, &pids.map_err(|error| error.to_string())?, &cores.server)?;
        Ok::<_, String>(cores)
    };
    match binding() {
        Ok(cores) => Some(cores),
        Err(reason) => {
            notes.push(format!("--pin: nothing was bound to cores: {reason}"));
            None
        }
    }
}
