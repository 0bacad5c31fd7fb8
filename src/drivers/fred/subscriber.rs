//! A subscriber client, as the crate's documentation shows it.

use std::borrow::Cow;

use fred::clients::SubscriberClient;
use fred::interfaces::{EventInterface, PubsubInterface};
use fred::types::Message as FredMessage;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::api::Key;
use super::connect::{self, Serving};
use crate::drivers::{Buffer, Error, Event, Kind, Message, PubSub, Servers, Settings, Subscriber, SubscriberSettings, WhenFull};

/// What the crate can do.
pub(super) const PUBSUB: PubSub = PubSub {
    kinds: |_, _, _| Ok(()),
    buffer: Some(Buffer { capacity: Some(32), settable: true, when_full: WhenFull::DropsOldest }),
    way: "a SubscriberClient of its own; message_rx, a broadcast channel",
    binary_names: false,
    tells_pattern: false,
};

impl Message for FredMessage {
    fn channel(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.channel.as_bytes())
    }

    /// fred tells that a pattern matched, but not which.
    fn pattern(&self) -> Option<Cow<'_, [u8]>> {
        None
    }

    fn payload(&self) -> &[u8] {
        self.value.as_bytes().unwrap_or_default()
    }
}

/// One subscriber client: one connection, or one to each master of a cluster.
pub struct FredSubscriber {
    client: SubscriberClient,
    messages: Receiver<FredMessage>,
    _serving: Serving,
}

fn keys(names: &[Vec<u8>]) -> Vec<Key> {
    names.iter().map(|name| Key::from(name.as_slice())).collect()
}

impl FredSubscriber {
    /// Connects.
    pub async fn connect(servers: &Servers, settings: &Settings, options: &SubscriberSettings) -> Result<Self, Error> {
        let mut builder = connect::builder(&options.servers(servers), settings)?;
        if let Some(capacity) = options.buffer {
            builder.with_performance_config(|performance| performance.broadcast_channel_capacity = capacity.get());
        }
        let client = builder.build_subscriber_client()?;
        let messages = client.message_rx();
        let serving = connect::start_subscriber(&client).await?;
        Ok(Self { client, messages, _serving: serving })
    }
}

impl Subscriber for FredSubscriber {
    type Message = FredMessage;

    async fn subscribe(&mut self, kind: Kind, names: &[Vec<u8>]) -> Result<(), Error> {
        match kind {
            _ if names.is_empty() => {}
            Kind::Channel => self.client.subscribe(keys(names)).await?,
            Kind::Pattern => self.client.psubscribe(keys(names)).await?,
            // One command may name shard channels of one slot only.
            Kind::Sharded => {
                for name in names {
                    self.client.ssubscribe(Key::from(name.as_slice())).await?;
                }
            }
        }
        Ok(())
    }

    async fn unsubscribe(&mut self, kind: Kind, names: &[Vec<u8>]) -> Result<(), Error> {
        match kind {
            // To fred an empty list means all.
            _ if names.is_empty() => {}
            Kind::Channel => self.client.unsubscribe(keys(names)).await?,
            Kind::Pattern => self.client.punsubscribe(keys(names)).await?,
            Kind::Sharded => {
                for name in names {
                    self.client.sunsubscribe(Key::from(name.as_slice())).await?;
                }
            }
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<Event<FredMessage>, Error> {
        match self.messages.recv().await {
            Ok(message) => Ok(Event::Message(message)),
            Err(RecvError::Lagged(messages)) => Ok(Event::Lagged(messages)),
            Err(RecvError::Closed) => Err(Error::Connection("the subscriber's connection was lost".into())),
        }
    }

    async fn close(self) {
        connect::quit(std::slice::from_ref(&self.client)).await;
    }
}
