//! Keys that are overwritten, deleted and flushed.

use super::outcome::{Account, Acted};
use super::stage::value;
use super::subject::Subject;
use crate::drivers::Cached;

pub async fn overwrite<C: Cached>(subject: &Subject<'_, C>, account: &mut Account) -> Acted {
    let (stage, keys) = (subject.stage, subject.stage.keys());
    stage.write(&keys, 1).await?;
    for (round, version) in [2, 3, 4, 5].into_iter().enumerate() {
        subject.warm(&keys, Some(version - 1)).await?;
        if round % 2 == 0 {
            stage.write(&keys, version).await?;
            subject.judge(&keys, |_| Some(version), "another connection's SETs one by one", account).await?;
        } else {
            stage.write_at_once(&keys, version).await?;
            subject.judge(&keys, |_| Some(version), "another connection's SETs all at once", account).await?;
        }
        if account.lasting > 0 {
            break;
        }
    }
    stage.delete(&keys).await
}

pub async fn own_writes<C: Cached>(subject: &Subject<'_, C>, account: &mut Account) -> Acted {
    let (stage, keys) = (subject.stage, subject.stage.keys());
    stage.write(&keys, 1).await?;
    subject.warm(&keys, Some(1)).await?;
    for (number, key) in keys.iter().enumerate() {
        subject.cached.set(key, &value(2, number)).await?;
    }
    subject.judge(&keys, |_| Some(2), "its own SETs", account).await?;
    if account.lasting == 0 {
        subject.warm(&keys, Some(2)).await?;
        stage.write(&keys, 3).await?;
        subject.judge(&keys, |_| Some(3), "another connection's SETs after its own", account).await?;
    }
    stage.delete(&keys).await
}

pub async fn delete<C: Cached>(subject: &Subject<'_, C>, account: &mut Account) -> Acted {
    let (stage, keys) = (subject.stage, subject.stage.keys());
    stage.write(&keys, 1).await?;
    subject.warm(&keys, Some(1)).await?;
    let (first, second) = keys.split_at(keys.len() / 2);
    stage.each(&["DEL"], first, &[]).await?;
    stage.each(&["UNLINK"], second, &[]).await?;
    subject.judge(&keys, |_| None, "their deletion", account).await
}

/// `FLUSHALL` or `FLUSHDB` on every master.
pub async fn flush<C: Cached>(subject: &Subject<'_, C>, command: &str, account: &mut Account) -> Acted {
    let (stage, keys) = (subject.stage, subject.stage.keys());
    stage.write(&keys, 1).await?;
    subject.warm(&keys, Some(1)).await?;
    stage.all_masters(&[command]).await?;
    subject.judge(&keys, |_| None, command, account).await?;
    if account.lasting == 0 {
        // The server forgot who had read what, too.
        stage.write(&keys, 2).await?;
        subject.fence().await?;
        subject.warm(&keys, Some(2)).await?;
        stage.write(&keys, 3).await?;
        subject.judge(&keys, |_| Some(3), &format!("another connection's SETs after {command}"), account).await?;
    }
    stage.delete(&keys).await
}
