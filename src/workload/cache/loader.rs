//! A connected cached driver, ready to be loaded.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::CacheFigures;
use crate::drivers::{CacheCounts, CacheSettings, Descriptor, Error, Servers, Settings, UnknownDriver};
use crate::resp::Command;
use crate::target::audit::Expected;
use crate::workload::load::engine::{Job, Outcome};
use crate::workload::load::ticker::Observer;
use crate::workload::mix::Mix;

pub struct CacheJob {
    pub settings: CacheSettings,
    pub external_writers: bool,
    pub probes_per_second: u32,
}

pub struct CachedOutcome {
    pub outcome: Outcome,
    pub cache: CacheFigures,
}

pub type Counter = Arc<dyn Fn() -> CacheCounts + Send + Sync>;
pub type Opening<'a> = BoxFuture<'a, Result<Box<dyn CachedLoader>, Error>>;

pub trait CachedLoader: Send + Sync {
    fn run<'a>(
        &'a self,
        mix: &'a Arc<Mix>,
        job: &'a Job,
        threads: usize,
        observer: Observer,
    ) -> BoxFuture<'a, Result<CachedOutcome, Error>>;
    fn counter(&self) -> Counter;
    fn close(self: Box<Self>) -> BoxFuture<'static, ()>;
}

pub fn check_mix(mix: &Mix) -> Result<(), String> {
    use crate::workload::mix::Call;
    match mix.entries().iter().find(|entry| !matches!(entry.call, Call::Get | Call::Set)) {
        Some(entry) => Err(format!("--csc: `{}` is neither GET key nor SET key __data__; leave it out", entry.label)),
        None => Ok(()),
    }
}

pub fn prefill(mix: &Mix) -> impl Iterator<Item = Command> {
    mix.prefill()
}

pub fn keys() -> impl Iterator<Item = Vec<u8>> {
    std::iter::empty()
}

pub fn open<'a>(_: &str, _: &'a Servers, _: &'a Settings, _: &'a CacheJob, _: &'a Arc<Mix>) -> Result<Opening<'a>, UnknownDriver> {
    Ok(Box::pin(std::future::ready(Err(Error::Unsupported("not there yet")))))
}

pub fn expected(mix: &Mix, job: &Job, outcome: &CachedOutcome, driver: &Descriptor, masters: usize) -> Expected {
    crate::workload::load::audited::expected(mix, job, &outcome.outcome, driver.checkout, masters)
}

pub fn open_uncached<'a>(
    name: &str,
    servers: &'a Servers,
    settings: &'a Settings,
    job: &'a CacheJob,
    mix: &'a Arc<Mix>,
) -> Result<Opening<'a>, UnknownDriver> {
    open(name, servers, settings, job, mix)
}
