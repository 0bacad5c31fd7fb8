//! How the messages of a burst are sent: through a client's own calls, or through a pipeline window.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::burst::{Mode, Plan};
use super::message::{self, Header};
use super::publisher::receivers;
use crate::drivers::{Command, Commands, Error, Kind, Pipelines, Publish};
use crate::measure::clock::{clock_id, now_ns};
use crate::workload::Work;

/// How one message or one batch is sent, whatever is between.
pub(super) trait Sends: Clone + Send + Sync + 'static {
    fn one(&self, kind: Kind, channel: &[u8], payload: &[u8]) -> impl Future<Output = Result<u64, Error>> + Send;
    fn many(&self, commands: &[Command]) -> impl Future<Output = Result<u64, Error>> + Send;
}

/// Through the client's own calls.
#[derive(Clone)]
pub(super) struct Direct<D>(pub(super) D);

impl<D: Pipelines + Publish> Sends for Direct<D> {
    async fn one(&self, kind: Kind, channel: &[u8], payload: &[u8]) -> Result<u64, Error> {
        match kind {
            Kind::Sharded => self.0.spublish(channel, payload).await,
            Kind::Channel | Kind::Pattern => self.0.publish(channel, payload).await,
        }
    }

    async fn many(&self, commands: &[Command]) -> Result<u64, Error> {
        let replies = self.0.pipeline(commands).await?;
        if replies.len() != commands.len() {
            return Err(Error::Protocol(format!("{} replies to {} messages", replies.len(), commands.len())));
        }
        replies.into_iter().map(|reply| reply.and_then(receivers)).sum()
    }
}

/// Through a pipeline window.
#[derive(Clone)]
pub(super) struct Through<C>(pub(super) C);

impl<C: Commands> Sends for Through<C> {
    async fn one(&self, kind: Kind, channel: &[u8], payload: &[u8]) -> Result<u64, Error> {
        receivers(self.0.call(&Command::new(kind.publish()).arg(channel).arg(payload)).await?)
    }

    async fn many(&self, commands: &[Command]) -> Result<u64, Error> {
        let mut sum = 0;
        for command in commands {
            sum += receivers(self.0.call(command).await?)?;
        }
        Ok(sum)
    }
}

/// What the callers do.
#[derive(Clone)]
pub(super) struct Sending<S> {
    pub(super) client: S,
    pub(super) plan: Arc<Plan>,
    pub(super) run: u64,
    pub(super) messages: u64,
    /// What PUBLISH returned, added up.
    pub(super) given: Arc<AtomicU64>,
}

impl<S: Sends> Sending<S> {
    fn write(&self, payload: &mut [u8], sequence: u64) {
        let kind = message::Kind::Message;
        message::write(payload, &Header { kind, run: self.run, publisher: 0, channel: 0, sequence, sent_ns: now_ns(), clock: clock_id() });
    }

    async fn batch(&self, batch: u64, size: u64, payload: &mut [u8]) -> Result<u64, Error> {
        let first = batch * size;
        let commands: Vec<Command> = (first..(first + size).min(self.messages))
            .map(|sequence| {
                self.write(payload, sequence);
                Command::new(self.plan.kind.publish()).arg(&self.plan.channel).arg(&*payload)
            })
            .collect();
        self.client.many(&commands).await
    }
}

impl<S: Sends> Work for Sending<S> {
    async fn stretch(&self, first: u64, count: u64) -> Result<(), (u64, Error)> {
        let mut payload = message::template(self.plan.payload);
        let mut given = 0;
        for done in 0..count {
            let receivers = match self.plan.mode {
                Mode::Batch { size } => self.batch(first + done, size, &mut payload).await,
                _ => {
                    self.write(&mut payload, first + done);
                    self.client.one(self.plan.kind, &self.plan.channel, &payload).await
                }
            };
            given += receivers.map_err(|error| (done, error))?;
        }
        self.given.fetch_add(given, std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }
}
