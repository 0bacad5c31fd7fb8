//! An open loop: when commands are sent, and what is said of a plan that was not kept.

use std::time::{Duration, Instant};

use super::fake::{Answer, Fake, job, load, mix, rate, spawn_load};
use crate::drivers::Error;
use crate::workload::load::arrivals::{Arrivals, OpenLoop, Spread};
use crate::workload::load::engine::{Ended, Job};
use crate::workload::load::issue::{Piped, Single};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_no_moment_more_is_sent_than_was_planned_until_then() {
    let uniform = rate("0=4000").unwrap();
    for (open, pipeline, commands) in [
        (uniform.clone(), 1, 401),
        (uniform.clone(), 8, 403),
        (OpenLoop { burst: 50, ..uniform.clone() }, 1, 420),
        (OpenLoop { spread: Spread::Poisson, ..uniform }, 1, 400),
        (rate("0=1000,0.05=0,0.1=5000").unwrap(), 1, 300),
    ] {
        let fake = Fake::prompt();
        let job = Job { callers: 20, pipeline, open: Some(open.clone()), ..job(commands) };
        // Before the clock of the run starts.
        let start = Instant::now();
        let outcome = match pipeline {
            1 => load(Single(fake.clone()), &mix(&["PING"]), &job).await,
            _ => load(Piped(fake.clone()), &mix(&["PING"]), &job).await,
        };
        let mut sent: Vec<Duration> = fake.sent().iter().map(|sent| sent.at - start).collect();
        sent.sort_unstable();
        let mut plan = Arrivals::new(&open, pipeline as u64, job.seed);
        let mut last = Duration::ZERO;
        for (number, sent) in sent.iter().enumerate() {
            let planned = plan.next().unwrap();
            last = planned;
            assert!(*sent >= planned, "{open:?}: number {number} was planned at {planned:?} and sent at {sent:?}");
        }
        let kept = outcome.kept.unwrap();
        assert_eq!((fake.commands().len() as u64, outcome.total.done()), (commands, commands));
        assert_eq!((outcome.ended, kept.offered, kept.sent), (Ended::Done, commands, commands), "{open:?}");
        assert_eq!(kept.span, plan.peek().unwrap(), "until one more would be due");
        assert!(outcome.elapsed >= last, "the last reply came after the last was due");
        assert_eq!(kept.lateness.len(), sent.len() as u64);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_is_planned_within_the_time_is_offered_and_no_more() {
    let job = Job { callers: 50, commands: None, time: Some(Duration::from_millis(250)), open: rate("0=2000"), ..job(1) };
    let fake = Fake::prompt();
    let outcome = load(Single(fake.clone()), &mix(&["PING"]), &job).await;
    let kept = outcome.kept.unwrap();
    assert_eq!((outcome.ended, kept.offered, kept.sent, fake.sent().len()), (Ended::Done, 500, 500, 500));
    assert_eq!((kept.span, kept.overloaded()), (Duration::from_millis(250), false));
    assert!(outcome.elapsed >= kept.span);
    // Fewer commands than there is time for: the rate is that of the commands.
    let outcome = load(Single(fake), &mix(&["PING"]), &Job { commands: Some(100), time: Some(Duration::from_secs(600)), ..job }).await;
    let kept = outcome.kept.unwrap();
    assert_eq!((outcome.ended, kept.offered, kept.span), (Ended::Done, 100, Duration::from_millis(50)));
    assert!(outcome.elapsed < Duration::from_secs(600), "{:?}", outcome.elapsed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_who_cant_keep_up_is_called_overloaded_with_the_backlog_of_the_end() {
    let fake = Fake::new(|_, _| Answer::Held);
    let running = spawn_load(Single(fake.clone()), &mix(&["PING"]), &Job { callers: 2, open: rate("0=2000"), ..job(200) });
    fake.until_under_way(2).await;
    // The last is due 99.5 ms after the start, which was before the first was sent.
    tokio::time::sleep(Duration::from_millis(400)).await;
    fake.release_all();
    let outcome = running.await.unwrap();
    let kept = outcome.kept.unwrap();
    assert_eq!((outcome.ended, outcome.total.done()), (Ended::Done, 200), "late, but all are sent");
    assert_eq!((kept.offered, kept.sent, kept.backlog, kept.overloaded()), (200, 200, 198, true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_due_and_not_sent_when_the_time_is_over_is_dropped() {
    let fake = Fake::new(|_, _| Answer::Held);
    let job = Job { callers: 2, commands: None, time: Some(Duration::from_millis(100)), open: rate("0=1000"), ..job(1) };
    let running = spawn_load(Single(fake.clone()), &mix(&["PING"]), &job);
    fake.until_under_way(2).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    fake.release_all();
    let outcome = running.await.unwrap();
    let kept = outcome.kept.unwrap();
    assert_eq!((outcome.ended, outcome.total.done(), fake.sent().len()), (Ended::Done, 2, 2));
    assert_eq!((kept.offered, kept.sent, kept.backlog), (100, 2, 98));
    assert!(kept.overloaded() && kept.span == Duration::from_millis(100));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_is_no_overload() {
    let open = rate("0=1000").map(|open| OpenLoop { burst: 100, ..open });
    let outcome = load(Single(Fake::prompt()), &mix(&["PING"]), &Job { callers: 1, open, ..job(500) }).await;
    let kept = outcome.kept.unwrap();
    assert_eq!((kept.offered, kept.sent, kept.span), (500, 500, Duration::from_millis(500)));
    assert!(!kept.overloaded(), "the backlog of {} is the last burst", kept.backlog);
}

#[tokio::test]
async fn a_plan_that_was_given_up_is_offered_at_its_own_rate() {
    let fake = Fake::new(|number, _| if number == 20 { Answer::Error(Error::server("ERR no")) } else { Answer::Usual });
    let job = Job { commands: None, time: Some(Duration::from_secs(600)), open: rate("0=1000"), ..job(1) };
    let outcome = load(Single(fake.clone()), &mix(&["PING"]), &job).await;
    let kept = outcome.kept.unwrap();
    assert_eq!((outcome.ended, outcome.total.failed()), (Ended::OnError, 1));
    assert_eq!(kept.sent, fake.sent().len() as u64);
    assert!(kept.offered >= kept.sent);
    assert_eq!(kept.span, Duration::from_millis(kept.offered), "one millisecond each");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_fastest_rate_ends_in_time() {
    let job = Job { commands: None, time: Some(Duration::from_millis(50)), open: rate("0=1e8"), ..job(1) };
    let outcome = load(Single(Fake::prompt()), &mix(&["PING"]), &job).await;
    let kept = outcome.kept.unwrap();
    assert_eq!((kept.offered, kept.overloaded()), (5_000_000, true), "all that was planned, whether we could release it or not");
    assert_eq!(kept.sent, outcome.total.done());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_a_little_late_at_the_end_is_sent_all_the_same() {
    let fake = Fake::new(|number, _| if number < 285 { Answer::Usual } else { Answer::Held });
    let job = Job { callers: 10, commands: None, time: Some(Duration::from_millis(300)), open: rate("0=1000"), ..job(1) };
    let running = spawn_load(Single(fake.clone()), &mix(&["PING"]), &job);
    fake.until_sent(295).await;
    // Past the end of the time and of what follows it.
    tokio::time::sleep(Duration::from_millis(400)).await;
    fake.release_all();
    let outcome = running.await.unwrap();
    let kept = outcome.kept.as_ref().unwrap();
    assert_eq!((outcome.ended, kept.offered, kept.sent, outcome.total.done()), (Ended::Done, 300, 300, 300));
    assert!(!kept.overloaded(), "{kept:?}");
    let slow = outcome.total.total().planned.count_between(300_000_000, u64::MAX);
    assert_eq!(slow, 15, "those that waited for a caller too");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_ends_the_plan_too() {
    let fake = Fake::new(|number, _| match number {
        10 => Answer::Held,
        20 => Answer::Error(Error::server("ERR no")),
        _ => Answer::Usual,
    });
    let job = Job { callers: 4, commands: None, time: Some(Duration::from_secs(600)), open: rate("0=1000"), ..job(1) };
    let running = spawn_load(Single(fake.clone()), &mix(&["PING"]), &job);
    fake.until_sent(21).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    fake.release_all();
    let outcome = running.await.unwrap();
    let kept = outcome.kept.unwrap();
    assert_eq!(outcome.ended, Ended::OnError);
    assert!(kept.offered < 300, "{} were offered after the error", kept.offered);
    assert!(!kept.overloaded());
}
