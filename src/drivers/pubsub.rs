//! Publish/subscribe: what publishes, what opens subscribers, and what they receive.
//!
//! A driver's handle publishes ([`Publish`]); batches of messages go through [`Pipelines::pipeline`](super::Pipelines::pipeline)
//! as PUBLISH or SPUBLISH. Subscribers have connections of their own ([`Subscribe`]): one each, with any number of
//! subscriptions on it, as users of these clients have it; on a cluster, what the client opens for that.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use super::{Commands, Error, Reply, Resp, Servers, Settings, Topology};
use crate::net::Endpoint;

/// How a subscription names what it wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
pub enum Kind {
    /// A channel by its name (SUBSCRIBE, PUBLISH). On a cluster any node will do: messages reach all nodes.
    #[default]
    #[serde(rename = "subscribe")]
    #[value(name = "subscribe")]
    Channel,
    /// All channels that a glob-style pattern matches (PSUBSCRIBE, PUBLISH).
    #[serde(rename = "psubscribe")]
    #[value(name = "psubscribe")]
    Pattern,
    /// A shard channel (SSUBSCRIBE, SPUBLISH; Redis 7.0 and later). On a cluster only the owner of its slot has it.
    #[serde(rename = "ssubscribe")]
    #[value(name = "ssubscribe")]
    Sharded,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 3] = [Kind::Channel, Kind::Pattern, Kind::Sharded];

    /// The command that subscribes.
    #[must_use]
    pub fn subscribe(self) -> &'static str {
        match self {
            Kind::Channel => "SUBSCRIBE",
            Kind::Pattern => "PSUBSCRIBE",
            Kind::Sharded => "SSUBSCRIBE",
        }
    }

    /// The command that ends subscriptions.
    #[must_use]
    pub fn unsubscribe(self) -> &'static str {
        match self {
            Kind::Channel => "UNSUBSCRIBE",
            Kind::Pattern => "PUNSUBSCRIBE",
            Kind::Sharded => "SUNSUBSCRIBE",
        }
    }

    /// The command whose messages it receives.
    #[must_use]
    pub fn publish(self) -> &'static str {
        match self {
            Kind::Channel | Kind::Pattern => "PUBLISH",
            Kind::Sharded => "SPUBLISH",
        }
    }
}

impl fmt::Display for Kind {
    /// The subscribing command in lower case.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Channel => "subscribe",
            Kind::Pattern => "psubscribe",
            Kind::Sharded => "ssubscribe",
        })
    }
}

/// A message as the client delivers it. Nothing is converted before it is asked for.
pub trait Message: Send + 'static {
    /// The channel it was published to. Borrowed, but where the client shows only texts and the name is none.
    fn channel(&self) -> Cow<'_, [u8]>;

    /// The pattern that matched; `None` for other subscriptions, and where the client does not tell it ([`PubSub::tells_pattern`]).
    fn pattern(&self) -> Option<Cow<'_, [u8]>>;

    /// What was published.
    fn payload(&self) -> &[u8];
}

/// What a subscriber has to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<M> {
    /// A message.
    Message(M),
    /// The client says that it dropped this many messages before the next one.
    Lagged(u64),
}

/// How a subscriber is opened, besides [`Settings`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscriberSettings {
    /// Messages that the client's own buffer may hold; `None` = as the crate ships, in either profile.
    /// Means nothing where [`Buffer::settable`] is false; [`Buffer::applied`] says what it comes to.
    pub buffer: Option<NonZeroUsize>,
    /// On a cluster, the node that the subscriber connects to, as to a standalone server, so that subscribers can be spread
    /// over the nodes; replicas will do. `None` leaves it to the client. Shard channels of other nodes are refused there
    /// (MOVED). On a standalone server it is another address of it.
    pub node: Option<Endpoint>,
}

impl SubscriberSettings {
    /// Where to connect: `servers`, or the one node that was chosen.
    #[must_use]
    pub fn servers(&self, servers: &Servers) -> Servers {
        self.node.clone().map_or_else(|| servers.clone(), Servers::standalone)
    }
}

/// Publishing through a client's connection. Every driver can.
pub trait Publish: Commands {
    /// `PUBLISH channel payload` through the client's typed call. Returns how many subscribers the server gave it to: clients
    /// with both the channel and a matching pattern count twice, and on a cluster only those of the node that was asked count.
    fn publish(&self, channel: &[u8], payload: &[u8]) -> impl Future<Output = Result<u64, Error>> + Send;

    /// `SPUBLISH channel payload` through the client's typed call; counted as for [`Publish::publish`].
    fn spublish(&self, channel: &[u8], payload: &[u8]) -> impl Future<Output = Result<u64, Error>> + Send;
}

/// The count that PUBLISH and SPUBLISH answer, as from an explicit pipeline of them.
///
/// # Errors
/// [`Error::Protocol`] when the reply is no count.
pub fn receivers(reply: impl Reply) -> Result<u64, Error> {
    let value = reply.into_value()?;
    value.as_int().and_then(|count| count.try_into().ok()).ok_or_else(|| Error::unexpected("a count", value.kind()))
}

/// Opening subscribers.
pub trait Subscribe: Sized {
    /// The client's subscriber; [`NoSubscriber`] where it has none.
    type Subscriber: Subscriber;

    /// Connects a subscriber with no subscriptions yet. Its connections are its own.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with what [`PubSub::kinds`] says when no [`Kind`] is possible with these settings; else why it
    /// can't connect.
    fn subscriber(
        servers: &Servers,
        settings: &Settings,
        options: &SubscriberSettings,
    ) -> impl Future<Output = Result<Self::Subscriber, Error>> + Send;
}

/// A subscriber: usually one connection, with any number of subscriptions. Dropped, it closes its connections.
///
/// It never reconnects in silence: a lost connection is an error of [`Subscriber::next`], and the subscriber is of no use after.
pub trait Subscriber: Send + 'static {
    /// The client's own message.
    type Message: Message;

    /// Adds subscriptions. That it returns does **not** mean that the server has them: some clients only queue the command.
    /// Ask the server (`PUBSUB NUMSUB`, `NUMPAT`, `SHARDNUMSUB`) before anything depends on it. Messages that arrive meanwhile
    /// are kept for [`Subscriber::next`]. An empty list does nothing.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a kind that the client can't do here; else of the server or the connection.
    fn subscribe(&mut self, kind: Kind, names: &[Vec<u8>]) -> impl Future<Output = Result<(), Error>> + Send;

    /// Ends subscriptions; as for [`Subscriber::subscribe`] the server may still have to do it. Messages that came before it did
    /// are still delivered. An empty list does nothing.
    ///
    /// # Errors
    /// As [`Subscriber::subscribe`].
    fn unsubscribe(&mut self, kind: Kind, names: &[Vec<u8>]) -> impl Future<Output = Result<(), Error>> + Send;

    /// Waits for the next message. A dropped future loses none.
    ///
    /// # Errors
    /// [`Error::Connection`] when the connection is lost; messages that came before are delivered first.
    fn next(&mut self) -> impl Future<Output = Result<Event<Self::Message>, Error>> + Send;

    /// Closes the connections.
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// The subscriber of a client that has none. It can't be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSubscriber {}

impl Message for NoSubscriber {
    fn channel(&self) -> Cow<'_, [u8]> {
        match *self {}
    }

    fn pattern(&self) -> Option<Cow<'_, [u8]>> {
        match *self {}
    }

    fn payload(&self) -> &[u8] {
        match *self {}
    }
}

impl Subscriber for NoSubscriber {
    type Message = NoSubscriber;

    async fn subscribe(&mut self, _: Kind, _: &[Vec<u8>]) -> Result<(), Error> {
        match *self {}
    }

    async fn unsubscribe(&mut self, _: Kind, _: &[Vec<u8>]) -> Result<(), Error> {
        match *self {}
    }

    async fn next(&mut self) -> Result<Event<NoSubscriber>, Error> {
        match *self {}
    }

    async fn close(self) {
        match self {}
    }
}

/// What happens to a message when the subscriber is slower than its publishers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// It waits in the socket, and then in the server's output buffer, which ends the connection at its limit
    /// (`client-output-buffer-limit pubsub`).
    Waits,
    /// The client's buffer grows without a limit.
    Grows,
    /// The oldest is dropped, and the subscriber is told how many were ([`Event::Lagged`]).
    DropsOldest,
}

impl fmt::Display for WhenFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WhenFull::Waits => "waits in the socket",
            WhenFull::Grows => "grows without a limit",
            WhenFull::DropsOldest => "drops the oldest and says so",
        })
    }
}

/// Where a client keeps messages that nobody has taken yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Messages that it holds, as the crate ships; `None` where no number of messages limits it.
    pub capacity: Option<usize>,
    /// Whether [`SubscriberSettings::buffer`] can change that.
    pub settable: bool,
    /// What becomes of one message too many.
    pub when_full: WhenFull,
}

impl Buffer {
    /// The capacity that `settings` come to. A broadcast channel (fred) rounds what is asked up to a power of two.
    #[must_use]
    pub fn applied(&self, settings: &SubscriberSettings) -> Option<usize> {
        match settings.buffer {
            Some(asked) if self.settable => Some(asked.get().next_power_of_two()),
            _ => self.capacity,
        }
    }
}

/// What a client can subscribe to.
#[derive(Clone, Copy, Debug)]
pub struct PubSub {
    /// Whether a [`Kind`] of subscription is possible on a topology with a protocol version; else why not.
    pub kinds: fn(Topology, Resp, Kind) -> Result<(), &'static str>,
    /// Its buffer; `None` when it has no subscriber at all.
    pub buffer: Option<Buffer>,
    /// One line: which of the client's ways it is; empty when it has none.
    pub way: &'static str,
    /// Whether names of channels may be any bytes; else they must be UTF-8.
    pub binary_names: bool,
    /// Whether it tells the pattern that matched.
    pub tells_pattern: bool,
}

impl PubSub {
    /// A client without subscribers, for the reason that `kinds` gives.
    #[must_use]
    pub const fn none(kinds: fn(Topology, Resp, Kind) -> Result<(), &'static str>) -> Self {
        Self { kinds, buffer: None, way: "", binary_names: true, tells_pattern: true }
    }

    /// Whether any subscription is possible.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        self.buffer.is_some()
    }

    /// What to say of a topology and a protocol version on which no kind is possible.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with the reason.
    pub fn check(&self, topology: Topology, resp: Resp) -> Result<(), Error> {
        let kinds = Kind::ALL.map(|kind| (self.kinds)(topology, resp, kind));
        match kinds.iter().find(|kind| kind.is_ok()) {
            Some(_) => Ok(()),
            None => kinds[0].map_err(Error::Unsupported),
        }
    }

    /// The refusal of a client without subscribers.
    ///
    /// # Errors
    /// Always: [`Error::Unsupported`] with the reason.
    pub fn refuse(&self, topology: Topology, resp: Resp) -> Result<NoSubscriber, Error> {
        self.check(topology, resp)?;
        Err(Error::Unsupported("this client has no subscribers"))
    }

    /// What to say of one kind.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with the reason.
    pub fn check_kind(&self, topology: Topology, resp: Resp, kind: Kind) -> Result<(), Error> {
        (self.kinds)(topology, resp, kind).map_err(Error::Unsupported)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drivers::DRIVERS;

    #[test]
    fn every_driver_states_what_it_can_subscribe_to_and_why_not() {
        for driver in DRIVERS {
            let supported = driver.topologies.iter().flat_map(|topology| driver.resp.iter().map(move |resp| (*topology, *resp)));
            let mut any = false;
            for (topology, resp) in supported {
                for kind in Kind::ALL {
                    match (driver.pubsub.kinds)(topology, resp, kind) {
                        Ok(()) => any = true,
                        Err(reason) => assert!(reason.len() > 20, "{}: {reason:?} is no reason", driver.name),
                    }
                }
            }
            assert_eq!(any, driver.pubsub.is_supported(), "{}", driver.name);
            assert_eq!(any, !driver.pubsub.way.is_empty(), "{}", driver.name);
        }
    }

    #[test]
    fn only_a_buffer_that_can_be_set_is() {
        let asked = SubscriberSettings { buffer: NonZeroUsize::new(1_000), node: None };
        let broadcast = Buffer { capacity: Some(32), settable: true, when_full: WhenFull::DropsOldest };
        assert_eq!(broadcast.applied(&SubscriberSettings::default()), Some(32));
        assert_eq!(broadcast.applied(&asked), Some(1_024));
        let unbounded = Buffer { capacity: None, settable: false, when_full: WhenFull::Grows };
        assert_eq!(unbounded.applied(&asked), None);
    }
}
