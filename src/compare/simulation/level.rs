//! A/A sessions: how often any metric gets a verdict that it differs.

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::super::{Comparison, Metric, Spending, median_span};
use super::machine::{Disturbance, Effect, heavy, normal};
use super::{Plan, binomial_bound, share};

/// The share of A/A sessions that may call a difference on any metric: with it, 3 or more of 100 are rarer than 1 in 60.
const ALLOWED: f64 = 0.005;

fn differs(comparison: &Comparison) -> bool {
    comparison.analyses.iter().any(|analysis| analysis.verdict.differs())
}

/// Runs A/A sessions, prints and gives how many called a difference, out of how many.
fn false_verdicts(name: &str, plan: &Plan, sessions: usize, seed: u64) -> (usize, usize) {
    let found = plan.sessions(sessions, seed, |comparison, rounds| {
        let none = comparison.analyses.iter().filter(|analysis| analysis.verdict.decided()).count();
        (differs(&comparison), comparison.analyses.iter().any(|a| a.q_value <= comparison.family.significant), none, rounds)
    });
    let wrong = found.iter().filter(|(differs, ..)| *differs).count();
    let significant = found.iter().filter(|(_, significant, ..)| *significant).count();
    let decided: usize = found.iter().map(|(_, _, decided, _)| decided).sum();
    let rounds: usize = found.iter().map(|(.., rounds)| rounds).sum();
    println!(
        "| {name} | {} | {} | {wrong} | {significant} | {:.1} % | {:.1} |",
        plan.rounds,
        found.len(),
        100.0 * decided as f64 / (found.len() * plan.workloads * 7) as f64,
        rounds as f64 / found.len() as f64,
    );
    (wrong, found.len())
}

#[test]
fn a_subject_against_itself_gets_no_verdict() {
    println!("| noise | rounds at most | sessions | any difference | any significant | decided | mean rounds |");
    println!("|---|---|---|---|---|---|---|");
    let usual = Disturbance::USUAL;
    let kinds = [
        ("quiet", 30, Disturbance { rate: 0.01, cpu: 0.003, drift: 0.5, bursts: 0.0, ..usual }),
        ("usual", 30, usual),
        ("usual, few rounds", 18, usual),
        ("usual, many rounds", 60, usual),
        ("drift of 4 times", 30, Disturbance { drift: 4.0, persistence: 0.98, ..usual }),
        ("random walk", 30, Disturbance { drift: 20.0, persistence: 0.9995, ..usual }),
        ("bursts in 1 of 6", 30, Disturbance { bursts: 0.17, ..usual }),
        ("8 % noise", 30, Disturbance { rate: 0.08, cpu: 0.02, ..usual }),
    ];
    let (mut wrong, mut sessions) = (0, 0);
    for (index, (name, rounds, noise)) in kinds.into_iter().enumerate() {
        let plan = Plan { rounds, ..Plan::of_seconds(1, 60.0, noise) };
        let (of_kind, all) = false_verdicts(name, &plan, 130, 1_000_000 * (index as u64 + 1));
        wrong += of_kind;
        sessions += all;
    }
    assert!(wrong <= binomial_bound(sessions, ALLOWED), "{wrong} of {sessions}");
}

#[test]
fn nine_workloads_at_once_get_no_verdict_either() {
    let plan = Plan { rounds: 30, ..Plan::of_seconds(9, 540.0, Disturbance::USUAL) };
    let (wrong, sessions) = false_verdicts("usual, 9 workloads", &plan, 60, 77_000_000);
    assert!(wrong <= binomial_bound(sessions, ALLOWED), "{wrong} of {sessions}");
}

/// The test of the tests above: the same sessions, judged metric by metric at p <= 5 %, do call differences, so the noise
/// is there to be taken for one.
#[test]
fn the_same_noise_fools_whoever_tests_metric_by_metric() {
    let plan = Plan { rounds: 30, ..Plan::of_seconds(1, 60.0, Disturbance::USUAL) };
    let fooled = plan.sessions(60, 5, |comparison, _| comparison.analyses.iter().any(|analysis| analysis.p_value <= 0.05));
    assert!((0.05..0.5).contains(&share(&fooled, |fooled| *fooled)));
}

/// One metric that truly differs loosens Benjamini and Hochberg's bound for the others; they stay quiet all the same.
#[test]
fn a_difference_in_one_metric_gives_no_verdict_on_the_others() {
    let effect = Effect::from([(Metric::Rate, 0.7)]);
    let plan = Plan { rounds: 30, effect, ..Plan::of_seconds(1, 60.0, Disturbance::USUAL) };
    let others = |comparison: Comparison, _| comparison.analyses.iter().any(|a| a.metric != Metric::Rate && a.verdict.differs());
    let wrong = plan.sessions(130, 31_000_000, others);
    let count = wrong.iter().filter(|wrong| **wrong).count();
    println!("another metric than the one that differs: {count} of {}", wrong.len());
    assert!(count <= binomial_bound(wrong.len(), ALLOWED), "{count} of {}", wrong.len());
}

/// Intervals at the looks of a session hold the true median at once in at least 95 % of sessions, and a single one in
/// about what it says.
#[test]
fn intervals_hold_the_true_median_at_every_look() {
    let (mut missed, mut once, sessions) = (0, 0, 2_000);
    for seed in 0..sessions {
        let mut random = StdRng::seed_from_u64(seed);
        let values: Vec<f64> = (0..40).map(|_| if seed % 2 == 0 { heavy(&mut random) } else { normal(&mut random) }).collect();
        let mut spending = Spending::default();
        let misses = |rounds: usize, error: f64| median_span(&values[..rounds], error).unwrap().nearer_end() > 0.0;
        let looks = (1..=40usize).filter_map(|round| Some((round, spending.after_round(round as f64 / 40.0, round)?)));
        missed += u64::from(looks.fold(false, |missed, (round, look)| missed | misses(round, 0.05 * look.share)));
        once += u64::from(misses(20, 0.05));
    }
    println!("missed at any look {missed}, at one of 20 rounds {once}, of {sessions}");
    assert!(missed <= binomial_bound(sessions as usize, 0.055) as u64, "{missed} of {sessions}");
    assert!(once <= binomial_bound(sessions as usize, 0.06) as u64, "{once} of {sessions}");
    assert!(once > sessions / 50, "an interval of 95 % misses now and then: {once}");
}
