//! Whatever happens in whatever order: every caller gets its own reply exactly once, in the order of asking.

use std::sync::atomic::Ordering;
use std::time::Duration;

use proptest::prelude::*;

use super::fake::{Fake, Manual, settings, settle, spawn_call};
use crate::drivers::{Error, Scope, Strategy as Pipelining};
use crate::window::Window;

#[derive(Clone, Debug)]
enum Step {
    Call,
    Fail,
    GiveUp,
    EndWindows,
    Reply(usize),
    Settle,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => Just(Step::Call),
        1 => Just(Step::Fail),
        1 => Just(Step::GiveUp),
        2 => Just(Step::EndWindows),
        2 => (1usize..4).prop_map(Step::Reply),
        3 => Just(Step::Settle),
    ];
    proptest::collection::vec(step, 1..60)
}

async fn play(steps: Vec<Step>, idle: bool, limit: usize, connections: usize, per_connection: bool) {
    let fake = Fake::held_back().with_handles(connections);
    let clock = Manual::default();
    let strategy = if idle { Pipelining::Idle { limit } } else { Pipelining::Window { window: Duration::from_micros(100), limit } };
    let mut asked = settings(strategy, connections);
    asked.scope = if per_connection { Scope::PerConnection } else { Scope::Shared };
    let window = Window::with_clock(fake.clone(), &asked, &clock).unwrap();
    let mut callers = Vec::new();
    for step in steps {
        match step {
            Step::Call | Step::Fail => {
                let name = if matches!(step, Step::Fail) { "FAIL" } else { "GET" };
                let number = callers.len().to_string();
                callers.push((name, false, spawn_call(&window, name, &number)));
                // One after the other, so that the order of asking is known.
                tokio::task::yield_now().await;
            }
            Step::GiveUp => {
                if let Some((_, gave_up, task)) = callers.iter_mut().rev().find(|(_, gave_up, task)| !gave_up && !task.is_finished()) {
                    task.abort();
                    *gave_up = true;
                }
            }
            Step::EndWindows => drop(clock.end_windows()),
            Step::Reply(count) => fake.replies.add_permits(count),
            Step::Settle => settle().await,
        }
    }
    settle().await;
    let asked = callers.len();
    fake.replies.add_permits(1_000_000);
    window.close().await;
    for (number, (name, gave_up, task)) in callers.into_iter().enumerate() {
        let number = number.to_string();
        match (task.await, gave_up) {
            (Ok(Ok(reply)), _) => assert_eq!((name, reply), ("GET", number)),
            (Ok(Err(error)), _) => assert_eq!((name, error), ("FAIL", Error::server(&format!("ERR {number}")))),
            (Err(cancelled), gave_up) => assert!(gave_up, "caller {number}: {cancelled}"),
        }
    }
    // Each command was sent once at the most (one whose caller gave up before its first poll, never), and in order.
    let batches = fake.batches();
    assert!(batches.iter().all(|batch| !batch.is_empty() && (limit == 0 || batch.len() <= limit)));
    let mut sent: Vec<usize> = batches.concat().iter().map(|number| number.parse().unwrap()).collect();
    if !per_connection && connections == 1 {
        assert!(sent.is_sorted(), "{sent:?}");
    }
    assert!(batches.iter().all(|batch| batch.iter().map(|number| number.parse::<usize>().unwrap()).is_sorted()));
    sent.sort_unstable();
    let count = sent.len();
    sent.dedup();
    assert_eq!(count, sent.len(), "sent twice");
    assert!(count <= asked);
    assert!(fake.most_under_way.load(Ordering::SeqCst) <= connections);
    assert_eq!(window.flushes().commands as usize, count);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn every_caller_gets_its_own_reply_once(
        steps in steps(), idle: bool, limit in 0usize..5, connections in 1usize..4, per_connection: bool,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(play(steps, idle, limit, connections, per_connection));
    }
}
