//! What `rcb compare` prints.

use comfy_table::{Cell as TableCell, CellAlignment, Table, presets};

use super::lines;
use super::table::grouped;
use crate::compare::{Analysis, Gate, Metric, Verdict, median};
use crate::record::comparison::{Answer, ComparisonRecord, Judged, LeftOut, What, WorkloadPlan};

const HEADER: [&str; 7] = ["workload", "metric", "baseline", "candidate", "difference", "A/A", "verdict"];

/// What a session is about to do.
#[must_use]
pub fn heading(record: &ComparisonRecord) -> String {
    let names: Vec<_> = record.subjects.iter().map(|subject| subject.name.as_str()).collect();
    let workloads: Vec<_> = record.workloads.iter().map(|workload| workload.name.as_str()).collect();
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    let against = record.asked.baseline.as_ref().map_or(String::new(), |older| format!(" (baseline {} of {})", older.name, older.created));
    format!(
        "comparing {}{against}: {}; observations of {} s, at most {:.0} s in all",
        names.join(" with "),
        workloads.join(", "),
        seconds(record.asked.time_ns),
        seconds(record.asked.max_time_ns) * record.workloads.len() as f64,
    )
}

/// The workloads that can be named.
#[must_use]
pub fn workloads(workloads: &[WorkloadPlan]) -> String {
    let line = |workload: &WorkloadPlan| {
        let what = match workload.command {
            What::Get => format!("GET of {} bytes, {} callers", workload.payload, workload.callers),
            What::Set => format!("SET of {} bytes, {} callers", workload.payload, workload.callers),
            What::Hkeys => format!("HKEYS of {} fields, {} callers", workload.fields, workload.callers),
            What::Receive => format!("messages of {} bytes, published in pipelines of {}", workload.payload, workload.batch),
        };
        let pipeline = if workload.pipeline > 1 { format!(", explicit pipelines of {}", workload.pipeline) } else { String::new() };
        format!("{:<14} {what}{pipeline}", workload.name)
    };
    workloads.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The whole result. `provisional` is what an interrupted session looks like so far: figures, no verdicts.
#[must_use]
pub fn text(record: &ComparisonRecord, provisional: Option<&Judged>, against_itself: bool) -> String {
    let mut parts = Vec::new();
    let judged = provisional.or(record.judged.as_ref());
    for candidate in 1..record.subjects.len() {
        parts.push(of_candidate(record, candidate, judged, provisional.is_some()));
    }
    if let Some(judged) = judged.filter(|judged| !judged.answers.is_empty()) {
        parts.push(legend(judged, provisional.is_some()));
    }
    if against_itself {
        parts.push("A/A session: both are the same, so that every verdict of a difference is a false one.".to_owned());
    }
    if let Some(older) = &record.asked.baseline {
        parts.push(format!(
            "The baseline {:?} was measured on {}: what else has changed on this machine since then is in the differences, and no A/A shows it. \
             Sessions that measure both are to be preferred.",
            older.name, older.created
        ));
        parts.extend(older.forced.iter().map(|other| format!("Compared by --force: {other}.")));
    }
    parts.join("\n\n")
}

fn of_candidate(record: &ComparisonRecord, candidate: usize, judged: Option<&Judged>, provisional: bool) -> String {
    let (baseline, subject) = (&record.subjects[0], &record.subjects[candidate]);
    let shown = |subject: &crate::record::comparison::Subject| {
        if subject.client.is_empty() { subject.name.clone() } else { format!("{} ({})", subject.name, subject.client_version()) }
    };
    let mut out = vec![format!("{} against {}", shown(subject), shown(baseline))];
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(HEADER);
    for index in 2..HEADER.len() - 1 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut rows = 0;
    for workload in &record.workloads {
        let mut name = workload.name.as_str();
        let answers = judged.into_iter().flat_map(|judged| &judged.answers);
        for answer in answers.filter(|answer| answer.subject == candidate && answer.analysis.workload == workload.name) {
            table.add_row(row(record, workload, name, answer, provisional));
            // Once is enough for the eye.
            name = "";
            rows += 1;
        }
    }
    if rows > 0 {
        out.push(lines(&table));
    }
    let of_all = |left_out: &&LeftOut| left_out.subject == 0 || left_out.subject == candidate;
    out.extend(record.left_out.iter().filter(|left_out| left_out.workload.is_none()).filter(of_all).map(|left_out| why(record, left_out)));
    for workload in &record.workloads {
        out.extend(without_figures(record, workload, candidate));
    }
    out.join("\n")
}

fn row(record: &ComparisonRecord, workload: &WorkloadPlan, name: &str, answer: &Answer, provisional: bool) -> Vec<TableCell> {
    let analysis = &answer.analysis;
    let typical = |subject: usize| {
        let values: Vec<f64> = record
            .rounds_of(&workload.name)
            .filter(|round| {
                [(0, false), (0, true), (answer.subject, false)]
                    .into_iter()
                    .all(|(subject, control)| round.turn(subject, control).is_some_and(|turn| turn.measured.is_some()))
            })
            .filter_map(|round| round.turn(subject, false)?.measured?.metrics(workload.command).get(&analysis.metric).copied())
            .collect();
        if values.is_empty() { "–".to_owned() } else { value(analysis.metric, median(&values)) }
    };
    let [difference, low, high] = [analysis.ratio.median, analysis.ratio.low, analysis.ratio.high].map(percent);
    [
        name.to_owned(),
        analysis.metric.name().to_owned(),
        typical(0),
        typical(answer.subject),
        format!("{difference} % ({low} to {high})"),
        format!("±{:.1} %", analysis.noise_floor * 100.0),
        if provisional { "–".to_owned() } else { verdict(analysis) },
    ]
    .map(TableCell::new)
    .into()
}

/// A value in the unit of people.
fn value(metric: Metric, value: f64) -> String {
    let time = |nanos: f64| if nanos < 10_000.0 { format!("{nanos:.0} ns") } else { format!("{:.1} µs", nanos / 1e3) };
    match metric {
        Metric::Rate => format!("{}/s", grouped(value)),
        Metric::P50 | Metric::P99 | Metric::ClientCpu => time(value),
        Metric::Allocations | Metric::CommandsPerRead => format!("{value:.2}"),
        Metric::AllocatedBytes => format!("{value:.0} B"),
    }
}

/// A ratio as a difference in percent, with its sign.
fn percent(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    // No minus before what rounds to none.
    if percent.abs() < 0.05 { "0.0".to_owned() } else { format!("{percent:+.1}") }
}

fn verdict(analysis: &Analysis) -> String {
    match analysis.verdict {
        Verdict::Better => "better".to_owned(),
        Verdict::Worse => "WORSE".to_owned(),
        Verdict::NoDifference => format!("no difference of {:.1} %", analysis.threshold * 100.0),
        Verdict::Undecided { visible: Some(visible) } => format!("~ ({:.1} % would have been seen)", visible * 100.0),
        Verdict::Undecided { visible: None } => "~ (too few rounds)".to_owned(),
    }
}

/// What a workload has no figures of, and what failed now and then.
fn without_figures(record: &ComparisonRecord, workload: &WorkloadPlan, candidate: usize) -> Vec<String> {
    let mut out = Vec::new();
    let concerned = |subject: usize| subject == 0 || subject == candidate;
    let of_this = |left_out: &&LeftOut| concerned(left_out.subject) && left_out.workload.as_deref() == Some(&workload.name);
    for left_out in record.left_out.iter().filter(of_this) {
        out.push(format!("{}: {}", workload.name, why(record, left_out)));
    }
    let failures: Vec<_> = record.failures().filter(|(subject, of, _)| concerned(*subject) && *of == workload.name).collect();
    let told = |subject: usize| record.left_out.iter().any(|left_out| left_out.subject == subject);
    if let Some((subject, _, reason)) = failures.iter().find(|(subject, ..)| !told(*subject)) {
        let name = &record.subjects[*subject].name;
        let count = failures.len();
        let observations = if count == 1 { "observation" } else { "observations" };
        out.push(format!("{}: FAILED: {count} {observations} without figures, the first of {name}: {reason}", workload.name));
    }
    out
}

fn why(record: &ComparisonRecord, left_out: &LeftOut) -> String {
    let failed = if left_out.unsupported { "" } else { "FAILED: " };
    format!("{}: {failed}{}", record.subjects[left_out.subject].name, left_out.reason)
}

fn legend(judged: &Judged, provisional: bool) -> String {
    if provisional {
        return "Interrupted: medians and intervals so far, no verdicts.".to_owned();
    }
    let rounds = judged.answers.iter().map(|answer| answer.analysis.ratio.rounds);
    let (fewest, most) = (rounds.clone().min().unwrap_or(0), rounds.max().unwrap_or(0));
    let rounds = if fewest == most { fewest.to_string() } else { format!("{fewest} to {most}") };
    let family = &judged.family;
    format!(
        "{rounds} rounds; {} questions corrected together, significant up to q = {:.4}, intervals of {:.2} %. A/A: what the baseline differs by from itself.",
        family.questions,
        family.significant,
        family.confidence * 100.0,
    )
}

/// What a gate takes for a regression.
#[must_use]
pub fn regressions(record: &ComparisonRecord, gate: Gate) -> Vec<&Answer> {
    record.judged.iter().flat_map(|judged| &judged.answers).filter(|answer| answer.analysis.breaks(gate)).collect()
}

/// What the gate says.
#[must_use]
pub fn gate(record: &ComparisonRecord, gate: Gate, regressions: &[&Answer]) -> String {
    let most = gate.max_regression * 100.0;
    if regressions.is_empty() {
        return format!("\ngate: no regression of more than {most} % was found");
    }
    let line = |answer: &&Answer| {
        let Analysis { workload, metric, ratio, .. } = &answer.analysis;
        let [difference, low, high] = [ratio.median, ratio.low, ratio.high].map(percent);
        format!(
            "gate: {} is worse by more than {most} %: {workload}, {metric}: {difference} % ({low} to {high})",
            record.subjects[answer.subject].name
        )
    };
    format!("\n{}", regressions.iter().map(line).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Look;
    use crate::record::comparison::tests::record;
    use crate::record::comparison::{Older, Turn};

    fn judged(cpu: [u64; 3], rounds: usize) -> ComparisonRecord {
        let mut record = record(rounds, cpu);
        record.judged = Some(record.judge(Look::ONLY));
        record
    }

    #[test]
    fn verdicts_stand_beside_differences_and_the_noise() {
        insta::assert_snapshot!(text(&judged([100, 100, 120], 20), None, false));
    }

    #[test]
    fn few_rounds_failures_and_an_older_baseline_are_told() {
        let mut record = judged([100, 101, 100], 4);
        record.rounds[0].turns[0] = Turn { subject: 0, control: false, measured: None, failed: Some("no answer within 5s".into()) };
        record.left_out.push(LeftOut { subject: 1, workload: None, unsupported: false, reason: "it can't be built".into() });
        record.asked.baseline =
            Some(Older { name: "main".into(), created: "2026-01-01T00:00:00Z".into(), forced: vec!["its server was old".into()] });
        insta::assert_snapshot!(text(&record, None, true));
        let provisional = record.judge(Look::ONLY);
        assert!(text(&record, Some(&provisional), false).contains("no verdicts"));
    }

    #[test]
    fn the_gate_names_what_broke_it() {
        let record = judged([100, 100, 120], 20);
        let five = Gate { max_regression: 0.05 };
        let told = gate(&record, five, &regressions(&record, five));
        assert!(told.contains("redis@1.8.1 is worse by more than 5 %: get-64, client-cpu: +20"), "{told}");
        let half = Gate { max_regression: 0.5 };
        assert!(regressions(&record, half).is_empty() && gate(&record, half, &[]).contains("no regression of more than 50 %"));
    }
}
