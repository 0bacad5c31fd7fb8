//! The precise timer for real, since every figure below a millisecond stands on it.

use std::time::{Duration, Instant};

use crate::window::{Clock, Precise, Timer};

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_timer_is_never_early_and_can_be_disarmed() {
    let mut timer = Precise.timer().unwrap();
    for micros in [0, 1, 25, 50, 150, 1_000, 20, 300] {
        let window = Duration::from_micros(micros);
        // Armed, given up, armed again: the expiry of the first must not end the second.
        {
            let first = timer.wait(Duration::from_micros(200));
            tokio::pin!(first);
            let polled = std::future::poll_fn(|context| std::task::Poll::Ready(first.as_mut().poll(context))).await;
            // On a stalled machine it may have ended already; as a rule it is pending and given up here.
            let _ = polled;
        }
        std::thread::sleep(Duration::from_micros(300));
        let start = Instant::now();
        timer.wait(window).await;
        assert!(start.elapsed() >= window, "{:?} for {window:?}", start.elapsed());
    }
}
