//! A stream of messages on a client of its own, as the crate's documentation shows it.

use std::borrow::Cow;

use futures_util::{FutureExt, StreamExt};
use rustis::client::{Client, PubSubMessage, PubSubStream};
use rustis::resp::RefBulkString;
use tokio::sync::watch;

use super::connect;
use crate::drivers::{Buffer, Error, Event, Kind, Message, PubSub, Resp, Servers, Settings, Subscriber, SubscriberSettings, WhenFull};

/// What the crate can do.
pub(super) const PUBSUB: PubSub = PubSub {
    kinds: |_, resp, _| match resp {
        Resp::V2 => Err(super::RESP3_ONLY),
        Resp::V3 => Ok(()),
    },
    buffer: Some(Buffer { capacity: None, settable: false, when_full: WhenFull::DropsOldest }),
    way: "a client of its own; create_pub_sub, a stream that holds 8 MiB",
    binary_names: true,
    tells_pattern: true,
};

/// The crate's message: pattern, channel and payload in one block.
pub struct RustisMessage(PubSubMessage);

impl Message for RustisMessage {
    fn channel(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.0.channel())
    }

    fn pattern(&self) -> Option<Cow<'_, [u8]>> {
        // Empty for other subscriptions.
        Some(self.0.pattern()).filter(|pattern| !pattern.is_empty()).map(Cow::Borrowed)
    }

    fn payload(&self) -> &[u8] {
        self.0.payload()
    }
}

/// One subscribed client: one connection, or one to each master of a cluster.
pub struct RustisSubscriber {
    stream: PubSubStream,
    client: Client,
    lost: watch::Receiver<bool>,
    /// Dropped messages that were told already.
    told: usize,
}

fn names(names: &[Vec<u8>]) -> Vec<RefBulkString<'_>> {
    names.iter().map(|name| RefBulkString::new(name)).collect()
}

impl RustisSubscriber {
    /// Connects.
    pub async fn connect(servers: &Servers, settings: &Settings, options: &SubscriberSettings) -> Result<Self, Error> {
        let mut config = connect::config(&options.servers(servers), settings)?;
        let lost = connect::never_reconnect(&mut config);
        let client = connect::open(config).await?;
        Ok(Self { stream: client.create_pub_sub(), client, lost, told: 0 })
    }

    fn ended() -> Error {
        Error::Connection("the subscriber's connection was lost".into())
    }
}

fn event(message: Option<rustis::Result<PubSubMessage>>) -> Result<Event<RustisMessage>, Error> {
    match message {
        Some(message) => Ok(Event::Message(RustisMessage(message?))),
        None => Err(RustisSubscriber::ended()),
    }
}

impl Subscriber for RustisSubscriber {
    type Message = RustisMessage;

    async fn subscribe(&mut self, kind: Kind, list: &[Vec<u8>]) -> Result<(), Error> {
        match kind {
            _ if list.is_empty() => {}
            Kind::Channel => self.stream.subscribe(names(list)).await?,
            Kind::Pattern => self.stream.psubscribe(names(list)).await?,
            // One command may name shard channels of one slot only.
            Kind::Sharded => {
                for name in list {
                    self.stream.ssubscribe(RefBulkString::new(name)).await?;
                }
            }
        }
        Ok(())
    }

    async fn unsubscribe(&mut self, kind: Kind, list: &[Vec<u8>]) -> Result<(), Error> {
        match kind {
            // To the crate an empty list means all.
            _ if list.is_empty() => {}
            Kind::Channel => self.stream.unsubscribe(names(list)).await?,
            Kind::Pattern => self.stream.punsubscribe(names(list)).await?,
            Kind::Sharded => {
                for name in list {
                    self.stream.sunsubscribe(RefBulkString::new(name)).await?;
                }
            }
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<Event<RustisMessage>, Error> {
        // What was dropped is older than all that the stream holds.
        let dropped = self.stream.dropped_messages();
        if dropped > self.told {
            let messages = dropped - self.told;
            self.told = dropped;
            return Ok(Event::Lagged(messages as u64));
        }
        // The stream itself never ends: it keeps a sender of its own for more subscriptions.
        tokio::select! {
            biased;
            message = self.stream.next() => event(message),
            _ = self.lost.wait_for(|&lost| lost) => match self.stream.next().now_or_never() {
                Some(message) => event(message),
                None => Err(Self::ended()),
            },
        }
    }

    async fn close(self) {
        drop(self.stream);
        connect::close(self.client).await;
    }
}
