//! The line of each second: plain lines in a pipe, a bar above them on a terminal.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::drivers::CacheCounts;
use crate::measure::Latency;
use crate::workload::cache::Counter;
use crate::workload::load::engine::Job;
use crate::workload::load::ticker::{Second, Tick};

/// Where the lines go.
pub struct Live {
    bar: Option<ProgressBar>,
    commands: Option<u64>,
    time: Option<f64>,
    cache: Option<Watch>,
}

/// The counts of a cache, second by second.
struct Watch {
    counter: Counter,
    last: CacheCounts,
}

impl Watch {
    fn new(counter: Counter) -> Self {
        let last = counter();
        Self { counter, last }
    }

    /// Hits and invalidations per second since the last call; of an interval too short for a rate, none.
    fn rates(&mut self, second: &Second) -> [String; 2] {
        let now = (self.counter)();
        let last = std::mem::replace(&mut self.last, now);
        let rate = |more: u64| match second.rate() {
            Some(_) => format!("{:.0}", more as f64 / (second.to - second.from)),
            None => "-".to_owned(),
        };
        [rate(now.hits.saturating_sub(last.hits)), rate(now.invalidations.saturating_sub(last.invalidations))]
    }
}

const STEPS: u64 = 1000;

pub const HEADER: &str =
    "       Test time      Total commands        Total errors    Command rate   Cache hits/s   Invalid./s  p50 lat. (msec)";

impl Live {
    /// Prints the header and begins; `counter` is that of the client's cache.
    pub fn start(job: &Job, counter: Option<Counter>) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent:>3} %  {msg}") {
                bar.set_style(style);
            }
            bar
        });
        let live = Self { bar, commands: job.commands, time: job.time.map(|time| time.as_secs_f64()), cache: counter.map(Watch::new) };
        live.print(HEADER);
        live
    }

    /// How much of the run is done, 0 to 1.
    fn done(&self, commands: u64, seconds: f64) -> f64 {
        let by_count = self.commands.map_or(0.0, |all| commands as f64 / all as f64);
        let by_time = self.time.map_or(0.0, |all| seconds / all);
        by_count.max(by_time).min(1.0)
    }

    /// The line of an interval.
    pub fn tick(&mut self, tick: &Tick<'_>) {
        let second = tick.second;
        let ended = tick.commands + tick.errors;
        let done = self.done(ended, second.to);
        let errors = 100.0 * tick.errors as f64 / ended.max(1) as f64;
        let rate = second.rate().map_or("-".to_owned(), |rate| format!("{rate:.0}"));
        let p50 =
            second.planned.or(second.service).map_or("-".to_owned(), |latency: Latency| format!("{:.3}", latency.p50_ns as f64 / 1e6));
        let [hits, invalidations] = self.cache.as_mut().map_or(["-".to_owned(), "-".to_owned()], |cache| cache.rates(second));
        let mut line = format!(
            "{:>7.0}s [{:>5.1}%] {:>19} {:>10} [{:>5.1}%] {:>15} {:>14} {:>12} {:>16}",
            second.to,
            done * 100.0,
            tick.commands,
            tick.errors,
            errors,
            rate,
            hits,
            invalidations,
            p50
        );
        if let Some(backlog) = second.backlog.filter(|&backlog| backlog > 0) {
            line += &format!("   backlog {backlog}");
        }
        if let Some(bar) = &self.bar {
            bar.set_position((done * STEPS as f64) as u64);
            bar.set_message(format!("{rate}/s"));
        }
        self.print(&line);
    }

    fn print(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => tell!("{line}"),
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
