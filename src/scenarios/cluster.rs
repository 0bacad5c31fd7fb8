//! What only a cluster does: one master forgets all, and slots move.

use std::time::{Duration, Instant};

use super::outcome::{Account, Acted, Fault};
use super::stage::{Stage, ask};
use super::subject::{Subject, fence};
use crate::drivers::{Cached, Error};
use crate::net::{Address, Endpoint};
use crate::resp::key_slot;

/// Keys of the slot that moves.
const MOVED: usize = 128;

/// How long all nodes may take to agree on a slot's new owner.
const AGREE_LIMIT: Duration = Duration::from_secs(10);

/// Between two looks at them.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// `FLUSHALL` on the first master; the keys of the others stay.
pub async fn flush_one_master<C: Cached>(subject: &Subject<'_, C>, account: &mut Account) -> Acted {
    let (stage, keys) = (subject.stage, subject.stage.keys());
    stage.write(&keys, 1).await?;
    subject.warm(&keys, Some(1)).await?;
    let master = stage.servers.first();
    ask(master, &["FLUSHALL"]).await?;
    let mut left = Vec::new();
    for key in &keys {
        left.push(stage.existing(std::slice::from_ref(key)).await? == 1);
    }
    account.remarks.push(format!(
        "{} of {} keys were on the master that was flushed",
        left.iter().filter(|left| !**left).count(),
        keys.len()
    ));
    subject.judge(&keys, |number| left[number].then_some(1), "FLUSHALL of one master", account).await?;
    stage.delete(&keys).await
}

/// A slot moves with all its keys, which are then overwritten at their new node, twice. A client may refuse to read: it can't know.
/// At the end the slot moves back.
pub async fn slot_move<C: Cached>(subject: &Subject<'_, C>, account: &mut Account) -> Acted {
    let stage = subject.stage;
    let keys: Vec<_> = (0..MOVED).map(|number| format!("{}{{moved}}{number}", stage.prefix).into_bytes()).collect();
    stage.write(&keys, 1).await?;
    subject.warm(&keys, Some(1)).await?;
    let (from, to) = &ends(stage, key_slot(&keys[0])).await?;
    move_slot(stage, &keys, from, to).await?;
    let judged = moved(subject, &keys, account).await;
    let deleted = stage.delete(&keys).await;
    move_slot(stage, &keys, to, from).await?;
    judged.and(deleted)
}

async fn moved<C: Cached>(subject: &Subject<'_, C>, keys: &[Vec<u8>], account: &mut Account) -> Acted {
    let stage = subject.stage;
    stage.write(keys, 2).await?;
    let mut said = told(subject).await;
    subject.judge_told(keys, |_| Some(2), "the move of their slot, and another connection's SETs", account, true).await?;
    if account.lasting == 0 && account.refused == 0 {
        // What fails here the judgement below counts.
        let cold = subject.warmed(keys, Some(2)).await.unwrap_or(keys.len());
        if cold > 0 {
            account.remarks.push(format!("{cold} of {} keys were not cached again after the move", keys.len()));
        }
        stage.write(keys, 3).await?;
        said = told(subject).await.or(said);
        subject.judge_told(keys, |_| Some(3), "another connection's SETs after the move of their slot", account, true).await?;
    }
    if let Some(error) = said.filter(|_| account.refused > 0) {
        account.remarks.push(format!("it refuses reads after the move; it said: {error}"));
    }
    Ok(())
}

/// The fence; what the client says when it has none.
async fn told<C: Cached>(subject: &Subject<'_, C>) -> Option<Error> {
    fence(&subject.cached, &subject.stage.fences).await.err()
}

type Master<'a> = (&'a Endpoint, String);

/// The master that has the keys of `slot`, and another; with their ids.
async fn ends<'a>(stage: &Stage<'a>, slot: u16) -> Acted<(Master<'a>, Master<'a>)> {
    let (mut from, mut to) = (None, None);
    for master in &stage.servers.endpoints {
        let id = ask(master, &["CLUSTER", "MYID"]).await?;
        let id = id.as_str().ok_or_else(|| Fault::Failed("CLUSTER MYID is no text".into()))?.to_owned();
        let has = ask(master, &["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()]).await?.as_int().is_some_and(|keys| keys > 0);
        *(if has { &mut from } else { &mut to }) = Some((master, id));
    }
    from.zip(to).ok_or_else(|| Fault::Failed(format!("the slot {slot} has no owner, or nowhere to go")))
}

/// Moves the slot of `keys`, with those that exist, and waits until every node knows.
async fn move_slot(stage: &Stage<'_>, keys: &[Vec<u8>], (from, from_id): &Master<'_>, (to, to_id): &Master<'_>) -> Acted {
    let slot = key_slot(&keys[0]).to_string();
    let Address::Tcp(host, port) = &to.address else { return Err(Fault::Failed("cluster nodes have ports".into())) };
    ask(to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", from_id]).await?;
    ask(from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", to_id]).await?;
    for key in keys {
        let key = std::str::from_utf8(key).map_err(|_| "a key is no text".to_owned())?;
        ask(from, &["MIGRATE", host, &port.to_string(), key, "0", "5000"]).await?;
    }
    // The new owner first: else it might be told by another before it agrees.
    let others = stage.servers.endpoints.iter().filter(|master| master != to && master != from);
    for master in [*to, *from].into_iter().chain(others) {
        ask(master, &["CLUSTER", "SETSLOT", &slot, "NODE", to_id]).await?;
    }
    let key = String::from_utf8_lossy(&keys[0]).into_owned();
    let started = Instant::now();
    for node in stage.nodes {
        while !knows(node, &key, to, *port).await? {
            if started.elapsed() > AGREE_LIMIT {
                return Err(Fault::Failed(format!("{AGREE_LIMIT:?} after the slot {slot} had moved, {node} does not know")));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    Ok(())
}

/// Whether a node answers for `key`, if it is its owner, or else points to the owner's port.
async fn knows(node: &Endpoint, key: &str, owner: &Endpoint, port: u16) -> Acted<bool> {
    match ask(node, &["GET", key]).await {
        Ok(_) => Ok(node == owner),
        Err(error) => match error.redirect() {
            Some(redirect) => Ok(redirect.port == port),
            None => Err(error.into()),
        },
    }
}
