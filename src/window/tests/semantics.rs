//! What radix v3 does, sentence by sentence.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::fake::{Fake, Manual, settings, settle, spawn_call, window};
use crate::drivers::{Command, Commands, Error, Pipelines, Scope, Strategy, Transactions};
use crate::window::{Flushes, Window};

#[tokio::test]
async fn the_first_command_arms_the_window_and_the_others_join_it() {
    let fake = Fake::new();
    let (window, clock) = window(&fake, 0, 1);
    settle().await;
    assert_eq!(clock.armed(), 0, "nothing waits, nothing is armed");
    let callers: Vec<_> = ["a", "b", "c"].map(|key| spawn_call(&window, "GET", key)).into();
    settle().await;
    assert_eq!((clock.armed(), clock.window()), (1, Duration::from_micros(100)));
    assert!(fake.batches().is_empty(), "held until the window ends");
    assert!(clock.end_windows());
    for (caller, key) in callers.into_iter().zip(["a", "b", "c"]) {
        assert_eq!(caller.await.unwrap().unwrap(), key);
    }
    assert_eq!(fake.batches(), [["a", "b", "c"]]);
    assert_eq!(window.flushes(), Flushes { by_window: 1, commands: 3, ..Flushes::default() });
}

#[tokio::test]
async fn a_lone_caller_pays_the_whole_window() {
    let fake = Fake::new();
    let (window, clock) = window(&fake, 0, 4);
    let caller = spawn_call(&window, "GET", "a");
    settle().await;
    assert!(!caller.is_finished() && fake.batches().is_empty());
    clock.end_windows();
    assert_eq!(caller.await.unwrap().unwrap(), "a");
}

#[tokio::test]
async fn reaching_the_limit_flushes_at_once_and_the_rest_waits_for_a_new_window() {
    let fake = Fake::new();
    let (window, clock) = window(&fake, 2, 4);
    let callers: Vec<_> = ["a", "b", "c"].map(|key| spawn_call(&window, "GET", key)).into();
    settle().await;
    assert_eq!(fake.batches(), [["a", "b"]]);
    assert!(!callers[2].is_finished(), "the third is first of the next window");
    clock.end_windows();
    settle().await;
    assert_eq!(fake.batches(), [vec!["a", "b"], vec!["c"]]);
    assert_eq!(window.flushes(), Flushes { by_limit: 1, by_window: 1, commands: 3, ..Flushes::default() });
}

#[tokio::test]
async fn a_limit_of_one_never_waits() {
    let fake = Fake::new();
    let (window, _clock) = window(&fake, 1, 4);
    for key in ["a", "b"] {
        assert_eq!(spawn_call(&window, "GET", key).await.unwrap().unwrap(), key);
    }
    assert_eq!(fake.batches(), [["a"], ["b"]]);
}

#[tokio::test]
async fn a_limit_reached_early_does_not_shorten_the_next_window() {
    let fake = Fake::new();
    let (window, clock) = window(&fake, 2, 4);
    for key in ["a", "b"] {
        drop(spawn_call(&window, "GET", key));
    }
    settle().await;
    assert_eq!(fake.batches().len(), 1);
    let late = spawn_call(&window, "GET", "c");
    settle().await;
    assert!(!late.is_finished() && fake.batches().len() == 1, "no leftover signal may flush it");
    clock.end_windows();
    assert_eq!(late.await.unwrap().unwrap(), "c");
}

#[tokio::test]
async fn closing_flushes_what_waits_and_refuses_what_comes_later() {
    let fake = Fake::new();
    let (window, clock) = window(&fake, 0, 1);
    let waiting = spawn_call(&window, "GET", "a");
    settle().await;
    window.close().await;
    assert_eq!(waiting.await.unwrap().unwrap(), "a");
    assert!(!clock.end_windows(), "no window is left armed");
    assert_eq!(window.flushes().by_close, 1);
    let refused = spawn_call(&window, "GET", "b").await.unwrap().unwrap_err();
    assert!(matches!(refused, Error::Client(_)), "{refused}");
    window.close().await;
}

#[tokio::test]
async fn closing_waits_for_the_batches_under_way() {
    let fake = Fake::held_back();
    let (window, _clock) = window(&fake, 0, 2);
    let waiting = spawn_call(&window, "GET", "a");
    settle().await;
    let closing = tokio::spawn({
        let window = window.clone();
        async move { window.close().await }
    });
    settle().await;
    assert_eq!(fake.batches().len(), 1, "flushed");
    assert!(!closing.is_finished(), "but its reply is still to come");
    fake.replies.add_permits(1);
    closing.await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), "a");
}

#[tokio::test]
async fn dropping_the_last_handle_still_sends_what_waits() {
    let fake = Fake::new();
    let (window, _clock) = window(&fake, 0, 1);
    let mut call = Box::pin({
        let window = window.clone();
        async move { window.call(&Command::new("SET").arg("a")).await }
    });
    // Queued by its first poll, then given up together with every handle of the window.
    let polled = std::future::poll_fn(|context| std::task::Poll::Ready(call.as_mut().poll(context))).await;
    assert!(polled.is_pending());
    drop((call, window));
    settle().await;
    assert_eq!(fake.batches(), [["a"]]);
}

#[tokio::test]
async fn no_more_batches_are_in_flight_than_connections() {
    let fake = Fake::held_back();
    let (window, _clock) = window(&fake, 1, 2);
    let callers: Vec<_> = ["a", "b", "c", "d", "e"].map(|key| spawn_call(&window, "GET", key)).into();
    settle().await;
    assert_eq!(fake.under_way.load(Ordering::SeqCst), 2, "two connections, two batches");
    fake.replies.add_permits(5);
    for caller in callers {
        caller.await.unwrap().unwrap();
    }
    assert_eq!(fake.most_under_way.load(Ordering::SeqCst), 2);
    assert_eq!(fake.batches().concat(), ["a", "b", "c", "d", "e"]);
}

#[tokio::test]
async fn a_closed_batch_keeps_its_commands_while_it_waits_for_a_connection() {
    let fake = Fake::held_back();
    let (window, clock) = window(&fake, 0, 1);
    let mut callers = vec![spawn_call(&window, "GET", "a")];
    settle().await;
    clock.end_windows();
    settle().await;
    callers.push(spawn_call(&window, "GET", "b"));
    settle().await;
    clock.end_windows();
    settle().await;
    // `b` is closed and waits for the connection; `c` belongs to the next batch.
    callers.push(spawn_call(&window, "GET", "c"));
    settle().await;
    assert!(!clock.end_windows(), "the next window begins when the batch has left");
    fake.replies.add_permits(1);
    settle().await;
    assert_eq!(fake.batches(), [["a"], ["b"]]);
    assert!(clock.end_windows(), "now it has begun");
    fake.replies.add_permits(2);
    for caller in callers {
        caller.await.unwrap().unwrap();
    }
    assert_eq!(fake.batches(), [["a"], ["b"], ["c"]]);
}

#[tokio::test]
async fn a_caller_that_gives_up_costs_the_others_nothing() {
    let fake = Fake::new();
    let (window, clock) = window(&fake, 0, 1);
    let callers: Vec<_> = ["a", "b", "c"].map(|key| spawn_call(&window, "GET", key)).into();
    settle().await;
    callers[1].abort();
    settle().await;
    clock.end_windows();
    let mut results = Vec::new();
    for caller in callers {
        results.push(caller.await.ok().map(Result::unwrap));
    }
    assert_eq!(results, [Some("a".to_owned()), None, Some("c".to_owned())]);
    assert_eq!(fake.batches(), [["a", "b", "c"]], "the order stands; only the reply is dropped");
}

#[tokio::test]
async fn a_caller_that_gives_up_while_its_batch_is_under_way_costs_the_others_nothing() {
    let fake = Fake::held_back();
    let (window, clock) = window(&fake, 0, 1);
    let callers: Vec<_> = ["a", "b"].map(|key| spawn_call(&window, "GET", key)).into();
    settle().await;
    clock.end_windows();
    settle().await;
    callers[0].abort();
    settle().await;
    fake.replies.add_permits(1);
    let mut callers = callers.into_iter();
    assert!(callers.next().unwrap().await.is_err());
    assert_eq!(callers.next().unwrap().await.unwrap().unwrap(), "b");
    fake.replies.add_permits(1);
    let next = spawn_call(&window, "GET", "c");
    settle().await;
    clock.end_windows();
    assert_eq!(next.await.unwrap().unwrap(), "c", "the connection came back");
}

#[tokio::test]
async fn an_error_reply_goes_to_its_own_caller_only() {
    let fake = Fake::new();
    let (window, clock) = window(&fake, 0, 1);
    let callers = [spawn_call(&window, "GET", "a"), spawn_call(&window, "FAIL", "b"), spawn_call(&window, "GET", "c")];
    settle().await;
    clock.end_windows();
    let [first, second, third] = callers;
    assert_eq!(first.await.unwrap().unwrap(), "a");
    assert_eq!(second.await.unwrap().unwrap_err(), Error::server("ERR b"));
    assert_eq!(third.await.unwrap().unwrap(), "c");
}

#[tokio::test]
async fn the_loss_of_a_batch_reaches_each_of_its_callers_and_no_later_one() {
    let fake = Fake::new();
    let (window, clock) = window(&fake, 0, 1);
    let lost = [spawn_call(&window, "GET", "a"), spawn_call(&window, "BREAK", "b")];
    settle().await;
    clock.end_windows();
    for caller in lost {
        assert!(matches!(caller.await.unwrap(), Err(Error::Connection(_))));
    }
    let later = spawn_call(&window, "GET", "c");
    settle().await;
    clock.end_windows();
    assert_eq!(later.await.unwrap().unwrap(), "c");
}

#[tokio::test]
async fn blocking_commands_transactions_and_pipelines_pass_by() {
    let fake = Fake::new();
    let (window, clock) = window(&fake, 0, 2);
    let waiting = spawn_call(&window, "GET", "a");
    settle().await;
    for name in ["BLPOP", "EXEC", "SUBSCRIBE"] {
        assert_eq!(spawn_call(&window, name, "x").await.unwrap().unwrap(), "x");
    }
    let pipeline = [Command::get(b"p"), Command::get(b"q")];
    assert_eq!(window.pipeline(&pipeline).await.unwrap().len(), 2);
    assert_eq!(window.transaction(&pipeline).await.unwrap().len(), 2);
    assert_eq!(fake.batches(), [vec!["x"], vec!["x"], vec!["x"], vec!["p", "q"], vec!["p", "q"]]);
    assert!(!waiting.is_finished(), "they did not flush the window either");
    clock.end_windows();
    assert_eq!(waiting.await.unwrap().unwrap(), "a");
}

#[tokio::test]
async fn a_window_of_zero_is_off_and_takes_a_connection_for_each_command() {
    let fake = Fake::held_back().with_handles(2);
    let strategy = Strategy::window(Duration::ZERO, 7);
    assert_eq!(strategy, Strategy::Off);
    let clock = Manual::default();
    let window = Window::with_clock(fake.clone(), &settings(strategy, 2), &clock).unwrap();
    let callers: Vec<_> = ["a", "b", "c"].map(|key| spawn_call(&window, "GET", key)).into();
    settle().await;
    assert_eq!(fake.batches(), [["a"], ["b"]], "two connections are taken, the third command waits");
    fake.replies.add_permits(3);
    for caller in callers {
        caller.await.unwrap().unwrap();
    }
    assert_eq!((clock.armed(), window.flushes()), (0, Flushes::default()));
}

#[tokio::test]
async fn flush_when_idle_sends_at_once_and_collects_while_the_connection_is_busy() {
    let fake = Fake::held_back();
    let clock = Manual::default();
    let window = Window::with_clock(fake.clone(), &settings(Strategy::Idle { limit: 0 }, 1), &clock).unwrap();
    let mut callers = vec![spawn_call(&window, "GET", "a")];
    settle().await;
    assert_eq!(fake.batches(), [["a"]], "no timer");
    callers.extend(["b", "c"].map(|key| spawn_call(&window, "GET", key)));
    settle().await;
    fake.replies.add_permits(2);
    for caller in callers {
        caller.await.unwrap().unwrap();
    }
    assert_eq!(fake.batches(), [vec!["a"], vec!["b", "c"]]);
    assert_eq!((clock.armed(), window.flushes().by_idle), (0, 2));
}

#[tokio::test]
async fn a_window_per_connection_forms_a_batch_on_each() {
    let fake = Fake::new().with_handles(2);
    let clock = Manual::default();
    let strategy = Strategy::Window { window: Duration::from_micros(50), limit: 0 };
    let mut asked = settings(strategy, 2);
    asked.scope = Scope::PerConnection;
    let window = Window::with_clock(fake.clone(), &asked, &clock).unwrap();
    let callers: Vec<_> = ["a", "b", "c", "d"].map(|key| spawn_call(&window, "GET", key)).into();
    settle().await;
    assert_eq!(clock.armed(), 2, "a window for each connection");
    clock.end_windows();
    for caller in callers {
        caller.await.unwrap().unwrap();
    }
    let mut batches = fake.batches();
    batches.sort();
    assert_eq!(batches, [["a", "c"], ["b", "d"]]);
}

#[tokio::test]
async fn a_pool_that_hides_its_connections_has_no_window_per_connection() {
    let mut asked = settings(Strategy::Idle { limit: 0 }, 2);
    asked.scope = Scope::PerConnection;
    let refused = Window::with_clock(Fake::new(), &asked, &Manual::default()).err();
    assert!(matches!(refused, Some(Error::Unsupported(_))), "{refused:?}");
}
