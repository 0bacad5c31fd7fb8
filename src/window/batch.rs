//! Commands that travel together, and the callers who wait for them.

use tokio::sync::oneshot;

use super::exclusive::Lent;
use crate::drivers::{Command, Error, Pipelines};

/// Where one caller's reply goes.
pub type Slot<R> = oneshot::Sender<Result<R, Error>>;

/// Commands in the order of their callers, each with its slot.
pub struct Batch<R> {
    commands: Vec<Command>,
    slots: Vec<Slot<R>>,
}

impl<R> Default for Batch<R> {
    fn default() -> Self {
        Self { commands: Vec::new(), slots: Vec::new() }
    }
}

impl<R: Send + 'static> Batch<R> {
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    pub fn push(&mut self, command: Command, slot: Slot<R>) {
        self.commands.push(command);
        self.slots.push(slot);
    }

    /// Takes the first `most` commands (0 = all), leaving the rest in order.
    pub fn take(&mut self, most: usize) -> Self {
        if most == 0 || self.len() <= most {
            return std::mem::take(self);
        }
        let later = Self { commands: self.commands.split_off(most), slots: self.slots.split_off(most) };
        std::mem::replace(self, later)
    }

    /// Sends the batch as one explicit pipeline and gives each caller its own result.
    pub async fn send<C: Pipelines<Reply = R>>(self, lent: Lent<C>) {
        let replies = lent.client().pipeline(&self.commands).await;
        // The connection is free as soon as its last reply was read.
        drop(lent);
        // A slot whose caller gave up refuses its reply; that disturbs nobody.
        match replies {
            Ok(replies) => {
                let mut replies = replies.into_iter();
                for slot in self.slots {
                    let reply = replies.next();
                    let _ = slot.send(reply.unwrap_or_else(|| Err(Error::Protocol("the client returned too few replies".into()))));
                }
            }
            Err(error) => {
                for slot in self.slots {
                    let _ = slot.send(Err(error.clone()));
                }
            }
        }
    }
}
