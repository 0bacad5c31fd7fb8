//! A window on a cluster while a slot moves: ASK and MOVED are followed, and nobody loses a reply.

use std::time::Duration;

use redis_client_bench::drivers::{Command, Commands, Driver, Error, Pipelines, Reply, Servers, Settings, Strategy, raw::Raw};
use redis_client_bench::net::{Connection, Endpoint};
use redis_client_bench::resp::{Resp, Value, key_slot};
use redis_client_bench::window::{Routed, Window};

mod common;

async fn admin(endpoint: &Endpoint) -> Connection {
    Connection::open(endpoint, Resp::V2, true).await.unwrap()
}

async fn ask(connection: &mut Connection, words: &[&str]) -> Value {
    let command = words[1..].iter().fold(Command::new(words[0]), |command, word| command.arg(word));
    connection.request(&command).await.unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

async fn windows(servers: &Servers) -> Routed<Window<Raw>> {
    let strategy = Strategy::Window { window: Duration::from_micros(100), limit: 0 };
    let settings = Settings { connections: 2.try_into().unwrap(), strategy, ..Settings::default() };
    let connect = move |endpoint| {
        let settings = settings.clone();
        async move { Window::new(Raw::connect(&Servers::standalone(endpoint), &settings).await?, &settings) }
    };
    Routed::connect(servers, connect).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moves_under_load_costs_no_reply() {
    let (servers, _guard) = common::cluster().await;
    let client = windows(&servers).await;
    let keys: Vec<String> = (0..40).map(|index| format!("{{moving}}:{index}")).collect();
    for key in &keys {
        client.set(key.as_bytes(), key.as_bytes()).await.unwrap();
    }
    let slot = key_slot(b"moving").to_string();

    // Who serves the slot, and who is to.
    let (mut from, mut to, mut ids) = (None, None, Vec::new());
    for endpoint in &servers.endpoints {
        let mut connection = admin(endpoint).await;
        let id = ask(&mut connection, &["CLUSTER", "MYID"]).await.as_str().unwrap().to_owned();
        let own = ask(&mut connection, &["CLUSTER", "COUNTKEYSINSLOT", &slot]).await.as_int().unwrap() > 0;
        ids.push((id, endpoint.clone()));
        match (own, &to) {
            (true, _) => from = Some(ids.len() - 1),
            (false, None) => to = Some(ids.len() - 1),
            (false, Some(_)) => {}
        }
    }
    let ((from_id, from), (to_id, to)) = (ids[from.unwrap()].clone(), ids[to.unwrap()].clone());
    let (mut source, mut target) = (admin(&from).await, admin(&to).await);

    // Readers and writers all the while, each checking its own replies.
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let load: Vec<_> = keys
        .iter()
        .map(|key| {
            let (client, key, stop) = (client.clone(), key.clone(), stop.clone());
            tokio::spawn(async move {
                let mut rounds = 0u64;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    client.set(key.as_bytes(), key.as_bytes()).await?;
                    let value = client.get(key.as_bytes()).await?;
                    assert_eq!(value.as_deref(), Some(key.as_bytes()));
                    rounds += 1;
                }
                Ok::<u64, Error>(rounds)
            })
        })
        .collect();

    ask(&mut target, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]).await;
    ask(&mut source, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]).await;
    // With a key gone from the source, the source answers ASK.
    let (host, port) = match &to.address {
        redis_client_bench::net::Address::Tcp(host, port) => (host.clone(), port.to_string()),
        redis_client_bench::net::Address::Unix(_) => unreachable!("cluster nodes have ports"),
    };
    for key in &keys {
        ask(&mut source, &["MIGRATE", &host, &port, key, "0", "5000"]).await;
    }
    let errors = |text: &Value| text.as_str().unwrap_or_default().to_owned();
    let stats = errors(&ask(&mut source, &["INFO", "errorstats"]).await);
    let pipeline: Vec<Command> = keys.iter().map(|key| Command::get(key.as_bytes())).collect();
    for (reply, key) in client.pipeline(&pipeline).await.unwrap().into_iter().zip(&keys) {
        assert_eq!(reply.unwrap().into_blob().unwrap().as_deref(), Some(key.as_bytes()));
    }
    let asked = errors(&ask(&mut source, &["INFO", "errorstats"]).await);
    assert!(asked.contains("errorstat_ASK"), "the source never answered ASK: {stats} / {asked}");

    ask(&mut target, &["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]).await;
    ask(&mut source, &["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]).await;
    // After MOVED the commands go straight to the new node.
    assert_eq!(client.get(keys[0].as_bytes()).await.unwrap().as_deref(), Some(keys[0].as_bytes()));
    let moved = errors(&ask(&mut source, &["INFO", "errorstats"]).await);
    assert!(moved.contains("errorstat_MOVED"), "{moved}");
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    for task in load {
        assert!(task.await.unwrap().unwrap() > 0);
    }
    let before = errors(&ask(&mut source, &["INFO", "errorstats"]).await);
    for key in &keys {
        client.get(key.as_bytes()).await.unwrap();
    }
    assert_eq!(before, errors(&ask(&mut source, &["INFO", "errorstats"]).await), "the new node was not remembered");
    for window in client.nodes() {
        window.close().await;
    }
}
