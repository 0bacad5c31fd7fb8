//! A connected driver, ready to be loaded. Its type is erased here, once per run.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::engine::{Job, Outcome, run};
use super::issue::{Issue, Piped, Single, Transacted};
use super::ticker::Observer;
use crate::drivers::{Commands, Driver, Error, Publish, Servers, Settings, UnknownDriver, Visit};
use crate::window::Flushes;
use crate::workload::connect::{Connected, Use, connect};
use crate::workload::mix::Mix;

/// A client that takes jobs.
pub trait Loader: Send + Sync {
    /// Runs one job, see [`run`].
    ///
    /// # Errors
    /// [`Error::Unsupported`] for an explicit pipeline or a transaction behind a window, before anything is sent.
    fn run<'a>(&'a self, mix: &'a Arc<Mix>, job: &'a Job, threads: usize, observer: Observer) -> BoxFuture<'a, Result<Outcome, Error>>;

    /// The batches that its window has sent so far; `None` without one.
    fn flushes(&self) -> Option<Flushes>;

    /// Closes the connections.
    fn close(self: Box<Self>) -> BoxFuture<'static, ()>;
}

struct Native<D> {
    client: D,
    connected: Connected,
}

struct Windowed<C> {
    client: C,
    connected: Connected,
}

fn boxed<'a, I: Issue>(
    issue: I,
    mix: &'a Arc<Mix>,
    job: &'a Job,
    threads: usize,
    observer: Observer,
) -> BoxFuture<'a, Result<Outcome, Error>> {
    Box::pin(async move { Ok(run(&issue, mix, job, threads, observer).await) })
}

impl<D: Driver> Loader for Native<D> {
    fn run<'a>(&'a self, mix: &'a Arc<Mix>, job: &'a Job, threads: usize, observer: Observer) -> BoxFuture<'a, Result<Outcome, Error>> {
        let client = self.client.clone();
        match (job.transaction, job.pipeline) {
            (true, _) => boxed(Transacted(client), mix, job, threads, observer),
            (false, 0 | 1) => boxed(Single(client), mix, job, threads, observer),
            (false, _) => boxed(Piped(client), mix, job, threads, observer),
        }
    }

    fn flushes(&self) -> Option<Flushes> {
        (self.connected.flushes)()
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        drop(self.client);
        (self.connected.close)()
    }
}

impl<C: Commands> Loader for Windowed<C> {
    fn run<'a>(&'a self, mix: &'a Arc<Mix>, job: &'a Job, threads: usize, observer: Observer) -> BoxFuture<'a, Result<Outcome, Error>> {
        if job.transaction || job.pipeline > 1 {
            let reason = "explicit pipelines and transactions pass by a window, so it would not be measured";
            return Box::pin(std::future::ready(Err(Error::Unsupported(reason))));
        }
        boxed(Single(self.client.clone()), mix, job, threads, observer)
    }

    fn flushes(&self) -> Option<Flushes> {
        (self.connected.flushes)()
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        drop(self.client);
        (self.connected.close)()
    }
}

struct Erase;

impl Use for Erase {
    type Output = Box<dyn Loader>;

    fn native<D: Driver>(self, client: D, connected: Connected) -> Box<dyn Loader> {
        Box::new(Native { client, connected })
    }

    fn behind_window<D: Driver, C: Commands + Publish>(self, client: C, connected: Connected) -> Box<dyn Loader> {
        Box::new(Windowed { client, connected })
    }
}

/// A loader that is being connected.
pub type Opening<'a> = BoxFuture<'a, Result<Box<dyn Loader>, Error>>;

/// Connects the driver called `name` as `settings` say. Must be called inside the runtime on which the client is to live.
///
/// # Errors
/// [`UnknownDriver`] outside; inside, those of [`connect`].
pub fn open<'a>(name: &str, servers: &'a Servers, settings: &'a Settings) -> Result<Opening<'a>, UnknownDriver> {
    struct Open<'a>(&'a Servers, &'a Settings);
    impl<'a> Visit for Open<'a> {
        type Output = Opening<'a>;
        fn visit<D: Driver>(self) -> Self::Output {
            Box::pin(connect::<D, _>(self.0, self.1, Erase))
        }
    }
    crate::drivers::visit(name, Open(servers, settings))
}
