//! The cache of the driver `rustis`, on servers of our own.
#![cfg(feature = "rustis")]

mod common;

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use redis_client_bench::drivers::rustis::Rustis;
use redis_client_bench::drivers::{
    CacheMode, CacheSettings, Cached, Capacity, ClientCache, Command, Commands, Driver, Error, Resp, Served, Servers, Settings,
};
use redis_client_bench::net::Connection;

type Client = <Rustis as ClientCache>::Cached;

const PATIENCE: Duration = Duration::from_secs(5);

fn settings() -> Settings {
    Settings { resp: Resp::V3, ..Settings::default() }
}

async fn cached(servers: &Servers, options: &CacheSettings) -> Client {
    Rustis::cached(servers, &settings(), options).await.expect("it connects")
}

async fn read(client: &Client, key: &str) -> (Option<String>, Served) {
    let read = client.get(key.as_bytes()).await.expect("a reply");
    (read.value.map(|value| String::from_utf8(value).expect("a text")), read.served)
}

/// Reads until `value` comes, and returns how many reads were hits.
async fn read_until(client: &Client, key: &str, value: &str) -> u64 {
    let (started, mut hits) = (Instant::now(), 0);
    loop {
        let (got, served) = read(client, key).await;
        hits += u64::from(served == Served::Cache);
        if got.as_deref() == Some(value) {
            return hits;
        }
        assert!(started.elapsed() < PATIENCE, "{key} still reads {got:?} instead of {value:?}");
        tokio::task::yield_now().await;
    }
}

/// A hit after a first read, nil too; a miss after a foreign write and after an own; and every count exact.
async fn keys_are_kept_until_they_change(servers: &Servers, options: &CacheSettings) {
    const KEYS: u64 = 30;
    let other = Rustis::connect(servers, &settings()).await.unwrap();
    let keys: Vec<_> = (0..KEYS).map(|number| format!("rcb-test:cache:{number}")).collect();
    for key in &keys {
        other.call(&Command::new("DEL").arg(key)).await.unwrap();
    }
    let client = cached(servers, options).await;
    let (mut hits, mut misses) = (0, 0);
    for key in &keys {
        assert_eq!(read(&client, key).await, (None, Served::Server), "{key}");
        assert_eq!(read(&client, key).await, (None, Served::Cache), "{key}");
        (hits, misses) = (hits + 1, misses + 1);
    }
    for value in ["foreign", "own"] {
        for key in &keys {
            if value == "own" {
                client.set(key.as_bytes(), value.as_bytes()).await.unwrap();
            } else {
                other.set(key.as_bytes(), value.as_bytes()).await.unwrap();
            }
            hits += read_until(&client, key, value).await;
            assert_eq!(read(&client, key).await, (Some(value.into()), Served::Cache), "{key}");
            (hits, misses) = (hits + 1, misses + 1);
        }
    }
    let counts = client.counts();
    assert_eq!((counts.hits, counts.misses, counts.invalidations), (hits, misses, 2 * KEYS), "{counts:?}");
    assert_eq!((counts.evictions, counts.expirations), (Some(0), Some(0)), "{counts:?}");
    client.close().await;
    other.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_forgets_what_changed_on_a_server_and_on_a_cluster() {
    let broadcast = CacheSettings { mode: CacheMode::Broadcast, prefix: b"rcb-test:cache:".to_vec(), ..CacheSettings::default() };
    for (servers, _guard) in [common::standalone().await, common::cluster().await] {
        for options in [&CacheSettings::default(), &broadcast] {
            keys_are_kept_until_they_change(&servers, options).await;
        }
    }
    let (servers, _guard) = common::cluster_with_replicas().await;
    keys_are_kept_until_they_change(&servers, &CacheSettings::default()).await;
    // Replicas broadcast too, each when it has the write: a key may be dropped once more after it was read again.
    let client = cached(&servers, &broadcast).await;
    let other = Rustis::connect(&servers, &settings()).await.unwrap();
    for key in (0..30).map(|number| format!("rcb-test:cache:{number}")) {
        for value in ["first", "second"] {
            other.set(key.as_bytes(), value.as_bytes()).await.unwrap();
            read_until(&client, &key, value).await;
        }
        let started = Instant::now();
        while read(&client, &key).await.1 != Served::Cache {
            assert!(started.elapsed() < PATIENCE, "{key} is never a hit");
        }
    }
    assert!(client.counts().invalidations >= 30, "{:?}", client.counts());
    client.close().await;
    other.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn size_and_age_end_entries_and_are_counted_apart() {
    let (servers, _guard) = common::standalone().await;
    let small = CacheSettings { capacity: Some(Capacity::Entries(NonZeroU64::new(10).unwrap())), ..CacheSettings::default() };
    let client = cached(&servers, &small).await;
    let started = Instant::now();
    let mut reads = 0;
    while client.counts().evictions < Some(50) {
        assert_eq!(read(&client, &format!("rcb-test:cache:size:{reads}")).await.1, Served::Server);
        reads += 1;
        assert!(started.elapsed() < PATIENCE, "{:?}", client.counts());
    }
    let counts = client.counts();
    assert_eq!((counts.invalidations, counts.expirations, counts.misses), (0, Some(0), reads), "{counts:?}");
    client.close().await;

    let brief = CacheSettings { ttl: Some(Duration::from_millis(20)), ..CacheSettings::default() };
    let client = cached(&servers, &brief).await;
    let started = Instant::now();
    let key = "rcb-test:cache:age";
    while client.counts().expirations < Some(2) {
        read(&client, key).await;
        tokio::task::yield_now().await;
        assert!(started.elapsed() < PATIENCE, "{:?}", client.counts());
    }
    let counts = client.counts();
    assert!(counts.hits > 0 && counts.misses > 1 && counts.invalidations == 0 && counts.evictions == Some(0), "{counts:?}");
    client.close().await;
}

#[tokio::test]
async fn what_it_cannot_do_it_refuses() {
    let (servers, _guard) = common::standalone().await;
    let opt_in = CacheSettings { mode: CacheMode::OptIn, ..CacheSettings::default() };
    let bytes = CacheSettings { capacity: Some(Capacity::Bytes(NonZeroU64::MIN)), ..CacheSettings::default() };
    for options in [opt_in, bytes] {
        let refused = Rustis::cached(&servers, &settings(), &options).await.err();
        assert!(matches!(refused, Some(Error::Unsupported(_))), "{options:?}: {refused:?}");
    }
    let refused = Rustis::cached(&servers, &Settings::default(), &CacheSettings::default()).await.err();
    assert!(matches!(refused, Some(Error::Unsupported(reason)) if reason.contains("RESP3")), "{refused:?}");
}

async fn connections(servers: &Servers) -> usize {
    let mut connections = 0;
    for endpoint in &servers.endpoints {
        let mut connection = Connection::open(endpoint, Resp::V2, true).await.unwrap();
        let list = connection.request(&Command::new("CLIENT").arg("LIST").arg("TYPE").arg("normal")).await.unwrap();
        connections += list.as_str().unwrap().lines().count() - 1;
    }
    connections
}

async fn none_are_left(servers: &Servers) {
    let started = Instant::now();
    while connections(servers).await > 0 {
        assert!(started.elapsed() < PATIENCE, "{} connections are left", connections(servers).await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Closed or dropped, it leaves no connection; and after a lost one it knows nothing of before.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_empties_it_and_the_end_leaves_none() {
    for (servers, _guard) in [common::standalone().await, common::cluster().await] {
        let client = cached(&servers, &CacheSettings::default()).await;
        assert_eq!(connections(&servers).await, servers.endpoints.len());
        let key = "rcb-test:cache:lost";
        client.set(key.as_bytes(), b"before").await.unwrap();
        read_until(&client, key, "before").await;
        for endpoint in &servers.endpoints {
            let mut connection = Connection::open(endpoint, Resp::V2, true).await.unwrap();
            connection.request(&Command::new("CLIENT").arg("KILL").arg("TYPE").arg("normal").arg("SKIPME").arg("yes")).await.unwrap();
        }
        // Written while nobody could tell it.
        let other = Rustis::connect(&servers, &settings()).await.unwrap();
        other.set(key.as_bytes(), b"after").await.unwrap();
        other.close().await;
        let started = Instant::now();
        while !matches!(client.get(key.as_bytes()).await, Ok(read) if read.value.as_deref() == Some(b"after")) {
            assert!(started.elapsed() < PATIENCE, "it reads on what was before");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        client.close().await;
        none_are_left(&servers).await;
        let dropped = cached(&servers, &CacheSettings::default()).await;
        read(&dropped, key).await;
        drop(dropped);
        none_are_left(&servers).await;
    }
}

/// What the notes say of two readers of one key. When this fails, the crate has mended it and the note must go.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_reader_stores_an_old_value_after_another_has_stored_the_new() {
    let (servers, _guard) = common::standalone().await;
    let other = Rustis::connect(&servers, &settings()).await.unwrap();
    let client = cached(&servers, &CacheSettings::default()).await;
    let marker = "rcb-test:cache:marker";
    let fence = async || client.client().call(&Command::new("UNLINK").arg("rcb-test:cache:fence")).await.map(drop).expect("a reply");
    other.set(marker.as_bytes(), b"old").await.unwrap();
    while read(&client, marker).await.1 == Served::Server {}
    // A GET that is sent, and answered before the fence, while its reader was not told yet. On a busy machine the reply may be there
    // at the first look already; then the next key is tried.
    let (mut number, started) = (0, Instant::now());
    let (key, late) = loop {
        number += 1;
        let key = format!("rcb-test:cache:late:{number}");
        other.set(key.as_bytes(), b"old").await.unwrap();
        let (reader, wanted) = (client.clone(), key.clone());
        let mut late = Box::pin(async move { reader.get(wanted.as_bytes()).await });
        let waits = std::future::poll_fn(|context| std::task::Poll::Ready(late.as_mut().poll(context).is_pending())).await;
        if waits {
            break (key, late);
        }
        assert!(started.elapsed() < PATIENCE, "the first read of a key goes to the server");
    };
    let key = key.as_str();
    fence().await;
    // When the change of the marker is known, so is that of the key, which came before.
    for key in [key, marker] {
        other.set(key.as_bytes(), b"new").await.unwrap();
    }
    fence().await;
    read_until(&client, marker, "new").await;
    while read(&client, key).await != (Some("new".into()), Served::Cache) {}
    // It began before the change, so the old value is a right answer, and must not be kept.
    let read_late = late.await.unwrap();
    assert_eq!((read_late.value.as_deref(), read_late.served), (Some(&b"old"[..]), Served::Server));
    fence().await;
    assert_eq!(read(&client, key).await, (Some("old".into()), Served::Cache), "it keeps no old value any more");
    // The other reader has had the key tracked, so its next change is told.
    other.set(key.as_bytes(), b"newer").await.unwrap();
    fence().await;
    read_until(&client, key, "newer").await;
    for key in (1..=number).map(|number| format!("rcb-test:cache:late:{number}")).chain([marker.to_owned()]) {
        other.call(&Command::new("DEL").arg(&key)).await.unwrap();
    }
    client.close().await;
    other.close().await;
}
