//! A run of subscribers from its first connection to its accounts.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::account::{Account, RunId, fresh_run, publishers_of};
use super::census::{Census, Counted};
use super::channels::{Seat, seats};
use super::churn::{Churn, Lanes, Subscription};
use super::live::Live;
use super::outcome::{OnNode, Outcome, ServerCount, Subscribed, Tick, cross_check};
use super::plan::Plan;
use super::publisher::{self, Orders, To};
use super::receiver::{Opening, Order, Receiver};
use super::watch::Watch;
use crate::drivers::{Driver, Error, Kind, Servers, Settings, SubscriberSettings, Topology, UnknownDriver, Visit};
use crate::interrupt;
use crate::measure::resident_memory;
use crate::net::Endpoint;
use crate::target::audit::Auditor;
use crate::target::{Node, Role};

/// Subscribers that are opened at the same time.
const OPENED_AT_ONCE: usize = 64;

/// How long publishers may take to end once they are told to.
const PUBLISHERS_END_WITHIN: Duration = Duration::from_secs(5);

/// How long the churn may take to end the step that is under way: longer than its client and the servers may.
const CHURN_ENDS_WITHIN: Duration = Duration::from_secs(15);

/// How long subscribers may take to end: longer than their clients may.
const SUBSCRIBERS_END_WITHIN: Duration = Duration::from_secs(15);

/// What is measured against.
#[derive(Clone, Copy, Debug)]
pub struct Against<'a> {
    /// What clients connect to.
    pub servers: &'a Servers,
    /// Every server.
    pub nodes: &'a [Node],
}

/// Why a run gave no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A subscriber or publisher could not be opened.
    #[error("can't open {0}")]
    Opening(String),
    /// The servers did not confirm all subscriptions.
    #[error("not every subscription was confirmed: {0}")]
    Barrier(String),
    /// The servers' counters could not be read.
    #[error("the servers can't be asked: {0}")]
    Servers(String),
    /// Ctrl-C before the first message.
    #[error("interrupted before the first message")]
    Interrupted,
    /// A task of ours ended otherwise than it may.
    #[error("{0}")]
    Broken(String),
}

/// What is told while a run goes on.
pub enum News<'a> {
    /// All subscriptions are confirmed; the outcome holds what is known of them.
    Ready(&'a Outcome),
    /// Another second.
    Tick(&'a Tick),
}

/// Who is told.
pub type Listener<'a> = &'a mut (dyn FnMut(News<'_>) + Send);

/// Runs `plan` with the driver called `name`.
///
/// # Errors
/// [`UnknownDriver`] outside; inside [`Failure`].
pub fn start<'a>(
    name: &str,
    against: Against<'a>,
    settings: &'a Settings,
    plan: &'a Plan,
    listener: Listener<'a>,
) -> Result<BoxFuture<'a, Result<Outcome, Failure>>, UnknownDriver> {
    struct Start<'a>(Against<'a>, &'a Settings, &'a Plan, Listener<'a>);
    impl<'a> Visit for Start<'a> {
        type Output = BoxFuture<'a, Result<Outcome, Failure>>;
        fn visit<D: Driver>(self) -> Self::Output {
            Box::pin(run::<D>(self.0, self.1, self.2, self.3))
        }
    }
    crate::drivers::visit(name, Start(against, settings, plan, listener))
}

/// Runs `plan` on the current runtime.
///
/// # Errors
/// [`Failure`]; a lossy run is no failure, but an outcome that says so.
pub async fn run<D: Driver>(against: Against<'_>, settings: &Settings, plan: &Plan, listener: Listener<'_>) -> Result<Outcome, Failure> {
    let opening = async {
        let opened = open::<D>(against, settings, plan).await?;
        let publishers = connect_publishers::<D>(against.servers, settings, plan).await?;
        let nodes = with_roles(against.nodes);
        let auditor = within(plan.open_within, Auditor::connect(nodes)).await.map_err(|error| Failure::Servers(error.to_string()))?;
        Ok((opened, publishers, auditor))
    };
    let (opened, publishers, auditor) = tokio::select! {
        opened = opening => opened?,
        () = interrupt::wait() => return Err(Failure::Interrupted),
    };
    perform::<D>(against, settings, plan, opened, publishers, auditor, listener).await
}

fn with_roles(nodes: &[Node]) -> Vec<(Role, Endpoint)> {
    nodes.iter().map(|node| (node.role, node.endpoint.clone())).collect()
}

async fn within<T>(limit: Duration, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Err(Error::timed_out(limit)))
}

/// Subscribers that the servers have confirmed.
struct Opened<S> {
    census: Census,
    seats: Vec<(Seat, Opening, S)>,
    channels: Vec<Vec<u8>>,
    outcome: Outcome,
}

async fn open<D: Driver>(against: Against<'_>, settings: &Settings, plan: &Plan) -> Result<Opened<D::Subscriber>, Failure> {
    let servers_silent = |error: Error| Failure::Servers(error.to_string());
    let channels: Vec<Vec<u8>> = (0..plan.channels.count()).map(|index| plan.channels.name(index)).collect();
    let nodes: Vec<_> = against.nodes.iter().map(|node| node.endpoint.clone()).collect();
    let mut census = Census::connect(nodes.clone(), plan.open_within).await.map_err(servers_silent)?;
    let before = if plan.publish_only { Counted::default() } else { census.count(plan.kind, &channels).await.map_err(servers_silent)? };
    let server_memory = census.memory().await.map_err(servers_silent)?;
    let client_memory = resident_memory();
    let start = Instant::now();
    let (servers, settings) = (Arc::new(against.servers.clone()), Arc::new(settings.clone()));
    let all = if plan.publish_only { Vec::new() } else { seats(channels.len() as u32, plan.per_channel, plan.channels_per_subscriber) };
    let opening = |(index, seat): (usize, Seat)| {
        let node = plan.to_single_nodes().then(|| nodes[index % nodes.len()].clone());
        let names = (seat.first..seat.first + seat.count).map(|channel| plan.channels.subscription(channel, plan.kind)).collect();
        let options = SubscriberSettings { buffer: plan.buffer, node };
        let opening = Opening { servers: servers.clone(), settings: settings.clone(), options, kind: plan.kind, names };
        async move {
            let subscriber = opening.open::<D>(plan.open_within).await;
            let failed = |error: Error| Failure::Opening(format!("subscriber {}: {error}", index + 1));
            subscriber.map(|subscriber| (seat, opening, subscriber)).map_err(failed)
        }
    };
    let seats: Vec<_> = stream::iter(all.into_iter().enumerate()).map(opening).buffered(OPENED_AT_ONCE).try_collect().await?;
    let wanted = u64::from(plan.channels.count()) * u64::from(plan.per_channel);
    let each = u64::from(plan.per_channel);
    let all_there = |now: &Counted| {
        let added = now.beyond(&before);
        added.total() >= wanted && added.per_channel.iter().all(|&count| count >= each)
    };
    let confirmed = census.wait_until(plan.kind, &channels, plan.open_within, &(before.total() + wanted).to_string(), all_there).await;
    let confirmed = confirmed.map_err(|error| Failure::Barrier(error.to_string()))?.beyond(&before);
    let opening_s = start.elapsed().as_secs_f64();
    let memory_now = census.memory().await.map_err(servers_silent)?;
    let per_node = census.nodes().zip(&confirmed.per_node);
    let outcome = Outcome {
        subscriptions: confirmed.total(),
        subscribers: seats.len() as u64,
        per_node: per_node.map(|(node, &subscriptions)| OnNode { node: node.to_string(), subscriptions }).collect(),
        opening_s,
        server_memory: Some(memory_now.saturating_sub(server_memory)),
        client_memory: resident_memory().zip(client_memory).map(|(now, before)| now.saturating_sub(before)),
        ..Outcome::default()
    };
    Ok(Opened { census, seats, channels, outcome })
}

async fn connect_publishers<D: Driver>(servers: &Servers, settings: &Settings, plan: &Plan) -> Result<Vec<D>, Failure> {
    let mut publishers = Vec::with_capacity(plan.publishers as usize);
    for index in 0..plan.publishers {
        let connected = within(plan.open_within, D::connect(servers, settings)).await;
        publishers.push(connected.map_err(|error| Failure::Opening(format!("publisher {}: {error}", index + 1)))?);
    }
    Ok(publishers)
}

/// Everything from the first message on.
async fn perform<D: Driver>(
    against: Against<'_>,
    settings: &Settings,
    plan: &Plan,
    opened: Opened<D::Subscriber>,
    publishers: Vec<D>,
    mut auditor: Auditor,
    listener: Listener<'_>,
) -> Result<Outcome, Failure> {
    let Opened { census, seats, channels, mut outcome } = opened;
    let count = channels.len() as u32;
    let live = Arc::new(Live::new(seats.len(), plan.publishers as usize));
    let lanes = Lanes::new(count, plan.publishers);
    let (run, run_id) = run_number(plan);
    live.active.store(outcome.subscriptions, Relaxed);
    listener(News::Ready(&outcome));
    let (stop, stopped) = watch::channel(false);
    let mut subscriptions = Vec::new();
    let mut receivers = Vec::with_capacity(seats.len());
    for (index, (seat, opening, subscriber)) in seats.into_iter().enumerate() {
        let names = &channels[seat.first as usize..(seat.first + seat.count) as usize];
        let account = Account::new(run.clone(), seat.first, names, count, plan.publishers);
        let (orders, ordered) = mpsc::channel::<Order>(4);
        if plan.churn.is_some() {
            let of_seat = |index: u32| Subscription { orders: orders.clone(), index: index as usize, channel: seat.first + index };
            subscriptions.extend((0..seat.count).map(of_seat));
        }
        let receiver = Receiver {
            index,
            opening,
            account,
            live: live.clone(),
            delay: plan.delay,
            orders: ordered,
            stop: stopped.clone(),
            ended: false,
            standing: Vec::new(),
        };
        receivers.push(tokio::spawn(receiver.run::<D>(subscriber)));
    }
    let before = within(plan.open_within, auditor.before()).await.map_err(|error| Failure::Servers(error.to_string()))?;
    let answers_prove_delivery = against.servers.topology == Topology::Standalone || plan.kind == Kind::Sharded;
    let mut watch = Watch::new(plan, live.clone(), lanes.clone());
    let mut publishing = JoinSet::new();
    let (done, mut to_close) = mpsc::unbounded_channel();
    for (index, client) in publishers.into_iter().enumerate() {
        let orders = orders(plan, run_id, index as u32, &channels, &lanes);
        let (servers, settings, live, announces) = (against.servers.clone(), settings.clone(), live.clone(), plan.publish_only);
        let done = done.clone();
        publishing.spawn(async move {
            let client = publisher::publish(client, &servers, &settings, &orders, &live).await?;
            if announces {
                publisher::announce_end(&client, &orders, &live).await?;
            }
            // Closed when nothing is measured any more; nobody else waits for it.
            let _ = done.send(client);
            Ok(())
        });
    }
    drop(done);
    let churned = Arc::new(AtomicU64::new(0));
    let (stop_churn, churn_stopped) = watch::channel(false);
    let mut churning = plan.churn.map(|interval| {
        let churn = Churn { census, kind: plan.kind, channels: channels.clone(), lanes: lanes.clone(), answers_prove_delivery, interval };
        let churned = churned.clone();
        tokio::spawn(async move { churn.run(&subscriptions, churn_stopped, &churned).await })
    });
    watch.publish(&mut publishing, listener).await;
    // An error would mean that it has ended. A step that waits for the servers is given its time, while what is on its way arrives.
    let _ = stop_churn.send(true);
    let since = Instant::now();
    watch
        .drain(listener, || churning.as_ref().is_some_and(|churning| !churning.is_finished()) && since.elapsed() < CHURN_ENDS_WITHIN)
        .await;
    if let Some(churning) = &mut churning {
        if churning.is_finished() {
            match churning.await {
                Ok(None) => {}
                Ok(Some(error)) => outcome.remarks.push(format!("a subscription could not be churned: {error}")),
                Err(panic) => return Err(Failure::Broken(format!("the churn broke off: {panic}"))),
            }
        } else {
            churning.abort();
            outcome.remarks.push("the churn did not end".into());
        }
    }
    let closing = async {
        while let Some(client) = to_close.recv().await {
            client.close().await;
        }
    };
    // A client that does not come to an end is dropped.
    let _ = tokio::time::timeout(PUBLISHERS_END_WITHIN, closing).await;
    // An error would mean that no subscriber is left.
    let _ = stop.send(true);
    let mut accounts = Vec::with_capacity(receivers.len());
    for receiver in receivers {
        match tokio::time::timeout(SUBSCRIBERS_END_WITHIN, receiver).await {
            Ok(Ok(account)) => accounts.push(account),
            Ok(Err(panic)) => return Err(Failure::Broken(format!("a subscriber broke off: {panic}"))),
            Err(_) => return Err(Failure::Broken(format!("a subscriber did not end within {SUBSCRIBERS_END_WITHIN:?}"))),
        }
    }
    watch.finish(&mut outcome);
    outcome.run = run.get();
    outcome.churned = churned.load(Relaxed);
    settle(&mut outcome, accounts, &lanes);
    outcome.given = (answers_prove_delivery && plan.publishers > 0 && !plan.publish_only).then(|| Live::sum(&live.given));
    if plan.publishers > 0 {
        let after = within(plan.open_within, auditor.after()).await;
        let command = plan.kind.publish();
        match after.and_then(|after| auditor.usage(&before, &after)) {
            Ok(usage) => {
                let ends = live.announcements_answered.load(Relaxed);
                let publishes = usage.calls.get(&command.to_ascii_lowercase()).copied().unwrap_or(0).saturating_sub(ends);
                outcome.server = Some(ServerCount { publishes, cpu_s: usage.cpu_ns as f64 / 1e9 });
            }
            Err(error) => {
                outcome.uncounted = true;
                outcome.remarks.push(format!("no count by the servers: {error}"));
            }
        }
        let undisturbed = plan.churn.is_none() && outcome.disconnections == 0 && outcome.unanswered == 0;
        let doubtful = live.announced.load(Relaxed) - live.announcements_answered.load(Relaxed);
        cross_check(&mut outcome, command, undisturbed, doubtful);
    }
    if outcome.ended_by.is_none() {
        outcome.ended_by = outcome.was_cut_off();
    }
    Ok(outcome)
}

/// The run's number, for accounts and for publishers.
fn run_number(plan: &Plan) -> (RunId, u64) {
    match plan.run {
        Some(run) => (RunId::new(run), run),
        None if plan.publishers == 0 => (RunId::open(), 0),
        None => {
            let run = fresh_run();
            (RunId::new(run), run)
        }
    }
}

fn orders(plan: &Plan, run: u64, publisher: u32, channels: &[Vec<u8>], lanes: &Lanes) -> Orders {
    let to = |(channel, name): (u32, &Vec<u8>)| {
        let lane = lanes.lane(channel, publisher)?.clone();
        Some(To { name: name.clone(), channel, lane })
    };
    let channels: Vec<To> = (0..).zip(channels).filter_map(to).collect();
    // Where several publishers share a channel, they share its messages too; each of them then has no other.
    let first = channels.first().map_or(0, |to| to.channel);
    let sharing = publishers_of(first, plan.channels.count(), plan.publishers);
    let (place, sharers) = (sharing.iter().position(|other| *other == publisher).unwrap_or(0) as u64, sharing.len().max(1) as u64);
    let messages = plan.messages.map(|messages| messages / sharers + u64::from(place < messages % sharers));
    Orders {
        publisher,
        run,
        channels,
        kind: plan.kind,
        payload: plan.payload,
        batch: plan.batch,
        messages,
        rate: plan.rate.map(|rate| rate / f64::from(plan.publishers.max(1))),
        lead: plan.batch as f64 * f64::from(publisher) / f64::from(plan.publishers.max(1)),
    }
}

/// Settles every account and adds them up.
fn settle(outcome: &mut Outcome, accounts: Vec<Account>, lanes: &Lanes) {
    (outcome.begun, outcome.unanswered) = lanes.totals();
    for (subscriber, mut account) in accounts.into_iter().enumerate() {
        account.settle(|channel, publisher| lanes.lane(channel, publisher).map_or((0, Vec::new()), |lane| lane.settled()));
        outcome.tally += account.tally();
        outcome.strays += account.strays();
        let channels = account.channels().map(|name| String::from_utf8_lossy(name).into_owned());
        let subscribed = |(index, channel)| Subscribed { subscriber, channel, tally: account.tally_of(index) };
        outcome.accounts.extend(channels.enumerate().map(subscribed));
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests::plan;
    use super::*;

    #[test]
    fn every_channel_gets_its_messages_however_many_publishers_share_it() {
        for publishers in 1..=11 {
            let plan = Plan { publishers, messages: Some(100), ..plan() };
            let channels: Vec<Vec<u8>> = (0..plan.channels.count()).map(|index| plan.channels.name(index)).collect();
            let lanes = Lanes::new(plan.channels.count(), publishers);
            let mut sent = vec![0; channels.len()];
            for publisher in 0..publishers {
                let orders = orders(&plan, 1, publisher, &channels, &lanes);
                assert!(!orders.channels.is_empty(), "{publishers}");
                orders.channels.iter().for_each(|to| sent[to.channel as usize] += orders.messages.unwrap());
            }
            assert_eq!(sent, [100; 3], "{publishers}");
        }
    }

    #[test]
    fn publishers_with_a_set_rate_take_turns() {
        let plan = Plan { publishers: 4, rate: Some(20.0), batch: 5, ..plan() };
        let channels: Vec<Vec<u8>> = (0..plan.channels.count()).map(|index| plan.channels.name(index)).collect();
        let lanes = Lanes::new(plan.channels.count(), plan.publishers);
        let first = |publisher| {
            let orders = orders(&plan, 1, publisher, &channels, &lanes);
            orders.lead / orders.rate.unwrap()
        };
        // Each sends a batch a second, and all together four.
        assert_eq!((0..4).map(first).collect::<Vec<_>>(), [0.0, 0.25, 0.5, 0.75]);
    }
}
