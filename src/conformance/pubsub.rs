//! Publish/subscribe.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::connections::{PROMPT, at_a_closed_port, with_a_wrong_password};
use super::{Checked, Fault, ensure};
use crate::drivers::{
    Command, Driver, Error, Event, Kind, Message, PipelineReach, Reply, Resp, Servers, Settings, Subscriber, SubscriberSettings, Topology,
    Value, WhenFull, receivers,
};
use crate::net::{Address, Connection, Endpoint};

/// The longest that the server may take to have, or to have ended, a subscription.
const CONFIRM_LIMIT: Duration = Duration::from_secs(5);
/// The longest that a message, or the news of a lost connection, may take.
const NEWS_LIMIT: Duration = Duration::from_secs(5);

/// What the checks of one kind of subscription share.
pub struct Scene<'a, D> {
    pub publisher: &'a D,
    pub servers: &'a Servers,
    pub settings: &'a Settings,
    pub prefix: &'a str,
    pub kind: Kind,
    /// Every node of a cluster, replicas too; else the server.
    pub nodes: Vec<Endpoint>,
    /// What the subscribers connect to: nothing chosen, or a node.
    pub options: SubscriberSettings,
}

/// Every node of `servers`.
pub async fn nodes(servers: &Servers) -> Result<Vec<Endpoint>, Error> {
    if servers.topology == Topology::Standalone {
        return Ok(servers.endpoints.clone());
    }
    let seed = servers.first();
    let reply = Connection::open(seed, Resp::V2, true).await?.request(&Command::new("CLUSTER").arg("SLOTS")).await?;
    let Value::Array(ranges) = reply else { return Err(Error::Protocol("CLUSTER SLOTS has an unexpected form".into())) };
    let mut nodes: Vec<Endpoint> = Vec::new();
    for range in &ranges {
        let Value::Array(parts) = range else { continue };
        for node in parts.iter().skip(2) {
            let Value::Array(node) = node else { continue };
            let [host, port, ..] = &node[..] else { continue };
            if let (Some(host), Some(port)) = (host.as_str(), port.as_int()) {
                let node = seed.at(Address::Tcp(host.to_owned(), port as u16));
                if !nodes.contains(&node) {
                    nodes.push(node);
                }
            }
        }
    }
    Ok(nodes)
}

/// A subscriber's own next message; a lag is a fault.
async fn message<S: Subscriber>(subscriber: &mut S) -> Result<S::Message, Fault> {
    match event(subscriber).await? {
        Event::Message(message) => Ok(message),
        Event::Lagged(messages) => Err(Fault::Failed(format!("it says that it lost {messages} messages"))),
    }
}

async fn event<S: Subscriber>(subscriber: &mut S) -> Result<Event<S::Message>, Fault> {
    match tokio::time::timeout(NEWS_LIMIT, subscriber.next()).await {
        Ok(event) => Ok(event?),
        Err(_) => Err(Fault::Failed(format!("no message within {NEWS_LIMIT:?}"))),
    }
}

impl<D: Driver> Scene<'_, D> {
    async fn subscriber(&self) -> Result<D::Subscriber, Error> {
        D::subscriber(self.servers, self.settings, &self.options).await
    }

    /// A channel of our own; for a pattern it is one that only the pattern of the same name matches.
    fn channel(&self, name: &str) -> Vec<u8> {
        // Every byte but 0x00 to 0x1f's glob and hash-tag characters that would mean something.
        let odd: &[u8] = match (D::DESCRIPTOR.pubsub.binary_names, self.kind) {
            (_, Kind::Pattern) => b" \r\n$3\r\n",
            (true, _) => b" \r\n$3\r\n\x00\xff\xfe",
            (false, _) => " \r\n$3\r\n\u{e9}".as_bytes(),
        };
        [self.prefix.as_bytes(), self.kind.to_string().as_bytes(), b":", name.as_bytes(), odd].concat()
    }

    /// What to subscribe to for [`Scene::channel`].
    fn name(&self, name: &str) -> Vec<u8> {
        match self.kind {
            Kind::Channel | Kind::Sharded => self.channel(name),
            Kind::Pattern => [self.prefix.as_bytes(), self.kind.to_string().as_bytes(), b":", name.as_bytes(), b"*"].concat(),
        }
    }

    async fn publish(&self, channel: &[u8], payload: &[u8]) -> Result<u64, Error> {
        match self.kind {
            Kind::Channel | Kind::Pattern => self.publisher.publish(channel, payload).await,
            Kind::Sharded => self.publisher.spublish(channel, payload).await,
        }
    }

    /// How many subscriptions all nodes together have to [`Scene::name`] `name`; for patterns, how many patterns there are.
    async fn subscriptions(&self, name: &[u8]) -> Result<i64, Error> {
        let command = match self.kind {
            Kind::Channel => Command::new("PUBSUB").arg("NUMSUB").arg(name),
            Kind::Pattern => Command::new("PUBSUB").arg("NUMPAT"),
            Kind::Sharded => Command::new("PUBSUB").arg("SHARDNUMSUB").arg(name),
        };
        let counts = join_all(self.nodes.iter().map(|node| async {
            let mut connection = Connection::open(node, Resp::V2, true).await?;
            match connection.request(&command).await? {
                Value::Int(patterns) => Ok(patterns),
                Value::Array(pair) => pair.get(1).and_then(Value::as_int).ok_or_else(|| Error::Protocol("no count".into())),
                other => Err(Error::unexpected("a count", other.kind())),
            }
        }));
        counts.await.into_iter().sum()
    }

    /// Waits until the servers have `expected` subscriptions to `name`.
    async fn confirmed(&self, name: &[u8], expected: i64) -> Checked {
        let started = Instant::now();
        loop {
            let got = self.subscriptions(name).await?;
            if got == expected {
                return Ok(());
            }
            ensure!(started.elapsed() < CONFIRM_LIMIT, "the servers have {got} subscriptions instead of {expected}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Whether the count that PUBLISH returns is right: on a cluster only subscribers of the node that was asked are counted.
    fn count_is(&self, got: u64, expected: u64) -> bool {
        match (self.servers.topology, self.kind) {
            (Topology::Standalone, _) | (Topology::Cluster, Kind::Sharded) => got == expected,
            (Topology::Cluster, _) => got <= expected,
        }
    }
}

fn payloads() -> Vec<Vec<u8>> {
    let every_byte: Vec<u8> = (0..=255).chain(*b"\r\n$3\r\n*1\r\n").collect();
    let mebibyte = (0..1 << 20).map(|place: u32| (place % 251) as u8).collect();
    vec![b"text".to_vec(), Vec::new(), every_byte, b"OK".to_vec(), b"-1".to_vec(), mebibyte, b"last".to_vec()]
}

/// Exact bytes, the counts that PUBLISH returns, and the end of a subscription.
pub async fn messages_arrive_byte_for_byte<D: Driver>(scene: &Scene<'_, D>) -> Checked {
    let mut subscriber = scene.subscriber().await?;
    let (name, channel) = (scene.name("bytes"), scene.channel("bytes"));
    subscriber.subscribe(scene.kind, std::slice::from_ref(&name)).await?;
    scene.confirmed(&name, 1).await?;
    for payload in payloads() {
        let receivers = scene.publish(&channel, &payload).await?;
        ensure!(scene.count_is(receivers, 1), "{} returned {receivers} receivers instead of 1", scene.kind.publish());
        let got = message(&mut subscriber).await?;
        ensure!(got.payload() == payload, "{} bytes were published, {} other bytes arrived", payload.len(), got.payload().len());
        ensure!(got.channel() == channel.as_slice(), "the channel came as {:?}", String::from_utf8_lossy(&got.channel()));
        let expected = (scene.kind == Kind::Pattern && D::DESCRIPTOR.pubsub.tells_pattern).then_some(name.as_slice());
        ensure!(got.pattern().as_deref() == expected, "the pattern came as {:?}", got.pattern().as_deref().map(String::from_utf8_lossy));
    }
    subscriber.close().await;
    scene.confirmed(&name, 0).await
}

/// What is unsubscribed no longer arrives; what is not, does. On a cluster the names are of many slots.
pub async fn unsubscribing_ends_delivery<D: Driver>(scene: &Scene<'_, D>) -> Checked {
    const NAMES: usize = 12;
    let mut subscriber = scene.subscriber().await?;
    let labels: Vec<_> = (0..NAMES).map(|number| format!("end:{}:", number * number)).collect();
    let names: Vec<_> = labels.iter().map(|label| scene.name(label)).collect();
    let all = if scene.kind == Kind::Pattern { NAMES as i64 } else { 1 };
    subscriber.subscribe(scene.kind, &names).await?;
    for name in &names {
        scene.confirmed(name, all).await?;
    }
    subscriber.unsubscribe(scene.kind, &[]).await?;
    let ended: Vec<_> = names.iter().skip(1).step_by(2).cloned().collect();
    // One by one and together: a client must find the node that has them.
    for one in ended[..3].chunks(1) {
        subscriber.unsubscribe(scene.kind, one).await?;
    }
    subscriber.unsubscribe(scene.kind, &ended[3..]).await?;
    for name in &names {
        let left = if scene.kind == Kind::Pattern { (NAMES - ended.len()) as i64 } else { i64::from(!ended.contains(name)) };
        scene.confirmed(name, left).await?;
    }
    for (label, name) in labels.iter().zip(&names) {
        let channel = scene.channel(label);
        let expected = u64::from(!ended.contains(name));
        let receivers = scene.publish(&channel, label.as_bytes()).await?;
        ensure!(scene.count_is(receivers, expected), "{} returned {receivers} receivers instead of {expected}", scene.kind.publish());
        if expected == 1 {
            let got = message(&mut subscriber).await?;
            ensure!(got.channel() == channel.as_slice(), "a message came of {:?}", String::from_utf8_lossy(&got.channel()));
        }
    }
    // And again what had ended.
    subscriber.subscribe(scene.kind, &ended[..1]).await?;
    scene.confirmed(&ended[0], if scene.kind == Kind::Pattern { (NAMES - ended.len() + 1) as i64 } else { 1 }).await?;
    scene.publish(&scene.channel(&labels[1]), b"again").await?;
    let got = message(&mut subscriber).await?;
    ensure!(got.payload() == b"again", "after subscribing again other bytes arrived");
    subscriber.close().await;
    scene.confirmed(&names[0], 0).await
}

/// Two subscribers get all of a thousand messages in their order, published in explicit pipelines.
pub async fn two_subscribers_get_all_in_order<D: Driver>(scene: &Scene<'_, D>) -> Checked {
    const MESSAGES: u32 = 1_000;
    let roomy = SubscriberSettings { buffer: NonZeroUsize::new(2_048), ..scene.options.clone() };
    let (name, channel) = (scene.name("order"), scene.channel("order"));
    let mut subscribers = Vec::new();
    for _ in 0..2 {
        let mut subscriber = D::subscriber(scene.servers, scene.settings, &roomy).await?;
        subscriber.subscribe(scene.kind, std::slice::from_ref(&name)).await?;
        subscribers.push(subscriber);
    }
    // The same pattern counts once on a node, wherever its subscribers are; so the messages themselves are the proof.
    if scene.kind == Kind::Pattern {
        for subscriber in &mut subscribers {
            let started = Instant::now();
            loop {
                scene.publish(&channel, b"ready?").await?;
                match tokio::time::timeout(Duration::from_millis(20), subscriber.next()).await {
                    Ok(Ok(Event::Message(_))) => break,
                    Ok(Ok(Event::Lagged(_))) => return Err(Fault::Failed("it lagged before there was anything".into())),
                    Ok(Err(error)) => return Err(error.into()),
                    Err(_) => ensure!(started.elapsed() < CONFIRM_LIMIT, "no subscription within {CONFIRM_LIMIT:?}"),
                }
            }
        }
    } else {
        scene.confirmed(&name, 2).await?;
    }
    let commands: Vec<_> =
        (0..MESSAGES).map(|number| Command::new(scene.kind.publish()).arg(&channel).arg(format!("{number:08}"))).collect();
    for batch in commands.chunks(250) {
        let replies = scene.publisher.pipeline(batch).await?;
        ensure!(replies.len() == batch.len(), "{} replies to {} messages", replies.len(), batch.len());
        for reply in replies {
            let count = receivers(reply?)?;
            ensure!(scene.count_is(count, 2), "a pipeline's message had {count} receivers instead of 2");
        }
    }
    for subscriber in &mut subscribers {
        for number in 0..MESSAGES {
            let mut got = message(subscriber).await?;
            while got.payload() == b"ready?" {
                got = message(subscriber).await?;
            }
            let expected = format!("{number:08}");
            ensure!(
                got.payload() == expected.as_bytes(),
                "message {expected} was due, {:?} arrived",
                String::from_utf8_lossy(got.payload())
            );
        }
    }
    // Closed or dropped, it leaves nothing on the servers.
    let dropped = subscribers.pop();
    for subscriber in subscribers {
        subscriber.close().await;
    }
    drop(dropped);
    scene.confirmed(&name, 0).await
}

/// With a buffer for 16 messages and nobody reading: what is received and what is said to be lost are all.
pub async fn a_slow_subscriber_knows_its_losses<D: Driver>(scene: &Scene<'_, D>) -> Checked {
    const MESSAGES: u64 = 2_000;
    let small = SubscriberSettings { buffer: NonZeroUsize::new(16), ..scene.options.clone() };
    let (name, channel) = (scene.name("slow"), scene.channel("slow"));
    let mut subscriber = D::subscriber(scene.servers, scene.settings, &small).await?;
    subscriber.subscribe(scene.kind, std::slice::from_ref(&name)).await?;
    scene.confirmed(&name, 1).await?;
    let commands: Vec<_> = (0..MESSAGES).map(|number| Command::new(scene.kind.publish()).arg(&channel).arg(number.to_string())).collect();
    for batch in commands.chunks(500) {
        for reply in scene.publisher.pipeline(batch).await? {
            reply?;
        }
    }
    let (mut received, mut lost) = (0, 0);
    loop {
        match event(&mut subscriber).await? {
            Event::Lagged(messages) => lost += messages,
            Event::Message(got) => {
                let expected = received + lost;
                let got = String::from_utf8_lossy(got.payload()).into_owned();
                ensure!(got == expected.to_string(), "{received} received and {lost} lost, then came {got}");
                received += 1;
            }
        }
        if received + lost == MESSAGES {
            break;
        }
    }
    let drops = D::DESCRIPTOR.pubsub.buffer.is_some_and(|buffer| buffer.when_full == WhenFull::DropsOldest);
    ensure!(drops || lost == 0, "it lost {lost} messages, and says that it loses none");
    subscriber.close().await;
    scene.confirmed(&name, 0).await
}

/// A subscriber whose connection the server ends is told so, after it got what came before.
pub async fn a_lost_connection_surfaces<D: Driver>(scene: &Scene<'_, D>) -> Checked {
    let mut subscriber = scene.subscriber().await?;
    let (name, channel) = (scene.name("lost"), scene.channel("lost"));
    subscriber.subscribe(scene.kind, std::slice::from_ref(&name)).await?;
    scene.confirmed(&name, 1).await?;
    scene.publish(&channel, b"before").await?;
    let got = message(&mut subscriber).await?;
    ensure!(got.payload() == b"before", "other bytes arrived");
    let kill = Command::new("CLIENT").arg("KILL").arg("TYPE").arg("pubsub");
    let mut killed = 0;
    for node in &scene.nodes {
        killed += Connection::open(node, Resp::V2, true).await?.request(&kill).await?.as_int().unwrap_or_default();
    }
    ensure!(killed > 0, "the servers know no subscribed connection");
    let started = Instant::now();
    let told = match tokio::time::timeout(NEWS_LIMIT, subscriber.next()).await {
        Ok(told) => told,
        Err(_) => return Err(Fault::Failed(format!("{NEWS_LIMIT:?} after its connection was killed it still waits"))),
    };
    match told {
        Err(Error::Connection(_)) => {}
        Err(other) => return Err(Fault::Failed(format!("a lost connection became a {} error: {other}", other.kind()))),
        Ok(_) => return Err(Fault::Failed(format!("{:?} after its connection was killed it got a message", started.elapsed()))),
    }
    drop(subscriber);
    scene.confirmed(&name, 0).await
}

/// What the descriptor calls unsupported is refused as such.
pub async fn what_is_unsupported_says_so<D: Driver>(scene: &Scene<'_, D>, reason: &str) -> Checked {
    let mut subscriber = match scene.subscriber().await {
        Ok(subscriber) => subscriber,
        Err(error) => return refused(error, reason),
    };
    match subscriber.subscribe(scene.kind, &[scene.name("refused")]).await {
        Err(error) => refused(error, reason),
        Ok(()) => Err(Fault::Failed(format!("it subscribes, and says that it can't: {reason}"))),
    }
}

fn refused(error: Error, reason: &str) -> Checked {
    match error {
        Error::Unsupported(said) if said == reason => Err(Fault::Unsupported(reason.to_owned())),
        other => Err(Fault::Failed(format!("unsupported, \"{reason}\", became a {} error: {other}", other.kind()))),
    }
}

/// A publisher without subscribers is told that there are none.
pub async fn publishing_to_nobody<D: Driver>(driver: &D, servers: &Servers, prefix: &str) -> Checked {
    let channel = format!("{prefix}nobody").into_bytes();
    ensure!(driver.publish(&channel, b"message").await? == 0, "PUBLISH to nobody has receivers");
    ensure!(driver.spublish(&channel, b"message").await? == 0, "SPUBLISH to nobody has receivers");
    let binary = [channel.as_slice(), b"\r\n\x00\xff"].concat();
    ensure!(driver.publish(&binary, b"\x00\xff").await? == 0, "PUBLISH to nobody has receivers");
    ensure!(driver.spublish(&binary, b"\x00\xff").await? == 0, "SPUBLISH to nobody has receivers");
    for command in ["PUBLISH", "SPUBLISH"] {
        let commands: Vec<_> = (0..64).map(|number| Command::new(command).arg(format!("{prefix}nobody:{number}")).arg("message")).collect();
        match driver.pipeline(&commands).await {
            Ok(replies) => {
                for reply in replies {
                    ensure!(reply?.into_value()? == Value::Int(0), "{command} to nobody in a pipeline has receivers");
                }
            }
            // As for any pipeline: the channel is the key.
            Err(Error::Client(_)) if servers.topology == Topology::Cluster && D::DESCRIPTOR.pipeline_reach == PipelineReach::OneSlot => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// A subscriber that can't connect says so in time, and why.
pub async fn a_refused_subscriber<D: Driver>(servers: &Servers, settings: &Settings) -> Checked {
    for (servers, kind) in [(at_a_closed_port(servers)?, "connection"), (with_a_wrong_password(servers), "login")] {
        let started = Instant::now();
        match D::subscriber(&servers, settings, &SubscriberSettings::default()).await {
            Ok(_) => return Err(Fault::Failed("it says that it is connected".into())),
            Err(error @ Error::Unsupported(_)) => return Err(error.into()),
            Err(error) => ensure!(error.kind() == kind, "a refused {kind} is a {} error: {error}", error.kind()),
        }
        ensure!(started.elapsed() < PROMPT, "it took {:?} to say that it can't connect", started.elapsed());
    }
    Ok(())
}
