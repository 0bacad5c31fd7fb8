//! `MULTI` … `EXEC`.

use futures_util::FutureExt;

use super::callers::{all_done, is};
use super::commands::{every_byte, server_error};
use super::context::Context;
use super::{Checked, Fault, ensure};
use crate::drivers::{Command, Error, Lanes, Reply, Resp, ServerError, Topology, Transactions, Value};
use crate::net::Connection;
use crate::resp::key_slot;

/// What a refused transaction must leave behind: nothing written, and connections that serve as before.
async fn left_as_before<C: Transactions>(context: &Context<'_, C>, unwritten: &[&[u8]], written: &[u8]) -> Checked {
    for key in unwritten {
        ensure!(context.client.get(key).await?.is_none(), "a transaction that failed as a whole was executed in part");
    }
    // More often than there are connections, so that each is used.
    for round in 0..8 {
        let value = format!("round {round}").into_bytes();
        context.client.set(written, &value).await?;
        let replies = context.client.transaction(&[Command::get(written), Command::new("STRLEN").arg(written)]).await?;
        let [get, length] = replies.try_into().map_err(|_| Fault::Failed("not two replies to two commands".into()))?;
        ensure!(is(&get?.into_blob()?, &value), "after a transaction that failed another returned a wrong value");
        ensure!(length?.into_value()?.as_int() == Some(value.len() as i64), "after a transaction that failed replies are out of step");
    }
    Ok(())
}

pub async fn the_replies_of_a_transaction<C: Transactions>(context: &Context<'_, C>) -> Checked {
    let [text, counter, list, missing] = [0, 1, 2, 3].map(|number| context.transaction_key("replies", number));
    let bytes = every_byte();
    let commands = [
        Command::set(&text, &bytes),
        Command::get(&text),
        Command::get(&missing),
        Command::new("INCR").arg(&counter),
        Command::new("INCRBY").arg(&counter).arg("41"),
        Command::new("RPUSH").arg(&list).arg("one").arg("").arg(&bytes),
        Command::new("LRANGE").arg(&list).arg("0").arg("-1"),
        Command::hkeys(&missing),
        Command::new("STRLEN").arg(&text),
    ];
    let blob = |bytes: &[u8]| Value::Blob(bytes.to_vec());
    let expected = [
        Value::Simple("OK".into()),
        blob(&bytes),
        Value::Nil,
        Value::Int(1),
        Value::Int(42),
        Value::Int(3),
        Value::Array(vec![blob(b"one"), blob(b""), blob(&bytes)]),
        Value::Array(vec![]),
        Value::Int(bytes.len() as i64),
    ];
    let replies = context.client.transaction(&commands).await?;
    ensure!(replies.len() == commands.len(), "{} replies to {} commands", replies.len(), commands.len());
    for ((command, reply), expected) in commands.iter().zip(replies).zip(expected) {
        let got = reply?.into_value()?;
        ensure!(got == expected, "{} was answered by {got:?} instead of {expected:?}", command.name());
    }
    // The client's own types too.
    let [get, range] = context.client.transaction(&[commands[1].clone(), commands[6].clone()]).await?.try_into().map_err(too_few)?;
    ensure!(is(&get?.into_blob()?, &bytes), "GET inside of a transaction is no blob");
    ensure!(range?.into_blobs()?.len() == 3, "LRANGE inside of a transaction is no list of blobs");
    Ok(())
}

fn too_few<T>(_: T) -> Fault {
    Fault::Failed("a transaction did not return one reply for each command".into())
}

pub async fn an_empty_transaction<C: Transactions>(context: &Context<'_, C>) -> Checked {
    let replies = context.client.transaction(&[]).await?;
    ensure!(replies.is_empty(), "{} replies to no command", replies.len());
    Ok(())
}

pub async fn a_transaction_of_a_thousand<C: Transactions>(context: &Context<'_, C>) -> Checked {
    let key = context.transaction_key("thousand", 0);
    let commands = vec![Command::new("INCR").arg(&key); 1_000];
    let replies = context.client.transaction(&commands).await?;
    ensure!(replies.len() == 1_000, "{} replies to 1000 commands", replies.len());
    for (place, reply) in replies.into_iter().enumerate() {
        let got = reply?.into_value()?;
        ensure!(got == Value::Int(place as i64 + 1), "INCR number {} of a transaction answered {got:?}", place + 1);
    }
    Ok(())
}

pub async fn an_error_inside_a_transaction<C: Transactions>(context: &Context<'_, C>) -> Checked {
    let [key, written] = [0, 1].map(|number| context.transaction_key("inside", number));
    let commands = [
        Command::set(&key, b"before"),
        Command::new("INCR").arg(&key),
        Command::hkeys(&key),
        Command::set(&key, b"after"),
        Command::get(&key),
    ];
    let not_a_number = ServerError::parse("ERR value is not an integer or out of range");
    let result = context.client.transaction(&commands).await;
    // Whatever becomes of the error, the others were executed.
    ensure!(is(&context.client.get(&key).await?, b"after"), "an error inside of a transaction kept others from being executed");
    left_as_before(context, &[], &written).await?;
    let replies = match result {
        Err(Error::Server(error)) if error == not_a_number => {
            return Err(Fault::Unsupported("the error of one command comes as that of the whole transaction".into()));
        }
        result => result?,
    };
    let [first, incr, hkeys, second, get] = replies.try_into().map_err(too_few)?;
    first?.into_ok()?;
    second?.into_ok()?;
    let (incr, hkeys) = (server_error(incr)?, server_error(hkeys)?);
    ensure!(incr == not_a_number, "INCR of a text inside of a transaction failed with \"{incr}\"");
    let wrong = ServerError::parse("WRONGTYPE Operation against a key holding the wrong kind of value");
    ensure!(hkeys == wrong, "HKEYS of a text inside of a transaction failed with \"{hkeys}\"");
    ensure!(is(&get?.into_blob()?, b"after"), "the command after an error got another command's reply");
    Ok(())
}

pub async fn a_command_that_is_not_queued<C: Transactions>(context: &Context<'_, C>) -> Checked {
    let [unwritten, written] = [0, 1].map(|number| context.transaction_key("refused", number));
    let unknown = Command::new("RCBNOSUCHCOMMAND").arg(&unwritten);
    let mut bare = Connection::open(context.servers.first(), Resp::V2, true).await?;
    let expected = server_error(bare.request(&unknown).await)?;
    let commands = [Command::set(&unwritten, b"value"), unknown, Command::get(&unwritten)];
    for _ in 0..8 {
        let got = server_error(context.client.transaction(&commands).await)?;
        ensure!(got == expected, "a transaction with an unknown command failed with \"{got}\" instead of \"{expected}\"");
    }
    left_as_before(context, &[&unwritten], &written).await
}

pub async fn a_watched_key_that_changed<C: Transactions>(context: &Context<'_, C>) -> Checked {
    let [watched, unwritten, written] = [0, 1, 2].map(|number| context.transaction_key("watched", number));
    // Only a lane says on which connection it watches.
    let Lanes::Handles(handles) = context.client.lanes() else { return Ok(()) };
    for handle in handles {
        handle.call(&Command::new("WATCH").arg(&watched)).await?.into_ok()?;
        Connection::open(context.servers.first(), Resp::V2, true).await?.request(&Command::set(&watched, b"changed")).await?;
        match handle.transaction(&[Command::set(&unwritten, b"value")]).await {
            Err(error) => ensure!(error == Error::aborted(), "a transaction on a watched key that changed failed with \"{error}\""),
            Ok(_) => return Err(Fault::Failed("a transaction on a watched key that changed did not fail".into())),
        }
        let replies = handle.transaction(&[Command::get(&watched)]).await?;
        let [get] = replies.try_into().map_err(too_few)?;
        ensure!(is(&get?.into_blob()?, b"changed"), "after an aborted transaction another returned a wrong value");
    }
    left_as_before(context, &[&unwritten], &written).await
}

/// Two counters that are only ever raised together, by callers of transactions, while others look on. Between the two is a
/// value so long that the server needs several reads for one transaction, and serves others between two reads.
pub async fn transactions_are_atomic<C: Transactions>(context: &Context<'_, C>) -> Checked {
    const CALLERS: i64 = 16;
    const ROUNDS: i64 = 20;
    static LONG: [u8; 64 << 10] = [b'x'; 64 << 10];
    let keys = [0, 1].map(|number| context.transaction_key("atomic", number));
    let between = Command::set(&context.transaction_key("atomic", 2), &LONG);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..CALLERS {
        let (client, [first, second]) = (context.client.clone(), keys.clone());
        let commands = [Command::new("INCR").arg(&first), between.clone(), Command::new("INCR").arg(&second)];
        tasks.spawn(async move {
            let mut last = 0;
            for _ in 0..ROUNDS {
                let [first, _, second] = client.transaction(&commands).await?.try_into().map_err(too_few)?;
                let (first, second) = (first?.into_value()?.as_int(), second?.into_value()?.as_int());
                ensure!(first == second, "two counters raised together stood at {first:?} and {second:?}");
                ensure!(first > Some(last), "a caller raised a counter from {last} to {first:?}");
                last = first.unwrap_or_default();
            }
            Ok(())
        });
        let (client, [first, second]) = (context.client.clone(), keys.clone());
        let both = Command::new("MGET").arg(&first).arg(&second);
        tasks.spawn(async move {
            for _ in 0..ROUNDS {
                let Value::Array(seen) = client.call(&both).await?.into_value()? else {
                    return Err(Fault::Failed("a command beside transactions got another reply than its own".into()));
                };
                ensure!(seen.len() == 2 && seen[0] == seen[1], "a caller saw a transaction half done: {seen:?}");
            }
            Ok(())
        });
    }
    all_done(tasks).await?;
    for key in keys {
        let got = context.client.get(&key).await?;
        ensure!(is(&got, (CALLERS * ROUNDS).to_string().as_bytes()), "after {} transactions a counter stands elsewhere", CALLERS * ROUNDS);
    }
    Ok(())
}

/// Futures that are dropped leave no connection between `MULTI` and `EXEC`.
pub async fn dropped_transactions<C: Transactions>(context: &Context<'_, C>) -> Checked {
    let [lost, written] = [0, 1].map(|number| context.transaction_key("dropped", number));
    for _ in 0..50 {
        let commands = [Command::new("INCR").arg(&lost), Command::new("INCR").arg(&lost)];
        let mut aborted = tokio::task::JoinSet::new();
        let (client, same) = (context.client.clone(), commands.clone());
        aborted.spawn(async move { client.transaction(&same).await.map(drop) });
        drop(context.client.transaction(&commands).now_or_never());
        tokio::task::yield_now().await;
        aborted.abort_all();
    }
    left_as_before(context, &[], &written).await?;
    // Each was executed whole or not at all.
    let count = context.client.get(&lost).await?.map(|count| String::from_utf8_lossy(count.as_ref()).into_owned());
    let count: u32 = count.as_deref().unwrap_or("0").parse().map_err(|_| Fault::Failed("a counter is no number".into()))?;
    ensure!(count.is_multiple_of(2), "a dropped transaction was executed in part");
    Ok(())
}

pub async fn a_transaction_across_slots<C: Transactions>(context: &Context<'_, C>) -> Checked {
    let keys: Vec<_> = (0..64).map(|number| context.key(format!("transaction:slots:{number}"))).collect();
    let written = context.transaction_key("slots", 0);
    if context.servers.topology == Topology::Standalone {
        let commands: Vec<_> = keys.iter().map(|key| Command::set(key, key)).collect();
        for reply in context.client.transaction(&commands).await? {
            reply?.into_ok()?;
        }
        return Ok(());
    }
    // All over the cluster; and two slots that are likely of one node.
    let near: Vec<_> = keys.iter().filter(|key| key_slot(key) < 4_096).take(2).cloned().collect();
    ensure!(near.len() == 2 && key_slot(&near[0]) != key_slot(&near[1]), "the keys of the check are not what it needs");
    for some in [&keys, &near] {
        let commands: Vec<_> = some.iter().map(|key| Command::set(key, key)).collect();
        match context.client.transaction(&commands).await {
            Err(Error::Client(_)) => {}
            Err(Error::Server(error)) if error.code == "CROSSSLOT" => {}
            Err(other) => return Err(Fault::Failed(format!("the refusal of several slots is a {} error: {other}", other.kind()))),
            Ok(_) => return Err(Fault::Failed("a transaction across slots was not refused".into())),
        }
        let unwritten: Vec<&[u8]> = some.iter().map(Vec::as_slice).collect();
        left_as_before(context, &unwritten, &written).await?;
    }
    Ok(())
}
