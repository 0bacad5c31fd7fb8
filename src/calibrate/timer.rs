//! How long a pipeline window really holds its first command.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::drivers::{Command, Commands, Error, Lanes, PipelineReplies, Pipelines, Reply, Settings, Strategy, Value};
use crate::measure::clock::nanos;
use crate::window::Window;

/// Held time for one asked window, microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// The window asked for.
    pub asked_us: f64,
    /// Median of the time from the command's arrival to the hand-over of its batch.
    pub p50_us: f64,
    /// 99th percentile of the same.
    pub p99_us: f64,
    /// Commands measured.
    pub commands: u64,
}

/// A client that only notes when a batch reaches it.
#[derive(Clone)]
struct Stopwatch {
    start: Instant,
    /// Nanoseconds after `start` at which the last batch came.
    handed_over: Arc<AtomicU64>,
}

/// The only reply there is.
struct Nothing;

impl Reply for Nothing {
    type Blob = Vec<u8>;
    fn into_blob(self) -> Result<Option<Vec<u8>>, Error> {
        Ok(None)
    }
    fn into_blobs(self) -> Result<Vec<Vec<u8>>, Error> {
        Ok(Vec::new())
    }
    fn into_ok(self) -> Result<(), Error> {
        Ok(())
    }
    fn into_value(self) -> Result<Value, Error> {
        Ok(Value::Nil)
    }
}

impl Commands for Stopwatch {
    type Reply = Nothing;
    async fn get(&self, _: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(None)
    }
    async fn set(&self, _: &[u8], _: &[u8]) -> Result<(), Error> {
        Ok(())
    }
    async fn hkeys(&self, _: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        Ok(Vec::new())
    }
    async fn call(&self, _: &Command) -> Result<Nothing, Error> {
        Ok(Nothing)
    }
}

impl Pipelines for Stopwatch {
    async fn pipeline(&self, commands: &[Command]) -> Result<PipelineReplies<Nothing>, Error> {
        self.handed_over.store(nanos(self.start.elapsed()), Ordering::Release);
        Ok(commands.iter().map(|_| Ok(Nothing)).collect())
    }
    fn lanes(&self) -> Lanes<Self> {
        Lanes::EachCall
    }
}

/// Sends `commands` lone commands through a window of `asked`, over a client that answers at once.
///
/// # Errors
/// [`Error::Client`] when there is no timer to be had.
pub async fn held(asked: Duration, commands: u64) -> Result<Held, Error> {
    let client = Stopwatch { start: Instant::now(), handed_over: Arc::default() };
    let settings = Settings { strategy: Strategy::window(asked, 0), ..Settings::default() };
    let window = Window::new(client.clone(), &settings)?;
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 10_000_000_000, 3).map_err(|error| Error::Client(error.to_string()))?;
    // The first tenth teaches the timer how late it wakes, and is left out.
    for round in 0..commands + commands / 10 {
        let arrival = nanos(client.start.elapsed());
        window.call(&Command::get(b"k")).await?;
        if round >= commands / 10 {
            histogram.saturating_record(client.handed_over.load(Ordering::Acquire).saturating_sub(arrival));
        }
    }
    window.close().await;
    let micros = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
    Ok(Held { asked_us: asked.as_nanos() as f64 / 1e3, p50_us: micros(0.5), p99_us: micros(0.99), commands: histogram.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn no_command_is_held_for_less_than_its_window() {
        let held = held(Duration::from_micros(300), 100).await.unwrap();
        assert!(held.p50_us >= 299.0 && held.p99_us >= held.p50_us, "{held:?}");
        assert_eq!(held.commands, 100);
    }
}
