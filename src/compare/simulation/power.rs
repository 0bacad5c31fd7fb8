//! Sessions with a true difference: how often it is found, and what is said when it is small.

use super::super::{Analysis, Gate, Metric, Verdict};
use super::machine::{Disturbance, Effect};
use super::{Plan, binomial_bound, share, times};

/// A plan with so much of a metric of the candidate.
fn with(plan: &Plan, metric: Metric, factor: f64) -> Plan {
    Plan { effect: Effect::from([(metric, factor)]), ..plan.clone() }
}

/// What sessions say of a metric of the first workload.
fn said(plan: &Plan, metric: Metric, sessions: usize, seed: u64) -> Vec<Analysis> {
    plan.sessions(sessions, seed, |comparison, _| {
        let of_metric = |analysis: &Analysis| analysis.workload == "w0" && analysis.metric == metric;
        comparison.analyses.into_iter().find(of_metric).expect("every metric is judged")
    })
}

fn found(plan: &Plan, metric: Metric, factor: f64, sessions: usize) -> f64 {
    share(&said(&with(plan, metric, factor), metric, sessions, 900), |analysis| analysis.verdict == Verdict::Worse)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Rows of (workloads, seconds an observation, noise); the first `asserted` are always run.
fn rows(all: &[(usize, f64, f64)], asserted: usize) -> &[(usize, f64, f64)] {
    if times().is_some() { all } else { &all[..asserted] }
}

#[test]
fn five_percent_of_cpu_is_found_in_a_minute() {
    let all =
        [(1, 0.5, 0.015), (1, 0.5, 0.02), (1, 0.5, 0.01), (1, 1.0, 0.01), (1, 1.0, 0.015), (1, 1.0, 0.02), (1, 0.25, 0.02), (9, 0.5, 0.02)];
    println!("| workloads | s an observation | rounds | CPU noise | 1 % | 2 % | 5 % | 10 % |");
    println!("|---|---|---|---|---|---|---|---|");
    for (row, (workloads, seconds, cpu)) in rows(&all, 2).iter().copied().enumerate() {
        let plan = Plan::of_seconds(workloads, 60.0 * workloads as f64, Disturbance { cpu, seconds, ..Disturbance::USUAL });
        if row < 2 {
            let found = found(&plan, Metric::ClientCpu, 1.05, 60);
            assert!(found >= 0.95, "{found} at a noise of {cpu}");
        }
        if times().is_some() {
            let found = [1.01, 1.02, 1.05, 1.10].map(|factor| percent(found(&plan, Metric::ClientCpu, factor, 60 / workloads)));
            println!("| {workloads} | {seconds} | {} | {cpu} | {} |", plan.rounds, found.join(" | "));
        }
    }
}

#[test]
fn ten_percent_of_the_rate_is_found_in_two_minutes() {
    let all =
        [(1, 0.5, 0.03), (1, 0.5, 0.05), (1, 0.5, 0.08), (1, 1.0, 0.03), (1, 1.0, 0.05), (1, 1.0, 0.08), (1, 0.25, 0.08), (9, 0.5, 0.05)];
    println!("| workloads | s an observation | rounds | rate noise | 5 % | 10 % | 20 % | gate of 5 % at 10 % |");
    println!("|---|---|---|---|---|---|---|---|");
    for (row, (workloads, seconds, rate)) in rows(&all, 2).iter().copied().enumerate() {
        let plan = Plan::of_seconds(workloads, 120.0 * workloads as f64, Disturbance { rate, seconds, ..Disturbance::USUAL });
        if row < 2 {
            let found = found(&plan, Metric::Rate, 0.9, 40);
            assert!(found >= 0.95, "{found} at a noise of {rate}");
        }
        if times().is_some() {
            let found = [0.95, 0.9, 0.8].map(|factor| percent(found(&plan, Metric::Rate, factor, 60 / workloads)));
            let gate = Gate { max_regression: 0.05 };
            let gated = share(&said(&with(&plan, Metric::Rate, 0.9), Metric::Rate, 60 / workloads, 700), |analysis| analysis.breaks(gate));
            println!("| {workloads} | {seconds} | {} | {rate} | {} | {} |", plan.rounds, found.join(" | "), percent(gated));
        }
    }
}

/// A regression of just what is allowed breaks the gate in no more than the 5 % that the intervals may miss.
#[test]
fn what_the_gate_allows_does_not_break_it() {
    let plan = Plan::of_seconds(1, 60.0, Disturbance { rate: 0.03, seconds: 0.5, ..Disturbance::USUAL });
    let all = said(&with(&plan, Metric::Rate, 0.95), Metric::Rate, 80, 40_000);
    let broken = all.iter().filter(|analysis| analysis.breaks(Gate { max_regression: 0.05 })).count();
    println!("gate of 5 % broken by exactly 5 %: {broken} of {}", all.len());
    assert!(broken <= binomial_bound(all.len(), 0.05), "{broken}");
}

/// "No difference" of something that differs by the threshold is as rare, though quiet rounds say it of what does not.
#[test]
fn no_difference_is_not_said_of_a_difference() {
    let plan = Plan::of_seconds(1, 60.0, Disturbance { cpu: 0.004, seconds: 0.5, ..Disturbance::USUAL });
    let equal = |factor: f64| -> Vec<bool> {
        let all = said(&with(&plan, Metric::ClientCpu, factor), Metric::ClientCpu, 80, 50_000);
        all.iter().map(|analysis| analysis.verdict == Verdict::NoDifference).collect()
    };
    let (none, threshold) = (equal(1.0), equal(1.01));
    let wrong = threshold.iter().filter(|equal| **equal).count();
    println!("no difference: of none {}, of the threshold {wrong} of {}", percent(share(&none, |equal| *equal)), threshold.len());
    assert!(share(&none, |equal| *equal) > 0.8);
    assert!(wrong <= binomial_bound(threshold.len(), 0.05), "{wrong}");
}

/// A difference of what undecided sessions name as visible is found in about eight of ten.
#[test]
fn what_is_called_visible_is_seen_in_eight_of_ten() {
    let plan = Plan::of_seconds(1, 60.0, Disturbance { seconds: 0.5, ..Disturbance::USUAL });
    let mut named: Vec<f64> = said(&plan, Metric::ClientCpu, 60, 60_000)
        .iter()
        .filter_map(|analysis| if let Verdict::Undecided { visible } = analysis.verdict { visible } else { None })
        .collect();
    named.sort_by(f64::total_cmp);
    let usual = named[named.len() / 2];
    let found = found(&plan, Metric::ClientCpu, 1.0 + usual, 60);
    println!("visible {}: found {}", percent(usual), percent(found));
    assert!((0.6..0.98).contains(&found), "{found} of {usual}");
}
