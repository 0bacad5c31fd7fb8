//! A subscriber's task: takes every message, keeps the account, does what it is told.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use futures_util::future::poll_immediate;
use tokio::sync::{mpsc, oneshot, watch};

use super::account::Account;
use super::live::{Latencies, Live};
use crate::drivers::{Driver, Error, Event, Kind, Message, Servers, Settings, Subscriber, SubscriberSettings, Topology};
use crate::measure::clock::now_ns;

/// Messages taken in a row before a look at the orders.
const IN_A_ROW: u32 = 256;

/// The longest that a client may take to subscribe, unsubscribe or connect.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a lost subscriber waits before it connects again.
const BEFORE_RECONNECT: Duration = Duration::from_millis(100);

/// How a subscriber is opened, and opened again when its connection is lost.
#[derive(Clone, Debug)]
pub struct Opening {
    /// Where.
    pub servers: Arc<Servers>,
    /// How.
    pub settings: Arc<Settings>,
    /// How, for subscribers.
    pub options: SubscriberSettings,
    /// What its subscriptions are.
    pub kind: Kind,
    /// Their names.
    pub names: Vec<Vec<u8>>,
}

impl Opening {
    /// Another node of a cluster for the next attempt; of a standalone server there is only one.
    fn next_node(&mut self, attempt: usize) {
        if self.servers.topology != Topology::Cluster {
            return;
        }
        Arc::make_mut(&mut self.servers).endpoints.rotate_left(1);
        if let Some(node) = &mut self.options.node {
            node.clone_from(&self.servers.endpoints[attempt % self.servers.endpoints.len()]);
        }
    }

    /// Connects and subscribes, within `within`. The server may still have to confirm it.
    ///
    /// # Errors
    /// Those of the client, and [`Error::Timeout`].
    pub async fn open<D: Driver>(&self, within: Duration) -> Result<D::Subscriber, Error> {
        let opening = async {
            let mut subscriber = D::subscriber(&self.servers, &self.settings, &self.options).await?;
            subscriber.subscribe(self.kind, &self.names).await?;
            Ok(subscriber)
        };
        tokio::time::timeout(within, opening).await.unwrap_or_else(|_| Err(Error::timed_out(within)))
    }
}

/// An order to a subscriber. The answer says that it was carried out by the client.
#[derive(Debug)]
pub enum Order {
    /// Ask the client to end a subscription.
    Unsubscribe(usize, oneshot::Sender<Result<(), Error>>),
    /// The server has confirmed the end: see [`Account::close`].
    Closed(usize, Vec<(u64, u64)>),
    /// Ask the client to subscribe again.
    Subscribe(usize, oneshot::Sender<Result<(), Error>>),
    /// The server has confirmed it: see [`Account::reopen`].
    Reopened(usize, Vec<u64>),
}

/// What a subscriber's task needs.
pub struct Receiver {
    /// Its number.
    pub index: usize,
    /// How it was opened.
    pub opening: Opening,
    /// Its account.
    pub account: Account,
    /// What everybody sees.
    pub live: Arc<Live>,
    /// How long it dawdles after each message.
    pub delay: Duration,
    /// What it is told.
    pub orders: mpsc::Receiver<Order>,
    /// When it is to end.
    pub stop: watch::Receiver<bool>,
    /// Whether publishers in another process have said that they are done.
    pub ended: bool,
    /// Each of its subscriptions; made by [`Receiver::run`].
    pub standing: Vec<Standing>,
}

/// How a subscription stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is to get messages.
    Open,
    /// The client was asked to end it, and the server has not confirmed that.
    Ending,
    /// It was ended.
    Closed,
}

enum Step<M> {
    Event(Result<Event<M>, Error>),
    Order(Order),
    Stop,
}

impl Receiver {
    /// Receives until it is told to stop. A lost connection is made again; what was missed is lost.
    pub async fn run<D: Driver>(mut self, subscriber: D::Subscriber) -> Account {
        let mut latencies = Latencies::new(self.index);
        let mut current = Some(subscriber);
        self.standing = vec![Standing::Open; self.opening.names.len()];
        while let Some(mut subscriber) = current.take() {
            let lost = self.receive(&mut subscriber, &mut latencies).await;
            latencies.hand_over(&self.live);
            if !lost {
                // A client that does not come to an end must not keep the account from being given.
                let _ = tokio::time::timeout(PATIENCE, subscriber.close()).await;
                break;
            }
            drop(subscriber);
            self.live.disconnections.fetch_add(1, Relaxed);
            let were_open = self.standing.iter().filter(|standing| **standing != Standing::Closed).count();
            self.live.active.fetch_sub(were_open as u64, Relaxed);
            self.standing.fill(Standing::Closed);
            current = self.reconnect::<D>().await;
            if current.is_some() {
                self.live.reconnections.fetch_add(1, Relaxed);
                // With all its subscriptions, whatever was being churned.
                self.standing.fill(Standing::Open);
                self.live.active.fetch_add(self.standing.len() as u64, Relaxed);
            }
        }
        self.account
    }

    /// Whether the connection was lost; else it was told to stop.
    async fn receive<S: Subscriber>(&mut self, subscriber: &mut S, latencies: &mut Latencies) -> bool {
        let mut in_a_row = 0;
        loop {
            let step = {
                let mut next = pin!(subscriber.next());
                match poll_immediate(next.as_mut()).await {
                    Some(event) => Step::Event(event),
                    None => {
                        latencies.hand_over(&self.live);
                        in_a_row = 0;
                        tokio::select! {
                            biased;
                            event = next => Step::Event(event),
                            Some(order) = self.orders.recv() => Step::Order(order),
                            _ = self.stop.wait_for(|&stop| stop) => Step::Stop,
                        }
                    }
                }
            };
            match step {
                Step::Event(Ok(Event::Message(message))) => {
                    match self.account.arrive(&message.channel(), message.payload()) {
                        Some(received) => {
                            self.live.received[self.index].add(1);
                            if let Some(sent_ns) = received.sent_ns {
                                latencies.note(&self.live, sent_ns, now_ns());
                            }
                        }
                        None => self.look_for_the_end(),
                    }
                    if !self.delay.is_zero() {
                        tokio::time::sleep(self.delay).await;
                    }
                }
                Step::Event(Ok(Event::Lagged(count))) => {
                    self.account.lagged(count);
                    self.live.lagged[self.index].add(count);
                }
                Step::Event(Err(_)) => return true,
                Step::Order(order) => self.obey(subscriber, order).await,
                Step::Stop => return false,
            }
            in_a_row += 1;
            if in_a_row >= IN_A_ROW || !self.delay.is_zero() {
                in_a_row = 0;
                if *self.stop.borrow() {
                    return false;
                }
                while let Ok(order) = self.orders.try_recv() {
                    self.obey(subscriber, order).await;
                }
            }
        }
    }

    #[cold]
    fn look_for_the_end(&mut self) {
        if !self.ended && self.account.has_ended() {
            self.ended = true;
            self.live.ended.fetch_add(1, Relaxed);
        }
    }

    /// What the servers' confirmation says of a subscription; after a reconnection it may be out of date.
    fn confirmed(&mut self, index: usize, from: Standing, to: Standing) {
        let Some(standing) = self.standing.get_mut(index).filter(|standing| **standing == from) else { return };
        *standing = to;
        match to {
            Standing::Open => _ = self.live.active.fetch_add(1, Relaxed),
            Standing::Closed => _ = self.live.active.fetch_sub(1, Relaxed),
            Standing::Ending => {}
        }
    }

    async fn obey<S: Subscriber>(&mut self, subscriber: &mut S, order: Order) {
        let kind = self.opening.kind;
        let in_time = |done: Result<Result<(), Error>, _>| done.unwrap_or_else(|_| Err(Error::timed_out(PATIENCE)));
        // Whoever gave the order may have given up waiting.
        match order {
            Order::Unsubscribe(index, answer) => {
                self.confirmed(index, Standing::Open, Standing::Ending);
                let name = self.opening.names.get(index).cloned().into_iter().collect::<Vec<_>>();
                let done = in_time(tokio::time::timeout(PATIENCE, subscriber.unsubscribe(kind, &name)).await);
                let _ = answer.send(done);
            }
            Order::Subscribe(index, answer) => {
                let name = self.opening.names.get(index).cloned().into_iter().collect::<Vec<_>>();
                let done = in_time(tokio::time::timeout(PATIENCE, subscriber.subscribe(kind, &name)).await);
                let _ = answer.send(done);
            }
            Order::Closed(index, edges) => {
                self.confirmed(index, Standing::Ending, Standing::Closed);
                self.account.close(index, &edges);
            }
            Order::Reopened(index, begun) => {
                self.confirmed(index, Standing::Closed, Standing::Open);
                self.account.reopen(index, &begun);
            }
        }
    }

    /// A new connection, as soon as there is one; `None` when it was told to stop before. On a cluster each attempt begins with the
    /// next node, since the last one may be gone.
    async fn reconnect<D: Driver>(&mut self) -> Option<D::Subscriber> {
        let mut opening = self.opening.clone();
        for attempt in 0.. {
            if attempt > 0 {
                opening.next_node(attempt);
            }
            let attempt = async {
                tokio::time::sleep(BEFORE_RECONNECT).await;
                opening.open::<D>(PATIENCE).await
            };
            tokio::select! {
                opened = attempt => if let Ok(subscriber) = opened {
                    return Some(subscriber);
                },
                _ = self.stop.wait_for(|&stop| stop) => return None,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Endpoint;

    #[test]
    fn another_attempt_begins_with_another_node_of_a_cluster_only() {
        let endpoints: Vec<Endpoint> = (1..=3).map(|port| Endpoint::tcp("h", port)).collect();
        let opening = |servers: Servers, node: Option<Endpoint>| Opening {
            servers: Arc::new(servers),
            settings: Arc::new(Settings::default()),
            options: SubscriberSettings { buffer: None, node },
            kind: Kind::Channel,
            names: Vec::new(),
        };
        let mut seeds = opening(Servers::cluster(endpoints.clone()), None);
        let mut chosen = opening(Servers::cluster(endpoints.clone()), Some(endpoints[0].clone()));
        let mut alone = opening(Servers::standalone(endpoints[0].clone()), None);
        let mut nodes = Vec::new();
        for attempt in 1..=3 {
            seeds.next_node(attempt);
            chosen.next_node(attempt);
            alone.next_node(attempt);
            nodes.push(chosen.options.node.clone().unwrap());
        }
        assert_eq!(seeds.servers.endpoints, endpoints, "all were tried");
        assert!(endpoints.iter().any(|node| *node != endpoints[0] && nodes.contains(node)));
        assert_eq!(alone.servers.first(), &endpoints[0]);
    }
}
