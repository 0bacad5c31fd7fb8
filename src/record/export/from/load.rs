//! Records of `rcb load`: a driver and workload is a cell, a round a single run.

use std::slice;

use super::super::sheet::{Figure, Measure, Name, Sheet};
use super::{Facts, Head, Parameters};
use crate::drivers::{Capacity, Profile};
use crate::measure::{Latency, latency};
use crate::record::RuntimeFlavour;
use crate::record::load::{Asked, AskedCache, Figures, LoadRecord, LoadRun, Status};

pub(super) fn sheet(path: &str, record: &LoadRecord) -> Sheet {
    let head = Head {
        path,
        created: &record.created,
        made_by: "rcb load",
        complete: record.complete,
        environment: &record.environment,
        targets: slice::from_ref(&record.target),
        warnings: &record.warnings,
    };
    let mut sheet = head.sheet();
    let mut cells: Vec<(&LoadRun, Vec<&Figures>)> = Vec::new();
    for run in &record.runs {
        match sound(record, run) {
            Ok(figures) => match cells.iter_mut().find(|(first, _)| name(record, first) == name(record, run)) {
                Some((_, all)) => all.push(figures),
                None => cells.push((run, vec![figures])),
            },
            Err(reason) => {
                let name = format!("{}, round {}", name(record, run), run.round);
                if run.status == Status::Unsupported { sheet.unsupported(name, &reason) } else { sheet.leave_out(name, reason) }
            }
        }
    }
    for (run, rounds) in cells {
        let mut marks = Vec::new();
        if !record.asked.verify {
            marks.push("replies not checked".to_owned());
        }
        if !run.settings.as_asked {
            marks.push("not tuned".to_owned());
        }
        if rounds.iter().any(|figures| overloaded(figures)) {
            marks.push("overloaded".to_owned());
        }
        if rounds.iter().filter_map(|figures| figures.cache.as_ref()).any(|cache| cache.staleness.unjudged.is_some()) {
            marks.push("staleness not judged".to_owned());
        }
        let facts = Facts {
            workers: Some(run.runtime.workers),
            operations: rounds.iter().map(|figures| figures.commands).collect(),
            marks,
            ..Facts::default()
        };
        sheet.push(name(record, run), (&run.client, &run.client_version), facts, figures(&rounds));
    }
    sheet
}

fn overloaded(figures: &Figures) -> bool {
    figures.plan.as_ref().is_some_and(|plan| plan.overloaded)
}

/// The figures of a run that can be stood behind, or why there are none.
fn sound<'a>(record: &LoadRecord, run: &'a LoadRun) -> Result<&'a Figures, String> {
    let reason = run.reason.as_deref().unwrap_or("no reason was recorded");
    match run.status {
        Status::Done => {}
        Status::Error => return Err(format!("stopped at an error: {reason}")),
        Status::Interrupted => return Err("interrupted".to_owned()),
        Status::Stalled => return Err(format!("given up: {reason}")),
        Status::Failed => return Err(format!("failed: {reason}")),
        Status::Unsupported => return Err(reason.to_owned()),
    }
    let figures = run.figures.as_deref().ok_or("nothing was sent")?;
    if let Some(deviation) = figures.audit.deviations.first() {
        return Err(format!("its audit failed: {deviation}"));
    }
    if figures.errors > 0 {
        // A rate that is part errors says nothing beside one without.
        return Err(format!("{} of {} commands failed", figures.errors, figures.errors + figures.commands));
    }
    if let Some(stale) = figures.cache.as_ref().map(|cache| cache.stale()).filter(|stale| *stale > 0) {
        // Allowed to be or not: a cache is fast that does not forget.
        return Err(format!("unsound: {stale} stale reads"));
    }
    if figures.commands == 0 || figures.duration <= 0.0 {
        return Err("no command was done, or no time was measured".to_owned());
    }
    if record.asked.open_loop.is_some() != figures.plan.is_some() {
        return Err("it is not the open loop that was asked for, or the other way round".to_owned());
    }
    Ok(figures)
}

/// Medians of the rounds; percentiles are of all of them together.
fn figures(rounds: &[&Figures]) -> Vec<Option<Figure>> {
    let values = |value: &dyn Fn(&Figures) -> Option<f64>| {
        let values: Vec<f64> = rounds.iter().filter_map(|figures| value(figures)).collect();
        (values.len() == rounds.len()).then_some(values)
    };
    let each = |measure, value: &dyn Fn(&Figures) -> Option<f64>| values(value).and_then(|values| Figure::median(measure, values));
    let together = together(rounds);
    let percentile = |measure, value: fn(&Latency) -> u64| {
        let samples = values(&|figures| figures.latency().map(|latency| value(&latency) as f64))?;
        Figure::new(measure, value(together.as_ref()?) as f64, samples)
    };
    vec![
        each(Measure::TimePerOp, &|figures| Some(figures.duration * 1e9 / figures.commands as f64)),
        each(Measure::Rate, &|figures| Some(figures.rate())),
        percentile(Measure::P50, |latency| latency.p50_ns),
        percentile(Measure::P99, |latency| latency.p99_ns),
        each(Measure::ClientCpu, &Figures::client_cpu_per_command),
        each(Measure::ServerCpu, &Figures::server_cpu_per_command),
        each(Measure::Allocations, &Figures::allocations_per_command),
        each(Measure::AllocatedBytes, &Figures::allocated_bytes_per_command),
        each(Measure::CommandsPerRead, &Figures::commands_per_read),
        each(Measure::PeakMemory, &|figures| figures.client.peak_memory.map(|bytes| bytes as f64)),
    ]
}

/// The latencies of all rounds; `None` when one of them has none.
fn together(rounds: &[&Figures]) -> Option<Latency> {
    if let [only] = rounds {
        return only.latency();
    }
    let mut all = latency::histogram();
    for figures in rounds {
        figures.latency()?;
        let distribution = if figures.plan.is_some() { &figures.planned } else { &figures.service };
        latency::merge(&mut all, &distribution.histogram()?);
    }
    Latency::of(&all)
}

/// Every field is named here, so that one that is added can't be overlooked: if it sways figures it belongs to the name, by which
/// runs are told apart.
fn name(record: &LoadRecord, run: &LoadRun) -> Name {
    let LoadRun {
        workload: _,
        round: _,
        driver: _,
        cached,
        client: _,
        client_version: _,
        settings,
        runtime: _,
        status: _,
        reason: _,
        figures: _,
        rate: _,
    } = run;
    let Asked {
        keys,
        key_distribution,
        data_size,
        // Draws other commands and keys of the same kind.
        seed: _,
        prefill,
        callers,
        pipeline,
        transaction,
        // How long it ran sways figures little, and so does what stands in the marks.
        commands: _,
        test_time: _,
        warmup: _,
        open_loop,
        verify: _,
        continue_on_error: _,
        rounds: _,
        cache,
    } = &record.asked;
    let mut parameters = Parameters::default();
    if let Some(mix) = run.figures.as_deref().filter(|figures| figures.entries.len() > 1) {
        parameters.always("mix", mix_text(mix));
    }
    parameters.always("window", settings.window_text());
    parameters.always("conns", settings.connections);
    parameters.always("callers", callers);
    parameters.differing("limit", settings.limit, 0);
    parameters.differing(if *transaction { "multi" } else { "pipeline" }, pipeline, 1);
    parameters.always("keys", keys);
    parameters.always("d", data_size);
    parameters.differing("draw", key_distribution, "uniform");
    parameters.differing("prefill", prefill, false);
    if let Some(open) = open_loop {
        // A comma would begin another parameter.
        parameters.always("rps", open.schedule.to_string().replace(',', "+").replace('=', ":"));
        parameters.differing("burst", open.burst, 1);
    }
    if let (Some(cached), Some(cache)) = (cached, cache) {
        cache_parameters(&mut parameters, *cached, cache);
    }
    parameters.differing("resp", u8::from(settings.resp), 2);
    parameters.differing("profile", settings.profile, Profile::Tuned);
    if run.runtime.flavour == RuntimeFlavour::CurrentThread {
        parameters.always("rt", "current");
    }
    if record.target.topology == crate::drivers::Topology::Cluster {
        parameters.always("target", "cluster");
    }
    Name { workload: run.workload.clone(), driver: run.driver.clone(), parameters: parameters.0 }
}

/// What sets a run through a cache apart from one with another, and from one beside it.
fn cache_parameters(parameters: &mut Parameters, cached: bool, cache: &AskedCache) {
    let AskedCache { mode, noloop, ttl_seconds, capacity, external_writers, probes_per_second, baseline: _, allow_stale: _ } = cache;
    if cached {
        parameters.always("cache", mode);
        parameters.differing("noloop", noloop, false);
        parameters.always("ttl", format!("{ttl_seconds}s"));
        if let Some(capacity) = capacity {
            let text = match capacity {
                Capacity::Entries(entries) => entries.to_string(),
                Capacity::Bytes(bytes) => format!("{bytes}B"),
            };
            parameters.always("capacity", text);
        }
        parameters.differing("probes", probes_per_second, 0);
    } else {
        parameters.always("cache", "off");
    }
    parameters.differing("writers", if *external_writers { "external" } else { "own" }, "own");
}

/// `SET*0.25+GET*0.75`.
fn mix_text(figures: &Figures) -> String {
    let word = |command: &str| command.split_whitespace().next().unwrap_or_default().to_owned();
    figures.entries.iter().map(|entry| format!("{}*{}", word(&entry.command), entry.ratio)).collect::<Vec<_>>().join("+")
}
