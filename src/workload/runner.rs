//! A driver behind the strategy that its settings name, bound to a keyspace: what a bench runs again and again.
//!
//! The client's type is erased here, once per run; inside a run everything is statically dispatched.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::commands::{Keyspace, Workload};
use super::connect::{Connected, Use, connect};
use super::run::{Failure, Load, Run, measure};
use crate::drivers::{Commands, Driver, Error, Publish, Servers, Settings, UnknownDriver, Visit};
use crate::target::audit::Auditor;
use crate::window::Flushes;

/// A connected cell.
pub trait Runner: Send + Sync {
    /// Writes the keyspace, then does the work once and checks every byte of the replies.
    fn prepare(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// One audited run, see [`measure`].
    fn run<'a>(&'a self, load: &'a Load, auditor: &'a mut Auditor) -> BoxFuture<'a, Result<Run, Failure>>;

    /// The batches that its window has sent so far; `None` without one.
    fn flushes(&self) -> Option<Flushes>;

    /// Removes the keyspace and closes the connections.
    ///
    /// # Errors
    /// What hindered the removal; the connections are closed all the same.
    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>>;
}

/// A cell that is being connected.
pub type Opening<'a> = BoxFuture<'a, Result<Box<dyn Runner>, Error>>;

struct Bound<C> {
    client: C,
    keyspace: Arc<Keyspace>,
    connected: Connected,
}

impl<C: Commands> Runner for Bound<C> {
    fn prepare(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async {
            self.keyspace.prepare(&self.client).await?;
            self.keyspace.verify(&self.client).await
        })
    }

    fn run<'a>(&'a self, load: &'a Load, auditor: &'a mut Auditor) -> BoxFuture<'a, Result<Run, Failure>> {
        Box::pin(measure(&self.client, &self.keyspace, load, auditor))
    }

    fn flushes(&self) -> Option<Flushes> {
        (self.connected.flushes)()
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move {
            let removed = self.keyspace.remove(&self.client).await;
            drop(self.client);
            (self.connected.close)().await;
            removed
        })
    }
}

/// Connects the driver called `name` as `settings` say, bound to a keyspace under `run`. Must be called inside the runtime
/// on which the client is to live.
///
/// # Errors
/// [`UnknownDriver`] outside; inside, what [`runs_on`](super::runs_on) says and the errors of connecting.
pub fn open<'a>(
    name: &str,
    servers: &'a Servers,
    settings: &'a Settings,
    workload: &'a Workload,
    run: &'a str,
) -> Result<Opening<'a>, UnknownDriver> {
    struct Open<'a>(&'a Servers, &'a Settings, Arc<Keyspace>);
    impl<'a> Visit for Open<'a> {
        type Output = Opening<'a>;
        fn visit<D: Driver>(self) -> Self::Output {
            Box::pin(connect::<D, _>(self.0, self.1, Bind(self.2)))
        }
    }
    crate::drivers::visit(name, Open(servers, settings, Keyspace::new(workload, run)))
}

struct Bind(Arc<Keyspace>);

impl Use for Bind {
    type Output = Box<dyn Runner>;

    fn native<D: Driver>(self, client: D, connected: Connected) -> Box<dyn Runner> {
        Box::new(Bound { client, keyspace: self.0, connected })
    }

    fn behind_window<D: Driver, C: Commands + Publish>(self, client: C, connected: Connected) -> Box<dyn Runner> {
        Box::new(Bound { client, keyspace: self.0, connected })
    }
}
