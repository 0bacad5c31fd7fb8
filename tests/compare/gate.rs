//! The gate, with workers whose figures are set.

use super::support::{QUICK, Results, fake};
use redis_client_bench::compare::{Metric, Verdict};

fn gated(cpu: u32, flags: &[&str]) -> (Option<i32>, String) {
    let results = Results::new();
    let subjects = [fake("cpu=1000"), fake(&format!("cpu={cpu}"))];
    let arguments = [&[subjects[0].as_str(), &subjects[1], "--metrics", "client-cpu,allocations"], QUICK, flags].concat();
    let (code, text, error) = results.run(&arguments);
    (code, format!("{text}\n{error}"))
}

#[test]
fn a_regression_beyond_the_gate_is_exit_code_3() {
    let (code, text) = gated(1200, &["--max-regression", "5%"]);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("is worse by more than 5 %: get-1, client-cpu: +20.0 %"), "{text}");
    assert!(text.contains("WORSE") && text.contains("no difference of 0.5 %"), "{text}");
}

#[test]
fn smaller_ones_improvements_and_no_gate_are_exit_code_0() {
    for (cpu, flags) in [(1200, &["--max-regression", "50%"][..]), (800, &["--max-regression", "5%"]), (1200, &[])] {
        let (code, text) = gated(cpu, flags);
        assert_eq!(code, Some(0), "{text}");
        assert_eq!(text.contains("gate: no regression"), !flags.is_empty(), "{text}");
    }
}

#[test]
fn every_further_subject_is_compared_with_the_first_in_drawn_orders() {
    let results = Results::new();
    let subjects = [fake("cpu=1000"), fake("cpu=1200"), fake("cpu=900")];
    let subjects: Vec<&str> = subjects.iter().map(String::as_str).collect();
    let (code, text, _, record) = results.recorded(&[&subjects[..], &["--metrics", "client-cpu", "--seed", "7"], QUICK].concat());
    assert_eq!(code, Some(0), "{text}");
    let judged = record.judged.as_ref().unwrap();
    let verdicts: Vec<_> = judged.answers.iter().map(|answer| (answer.subject, answer.analysis.metric, answer.analysis.verdict)).collect();
    assert_eq!(verdicts, [(1, Metric::ClientCpu, Verdict::Worse), (2, Metric::ClientCpu, Verdict::Better)]);
    let orders = redis_client_bench::compare::Orders::new(4, 7);
    let places = [(0, false), (0, true), (1, false), (2, false)];
    for (round, order) in record.rounds.iter().zip(orders) {
        let wanted: Vec<_> = order.iter().map(|place| places[*place]).collect();
        assert_eq!(round.turns.iter().map(|turn| (turn.subject, turn.control)).collect::<Vec<_>>(), wanted);
    }
    assert!(record.complete && record.rounds.len() >= 10);
}
