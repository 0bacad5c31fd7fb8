//! Records of `rcb compare`: a subject and workload is a cell, an observation a single run. A round counts where baseline, control and
//! subject were all measured, as it does for the verdicts.

use std::slice;

use super::super::sheet::{Against, Figure, Measure, Name, Sheet};
use super::{Facts, Head, Parameters};
use crate::compare::{Metric, Verdict};
use crate::record::comparison::{ComparisonRecord, Figures, Subject, What, WorkloadPlan};
use crate::worker::subject::{Origin, Source, SubjectSpec};

pub(super) fn sheet(path: &str, record: &ComparisonRecord) -> Sheet {
    let head = Head {
        path,
        created: &record.created,
        made_by: "rcb compare",
        complete: record.complete,
        environment: &record.environment,
        targets: slice::from_ref(&record.target),
        warnings: &record.warnings,
    };
    let mut sheet = head.sheet();
    for workload in &record.workloads {
        for (place, subject) in record.subjects.iter().enumerate() {
            cell(&mut sheet, record, workload, place, subject, false);
            if place == 0 {
                cell(&mut sheet, record, workload, place, subject, true);
            }
        }
    }
    for left in &record.left_out {
        let subject = record.subjects.get(left.subject).map_or("unknown subject", |subject| subject.name.as_str());
        let name = format!("{}/{subject}", left.workload.as_deref().unwrap_or("all workloads"));
        if left.unsupported { sheet.unsupported(name, &left.reason) } else { sheet.leave_out(name, format!("failed: {}", left.reason)) }
    }
    sheet
}

fn cell(sheet: &mut Sheet, record: &ComparisonRecord, workload: &WorkloadPlan, place: usize, subject: &Subject, control: bool) {
    let name = name(record, workload, place, subject);
    let mut observations = Vec::new();
    for (number, round) in record.rounds_of(&workload.name).enumerate() {
        let Some(turn) = round.turn(place, control) else { continue };
        if let Some(reason) = &turn.failed {
            let second = if control { " (control)" } else { "" };
            sheet.leave_out(format!("{name}{second}, round {}", number + 1), format!("failed: {reason}"));
            continue;
        }
        let measured = |place, control| round.turn(place, control).is_some_and(|turn| turn.failed.is_none() && turn.measured.is_some());
        let whole = measured(0, false) && measured(0, true);
        observations.extend(turn.measured.as_ref().filter(|figures| whole && figures.operations > 0 && figures.elapsed_ns > 0));
    }
    if observations.is_empty() {
        // Why is told by what failed, or by what was left out.
        if !control && !sheet.complete {
            sheet.leave_out(name, "no whole round before the session ended");
        }
        return;
    }
    let mut figures = figures(&observations, workload.command);
    if place > 0 {
        figures.iter_mut().flatten().for_each(|figure| figure.against = against(record, workload, place, figure.measure));
    }
    let older = record.asked.baseline.as_ref().filter(|_| place == 0);
    let facts = Facts {
        operations: observations.iter().map(|figures| figures.operations).collect(),
        workers: Some(subject.settings.threads).filter(|threads| *threads > 0),
        marks: older.map(|older| format!("measured in the session {} of {}", older.name, older.created)).into_iter().collect(),
        ..Facts::default()
    };
    let before = sheet.entries.len();
    let lineage = lineage(&name, subject);
    sheet.push(name, (&subject.client, &version(subject)), facts, figures);
    for entry in &mut sheet.entries[before..] {
        entry.control = control;
        entry.of_another_session = older.is_some();
        entry.lineage.clone_from(&lineage);
    }
}

/// Medians of the observations.
fn figures(observations: &[&Figures], what: What) -> Vec<Option<Figure>> {
    let each = |measure, value: &dyn Fn(&Figures) -> Option<f64>| {
        let values: Vec<f64> = observations.iter().filter_map(|figures| value(figures)).collect();
        (values.len() == observations.len()).then_some(values).and_then(|values| Figure::median(measure, values))
    };
    let metric = |measure, metric: Metric| each(measure, &|figures: &Figures| figures.metrics(what).get(&metric).copied());
    vec![
        each(Measure::TimePerOp, &|figures| Some(figures.elapsed_ns as f64 / figures.operations as f64)),
        metric(Measure::Rate, Metric::Rate),
        metric(Measure::P50, Metric::P50),
        metric(Measure::P99, Metric::P99),
        metric(Measure::ClientCpu, Metric::ClientCpu),
        each(Measure::ServerCpu, &|figures| Some(figures.server_cpu_ns as f64 / figures.operations as f64)),
        metric(Measure::Allocations, Metric::Allocations),
        metric(Measure::AllocatedBytes, Metric::AllocatedBytes),
        metric(Measure::CommandsPerRead, Metric::CommandsPerRead),
        each(Measure::PeakMemory, &|figures| figures.peak_memory.map(|bytes| bytes as f64)),
    ]
}

/// What the session's last look said of a measure, if it was asked.
fn against(record: &ComparisonRecord, workload: &WorkloadPlan, place: usize, measure: Measure) -> Option<Against> {
    let metric = match measure {
        Measure::Rate => Metric::Rate,
        Measure::P50 => Metric::P50,
        Measure::P99 => Metric::P99,
        Measure::ClientCpu => Metric::ClientCpu,
        Measure::Allocations => Metric::Allocations,
        Measure::AllocatedBytes => Metric::AllocatedBytes,
        Measure::CommandsPerRead => Metric::CommandsPerRead,
        Measure::TimePerOp | Measure::ServerCpu | Measure::PeakMemory => return None,
    };
    let answers = &record.judged.as_ref()?.answers;
    let found = answers
        .iter()
        .find(|answer| answer.subject == place && answer.analysis.workload == workload.name && answer.analysis.metric == metric)?;
    let ratio = found.analysis.ratio;
    let verdict = match found.analysis.verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::NoDifference => "no-difference",
        Verdict::Undecided { .. } => "undecided",
    };
    Some(Against { ratio: ratio.median, low: ratio.low, high: ratio.high, verdict })
}

/// The version; of a local copy or a worker of somebody's also where it came from, since it is not the release whose number it bears.
fn version(subject: &Subject) -> String {
    let version = &subject.client_version;
    match subject.name.parse::<SubjectSpec>().map(|spec| spec.source) {
        Ok(Source::Client(Origin::Path(folder))) => format!("{version} (path:{})", folder.display()),
        Ok(Source::Client(Origin::Git { folder, revision })) => format!("{version} (git:{}#{revision})", folder.display()),
        Ok(Source::Worker(program)) => format!("{version} (worker:{})", program.display()),
        Ok(Source::Build | Source::Client(Origin::Registry(_))) | Err(_) => version.clone(),
    }
}

/// The name with the driver in place of the subject's text, which may hold a version.
fn lineage(name: &Name, subject: &Subject) -> String {
    Name { driver: subject.driver.clone(), ..name.clone() }.to_string()
}

fn name(record: &ComparisonRecord, workload: &WorkloadPlan, place: usize, subject: &Subject) -> Name {
    let settings = &subject.settings;
    let mut parameters = Parameters::default();
    parameters.always("callers", workload.callers);
    parameters.differing("pipeline", workload.pipeline, 1);
    match workload.command {
        What::Hkeys => parameters.always("fields", workload.fields),
        What::Get | What::Set => parameters.always("d", workload.payload),
        What::Receive => {
            parameters.always("d", workload.payload);
            parameters.always("batch", workload.batch);
        }
    }
    parameters.always("keys", workload.keys);
    parameters.always("window", &settings.window);
    parameters.always("conns", settings.connections);
    parameters.differing("limit", settings.limit, 0);
    parameters.differing("resp", settings.resp, 2);
    parameters.differing("profile", &settings.profile, "tuned");
    if let Some(nodelay) = settings.nodelay {
        parameters.always("nodelay", nodelay);
    }
    parameters.differing("rt", &settings.runtime, "multi-thread");
    parameters.differing("threads", settings.threads, 0);
    parameters.differing("burden", format!("{}ns", settings.burden_ns), "0ns");
    settings.other.iter().for_each(|(key, value)| parameters.always(key, value));
    if record.asked.pinned.is_some() {
        parameters.always("pin", "yes");
    }
    if record.asked.spinner {
        parameters.always("spin", "yes");
    }
    // An A/A session names one subject twice.
    let before = record.subjects.iter().take(place).filter(|other| other.name == subject.name).count();
    parameters.differing("again", before, 0);
    Name { workload: workload.name.clone(), driver: subject.name.clone(), parameters: parameters.0 }
}
