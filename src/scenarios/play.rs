//! One scenario with one client, from connecting to clearing up.

use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;

use super::outcome::{Acted, Fault};
use super::stage::{Stage, some_keys};
use super::subject::Subject;
use super::{Account, Played, Scenario, Verdict, Way, cluster, expiry, kill, race, room, writes};
use crate::drivers::raw::Raw;
use crate::drivers::{
    CacheCounts, CacheSettings, CacheSupport, Cached, ClientCache, Command, Commands, Driver, Error, Servers, Settings, UnknownDriver,
    Visit, visit,
};
use crate::interrupt;
use crate::net::Endpoint;

/// The longest that one scenario may take; one that takes longer hangs, and has failed.
pub const CELL_LIMIT: Duration = Duration::from_secs(60);

/// The longest that closing and clearing up may take.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

/// More keys than any scenario writes.
const MOST_KEYS: usize = 512;

/// The servers to play on.
#[derive(Clone, Debug)]
pub struct Against {
    /// The server, or the masters of a cluster.
    pub servers: Servers,
    /// Every server, replicas too.
    pub nodes: Vec<Endpoint>,
    /// Whether we started them: only then they are flushed, configured and taken apart.
    pub ours: bool,
}

/// What to play.
#[derive(Clone, Debug)]
pub struct Ask {
    /// What happens.
    pub scenario: Scenario,
    /// In which mode.
    pub way: Way,
    /// Connection settings; RESP3 is needed.
    pub settings: Settings,
    /// What all keys begin with: nobody else's keys do.
    pub prefix: String,
}

/// Plays a scenario with the driver called `name`, in a task of its own.
///
/// # Errors
/// There is no such driver. All else is in what the future gives.
pub fn play_by_name(name: &str, against: Against, ask: Ask) -> Result<BoxFuture<'static, Played>, UnknownDriver> {
    struct Play(Against, Ask);
    impl Visit for Play {
        type Output = BoxFuture<'static, Played>;
        fn visit<D: Driver>(self) -> Self::Output {
            // In a task, as clients are used: what runs outside of the workers is woken later, and sees less of what comes late.
            Box::pin(async move {
                let playing = tokio::spawn(async move { play::<D>(&D::DESCRIPTOR.cache, &self.0, &self.1).await });
                playing.await.unwrap_or_else(|error| Played::failed(format!("the scenario ended: {error}")))
            })
        }
    }
    visit(name, Play(against, ask))
}

/// Plays a scenario with the cached client of `C`, of which `support` tells. It is a failure when it takes longer than [`CELL_LIMIT`].
pub async fn play<C: ClientCache>(support: &CacheSupport, against: &Against, ask: &Ask) -> Played {
    let Against { servers, nodes, ours } = against;
    let Ask { scenario, way, settings, prefix } = ask;
    let (ours, scenario, way) = (*ours, *scenario, *way);
    let possible = support.check(servers.topology, settings.resp, way.mode, way.noloop).map_err(Fault::from).and_then(|()| {
        scenario.check(servers.topology, servers.endpoints.len(), ours, way.mode).map_err(|why| Fault::NotPossible(why.into()))
    });
    let (mut account, mut counts) = (Account::default(), None);
    let started = Instant::now();
    let ended = match possible {
        Err(fault) => Err(fault),
        Ok(()) => {
            let playing = async {
                let stage = Stage::build(servers, nodes, ours, settings, way, prefix).await?;
                let ended = on_stage::<C>(&stage, scenario, support, &mut account, &mut counts).await;
                stage.close().await;
                ended
            };
            let ended = tokio::select! {
                ended = tokio::time::timeout(CELL_LIMIT, playing) => ended,
                () = interrupt::wait() => Ok(Err(Fault::Failed("interrupted".into()))),
            };
            let ended = ended.unwrap_or_else(|_| Err(Fault::Failed(format!("it was not done within {CELL_LIMIT:?}"))));
            if ended.is_err() {
                clear_up(servers, prefix).await;
            }
            ended
        }
    };
    let verdict = match ended {
        Ok(()) if account.is_stale() => Verdict::Stale,
        Ok(()) => Verdict::Ok,
        Err(Fault::NotPossible(reason)) => Verdict::NotPossible { reason },
        Err(Fault::Failed(reason)) => Verdict::Failed { reason },
    };
    Played { verdict, account, counts, took_s: started.elapsed().as_secs_f64() }
}

fn options(stage: &Stage<'_>, scenario: Scenario) -> CacheSettings {
    let options = stage.options();
    match scenario {
        Scenario::Ttl => CacheSettings { ttl: Some(expiry::CLIENT_TTL), ..options },
        Scenario::Eviction => room::small(options),
        _ => options,
    }
}

async fn on_stage<C: ClientCache>(
    stage: &Stage<'_>,
    scenario: Scenario,
    support: &CacheSupport,
    account: &mut Account,
    counts: &mut Option<CacheCounts>,
) -> Acted {
    let subject = Subject::connect::<C>(stage, &options(stage, scenario)).await?;
    let ended = act(&subject, scenario, support, account).await;
    *counts = Some(subject.counts());
    // One whose connection is gone may never say goodbye.
    let _ = tokio::time::timeout(CLOSE_LIMIT, subject.cached.close()).await;
    ended
}

/// Deletes what a scenario that ended early may have left behind. When that fails too, it is not what is to be told.
async fn clear_up(servers: &Servers, prefix: &str) {
    let clearing = async {
        let foreign = Raw::connect(servers, &Settings::default()).await?;
        for key in some_keys(prefix, MOST_KEYS) {
            foreign.call(&Command::new("UNLINK").arg(&key)).await?;
        }
        foreign.close().await;
        Ok::<_, Error>(())
    };
    let _ = tokio::time::timeout(CLOSE_LIMIT, clearing).await;
}

async fn act<C: Cached>(subject: &Subject<'_, C>, scenario: Scenario, support: &CacheSupport, account: &mut Account) -> Acted {
    match scenario {
        Scenario::Ttl => expiry::client_ttl(subject, account).await,
        Scenario::ServerExpiry => expiry::server_expiry(subject, account).await,
        Scenario::Overwrite => writes::overwrite(subject, account).await,
        Scenario::OwnWrites => writes::own_writes(subject, account).await,
        Scenario::Delete => writes::delete(subject, account).await,
        Scenario::Flushall => writes::flush(subject, "FLUSHALL", account).await,
        Scenario::Flushdb => writes::flush(subject, "FLUSHDB", account).await,
        Scenario::ClientKill => kill::client_kill(subject, support, account).await,
        Scenario::Eviction => room::eviction(subject, support, account).await,
        Scenario::TrackingTable => room::tracking_table(subject, account).await,
        Scenario::FlushOneMaster => cluster::flush_one_master(subject, account).await,
        Scenario::SlotMove => cluster::slot_move(subject, account).await,
        Scenario::Race => race::race(subject, account).await,
    }
}
