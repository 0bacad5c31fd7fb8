//! What happens on Ctrl-C and SIGTERM: the registered cleanups run, newest first, and the process ends with code 130.
//!
//! A second signal ends the process at once, unless it comes together with the first. The signals are awaited on a thread of their own, so that neither a
//! busy runtime nor a benchmark that blocks it delays them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// Signals that come so soon after the first belong to it.
const SAME_WISH: Duration = Duration::from_millis(300);

/// The exit code after an interruption.
pub const EXIT_INTERRUPTED: i32 = 130;

type Cleanup = Box<dyn FnOnce() + Send>;

static CLEANUPS: Mutex<Vec<(u64, Cleanup)>> = Mutex::new(Vec::new());
static NEXT: AtomicU64 = AtomicU64::new(0);
static LISTENER: Once = Once::new();
static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static SIGNALLED: LazyLock<watch::Sender<bool>> = LazyLock::new(|| watch::Sender::new(false));

fn cleanups() -> std::sync::MutexGuard<'static, Vec<(u64, Cleanup)>> {
    CLEANUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A registered cleanup; dropping this takes it back.
#[must_use = "dropping it takes the cleanup back at once"]
#[derive(Debug)]
pub struct Interrupt(u64);

impl Interrupt {
    /// Has `cleanup` run once when the process is interrupted, before those registered earlier.
    ///
    /// The first call starts to listen for the signals. The cleanup runs on another thread, so it must not wait for
    /// work of the thread that registers it.
    pub fn register(cleanup: impl FnOnce() + Send + 'static) -> Self {
        LISTENER.call_once(listen);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        cleanups().push((id, Box::new(cleanup)));
        Self(id)
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        // The cleanup itself is dropped after the lock is released: it may own another registration.
        let mut list = cleanups();
        let found = list.iter().position(|(id, _)| *id == self.0).map(|index| list.remove(index));
        drop(list);
        drop(found);
    }
}

/// Whether an interruption is under way, for loops that should not start anything more.
#[must_use]
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Returns when an interruption begins; for work that is to be given up then.
pub async fn wait() {
    // Can't fail: the sender is never dropped.
    let _ = SIGNALLED.subscribe().wait_for(|&signalled| signalled).await;
}

/// Work that ends by itself when interrupted, and is waited for. Dropping it says that it has ended.
#[must_use = "dropping it says that the work has ended"]
#[derive(Debug)]
pub struct Graceful {
    _interrupt: Interrupt,
    _running: std::sync::mpsc::Sender<()>,
}

impl Graceful {
    /// Has an interruption print `notice`, and wait up to `limit` for the work to end before the process does.
    pub fn register(notice: &'static str, limit: std::time::Duration) -> Self {
        let (running, ended) = std::sync::mpsc::channel();
        let interrupt = Interrupt::register(move || {
            tell!("\n{notice}");
            // An error says that the work has ended.
            let _ = ended.recv_timeout(limit);
        });
        Self { _interrupt: interrupt, _running: running }
    }
}

fn run_cleanups() {
    loop {
        let Some((_, cleanup)) = cleanups().pop() else { return };
        // One that panics must not keep the others from running; the panic hook has printed it.
        let _ = catch_unwind(AssertUnwindSafe(cleanup));
    }
}

/// Starts the thread that awaits the signals. Where that fails, the system's own handling of them stays.
fn listen() {
    let (ready, started) = std::sync::mpsc::sync_channel(1);
    let spawned = thread::Builder::new().name("rcb-interrupt".into()).spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async move {
            let Ok(mut signals) = Signals::new() else { return };
            let _ = ready.send(());
            signals.next().await;
            INTERRUPTED.store(true, Ordering::Relaxed);
            SIGNALLED.send_replace(true);
            let work = thread::Builder::new().name("rcb-cleanup".into()).spawn(|| {
                run_cleanups();
                std::process::exit(EXIT_INTERRUPTED);
            });
            // `timeout` signals its child and then its group, the child again: that is one wish, not two.
            let first = Instant::now();
            while work.is_ok() {
                signals.next().await;
                if first.elapsed() >= SAME_WISH {
                    break;
                }
            }
            std::process::exit(EXIT_INTERRUPTED);
        });
    });
    if spawned.is_ok() {
        // An error means that the thread gave up, which it does only where signals can't be had.
        let _ = started.recv();
    }
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn cleanups_run_newest_first_and_not_after_they_were_taken_back() {
        let order = Arc::new(Mutex::new(Vec::new()));
        let note = |name: &'static str| {
            let order = Arc::clone(&order);
            move || order.lock().unwrap().push(name)
        };
        let _first = Interrupt::register(note("first"));
        let taken_back = Interrupt::register(note("taken back"));
        let _panics = Interrupt::register(|| panic!("expected by this test"));
        let _last = Interrupt::register(note("last"));
        drop(taken_back);
        run_cleanups();
        assert_eq!(*order.lock().unwrap(), ["last", "first"]);
    }
}
