//! The driver contract, and one file (or folder) per client.
//!
//! All that knows a client crate lives here and nowhere else. A driver never sees a workload, and a workload
//! never names a client. `docs/DRIVERS.md` shows how to add one.
//!
//! Traits by capability: [`Commands`] (what every driver can), [`Pipelines`] (explicit pipelines), [`Transactions`]
//! (`MULTI` … `EXEC`), [`Publish`] and [`Subscribe`] (publish/subscribe), [`ClientCache`] (reads
//! from the client's own memory) and [`Driver`] (how it is built and what it says of itself).

mod cache;
mod descriptor;
mod pubsub;
mod registry;
mod settings;
mod store;

#[cfg(feature = "bb8-redis")]
pub mod bb8_redis;
#[cfg(feature = "deadpool-redis")]
pub mod deadpool_redis;
#[cfg(feature = "fred")]
pub mod fred;
pub mod raw;
#[cfg(feature = "redis-rs")]
pub mod redis_rs;
#[cfg(feature = "rustis")]
pub mod rustis;

pub use cache::{
    CacheCounts, CacheMode, CacheSettings, CacheSupport, Cached, CachedRead, Capacity, ClientCache, CountedBy, NoCache, Served, Units,
    at_once,
};
pub use descriptor::{Applied, Descriptor, PipelineReach};
pub use pubsub::{
    Buffer, Event, Kind, Message, NoSubscriber, PubSub, Publish, Subscribe, Subscriber, SubscriberSettings, WhenFull, receivers,
};
pub use registry::{DRIVERS, UnknownDriver, Visit, find, visit};
pub use settings::{Profile, ResponseTimeout, Scope, Servers, Settings, Strategy, Topology};

pub use crate::error::{Error, Redirect, ServerError};
pub use crate::resp::{Command, Resp, Value};

/// A reply in the client's own type, so that the timed path converts nothing.
pub trait Reply: Send + 'static {
    /// The client's own owned bytes.
    type Blob: AsRef<[u8]> + Send + 'static;

    /// The bytes of a string reply, `None` for nil.
    ///
    /// # Errors
    /// [`Error::Protocol`] when the reply is of another kind.
    fn into_blob(self) -> Result<Option<Self::Blob>, Error>;

    /// The elements of an array (or set) of strings.
    ///
    /// # Errors
    /// [`Error::Protocol`] when the reply is of another kind.
    fn into_blobs(self) -> Result<Vec<Self::Blob>, Error>;

    /// Checks for `OK`.
    ///
    /// # Errors
    /// [`Error::Protocol`] when the reply is of another kind.
    fn into_ok(self) -> Result<(), Error>;

    /// The reply in the common form, for verification and tests.
    ///
    /// # Errors
    /// [`Error::Protocol`] when it has no common form.
    fn into_value(self) -> Result<Value, Error>;
}

/// The client's own owned bytes, as its replies hold them.
pub type Blob<C> = <<C as Commands>::Reply as Reply>::Blob;

/// Single commands. Cheap to clone and shared by all callers.
///
/// A dropped future gives up the reply and nothing else: the other callers keep theirs.
pub trait Commands: Clone + Send + Sync + 'static {
    /// The client's own reply type.
    type Reply: Reply;

    /// `GET key` through the client's typed call.
    fn get(&self, key: &[u8]) -> impl Future<Output = Result<Option<Blob<Self>>, Error>> + Send;

    /// `SET key value` through the client's typed call.
    fn set(&self, key: &[u8], value: &[u8]) -> impl Future<Output = Result<(), Error>> + Send;

    /// `HKEYS key` through the client's typed call.
    fn hkeys(&self, key: &[u8]) -> impl Future<Output = Result<Vec<Blob<Self>>, Error>> + Send;

    /// Any command of binary-safe arguments. An error reply is [`Error::Server`].
    fn call(&self, command: &Command) -> impl Future<Output = Result<Self::Reply, Error>> + Send;
}

/// How a driver gives exclusive use of one of its connections.
pub enum Lanes<D> {
    /// Each call takes a connection for itself already (a checkout pool).
    EachCall,
    /// One handle per connection; whoever uses a handle alone uses its connection alone.
    Handles(Vec<D>),
}

/// Replies of an explicit pipeline: one per command in order, an error in its place.
pub type PipelineReplies<R> = Vec<Result<R, Error>>;

/// Explicit pipelines: several commands in one write on one connection.
pub trait Pipelines: Commands {
    /// Sends `commands` together and returns one result per command, in order. An error reply takes the place
    /// of its reply and disturbs no other. On a cluster all keys must be of one slot where
    /// [`Descriptor::pipeline_reach`] says so.
    fn pipeline(&self, commands: &[Command]) -> impl Future<Output = Result<PipelineReplies<Self::Reply>, Error>> + Send;

    /// Exclusive use of the connections, for the strategies that need it.
    fn lanes(&self) -> Lanes<Self>;
}

/// Transactions: several commands between `MULTI` and `EXEC`.
pub trait Transactions: Pipelines {
    /// Sends `MULTI`, `commands` and `EXEC` together on one connection, through the client's own call for it, and returns the
    /// elements of EXEC's reply: one per command, in order. A command that fails inside of `EXEC` is an error in its
    /// place; the others were executed all the same. An empty list gives an empty list and sends nothing.
    ///
    /// # Errors
    /// Of the whole, when nothing was executed: the server's error for the first command that it refused to queue (it answers
    /// `EXECABORT` to `EXEC` then); [`Error::aborted`] when a watched key was changed; [`Error::Client`], or the
    /// server's `CROSSSLOT`, when on a cluster the keys are not all of one slot. A client that gives the failure of one command
    /// as that of the whole says so in [`Descriptor::notes`].
    fn transaction(&self, commands: &[Command]) -> impl Future<Output = Result<PipelineReplies<Self::Reply>, Error>> + Send;
}

/// What can be measured: a client crate and one way of connecting with it.
pub trait Driver: Transactions + Publish + Subscribe + ClientCache {
    /// What the driver says of itself.
    const DESCRIPTOR: Descriptor;

    /// Connects with all of [`Settings::connections`] open and logged in before it returns.
    fn connect(servers: &Servers, settings: &Settings) -> impl Future<Output = Result<Self, Error>> + Send;

    /// Closes the connections. Other clones stop working, or where the client closes a connection only with its last clone,
    /// must be dropped for it to close.
    fn close(self) -> impl Future<Output = ()> + Send;

    /// A loop of `ops` GETs as a user of this client would write it by hand, against the client's own API and
    /// without this contract: the other side of the harness tax in `rcb calibrate`. Returns the sum of the
    /// replies' lengths, so that nothing can be optimised away.
    fn hand_written(&self, key: &[u8], ops: u64) -> impl Future<Output = Result<u64, Error>> + Send;
}
