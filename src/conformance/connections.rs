//! Connecting, refusals and timeouts.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use super::{Checked, Fault, ensure};
use crate::drivers::{Driver, Error, Profile, Resp, Servers, Settings, Topology};
use crate::net::{Address, Connection, Endpoint, Secret};
use crate::resp::{Command, Value};

/// The longest that a refusal may take to be reported.
pub(super) const PROMPT: Duration = Duration::from_secs(8);

/// A driver must say within [`PROMPT`] that it can't connect, and why.
async fn refusal<D: Driver>(servers: &Servers, settings: &Settings) -> Result<Error, Fault> {
    let started = Instant::now();
    let error = match D::connect(servers, settings).await {
        Ok(driver) => {
            driver.close().await;
            return Err(Fault::Failed("it says that it is connected".into()));
        }
        Err(error) => error,
    };
    ensure!(started.elapsed() < PROMPT, "it took {:?} to say: {error}", started.elapsed());
    Ok(error)
}

fn with_endpoints(servers: &Servers, change: impl Fn(&Endpoint) -> Endpoint) -> Servers {
    Servers { topology: servers.topology, endpoints: servers.endpoints.iter().map(change).collect() }
}

/// The same logins, where nobody listens: on a port that was free a moment ago.
pub(super) fn at_a_closed_port(servers: &Servers) -> Result<Servers, Fault> {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).map(|address| address.port());
    let port = port.map_err(|error| Fault::Failed(format!("no free port: {error}")))?;
    Ok(with_endpoints(servers, |endpoint| endpoint.at(Address::Tcp("127.0.0.1".into(), port))))
}

pub async fn a_refused_connection<D: Driver>(servers: &Servers, settings: &Settings) -> Checked {
    let error = refusal::<D>(&at_a_closed_port(servers)?, settings).await?;
    ensure!(matches!(error, Error::Connection(_)), "a refused connection is a {} error: {error}", error.kind());
    Ok(())
}

const PASSWORD: &str = "0nly-for-this-check";

/// The same servers, with a login that they refuse.
pub(super) fn with_a_wrong_password(servers: &Servers) -> Servers {
    with_endpoints(servers, |endpoint| Endpoint {
        username: Some("rcb-nobody".into()),
        password: Some(Secret::new(PASSWORD)),
        ..endpoint.clone()
    })
}

pub async fn a_refused_login<D: Driver>(servers: &Servers, settings: &Settings) -> Checked {
    let error = refusal::<D>(&with_a_wrong_password(servers), settings).await?;
    ensure!(matches!(error, Error::Login(_)), "a refused login is a {} error: {error}", error.kind());
    ensure!(!format!("{error} {error:?}").contains(PASSWORD), "the error shows the password");
    Ok(())
}

pub async fn the_hand_written_loop<D: Driver>(driver: &D, servers: &Servers, prefix: &str) -> Checked {
    let key = format!("{prefix}hand-written").into_bytes();
    driver.set(&key, b"12345").await?;
    let sum = driver.hand_written(&key, 10).await;
    driver.call(&Command::new("DEL").arg(&key)).await?;
    match servers.topology {
        Topology::Standalone => ensure!(sum? == 50, "10 values of 5 bytes are not 50 bytes"),
        Topology::Cluster => ensure!(matches!(sum, Err(Error::Unsupported(_))), "it is for a standalone server only"),
    }
    Ok(())
}

/// Makes every server (on a cluster, every master) hold all commands for `pause`.
async fn pause(servers: &Servers, pause: Duration) -> Result<(), Error> {
    let mut connection = Connection::open(servers.first(), Resp::V2, true).await?;
    let mut masters = vec![];
    match servers.topology {
        Topology::Standalone => masters.push(servers.first().clone()),
        Topology::Cluster => {
            let Value::Array(ranges) = connection.request(&Command::new("CLUSTER").arg("SLOTS")).await? else { return Ok(()) };
            for range in ranges {
                let Value::Array(parts) = range else { continue };
                let [_, _, Value::Array(master), ..] = &parts[..] else { continue };
                let [host, port, ..] = &master[..] else { continue };
                if let (Some(host), Some(port)) = (host.as_str(), port.as_int()) {
                    masters.push(servers.first().at(Address::Tcp(host.to_owned(), port as u16)));
                }
            }
        }
    }
    let mut connections = Vec::with_capacity(masters.len());
    for master in &masters {
        connections.push(Connection::open(master, Resp::V2, true).await?);
    }
    let command = Command::new("CLIENT").arg("PAUSE").arg(pause.as_millis().to_string()).arg("ALL");
    for mut connection in connections {
        connection.request(&command).await?;
    }
    Ok(())
}

/// A command that gets no reply for `silence`. The server pauses for that long, or, since a checkout pool would then wait for
/// its own commands and not for ours, a blocking command waits on an empty list.
async fn unanswered<D: Driver>(driver: &D, servers: &Servers, key: &[u8], list: &[u8], silence: Duration) -> Result<(), Error> {
    if D::DESCRIPTOR.checkout.is_empty() {
        pause(servers, silence).await?;
        driver.get(key).await.map(drop)
    } else {
        driver.call(&Command::new("BLPOP").arg(list).arg(silence.as_secs_f64().to_string())).await.map(drop)
    }
}

/// A timeout must be told as one, and must not shift the replies of later commands.
pub async fn a_timeout<D: Driver>(servers: &Servers, settings: &Settings, prefix: &str) -> Checked {
    let short = Settings { response_timeout: Some(Duration::from_millis(50)), ..settings.clone() };
    // A client that takes no timeout may ship with one.
    let (driver, paused, own) = match D::connect(servers, &short).await {
        Ok(driver) => (driver, Duration::from_millis(250), true),
        Err(Error::Unsupported(_)) => {
            let shipped = Settings { profile: Profile::Default, response_timeout: None, ..settings.clone() };
            (D::connect(servers, &shipped).await?, Duration::from_millis(1_200), false)
        }
        Err(error) => return Err(error.into()),
    };
    let (key, other) = (format!("{prefix}timeout").into_bytes(), format!("{prefix}timeout:other").into_bytes());
    driver.set(&key, b"value").await?;
    driver.set(&other, b"other").await?;
    let started = Instant::now();
    let list = format!("{prefix}timeout:list").into_bytes();
    let result = unanswered(&driver, servers, &other, &list, paused).await;
    let took = started.elapsed();
    // The servers answer again; what they answer late must reach nobody.
    let mut last = None;
    while started.elapsed() < paused + Duration::from_secs(5) {
        match driver.get(&key).await {
            Ok(Some(value)) => {
                last = Some(value.as_ref().to_vec());
                break;
            }
            Ok(None) => return Err(Fault::Failed("after a timeout a key was missing".into())),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
    ensure!(last.is_some(), "it does not recover from a timeout");
    for _ in 0..100 {
        let (value, second) = (driver.get(&key).await?, driver.get(&other).await?);
        let right = value.is_some_and(|value| value.as_ref() == b"value") && second.is_some_and(|value| value.as_ref() == b"other");
        ensure!(right && last.as_deref() == Some(b"value"), "after a timeout a command got another command's reply");
    }
    for key in [&key, &other] {
        driver.call(&Command::new("DEL").arg(key)).await?;
    }
    driver.close().await;
    match result {
        Err(Error::Timeout(_)) => {
            ensure!(took < paused, "the timeout came after {took:?}, no earlier than the reply");
            Ok(())
        }
        Err(other) => Err(Fault::Failed(format!("a timeout became a {} error: {other}", other.kind()))),
        Ok(_) if own => Err(Fault::Failed(format!("there was no timeout after 50 ms, but a reply after {took:?}"))),
        Ok(_) => Err(Fault::Unsupported("the client takes no response timeout and ships without one".into())),
    }
}
