//! What the probes measure, against clients whose lag is known.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::fake::{Fake, Fenced, Forgets, Plain, of};
use crate::drivers::{Cached, Served};
use crate::workload::cache::probe::{Prober, Probes};
use crate::workload::cache::{Lag, ProbeReads};

/// Probes for so long; the lags, the reads, and what the cache counted.
async fn probed(fake: &Fake, own: bool, time: Duration) -> (Lag, ProbeReads, (u64, u64)) {
    let prober: Prober<Fake, Plain> =
        Prober { cached: fake.clone(), foreign: fake.0.clone(), own, per_second: 1_000, versions: Arc::default() };
    let (probes, (stop, stopped)) = (Probes::default(), watch::channel(false));
    let ending = async {
        tokio::time::sleep(time).await;
        let _ = stop.send(true);
    };
    tokio::join!(prober.keep(&probes, stopped), ending);
    let (commands, counts) = (probes.commands(), fake.counts());
    assert_eq!(commands.reads, counts.hits + counts.misses);
    assert_eq!((commands.reads_lost, commands.writes_lost), (0, 0));
    (probes.lag(1_000), probes.reads(), (counts.hits, counts.misses))
}

#[tokio::test]
async fn each_probe_is_seen_and_its_reads_are_told_apart_exactly() {
    let mix = of(&["GET __key__"], 1);
    let fake = Fake::new(&mix, Forgets::AtOnce, Fenced::Answered);
    let (lag, reads, (hits, misses)) = probed(&fake, true, Duration::from_millis(100)).await;
    assert!(lag.own.probes > 5 && lag.foreign.probes > 5, "{lag:?}");
    assert_eq!((lag.own.unresolved, lag.own.skipped, lag.foreign.unresolved, lag.foreign.skipped), (0, 0, 0, 0));
    assert_eq!((reads.hits, reads.misses, reads.unknown), (hits, misses, 0));
    assert_eq!(lag.own.latency.latency.unwrap().count, lag.own.probes);
    assert_eq!(lag.own.gap.latency.unwrap().count, lag.own.probes);
}

#[tokio::test]
async fn a_client_that_does_not_tell_is_probed_with_one_guess_each() {
    let mix = of(&["GET __key__"], 1);
    let fake = Fake::told(&mix, Forgets::AtOnce, Fenced::Answered, Served::Unknown);
    let (lag, reads, (hits, misses)) = probed(&fake, false, Duration::from_millis(100)).await;
    assert!(lag.foreign.probes > 5 && lag.own.probes == 0, "{lag:?}");
    assert!(reads.unknown >= lag.foreign.probes);
    assert_eq!(reads.hits + reads.misses, hits + misses);
    assert!(reads.misses <= misses, "of those that are known to be misses none is a hit");
}

#[tokio::test]
async fn a_probe_that_never_sees_its_value_is_unresolved() {
    let mix = of(&["GET __key__"], 1);
    let fake = Fake::new(&mix, Forgets::Never, Fenced::Answered);
    let (lag, ..) = probed(&fake, false, Duration::from_millis(2_300)).await;
    assert_eq!((lag.foreign.probes, lag.foreign.unresolved, lag.foreign.latency.latency), (1, 1, None));
}

#[tokio::test]
async fn a_probe_that_still_waits_when_the_run_ends_is_told() {
    let mix = of(&["GET __key__"], 1);
    let fake = Fake::new(&mix, Forgets::Never, Fenced::Answered);
    let time = Duration::from_millis(300);
    let (lag, ..) = probed(&fake, false, time).await;
    assert_eq!((lag.foreign.probes, lag.foreign.unresolved, lag.foreign.latency.latency), (0, 0, None));
    let waited = Duration::from_nanos(lag.foreign.waited_ns);
    assert!(waited > time / 4, "{waited:?}");
    assert_eq!(lag.own.waited_ns, 0);
}

#[tokio::test]
async fn the_lag_is_as_long_as_the_old_value_was_served() {
    let mix = of(&["GET __key__"], 1);
    let fake = Fake::new(&mix, Forgets::InOrder, Fenced::Answered);
    // Replies over the tracked connection come every 20 ms, and invalidations before them.
    let late = fake.clone();
    let replies = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let _ = crate::drivers::Commands::get(late.client(), b"nothing").await;
        }
    });
    let (lag, ..) = probed(&fake, false, Duration::from_millis(500)).await;
    replies.abort();
    let latency = lag.foreign.latency.latency.unwrap();
    // Its next write follows the last reply closely, so nearly all of the 20 ms are waited for.
    assert!(latency.p50_ns > 10_000_000, "{latency:?}");
    assert!(lag.foreign.gap.latency.unwrap().p50_ns < latency.p50_ns);
}
