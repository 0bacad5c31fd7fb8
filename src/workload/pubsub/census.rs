//! What the servers say of the subscriptions: the start barrier, and where the subscribers really are.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;

use crate::drivers::{Error, Kind};
use crate::net::{Connection, Endpoint};
use crate::resp::{Command, Resp, Value};

/// Channels asked for in one command.
const AT_ONCE: usize = 1_000;

/// A bare connection to every node, masters and replicas.
pub struct Census {
    nodes: Vec<(Endpoint, Option<Connection>)>,
    within: Duration,
}

/// The subscriptions that the servers know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// For each node.
    pub per_node: Vec<u64>,
    /// For each channel that was asked for, over all nodes. Empty for patterns, of which servers only tell how many there are.
    pub per_channel: Vec<u64>,
}

impl Counted {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.per_node.iter().sum()
    }

    /// What was added to `before`.
    #[must_use]
    pub fn beyond(&self, before: &Counted) -> Counted {
        let minus = |now: &[u64], then: &[u64]| {
            now.iter().enumerate().map(|(index, now)| now.saturating_sub(then.get(index).copied().unwrap_or(0))).collect()
        };
        Counted { per_node: minus(&self.per_node, &before.per_node), per_channel: minus(&self.per_channel, &before.per_channel) }
    }
}

impl Census {
    /// Connects to every node. Each answer may take `within`.
    ///
    /// # Errors
    /// As [`Connection::open`], and a node that does not answer.
    pub async fn connect(nodes: impl IntoIterator<Item = Endpoint>, within: Duration) -> Result<Self, Error> {
        let mut census = Self { nodes: nodes.into_iter().map(|endpoint| (endpoint, None)).collect(), within };
        census.ask(|_| vec![Command::new("PING")]).await?;
        Ok(census)
    }

    /// The nodes, in the order of [`Counted::per_node`].
    pub fn nodes(&self) -> impl Iterator<Item = &Endpoint> {
        self.nodes.iter().map(|(endpoint, _)| endpoint)
    }

    /// Asks every node at the same time.
    async fn ask(&mut self, commands: impl Fn(&Endpoint) -> Vec<Command>) -> Result<Vec<Vec<Value>>, Error> {
        let within = self.within;
        let asking = self.nodes.iter_mut().map(|(endpoint, kept)| {
            let commands = commands(endpoint);
            async move {
                let exchange = async {
                    // Put back only after a whole exchange.
                    let mut connection = match kept.take() {
                        Some(connection) => connection,
                        None => Connection::open(endpoint, Resp::V2, true).await?,
                    };
                    let mut values = Vec::with_capacity(commands.len());
                    for command in &commands {
                        values.push(connection.request(command).await?);
                    }
                    *kept = Some(connection);
                    Ok(values)
                };
                tokio::time::timeout(within, exchange).await.unwrap_or_else(|_| Err(Error::timed_out(within)))
            }
        });
        try_join_all(asking).await
    }

    /// Counts the subscriptions of `kind` to `channels`.
    ///
    /// For patterns servers tell only the number of different ones (NUMPAT), so what every client says of itself in CLIENT LIST is
    /// added up, and NUMPAT must show the patterns too.
    ///
    /// # Errors
    /// A node that does not answer, or refuses.
    pub async fn count(&mut self, kind: Kind, channels: &[Vec<u8>]) -> Result<Counted, Error> {
        match kind {
            Kind::Channel => self.count_channels("NUMSUB", channels).await,
            Kind::Sharded => self.count_channels("SHARDNUMSUB", channels).await,
            Kind::Pattern => {
                let answers = self.ask(|_| vec![Command::new("PUBSUB").arg("NUMPAT"), Command::new("CLIENT").arg("LIST")]).await?;
                let mut counted = Counted::default();
                for values in &answers {
                    let different = values.first().and_then(Value::as_int).and_then(|count| u64::try_from(count).ok());
                    let clients = values.get(1).and_then(Value::as_bytes).map(patterns_of_clients);
                    let (Some(different), Some(clients)) = (different, clients) else {
                        return Err(Error::unexpected("a count and a list of clients", "something else"));
                    };
                    // A list that is older than the count must not make up for patterns that nobody has any more.
                    counted.per_node.push(if different == 0 { 0 } else { clients });
                }
                Ok(counted)
            }
        }
    }

    async fn count_channels(&mut self, what: &str, channels: &[Vec<u8>]) -> Result<Counted, Error> {
        let commands: Vec<Command> = channels
            .chunks(AT_ONCE)
            .map(|some| some.iter().fold(Command::new("PUBSUB").arg(what), |command, channel| command.arg(channel)))
            .collect();
        let answers = self.ask(|_| commands.clone()).await?;
        let mut counted = Counted { per_node: Vec::new(), per_channel: vec![0; channels.len()] };
        for values in &answers {
            let mut on_node = 0;
            for (values, counts) in values.iter().zip(counted.per_channel.chunks_mut(AT_ONCE)) {
                let pairs = match values {
                    Value::Array(pairs) if pairs.len() == counts.len() * 2 => pairs,
                    other => return Err(Error::unexpected("a count for each channel", other.kind())),
                };
                for (pair, count) in pairs.chunks_exact(2).zip(counts) {
                    let subscribers = pair[1].as_int().and_then(|count| u64::try_from(count).ok());
                    let subscribers = subscribers.ok_or_else(|| Error::unexpected("a count", pair[1].kind()))?;
                    *count += subscribers;
                    on_node += subscribers;
                }
            }
            counted.per_node.push(on_node);
        }
        Ok(counted)
    }

    /// Waits until `enough` says so, at most `within`.
    ///
    /// # Errors
    /// [`Error::Timeout`] that tells what the servers said last, and as [`Census::count`].
    pub async fn wait_until(
        &mut self,
        kind: Kind,
        channels: &[Vec<u8>],
        within: Duration,
        wanted: &str,
        mut enough: impl FnMut(&Counted) -> bool,
    ) -> Result<Counted, Error> {
        let start = Instant::now();
        let mut pause = Duration::from_micros(500);
        loop {
            let counted = self.count(kind, channels).await?;
            if enough(&counted) {
                return Ok(counted);
            }
            if start.elapsed() > within {
                return Err(Error::Timeout(format!(
                    "after {within:?} the servers know {} subscriptions instead of {wanted}",
                    counted.total()
                )));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }

    /// `used_memory` of all nodes together, bytes.
    ///
    /// # Errors
    /// A node that does not answer.
    pub async fn memory(&mut self) -> Result<u64, Error> {
        let answers = self.ask(|_| vec![Command::new("INFO").arg("memory")]).await?;
        let memory = |values: &Vec<Value>| crate::target::Info::parse(values.first()?.as_str()?).number("used_memory");
        Ok(answers.iter().filter_map(memory).sum())
    }
}

/// The sum of `psub=` over all lines.
fn patterns_of_clients(list: &[u8]) -> u64 {
    let list = String::from_utf8_lossy(list);
    let fields = list.split_ascii_whitespace().filter_map(|field| field.strip_prefix("psub="));
    fields.filter_map(|count| count.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_added_up_over_all_clients() {
        let list =
            b"id=3 addr=127.0.0.1:1 name= sub=1 psub=2 ssub=0 cmd=psubscribe\nid=4 addr=127.0.0.1:2 name=psub sub=0 psub=40 multi=-1\n";
        assert_eq!(patterns_of_clients(list), 42);
        assert_eq!(patterns_of_clients(b""), 0);
    }

    #[test]
    fn only_what_was_added_counts() {
        let before = Counted { per_node: vec![5, 0], per_channel: vec![5] };
        let now = Counted { per_node: vec![7, 1], per_channel: vec![8] };
        assert_eq!(now.beyond(&before), Counted { per_node: vec![2, 1], per_channel: vec![3] });
        assert_eq!(now.beyond(&before).total(), 3);
    }
}
