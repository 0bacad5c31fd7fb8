//! One suite of checks for every driver. A driver that fails it can't be measured.
//!
//! Generic over the driver; names no client. It writes only keys that begin with the prefix it is given, and deletes them at
//! the end. The check of timeouts pauses the servers for 0.25 s (`CLIENT PAUSE`), those of publish/subscribe end every
//! subscribed connection of the servers (`CLIENT KILL`), and those of caches every tracked one, so run it on servers of your own:
//!
//! ```no_run
//! # async fn example() {
//! use redis_client_bench::conformance;
//! use redis_client_bench::drivers::{Servers, Settings, raw::Raw};
//! use redis_client_bench::net::Endpoint;
//!
//! let servers = Servers::standalone(Endpoint::tcp("127.0.0.1", 6379));
//! let report = conformance::run::<Raw>(&servers, &Settings::default(), "conformance:").await;
//! assert!(report.passed(), "{report}");
//! # }
//! ```

mod cache;
mod callers;
mod commands;
mod connections;
mod context;
mod pipelines;
mod pubsub;
mod transactions;

use std::fmt;
use std::time::{Duration, Instant};

use crate::drivers::{
    CacheMode, CacheSettings, Driver, Error, Kind, PipelineReach, Servers, Settings, SubscriberSettings, Topology, Transactions,
};
use context::Context;
use pubsub::Scene;

/// The longest that one check may take. A check that takes longer hangs, and that is a failure.
pub const CHECK_LIMIT: Duration = Duration::from_secs(20);

/// What came of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should be.
    Passed,
    /// Not as it should be.
    Failed(String),
    /// The driver states that its client can't do it.
    Unsupported(String),
}

/// One check of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was checked.
    pub name: &'static str,
    /// What came of it.
    pub outcome: Outcome,
    /// How long it took.
    pub took: Duration,
}

impl Check {
    /// A check that failed before it began.
    #[must_use]
    pub fn failed(name: &'static str, reason: impl fmt::Display) -> Self {
        Self { name, outcome: Outcome::Failed(reason.to_string()), took: Duration::ZERO }
    }
}

/// What came of all checks of one driver with one set of settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Which driver, or what was built around it.
    pub subject: String,
    /// The checks in the order in which they ran.
    pub checks: Vec<Check>,
}

impl Report {
    /// Whether there were checks and none failed.
    #[must_use]
    pub fn passed(&self) -> bool {
        !self.checks.is_empty() && self.failures().next().is_none()
    }

    /// The checks that failed.
    pub fn failures(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| matches!(check.outcome, Outcome::Failed(_)))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.subject)?;
        for Check { name, outcome, took } in &self.checks {
            let milliseconds = took.as_millis();
            match outcome {
                Outcome::Passed => write!(f, "\n  {milliseconds:>6} ms  passed       {name}")?,
                Outcome::Failed(reason) => write!(f, "\n  {milliseconds:>6} ms  FAILED       {name}: {reason}")?,
                Outcome::Unsupported(reason) => write!(f, "\n  {milliseconds:>6} ms  unsupported  {name}: {reason}")?,
            }
        }
        Ok(())
    }
}

/// Why a check did not pass.
enum Fault {
    Failed(String),
    Unsupported(String),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match error {
            Error::Unsupported(what) => Fault::Unsupported(what.to_owned()),
            other => Fault::Failed(other.to_string()),
        }
    }
}

type Checked = Result<(), Fault>;

/// Fails a check unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($reason:tt)+) => {
        if !$condition {
            return Err($crate::conformance::Fault::Failed(format!($($reason)+)));
        }
    };
}
use ensure;

/// Runs one check within its time limit.
async fn checked(name: &'static str, check: impl Future<Output = Checked>) -> Check {
    let started = Instant::now();
    let outcome = match tokio::time::timeout(CHECK_LIMIT, check).await {
        Ok(Ok(())) => Outcome::Passed,
        Ok(Err(Fault::Failed(reason))) => Outcome::Failed(reason),
        Ok(Err(Fault::Unsupported(reason))) => Outcome::Unsupported(reason),
        Err(_) => Outcome::Failed(format!("not done within {CHECK_LIMIT:?}")),
    };
    Check { name, outcome, took: started.elapsed() }
}

/// All checks of a connected client: one of our drivers, a window around it, or a client of your own.
/// On a cluster `reach` says what a pipeline of it may hold.
pub async fn check<C: Transactions>(client: &C, servers: &Servers, reach: PipelineReach, prefix: &str) -> Vec<Check> {
    let one_slot = servers.topology == Topology::Cluster && reach == PipelineReach::OneSlot;
    let context = Context::new(client, servers, prefix, one_slot);
    macro_rules! all {
        ($($module:ident::$check:ident),+ $(,)?) => {
            vec![$(checked(stringify!($check), $module::$check(&context)).await),+]
        };
    }
    let mut checks = all![
        commands::binary_safe_keys_and_values,
        commands::an_empty_value,
        commands::a_value_of_a_mebibyte,
        commands::missing_keys,
        commands::the_fields_of_a_hash,
        commands::errors_of_wrong_types,
        commands::the_error_of_an_unknown_command,
        commands::any_command,
        commands::every_kind_of_reply,
        pipelines::an_error_inside_a_pipeline,
        pipelines::an_empty_pipeline,
        pipelines::a_pipeline_of_a_thousand,
        pipelines::a_pipeline_across_slots,
        transactions::the_replies_of_a_transaction,
        transactions::an_empty_transaction,
        transactions::a_transaction_of_a_thousand,
        transactions::an_error_inside_a_transaction,
        transactions::a_command_that_is_not_queued,
        transactions::a_watched_key_that_changed,
        transactions::transactions_are_atomic,
        transactions::dropped_transactions,
        transactions::a_transaction_across_slots,
        callers::a_thousand_callers,
        callers::pipelines_of_many_callers,
        callers::dropped_futures,
        callers::every_lane_works,
    ];
    checks.push(checked("keys_are_deleted", context.delete_keys()).await);
    checks
}

/// Connects the driver and runs all checks on it. Its strategy must be
/// [`Native`](crate::drivers::Strategy::Native) for what a driver does on its own.
pub async fn run<D: Driver>(servers: &Servers, settings: &Settings, prefix: &str) -> Report {
    let subject = format!("{} RESP{} {}", D::DESCRIPTOR.name, u8::from(settings.resp), servers.topology);
    let mut checks = vec![
        checked("a_refused_connection", connections::a_refused_connection::<D>(servers, settings)).await,
        checked("a_refused_login", connections::a_refused_login::<D>(servers, settings)).await,
    ];
    match tokio::time::timeout(CHECK_LIMIT, D::connect(servers, settings)).await {
        Ok(Ok(driver)) => {
            checks.extend(check(&driver, servers, D::DESCRIPTOR.pipeline_reach, prefix).await);
            checks.push(checked("the_hand_written_loop", connections::the_hand_written_loop(&driver, servers, prefix)).await);
            driver.close().await;
        }
        Ok(Err(error)) => checks.push(Check::failed("connect", error)),
        Err(_) => checks.push(Check::failed("connect", format!("not done within {CHECK_LIMIT:?}"))),
    }
    checks.push(checked("a_timeout", connections::a_timeout::<D>(servers, settings, prefix)).await);
    Report { subject, checks }
}

/// All checks of publish/subscribe, with a driver as publisher and its own subscribers: each [`Kind`] that the client says it
/// can, and refusals of the others. On a cluster a driver for one server has its subscribers at nodes that are chosen, one
/// after the other. The servers must be Redis 7.0 or later and have no other subscribers.
pub async fn run_pubsub<D: Driver>(servers: &Servers, settings: &Settings, prefix: &str) -> Report {
    let subject = format!("{} pub/sub RESP{} {}", D::DESCRIPTOR.name, u8::from(settings.resp), servers.topology);
    let connecting = async { Ok::<_, Error>((D::connect(servers, settings).await?, pubsub::nodes(servers).await?)) };
    let (publisher, nodes) = match tokio::time::timeout(CHECK_LIMIT, connecting).await {
        Ok(Ok(connected)) => connected,
        Ok(Err(error)) => return Report { subject, checks: vec![Check::failed("connect", error)] },
        Err(_) => return Report { subject, checks: vec![Check::failed("connect", format!("not done within {CHECK_LIMIT:?}"))] },
    };
    let mut checks = vec![checked("publishing_to_nobody", pubsub::publishing_to_nobody(&publisher, servers, prefix)).await];
    checks.push(checked("a_refused_subscriber", pubsub::a_refused_subscriber::<D>(servers, settings)).await);
    for kind in Kind::ALL {
        let mut places = vec![SubscriberSettings::default()];
        if servers.topology == Topology::Cluster && kind != Kind::Sharded {
            places.extend(nodes.last().map(|node| SubscriberSettings { node: Some(node.clone()), ..SubscriberSettings::default() }));
        }
        for options in places {
            let topology = options.servers(servers).topology;
            let scene = Scene { publisher: &publisher, servers, settings, prefix, kind, nodes: nodes.clone(), options };
            if let Err(reason) = (D::DESCRIPTOR.pubsub.kinds)(topology, settings.resp, kind) {
                checks.push(checked(kind.subscribe(), pubsub::what_is_unsupported_says_so(&scene, reason)).await);
                continue;
            }
            macro_rules! all {
                ($($check:ident),+ $(,)?) => {
                    $(checks.push(checked(
                        match kind {
                            Kind::Channel => concat!("subscribe: ", stringify!($check)),
                            Kind::Pattern => concat!("psubscribe: ", stringify!($check)),
                            Kind::Sharded => concat!("ssubscribe: ", stringify!($check)),
                        },
                        pubsub::$check(&scene),
                    ).await);)+
                };
            }
            all![
                messages_arrive_byte_for_byte,
                unsubscribing_ends_delivery,
                two_subscribers_get_all_in_order,
                a_slow_subscriber_knows_its_losses,
                a_lost_connection_surfaces,
            ];
        }
    }
    publisher.close().await;
    Report { subject, checks }
}

/// All checks of client-side caching: every [`CacheMode`] with and without `NOLOOP` that the driver says it can, and refusals of the
/// others. An uncached client of the same driver writes what is foreign to the cache. The servers must have no other tracked connections.
pub async fn run_cache<D: Driver>(servers: &Servers, settings: &Settings, prefix: &str) -> Report {
    let subject = format!("{} cache RESP{} {}", D::DESCRIPTOR.name, u8::from(settings.resp), servers.topology);
    let connecting = async { Ok::<_, Error>((D::connect(servers, settings).await?, pubsub::nodes(servers).await?)) };
    let (foreign, nodes) = match tokio::time::timeout(CHECK_LIMIT, connecting).await {
        Ok(Ok(connected)) => connected,
        Ok(Err(error)) => return Report { subject, checks: vec![Check::failed("connect", error)] },
        Err(_) => return Report { subject, checks: vec![Check::failed("connect", format!("not done within {CHECK_LIMIT:?}"))] },
    };
    let mut checks = Vec::new();
    for (mode, noloop) in CacheMode::ALL.into_iter().flat_map(|mode| [(mode, false), (mode, true)]) {
        macro_rules! name {
            ($check:ident) => {
                match (mode, noloop) {
                    (CacheMode::All, false) => concat!("all: ", stringify!($check)),
                    (CacheMode::All, true) => concat!("all, noloop: ", stringify!($check)),
                    (CacheMode::OptIn, false) => concat!("opt-in: ", stringify!($check)),
                    (CacheMode::OptIn, true) => concat!("opt-in, noloop: ", stringify!($check)),
                    (CacheMode::Broadcast, false) => concat!("broadcast: ", stringify!($check)),
                    (CacheMode::Broadcast, true) => concat!("broadcast, noloop: ", stringify!($check)),
                }
            };
        }
        if let Err(reason) = (D::DESCRIPTOR.cache.modes)(servers.topology, settings.resp, mode, noloop) {
            let options = CacheSettings { mode, noloop, ..CacheSettings::default() };
            let refused = cache::what_is_impossible_is_refused::<D>(servers, settings, &options, reason);
            checks.push(checked(name!(what_is_impossible_is_refused), refused).await);
            continue;
        }
        let scene = cache::Scene { foreign: &foreign, servers, settings, prefix, nodes: nodes.clone(), mode, noloop };
        macro_rules! all {
            ($($check:ident),+ $(,)?) => {
                $(checks.push(checked(name!($check), cache::$check(&scene)).await);)+
            };
        }
        all![
            a_second_read_is_a_hit_with_the_same_bytes,
            a_foreign_write_is_forgotten,
            deleted_keys_are_forgotten,
            an_old_entry_is_read_again,
            a_small_capacity_holds,
            a_reply_never_outlives_its_invalidation,
        ];
        if !noloop {
            all![an_own_write_is_forgotten];
        }
        all![a_cache_does_not_outlive_its_connection];
    }
    foreign.close().await;
    Report { subject, checks }
}
