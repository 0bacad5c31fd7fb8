//! Replies that race with the invalidations of their keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::task::JoinSet;
use tokio::task::coop::consume_budget;

use super::outcome::{Account, Acted};
use super::stage::value;
use super::subject::Subject;
use crate::drivers::{Cached, Commands, Error};

const READERS: usize = 16;

/// Writes of each key, one right after the other.
const WRITES: u64 = 16;

/// Every key in turn is read by all callers all the time while it is overwritten again and again. When all is quiet each must have its last
/// value. A cache that stores a reply after the invalidation that overtook it keeps an older one, with nobody left to tell it.
pub async fn race<C: Cached>(subject: &Subject<'_, C>, account: &mut Account) -> Acted {
    let (stage, keys) = (subject.stage, Arc::new(subject.stage.keys()));
    stage.write(&keys, 1).await?;
    let (hot, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let mut readers: JoinSet<Result<(), Error>> = JoinSet::new();
    for reader in 0..READERS {
        let (cached, keys, hot, done) = (subject.cached.clone(), keys.clone(), hot.clone(), done.clone());
        readers.spawn(async move {
            let mut turn = reader;
            while !done.load(Ordering::Relaxed) {
                turn += 1;
                // Every fourth read is of another key.
                let number = if turn % 4 == 0 { turn / 4 % keys.len() } else { hot.load(Ordering::Relaxed) };
                cached.get(&keys[number]).await?;
                consume_budget().await;
            }
            Ok(())
        });
    }
    let writing = async {
        for (number, key) in keys.iter().enumerate() {
            hot.store(number, Ordering::Relaxed);
            for version in 2..2 + WRITES {
                stage.foreign.set(key, &value(version, number)).await?;
            }
        }
        Ok::<_, Error>(())
    };
    let written = writing.await;
    done.store(true, Ordering::Relaxed);
    while let Some(ended) = readers.join_next().await {
        ended.map_err(|error| format!("a reader ended: {error}"))??;
    }
    written?;
    account.remarks.push(format!("{} writes of {} keys, {READERS} readers", WRITES * keys.len() as u64, keys.len()));
    subject.judge(&keys, |_| Some(1 + WRITES), "the last of many SETs", account).await?;
    stage.delete(&keys).await
}
