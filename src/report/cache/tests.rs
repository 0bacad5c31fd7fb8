//! The texts of constructed runs.

use std::num::NonZeroU64;

use crate::drivers::{CacheCounts, CacheMode, Capacity, CountedBy, Settings, Topology, find};
use crate::measure::{Environment, latency};
use crate::record::load::{Asked, AskedCache, ClientUsage, Distribution, EntryFigures, Figures, LoadRecord, LoadRun, Status};
use crate::record::{CellSettings, Runtime, RuntimeFlavour};
use crate::report::load::{comparison, summary};
use crate::target::audit::{Audit, ServerUsage};
use crate::target::{Kind, Server, TargetFacts};
use crate::workload::cache::{CacheFigures, CacheSecond, Lag, LagFigures, ProbeReads, StaleRead, Staleness};

fn distribution(count: u64, nanos: u64) -> Distribution {
    let mut values = latency::histogram();
    values.record_n(nanos, count).unwrap();
    Distribution::of(&values)
}

fn asked() -> Asked {
    Asked {
        keys: 10_000,
        key_distribution: "uniform".into(),
        data_size: "64".into(),
        seed: 1,
        prefill: true,
        callers: 50,
        pipeline: 1,
        transaction: false,
        commands: None,
        test_time: Some(10.0),
        warmup: 0.0,
        open_loop: None,
        verify: true,
        continue_on_error: false,
        rounds: 1,
        cache: Some(AskedCache {
            mode: CacheMode::All,
            noloop: false,
            ttl_seconds: 60.0,
            capacity: None,
            external_writers: false,
            probes_per_second: 50,
            baseline: true,
            allow_stale: false,
        }),
    }
}

/// Of a client that counts for itself and tells all.
fn cache() -> CacheFigures {
    CacheFigures {
        mode: CacheMode::All,
        noloop: false,
        capacity: NonZeroU64::new(20_000).map(Capacity::Entries),
        ttl_seconds: Some(60.0),
        external_writers: false,
        way: "tracking and cache by the client".into(),
        counts: CacheCounts {
            hits: 600_500,
            misses: 150_100,
            invalidations: 150_000,
            evictions: Some(20),
            expirations: Some(0),
            entries: Some(9_876),
        },
        probe_reads: ProbeReads { hits: 500, misses: 100, unknown: 0 },
        reads_by: CountedBy::Client,
        invalidations_by: CountedBy::Harness,
        evictions_by: Some(CountedBy::Harness),
        hit: distribution(600_000, 310),
        miss: distribution(150_000, 120_000),
        unknown: Distribution::default(),
        write: distribution(250_000, 140_000),
        clock_ns: 41.6,
        memory_bytes: Some(3 << 20),
        staleness: Staleness {
            checked: 750_000,
            with_floor: 700_000,
            writes: 250_000,
            clean_writes: 249_000,
            fences: 4_000,
            ..Staleness::default()
        },
        lag: Some(Lag {
            per_second: 50,
            own: LagFigures {
                probes: 250,
                unresolved: 0,
                latency: distribution(250, 90_000),
                gap: distribution(250, 20_000),
                skipped: 0,
                waited_ns: 0,
            },
            foreign: LagFigures {
                probes: 250,
                unresolved: 2,
                latency: distribution(248, 95_000),
                gap: distribution(248, 21_000),
                skipped: 3,
                waited_ns: 150_000_000,
            },
        }),
        seconds: vec![CacheSecond { hits: 600_500, misses: 150_100, invalidations: 150_000, evictions: Some(20) }],
    }
}

fn figures(cache: CacheFigures) -> Figures {
    let entry = |command: &str, ratio, commands| EntryFigures {
        command: command.into(),
        ratio,
        commands,
        errors: 0,
        service: distribution(commands, 100_000),
        planned: Distribution::default(),
    };
    Figures {
        duration: 10.0,
        commands: 1_000_000,
        errors: 0,
        unanswered: 0,
        errors_by_kind: Vec::new(),
        plan: None,
        service: distribution(1_000_000, 100_000),
        planned: Distribution::default(),
        entries: vec![entry("SET __key__ __data__", 0.25, 250_000), entry("GET __key__", 0.75, 750_000)],
        seconds: Vec::new(),
        client: ClientUsage { user_ns: 2_000_000_000, system_ns: 1_000_000_000, ..ClientUsage::default() },
        server: ServerUsage { cpu_ns: 1_000_000_000, reads: 100_000, ..ServerUsage::default() },
        audit: Audit { workload: 400_000, ..Audit::default() },
        flushes: None,
        cache: Some(Box::new(cache)),
    }
}

fn run(cached: bool, figures: Figures) -> LoadRun {
    let raw = find("raw").unwrap();
    LoadRun {
        workload: "mix".into(),
        round: 1,
        driver: "raw".into(),
        cached: Some(cached),
        client: "redis-client-bench".into(),
        client_version: "0.1.0".into(),
        settings: CellSettings::new(raw, &Settings::default(), Topology::Standalone),
        runtime: Runtime { flavour: RuntimeFlavour::MultiThread, workers: 2 },
        status: Status::Done,
        reason: None,
        rate: Some(figures.rate()),
        figures: Some(Box::new(figures)),
    }
}

/// Every read went to the server.
fn uncached() -> CacheFigures {
    CacheFigures {
        counts: CacheCounts { misses: 750_000, ..CacheCounts::default() },
        probe_reads: ProbeReads::default(),
        hit: Distribution::default(),
        miss: distribution(750_000, 130_000),
        memory_bytes: None,
        lag: None,
        ..cache()
    }
}

fn stale() -> CacheFigures {
    let first = ["rcb:load:000000000042", "rcb:load:000000000043"].map(str::to_owned);
    let mut reads = first.into_iter().map(|key| StaleRead { key, version: Some(3), floor: 5, age_ns: 1_250_000 }).collect::<Vec<_>>();
    reads[1].version = None;
    CacheFigures {
        staleness: Staleness {
            stale_from_cache: 10,
            stale_from_server: 1,
            after_disconnect: 2,
            longest_ns: 2_000_000_000,
            ages: distribution(13, 2_000_000_000),
            fences_failed: 3,
            first: reads,
            ..cache().staleness
        },
        ..cache()
    }
}

#[test]
fn the_summary_of_a_cached_run() {
    insta::assert_snapshot!("cached", summary(&run(true, figures(cache())), &asked()));
}

#[test]
fn stale_reads_are_told_with_the_verdict() {
    insta::assert_snapshot!("stale", summary(&run(true, figures(stale())), &asked()));
    let mut allowed = asked();
    if let Some(cache) = &mut allowed.cache {
        cache.allow_stale = true;
    }
    let text = summary(&run(true, figures(stale())), &allowed);
    assert!(text.contains("STALE: 13 of 700,000 reads") && text.contains("allowed by --allow-stale") && !text.contains("has failed"));
}

#[test]
fn a_run_without_its_cache_has_no_hits_and_is_checked_all_the_same() {
    let text = summary(&run(false, figures(uncached())), &asked());
    assert!(!text.contains("hits per second") && !text.contains("Hit ratio") && !text.contains("Cache memory"), "{text}");
    assert!(text.contains("Staleness: none in 700,000 reads"), "{text}");
}

#[test]
fn what_a_client_does_not_tell_is_not_made_up() {
    let silent = CacheFigures {
        counts: CacheCounts { evictions: None, entries: None, ..cache().counts },
        evictions_by: None,
        unknown: distribution(750_000, 150_000),
        hit: Distribution::default(),
        miss: Distribution::default(),
        memory_bytes: None,
        lag: None,
        ..cache()
    };
    insta::assert_snapshot!("silent", summary(&run(true, figures(silent)), &asked()));
}

#[test]
fn what_was_not_judged_is_not_called_fresh() {
    let unjudged = |staleness| {
        let text = summary(&run(true, figures(CacheFigures { staleness, ..cache() })), &asked());
        assert!(!text.contains("Staleness: none in") && !text.contains("STALE:"), "{text}");
        text
    };
    let text = unjudged(Staleness { unjudged: Some("the slots moved".into()), ..Staleness::default() });
    assert!(text.contains("Staleness: not judged; the slots moved"), "{text}");
    let text = unjudged(Staleness { checked: 1_000, ..Staleness::default() });
    assert!(text.contains("Staleness: nothing to judge"), "{text}");
}

#[test]
fn caches_are_compared_in_a_table_of_their_own() {
    let server = Server { product: "redis".into(), version: "7.0.15".into(), redis_version: "7.0.15".into() };
    let target = TargetFacts {
        kind: Kind::Process,
        topology: Topology::Standalone,
        masters: 1,
        replicas: 0,
        server,
        addresses: Vec::new(),
        provided: String::new(),
        warnings: Vec::new(),
    };
    let mut record = LoadRecord::new(Environment::read(), target, Vec::new(), asked());
    let mut slower = figures(uncached());
    slower.duration = 20.0;
    record.runs = vec![run(false, slower), run(true, figures(cache())), LoadRun { driver: "other".into(), ..run(true, figures(stale())) }];
    record.runs.push(LoadRun {
        driver: "lost".into(),
        status: Status::Failed,
        reason: Some("no".into()),
        figures: None,
        ..run(true, figures(cache()))
    });
    insta::assert_snapshot!("comparison", comparison(&record));
}
