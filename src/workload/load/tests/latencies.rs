//! Which latency ends up in which histogram.

use std::time::Duration;

use super::fake::{Answer, Fake, job, load, mix, rate};
use crate::measure::Latency;
use crate::workload::load::engine::Job;
use crate::workload::load::issue::{Piped, Single};

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reply_shows_in_the_percentiles_of_its_own_command_only() {
    let slow = Duration::from_millis(400);
    let mix = mix(&["GET a:__key__", "SET b:__key__ 1"]);
    let gets = std::sync::atomic::AtomicUsize::new(0);
    let fake = Fake::new(move |_, command| {
        let is_slow = command.name() == "GET" && gets.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 100 == 50;
        if is_slow { Answer::After(slow) } else { Answer::Usual }
    });
    let outcome = load(Single(fake), &mix, &Job { callers: 20, ..job(1_900) }).await;
    let [gets, sets] = &outcome.total.0[..] else { panic!("two entries") };
    let (get, set) = (Latency::of(&gets.service).unwrap(), Latency::of(&sets.service).unwrap());
    let expected = (gets.done + 49) / 100;
    assert_eq!(gets.service.count_between(nanos(slow), u64::MAX), expected, "each slow reply, in full");
    assert!(get.max_ns >= nanos(slow) && get.p999_ns >= nanos(slow), "{get:?}");
    // 1 in 100 with 9 or so of them: p98 is below, p99.5 above.
    assert!(gets.service.value_at_quantile(0.995) >= nanos(slow) && gets.service.value_at_quantile(0.98) < nanos(slow), "{get:?}");
    assert!(set.p99_ns < get.max_ns && set.p50_ns < nanos(slow), "{set:?}");
    assert_eq!((get.count, set.count), (gets.done, sets.done));
    let both = Latency::of(&outcome.total.total().service).unwrap();
    assert_eq!((both.count, both.max_ns, both.min_ns), (1_900, get.max_ns.max(set.max_ns), get.min_ns.min(set.min_ns)));
}

#[tokio::test]
async fn commands_of_a_pipeline_take_as_long_as_their_pipeline() {
    let slow = Duration::from_millis(50);
    let fake = Fake::new(move |number, _| if number == 1 { Answer::After(slow) } else { Answer::Usual });
    let outcome = load(Piped(fake), &mix(&["GET a:__key__", "SET b:__key__ 1"]), &Job { callers: 1, pipeline: 10, ..job(30) }).await;
    let all = outcome.total.total().service;
    assert!(all.count_between(nanos(slow), u64::MAX) >= 10 && all.len() == 30);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stall_is_in_the_latency_from_the_planned_time_of_all_that_wait_and_in_one_service_time() {
    let stall = Duration::from_millis(300);
    let fake = Fake::new(move |number, _| if number == 0 { Answer::After(stall) } else { Answer::Usual });
    let outcome = load(Single(fake), &mix(&["PING"]), &Job { callers: 1, open: rate("0=1000"), ..job(50) }).await;
    let counts = &outcome.total.0[0];
    let (service, planned) = (Latency::of(&counts.service).unwrap(), Latency::of(&counts.planned).unwrap());
    assert_eq!((service.count, planned.count), (50, 50));
    // Command i was planned at i ms and could not be sent before the stall was over.
    assert!(planned.min_ns >= nanos(stall - Duration::from_millis(50)), "{planned:?}");
    assert!(planned.max_ns >= nanos(stall) && service.max_ns >= nanos(stall), "{planned:?} {service:?}");
    assert!(service.p50_ns < planned.min_ns, "{service:?} {planned:?}");
}
