//! What failures do to a run and to its counts.

use std::time::Duration;

use super::fake::{Answer, Fake, job, load, mix, mix_with, rate, spawn_load};
use crate::drivers::{Error, Value};
use crate::workload::load::audited::expected;
use crate::workload::load::engine::{Ended, Job, Outcome};
use crate::workload::load::issue::{Piped, Single};
use crate::workload::mix::MixOptions;

fn wrong_type() -> Error {
    Error::server("WRONGTYPE Operation against a key holding the wrong kind of value")
}

fn lost() -> Error {
    Error::Connection("reset by peer".into())
}

/// Counts by kind.
fn kinds(outcome: &Outcome) -> Vec<(&str, u64)> {
    let mut kinds: Vec<_> = outcome.errors.iter().map(|error| (error.kind.as_str(), error.count)).collect();
    kinds.sort_unstable();
    kinds
}

#[tokio::test]
async fn the_first_error_stops_the_run_and_what_is_under_way_ends_and_is_counted() {
    for open in [None, rate("0=1000000")] {
        let fake = Fake::new(|number, _| if number == 3 { Answer::HeldThen(Box::new(Answer::Error(wrong_type()))) } else { Answer::Held });
        let running = spawn_load(Single(fake.clone()), &mix(&["PING"]), &Job { callers: 8, open, ..job(1_000) });
        fake.until_under_way(8).await;
        fake.release(3);
        fake.until_under_way(7).await;
        fake.release_all();
        let outcome = running.await.unwrap();
        assert_eq!((outcome.ended, outcome.total.done(), outcome.total.failed()), (Ended::OnError, 7, 1));
        assert_eq!((fake.sent().len(), outcome.unanswered, &outcome.refused[..]), (8, 0, &[1][..]));
        assert_eq!(kinds(&outcome), [("WRONGTYPE", 1)]);
        assert!(outcome.errors[0].first.contains("wrong kind of value"), "{:?}", outcome.errors);
        assert_eq!(outcome.total.0[0].service.len(), 7, "a failure is no latency");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_that_are_counted_are_told_apart_by_kind_and_by_whether_there_was_an_answer() {
    let script = |number: usize, _: &_| match number % 10 {
        1 | 2 => Answer::Error(wrong_type()),
        3 => Answer::Error(Error::server("OOM command not allowed")),
        4 => Answer::Lost(lost()),
        5 => Answer::Lost(Error::timed_out(Duration::from_secs(1))),
        6 => Answer::Reply(Value::Simple("PANG".into())),
        _ => Answer::Usual,
    };
    let wanted = [("OOM", 10), ("WRONGTYPE", 20), ("connection", 10), ("timeout", 10), ("wrong-reply", 10)];
    let (mix, job) = (mix(&["PING"]), Job { continue_on_error: true, ..job(100) });
    let fake = Fake::new(script);
    let outcome = load(Single(fake.clone()), &mix, &job).await;
    assert_eq!(kinds(&outcome), wanted);
    assert_eq!((outcome.ended, outcome.total.done(), outcome.total.failed(), fake.sent().len()), (Ended::Done, 40, 60, 100));
    assert_eq!((&outcome.refused[..], outcome.unanswered), (&[40][..], 20));
    let audit = expected(&mix, &job, &outcome, &[], 1);
    assert_eq!((audit.attempts["ping"], audit.unanswered), (80, 20), "error replies and wrong ones were answers");
    let unchecked = load(Single(Fake::new(script)), &mix, &Job { verify: false, ..job }).await;
    assert_eq!((unchecked.total.done(), kinds(&unchecked).len()), (50, 4), "without checks a wrong reply is a success");
}

#[tokio::test]
async fn in_a_pipeline_each_command_fails_for_itself_and_a_lost_connection_all() {
    let fake = Fake::new(|number, _| match number {
        1 => Answer::Error(wrong_type()),
        2 => Answer::Lost(lost()),
        _ => Answer::Usual,
    });
    let job = Job { callers: 1, pipeline: 4, continue_on_error: true, ..job(20) };
    let outcome = load(Piped(fake), &mix(&["PING"]), &job).await;
    assert_eq!((outcome.total.done(), outcome.total.failed(), outcome.unanswered), (12, 8, 4));
    assert_eq!(kinds(&outcome), [("WRONGTYPE", 4), ("connection", 4)]);
    assert_eq!(outcome.batches, 4, "batches that were answered");
}

#[tokio::test]
async fn a_value_that_was_not_written_is_a_wrong_reply() {
    let mix = mix_with(&["GET __key__"], MixOptions { prefilled: true, ..MixOptions::default() });
    for answer in [|| Value::Nil, || Value::Blob(b"other".to_vec())] {
        let fake = Fake::new(move |_, _| Answer::Reply(answer()));
        let outcome = load(Single(fake.clone()), &mix, &Job { callers: 1, ..job(10) }).await;
        assert_eq!((outcome.ended, kinds(&outcome)), (Ended::OnError, vec![("wrong-reply", 1)]));
        assert_eq!((fake.sent().len(), outcome.refused[0], outcome.unanswered), (1, 1, 0));
    }
}

#[tokio::test]
async fn a_run_whose_replies_stay_out_is_given_up_and_says_how_many_commands_have_no_answer() {
    for open in [None, rate("0=1000000")] {
        let fake = Fake::new(|number, _| if number < 5 { Answer::Usual } else { Answer::Never });
        let job = Job { callers: 3, pipeline: 4, open, patience: Duration::from_millis(80), ..job(1_000) };
        let outcome = load(Piped(fake.clone()), &mix(&["PING"]), &job).await;
        assert_eq!((outcome.ended, outcome.total.done(), outcome.unanswered), (Ended::Stalled, 20, 12));
        let given_up = outcome.errors.iter().find(|errors| errors.kind == "unanswered").unwrap();
        assert_eq!((outcome.abandoned, given_up.count), (12, 12));
        assert_eq!((fake.commands().len(), outcome.total.failed(), outcome.errors.len()), (32, 0, 1));
    }
}

#[tokio::test]
async fn patience_counts_from_the_last_reply_however_short_it_is() {
    let fake = Fake::new(|_, _| Answer::After(Duration::from_millis(2)));
    let patience = Duration::from_millis(250);
    let job = Job { time: Some(3 * patience), commands: None, patience, ..job(1) };
    let outcome = load(Single(fake.clone()), &mix(&["PING"]), &job).await;
    assert_eq!((outcome.ended, outcome.unanswered), (Ended::Done, 0));
    assert_eq!(outcome.total.done(), fake.sent().len() as u64);
    // Nor is an open loop given up in which nothing is due.
    let job = Job { callers: 1, open: rate("0=1000,0.001=0,0.75=1000"), ..job };
    let outcome = load(Single(Fake::prompt()), &mix(&["PING"]), &Job { commands: Some(2), time: None, ..job }).await;
    assert_eq!((outcome.ended, outcome.total.done()), (Ended::Done, 2));
}

#[tokio::test]
async fn an_error_of_the_last_command_is_an_error_of_the_run() {
    let fake = Fake::new(|number, _| if number == 9 { Answer::Error(wrong_type()) } else { Answer::Usual });
    let outcome = load(Single(fake), &mix(&["PING"]), &Job { callers: 1, ..job(10) }).await;
    assert_eq!((outcome.ended, outcome.total.done(), outcome.total.failed()), (Ended::OnError, 9, 1));
}

#[tokio::test]
async fn a_client_that_panics_ends_the_run_with_an_error() {
    let fake = Fake::new(|number, _| if number == 4 { Answer::Panic } else { Answer::Usual });
    let outcome = load(Single(fake.clone()), &mix(&["PING"]), &job(1_000)).await;
    assert_eq!((outcome.ended, outcome.unanswered), (Ended::OnError, 1));
    assert_eq!(outcome.total.done() + 1, fake.sent().len() as u64);
    assert!(outcome.errors[0].first.contains("panicked"), "{:?}", outcome.errors);
}
