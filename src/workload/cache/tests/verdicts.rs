//! What is called stale, and what is not.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::fake::{Fake, Fenced, Forgets, mix, of};
use crate::drivers::raw::Raw;
use crate::drivers::{Driver, Served};
use crate::workload::cache::loader::CachedOutcome;
use crate::workload::cache::run::run;
use crate::workload::cache::{Staleness, expected};
use crate::workload::load::engine::{Ended, Job};
use crate::workload::load::tests::fake::job;
use crate::workload::mix::Mix;

async fn load(fake: &Fake, mix: &Arc<Mix>, noloop: bool, job: &Job) -> CachedOutcome {
    run(&fake.bound(mix, noloop), mix, job, 2, Box::new(|_| {})).await.unwrap()
}

/// A run over ten keys, with long enough a wait now and then that fences come through.
async fn staleness(forgets: Forgets, fenced: Fenced) -> (Staleness, Fake) {
    let mix = mix(10);
    let fake = Fake::new(&mix, forgets, fenced);
    let job = Job { time: Some(std::time::Duration::from_millis(150)), commands: None, ..job(0) };
    let done = load(&fake, &mix, false, &job).await;
    assert_eq!((done.outcome.ended, &done.outcome.errors[..]), (Ended::Done, &[][..]));
    let found = done.cache.staleness;
    assert_eq!(found.checked, done.outcome.total.0[0].done);
    assert_eq!(found.writes, done.outcome.total.0[1].done);
    (found, fake)
}

fn stale(found: &Staleness) -> [u64; 3] {
    [found.stale_from_cache, found.stale_from_server, found.after_disconnect]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_that_forgets_at_once_is_never_stale() {
    let (found, fake) = staleness(Forgets::AtOnce, Fenced::Answered).await;
    assert_eq!(stale(&found), [0, 0, 0]);
    assert!(found.with_floor > 0 && found.clean_writes > 0 && found.fences > 1, "{found:?}");
    assert_eq!((found.fences, found.fences_failed), (fake.0.0.fences.load(Ordering::Acquire), 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_that_never_forgets_is_found_stale_and_for_how_long() {
    let (found, _) = staleness(Forgets::Never, Fenced::Answered).await;
    assert!(found.stale_from_cache > 0, "{found:?}");
    assert_eq!((found.stale_from_server, found.after_disconnect, found.first.len()), (0, 0, 5));
    assert!(
        found.first.iter().all(|read| read.version.is_some_and(|version| version < read.floor) && read.key.starts_with("rcb:load:")),
        "{found:?}"
    );
    // Fences come every 2 ms and raise each floor again and again; what stays in the cache grows older all the same.
    assert!(found.longest_ns > 20_000_000, "{found:?}");
    assert_eq!(found.ages.latency.unwrap().count, found.stale_from_cache);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_that_is_late_but_in_order_is_not_stale() {
    let (found, _) = staleness(Forgets::InOrder, Fenced::Answered).await;
    assert_eq!(stale(&found), [0, 0, 0]);
    assert!(found.with_floor > 0, "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_could_not_be_told_is_stale_for_that_reason() {
    let (found, _) = staleness(Forgets::Never, Fenced::Disconnected).await;
    assert!(found.after_disconnect > 0 && found.fences_failed == found.fences, "{found:?}");
    assert_eq!((found.stale_from_cache, found.stale_from_server), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fence_that_was_not_answered_proves_nothing() {
    for fenced in [Fenced::TimedOut, Fenced::Full] {
        let (found, _) = staleness(Forgets::Never, fenced).await;
        assert!(found.fences_failed > 0 && found.fences_failed == found.fences, "{found:?}");
        assert_eq!((stale(&found), found.with_floor, found.unjudged), ([0, 0, 0], 0, None));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fence_that_never_returns_has_failed() {
    let mix = mix(10);
    let fake = Fake::new(&mix, Forgets::Never, Fenced::Silence);
    let job = Job { patience: std::time::Duration::from_millis(100), ..job(2_000) };
    let done = load(&fake, &mix, false, &job).await;
    let found = &done.cache.staleness;
    assert_eq!((found.fences, found.fences_failed, found.with_floor, done.beside.fences_lost), (1, 1, 0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_gone_is_a_wrong_reply_and_not_stale() {
    let mix = mix(10);
    let fake = Fake::new(&mix, Forgets::AtOnce, Fenced::Answered);
    fake.0.0.gone.store(true, Ordering::Release);
    let job = Job { time: Some(std::time::Duration::from_millis(150)), commands: None, continue_on_error: true, ..job(0) };
    let done = load(&fake, &mix, false, &job).await;
    let found = &done.cache.staleness;
    assert!(found.clean_writes > 0 && found.with_floor > 0 && found.checked == 0, "{found:?}");
    assert_eq!(stale(found), [0, 0, 0]);
    let [error] = &done.outcome.errors[..] else { panic!("{:?}", done.outcome.errors) };
    assert!(error.kind == "wrong-reply" && error.first.contains("found nothing in the cache"), "{error:?}");
    assert_eq!(error.count, done.outcome.refused[0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_fences_there_is_no_verdict() {
    let (found, fake) = staleness(Forgets::Never, Fenced::Refused).await;
    assert!(found.unjudged.as_ref().is_some_and(|reason| reason.contains("NOPERM")), "{found:?}");
    assert_eq!((stale(&found), fake.0.0.fences.load(Ordering::Acquire)), ([0, 0, 0], 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_noloop_own_writes_are_judged_only_where_the_client_forgets_by_itself() {
    let mix = mix(10);
    let fake = Fake::new(&mix, Forgets::Never, Fenced::Answered);
    // The driver's statement is that of raw: it forgets what it writes. This one lies.
    let done = load(&fake, &mix, true, &job(20_000)).await;
    assert_eq!(done.cache.staleness.unjudged, None);
    let mut bound = fake.bound(&mix, true);
    let keeps = crate::drivers::CacheSupport { forgets_own: false, ..super::fake::SUPPORT };
    bound.support = Box::leak(Box::new(keeps));
    let done = run(&bound, &mix, &job(2_000), 2, Box::new(|_| {})).await.unwrap();
    let found = done.cache.staleness;
    assert!(found.unjudged.as_ref().is_some_and(|reason| reason.contains("NOLOOP")), "{found:?}");
    assert_eq!((stale(&found), found.fences, found.with_floor), ([0, 0, 0], 0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_lost_write_its_key_is_not_judged_any_more() {
    // One key and one caller, so that every write but the lost one would be clean.
    let mix = mix(1);
    let fake = Fake::new(&mix, Forgets::Never, Fenced::Answered);
    fake.0.0.fail_write.store(true, Ordering::Release);
    let job = Job { callers: 1, continue_on_error: true, ..job(5_000) };
    let done = load(&fake, &mix, false, &job).await;
    let found = &done.cache.staleness;
    assert_eq!((done.outcome.unanswered, found.clean_writes, found.with_floor, stale(found)), (1, 0, 0, [0, 0, 0]));
    assert!(found.writes > 1_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_wrote_is_a_wrong_reply_and_not_stale() {
    let mix = of(&["GET __key__"], 1);
    for (value, part) in [
        (&b"0000000000000007"[..], "nobody wrote"),
        (b"000000000000000", "without a version"),
        (b"0000000000000000andothers", "other bytes"),
        (b"", "without a version"),
    ] {
        let fake = Fake::new(&mix, Forgets::AtOnce, Fenced::Answered);
        {
            let mut server = fake.0.0.server.lock().unwrap();
            let own = server.get_mut(&b"rcb:load:000000000000"[..]).unwrap();
            // A version that is none yet, with the right body; else as it is.
            let body = if part == "nobody wrote" { own[16..].to_vec() } else { Vec::new() };
            *own = [value, &body].concat();
        }
        let done = load(&fake, &mix, false, &job(10)).await;
        assert_eq!(done.outcome.ended, Ended::OnError);
        assert!(done.outcome.errors[0].first.contains(part), "{:?}", done.outcome.errors);
        assert_eq!(stale(&done.cache.staleness), [0, 0, 0]);
    }
    let fake = Fake::new(&mix, Forgets::AtOnce, Fenced::Answered);
    fake.0.0.server.lock().unwrap().clear();
    let done = load(&fake, &mix, false, &job(10)).await;
    assert!(done.outcome.errors[0].first.contains("found nothing"), "{:?}", done.outcome.errors);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hits_misses_and_latencies_are_split_and_add_up() {
    let mix = mix(10);
    for served in [Served::Cache, Served::Unknown] {
        let fake = Fake::told(&mix, Forgets::AtOnce, Fenced::Answered, served);
        let done = load(&fake, &mix, false, &job(5_000)).await;
        let (cache, reads) = (&done.cache, done.outcome.total.0[0].done);
        let count = |of: &crate::measure::Distribution| of.latency.map_or(0, |latency| latency.count);
        assert_eq!(cache.hits() + cache.misses(), reads);
        assert_eq!(count(&cache.write), done.outcome.total.0[1].done);
        let told = [count(&cache.hit), count(&cache.miss), count(&cache.unknown)];
        let wanted = if served == Served::Unknown { [0, 0, reads] } else { [cache.hits(), cache.misses(), 0] };
        assert_eq!(told, wanted);
        let sum = |of: fn(&crate::workload::cache::CacheSecond) -> u64| cache.seconds.iter().map(of).sum::<u64>();
        assert_eq!((sum(|second| second.hits), sum(|second| second.misses)), (cache.counts.hits, cache.counts.misses));
        assert_eq!(cache.seconds.len(), done.outcome.seconds.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_wants_misses_writes_and_fences_and_that_the_cache_counts_every_read() {
    let mix = mix(10);
    let fake = Fake::new(&mix, Forgets::AtOnce, Fenced::Answered);
    let job = job(5_000);
    let mut done = load(&fake, &mix, false, &job).await;
    let wanted = expected(&mix, &job, &done, &Raw::DESCRIPTOR, 1);
    let calls = |name: &str| wanted.calls[name];
    assert_eq!(calls("get"), done.cache.counts.misses);
    assert_eq!(calls("set"), done.outcome.total.0[1].done);
    assert_eq!(calls("unlink"), fake.0.0.fences.load(Ordering::Acquire));
    assert_eq!((wanted.unanswered, &wanted.deviations[..]), (0, &[][..]));
    // Five reads failed, and the cache counted three of them as misses: all others must have reached the server.
    let misses = done.cache.counts.misses;
    done.outcome.total.0[0].failed += 5;
    done.cache.counts.misses += 3;
    let failed = expected(&mix, &job, &done, &Raw::DESCRIPTOR, 1);
    assert_eq!((failed.calls["get"], &failed.deviations[..]), (misses, &[][..]));
    done.cache.counts.misses += 3;
    assert_eq!(expected(&mix, &job, &done, &Raw::DESCRIPTOR, 1).deviations.len(), 1, "six are more than failed");
    done.cache.counts.misses = misses;
    done.outcome.total.0[0].failed = 0;
    done.cache.counts.hits -= 1;
    let short = expected(&mix, &job, &done, &Raw::DESCRIPTOR, 1);
    assert!(short.deviations[0].contains("hits and misses"), "{short:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_run_goes_on_where_the_first_ended() {
    let mix = mix(10);
    let fake = Fake::new(&mix, Forgets::AtOnce, Fenced::Answered);
    let bound = fake.bound(&mix, false);
    let warm_up = run(&bound, &mix, &job(3_000), 2, Box::new(|_| {})).await.unwrap();
    let timed = run(&bound, &mix, &Job { first: 3_000, ..job(3_000) }, 2, Box::new(|_| {})).await.unwrap();
    assert_eq!((stale(&warm_up.cache.staleness), stale(&timed.cache.staleness)), ([0, 0, 0], [0, 0, 0]));
    assert_eq!(timed.outcome.errors, []);
    assert_eq!(timed.cache.counts.hits + timed.cache.counts.misses, timed.outcome.total.0[0].done);
}
