//! Keys and entries that grow too old.

use std::time::{Duration, Instant};

use super::outcome::{Account, Acted, Fault};
use super::subject::{PATIENCE, Subject};
use crate::drivers::{Cached, Served};

/// The client's time to live in the scenario `ttl`.
pub const CLIENT_TTL: Duration = Duration::from_secs(1);

/// What a client's clock may be late.
const GRAIN: Duration = Duration::from_millis(50);

/// How long the keys live on the server: longer than it takes to read each a few times.
const SERVER_TTL: Duration = Duration::from_secs(2);

/// The longest that the server may take to expire them.
const EXPIRE_LIMIT: Duration = Duration::from_secs(10);

/// Between two looks at the server.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// An entry older than [`CLIENT_TTL`] must be asked of the server.
pub async fn client_ttl<C: Cached>(subject: &Subject<'_, C>, account: &mut Account) -> Acted {
    let (stage, keys) = (subject.stage, subject.stage.keys());
    stage.write(&keys, 1).await?;
    subject.warm(&keys, Some(1)).await?;
    let warmed = Instant::now();
    let before = subject.counts();
    tokio::time::sleep(CLIENT_TTL + GRAIN).await;
    let mut wrong = Vec::new();
    for (number, key) in keys.iter().enumerate() {
        account.judged += 1;
        if subject.read(key, number).await?.served == Served::Cache {
            account.stale(|| {
                format!("key {number} was served from the cache {:.2?} after it was stored, to live {CLIENT_TTL:?}", warmed.elapsed())
            });
            wrong.push(number);
        }
    }
    while !wrong.is_empty() && warmed.elapsed() < CLIENT_TTL + PATIENCE {
        let mut still = Vec::new();
        for number in wrong {
            match subject.read(&keys[number], number).await?.served {
                Served::Cache | Served::Unknown => still.push(number),
                Served::Server => account.mended(warmed.elapsed().saturating_sub(CLIENT_TTL)),
            }
        }
        wrong = still;
        tokio::task::yield_now().await;
    }
    account.lasting += wrong.len() as u64;
    let counts = subject.counts();
    let expired = counts.expirations.zip(before.expirations).map(|(after, before)| after - before);
    account.remarks.push(match expired {
        Some(expired) => format!("{} misses and {expired} expirations after the time to live", counts.misses - before.misses),
        None => format!("{} misses after the time to live", counts.misses - before.misses),
    });
    stage.delete(&keys).await
}

/// The server expires the keys and says so.
pub async fn server_expiry<C: Cached>(subject: &Subject<'_, C>, account: &mut Account) -> Acted {
    let (stage, keys) = (subject.stage, subject.stage.keys());
    stage.write(&keys, 1).await?;
    let milliseconds = SERVER_TTL.as_millis().to_string();
    let started = Instant::now();
    stage.each(&["PEXPIRE"], &keys, &[&milliseconds]).await?;
    subject.warm(&keys, Some(1)).await?;
    if started.elapsed() >= SERVER_TTL {
        return Err(Fault::Failed(format!("the machine is too slow: it took {SERVER_TTL:?} to read all keys twice")));
    }
    while stage.existing(&keys).await? > 0 {
        if started.elapsed() > EXPIRE_LIMIT {
            return Err(Fault::Failed(format!("{EXPIRE_LIMIT:?} after PEXPIRE {milliseconds} keys are still on the server")));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    subject.judge(&keys, |_| None, "their expiry on the server", account).await
}
