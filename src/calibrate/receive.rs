//! What the harness itself adds to every message that a subscriber receives.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::measure::clock::{clock_id, now_ns};
use crate::workload::pubsub::account::{Account, RunId};
use crate::workload::pubsub::live::{Latencies, Live};
use crate::workload::pubsub::message::{self, Header, Kind};

/// The cost of a received message: account, clock and histogram.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReceiveCost {
    /// Nanoseconds per message, the fastest of several rounds.
    pub ns: f64,
    /// Bytes of each message.
    pub payload: usize,
}

/// Messages of a round.
const MESSAGES: u64 = 20_000;
/// Bytes of each, as `rcb subscribe` has them.
const PAYLOAD: usize = 128;

/// Does to messages that lie ready what a subscriber's task does to those that come: reads and checks them, keeps the account, counts,
/// reads the clock, and records the latency.
#[must_use]
pub fn receive_cost() -> ReceiveCost {
    const RUN: u64 = 1;
    let name = b"rcb:channel-1".to_vec();
    let messages: Vec<Vec<u8>> = (0..MESSAGES)
        .map(|sequence| {
            let mut payload = message::template(PAYLOAD);
            let header = Header { kind: Kind::Message, run: RUN, publisher: 0, channel: 0, sequence, sent_ns: now_ns(), clock: clock_id() };
            message::write(&mut payload, &header);
            payload
        })
        .collect();
    let round = || {
        let live = Live::new(1, 1);
        live.measured_from.store(0, std::sync::atomic::Ordering::Relaxed);
        let mut latencies = Latencies::new(0);
        let mut account = Account::new(RunId::new(RUN), 0, std::slice::from_ref(&name), 1, 1);
        let start = Instant::now();
        for payload in &messages {
            if let Some(received) = account.arrive(std::hint::black_box(&name), std::hint::black_box(payload)) {
                live.received[0].add(1);
                if let Some(sent_ns) = received.sent_ns {
                    latencies.note(&live, sent_ns, now_ns());
                }
            }
        }
        let elapsed = start.elapsed();
        latencies.hand_over(&live);
        // All of them, or the figure is one of something else.
        let whole = live.take_latencies().len() == MESSAGES && account.tally().received == MESSAGES;
        if whole { elapsed.as_nanos() as f64 / MESSAGES as f64 } else { f64::INFINITY }
    };
    ReceiveCost { ns: (0..9).map(|_| round()).fold(f64::INFINITY, f64::min), payload: PAYLOAD }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_of_a_round_is_received() {
        assert!(receive_cost().ns.is_finite());
    }
}
