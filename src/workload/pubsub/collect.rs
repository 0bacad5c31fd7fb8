//! A subscriber that is to get a known number of messages.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::account::Account;
use crate::drivers::{Error, Event, Message, Subscriber};

/// What a subscriber got of a burst.
pub(super) struct Got<S> {
    pub(super) subscriber: S,
    pub(super) account: Account,
    pub(super) last: Option<Instant>,
    pub(super) error: Option<Error>,
}

/// Receives until it has `wanted` messages, nothing comes for `patience`, or nobody waits for it any more. Tells how many it has,
/// not for every one.
pub(super) async fn receive<S: Subscriber>(
    mut subscriber: S,
    mut account: Account,
    wanted: u64,
    patience: Duration,
    progress: Arc<Mutex<Instant>>,
    mut given_up: oneshot::Receiver<()>,
    tell: impl Fn(u64),
) -> Got<S> {
    let (mut received, mut last, mut error) = (0, None, None);
    while received < wanted {
        let event = tokio::select! {
            biased;
            event = subscriber.next() => event,
            () = stalled(&progress, patience) => break,
            _ = &mut given_up => break,
        };
        match event {
            Ok(Event::Message(message)) => {
                if account.arrive(&message.channel(), message.payload()).is_some() {
                    received += 1;
                    if received == wanted || received % TOLD_EVERY == 0 {
                        tell(received);
                        let now = Instant::now();
                        *progress.lock().unwrap_or_else(PoisonError::into_inner) = now;
                        last = Some(now);
                    }
                }
            }
            Ok(Event::Lagged(count)) => {
                account.lagged(count);
                // What was dropped will not come.
                received += count;
            }
            Err(lost) => {
                error = Some(lost);
                break;
            }
        }
    }
    Got { subscriber, account, last, error }
}

/// Messages after which a subscriber tells how many it has.
pub(super) const TOLD_EVERY: u64 = 64;

/// Returns when there was no progress for `patience`.
async fn stalled(progress: &Mutex<Instant>, patience: Duration) {
    loop {
        let until = *progress.lock().unwrap_or_else(PoisonError::into_inner) + patience;
        if Instant::now() >= until {
            return;
        }
        tokio::time::sleep_until(until.into()).await;
    }
}
