//! Many callers at once.

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::task::JoinSet;

use super::context::Context;
use super::{Checked, Fault, ensure};
use crate::drivers::{Blob, Command, Error, Lanes, Pipelines, Reply};

/// Waits for all tasks; the first fault is the check's.
pub(super) async fn all_done(mut tasks: JoinSet<Checked>) -> Checked {
    while let Some(done) = tasks.join_next().await {
        done.map_err(|error| Fault::Failed(format!("a caller panicked: {error}")))??;
    }
    Ok(())
}

pub(super) fn is<B: AsRef<[u8]>>(got: &Option<B>, expected: &[u8]) -> bool {
    got.as_ref().is_some_and(|got| got.as_ref() == expected)
}

/// A caller writes and reads its own key, and sees only its own value.
async fn own_key<C: Pipelines>(client: C, key: Vec<u8>) -> Checked {
    let value = [&key[..], b" and its value"].concat();
    client.set(&key, &value).await?;
    let got: Option<Blob<C>> = client.get(&key).await?;
    ensure!(is(&got, &value), "a caller got another caller's reply");
    Ok(())
}

pub async fn a_thousand_callers<C: Pipelines>(context: &Context<'_, C>) -> Checked {
    let mut tasks = JoinSet::new();
    for number in 0..1_000 {
        tasks.spawn(own_key(context.client.clone(), context.key(format!("caller:{number}"))));
    }
    all_done(tasks).await
}

pub async fn pipelines_of_many_callers<C: Pipelines>(context: &Context<'_, C>) -> Checked {
    let mut tasks = JoinSet::new();
    for number in 0..50 {
        let (client, key) = (context.client.clone(), context.key(format!("piper:{number}")));
        tasks.spawn(async move {
            for round in 0..10 {
                let value = format!("{number} {round}").into_bytes();
                let replies = client.pipeline(&[Command::set(&key, &value), Command::get(&key), Command::new("STRLEN").arg(&key)]).await?;
                let [set, get, length] = replies.try_into().map_err(|_| Fault::Failed("not three replies to three commands".into()))?;
                set?.into_ok()?;
                ensure!(is(&get?.into_blob()?, &value), "a pipeline got another pipeline's reply");
                ensure!(length?.into_value()?.as_int() == Some(value.len() as i64), "a pipeline got another pipeline's reply");
            }
            Ok(())
        });
    }
    all_done(tasks).await
}

/// Futures are dropped at their first wait, when their commands are on the way, and tasks are aborted.
pub async fn dropped_futures<C: Pipelines>(context: &Context<'_, C>) -> Checked {
    let (lost, kept) = (context.key("dropped:lost"), context.key("dropped:kept"));
    context.client.set(&lost, b"lost").await?;
    context.client.set(&kept, b"kept").await?;
    let wrong = || Fault::Failed("after a dropped future a caller got another caller's reply".into());
    for _ in 0..50 {
        let mut tasks = JoinSet::new();
        let mut aborted = JoinSet::new();
        for _ in 0..4 {
            let (client, key) = (context.client.clone(), kept.clone());
            tasks.spawn(async move { if is(&client.get(&key).await?, b"kept") { Ok(()) } else { Err(Fault::Failed("mixed up".into())) } });
            let (client, key) = (context.client.clone(), lost.clone());
            aborted.spawn(async move { client.get(&key).await.map(drop) });
            // Polled once, then dropped.
            drop(context.client.get(&lost).now_or_never());
            drop(context.client.pipeline(&[Command::get(&lost), Command::get(&lost)]).now_or_never());
        }
        tokio::task::yield_now().await;
        aborted.abort_all();
        if !is(&context.client.get(&kept).await?, b"kept") {
            return Err(wrong());
        }
        all_done(tasks).await.map_err(|fault| match fault {
            Fault::Failed(reason) if reason == "mixed up" => wrong(),
            other => other,
        })?;
    }
    let replies = context.pipeline(&[Command::get(&kept), Command::new("STRLEN").arg(&kept)]).await?;
    ensure!(replies.len() == 2, "{} replies to 2 commands after dropped futures", replies.len());
    Ok(())
}

pub async fn every_lane_works<C: Pipelines>(context: &Context<'_, C>) -> Checked {
    let key = context.key("lane");
    context.client.set(&key, b"value").await?;
    let Lanes::Handles(handles) = context.client.lanes() else { return Ok(()) };
    ensure!(!handles.is_empty(), "it has no lanes");
    let ids = join_all(handles.iter().map(|handle| async {
        let id = handle.call(&Command::new("CLIENT").arg("ID")).await?.into_value()?.as_int();
        let again = handle.call(&Command::new("CLIENT").arg("ID")).await?.into_value()?.as_int();
        Ok::<_, Error>((id, again, is(&handle.get(&key).await?, b"value")))
    }));
    let mut seen = Vec::new();
    for lane in ids.await {
        let (id, again, right) = lane?;
        ensure!(right, "a lane returned a wrong value");
        ensure!(id.is_some() && id == again, "a lane uses several connections");
        ensure!(!seen.contains(&id), "two lanes share a connection");
        seen.push(id);
    }
    Ok(())
}
