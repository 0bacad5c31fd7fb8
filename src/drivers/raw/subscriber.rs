//! A subscriber on bare sockets. Messages stay where they were read to; what nobody has taken yet waits in the socket.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::pin::pin;
use std::task::Poll;

use bytes::BytesMut;
use tokio::io::AsyncWriteExt;

use crate::drivers::{Error, Event, Kind, Message, Resp, Servers, Settings, Subscriber, SubscriberSettings, Topology};
use crate::net::{Address, Connection, Endpoint, Stream, read_more};
use crate::resp::{PublishedMessage, Pushed, Pushes, Value, encode_words, key_slot, parse};
use crate::window::{SlotRange, slot_ranges};

impl Message for PublishedMessage {
    fn channel(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.channel())
    }

    fn pattern(&self) -> Option<Cow<'_, [u8]>> {
        self.pattern().map(Cow::Borrowed)
    }

    fn payload(&self) -> &[u8] {
        self.payload()
    }
}

fn lost(error: std::io::Error) -> Error {
    Error::Connection(error.to_string())
}

/// One subscribed connection.
struct Line {
    address: Address,
    stream: Stream,
    buffer: BytesMut,
    pushes: Pushes,
    /// Messages that came while a confirmation was awaited.
    early: VecDeque<PublishedMessage>,
    /// It has, or had, subscriptions.
    used: bool,
}

/// A confirmation, an error reply, or something that nobody needs to know.
enum Notice {
    Confirmed,
    Ended,
    Nothing,
}

/// What a frame that is no message says.
fn notice(frame: &[u8]) -> Result<Notice, Error> {
    let value = parse(frame).map_err(|error| Error::Protocol(error.to_string()))?;
    let Value::Array(words) = value else {
        return match value {
            Value::Error(text) => Err(Error::server(&text)),
            _ => Ok(Notice::Nothing),
        };
    };
    Ok(match words.first().and_then(Value::as_str) {
        Some("sunsubscribe") => Notice::Ended,
        Some("subscribe" | "psubscribe" | "ssubscribe" | "unsubscribe" | "punsubscribe") => Notice::Confirmed,
        _ => Notice::Nothing,
    })
}

impl Line {
    async fn open(endpoint: &Endpoint, resp: Resp, nodelay: bool) -> Result<Self, Error> {
        let (stream, buffer) = Connection::open(endpoint, resp, nodelay).await?.into_stream();
        let address = endpoint.address.clone();
        Ok(Self { address, stream, buffer, pushes: Pushes::default(), early: VecDeque::new(), used: false })
    }

    fn pushed(&mut self) -> Result<Option<Pushed>, Error> {
        self.pushes.next(&mut self.buffer).map_err(|error| Error::Protocol(error.to_string()))
    }

    /// Reads once from the socket: as many messages as it has and the buffer takes.
    async fn read(&mut self) -> Result<(), Error> {
        match read_more(&mut self.stream, &mut self.buffer).await? {
            0 => Err(Error::Connection("the server closed the connection".into())),
            _ => Ok(()),
        }
    }

    /// Sends `commands` and waits until the server has confirmed `confirmations` subscriptions or ends of them.
    async fn confirm(&mut self, commands: &[u8], mut confirmations: usize) -> Result<(), Error> {
        self.stream.write_all(commands).await.map_err(lost)?;
        self.stream.flush().await.map_err(lost)?;
        while confirmations > 0 {
            match self.pushed()? {
                Some(Pushed::Message(message)) => self.early.push_back(message),
                Some(Pushed::Other(frame)) => match notice(&frame)? {
                    Notice::Confirmed | Notice::Ended => confirmations -= 1,
                    Notice::Nothing => {}
                },
                None => self.read().await?,
            }
        }
        Ok(())
    }

    /// The next message that was read already.
    fn message(&mut self) -> Result<Option<PublishedMessage>, Error> {
        if let Some(message) = self.early.pop_front() {
            return Ok(Some(message));
        }
        loop {
            match self.pushed()? {
                Some(Pushed::Message(message)) => return Ok(Some(message)),
                Some(Pushed::Other(frame)) => match notice(&frame)? {
                    Notice::Ended => return Err(Error::Connection("the server ended a sharded subscription: its slot moved".into())),
                    Notice::Confirmed | Notice::Nothing => {}
                },
                None => return Ok(None),
            }
        }
    }
}

/// One connection; on a cluster one more for each further node that owns shard channels.
pub struct RawSubscriber {
    endpoint: Endpoint,
    resp: Resp,
    nodelay: bool,
    lines: Vec<Line>,
    /// The line that is read from.
    turn: usize,
    /// Owners of slots; empty on a standalone server.
    owners: Vec<SlotRange>,
}

impl RawSubscriber {
    /// Connects.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub async fn connect(servers: &Servers, settings: &Settings, options: &SubscriberSettings) -> Result<Self, Error> {
        let servers = options.servers(servers);
        let endpoint = servers.first().clone();
        let (resp, nodelay) = (settings.resp, settings.nodelay().unwrap_or(false));
        let line = Line::open(&endpoint, resp, nodelay).await?;
        let owners = match servers.topology {
            Topology::Standalone => Vec::new(),
            Topology::Cluster => slot_ranges(&endpoint).await?,
        };
        Ok(Self { endpoint, resp, nodelay, lines: vec![line], turn: 0, owners })
    }

    /// The line to the owner of shard channel `name`, opened if it is new.
    async fn owner(&mut self, name: &[u8]) -> Result<usize, Error> {
        let slot = key_slot(name);
        let range = self.owners.iter().find(|(first, last, _)| (*first..=*last).contains(&slot));
        let Some(address) = range.map(|(_, _, address)| address.clone()) else { return Ok(0) };
        if let Some(known) = self.lines.iter().position(|line| line.address == address) {
            return Ok(known);
        }
        let line = Line::open(&self.endpoint.at(address), self.resp, self.nodelay).await?;
        // The first connection went to a seed; without subscriptions there it is of no more use.
        if !self.lines[0].used {
            self.lines[0] = line;
            return Ok(0);
        }
        self.lines.push(line);
        Ok(self.lines.len() - 1)
    }

    async fn confirm(&mut self, verb: &str, kind: Kind, names: &[Vec<u8>]) -> Result<(), Error> {
        if names.is_empty() {
            return Ok(());
        }
        if kind != Kind::Sharded {
            let mut words = vec![verb.as_bytes()];
            words.extend(names.iter().map(Vec::as_slice));
            let mut command = Vec::new();
            encode_words(&mut command, &words);
            self.lines[0].used = true;
            return self.lines[0].confirm(&command, names.len()).await;
        }
        // One command may name shard channels of one slot only.
        let mut parts: Vec<(usize, Vec<u8>, usize)> = Vec::new();
        for name in names {
            let line = self.owner(name).await?;
            self.lines[line].used = true;
            if parts.iter().all(|(known, ..)| *known != line) {
                parts.push((line, Vec::new(), 0));
            }
            for (known, commands, count) in &mut parts {
                if *known == line {
                    encode_words(commands, &[verb.as_bytes(), name]);
                    *count += 1;
                }
            }
        }
        for (line, commands, count) in parts {
            self.lines[line].confirm(&commands, count).await?;
        }
        Ok(())
    }

    /// Reads from whichever line has something.
    async fn read_any(&mut self) -> Result<(), Error> {
        let Self { lines, turn, .. } = self;
        std::future::poll_fn(|cx| {
            let count = lines.len();
            for step in 1..=count {
                let place = (*turn + step) % count;
                // A reading that waits holds nothing, so it can begin anew at each poll.
                if let Poll::Ready(result) = pin!(lines[place].read()).poll(cx) {
                    *turn = place;
                    return Poll::Ready(result);
                }
            }
            Poll::Pending
        })
        .await
    }
}

impl Subscriber for RawSubscriber {
    type Message = PublishedMessage;

    async fn subscribe(&mut self, kind: Kind, names: &[Vec<u8>]) -> Result<(), Error> {
        self.confirm(kind.subscribe(), kind, names).await
    }

    async fn unsubscribe(&mut self, kind: Kind, names: &[Vec<u8>]) -> Result<(), Error> {
        self.confirm(kind.unsubscribe(), kind, names).await
    }

    async fn next(&mut self) -> Result<Event<PublishedMessage>, Error> {
        loop {
            let count = self.lines.len();
            for step in 0..count {
                let place = (self.turn + step) % count;
                if let Some(message) = self.lines[place].message()? {
                    self.turn = place;
                    return Ok(Event::Message(message));
                }
            }
            match &mut self.lines[..] {
                [only] => only.read().await?,
                _ => self.read_any().await?,
            }
        }
    }

    async fn close(self) {
        drop(self);
    }
}
