//! A tracked connection that is lost, and what is served until there is another.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::outcome::{Account, Acted, Away, Fault, NOTICE_WITHIN};
use super::stage::{Stage, ask, version};
use super::subject::{Subject, fence};
use crate::drivers::{CacheSupport, Cached, Command, Commands, Error, Reply, Value};
use crate::measure::clock::nanos;
use crate::net::Endpoint;

/// The longest that a client may take to connect again, when it says that it does.
const BACK_WITHIN: Duration = Duration::from_secs(10);

/// How long one that does not is watched.
const WATCHED: Duration = Duration::from_secs(2);

/// The longest wait for one read while the connection is away.
const READ_WITHIN: Duration = Duration::from_millis(100);

/// Between two tries, and two passes over the keys.
const PAUSE: Duration = Duration::from_millis(5);

pub async fn client_kill<C: Cached>(subject: &Subject<'_, C>, support: &CacheSupport, account: &mut Account) -> Acted {
    let (stage, keys) = (subject.stage, subject.stage.keys());
    stage.write(&keys, 1).await?;
    subject.warm(&keys, Some(1)).await?;
    if kill_tracked(subject).await? == 0 {
        return Err(Fault::Failed("the servers know no tracked connection".into()));
    }
    let lost = Instant::now();
    stage.write_at_once(&keys, 2).await?;
    let away = watched(subject, &keys, lost, support).await?;
    let back = away.back_ns.is_some();
    let said = away.said.clone().unwrap_or_else(|| "nothing".into());
    account.away = Some(away);
    match (support.reconnects, back) {
        (true, false) => {
            return Err(Fault::Failed(format!("it says that it connects again, and {BACK_WITHIN:?} after the loss it said: {said}")));
        }
        (false, true) => account.remarks.push("it connected again, and says that it does not".into()),
        _ => {}
    }
    if back {
        subject.judge_told(&keys, |_| Some(2), "its new connection", account, false).await?;
        if account.lasting == 0 {
            subject.warm(&keys, Some(2)).await?;
            stage.write(&keys, 3).await?;
            subject.judge(&keys, |_| Some(3), "another connection's SETs after it had connected again", account).await?;
        }
    }
    stage.delete(&keys).await
}

/// Reads all keys again and again until a command has its reply on every tracked connection.
async fn watched<C: Cached>(subject: &Subject<'_, C>, keys: &[Vec<u8>], lost: Instant, support: &CacheSupport) -> Acted<Away> {
    let limit = if support.reconnects { BACK_WITHIN } else { WATCHED };
    let (cached, fences) = (subject.cached.clone(), subject.stage.fences.clone());
    let back = tokio::spawn(async move {
        let mut said: Option<Error> = None;
        let trying = async {
            while let Err(error) = fence(&cached, &fences).await {
                said.get_or_insert(error);
                sleep(PAUSE).await;
            }
            nanos(lost.elapsed())
        };
        let back = timeout(limit, trying).await.ok();
        (back, said)
    });
    let mut away = Away { keys: keys.len() as u64, ..Away::default() };
    let mut late = BTreeSet::new();
    let mut said = None;
    while !back.is_finished() {
        for (number, key) in keys.iter().enumerate() {
            let began = lost.elapsed();
            match timeout(READ_WITHIN, subject.cached.get(key)).await {
                Ok(Ok(read)) => match read.value.map(|value| version(value.as_ref(), number)).transpose()? {
                    Some(2) => away.new_reads += 1,
                    _ => {
                        away.old_reads += 1;
                        away.last_old_ns = Some(nanos(began));
                        if began > NOTICE_WITHIN {
                            late.insert(number);
                        }
                    }
                },
                Ok(Err(error)) => {
                    away.failed_reads += 1;
                    said.get_or_insert(error);
                }
                Err(_) => away.slow_reads += 1,
            }
            if back.is_finished() {
                break;
            }
        }
        sleep(PAUSE).await;
    }
    let (back, first) = back.await.map_err(|error| format!("the fence ended: {error}"))?;
    away.late_keys = late.len() as u64;
    away.back_ns = back;
    away.said = said.or(first).map(|error| error.to_string());
    Ok(away)
}

/// Ends the tracked connections of the client; how many there were. On servers of our own there are no others.
async fn kill_tracked<C: Cached>(subject: &Subject<'_, C>) -> Acted<usize> {
    let Stage { nodes, servers, ours, .. } = subject.stage;
    let mut killed = 0;
    if !ours {
        let id = subject.cached.client().call(&Command::new("CLIENT").arg("ID")).await?.into_value()?;
        let id = id.as_int().ok_or_else(|| Fault::Failed("CLIENT ID was not answered with a number".into()))?.to_string();
        if tracked(servers.first()).await?.contains(&id) {
            ask(servers.first(), &["CLIENT", "KILL", "ID", &id]).await?;
            killed += 1;
        }
        return Ok(killed);
    }
    for node in *nodes {
        for id in tracked(node).await? {
            ask(node, &["CLIENT", "KILL", "ID", &id]).await?;
            killed += 1;
        }
    }
    Ok(killed)
}

/// The ids of a server's tracked connections.
async fn tracked(node: &Endpoint) -> Acted<Vec<String>> {
    let Value::Blob(list) = ask(node, &["CLIENT", "LIST"]).await? else { return Ok(Vec::new()) };
    let mut ids = Vec::new();
    for line in String::from_utf8_lossy(&list).lines() {
        let field = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).unwrap_or_default();
        if field("flags").contains('t') {
            ids.push(field("id").to_owned());
        }
    }
    Ok(ids)
}
