//! Subscribers of the releases before 0.28: a connection for nothing else, with RESP2. Its stream takes the connection, so
//! that what is subscribed to can't be changed once messages are read.

use std::borrow::Cow;
use std::pin::Pin;

use futures_util::{Stream, StreamExt};
use redis::Msg;
use redis::aio::{ConnectionLike, PubSub as Connection};

use super::{RedisRsCluster, RedisRsManager, connect};
use crate::drivers::{
    Buffer, Driver, Error, Event, Kind, Message, PubSub, Resp, Servers, Settings, Subscribe, Subscriber, SubscriberSettings, Topology,
    WhenFull,
};

/// What all of them can do.
pub(super) const STANDALONE: PubSub = PubSub {
    kinds: |topology, resp, kind| match (topology, resp, kind) {
        (Topology::Cluster, ..) => Err("it connects to one server: on a cluster a subscriber needs a node to be chosen"),
        (_, Resp::V3, _) => Err("before redis 0.28 the driver subscribes with RESP2 only"),
        (_, _, Kind::Sharded) => Err("the crate has no SSUBSCRIBE before redis 0.28"),
        (Topology::Standalone, Resp::V2, Kind::Channel | Kind::Pattern) => Ok(()),
    },
    // What the socket and the crate's read buffer hold.
    buffer: Some(Buffer { capacity: None, settable: false, when_full: WhenFull::Waits }),
    way: "get_async_pubsub and into_on_message",
    binary_names: true,
    tells_pattern: true,
};
pub(super) const MANAGER: PubSub = STANDALONE;
pub(super) const CLUSTER: PubSub = STANDALONE;

impl Message for Msg {
    fn channel(&self) -> Cow<'_, [u8]> {
        match self.get_channel_name() {
            // What the crate shows for a name that is no text; it may be the name, too.
            "?" => Cow::Owned(self.get_channel().unwrap_or_default()),
            name => Cow::Borrowed(name.as_bytes()),
        }
    }

    /// The crate lends no pattern, so this copies it.
    fn pattern(&self) -> Option<Cow<'_, [u8]>> {
        self.from_pattern().then(|| Cow::Owned(self.get_pattern().unwrap_or_default()))
    }

    fn payload(&self) -> &[u8] {
        self.get_payload_bytes()
    }
}

/// A connection for subscriptions.
pub enum RedisSubscriber {
    /// Not read from yet.
    Subscribing(Box<Connection>),
    /// Its messages.
    Reading(Pin<Box<dyn Stream<Item = Msg> + Send>>),
    /// Between the two.
    Gone,
}

const TOO_LATE: Error = Error::Unsupported("before redis 0.28 subscriptions can't be changed once messages are read");

impl RedisSubscriber {
    /// Connects to one server.
    pub async fn connect(servers: &Servers, settings: &Settings, options: &SubscriberSettings) -> Result<Self, Error> {
        let servers = options.servers(servers);
        STANDALONE.check(servers.topology, settings.resp)?;
        let client = connect::client(servers.first(), settings)?;
        let connecting = async { connect::login(client.get_async_pubsub().await) };
        Ok(Self::Subscribing(Box::new(connect::limited(connecting).await?)))
    }
}

impl Subscriber for RedisSubscriber {
    type Message = Msg;

    async fn subscribe(&mut self, kind: Kind, names: &[Vec<u8>]) -> Result<(), Error> {
        let Self::Subscribing(connection) = self else { return Err(TOO_LATE) };
        match kind {
            Kind::Channel => Ok(connection.subscribe(names).await?),
            Kind::Pattern => Ok(connection.psubscribe(names).await?),
            Kind::Sharded => Err(Error::Unsupported("the crate has no SSUBSCRIBE before redis 0.28")),
        }
    }

    async fn unsubscribe(&mut self, kind: Kind, names: &[Vec<u8>]) -> Result<(), Error> {
        let Self::Subscribing(connection) = self else { return Err(TOO_LATE) };
        match kind {
            Kind::Channel => Ok(connection.unsubscribe(names).await?),
            Kind::Pattern => Ok(connection.punsubscribe(names).await?),
            Kind::Sharded => Err(Error::Unsupported("the crate has no SSUBSCRIBE before redis 0.28")),
        }
    }

    async fn next(&mut self) -> Result<Event<Msg>, Error> {
        if let Self::Subscribing(_) = self
            && let Self::Subscribing(connection) = std::mem::replace(self, Self::Gone)
        {
            *self = Self::Reading(Box::pin(connection.into_on_message()));
        }
        let Self::Reading(messages) = self else { return Err(TOO_LATE) };
        let message = messages.next().await;
        message.map(Event::Message).ok_or_else(|| Error::Connection("the subscriber's connection was lost".into()))
    }

    /// The connection ends with its last handle: the crate knows no other way.
    async fn close(self) {
        drop(self);
    }
}

macro_rules! subscribes_by_itself {
    ($($driver:ty),+) => {
        $(impl Subscribe for $driver {
            type Subscriber = RedisSubscriber;

            async fn subscriber(servers: &Servers, settings: &Settings, options: &SubscriberSettings) -> Result<RedisSubscriber, Error> {
                Self::DESCRIPTOR.pubsub.check(options.servers(servers).topology, settings.resp)?;
                RedisSubscriber::connect(servers, settings, options).await
            }
        })+
    };
}
subscribes_by_itself!(RedisRsManager, RedisRsCluster);

/// `SPUBLISH` as any command: [`redis::AsyncCommands`] has none yet.
pub async fn spublish<C: ConnectionLike>(connection: &mut C, channel: &[u8], payload: &[u8]) -> Result<u64, Error> {
    let received: u64 = redis::cmd("SPUBLISH").arg(channel).arg(payload).query_async(connection).await?;
    Ok(received)
}
