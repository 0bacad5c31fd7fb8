//! A timer for windows of some tens of microseconds.
//!
//! tokio's own timer has a grain of one millisecond. On Linux this one is a timerfd in tokio's reactor, set a little early
//! and finished by yielding until the deadline, since the way from the kernel's expiry to the running task takes its own
//! time. How early is learned from how late the timer was. Elsewhere a helper thread sleeps. What it really achieves is a
//! figure of `rcb calibrate`.

use std::io;
use std::time::Duration;

/// Where timers come from.
pub trait Clock: Send + Sync + 'static {
    /// Its kind of timer.
    type Timer: Timer;

    /// A new timer.
    ///
    /// # Errors
    /// The operating system's.
    fn timer(&self) -> io::Result<Self::Timer>;
}

/// Measures one window at a time.
pub trait Timer: Send + 'static {
    /// Returns when `window` has passed since the first poll. Dropping the future disarms the timer.
    fn wait(&mut self, window: Duration) -> impl Future<Output = ()> + Send;
}

/// The operating system's most precise clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Precise;

impl Clock for Precise {
    type Timer = PreciseTimer;

    fn timer(&self) -> io::Result<PreciseTimer> {
        PreciseTimer::new()
    }
}

pub use platform::PreciseTimer;

#[cfg(target_os = "linux")]
mod platform {
    use std::io;
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
    use std::time::{Duration, Instant};

    use nix::sys::time::TimeSpec;
    use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
    use tokio::io::unix::AsyncFd;

    use super::Timer;

    /// The most that the timer is set early, and so the most that is spent on yielding.
    const MOST_EARLY: Duration = Duration::from_micros(60);

    /// For the reactor, which asks for the raw descriptor.
    struct Descriptor(TimerFd);

    impl AsRawFd for Descriptor {
        fn as_raw_fd(&self) -> RawFd {
            self.0.as_fd().as_raw_fd()
        }
    }

    impl AsFd for Descriptor {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }

    /// A timerfd that learns how late it wakes.
    pub struct PreciseTimer {
        fd: AsyncFd<Descriptor>,
        /// How much earlier than the deadline to set it.
        early: Duration,
    }

    impl PreciseTimer {
        pub(super) fn new() -> io::Result<Self> {
            let fd = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
            // SAFETY: `Descriptor` owns its file descriptor, returns the same one as long as it lives, and closes it only
            // when it is dropped, after `AsyncFd` has taken it out of the reactor.
            #[allow(unsafe_code)]
            let fd = unsafe { AsyncFd::register(Descriptor(fd)) }?;
            Ok(Self { fd, early: Duration::ZERO })
        }

        /// Waits for the timerfd, `after` from now.
        async fn expire(&mut self, after: Duration) -> io::Result<()> {
            let expiration = Expiration::OneShot(TimeSpec::from_duration(after));
            self.fd.get_ref().0.set(expiration, TimerSetTimeFlags::empty())?;
            loop {
                let mut ready = self.fd.readable().await?;
                // Readiness may be left over from a disarmed expiry; only a count read from the file is one of this setting.
                match ready.try_io(|fd| nix::unistd::read(fd, &mut [0; 8]).map_err(io::Error::from)) {
                    Ok(Ok(_)) => return Ok(()),
                    Ok(Err(error)) => return Err(error),
                    Err(_would_block) => {}
                }
            }
        }

        /// Moves `early` an eighth of the way to what would have been right.
        fn learn(&mut self, aimed: Instant, woke: Instant) {
            let late = woke.saturating_duration_since(aimed).min(MOST_EARLY);
            self.early = (self.early * 7 + late) / 8;
        }
    }

    impl Timer for PreciseTimer {
        async fn wait(&mut self, window: Duration) {
            // A timerfd set to zero is disarmed and would never expire.
            if window.is_zero() {
                return;
            }
            let deadline = Instant::now() + window;
            // Never more than half of the window is yielded away.
            let early = self.early.min(window / 2);
            let aimed = deadline - early;
            if self.expire(window - early).await.is_err() {
                // The kernel refused the setting: late is better than never.
                return tokio::time::sleep(window).await;
            }
            let woke = Instant::now();
            self.learn(aimed, woke);
            while Instant::now() < deadline {
                tokio::task::yield_now().await;
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    use std::io;
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::Timer;

    type Alarm = (Duration, oneshot::Sender<()>);

    /// A thread that sleeps for one window after the other.
    pub struct PreciseTimer {
        alarms: mpsc::Sender<Alarm>,
    }

    impl PreciseTimer {
        pub(super) fn new() -> io::Result<Self> {
            let (alarms, orders) = mpsc::channel::<Alarm>();
            std::thread::Builder::new().name("rcb-window".into()).spawn(move || {
                for (window, alarm) in orders {
                    std::thread::sleep(window);
                    // A disarmed timer has nobody listening.
                    let _ = alarm.send(());
                }
            })?;
            Ok(Self { alarms })
        }
    }

    impl Timer for PreciseTimer {
        async fn wait(&mut self, window: Duration) {
            let (alarm, rung) = oneshot::channel();
            if self.alarms.send((window, alarm)).is_err() || rung.await.is_err() {
                tokio::time::sleep(window).await;
            }
        }
    }
}
