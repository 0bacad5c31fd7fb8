//! The cached client of a scenario, and the judgement of what it returns.

use std::time::{Duration, Instant};

use tokio::task::coop::consume_budget;

use super::outcome::{Account, Acted, Fault};
use super::stage::{Stage, version};
use crate::drivers::{CacheCounts, CacheSettings, Cached, ClientCache, Command, Commands, Error, Served};

/// How long a key that was read stale is read again and again.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// The longest wait for one read, and for one reply of a fence: longer than a client needs to connect again.
const REPLY_WITHIN: Duration = Duration::from_secs(15);

/// Passes over the keys until each was a hit.
const WARMING_PASSES: usize = 20;

/// A cached client. All of its reads are made one at a time, so that its own counts tell hits from misses.
pub struct Subject<'a, C> {
    pub cached: C,
    pub stage: &'a Stage<'a>,
}

/// What is true of a key: its version, or that it is gone.
pub type Truth = Option<u64>;

pub struct Read {
    pub truth: Truth,
    pub served: Served,
}

fn shown(truth: Truth) -> String {
    truth.map_or("nil".to_owned(), |version| format!("v{version}"))
}

impl<'a, C: Cached> Subject<'a, C> {
    pub async fn connect<D: ClientCache<Cached = C>>(stage: &'a Stage<'a>, options: &CacheSettings) -> Acted<Self> {
        Ok(Self { cached: D::cached(stage.servers, stage.settings, options).await?, stage })
    }

    pub fn counts(&self) -> CacheCounts {
        self.cached.counts()
    }

    /// Reads key `number`.
    async fn try_read(&self, key: &[u8], number: usize) -> Acted<Result<Read, Error>> {
        let hits = self.counts().hits;
        let read = match limited(self.cached.get(key)).await {
            Ok(read) => read,
            Err(error) => return Ok(Err(error)),
        };
        let served = if self.counts().hits > hits { Served::Cache } else { Served::Server };
        // A hit waits for nothing: without this the tasks that handle invalidations might never get a turn.
        consume_budget().await;
        let truth = read.value.map(|value| version(value.as_ref(), number)).transpose()?;
        Ok(Ok(Read { truth, served }))
    }

    pub async fn read(&self, key: &[u8], number: usize) -> Acted<Read> {
        Ok(self.try_read(key, number).await??)
    }

    /// Reads all keys until each was a hit with the version that it must have.
    pub async fn warm(&self, keys: &[Vec<u8>], expected: Truth) -> Acted {
        match self.warmed(keys, expected).await? {
            0 => Ok(()),
            cold => Err(Fault::Failed(format!("{cold} of {} keys were never a hit in {WARMING_PASSES} reads of each", keys.len()))),
        }
    }

    /// As [`Subject::warm`]; how many keys were no hit in all passes.
    pub async fn warmed(&self, keys: &[Vec<u8>], expected: Truth) -> Acted<usize> {
        let mut cold: Vec<usize> = (0..keys.len()).collect();
        for _ in 0..WARMING_PASSES {
            let mut still = Vec::new();
            for number in cold {
                let read = self.read(&keys[number], number).await?;
                if read.served == Served::Server || read.truth != expected {
                    still.push(number);
                }
            }
            cold = still;
            if cold.is_empty() {
                break;
            }
            tokio::task::yield_now().await;
        }
        Ok(cold.len())
    }

    /// Waits until the server has told all that it had to, on every master.
    pub async fn fence(&self) -> Acted {
        Ok(fence(&self.cached, &self.stage.fences).await?)
    }

    /// Waits for the fence, and reads each key once. A read that is not `expected` is stale, and its key is then read until it is right
    /// or [`PATIENCE`] ends.
    pub async fn judge(&self, keys: &[Vec<u8>], expected: impl Fn(usize) -> Truth, what: &str, account: &mut Account) -> Acted {
        self.fence().await?;
        self.judge_told(keys, expected, what, account, false).await
    }

    /// As [`Subject::judge`], when the client was told already. Where it `may_refuse`, a read that fails is counted apart.
    pub async fn judge_told(
        &self,
        keys: &[Vec<u8>],
        expected: impl Fn(usize) -> Truth,
        what: &str,
        account: &mut Account,
        may_refuse: bool,
    ) -> Acted {
        let told = Instant::now();
        let mut wrong = Vec::new();
        for (number, key) in keys.iter().enumerate() {
            account.judged += 1;
            match self.try_read(key, number).await? {
                Ok(read) if self.is_right(&read, expected(number), number, what)? => {}
                Ok(read) => {
                    account.stale(|| {
                        format!(
                            "key {number} was {} from the cache {:.1?} after the fence of {what}, and is {} on the server",
                            shown(read.truth),
                            told.elapsed(),
                            shown(expected(number))
                        )
                    });
                    wrong.push(number);
                }
                Err(_) if may_refuse => account.refused += 1,
                Err(error) => return Err(error.into()),
            }
            // In between, since the others may each take a round trip, and how long a stale one stays so would seem longer.
            wrong = self.still_wrong(wrong, keys, &expected, what, account, told).await?;
        }
        while !wrong.is_empty() && told.elapsed() < PATIENCE {
            wrong = self.still_wrong(wrong, keys, &expected, what, account, told).await?;
            tokio::task::yield_now().await;
        }
        account.lasting += wrong.len() as u64;
        Ok(())
    }

    /// Reads keys that were stale again, and returns those that still are. One that fails now serves nothing old.
    async fn still_wrong(
        &self,
        wrong: Vec<usize>,
        keys: &[Vec<u8>],
        expected: &impl Fn(usize) -> Truth,
        what: &str,
        account: &mut Account,
        told: Instant,
    ) -> Acted<Vec<usize>> {
        let mut still = Vec::new();
        for number in wrong {
            match self.try_read(&keys[number], number).await? {
                Ok(read) if !self.is_right(&read, expected(number), number, what)? => still.push(number),
                _ => account.mended(told.elapsed()),
            }
        }
        Ok(still)
    }

    /// Whether a read is what it must be. An answer that is wrong and came from the server is no cache's fault, and one from the
    /// future is nobody's. Nor is nil in place of a value stale: every key had one before, so the server has dropped it since.
    fn is_right(&self, read: &Read, expected: Truth, number: usize, what: &str) -> Acted<bool> {
        if read.truth == expected {
            return Ok(true);
        }
        let never = match (read.truth, expected) {
            (None, Some(_)) => true,
            (Some(version), Some(expected)) => version > expected,
            (_, None) => false,
        };
        if read.served == Served::Server || never {
            return Err(Fault::Failed(format!(
                "after {what} a read of key {number} returned {} from {}, and it is {}",
                shown(read.truth),
                if read.served == Served::Server { "the server" } else { "the cache" },
                shown(expected)
            )));
        }
        Ok(false)
    }
}

/// One reply on each tracked connection.
///
/// # Errors
/// The first connection's that has none.
pub async fn fence<C: Cached>(cached: &C, fences: &[Vec<u8>]) -> Result<(), Error> {
    for key in fences {
        limited(cached.client().call(&Command::new("UNLINK").arg(key))).await?;
    }
    Ok(())
}

/// A client may hang; a scenario must not.
async fn limited<T>(doing: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::time::timeout(REPLY_WITHIN, doing).await.unwrap_or_else(|_| Err(Error::timed_out(REPLY_WITHIN)))
}
