//! Explicit pipelines.

use super::commands::server_error;
use super::context::Context;
use super::{Checked, Fault, ensure};
use crate::drivers::{Command, Error, Pipelines, Reply, ServerError, Topology};

pub async fn an_error_inside_a_pipeline<C: Pipelines>(context: &Context<'_, C>) -> Checked {
    const COMMANDS: usize = 100;
    const WRONG: [usize; 3] = [49, 50, 99];
    let mut commands = Vec::with_capacity(COMMANDS);
    for number in 0..COMMANDS / 2 {
        let key = context.pipeline_key("error", number);
        commands.push(Command::set(&key, format!("value {number}").as_bytes()));
        commands.push(Command::get(&key));
    }
    // The keys hold text by then, or will never be counted.
    for place in WRONG {
        let key = context.pipeline_key("error", 0);
        commands[place] = if place == 50 { Command::hkeys(&key) } else { Command::new("INCR").arg(&key) };
    }
    let replies = context.pipeline(&commands).await?;
    ensure!(replies.len() == COMMANDS, "{} replies to {COMMANDS} commands", replies.len());
    for (place, reply) in replies.into_iter().enumerate() {
        if WRONG.contains(&place) {
            let error = server_error(reply)?;
            let expected = if place == 50 {
                ServerError::parse("WRONGTYPE Operation against a key holding the wrong kind of value")
            } else {
                ServerError::parse("ERR value is not an integer or out of range")
            };
            ensure!(error == expected, "command {place} failed with \"{error}\" instead of \"{expected}\"");
        } else if place % 2 == 0 {
            reply?.into_ok()?;
        } else {
            let got = reply?.into_blob()?;
            // Command 51 reads what command 50, now another one, no longer writes.
            let expected = (place != 51).then(|| format!("value {}", place / 2).into_bytes());
            ensure!(got.as_ref().map(|got| got.as_ref()) == expected.as_deref(), "command {place} got another command's reply");
        }
    }
    Ok(())
}

pub async fn an_empty_pipeline<C: Pipelines>(context: &Context<'_, C>) -> Checked {
    let replies = context.pipeline(&[]).await?;
    ensure!(replies.is_empty(), "{} replies to no command", replies.len());
    Ok(())
}

pub async fn a_pipeline_of_a_thousand<C: Pipelines>(context: &Context<'_, C>) -> Checked {
    let keys: Vec<_> = (0..1_000).map(|number| context.pipeline_key("thousand", number)).collect();
    let value = |number: usize| format!("value {number}").into_bytes();
    let sets: Vec<_> = keys.iter().enumerate().map(|(number, key)| Command::set(key, &value(number))).collect();
    for reply in context.pipeline(&sets).await? {
        reply?.into_ok()?;
    }
    let gets: Vec<_> = keys.iter().map(|key| Command::get(key)).collect();
    let replies = context.pipeline(&gets).await?;
    ensure!(replies.len() == gets.len(), "{} replies to {} commands", replies.len(), gets.len());
    for (number, reply) in replies.into_iter().enumerate() {
        let got = reply?.into_blob()?;
        ensure!(got.is_some_and(|got| got.as_ref() == value(number)), "command {number} got another command's reply");
    }
    Ok(())
}

pub async fn a_pipeline_across_slots<C: Pipelines>(context: &Context<'_, C>) -> Checked {
    let keys: Vec<_> = (0..64).map(|number| context.key(format!("slots:{number}"))).collect();
    let commands: Vec<_> = keys.iter().flat_map(|key| [Command::set(key, key), Command::get(key)]).collect();
    let result = context.pipeline(&commands).await;
    if context.one_slot {
        return match result {
            Err(Error::Client(_)) => Err(Fault::Unsupported("a pipeline holds keys of one slot; it refuses others".into())),
            Err(other) => Err(Fault::Failed(format!("the refusal of several slots is a {} error: {other}", other.kind()))),
            Ok(_) => Err(Fault::Failed("it says that a pipeline holds one slot only, yet took several".into())),
        };
    }
    debug_assert!(context.servers.topology == Topology::Standalone || keys.iter().any(|key| crate::resp::key_slot(key) > 8_192));
    let replies = result?;
    ensure!(replies.len() == commands.len(), "{} replies to {} commands", replies.len(), commands.len());
    let mut replies = replies.into_iter();
    for key in &keys {
        let (set, get) = (replies.next(), replies.next());
        set.transpose()?.map(Reply::into_ok).transpose()?;
        let got = get.transpose()?.and_then(|reply| reply.into_blob().ok().flatten());
        ensure!(got.is_some_and(|got| got.as_ref() == &key[..]), "a command got another command's reply");
    }
    Ok(())
}
