//! The parent's side: starts a worker, leads it through one observation, and ends it whatever happens.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use super::program::Program;
use super::protocol::{Answer, GO, LONGEST_LINE, Measured, PASSWORD, Ready, Request, VERSION};
use crate::net::Secret;

/// Why an observation gave no figures.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The client can't do it, by the worker's statement.
    #[error("unsupported: {0}")]
    Unsupported(String),
    /// It was tried.
    #[error("{0}")]
    Failed(String),
}

fn failed<T>(reason: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Failed(reason.into()))
}

/// How long each step may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From the start of the process until it is ready: connecting, checking, warming up.
    pub ready: Duration,
    /// From [`GO`] to the answer.
    pub work: Duration,
    /// From the end of its input to the end of the process.
    pub end: Duration,
}

/// A worker that runs. Dropped, it is killed.
pub struct Running {
    child: Child,
    group: Option<Group>,
    stdin: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
    stderr: Option<JoinHandle<String>>,
    limits: Limits,
    secret: Option<Secret>,
}

/// Bytes of standard error that are kept for a failure's reason.
const KEPT: usize = 2000;
/// Characters of a line that is shown because it makes no sense.
const SHOWN: usize = 200;

/// The worker's process group, killed as a whole: a script may have started the client as its child.
struct Group(u32);

impl Drop for Group {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Ok(pid) = i32::try_from(self.0) {
            // An error means that it has ended.
            let _ = nix::sys::signal::killpg(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
        }
    }
}

impl Running {
    /// Starts `program` and sends it `request`; the password goes by the environment. Then waits until it is ready.
    ///
    /// `started` is told the process id before the request is sent: the worker has done nothing by then.
    ///
    /// # Errors
    /// [`Failure`]; the process is gone then.
    pub async fn start(
        program: &Program,
        request: &Request,
        password: Option<&Secret>,
        limits: Limits,
        started: impl FnOnce(u32),
    ) -> Result<(Self, Ready), Failure> {
        let mut command = Command::new(&program.path);
        command.args(&program.arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        // The login is in the variable below, and nowhere else.
        command.env_remove("REDIS_URL").env_remove("REDISCLI_AUTH").env_remove(PASSWORD);
        if let Some(password) = password {
            command.env(PASSWORD, password.reveal());
        }
        // A group of its own: Ctrl-C is for us, and we end the worker.
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn().map_err(|error| Failure::Failed(format!("can't start {}: {error}", program.path.display())))?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let group = child.id().map(Group);
        if let Some(id) = child.id() {
            started(id);
        }
        let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else { return failed("the worker has no pipes") };
        let mut running = Self {
            child,
            group,
            stdin: Some(stdin),
            lines: BufReader::new(stdout),
            stderr: Some(tokio::spawn(tail(stderr))),
            limits,
            secret: password.cloned(),
        };
        let line = serde_json::to_string(request).map_err(|error| Failure::Failed(error.to_string()))?;
        // A worker that does not read it says or shows why.
        let _ = running.write(&line, limits.ready).await;
        match running.answer(limits.ready, "ready").await? {
            Answer::Ready(Ready { version: Some(version), .. }) if version != VERSION => {
                failed(format!("the worker speaks version {version} of the protocol, this rcb speaks version {VERSION}"))
            }
            Answer::Ready(ready) => Ok((running, ready)),
            other => Err(running.unexpected(other, "ready").await),
        }
    }

    async fn write(&mut self, line: &str, within: Duration) -> std::io::Result<()> {
        let Some(stdin) = &mut self.stdin else { return Ok(()) };
        let writing = async {
            stdin.write_all(line.as_bytes()).await?;
            stdin.write_all(b"\n").await?;
            stdin.flush().await
        };
        tokio::time::timeout(within, writing).await.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
    }

    /// Has it do the work, and waits for its figures.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn work(&mut self) -> Result<Measured, Failure> {
        let _ = self.write(GO, self.limits.work).await;
        match self.answer(self.limits.work, "measured").await? {
            Answer::Measured(measured) => Ok(measured),
            other => Err(self.unexpected(other, "measured").await),
        }
    }

    /// Closes its input, and waits for its end.
    ///
    /// # Errors
    /// [`Failure`] when it says anything more, does not end, or ends with another code than 0.
    pub async fn end(mut self) -> Result<(), Failure> {
        self.stdin = None;
        let mut rest = String::new();
        let limit = self.limits.end;
        let ending = async {
            // Bounded, so that one that babbles does not fill the memory.
            let read = (&mut self.lines).take(KEPT as u64).read_to_string(&mut rest).await;
            read.and(self.child.wait().await)
        };
        let Ok(status) = tokio::time::timeout(limit, ending).await else {
            return failed(format!("the worker did not end within {limit:?} after its input was closed"));
        };
        match status {
            Ok(status) if status.success() && rest.trim().is_empty() => Ok(()),
            Ok(status) if status.success() => failed(format!("the worker went on to say {:?} after its figures", self.shown(&rest))),
            Ok(status) => {
                let told = self.told().await;
                failed(format!("the worker ended with {status} after its figures{told}"))
            }
            Err(error) => failed(format!("the worker's end can't be seen: {error}")),
        }
    }

    /// The next line.
    async fn answer(&mut self, within: Duration, wanted: &str) -> Result<Answer, Failure> {
        let mut line = Vec::new();
        let reading = async { (&mut self.lines).take(LONGEST_LINE as u64).read_until(b'\n', &mut line).await };
        match tokio::time::timeout(within, reading).await {
            Err(_) => {
                // What it waits for may be in its last words.
                self.group = None;
                let told = self.told().await;
                return failed(format!("no answer within {within:?} where {wanted:?} was to be expected: killed{told}"));
            }
            Ok(Err(error)) => return failed(format!("the worker's output can't be read: {error}")),
            Ok(Ok(0)) => {
                let ended = tokio::time::timeout(self.limits.end, self.child.wait()).await;
                let how = match ended {
                    Ok(Ok(status)) => format!("ended with {status}"),
                    _ => "closed its output".to_owned(),
                };
                self.group = None;
                let told = self.told().await;
                return failed(format!("the worker {how} where {wanted:?} was to be expected{told}"));
            }
            Ok(Ok(_)) => {}
        }
        if line.last() != Some(&b'\n') && line.len() >= LONGEST_LINE {
            return failed(format!("the worker answered with a line of more than {LONGEST_LINE} bytes"));
        }
        let text = String::from_utf8_lossy(&line);
        serde_json::from_str(&text).or_else(|error| failed(format!("the answer {:?} is none of the protocol: {error}", self.shown(&text))))
    }

    async fn unexpected(&mut self, answer: Answer, wanted: &str) -> Failure {
        match answer {
            Answer::Unsupported(reason) if wanted == "ready" => Failure::Unsupported(self.without_secret(&reason)),
            Answer::Failed(reason) | Answer::Unsupported(reason) => Failure::Failed(self.without_secret(&reason)),
            Answer::Ready(_) => Failure::Failed(format!("the worker said it is ready where {wanted:?} was to be expected")),
            Answer::Measured(_) => Failure::Failed(format!("the worker gave figures where {wanted:?} was to be expected")),
        }
    }

    fn without_secret(&self, text: &str) -> String {
        match &self.secret {
            Some(secret) if !secret.reveal().is_empty() => text.replace(secret.reveal(), "***"),
            _ => text.to_owned(),
        }
    }

    fn shown(&self, text: &str) -> String {
        let text = self.without_secret(text.trim());
        let mut shown: String = text.chars().take(SHOWN).collect();
        if shown.len() < text.len() {
            shown.push('…');
        }
        shown
    }

    /// The end of what it wrote to standard error, to be added to a reason.
    async fn told(&mut self) -> String {
        let Some(stderr) = self.stderr.take() else { return String::new() };
        // A grandchild may hold it open.
        let text = match tokio::time::timeout(Duration::from_secs(1), stderr).await {
            Ok(Ok(text)) => self.without_secret(text.trim()),
            _ => String::new(),
        };
        if text.is_empty() { String::new() } else { format!("; its last words: {text}") }
    }
}

/// The last of what comes from `source`, which is read to its end so that the worker never waits for us.
async fn tail(mut source: impl AsyncRead + Unpin) -> String {
    let (mut kept, mut chunk) = (Vec::new(), [0; 4096]);
    while let Ok(read) = source.read(&mut chunk).await
        && read > 0
    {
        kept.extend_from_slice(&chunk[..read]);
        if kept.len() > 2 * KEPT {
            kept.drain(..kept.len() - KEPT);
        }
    }
    let start = kept.len().saturating_sub(KEPT);
    String::from_utf8_lossy(&kept[start..]).into_owned()
}
