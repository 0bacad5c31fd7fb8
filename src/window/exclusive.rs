//! Exclusive use of a client's connections.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::drivers::{Error, Lanes, Pipelines};

/// Lends out the connections of a client, each to one user at a time, in the order of asking.
pub struct Exclusive<C>(Arc<Inner<C>>);

struct Inner<C> {
    client: C,
    permits: Arc<Semaphore>,
    most: u32,
    /// Handles at rest; `None` when the client itself gives each call a connection alone.
    idle: Option<Mutex<Vec<C>>>,
}

impl<C> Clone for Exclusive<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// A connection lent out; goes back when dropped.
pub struct Lent<C: Pipelines> {
    inner: Arc<Inner<C>>,
    handle: Option<C>,
    _permit: OwnedSemaphorePermit,
}

impl<C: Pipelines> Lent<C> {
    /// The handle to use.
    pub fn client(&self) -> &C {
        self.handle.as_ref().unwrap_or(&self.inner.client)
    }
}

impl<C: Pipelines> Drop for Lent<C> {
    fn drop(&mut self) {
        if let (Some(handle), Some(idle)) = (self.handle.take(), &self.inner.idle) {
            idle.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
        }
    }
}

impl<C: Pipelines> Exclusive<C> {
    /// Lends out at most `most` connections of `client` at a time.
    pub fn new(client: C, lanes: Lanes<C>, most: NonZeroUsize) -> Self {
        let idle = match lanes {
            Lanes::EachCall => None,
            Lanes::Handles(handles) => Some(Mutex::new(handles)),
        };
        let most = u32::try_from(most.get()).unwrap_or(u32::MAX).min(Semaphore::MAX_PERMITS as u32);
        Self(Arc::new(Inner { client, permits: Arc::new(Semaphore::new(most as usize)), most, idle }))
    }

    /// Waits for a free connection.
    ///
    /// # Errors
    /// [`Error::Client`] after [`Exclusive::close`].
    pub async fn lend(&self) -> Result<Lent<C>, Error> {
        let permit = self.0.permits.clone().acquire_owned().await.map_err(|_| closed())?;
        let handle = self.0.idle.as_ref().and_then(|idle| idle.lock().unwrap_or_else(PoisonError::into_inner).pop());
        Ok(Lent { inner: self.0.clone(), handle, _permit: permit })
    }

    /// Does `work` with a connection alone.
    ///
    /// # Errors
    /// Those of `work`, and [`Error::Client`] after [`Exclusive::close`].
    pub async fn with<T>(&self, work: impl AsyncFnOnce(&C) -> Result<T, Error>) -> Result<T, Error> {
        let lent = self.lend().await?;
        work(lent.client()).await
    }

    /// Waits until every connection is back, then lends none.
    pub async fn close(&self) {
        // Held while closing, so that nobody who waited is served in between. An error means that it is closed already.
        let _all = self.0.permits.acquire_many(self.0.most).await;
        self.0.permits.close();
    }
}

pub(super) fn closed() -> Error {
    Error::Client("the pipeline window is closed".into())
}
