//! Single commands.

use std::collections::BTreeSet;

use super::context::Context;
use super::{Checked, Fault, ensure};
use crate::drivers::{Command, Error, Pipelines, Reply, Resp, ServerError, Value};
use crate::net::Connection;

/// All 256 byte values, with line ends in between that would split a frame.
pub(super) fn every_byte() -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..=255).collect();
    bytes.extend_from_slice(b"\r\n$3\r\n*1\r\n");
    bytes
}

pub async fn binary_safe_keys_and_values<C: Pipelines>(context: &Context<'_, C>) -> Checked {
    let bytes = every_byte();
    let key = context.key(&bytes);
    context.client.set(&key, &bytes).await?;
    let got = context.client.get(&key).await?;
    ensure!(got.as_ref().map(AsRef::as_ref) == Some(&bytes[..]), "the typed GET returned other bytes than were SET");
    let got = context.call(Command::get(&key)).await?.into_blob()?;
    ensure!(got.as_ref().map(AsRef::as_ref) == Some(&bytes[..]), "the untyped GET returned other bytes than were SET");
    let got = context.call(Command::new("STRLEN").arg(&key)).await?.into_value()?;
    ensure!(got == Value::Int(bytes.len() as i64), "the server holds {got:?} bytes instead of {}", bytes.len());
    Ok(())
}

pub async fn an_empty_value<C: Pipelines>(context: &Context<'_, C>) -> Checked {
    let key = context.key("empty");
    context.client.set(&key, b"").await?;
    let got = context.client.get(&key).await?;
    ensure!(got.is_some_and(|got| got.as_ref().is_empty()), "an empty value is not an empty value from the typed GET");
    let got = context.call(Command::get(&key)).await?.into_blob()?;
    ensure!(got.is_some_and(|got| got.as_ref().is_empty()), "an empty value is not an empty value from the untyped GET");
    Ok(())
}

pub async fn a_value_of_a_mebibyte<C: Pipelines>(context: &Context<'_, C>) -> Checked {
    let key = context.key("large");
    let value: Vec<u8> = (0..1 << 20).map(|place: u32| (place % 251) as u8).collect();
    context.client.set(&key, &value).await?;
    let got = context.client.get(&key).await?;
    ensure!(got.is_some_and(|got| got.as_ref() == value), "a value of 1 MiB came back changed");
    Ok(())
}

pub async fn missing_keys<C: Pipelines>(context: &Context<'_, C>) -> Checked {
    let key = context.key("missing");
    ensure!(context.client.get(&key).await?.is_none(), "GET of a missing key is not None");
    ensure!(context.client.hkeys(&key).await?.is_empty(), "HKEYS of a missing key is not empty");
    ensure!(context.call(Command::get(&key)).await?.into_blob()?.is_none(), "the untyped GET of a missing key is not None");
    ensure!(context.call(Command::hkeys(&key)).await?.into_blobs()?.is_empty(), "the untyped HKEYS of a missing key is not empty");
    Ok(())
}

pub async fn the_fields_of_a_hash<C: Pipelines>(context: &Context<'_, C>) -> Checked {
    let key = context.key("hash");
    let fields: BTreeSet<Vec<u8>> = (0..100u8).map(|number| [b"field\r\n", &[number, 255 - number][..]].concat()).collect();
    let command = fields.iter().fold(Command::new("HSET").arg(&key), |command, field| command.arg(field).arg("value"));
    let added = context.call(command).await?.into_value()?;
    ensure!(added == Value::Int(100), "HSET of 100 fields answered {added:?}");
    let got: BTreeSet<Vec<u8>> = context.client.hkeys(&key).await?.iter().map(|field| field.as_ref().to_vec()).collect();
    ensure!(got == fields, "the typed HKEYS returned {} other fields", got.symmetric_difference(&fields).count());
    let got = context.call(Command::hkeys(&key)).await?.into_blobs()?;
    let got: BTreeSet<Vec<u8>> = got.iter().map(|field| field.as_ref().to_vec()).collect();
    ensure!(got == fields, "the untyped HKEYS returned {} other fields", got.symmetric_difference(&fields).count());
    Ok(())
}

/// The server's error, or why there is none.
pub(super) fn server_error<T>(result: Result<T, Error>) -> Result<ServerError, Fault> {
    match result {
        Ok(_) => Err(Fault::Failed("there was a reply where an error was due".into())),
        Err(Error::Server(error)) => Ok(error),
        Err(other) => Err(Fault::Failed(format!("the error reply became a {} error: {other}", other.kind()))),
    }
}

pub async fn errors_of_wrong_types<C: Pipelines>(context: &Context<'_, C>) -> Checked {
    let (hash, string) = (context.key("wrong:hash"), context.key("wrong:string"));
    context.call(Command::new("HSET").arg(&hash).arg("field").arg("value")).await?;
    context.client.set(&string, b"text").await?;
    let wrong = ServerError::parse("WRONGTYPE Operation against a key holding the wrong kind of value");
    let get = server_error(context.client.get(&hash).await)?;
    ensure!(get == wrong, "the typed GET of a hash failed with \"{get}\"");
    let hkeys = server_error(context.client.hkeys(&string).await)?;
    ensure!(hkeys == wrong, "the typed HKEYS of a string failed with \"{hkeys}\"");
    let call = server_error(context.call(Command::get(&hash)).await)?;
    ensure!(call == wrong, "the untyped GET of a hash failed with \"{call}\"");
    let not_a_number = server_error(context.call(Command::new("INCR").arg(&string)).await)?;
    ensure!(not_a_number.to_string() == "ERR value is not an integer or out of range", "INCR of a text failed with \"{not_a_number}\"");
    Ok(())
}

pub async fn the_error_of_an_unknown_command<C: Pipelines>(context: &Context<'_, C>) -> Checked {
    let command = Command::new("RCBNOSUCHCOMMAND").arg(context.key("unknown")).arg("two words");
    let got = server_error(context.call(command.clone()).await)?;
    ensure!(got.code == "ERR", "an unknown command has the code {:?}", got.code);
    // The text is the server's own: compared with what a bare connection is told.
    let mut bare = Connection::open(context.servers.first(), Resp::V2, true).await?;
    let expected = server_error(bare.request(&command).await)?;
    ensure!(got == expected, "an unknown command failed with \"{got}\" instead of \"{expected}\"");
    Ok(())
}

pub async fn any_command<C: Pipelines>(context: &Context<'_, C>) -> Checked {
    let (counter, list, text) = (context.key("counter"), context.key("list"), context.key("text"));
    for expected in 1..=3 {
        let got = context.call(Command::new("INCR").arg(&counter)).await?.into_value()?;
        ensure!(got == Value::Int(expected), "INCR answered {got:?} instead of {expected}");
    }
    let bytes = every_byte();
    let pushed = context.call(Command::new("LPUSH").arg(&list).arg("one").arg("").arg(&bytes)).await?.into_value()?;
    ensure!(pushed == Value::Int(3), "LPUSH of three answered {pushed:?}");
    let range = Command::new("LRANGE").arg(&list).arg("0").arg("-1");
    let got = context.call(range.clone()).await?.into_blobs()?;
    let got: Vec<&[u8]> = got.iter().map(AsRef::as_ref).collect();
    ensure!(got == [&bytes[..], b"", b"one"], "LRANGE did not return what LPUSH pushed, in order");
    let got = context.call(range).await?.into_value()?;
    let expected = [&bytes[..], b"", b"one"].map(|element| Value::Blob(element.to_vec())).to_vec();
    ensure!(got == Value::Array(expected), "the common form of a list differs");
    context.call(Command::set(&text, b"a")).await?.into_ok()?;
    context.call(Command::new("append").arg(&text).arg(&bytes)).await?;
    let got = context.client.get(&text).await?;
    ensure!(got.is_some_and(|got| got.as_ref() == [b"a", &bytes[..]].concat()), "APPEND of binary bytes came back changed");
    Ok(())
}

pub async fn every_kind_of_reply<C: Pipelines>(context: &Context<'_, C>) -> Checked {
    let (hash, set, key) = (context.key("kinds:hash"), context.key("kinds:set"), context.key("kinds:text"));
    let echo = context.call(Command::new("ECHO").arg(every_byte())).await?.into_blob()?;
    ensure!(echo.is_some_and(|echo| echo.as_ref() == every_byte()), "a command without a key failed");
    let pong = context.call(Command::new("PING")).await?.into_blob()?;
    ensure!(pong.is_some_and(|pong| pong.as_ref() == b"PONG"), "a simple string is no blob");
    context.call(Command::new("HSET").arg(&hash).arg("field").arg("value")).await?;
    let (field, value) = (Value::Blob(b"field".to_vec()), Value::Blob(b"value".to_vec()));
    // An array in RESP2, a map in RESP3.
    let got = context.call(Command::new("HGETALL").arg(&hash)).await?.into_value()?;
    let forms = [Value::Array(vec![field.clone(), value.clone()]), Value::Map(vec![(field, value)])];
    ensure!(forms.contains(&got), "HGETALL came back as {got:?}");
    context.call(Command::new("SADD").arg(&set).arg("member")).await?;
    let got = context.call(Command::new("SMEMBERS").arg(&set)).await?.into_blobs()?;
    ensure!(got.len() == 1 && got[0].as_ref() == b"member", "a set is no list of blobs");
    context.client.set(&key, b"text").await?;
    let wrong_kinds = [
        context.call(Command::new("STRLEN").arg(&key)).await?.into_blob().err(),
        context.call(Command::new("STRLEN").arg(&key)).await?.into_blobs().err(),
        context.call(Command::get(&key)).await?.into_ok().err(),
    ];
    for error in wrong_kinds {
        ensure!(matches!(error, Some(Error::Protocol(_))), "a reply of another kind than asked for gave {error:?}");
    }
    Ok(())
}
