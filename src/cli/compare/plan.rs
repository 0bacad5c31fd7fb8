//! What a session will do: from the flags, or from the record of a session that is to go on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::args::Arguments;
use super::baseline;
use crate::compare::{self, Metric};
use crate::drivers::find;
use crate::measure::Environment;
use crate::measure::clock::nanos;
use crate::plan::{ComparisonConfig, usual_workloads};
use crate::record::comparison::{Asked, ComparisonRecord, Subject, WorkloadPlan};
use crate::worker::program::{Program, Refused, check_program, program_of};
use crate::worker::protocol::SettingsRequest;
use crate::worker::subject::{Source, SubjectSpec};
use crate::worker::versions::BuildOptions;
use crate::workload::pubsub::account::fresh_run;

/// A subject that can be started, or the reason why not.
pub struct Contender {
    pub subject: Subject,
    pub program: Result<Program, String>,
}

pub struct Plan {
    /// One for each subject of the record; the baseline of an older session has none.
    pub contenders: Vec<Option<Contender>>,
    pub workloads: Vec<WorkloadPlan>,
    pub asked: Asked,
    /// The session that is to go on.
    pub resumed: Option<ComparisonRecord>,
    /// The session to compare with.
    pub older: Option<ComparisonRecord>,
}

impl Plan {
    pub fn new(arguments: &Arguments, environment: &Environment) -> Result<Self, String> {
        if let Some(path) = &arguments.resume {
            return Self::resumed(arguments, path, environment);
        }
        let older = arguments.baseline.as_deref().map(|name| baseline::load(&arguments.results, name)).transpose()?;
        let mut names: Vec<&str> = arguments.subjects.iter().map(String::as_str).collect();
        match (&names[..], &older) {
            ([], _) => return Err("nothing to compare; name two subjects, as in rcb compare redis@0.32.7 redis@1.8.1".to_owned()),
            ([only], None) if arguments.save_baseline.is_some() => names = vec![only, only],
            ([only], None) => {
                return Err(format!("{only} alone can't be compared; name a second subject, or an older session with --baseline"));
            }
            ([_, _, ..], Some(_)) => return Err("--baseline takes the place of the first subject; name only one".to_owned()),
            _ => {}
        }
        let specs = specs(&names)?;
        let mut contenders = Vec::new();
        if older.is_some() {
            contenders.push(None);
        }
        contenders.extend(contend(&specs, arguments)?.into_iter().map(Some));
        let asked = Asked {
            seed: arguments.seed.unwrap_or_else(fresh_run),
            time_ns: nanos(arguments.time),
            warm_up_ns: nanos(arguments.warm_up),
            patience_ns: nanos(arguments.patience),
            max_time_ns: nanos(arguments.max_time),
            verdicts: compare::Settings {
                metrics: if arguments.metrics.is_empty() { Metric::ALL.into() } else { arguments.metrics.iter().copied().collect() },
                thresholds: arguments.thresholds.iter().copied().collect(),
                ..compare::Settings::default()
            },
            pinned: None,
            spinner: arguments.spin,
            baseline: None,
        };
        let known = match (&older, &arguments.config) {
            (Some(older), None) => older.workloads.clone(),
            _ => known_workloads(arguments.config.as_deref())?,
        };
        let workloads = chosen(known, &arguments.workloads)?;
        Ok(Self { contenders, workloads, asked, resumed: None, older })
    }

    fn resumed(arguments: &Arguments, path: &Path, environment: &Environment) -> Result<Self, String> {
        let record = ComparisonRecord::load(path).map_err(|error| error.to_string())?;
        if record.complete {
            return Err(format!("{} is a session that came to its end; there is nothing to go on with", path.display()));
        }
        let other = baseline::other_machine(&record, environment);
        if !other.is_empty() && !arguments.force {
            return Err(format!("{} was begun elsewhere: {}; --force goes on all the same", path.display(), other.join("; ")));
        }
        let older = match &record.asked.baseline {
            Some(older) => Some(baseline::load(&arguments.results, &older.name)?),
            None => None,
        };
        let own = usize::from(older.is_some());
        let names: Vec<&str> = record.subjects[own.min(record.subjects.len())..].iter().map(|subject| subject.name.as_str()).collect();
        let mut contenders: Vec<Option<Contender>> = contend(&specs(&names)?, arguments)?.into_iter().map(Some).collect();
        if older.is_some() {
            contenders.insert(0, None);
        }
        Ok(Self { contenders, workloads: record.workloads.clone(), asked: record.asked.clone(), older, resumed: Some(record) })
    }

    /// What is not the same for all subjects though nobody asked for it.
    pub fn unequal(&self) -> Option<String> {
        let subjects: Vec<_> = self.contenders.iter().flatten().map(|contender| &contender.subject).collect();
        let asked = subjects.iter().any(|subject| subject.name.contains("resp="));
        let unlike = subjects.iter().any(|subject| subject.settings.resp != subjects[0].settings.resp);
        let each =
            || subjects.iter().map(|subject| format!("{} RESP{}", subject.name, subject.settings.resp)).collect::<Vec<_>>().join(", ");
        (unlike && !asked).then(|| format!("not all speak the same protocol: {}; give each :resp=3 where that can be", each()))
    }

    /// Whether the first two subjects are the same.
    pub fn is_against_itself(&self) -> bool {
        let names: Vec<_> = self.contenders.iter().flatten().map(|contender| &contender.subject.name).collect();
        self.older.is_none() && names.len() == 2 && names[0] == names[1]
    }
}

/// The subjects called `names`. Only the first may come again: a session against itself.
fn specs(names: &[&str]) -> Result<Vec<SubjectSpec>, String> {
    let specs: Vec<SubjectSpec> =
        names.iter().map(|name| name.parse()).collect::<Result<_, _>>().map_err(|error: crate::worker::BadSubject| error.to_string())?;
    for (place, spec) in specs.iter().enumerate().skip(1) {
        if specs[..place].iter().any(|other| other.text == spec.text) && specs.len() > 2 {
            return Err(format!("{spec} is named twice among several; name it twice and nothing else for a session against itself"));
        }
    }
    Ok(specs)
}

/// Checks all subjects, and then makes their programs. Mistakes of the user end it; what can't be built is data.
fn contend(specs: &[SubjectSpec], arguments: &Arguments) -> Result<Vec<Contender>, String> {
    let mut subjects = Vec::new();
    for spec in specs {
        let mut settings = SettingsRequest::of(spec)?;
        let driver = spec.driver();
        // As the driver ships, unless asked for: rustis speaks RESP3 only.
        if let (Ok(known), false) = (find(&driver), spec.settings.contains_key("resp"))
            && let Some(lowest) = known.resp.iter().min()
        {
            settings.resp = (*lowest).into();
        }
        if spec.source == Source::Build {
            let known = find(&driver).map_err(|error| error.to_string())?;
            if let Some(asked) = std::num::NonZeroUsize::new(settings.connections)
                && let Some(reason) = crate::cli::too_many_connections(known, asked)
            {
                return Err(reason);
            }
        }
        subjects.push(Subject { name: spec.text.clone(), driver, settings, ..Subject::default() });
    }
    let options = BuildOptions { offline: arguments.offline, sources: arguments.sources.clone() };
    for spec in specs {
        if let Err(Refused::Usage(reason)) = check_program(spec, &options) {
            return Err(reason);
        }
    }
    let mut contenders: Vec<Contender> = Vec::new();
    for (spec, subject) in specs.iter().zip(subjects) {
        let program = match contenders.iter().find(|known| known.subject.name == subject.name) {
            Some(same) => same.program.clone(),
            None => match program_of(spec, &options) {
                Ok(program) => Ok(program),
                Err(Refused::Usage(reason)) => return Err(reason),
                Err(Refused::Unbuildable(reason)) => {
                    tell!("{spec}: {reason}");
                    Err(reason)
                }
            },
        };
        let notes = program.as_ref().map(|program| program.notes.clone()).unwrap_or_default();
        contenders.push(Contender { subject: Subject { notes, ..subject }, program });
    }
    Ok(contenders)
}

/// The workloads of a file, or the usual ones.
pub fn known_workloads(config: Option<&Path>) -> Result<Vec<WorkloadPlan>, String> {
    config.map_or_else(|| Ok(usual_workloads()), |path| ComparisonConfig::load(path).map_err(|error| error.to_string()))
}

fn chosen(known: Vec<WorkloadPlan>, names: &[String]) -> Result<Vec<WorkloadPlan>, String> {
    if names.is_empty() {
        return Ok(known);
    }
    let mut chosen = Vec::new();
    let mut seen = BTreeSet::new();
    for name in names.iter().map(|name| name.trim()) {
        let found = known.iter().find(|workload| workload.name == name).ok_or_else(|| {
            let known: Vec<_> = known.iter().map(|workload| workload.name.as_str()).collect();
            format!("no workload {name:?}; there are {}", known.join(", "))
        })?;
        if !seen.insert(name) {
            return Err(format!("the workload {name} is named twice; name it once"));
        }
        chosen.push(found.clone());
    }
    Ok(chosen)
}

/// Where the record goes.
pub fn out(arguments: &Arguments, created: &str) -> PathBuf {
    match (&arguments.resume, &arguments.out) {
        (Some(path), _) | (None, Some(path)) => path.clone(),
        (None, None) => arguments.results.join(format!("compare-{}.json", created.replace(':', ""))),
    }
}
