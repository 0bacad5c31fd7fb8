//! The client of a run, connected: as it is, or with its cache.

use std::sync::Arc;

use super::caching::Way;
use super::plan::{Plan, Subject, Workload};
use crate::drivers::{Descriptor, Error, Servers};
use crate::target::audit::Expected;
use crate::window::Flushes;
use crate::workload::cache::{self, CacheFigures, CacheJob, CachedLoader, CachedOutcome, Counter};
use crate::workload::load::audited;
use crate::workload::load::engine::{Job, Outcome};
use crate::workload::load::loader::{self, Loader};
use crate::workload::load::ticker::Observer;
use crate::workload::mix::Mix;

pub enum Client {
    Plain(Box<dyn Loader>),
    Cached(Box<dyn CachedLoader>),
}

/// What came of a job.
pub enum Done {
    Plain(Box<Outcome>),
    Cached(Box<CachedOutcome>),
}

impl Client {
    /// Connects `subject`. Must be called inside the runtime on which it is to live.
    pub async fn open(plan: &Plan, servers: &Servers, subject: &Subject, workload: &Workload) -> Result<Self, Error> {
        let (name, settings) = (subject.driver.name, &subject.settings);
        let unknown = |error: crate::drivers::UnknownDriver| Error::Client(error.to_string());
        let Some(job) = cache_job(plan, subject, workload)? else {
            return loader::open(name, servers, settings).map_err(unknown)?.await.map(Client::Plain);
        };
        let opening = match subject.way {
            Way::Uncached => cache::open_uncached(name, servers, settings, &job, &workload.mix),
            Way::Plain | Way::Cached => cache::open(name, servers, settings, &job, &workload.mix),
        };
        opening.map_err(unknown)?.await.map(Client::Cached)
    }

    pub async fn run(&self, mix: &Arc<Mix>, job: &Job, threads: usize, observer: Observer) -> Result<Done, Error> {
        match self {
            Client::Plain(loader) => loader.run(mix, job, threads, observer).await.map(|outcome| Done::Plain(Box::new(outcome))),
            Client::Cached(loader) => loader.run(mix, job, threads, observer).await.map(|done| Done::Cached(Box::new(done))),
        }
    }

    /// The batches that its window has sent so far.
    pub fn flushes(&self) -> Option<Flushes> {
        match self {
            Client::Plain(loader) => loader.flushes(),
            Client::Cached(_) => None,
        }
    }

    /// Reads what its cache has counted so far.
    pub fn counter(&self) -> Option<Counter> {
        match self {
            Client::Plain(_) => None,
            Client::Cached(loader) => Some(loader.counter()),
        }
    }

    pub async fn close(self) {
        match self {
            Client::Plain(loader) => loader.close().await,
            Client::Cached(loader) => loader.close().await,
        }
    }
}

/// How its cache is opened; `None` without `--csc`.
fn cache_job(plan: &Plan, subject: &Subject, workload: &Workload) -> Result<Option<CacheJob>, Error> {
    let Some(caching) = plan.caching.as_ref().filter(|_| subject.way != Way::Plain) else { return Ok(None) };
    let (job, _) = caching.job(subject.driver, &workload.mix).map_err(Error::Client)?;
    Ok(Some(job))
}

impl Done {
    pub fn outcome(&self) -> &Outcome {
        match self {
            Done::Plain(outcome) => outcome,
            Done::Cached(cached) => &cached.outcome,
        }
    }

    /// What the servers must have counted.
    pub fn expected(&self, mix: &Mix, job: &Job, driver: &Descriptor, masters: usize) -> Expected {
        match self {
            Done::Plain(outcome) => audited::expected(mix, job, outcome, driver.checkout, masters),
            Done::Cached(cached) => cache::expected(mix, job, cached, driver, masters),
        }
    }

    pub fn into_parts(self) -> (Outcome, Option<CacheFigures>) {
        match self {
            Done::Plain(outcome) => (*outcome, None),
            Done::Cached(cached) => {
                let CachedOutcome { outcome, cache, .. } = *cached;
                (outcome, Some(cache))
            }
        }
    }
}
