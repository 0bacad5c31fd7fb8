//! One seed: the same keys and values, whatever the driver.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redis_client_bench::drivers::{Command, Commands, Driver, Reply, Servers, Settings, Value, find, raw::Raw};
use redis_client_bench::workload::load::engine::{Ended, Job};
use redis_client_bench::workload::load::loader::open;
use redis_client_bench::workload::mix::{CommandSpec, DataSize, Mix, MixOptions};

use super::common;

async fn ask(raw: &Raw, words: &[&[u8]]) -> Value {
    let name = std::str::from_utf8(words[0]).unwrap();
    let command = words[1..].iter().fold(Command::new(name), |command, word| command.arg(word));
    raw.call(&command).await.unwrap().into_value().unwrap()
}

/// All keys with their values; the fields of a hash in order.
async fn dump(raw: &Raw) -> BTreeMap<Vec<u8>, Vec<Vec<u8>>> {
    let Value::Array(keys) = ask(raw, &[b"KEYS", b"*"]).await else { panic!("KEYS gives an array") };
    let mut all = BTreeMap::new();
    for key in &keys {
        let key = key.as_bytes().unwrap();
        let values = match ask(raw, &[b"TYPE", key]).await.as_str().unwrap() {
            "hash" => {
                let Value::Array(flat) = ask(raw, &[b"HGETALL", key]).await else { panic!("HGETALL gives an array") };
                let bytes = |value: &Value| value.as_bytes().unwrap().to_vec();
                let mut pairs: Vec<Vec<u8>> =
                    flat.chunks(2).map(|pair| [bytes(&pair[0]), b"=".to_vec(), bytes(&pair[1])].concat()).collect();
                pairs.sort_unstable();
                pairs
            }
            _ => vec![ask(raw, &[b"GET", key]).await.as_bytes().unwrap().to_vec()],
        };
        all.insert(key.to_vec(), values);
    }
    all
}

async fn load(servers: &Servers, driver: &str, seed: u64, pipeline: usize) {
    let commands = ["SET __key__ __data__", "HSET hash:__key__ __field__ __data__", "INCR counter:__key__"];
    let specs = commands.iter().map(|text| CommandSpec::parse(text).unwrap()).collect();
    let options = MixOptions { seed, keys: 200, data: DataSize::Range(3, 90), ..MixOptions::default() };
    let mix = Arc::new(Mix::new(specs, options).unwrap().0);
    let job = Job {
        callers: 7,
        pipeline,
        transaction: false,
        commands: Some(3_001),
        time: None,
        open: None,
        seed,
        first: 0,
        continue_on_error: false,
        verify: true,
        patience: Duration::from_secs(30),
    };
    let settings = Settings { resp: find(driver).unwrap().usual_resp(), ..Settings::default() };
    let loader = open(driver, servers, &settings).unwrap().await.unwrap();
    let outcome = loader.run(&mix, &job, 2, Box::new(|_| {})).await.unwrap();
    assert_eq!((outcome.ended, outcome.total.done()), (Ended::Done, 3_001), "{driver}");
    loader.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_seed_leaves_the_same_keyspace_with_every_driver() {
    let (servers, _guard) = common::standalone().await;
    let raw = Raw::connect(&servers, &Settings::default()).await.unwrap();
    let mut first = None;
    let drivers = redis_client_bench::drivers::DRIVERS.iter().map(|driver| driver.name).filter(|name| *name != "redis-rs-cluster");
    for (driver, pipeline) in drivers.map(|driver| (driver, 1)).chain([("raw", 16)]) {
        load(&servers, driver, 42, pipeline).await;
        let found = dump(&raw).await;
        ask(&raw, &[b"FLUSHALL"]).await;
        assert!(found.len() > 500, "{driver}: {}", found.len());
        assert!(found == *first.get_or_insert_with(|| found.clone()), "{driver} left other keys or values");
    }
    load(&servers, "raw", 43, 1).await;
    assert!(Some(dump(&raw).await) != first, "another seed is another load");
}
