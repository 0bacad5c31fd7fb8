//! The floor against `redis-benchmark`, alternating on the same server.

use std::num::NonZeroUsize;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::compare::{Interval, ratio_of_pairs};
use crate::drivers::raw::RawNode;
use crate::drivers::{Command, Commands, Error, Pipelines, Reply, Settings, Strategy};
use crate::net::{Address, Endpoint};
use crate::workload::{Work, closed_loop};

/// `raw` against `redis-benchmark` at one depth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// Connections, each with a caller of its own (`-c`).
    pub connections: usize,
    /// Commands of each explicit pipeline (`-P`).
    pub pipeline: usize,
    /// Rate of raw over that of `redis-benchmark`.
    pub ratio: Interval,
    /// Median rate of raw, GET/s.
    pub raw_per_second: f64,
    /// Median rate of `redis-benchmark`, GET/s.
    pub redis_benchmark_per_second: f64,
}

/// Alternates raw and `program` for `rounds` rounds of `operations` GETs each with `connections` connections. Run it on a
/// current-thread runtime: `redis-benchmark` uses one thread too.
///
/// # Errors
/// Those of raw, and a `redis-benchmark` that fails or prints something unknown.
pub async fn floor(
    program: &Path,
    endpoint: &Endpoint,
    connections: usize,
    pipeline: usize,
    operations: u64,
    rounds: usize,
) -> Result<Floor, Error> {
    let connections_set = NonZeroUsize::new(connections).unwrap_or(NonZeroUsize::MIN);
    let settings = Settings { connections: connections_set, strategy: Strategy::Off, ..Settings::default() };
    let key = "rcb:calibrate:floor".to_owned();
    let value = vec![b'v'; 64];
    let raw = RawNode::connect(endpoint, &settings).await?;
    raw.set(key.as_bytes(), &value).await?;
    let batches = operations / pipeline as u64;
    let operations = batches * pipeline as u64;
    let work = Gets { raw: raw.clone(), key: key.as_bytes().into(), batch: vec![Command::get(key.as_bytes()); pipeline].into() };
    let raw_round = async || {
        let run = closed_loop(batches, connections, &work);
        let (elapsed, _) = run.await.map_err(|failure| Error::Client(failure.to_string()))?;
        Ok::<f64, Error>(operations as f64 / elapsed.as_secs_f64())
    };
    let alternating = async {
        // Once each beforehand, as a warm-up.
        raw_round().await?;
        redis_benchmark(program, endpoint, connections, pipeline, operations, &key).await?;
        let mut pairs = Vec::with_capacity(rounds);
        for round in 0..rounds {
            let theirs = async || redis_benchmark(program, endpoint, connections, pipeline, operations, &key).await;
            pairs.push(if round % 2 == 0 {
                let ours = raw_round().await?;
                (ours, theirs().await?)
            } else {
                let first = theirs().await?;
                (raw_round().await?, first)
            });
        }
        Ok::<_, Error>(pairs)
    };
    let result = tokio::select! {
        pairs = alternating => pairs,
        () = crate::interrupt::wait() => Err(Error::Client("interrupted".into())),
    };
    let removed = raw.call(&Command::new("DEL").arg(&key)).await;
    let pairs = result?;
    removed?;
    let median_of = |pick: fn(&(f64, f64)) -> f64| crate::compare::median(&pairs.iter().map(pick).collect::<Vec<_>>());
    Ok(Floor {
        connections,
        pipeline,
        ratio: ratio_of_pairs(&pairs, 11).ok_or_else(|| Error::Client("no round".into()))?,
        raw_per_second: median_of(|pair| pair.0),
        redis_benchmark_per_second: median_of(|pair| pair.1),
    })
}

/// GETs of one key, alone or in explicit pipelines, each reply checked.
#[derive(Clone)]
struct Gets {
    raw: RawNode,
    key: Arc<[u8]>,
    batch: Arc<[Command]>,
}

impl Work for Gets {
    async fn stretch(&self, _: u64, count: u64) -> Result<(), (u64, Error)> {
        for done in 0..count {
            let one = |error: Error| (done, error);
            if self.batch.len() == 1 {
                check(self.raw.get(&self.key).await.map_err(one)?).map_err(one)?;
            } else {
                for reply in self.raw.pipeline(&self.batch).await.map_err(one)? {
                    check(reply.and_then(Reply::into_blob).map_err(one)?).map_err(one)?;
                }
            }
        }
        Ok(())
    }
}

fn check(value: Option<bytes::Bytes>) -> Result<(), Error> {
    match value {
        Some(value) if value.len() == 64 => Ok(()),
        _ => Err(Error::Protocol("GET returned other than was written".into())),
    }
}

/// One run; the rate that it prints.
async fn redis_benchmark(
    program: &Path,
    endpoint: &Endpoint,
    connections: usize,
    pipeline: usize,
    operations: u64,
    key: &str,
) -> Result<f64, Error> {
    let mut command = tokio::process::Command::new(program);
    match &endpoint.address {
        Address::Tcp(host, port) => command.args(["-h", host, "-p", &port.to_string()]),
        Address::Unix(path) => command.arg("-s").arg(path),
    };
    command.args(["-c", &connections.to_string(), "-P", &pipeline.to_string(), "-n", &operations.to_string(), "--csv", "GET", key]);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let failed = |reason: String| Error::Client(format!("redis-benchmark: {reason}"));
    let output = tokio::time::timeout(Duration::from_secs(120), command.output()).await;
    let output = output.map_err(|_| failed("no end within 120 s".into()))?.map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    // The last line is `"GET key","45045.05",…`, the rate in the second column.
    let rate = text.lines().rev().find_map(|line| line.split(',').nth(1)?.trim_matches('"').parse::<f64>().ok());
    rate.filter(|rate| *rate > 0.0).ok_or_else(|| failed(format!("no rate in its output: {}", text.trim())))
}
