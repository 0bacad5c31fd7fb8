//! Connects a driver as its settings say, natively or behind a window, and hands it over with its type.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;

use crate::drivers::{Commands, Descriptor, Driver, Error, Publish, Scope, Servers, Settings, Strategy, Topology};
use crate::window::{Flushes, Routed, Window};

/// What belongs to a connected client whatever its type.
pub struct Connected {
    /// The batches that its window has sent so far; `None` without one.
    pub flushes: Box<dyn Fn() -> Option<Flushes> + Send + Sync>,
    /// Closes its connections. The client itself should be dropped before.
    pub close: Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send + Sync>,
}

/// Whoever takes a connected client. Inside, everything is statically dispatched.
pub trait Use: Send {
    /// What comes of it.
    type Output;

    /// Takes a driver as it is.
    fn native<D: Driver>(self, client: D, connected: Connected) -> Self::Output;

    /// Takes the driver `D` behind a window, on a cluster one per node.
    fn behind_window<D: Driver, C: Commands + Publish>(self, client: C, connected: Connected) -> Self::Output;
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
    driver.check_resp(settings.resp)?;
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

/// Connects the driver `D` as `settings` say and hands it to `user`.
///
/// # Errors
/// What [`runs_on`] says, and those of connecting.
pub async fn connect<D: Driver, U: Use>(servers: &Servers, settings: &Settings, user: U) -> Result<U::Output, Error> {
    runs_on(&D::DESCRIPTOR, settings, servers.topology)?;
    if settings.strategy == Strategy::Native {
        let client = D::connect(servers, settings).await?;
        let closing = client.clone();
        let close = Box::new(|| Box::pin(closing.close()) as BoxFuture<'static, ()>);
        return Ok(user.native(client, Connected { flushes: Box::new(|| None), close }));
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
        return Ok(user.behind_window::<D, _>(window, Connected { flushes: Box::new(move || Some(counted.flushes())), close }));
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
    Ok(user.behind_window::<D, _>(routed, Connected { flushes: Box::new(flushes), close }))
}

async fn behind_window<D: Driver>(servers: Servers, settings: Settings) -> Result<(D, Window<D>), Error> {
    let driver = D::connect(&servers, &settings).await?;
    let window = Window::new(driver.clone(), &settings)?;
    Ok((driver, window))
}
