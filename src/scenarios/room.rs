//! Too little room: in the cache, and in the server's table of who read what.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use super::outcome::{Account, Acted, Fault};
use super::stage::Stage;
use super::subject::Subject;
use crate::drivers::{CacheSettings, CacheSupport, Cached, Capacity, Served, Value};

/// Entries that the cache may hold in the scenario `eviction`.
const CAPACITY: NonZeroU64 = NonZeroU64::new(64).unwrap();

/// Keys read for each of them.
const TIMES: usize = 4;

/// How long a client may take to keep house.
const HOUSEKEEPING: Duration = Duration::from_secs(2);

/// Keys that the server may remember in the scenario `tracking-table`.
const TABLE: usize = 16;

/// How long the server may take to shrink its table.
const SHRINK_LIMIT: Duration = Duration::from_secs(5);

pub fn small(options: CacheSettings) -> CacheSettings {
    CacheSettings { capacity: Some(Capacity::Entries(CAPACITY)), ..options }
}

/// Four times as many keys as there is room for.
pub async fn eviction<C: Cached>(subject: &Subject<'_, C>, support: &CacheSupport, account: &mut Account) -> Acted {
    let stage = subject.stage;
    let keys = stage.some_keys(CAPACITY.get() as usize * TIMES);
    stage.write(&keys, 1).await?;
    let mut most = None;
    for (number, key) in keys.iter().enumerate() {
        for _ in 0..2 {
            subject.read(key, number).await?;
            most = most.max(subject.counts().entries);
        }
    }
    if let Some(most) = most.filter(|&most| most > CAPACITY.get()) {
        return Err(Fault::Failed(format!("with room for {CAPACITY} entries it held {most}")));
    }
    let started = Instant::now();
    while support.evictions.is_some() && subject.counts().evictions.unwrap_or(0) == 0 {
        if started.elapsed() > HOUSEKEEPING {
            return Err(Fault::Failed(format!(
                "with room for {CAPACITY} entries, {} keys were read, and it counted no eviction",
                keys.len()
            )));
        }
        // Some clients keep house when they are used.
        subject.read(&keys[0], 0).await?;
        tokio::task::yield_now().await;
    }
    // Those read last first: were there no hits, nothing could be stale.
    let mut hits = 0;
    for (number, key) in keys.iter().enumerate().rev() {
        hits += usize::from(subject.read(key, number).await?.served == Served::Cache);
    }
    if hits == 0 {
        return Err(Fault::Failed(format!("none of {} keys was a hit, with room for {CAPACITY}", keys.len())));
    }
    let evictions = subject.counts().evictions.map_or("nobody counts evictions".to_owned(), |count| format!("{count} evictions"));
    let held = most.map_or("nobody tells how many entries".to_owned(), |most| format!("at most {most} entries"));
    account.remarks.push(format!("room for {CAPACITY}: {held}, {evictions}, {hits} of {} keys were hits before the change", keys.len()));
    stage.write(&keys, 2).await?;
    subject.judge(&keys, |_| Some(2), "another connection's SETs", account).await?;
    stage.delete(&keys).await
}

/// Keys in the tables of all masters.
async fn remembered(stage: &Stage<'_>) -> Acted<usize> {
    let mut most = 0;
    for reply in stage.all_masters(&["INFO", "stats"]).await? {
        let keys =
            reply.as_str().and_then(|text| text.lines().find_map(|line| line.strip_prefix("tracking_total_keys:")?.trim().parse().ok()));
        most = most.max(keys.ok_or_else(|| Fault::Failed("INFO has no tracking_total_keys".into()))?);
    }
    Ok(most)
}

async fn limit_table(stage: &Stage<'_>, keys: &str) -> Acted {
    stage.all_masters(&["CONFIG", "SET", "tracking-table-max-keys", keys]).await.map(drop)
}

/// The server forgets who read what, and must tell so: what it forgets is changed then, and nobody would be told of that.
pub async fn tracking_table<C: Cached>(subject: &Subject<'_, C>, account: &mut Account) -> Acted {
    let (stage, keys) = (subject.stage, subject.stage.keys());
    stage.write(&keys, 1).await?;
    subject.warm(&keys, Some(1)).await?;
    let first = stage.all_masters(&["CONFIG", "GET", "tracking-table-max-keys"]).await?.into_iter().next();
    let usual = match &first {
        Some(Value::Array(parts)) => parts.get(1).and_then(Value::as_str).map(str::to_owned),
        _ => None,
    };
    let usual = usual.ok_or_else(|| Fault::NotPossible("this server has no tracking-table-max-keys".into()))?;
    let before = remembered(stage).await?;
    limit_table(stage, &TABLE.to_string()).await?;
    let shrunk = async {
        let started = Instant::now();
        while remembered(stage).await? > TABLE {
            if started.elapsed() > SHRINK_LIMIT {
                return Err(Fault::Failed(format!("the server remembers more than {TABLE} keys {SHRINK_LIMIT:?} after it was told to")));
            }
        }
        stage.write(&keys, 2).await?;
        subject.judge(&keys, |_| Some(2), "the eviction of its keys from the server's table, and another connection's SETs", account).await
    };
    let judged = shrunk.await;
    limit_table(stage, &usual).await?;
    judged?;
    account.remarks.push(format!("the largest table of a server went from {before} keys to {TABLE}"));
    stage.delete(&keys).await
}
