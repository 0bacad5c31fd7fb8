//! What a cell costs over a hand-written loop on the same client.

use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::compare::{Interval, median, ratio_of_pairs};
use crate::drivers::{Driver, Error, Resp, Servers, Settings};
use crate::measure::Usage;
use crate::workload::commands::{Keyspace, Operation, Workload};
use crate::workload::{CellWork, Work, closed_loop};

/// The harness tax on one driver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tax {
    /// The driver.
    pub driver: String,
    /// The protocol version of both sides.
    pub resp: Resp,
    /// Time per operation of the cell over that of the hand-written loop.
    pub time: Interval,
    /// Client CPU per operation of the cell over that of the loop: less disturbed by other load than time is.
    pub cpu: Interval,
    /// Allocations per operation of the cell.
    pub cell_allocs_per_op: f64,
    /// Allocations per operation of the hand-written loop.
    pub hand_written_allocs_per_op: f64,
    /// The median over the rounds of their difference.
    pub extra_allocs_per_op: f64,
}

/// The hand-written loop as the callers' work.
#[derive(Clone)]
struct HandWritten<D> {
    driver: D,
    key: Arc<[u8]>,
}

impl<D: Driver> Work for HandWritten<D> {
    async fn stretch(&self, _: u64, count: u64) -> Result<(), (u64, Error)> {
        let bytes = self.driver.hand_written(&self.key, count).await.map_err(|error| (0, error))?;
        if bytes == count * PAYLOAD as u64 { Ok(()) } else { Err((0, Error::Protocol("the loop read other values".into()))) }
    }
}

/// Bytes of the value that both sides read.
const PAYLOAD: usize = 64;

/// One side of a round.
struct Side {
    ns_per_op: f64,
    cpu_per_op: f64,
    allocs_per_op: f64,
}

impl Side {
    fn new((elapsed, usage): (Duration, Usage), operations: u64) -> Self {
        let per_op = |total: f64| total / operations as f64;
        Self {
            ns_per_op: per_op(elapsed.as_nanos() as f64),
            cpu_per_op: per_op((usage.user + usage.system).as_nanos() as f64),
            allocs_per_op: per_op(usage.allocations.map_or(f64::NAN, |allocations| allocations.count as f64)),
        }
    }
}

/// Measures GETs of one key through a cell and through the driver's hand-written loop, `rounds` times in shuffled order, on
/// the same connections, with `callers` tasks each. Each side of a round takes about `length`.
///
/// # Errors
/// Those of the client, and [`Error::Client`] when interrupted.
pub async fn tax<D: Driver>(servers: &Servers, settings: &Settings, callers: usize, rounds: usize, length: Duration) -> Result<Tax, Error> {
    let driver = D::connect(servers, settings).await?;
    let workload = Workload { operation: Operation::Get, payload: PAYLOAD, fields: 0, keys: 1 };
    let keyspace = Keyspace::new(&workload, "calibrate");
    let result = tokio::select! {
        result = rounds_of(&driver, &keyspace, settings.resp, callers, (rounds, length)) => result,
        () = crate::interrupt::wait() => Err(Error::Client("interrupted".into())),
    };
    let removed = keyspace.remove(&driver).await;
    driver.close().await;
    let tax = result?;
    removed.map(|()| tax)
}

async fn rounds_of<D: Driver>(
    driver: &D,
    keyspace: &Arc<Keyspace>,
    resp: Resp,
    callers: usize,
    (rounds, length): (usize, Duration),
) -> Result<Tax, Error> {
    keyspace.prepare(driver).await?;
    keyspace.verify(driver).await?;
    let failed = |failure: crate::workload::Failure| Error::Client(failure.to_string());
    let cell_work = CellWork { client: driver.clone(), keyspace: keyspace.clone() };
    let loop_work = HandWritten { driver: driver.clone(), key: keyspace.key(0).into() };
    let cell =
        async |operations: u64| closed_loop(operations, callers, &cell_work).await.map_err(failed).map(|run| Side::new(run, operations));
    let hand_written =
        async |operations: u64| closed_loop(operations, callers, &loop_work).await.map_err(failed).map(|run| Side::new(run, operations));
    // Find out how many operations take `length`; this warms up both sides too.
    let mut operations = callers as u64 * 8;
    loop {
        let (one, other) = (cell(operations).await?, hand_written(operations).await?);
        let took = Duration::from_nanos((one.ns_per_op.min(other.ns_per_op) * operations as f64) as u64);
        if took >= length {
            break;
        }
        operations *= 2;
    }
    let mut random = StdRng::seed_from_u64(rounds as u64);
    let mut sides = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        sides.push(if random.random() {
            let first = cell(operations).await?;
            (first, hand_written(operations).await?)
        } else {
            let first = hand_written(operations).await?;
            (cell(operations).await?, first)
        });
    }
    let pairs = |figure: fn(&Side) -> f64| sides.iter().map(|(cell, hand)| (figure(cell), figure(hand))).collect::<Vec<_>>();
    let interval = |figure| ratio_of_pairs(&pairs(figure), 7).ok_or_else(|| Error::Client("no round".into()));
    let allocs = pairs(|side| side.allocs_per_op);
    let differences: Vec<f64> = allocs.iter().map(|(cell, hand)| cell - hand).collect();
    let median_of = |values: Vec<f64>| median(&values);
    Ok(Tax {
        driver: D::DESCRIPTOR.name.to_owned(),
        resp,
        time: interval(|side| side.ns_per_op)?,
        cpu: interval(|side| side.cpu_per_op)?,
        cell_allocs_per_op: median_of(allocs.iter().map(|(cell, _)| *cell).collect()),
        hand_written_allocs_per_op: median_of(allocs.iter().map(|(_, hand)| *hand).collect()),
        extra_allocs_per_op: median(&differences),
    })
}
