//! A client without its cache, driven as if it had one: what `--csc-baseline` measures beside the cache.
//!
//! So the work around the client is the same to the instruction: versioned values, floors, fences, checks, yields. Only each read
//! goes to the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::drivers::{Blob, CacheCounts, Cached, CachedRead, Driver, Error, Served};

/// The driver `D`, every read of which is a miss.
#[derive(Clone)]
pub struct Uncached<D> {
    client: D,
    /// Reads that were answered.
    reads: Arc<AtomicU64>,
}

impl<D> Uncached<D> {
    /// Of a connected client.
    pub fn new(client: D) -> Self {
        Self { client, reads: Arc::default() }
    }
}

impl<D: Driver> Cached for Uncached<D> {
    type Client = D;
    type Blob = Blob<D>;

    fn client(&self) -> &D {
        &self.client
    }

    async fn get(&self, key: &[u8]) -> Result<CachedRead<Blob<D>>, Error> {
        let value = self.client.get(key).await;
        self.reads.fetch_add(1, Ordering::Relaxed);
        Ok(CachedRead { value: value?, served: Served::Server })
    }

    async fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.client.set(key, value).await
    }

    fn counts(&self) -> CacheCounts {
        CacheCounts { misses: self.reads.load(Ordering::Relaxed), ..CacheCounts::default() }
    }

    async fn close(self) {
        self.client.close().await;
    }
}
