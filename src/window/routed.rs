//! A client per cluster node, commands routed by key slot, MOVED and ASK followed.

use std::pin::Pin;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use futures_util::future::join_all;

use crate::drivers::{
    Blob, Command, Commands, Error, Lanes, PipelineReplies, Pipelines, Publish, Redirect, Reply, Resp, Servers, Transactions, Value,
    receivers,
};
use crate::net::{Address, Connection, Endpoint};
use crate::resp::{SLOTS, key_slot};

/// Most nodes that are ever connected to; a Redis cluster may have 1,000 in all.
const MOST_NODES: usize = 1024;
/// Most redirections that one command follows.
const MOST_REDIRECTS: usize = 8;

/// The future of a connection to a further node.
type Connecting<C> = Pin<Box<dyn Future<Output = Result<C, Error>> + Send>>;

struct Node<C> {
    endpoint: Endpoint,
    client: C,
}

struct Inner<C> {
    /// Index into `nodes` for each slot. Plain atomics: routing takes no lock.
    slots: Box<[AtomicU16]>,
    /// Nodes in the order in which they were met; never removed.
    nodes: Box<[OnceLock<Node<C>>]>,
    known: AtomicUsize,
    /// Held while a node is added.
    adding: tokio::sync::Mutex<()>,
    connect: Box<dyn Fn(Endpoint) -> Connecting<C> + Send + Sync>,
}

/// Routes commands over the masters of a cluster, with one `C` for each.
pub struct Routed<C>(Arc<Inner<C>>);

impl<C> Clone for Routed<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C: Pipelines> Routed<C> {
    /// Asks a seed for the slots and connects to every master with `connect`.
    ///
    /// # Errors
    /// [`Error`] when no seed answers, a slot is not served, or a node can't be reached.
    pub async fn connect<F>(servers: &Servers, connect: impl Fn(Endpoint) -> F + Send + Sync + 'static) -> Result<Self, Error>
    where
        F: Future<Output = Result<C, Error>> + Send + 'static,
    {
        let inner = Inner {
            slots: (0..SLOTS).map(|_| AtomicU16::new(u16::MAX)).collect(),
            nodes: (0..MOST_NODES).map(|_| OnceLock::new()).collect(),
            known: AtomicUsize::new(0),
            adding: tokio::sync::Mutex::default(),
            connect: Box::new(move |endpoint| Box::pin(connect(endpoint))),
        };
        let routed = Self(Arc::new(inner));
        let mut reason = None;
        for seed in &servers.endpoints {
            match slot_ranges(seed).await {
                Ok(ranges) => {
                    for (first, last, address) in ranges {
                        let node = routed.node_at(&seed.at(address)).await?;
                        (first..=last).for_each(|slot| routed.0.slots[usize::from(slot)].store(node, Ordering::Release));
                    }
                    let unserved = routed.0.slots.iter().filter(|slot| slot.load(Ordering::Relaxed) == u16::MAX).count();
                    return match unserved {
                        0 => Ok(routed),
                        missing => Err(Error::Connection(format!("the cluster serves no node for {missing} of {SLOTS} slots"))),
                    };
                }
                Err(error) => reason = Some(error),
            }
        }
        Err(reason.unwrap_or_else(|| Error::Connection("no seed of the cluster was given".into())))
    }

    /// The clients of all nodes met so far.
    #[must_use]
    pub fn nodes(&self) -> Vec<C> {
        self.0.nodes.iter().map_while(OnceLock::get).map(|node| node.client.clone()).collect()
    }

    /// The client of the node that serves `key`, as far as is known.
    #[must_use]
    pub fn client_of(&self, key: &[u8]) -> &C {
        &self.node_of(Some(key_slot(key))).client
    }

    /// The index of the node at `endpoint`, connecting to it if it is new.
    async fn node_at(&self, endpoint: &Endpoint) -> Result<u16, Error> {
        let _adding = self.0.adding.lock().await;
        let known = self.0.known.load(Ordering::Acquire);
        for index in 0..known {
            if self.node(index as u16).endpoint.address == endpoint.address {
                return Ok(index as u16);
            }
        }
        if known == MOST_NODES {
            return Err(Error::Client(format!("more than {MOST_NODES} cluster nodes")));
        }
        let client = (self.0.connect)(endpoint.clone()).await?;
        // Only we add nodes while `adding` is held, so the place is free.
        let _ = self.0.nodes[known].set(Node { endpoint: endpoint.clone(), client });
        self.0.known.store(known + 1, Ordering::Release);
        Ok(known as u16)
    }

    fn node(&self, index: u16) -> &Node<C> {
        self.0.nodes[usize::from(index)].get().expect("a node's index is stored after the node")
    }

    /// The node that serves `slot`; for commands without a key, the first.
    fn node_of(&self, slot: Option<u16>) -> &Node<C> {
        // Acquire: a node is written before the slots that point to it.
        self.node(slot.map_or(0, |slot| self.0.slots[usize::from(slot)].load(Ordering::Acquire)))
    }

    /// Where `redirect`, answered by `from`, points.
    async fn target(&self, from: &Endpoint, redirect: Redirect<'_>) -> Result<u16, Error> {
        let host = match (redirect.host, &from.address) {
            ("", Address::Tcp(host, _)) => host.as_str(),
            (host, _) => host,
        };
        let node = self.node_at(&from.at(Address::Tcp(host.to_owned(), redirect.port))).await?;
        if !redirect.ask && redirect.slot < SLOTS {
            self.0.slots[usize::from(redirect.slot)].store(node, Ordering::Release);
        }
        Ok(node)
    }

    /// Repeats `command` where the redirection `error`, answered by `from`, points.
    async fn follow(&self, command: &Command, from: &Node<C>, mut error: Error) -> Result<C::Reply, Error> {
        let mut from = from;
        for _ in 0..MOST_REDIRECTS {
            let Some(redirect) = error.redirect() else { break };
            let ask = redirect.ask;
            from = self.node(self.target(&from.endpoint, redirect).await?);
            let result = if ask {
                // ASKING counts for the next command of the same connection only, so both go as one pipeline.
                let asked = [Command::new("ASKING"), command.clone()];
                let mut replies = from.client.pipeline(&asked).await?;
                replies.pop().unwrap_or_else(|| Err(Error::Protocol("too few replies".into())))
            } else {
                from.client.call(command).await
            };
            match result {
                Err(again) if again.redirect().is_some() => error = again,
                result => return result,
            }
        }
        Err(error)
    }
}

impl<C: Pipelines> Commands for Routed<C> {
    type Reply = C::Reply;

    async fn get(&self, key: &[u8]) -> Result<Option<Blob<Self>>, Error> {
        let node = self.node_of(Some(key_slot(key)));
        match node.client.get(key).await {
            Err(error) if error.redirect().is_some() => self.follow(&Command::get(key), node, error).await?.into_blob(),
            result => result,
        }
    }

    async fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let node = self.node_of(Some(key_slot(key)));
        match node.client.set(key, value).await {
            Err(error) if error.redirect().is_some() => self.follow(&Command::set(key, value), node, error).await?.into_ok(),
            result => result,
        }
    }

    async fn hkeys(&self, key: &[u8]) -> Result<Vec<Blob<Self>>, Error> {
        let node = self.node_of(Some(key_slot(key)));
        match node.client.hkeys(key).await {
            Err(error) if error.redirect().is_some() => self.follow(&Command::hkeys(key), node, error).await?.into_blobs(),
            result => result,
        }
    }

    async fn call(&self, command: &Command) -> Result<C::Reply, Error> {
        let node = self.node_of(command.slot());
        match node.client.call(command).await {
            Err(error) if error.redirect().is_some() => self.follow(command, node, error).await,
            result => result,
        }
    }
}

/// Both go by the slot of the channel, as [`Command::key`] has it.
impl<C: Pipelines + Publish> Publish for Routed<C> {
    async fn publish(&self, channel: &[u8], payload: &[u8]) -> Result<u64, Error> {
        self.node_of(Some(key_slot(channel))).client.publish(channel, payload).await
    }

    async fn spublish(&self, channel: &[u8], payload: &[u8]) -> Result<u64, Error> {
        let node = self.node_of(Some(key_slot(channel)));
        match node.client.spublish(channel, payload).await {
            Err(error) if error.redirect().is_some() => {
                let command = Command::new("SPUBLISH").arg(channel).arg(payload);
                receivers(self.follow(&command, node, error).await?)
            }
            result => result,
        }
    }
}

impl<C: Pipelines> Pipelines for Routed<C> {
    async fn pipeline(&self, commands: &[Command]) -> Result<PipelineReplies<C::Reply>, Error> {
        // One pipeline per node, at the same time; within a node the order of the commands is kept.
        let mut parts: Vec<(&Node<C>, Vec<usize>)> = Vec::new();
        for (place, command) in commands.iter().enumerate() {
            let node = self.node_of(command.slot());
            match parts.iter_mut().find(|(known, _)| std::ptr::eq(*known, node)) {
                Some((_, places)) => places.push(place),
                None => parts.push((node, vec![place])),
            }
        }
        let sent = parts.iter().map(|(node, places)| async {
            let part: Vec<Command> = places.iter().map(|&place| commands[place].clone()).collect();
            node.client.pipeline(&part).await
        });
        let mut replies: Vec<Option<Result<C::Reply, Error>>> = commands.iter().map(|_| None).collect();
        for (result, (node, places)) in join_all(sent).await.into_iter().zip(&parts) {
            let part = match result {
                Ok(part) => part,
                // One node's failure is that of its own commands.
                Err(error) => places.iter().map(|_| Err(error.clone())).collect(),
            };
            for (reply, &place) in part.into_iter().zip(places) {
                replies[place] = Some(match reply {
                    Err(error) if error.redirect().is_some() => self.follow(&commands[place], node, error).await,
                    reply => reply,
                });
            }
        }
        Ok(replies.into_iter().map(|reply| reply.unwrap_or_else(|| Err(Error::Protocol("too few replies".into())))).collect())
    }

    fn lanes(&self) -> Lanes<Self> {
        Lanes::EachCall
    }
}

impl<C: Transactions> Transactions for Routed<C> {
    /// On the node of the keys' slot. `MOVED` is followed, with the whole transaction; `ASK` is not, so that one on a slot under
    /// migration fails with the server's error.
    async fn transaction(&self, commands: &[Command]) -> Result<PipelineReplies<C::Reply>, Error> {
        let mut node = self.node_of(one_slot(commands)?);
        let mut result = node.client.transaction(commands).await;
        for _ in 0..MOST_REDIRECTS {
            let Some(redirect) = result.as_ref().err().and_then(Error::redirect).filter(|redirect| !redirect.ask) else { break };
            node = self.node(self.target(&node.endpoint, redirect).await?);
            result = node.client.transaction(commands).await;
        }
        result
    }
}

/// The slot of all keys of a transaction; `None` when it has none.
fn one_slot(commands: &[Command]) -> Result<Option<u16>, Error> {
    let mut slots = commands.iter().filter_map(Command::slot);
    let first = slots.next();
    match slots.all(|slot| Some(slot) == first) {
        true => Ok(first),
        false => {
            Err(Error::Client("a transaction on a cluster needs keys of one slot; give them a common part in braces, as {user}:1".into()))
        }
    }
}

/// First and last slot of a range, and the master that serves it.
pub(crate) type SlotRange = (u16, u16, Address);

/// `CLUSTER SLOTS`, masters only.
pub(crate) async fn slot_ranges(seed: &Endpoint) -> Result<Vec<SlotRange>, Error> {
    let mut connection = Connection::open(seed, Resp::V2, true).await?;
    let reply = connection.request(&Command::new("CLUSTER").arg("SLOTS")).await?;
    let malformed = || Error::Protocol("CLUSTER SLOTS has an unexpected form".into());
    let Value::Array(ranges) = reply else { return Err(malformed()) };
    let slot = |value: &Value| value.as_int().and_then(|slot| u16::try_from(slot).ok()).filter(|&slot| slot < SLOTS);
    ranges
        .iter()
        .map(|range| {
            let Value::Array(parts) = range else { return None };
            let [first, last, Value::Array(master), ..] = &parts[..] else { return None };
            let own = match &seed.address {
                Address::Tcp(host, _) => host.as_str(),
                Address::Unix(_) => "127.0.0.1",
            };
            // An empty or null host means the one that was asked.
            let host = master.first()?.as_str().filter(|host| !host.is_empty() && *host != "?").unwrap_or(own);
            let port = u16::try_from(master.get(1)?.as_int()?).ok()?;
            Some((slot(first)?, slot(last)?, Address::Tcp(host.to_owned(), port)))
        })
        .collect::<Option<Vec<_>>>()
        .ok_or_else(malformed)
}
