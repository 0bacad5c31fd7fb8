//! Subscribers as the crate's documentation shows them.

use std::borrow::Cow;

use futures_util::StreamExt;
use redis::aio::{ConnectionManager, MultiplexedConnection, PubSubSink, PubSubStream};
use redis::cluster_async::ClusterConnection;
use redis::{AsyncCommands, Msg, PushInfo, PushKind};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::{RedisRsCluster, RedisRsManager, api, cluster, connect};
use crate::drivers::{
    Buffer, Driver, Error, Event, Kind, Message, PubSub, Resp, Servers, Settings, Subscribe, Subscriber, SubscriberSettings, Topology,
    WhenFull,
};

/// What a connection to one server can do.
pub(super) const STANDALONE: PubSub = PubSub {
    kinds: |topology, _, kind| match (topology, kind) {
        (Topology::Cluster, _) => Err("it connects to one server: on a cluster a subscriber needs a node to be chosen"),
        (Topology::Standalone, Kind::Sharded) => Err("the crate has SSUBSCRIBE for its cluster connection only"),
        (Topology::Standalone, _) => Ok(()),
    },
    buffer: Some(Buffer { capacity: None, settable: false, when_full: WhenFull::Grows }),
    way: "RESP2: get_async_pubsub; RESP3: a multiplexed connection of its own with set_push_sender",
    binary_names: true,
    tells_pattern: true,
};

/// What a `ConnectionManager` can do.
pub(super) const MANAGER: PubSub = PubSub {
    kinds: |topology, resp, kind| match resp {
        Resp::V2 => Err("a ConnectionManager receives messages with RESP3 only"),
        Resp::V3 => (STANDALONE.kinds)(topology, resp, kind),
    },
    way: "a ConnectionManager of its own with set_push_sender",
    ..STANDALONE
};

/// What a cluster connection can do.
pub(super) const CLUSTER: PubSub = PubSub {
    kinds: |topology, resp, kind| match (topology, resp) {
        (Topology::Standalone, _) => (STANDALONE.kinds)(topology, resp, kind),
        (Topology::Cluster, Resp::V2) => Err("a ClusterConnection receives messages with RESP3 only"),
        (Topology::Cluster, Resp::V3) => Ok(()),
    },
    way: "a ClusterConnection of its own with push_sender; at a chosen node as redis-rs",
    ..STANDALONE
};

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

/// A connection for subscriptions. All but the first give their messages to an unbounded channel, as the documentation shows.
pub enum RedisSubscriber {
    /// A connection for nothing else, for RESP2. Its stream is an unbounded channel, too.
    Dedicated(PubSubSink, PubSubStream),
    /// A multiplexed connection with RESP3.
    Multiplexed(MultiplexedConnection, UnboundedReceiver<PushInfo>),
    /// A connection that the crate renews, with RESP3.
    Manager(ConnectionManager, UnboundedReceiver<PushInfo>),
    /// A cluster connection with RESP3.
    Cluster(ClusterConnection, UnboundedReceiver<PushInfo>),
}

fn lost() -> Error {
    Error::Connection("the subscriber's connection was lost".into())
}

/// The next message; other pushes are passed over.
async fn pushed(pushes: &mut UnboundedReceiver<PushInfo>) -> Result<Msg, Error> {
    loop {
        let push = pushes.recv().await.ok_or_else(lost)?;
        match push.kind {
            PushKind::Message | PushKind::PMessage | PushKind::SMessage => {
                return Msg::from_push_info(push).ok_or_else(|| Error::Protocol("a message without its parts".into()));
            }
            PushKind::Disconnection => return Err(lost()),
            _ => {}
        }
    }
}

/// Calls the method of whichever connection it is.
macro_rules! on_any {
    ($self:expr, $connection:ident => $call:expr) => {
        match $self {
            RedisSubscriber::Dedicated($connection, _) => $call,
            RedisSubscriber::Multiplexed($connection, _) => $call,
            RedisSubscriber::Manager($connection, _) => $call,
            RedisSubscriber::Cluster($connection, _) => $call,
        }
    };
}

const NO_SHARDED: Error = Error::Unsupported("the crate has SSUBSCRIBE for its cluster connection only");

impl RedisSubscriber {
    /// Connects to one server.
    pub async fn connect(servers: &Servers, settings: &Settings, options: &SubscriberSettings) -> Result<Self, Error> {
        let servers = options.servers(servers);
        STANDALONE.check(servers.topology, settings.resp)?;
        let client = connect::client(servers.first(), settings)?;
        let connecting = async {
            match settings.resp {
                Resp::V2 => {
                    let (sink, stream) = connect::login(client.get_async_pubsub().await)?.split();
                    Ok(Self::Dedicated(sink, stream))
                }
                Resp::V3 => {
                    let (sender, pushes) = unbounded_channel();
                    let config = connect::config(settings).set_push_sender(sender);
                    let connection = connect::login(api::open(&client, &config).await)?;
                    Ok(Self::Multiplexed(connection, pushes))
                }
            }
        };
        connect::limited(connecting).await
    }
}

impl RedisSubscriber {
    /// The names of each command: all, but on a cluster one. There the crate sends the whole command to the node of its first
    /// name's slot, so that an UNSUBSCRIBE of some of the names of a SUBSCRIBE would reach another node, and be confirmed there;
    /// and one SSUBSCRIBE may name channels of one slot only.
    fn each_command<'a>(&self, names: &'a [Vec<u8>]) -> impl Iterator<Item = &'a [Vec<u8>]> + use<'a> {
        let most = match self {
            Self::Cluster(..) => 1,
            Self::Dedicated(..) | Self::Multiplexed(..) | Self::Manager(..) => names.len().max(1),
        };
        names.chunks(most)
    }
}

impl Subscriber for RedisSubscriber {
    type Message = Msg;

    async fn subscribe(&mut self, kind: Kind, names: &[Vec<u8>]) -> Result<(), Error> {
        for names in self.each_command(names) {
            match (kind, &mut *self) {
                (Kind::Channel, any) => on_any!(any, connection => connection.subscribe(names).await?),
                (Kind::Pattern, any) => on_any!(any, connection => connection.psubscribe(names).await?),
                (Kind::Sharded, Self::Cluster(connection, _)) => connection.ssubscribe(names).await?,
                (Kind::Sharded, _) => return Err(NO_SHARDED),
            }
        }
        Ok(())
    }

    async fn unsubscribe(&mut self, kind: Kind, names: &[Vec<u8>]) -> Result<(), Error> {
        for names in self.each_command(names) {
            match (kind, &mut *self) {
                (Kind::Channel, any) => on_any!(any, connection => connection.unsubscribe(names).await?),
                (Kind::Pattern, any) => on_any!(any, connection => connection.punsubscribe(names).await?),
                (Kind::Sharded, Self::Cluster(connection, _)) => connection.sunsubscribe(names).await?,
                (Kind::Sharded, _) => return Err(NO_SHARDED),
            }
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<Event<Msg>, Error> {
        let message = match self {
            Self::Dedicated(_, stream) => stream.next().await.ok_or_else(lost)?,
            Self::Multiplexed(_, pushes) | Self::Manager(_, pushes) | Self::Cluster(_, pushes) => pushed(pushes).await?,
        };
        Ok(Event::Message(message))
    }

    /// The connection ends with its last handle: the crate knows no other way.
    async fn close(self) {
        drop(self);
    }
}

impl Subscribe for RedisRsManager {
    type Subscriber = RedisSubscriber;

    async fn subscriber(servers: &Servers, settings: &Settings, options: &SubscriberSettings) -> Result<RedisSubscriber, Error> {
        Self::DESCRIPTOR.pubsub.check(options.servers(servers).topology, settings.resp)?;
        let client = connect::client(options.servers(servers).first(), settings)?;
        let (sender, pushes) = unbounded_channel();
        let config = connect::manager_config(settings).set_push_sender(sender);
        let connecting = async {
            connect::probe(options.servers(servers).first(), settings).await?;
            connect::login(api::open_manager(client, config).await)
        };
        Ok(RedisSubscriber::Manager(connect::limited(connecting).await?, pushes))
    }
}

impl Subscribe for RedisRsCluster {
    type Subscriber = RedisSubscriber;

    async fn subscriber(servers: &Servers, settings: &Settings, options: &SubscriberSettings) -> Result<RedisSubscriber, Error> {
        let servers = options.servers(servers);
        Self::DESCRIPTOR.pubsub.check(servers.topology, settings.resp)?;
        if servers.topology == Topology::Standalone {
            return RedisSubscriber::connect(&servers, settings, &SubscriberSettings::default()).await;
        }
        let (sender, pushes) = unbounded_channel();
        let client = cluster::builder(&servers, settings)?.push_sender(sender).build()?;
        let connection = connect::limited(async { connect::login(client.get_async_connection().await) }).await?;
        Ok(RedisSubscriber::Cluster(connection, pushes))
    }
}

/// `SPUBLISH` through [`AsyncCommands`].
pub async fn spublish<C: AsyncCommands>(connection: &mut C, channel: &[u8], payload: &[u8]) -> Result<u64, Error> {
    Ok(connection.spublish::<_, _, u64>(channel, payload).await?)
}
