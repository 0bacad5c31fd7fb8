//! Subscriptions that are ended and made again while the run goes on.
//!
//! One at a time, so that the servers' count of subscribers tells when each step is done. What a subscription is to get is known
//! from four readings of what its channel's publishers had begun and had answered, see `docs/METHODOLOGY.md`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use super::account::publishers_of;
use super::census::{Census, Counted};
use super::live::Lane;
use super::receiver::Order;
use crate::drivers::{Error, Kind};

/// How long the servers may take to confirm a step.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(5);

/// Failures in a row after which it gives up.
const MOST_FAILURES: u32 = 5;

/// All that was sent: by channel and publisher.
#[derive(Clone, Debug)]
pub struct Lanes {
    channels: u32,
    publishers: u32,
    /// For each channel, in the order of its publishers.
    lanes: Vec<Vec<Arc<Lane>>>,
}

impl Lanes {
    /// Nothing sent yet.
    #[must_use]
    pub fn new(channels: u32, publishers: u32) -> Self {
        let of = |channel| publishers_of(channel, channels, publishers).iter().map(|_| Arc::default()).collect();
        Self { channels, publishers, lanes: (0..channels).map(of).collect() }
    }

    /// The lanes of a channel, in the order of its publishers.
    #[must_use]
    pub fn of(&self, channel: u32) -> &[Arc<Lane>] {
        self.lanes.get(channel as usize).map_or(&[], Vec::as_slice)
    }

    /// The lane of one publisher on a channel.
    #[must_use]
    pub fn lane(&self, channel: u32, publisher: u32) -> Option<&Arc<Lane>> {
        let place = publishers_of(channel, self.channels, self.publishers).iter().position(|other| *other == publisher)?;
        self.of(channel).get(place)
    }

    /// Messages begun, all together, and of these those that nobody answered.
    #[must_use]
    pub fn totals(&self) -> (u64, u64) {
        self.lanes.iter().flatten().fold((0, 0), |(begun, unanswered), lane| {
            let (more, ranges) = lane.settled();
            (begun + more, unanswered + ranges.iter().map(|range| range.end - range.start).sum::<u64>())
        })
    }

    /// Messages begun, all together.
    #[must_use]
    pub fn begun(&self) -> u64 {
        self.lanes.iter().flatten().map(|lane| lane.begun()).sum()
    }
}

/// One subscription that can be churned.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// Its subscriber.
    pub orders: mpsc::Sender<Order>,
    /// Its place there.
    pub index: usize,
    /// Its channel, counted from 0.
    pub channel: u32,
}

/// Ends and makes again one subscription after the other.
pub struct Churn {
    /// For asking the servers.
    pub census: Census,
    /// How it is subscribed to.
    pub kind: Kind,
    /// The channels by name; what the servers are asked for.
    pub channels: Vec<Vec<u8>>,
    /// What was sent.
    pub lanes: Lanes,
    /// Whether a message that was answered has been given to every subscriber: not on a cluster's bus.
    pub answers_prove_delivery: bool,
    /// One every so often.
    pub interval: Duration,
}

impl Churn {
    /// Goes on until `stop` is set, and ends the step that is under way; counts what was done in `done`. Returns what the servers did not confirm last: a
    /// subscription whose end or beginning was not confirmed is from then on not expected to get any more than it gets.
    pub async fn run(mut self, subscriptions: &[Subscription], mut stop: watch::Receiver<bool>, done: &AtomicU64) -> Option<Error> {
        let (mut failed, mut in_a_row) = (None, 0);
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        ticks.tick().await;
        for subscription in subscriptions.iter().cycle() {
            tokio::select! {
                biased;
                _ = stop.wait_for(|&stop| stop) => break,
                _ = ticks.tick() => {}
            }
            if in_a_row == MOST_FAILURES {
                break;
            }
            match self.once(subscription).await {
                Ok(()) => {
                    in_a_row = 0;
                    done.fetch_add(1, Relaxed);
                }
                Err(error) => {
                    in_a_row += 1;
                    failed = Some(error);
                }
            }
        }
        failed
    }

    async fn once(&mut self, subscription: &Subscription) -> Result<(), Error> {
        let name = [self.channels[subscription.channel as usize].clone()];
        let before = self.census.count(self.kind, &name).await?;
        let lanes: Vec<Arc<Lane>> = self.lanes.of(subscription.channel).to_vec();
        let certain: Vec<u64> = lanes.iter().map(|lane| if self.answers_prove_delivery { lane.answered() } else { 0 }).collect();
        let closing = obey(subscription, Order::Unsubscribe).await;
        let closed = match closing {
            Ok(()) => self.confirm(&name, before.total().saturating_sub(1), &before).await,
            Err(error) => Err(error),
        };
        let limits = lanes.iter().map(|lane| if closed.is_ok() { lane.begun() } else { u64::MAX });
        let edges = certain.iter().copied().zip(limits).collect();
        send(subscription, Order::Closed(subscription.index, edges)).await?;
        closed?;
        obey(subscription, Order::Subscribe).await?;
        self.confirm(&name, before.total(), &before).await?;
        let begun = lanes.iter().map(|lane| lane.begun()).collect();
        send(subscription, Order::Reopened(subscription.index, begun)).await
    }

    async fn confirm(&mut self, name: &[Vec<u8>], total: u64, before: &Counted) -> Result<(), Error> {
        let falling = total < before.total();
        let enough = |counted: &Counted| if falling { counted.total() <= total } else { counted.total() >= total };
        self.census.wait_until(self.kind, name, CONFIRMED_WITHIN, &total.to_string(), enough).await.map(drop)
    }
}

fn gone() -> Error {
    Error::Client("the subscriber has ended".into())
}

async fn send(subscription: &Subscription, order: Order) -> Result<(), Error> {
    subscription.orders.send(order).await.map_err(|_| gone())
}

async fn obey(subscription: &Subscription, order: fn(usize, oneshot::Sender<Result<(), Error>>) -> Order) -> Result<(), Error> {
    let (answer, answered) = oneshot::channel();
    send(subscription, order(subscription.index, answer)).await?;
    // A slow subscriber looks at its orders after its next message; a reconnecting one after that.
    match tokio::time::timeout(CONFIRMED_WITHIN * 2, answered).await {
        Ok(answer) => answer.unwrap_or_else(|_| Err(gone())),
        Err(_) => Err(Error::timed_out(CONFIRMED_WITHIN * 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_found_by_channel_and_publisher() {
        let lanes = Lanes::new(2, 5);
        assert_eq!((lanes.of(0).len(), lanes.of(1).len()), (3, 2));
        lanes.lane(1, 3).unwrap().begin(7);
        assert_eq!(lanes.of(1)[1].begun(), 7);
        assert!(lanes.lane(1, 2).is_none(), "publisher 2 has channel 0");
        assert_eq!(lanes.totals(), (7, 7));
        lanes.lane(1, 3).unwrap().answer();
        assert_eq!((lanes.totals(), lanes.begun()), ((7, 0), 7));
    }
}
