//! The account of one subscriber: every message it was given, told apart by channel and publisher.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::message::{self, Header, Seen};
use super::stream::{Arrival, Stream, Tally};
use crate::measure::clock::clock_id;

/// Publishers of another process that one subscription tells apart; messages of more are foreign.
pub const MOST_FOREIGN_PUBLISHERS: usize = 1_024;

/// The number of this run. Where another process publishes, it may be left open until its first message.
#[derive(Clone, Debug)]
pub struct RunId(Arc<AtomicU64>);

/// A number for a run that no other has; never 0.
#[must_use]
pub fn fresh_run() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // Each state has keys of its own, from the system's random numbers.
    std::hash::RandomState::new().build_hasher().finish().max(1)
}

impl RunId {
    /// This number; 0 is none.
    #[must_use]
    pub fn new(run: u64) -> Self {
        Self(Arc::new(AtomicU64::new(run)))
    }

    /// Whichever comes first.
    #[must_use]
    pub fn open() -> Self {
        Self::new(0)
    }

    /// The number, 0 while it is open.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Takes the first whole message's number where it is open.
    #[cold]
    fn adopt(&self, payload: &[u8]) -> u64 {
        let Some(header) = message::parse(payload) else { return 0 };
        match self.0.compare_exchange(0, header.run, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => header.run,
            Err(other) => other,
        }
    }
}

/// One subscription of a subscriber.
#[derive(Clone, Debug)]
struct Subscription {
    name: Vec<u8>,
    /// By the publishers of its channel.
    streams: Vec<(u32, Stream)>,
    /// How many messages each publisher says it sent.
    ends: Vec<(u32, u64)>,
    /// Whether it is to get what is published now.
    open: bool,
}

/// What is counted beside the streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Strays {
    /// Messages of this run that were not as they had been sent, or came on the wrong channel. Not received, so they are lost too.
    pub corrupt: u64,
    /// Messages of another run, or of another sender.
    pub foreign: u64,
    /// Messages that the client says it dropped.
    pub lagged: u64,
}

impl std::ops::AddAssign for Strays {
    fn add_assign(&mut self, other: Self) {
        self.corrupt += other.corrupt;
        self.foreign += other.foreign;
        self.lagged += other.lagged;
    }
}

/// The account of one subscriber with subscriptions to consecutive channels.
#[derive(Clone, Debug)]
pub struct Account {
    run: RunId,
    clock: u32,
    first_channel: u32,
    channels: u32,
    subscriptions: Vec<Subscription>,
    /// Whether the publishers belong to this run's own process: then all of them are known.
    own_publishers: bool,
    strays: Strays,
}

/// A new message of this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// When it was sent, or under a set rate was to be sent; `None` by a clock that can't be compared with ours.
    pub sent_ns: Option<u64>,
}

/// Who publishes to a channel, all in one process: the channels are dealt out to the publishers in turn, and where there are more
/// publishers than channels the publishers to the channels.
#[must_use]
pub fn publishers_of(channel: u32, channels: u32, publishers: u32) -> Vec<u32> {
    let channels = channels.max(1);
    if publishers <= channels {
        (publishers > 0).then(|| channel % publishers).into_iter().collect()
    } else {
        (channel..publishers).step_by(channels as usize).collect()
    }
}

impl Account {
    /// An account of `names.len()` subscriptions, of the channels from `first_channel` on out of `channels`, counted from 0.
    /// Without publishers in this process, streams are opened as their messages come, and begin with the first of them.
    #[must_use]
    pub fn new(run: RunId, first_channel: u32, names: &[Vec<u8>], channels: u32, publishers: u32) -> Self {
        let subscription = |(index, name): (usize, &Vec<u8>)| {
            let publishers = publishers_of(first_channel + index as u32, channels, publishers);
            let streams = publishers.into_iter().map(|publisher| (publisher, Stream::default())).collect();
            Subscription { name: name.clone(), streams, ends: Vec::new(), open: true }
        };
        Self {
            run,
            clock: clock_id(),
            first_channel,
            channels: channels.max(1),
            subscriptions: names.iter().enumerate().map(subscription).collect(),
            own_publishers: publishers > 0,
            strays: Strays::default(),
        }
    }

    /// A message came. `None` when it is not a new one of this run.
    #[inline]
    pub fn arrive(&mut self, channel: &[u8], payload: &[u8]) -> Option<Received> {
        let mut run = self.run.get();
        if run == 0 {
            run = self.run.adopt(payload);
        }
        let header = match message::read(payload, run) {
            Seen::Ours(header) => header,
            Seen::Foreign => {
                self.strays.foreign += 1;
                return None;
            }
            Seen::Corrupt => {
                self.strays.corrupt += 1;
                return None;
            }
        };
        let index = header.channel.wrapping_sub(self.first_channel) as usize;
        // A whole message on a channel that it was not sent to is as bad as a damaged one.
        let Some(subscription) = self.subscriptions.get_mut(index).filter(|subscription| subscription.name == channel) else {
            self.strays.corrupt += 1;
            return None;
        };
        if header.kind == message::Kind::End {
            subscription.ends.push((header.publisher, header.sequence));
            return None;
        }
        let guess = (header.publisher / self.channels) as usize;
        let stream = match subscription.streams.get_mut(guess) {
            Some((publisher, stream)) if *publisher == header.publisher => stream,
            _ => match slow_lookup(&mut subscription.streams, &header, !self.own_publishers) {
                Some(stream) => stream,
                None => {
                    self.strays.foreign += 1;
                    return None;
                }
            },
        };
        let new = stream.arrive(header.sequence) == Arrival::New;
        new.then_some(Received { sent_ns: (header.clock == self.clock).then_some(header.sent_ns) })
    }

    /// The client says that it dropped so many.
    pub fn lagged(&mut self, count: u64) {
        self.strays.lagged += count;
    }

    /// The subscription `index` was closed: `edges` has, for each publisher in order, how many of its messages had been answered before
    /// unsubscribing was asked for, and how many had been begun when the server had confirmed it.
    pub fn close(&mut self, index: usize, edges: &[(u64, u64)]) {
        let Some(subscription) = self.subscriptions.get_mut(index) else { return };
        subscription.open = false;
        for ((_, stream), &(certain, limit)) in subscription.streams.iter_mut().zip(edges) {
            stream.close(certain, limit);
        }
    }

    /// The subscription `index` was confirmed again; `begun` has, for each publisher in order, how many of its messages had been begun.
    pub fn reopen(&mut self, index: usize, begun: &[u64]) {
        let Some(subscription) = self.subscriptions.get_mut(index) else { return };
        subscription.open = true;
        for ((_, stream), &begun) in subscription.streams.iter_mut().zip(begun) {
            stream.reopen(begun);
        }
    }

    /// Settles what is still open: `sent` gives how many messages a publisher began on a channel, both counted from 0, and which of
    /// them nobody answered.
    pub fn settle(&mut self, sent: impl Fn(u32, u32) -> (u64, Vec<std::ops::Range<u64>>)) {
        for (index, subscription) in self.subscriptions.iter_mut().enumerate() {
            let channel = self.first_channel + index as u32;
            if !self.own_publishers {
                // Nothing but the end came of these.
                for &(publisher, _) in &subscription.ends {
                    if subscription.streams.iter().all(|(other, _)| *other != publisher) {
                        subscription.streams.push((publisher, Stream::default()));
                    }
                }
            }
            for (publisher, stream) in &mut subscription.streams {
                if self.own_publishers {
                    let (begun, unanswered) = sent(channel, *publisher);
                    if subscription.open {
                        unanswered.into_iter().for_each(|numbers| stream.excuse(numbers));
                        stream.end(begun);
                    } else {
                        stream.close(0, begun);
                    }
                    stream.cap(begun);
                } else if let Some((_, count)) = subscription.ends.iter().find(|(ended, _)| ended == publisher) {
                    stream.end(*count);
                }
            }
        }
    }

    /// All its streams together.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let mut sum = Tally::default();
        (0..self.subscriptions.len()).for_each(|index| sum += self.tally_of(index));
        sum
    }

    /// The streams of one subscription together.
    #[must_use]
    pub fn tally_of(&self, index: usize) -> Tally {
        let mut sum = Tally::default();
        if let Some(subscription) = self.subscriptions.get(index) {
            subscription.streams.iter().for_each(|(_, stream)| sum += stream.tally());
        }
        sum
    }

    /// What is counted beside the streams.
    #[must_use]
    pub fn strays(&self) -> Strays {
        self.strays
    }

    /// Its channels by name, in order.
    pub fn channels(&self) -> impl Iterator<Item = &[u8]> {
        self.subscriptions.iter().map(|subscription| &subscription.name[..])
    }

    /// Whether every subscription has the end of a publisher's stream; for publishers in another process.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.subscriptions.iter().all(|subscription| !subscription.ends.is_empty() && subscription.ends.len() >= subscription.streams.len())
    }
}

#[cold]
fn slow_lookup<'a>(streams: &'a mut Vec<(u32, Stream)>, header: &Header, may_open: bool) -> Option<&'a mut Stream> {
    let place = match streams.iter().position(|(publisher, _)| *publisher == header.publisher) {
        Some(place) => place,
        None if may_open && streams.len() < MOST_FOREIGN_PUBLISHERS => {
            streams.push((header.publisher, Stream::from(header.sequence)));
            streams.len() - 1
        }
        None => return None,
    };
    streams.get_mut(place).map(|(_, stream)| stream)
}

#[cfg(test)]
#[path = "account_tests.rs"]
mod tests;
