//! How a caller sends its commands: one at a time, as an explicit pipeline or as a transaction; and what came of each.

use std::time::Instant;

use crate::drivers::{Command, Commands, Error, Pipelines, Reply, Transactions};
use crate::workload::mix::{Call, Check, Entry, Mix, Slot};

/// Why a command of a load did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server answered with an error.
    Refused(Error),
    /// The reply is not what was written.
    Wrong(String),
    /// No answer: whether the server did it is unknown.
    Unanswered(Error),
}

impl Fault {
    /// Sorts a failure: only an error reply is an answer.
    #[must_use]
    pub fn of(error: Error) -> Self {
        match error {
            Error::Server(_) => Fault::Refused(error),
            other => Fault::Unanswered(other),
        }
    }

    /// The kind by which errors are counted: an error reply's code, `wrong-reply`, or [`Error::kind`].
    #[must_use]
    pub fn kind(&self) -> String {
        match self {
            Fault::Refused(Error::Server(reply)) | Fault::Unanswered(Error::Server(reply)) => reply.code.clone(),
            Fault::Wrong(_) => "wrong-reply".to_owned(),
            Fault::Refused(error) | Fault::Unanswered(error) => error.kind().to_owned(),
        }
    }

    /// What happened, in words.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Fault::Refused(error) | Fault::Unanswered(error) => error.to_string(),
            Fault::Wrong(text) => text.clone(),
        }
    }
}

/// The commands that a caller sends together, and what came of each. Reused, so that the timed path allocates nothing for it.
pub struct Batch {
    slots: Vec<Slot>,
    commands: Vec<Command>,
    faults: Vec<Option<Fault>>,
    used: usize,
    /// Class of its entry that a lone command was found to be of, below [`Issue::CLASSES`].
    class: usize,
    /// When the reply to a lone command was there, where what came after it is not to be timed.
    replied: Option<Instant>,
    /// Room for a value that is not sent as the mix has it.
    value: Vec<u8>,
}

impl Batch {
    /// Room for `size` commands.
    #[must_use]
    pub fn new(size: usize) -> Self {
        Self {
            slots: (0..size).map(|_| Slot::default()).collect(),
            commands: (0..size).map(|_| Command::new("")).collect(),
            faults: (0..size).map(|_| None).collect(),
            used: 0,
            class: 0,
            replied: None,
            value: Vec::new(),
        }
    }

    /// Fills it with the commands `first` to `first + count` of `mix`.
    pub fn fill(&mut self, mix: &Mix, first: u64, count: usize) {
        self.used = count;
        for (index, slot) in self.slots[..count].iter_mut().enumerate() {
            mix.generate(first + index as u64, slot);
            self.faults[index] = None;
        }
    }

    /// Entry of each command, and its fault.
    pub fn outcomes(&mut self) -> impl Iterator<Item = (usize, Option<Fault>)> + '_ {
        self.slots[..self.used].iter().zip(&mut self.faults[..self.used]).map(|(slot, fault)| (slot.entry, fault.take()))
    }

    /// A lone command, and room for another value in its place.
    pub fn lone(&mut self) -> (&Slot, &mut Vec<u8>) {
        (&self.slots[0], &mut self.value)
    }

    /// Notes what came of a lone command, in which class of its entry, and when its reply was there.
    pub fn conclude(&mut self, class: usize, replied: Instant, outcome: Result<(), Fault>) {
        self.class = class;
        self.replied = Some(replied);
        self.faults[0] = outcome.err();
    }

    /// When the last reply was there.
    #[inline]
    pub fn ended<I: Issue>(&mut self) -> Instant {
        let replied = if I::CLASSES > 1 { self.replied.take() } else { None };
        replied.unwrap_or_else(Instant::now)
    }

    /// Where a command of `entry` is counted.
    #[inline]
    #[must_use]
    pub fn class<I: Issue>(&self, entry: usize) -> usize {
        if I::CLASSES > 1 { entry * I::CLASSES + self.class } else { entry }
    }

    /// The entry of the first command.
    #[must_use]
    pub fn first_entry(&self) -> usize {
        self.slots[0].entry
    }

    /// Whether every command is of one entry and succeeded.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        let first = self.slots[0].entry;
        self.slots[..self.used].iter().all(|slot| slot.entry == first) && self.faults[..self.used].iter().all(Option::is_none)
    }

    /// The commands side by side, as a pipeline takes them. [`Batch::put_back`] undoes it.
    fn line_up(&mut self) -> &[Command] {
        for (slot, command) in self.slots[..self.used].iter_mut().zip(&mut self.commands) {
            std::mem::swap(&mut slot.command, command);
        }
        &self.commands[..self.used]
    }

    fn put_back(&mut self) {
        for (slot, command) in self.slots[..self.used].iter_mut().zip(&mut self.commands) {
            std::mem::swap(&mut slot.command, command);
        }
    }

    /// Checks the replies of a pipeline or transaction.
    fn settle<R: Reply>(&mut self, mix: &Mix, replies: Result<Vec<Result<R, Error>>, Error>, verify: bool) {
        self.put_back();
        let slots = &self.slots[..self.used];
        match replies {
            Ok(replies) if replies.len() == slots.len() => {
                for ((reply, slot), fault) in replies.into_iter().zip(slots).zip(&mut self.faults) {
                    *fault = match reply {
                        Ok(reply) => check(mix, slot, reply, verify).err(),
                        Err(error) => Some(Fault::of(error)),
                    };
                }
            }
            Ok(replies) => {
                let text = format!("{} replies came to {} commands", replies.len(), slots.len());
                self.fail_all(&Fault::Unanswered(Error::Protocol(text)));
            }
            // What fails as a whole may have been done in part.
            Err(error) => self.fail_all(&Fault::Unanswered(error)),
        }
    }

    fn fail_all(&mut self, fault: &Fault) {
        self.faults[..self.used].fill(Some(fault.clone()));
    }
}

/// Sends a batch and notes what came of it.
pub trait Issue: Clone + Send + Sync + 'static {
    /// Classes that each entry of the mix is counted in, told apart by [`Batch::conclude`].
    const CLASSES: usize = 1;

    /// Sends what `batch` holds and returns when every reply was read, or will not come.
    fn issue(&self, mix: &Mix, batch: &mut Batch, verify: bool) -> impl Future<Output = ()> + Send;

    /// What a caller does between two batches, in nobody's latency.
    #[inline]
    fn rest(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// One command at a time: the client's typed call where the contract has one.
#[derive(Clone)]
pub struct Single<C>(pub C);

impl<C: Commands> Issue for Single<C> {
    async fn issue(&self, mix: &Mix, batch: &mut Batch, verify: bool) {
        let slot = &batch.slots[0];
        let entry = &mix.entries()[slot.entry];
        let outcome = match entry.call {
            Call::Get => match self.0.get(first_argument(&slot.command, 0)).await {
                Ok(value) => check_value(mix, slot, entry, value.as_ref().map(AsRef::as_ref), verify),
                Err(error) => Err(Fault::of(error)),
            },
            Call::Set => self.0.set(first_argument(&slot.command, 0), first_argument(&slot.command, 1)).await.map_err(Fault::of),
            Call::Hkeys => match self.0.hkeys(first_argument(&slot.command, 0)).await {
                Ok(fields) => check_count(entry, fields.len(), verify),
                Err(error) => Err(Fault::of(error)),
            },
            Call::Any => match self.0.call(&slot.command).await {
                Ok(reply) => check(mix, slot, reply, verify),
                Err(error) => Err(Fault::of(error)),
            },
        };
        batch.faults[0] = outcome.err();
    }
}

/// An explicit pipeline.
#[derive(Clone)]
pub struct Piped<C>(pub C);

impl<C: Pipelines> Issue for Piped<C> {
    async fn issue(&self, mix: &Mix, batch: &mut Batch, verify: bool) {
        let replies = self.0.pipeline(batch.line_up()).await;
        batch.settle(mix, replies, verify);
    }
}

/// MULTI, the commands, EXEC.
#[derive(Clone)]
pub struct Transacted<C>(pub C);

impl<C: Transactions> Issue for Transacted<C> {
    async fn issue(&self, mix: &Mix, batch: &mut Batch, verify: bool) {
        let replies = self.0.transaction(batch.line_up()).await;
        batch.settle(mix, replies, verify);
    }
}

/// The argument at `index`, empty when there is none.
pub(crate) fn first_argument(command: &Command, index: usize) -> &[u8] {
    command.args().nth(index).unwrap_or_default()
}

fn check<R: Reply>(mix: &Mix, slot: &Slot, reply: R, verify: bool) -> Result<(), Fault> {
    let entry = &mix.entries()[slot.entry];
    let wrong = |error: Error| Fault::Wrong(format!("{}: {error}", entry.label));
    match entry.check {
        _ if !verify => Ok(()),
        Check::Nothing => Ok(()),
        Check::Ok => reply.into_ok().map_err(wrong),
        Check::Value { .. } => {
            let value = reply.into_blob().map_err(wrong)?;
            check_value(mix, slot, entry, value.as_ref().map(AsRef::as_ref), verify)
        }
        Check::Count(_) => check_count(entry, reply.into_blobs().map_err(wrong)?.len(), verify),
        Check::Pong => match reply.into_value().map_err(wrong)?.as_bytes() {
            Some(b"PONG") => Ok(()),
            _ => Err(Fault::Wrong(format!("{} was not answered with PONG", entry.label))),
        },
    }
}

fn check_value(mix: &Mix, slot: &Slot, entry: &Entry, got: Option<&[u8]>, verify: bool) -> Result<(), Fault> {
    let Check::Value { required } = entry.check else { return Ok(()) };
    match got {
        _ if !verify => Ok(()),
        None if !required => Ok(()),
        Some(bytes) if bytes == mix.expected_value(slot) => Ok(()),
        None => Err(Fault::Wrong(format!("{} found nothing under a key that was written before", entry.label))),
        Some(bytes) => Err(Fault::Wrong(format!("{} returned {} other bytes than were written", entry.label, bytes.len()))),
    }
}

fn check_count(entry: &Entry, got: usize, verify: bool) -> Result<(), Fault> {
    match entry.check {
        Check::Count(wanted) if verify && got != wanted => {
            Err(Fault::Wrong(format!("{} returned {got} elements where {wanted} were written", entry.label)))
        }
        _ => Ok(()),
    }
}
