//! A publisher: sends numbered messages to its channels in turn, one at a time or in explicit pipelines.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::live::{Lane, Live};
use super::message::{self, Header};
use crate::drivers::{Command, Driver, Error, Kind, PipelineReplies, Reply, Servers, Settings};
use crate::measure::clock::{clock_id, nanos, now_ns};
use crate::window::{Clock, Precise, Timer};

/// How long a publisher waits after an error before it tries again.
const AFTER_ERROR: Duration = Duration::from_millis(50);

/// How long a publisher may go on after its first error without one message answered before it gives up.
pub const GIVES_UP_AFTER: Duration = Duration::from_secs(5);

/// One channel of a publisher.
#[derive(Clone, Debug)]
pub struct To {
    /// The channel's name.
    pub name: Vec<u8>,
    /// Its index.
    pub channel: u32,
    /// What was sent to it.
    pub lane: Arc<Lane>,
}

/// What a publisher is told.
#[derive(Clone, Debug)]
pub struct Orders {
    /// Its number.
    pub publisher: u32,
    /// The run's number.
    pub run: u64,
    /// Its channels.
    pub channels: Vec<To>,
    /// Whether PUBLISH or SPUBLISH.
    pub kind: Kind,
    /// Bytes of a message.
    pub payload: usize,
    /// Messages in one explicit pipeline; 1 = the client's typed call for each.
    pub batch: u64,
    /// Messages to each channel; `None` = until told to stop.
    pub messages: Option<u64>,
    /// Messages per second; `None` = each as soon as the last is answered.
    pub rate: Option<f64>,
    /// Messages at its rate that go by before its first, so that publishers take turns instead of sending at the same moment.
    pub lead: f64,
}

/// Publishes until it is done or told to stop.
///
/// # Errors
/// What kept it from publishing anything for [`GIVES_UP_AFTER`].
pub async fn publish<D: Driver>(mut client: D, servers: &Servers, settings: &Settings, orders: &Orders, live: &Live) -> Result<D, Error> {
    let mut payload = message::template(orders.payload);
    let (start, start_ns) = (Instant::now(), now_ns());
    let (mut planned, mut next) = (0u64, 0usize);
    let mut failing_since = None;
    // Without one it is told how far the publisher was behind.
    let mut timer = orders.rate.and_then(|_| Precise.timer().ok());
    let mut left = orders.channels.len();
    let index = orders.publisher as usize;
    while left > 0 && !live.stop_publishing.load(Relaxed) {
        let to = &orders.channels[next % orders.channels.len()];
        next += 1;
        let count = match orders.messages {
            Some(messages) => orders.batch.min(messages.saturating_sub(to.lane.begun())),
            None => orders.batch,
        };
        if count == 0 {
            left -= 1;
            continue;
        }
        left = orders.channels.len();
        let mut planned_ns = None;
        if let Some(rate) = orders.rate {
            let after = after(orders.lead + planned as f64, rate);
            let Some(due) = start.checked_add(after) else { break };
            planned_ns = Some(start_ns.saturating_add(nanos(after)));
            // What was not due before the end is not sent.
            if !wait_until(due, timer.as_mut(), live).await {
                break;
            }
            let behind = nanos(due.elapsed());
            live.behind_ns.fetch_max(behind, Relaxed);
        }
        planned += count;
        let first = to.lane.begin(count);
        let sent = if orders.batch == 1 {
            write_message(&mut payload, orders, to.channel, first, planned_ns);
            let sent = match orders.kind {
                Kind::Sharded => client.spublish(&to.name, &payload).await,
                Kind::Channel | Kind::Pattern => client.publish(&to.name, &payload).await,
            };
            sent.map(|receivers| Batch { answered: 1, receivers, failed: Vec::new(), error: None })
        } else {
            batch(&client, orders, to, first..first + count, planned_ns, &mut payload).await
        };
        let error = match sent {
            Ok(batch) => {
                batch.failed.iter().for_each(|&number| to.lane.fail(number..number + 1));
                live.unanswered.fetch_add(batch.failed.len() as u64, Relaxed);
                live.published[index].add(batch.answered);
                live.given[index].add(batch.receivers);
                batch.error
            }
            Err(error) => {
                to.lane.fail(first..first + count);
                live.unanswered.fetch_add(count, Relaxed);
                Some(error)
            }
        };
        to.lane.answer();
        let Some(error) = error else {
            failing_since = None;
            continue;
        };
        // With a low rate the last answer may be long ago, and nothing be wrong but this.
        if failing_since.get_or_insert_with(Instant::now).elapsed() > GIVES_UP_AFTER {
            return Err(error);
        }
        tokio::time::sleep(AFTER_ERROR).await;
        // Clients that don't reconnect of themselves get a new one.
        if matches!(error, Error::Connection(_) | Error::Client(_) | Error::Timeout(_))
            && let Ok(Ok(anew)) = tokio::time::timeout(GIVES_UP_AFTER, D::connect(servers, settings)).await
        {
            client = anew;
        }
    }
    Ok(client)
}

/// When a message is due that comes after `planned` others.
fn after(planned: f64, rate: f64) -> Duration {
    Duration::try_from_secs_f64(planned / rate).unwrap_or(Duration::MAX)
}

/// Tells the subscribers of its channels how many messages there were; for subscribers in another process.
///
/// # Errors
/// Those of the client.
pub async fn announce_end<D: Driver>(client: &D, orders: &Orders, live: &Live) -> Result<(), Error> {
    let mut payload = message::template(message::HEADER);
    for to in &orders.channels {
        let header = Header {
            kind: message::Kind::End,
            run: orders.run,
            publisher: orders.publisher,
            channel: to.channel,
            sequence: to.lane.begun(),
            sent_ns: now_ns(),
            clock: clock_id(),
        };
        message::write(&mut payload, &header);
        live.announced.fetch_add(1, Relaxed);
        match orders.kind {
            Kind::Sharded => client.spublish(&to.name, &payload).await?,
            Kind::Channel | Kind::Pattern => client.publish(&to.name, &payload).await?,
        };
        live.announcements_answered.fetch_add(1, Relaxed);
    }
    Ok(())
}

/// Whether the time has come; else publishing has ended, and nothing may be sent any more. With a timer that is finer than the millisecond
/// of tokio's, which would be in every latency from the planned time.
async fn wait_until(due: Instant, timer: Option<&mut <Precise as Clock>::Timer>, live: &Live) -> bool {
    let mut timer = timer;
    while !live.stop_publishing.load(Relaxed) {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        let left = left.min(Duration::from_millis(100));
        match &mut timer {
            Some(timer) => timer.wait(left).await,
            None => tokio::time::sleep(left).await,
        }
    }
    false
}

/// Under a set rate a message bears the time for which it was planned, so that waiting behind a slow one counts.
#[inline]
fn write_message(payload: &mut [u8], orders: &Orders, channel: u32, sequence: u64, planned_ns: Option<u64>) {
    let header = Header {
        kind: message::Kind::Message,
        run: orders.run,
        publisher: orders.publisher,
        channel,
        sequence,
        sent_ns: planned_ns.unwrap_or_else(now_ns),
        clock: clock_id(),
    };
    message::write(payload, &header);
}

/// What came of a batch.
struct Batch {
    answered: u64,
    receivers: u64,
    failed: Vec<u64>,
    error: Option<Error>,
}

async fn batch<D: Driver>(
    client: &D,
    orders: &Orders,
    to: &To,
    numbers: Range<u64>,
    planned_ns: Option<u64>,
    payload: &mut [u8],
) -> Result<Batch, Error> {
    let name = orders.kind.publish();
    let count = numbers.end - numbers.start;
    let commands: Vec<Command> = numbers
        .clone()
        .map(|sequence| {
            write_message(payload, orders, to.channel, sequence, planned_ns);
            Command::new(name).arg(&to.name).arg(&*payload)
        })
        .collect();
    let replies: PipelineReplies<D::Reply> = client.pipeline(&commands).await?;
    let mut batch = Batch { answered: 0, receivers: 0, failed: Vec::new(), error: None };
    if replies.len() as u64 != count {
        return Err(Error::Protocol(format!("{} replies to {count} messages", replies.len())));
    }
    for (number, reply) in numbers.zip(replies) {
        match reply.and_then(receivers) {
            Ok(receivers) => {
                batch.answered += 1;
                batch.receivers += receivers;
            }
            Err(error) => {
                batch.failed.push(number);
                batch.error = batch.error.or(Some(error));
            }
        }
    }
    Ok(batch)
}

/// The count that PUBLISH and SPUBLISH return.
///
/// # Errors
/// [`Error::Protocol`] for any other reply.
pub fn receivers<R: Reply>(reply: R) -> Result<u64, Error> {
    let value = reply.into_value()?;
    value.as_int().and_then(|count| u64::try_from(count).ok()).ok_or_else(|| Error::unexpected("a count", value.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_of_any_rate_is_a_time() {
        assert_eq!(after(0.0, 1e-20), Duration::ZERO);
        assert_eq!(after(10.0, 4.0), Duration::from_millis(2_500));
        assert_eq!(after(1.0, 1e-20), Duration::MAX);
    }
}
