//! The series of seconds.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::fake::{Answer, Fake, job, mix, rate};
use crate::drivers::Error;
use crate::workload::load::engine::{Job, run};
use crate::workload::load::issue::Single;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_seconds_sum_to_the_total_and_follow_each_other() {
    for open in [None, rate("0=500")] {
        let script = |number: usize, _: &_| {
            if number % 7 == 3 { Answer::Error(Error::server("ERR no")) } else { Answer::After(Duration::from_millis(1)) }
        };
        let fake = Fake::new(script);
        let is_open = open.is_some();
        let time = Some(Duration::from_millis(1_300));
        let job = Job { callers: 10, commands: None, time, open, continue_on_error: true, ..job(1) };
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = seen.clone();
        let observer = Box::new(move |tick: &crate::workload::load::ticker::Tick<'_>| {
            noted.lock().unwrap().push((tick.counts.service.len(), tick.commands, tick.errors));
        });
        let outcome = run(&Single(fake.clone()), &mix(&["GET a:__key__", "PING"]), &job, 2, observer).await;
        let seconds = &outcome.seconds;
        assert!(seconds.len() >= 2, "{seconds:?}");
        assert!(seconds.windows(2).all(|pair| pair[0].to == pair[1].from) && seconds[0].from == 0.0, "{seconds:?}");
        assert_eq!(seconds.iter().map(|second| second.commands).sum::<u64>(), outcome.total.done());
        assert_eq!(seconds.iter().map(|second| second.errors).sum::<u64>(), outcome.total.failed());
        assert_eq!(outcome.total.done() + outcome.total.failed(), fake.sent().len() as u64);
        assert!(outcome.total.failed() > 0);
        for second in seconds {
            assert_eq!(second.service.map_or(0, |latency| latency.count), second.commands);
            assert_eq!(second.planned.map_or(0, |latency| latency.count), if is_open { second.commands } else { 0 });
            assert_eq!(second.entries.iter().flatten().map(|latency| latency.count).sum::<u64>(), second.commands);
            assert_eq!(second.backlog.is_some(), is_open);
        }
        let seen = seen.lock().unwrap();
        assert_eq!(seen.iter().map(|(count, ..)| count).sum::<u64>(), outcome.total.done(), "a log of the intervals is whole");
        assert_eq!(seen.last().map(|&(_, commands, errors)| (commands, errors)), Some((outcome.total.done(), outcome.total.failed())));
    }
}
