//! A driver behind the strategy that its settings name, bound to a keyspace: what a bench runs again and again.
//!
//! The client's type is erased here, once per run; inside a run everything is statically dispatched.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;

use super::commands::{Keyspace, Workload};
use super::run::{Failure, Load, Run, measure};
use crate::drivers::{Commands, Descriptor, Driver, Error, Scope, Servers, Settings, Strategy, Topology, UnknownDriver, Visit};
use crate::target::audit::Auditor;
use crate::window::{Flushes, Routed, Window};

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
    flushes: Box<dyn Fn() -> Option<Flushes> + Send + Sync>,
    close: Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send + Sync>,
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
        (self.flushes)()
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move {
            let removed = self.keyspace.remove(&self.client).await;
            drop(self.client);
            (self.close)().await;
            removed
        })
    }
}

/// Whether `driver` can run with the strategy and scope of `settings` on `topology`: natively where the client itself can, else through our own
/// routing with one standalone client per node.
///
/// # Errors
/// [`Error::Unsupported`] with the reason.
pub fn runs_on(driver: &Descriptor, settings: &Settings, topology: Topology) -> Result<(), Error> {
    let strategy = settings.strategy;
    let batches = matches!(strategy, Strategy::Window { .. } | Strategy::Idle { .. });
    if batches && settings.scope == Scope::PerConnection && !driver.tells_connections {
        return Err(Error::Unsupported("a window per connection: this pool does not say which connection it uses"));
    }
    if !driver.resp.contains(&settings.resp) {
        return Err(Error::Unsupported("this client does not speak that RESP version"));
    }
    match (strategy, topology) {
        (_, Topology::Standalone) if !driver.runs_on(Topology::Standalone) => {
            Err(Error::Unsupported("this driver is for a cluster only; the target is a standalone server"))
        }
        (Strategy::Native, Topology::Cluster) if !driver.runs_on(Topology::Cluster) => {
            Err(Error::Unsupported("this client has no cluster mode of its own"))
        }
        (Strategy::Off | Strategy::Window { .. } | Strategy::Idle { .. }, Topology::Cluster) if !driver.runs_on(Topology::Standalone) => {
            Err(Error::Unsupported("a window on a cluster needs a standalone client per node; this driver is for a cluster only"))
        }
        _ => Ok(()),
    }
}

/// Connects the driver called `name` as `settings` say, bound to a keyspace under `run`. Must be called inside the runtime
/// on which the client is to live.
///
/// # Errors
/// [`UnknownDriver`] outside; inside, what [`runs_on`] says and the errors of connecting.
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
            Box::pin(bind::<D>(self.0, self.1, self.2))
        }
    }
    crate::drivers::visit(name, Open(servers, settings, Keyspace::new(workload, run)))
}

async fn bind<D: Driver>(servers: &Servers, settings: &Settings, keyspace: Arc<Keyspace>) -> Result<Box<dyn Runner>, Error> {
    runs_on(&D::DESCRIPTOR, settings, servers.topology)?;
    if settings.strategy == Strategy::Native {
        let client = D::connect(servers, settings).await?;
        let closing = client.clone();
        let close = Box::new(|| Box::pin(closing.close()) as BoxFuture<'static, ()>);
        return Ok(Box::new(Bound { client, keyspace, flushes: Box::new(|| None), close }));
    }
    if servers.topology == Topology::Standalone {
        let (driver, window) = behind_window::<D>(servers.clone(), settings.clone()).await?;
        let (counted, closing) = (window.clone(), window.clone());
        let close = Box::new(|| {
            Box::pin(async move {
                closing.close().await;
                driver.close().await;
            }) as BoxFuture<'static, ()>
        });
        return Ok(Box::new(Bound { client: window, keyspace, flushes: Box::new(move || Some(counted.flushes())), close }));
    }
    // The routing owns the windows; the drivers under them are kept here, to be closed at the end.
    let drivers = Arc::new(Mutex::new(Vec::new()));
    let (opened, per_node) = (drivers.clone(), settings.clone());
    let routed = Routed::connect(servers, move |endpoint| {
        let (opened, settings) = (opened.clone(), per_node.clone());
        async move {
            let (driver, window) = behind_window::<D>(Servers::standalone(endpoint), settings).await?;
            opened.lock().unwrap_or_else(PoisonError::into_inner).push(driver);
            Ok(window)
        }
    })
    .await?;
    let (counted, closing) = (routed.clone(), routed.clone());
    let flushes = move || Some(counted.nodes().iter().map(Window::flushes).fold(Flushes::default(), |sum, one| sum + one));
    let close = Box::new(move || {
        Box::pin(async move {
            for window in closing.nodes() {
                window.close().await;
            }
            let drivers: Vec<D> = std::mem::take(&mut *drivers.lock().unwrap_or_else(PoisonError::into_inner));
            for driver in drivers {
                driver.close().await;
            }
        }) as BoxFuture<'static, ()>
    });
    Ok(Box::new(Bound { client: routed, keyspace, flushes: Box::new(flushes), close }))
}

async fn behind_window<D: Driver>(servers: Servers, settings: Settings) -> Result<(D, Window<D>), Error> {
    let driver = D::connect(&servers, &settings).await?;
    let window = Window::new(driver.clone(), &settings)?;
    Ok((driver, window))
}
