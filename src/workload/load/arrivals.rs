//! When the commands of an open loop are planned to be sent: a rate that may change in steps, evenly or at random.
//!
//! The plan depends on the seed alone, never on how fast the server answers, so that a slow reply delays no later command
//! on paper: latency counts from the planned time (no coordinated omission).

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::workload::mix::CounterRng;

/// How arrivals spread within the rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Spread {
    /// At even distances.
    #[default]
    Uniform,
    /// As a Poisson process: independent of each other, as many users' requests are.
    Poisson,
}

/// From `at` on, this many commands per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Seconds after the start.
    pub at: f64,
    /// Commands per second; 0 pauses.
    pub rate: f64,
}

/// A rate over time: `0s=1000,10s=5000`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule(Vec<Step>);

/// Slowest rate that can be planned, in commands per second.
const SLOWEST: f64 = 1e-6;
/// Fastest rate that can be planned: as many as one thread can release.
const FASTEST: f64 = 1e8;

impl Schedule {
    /// The same rate all the time.
    ///
    /// # Errors
    /// A rate that is not positive.
    pub fn constant(rate: f64) -> Result<Self, String> {
        if !(rate.is_finite() && rate > 0.0) {
            return Err(format!("a rate of {rate} commands per second can't be kept; give a positive number"));
        }
        possible(rate)?;
        Ok(Self(vec![Step { at: 0.0, rate }]))
    }

    /// The steps, by time.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// Commands planned before `end`.
    #[must_use]
    pub fn commands_before(&self, end: Duration) -> f64 {
        let end = end.as_secs_f64();
        let ends = self.0.iter().skip(1).map(|step| step.at).chain([f64::INFINITY]);
        self.0.iter().zip(ends).map(|(step, until)| (until.min(end) - step.at).max(0.0) * step.rate).sum()
    }
}

/// Refuses a rate that no thread could release, or at which a command is due in weeks only.
fn possible(rate: f64) -> Result<(), String> {
    if (SLOWEST..=FASTEST).contains(&rate) {
        Ok(())
    } else {
        Err(format!("a rate of {rate} commands per second can't be kept; give one from {SLOWEST} to {FASTEST}"))
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut steps: Vec<Step> = Vec::new();
        for part in text.split(',') {
            let form = || format!("{part:?} is no step of a schedule; write time=rate, as in 0s=1000,10s=5000");
            let (at, rate) = part.trim().split_once('=').ok_or_else(form)?;
            let at = match at.trim().parse::<f64>() {
                Ok(seconds) => seconds,
                Err(_) => humantime::parse_duration(at.trim()).map_err(|_| form())?.as_secs_f64(),
            };
            let rate: f64 = rate.trim().parse().map_err(|_| form())?;
            if !(at.is_finite() && at >= 0.0 && rate.is_finite() && rate >= 0.0) {
                return Err(form());
            }
            if rate > 0.0 {
                possible(rate)?;
            }
            if steps.last().is_some_and(|last| last.at >= at) {
                return Err(format!("the steps of a schedule must be in order of time; {part:?} is not later than the one before it"));
            }
            steps.push(Step { at, rate });
        }
        if steps.first().is_some_and(|first| first.at != 0.0) {
            steps.insert(0, Step { at: 0.0, rate: 0.0 });
        }
        if steps.iter().all(|step| step.rate == 0.0) {
            return Err("every rate of the schedule is 0, so nothing would ever be sent; give a positive one".into());
        }
        Ok(Self(steps))
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = &self.0[..] {
            return write!(f, "{}", only.rate);
        }
        let steps: Vec<String> = self.0.iter().map(|step| format!("{}s={}", step.at, step.rate)).collect();
        f.write_str(&steps.join(","))
    }
}

/// How an open loop sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenLoop {
    /// Commands per second over time.
    pub schedule: Schedule,
    /// Commands planned for the same moment; 1 unless bursts are wanted.
    pub burst: u64,
    /// How the moments spread.
    pub spread: Spread,
}

/// Sets the draws of arrivals apart from those of commands.
const ARRIVALS: u64 = 0x4152_5249_5645;

/// A time that no run comes to, and that can still be added to one.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Maps 64 random bits to [0, 1).
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// A step with what is planned before it.
#[derive(Clone, Copy, Debug)]
struct Segment {
    at: f64,
    rate: f64,
    /// Commands planned before `at`.
    before: f64,
}

/// The planned times, one after the other. Clones go on from the same place, each by itself.
#[derive(Clone, Debug)]
pub struct Arrivals {
    segments: Arc<[Segment]>,
    /// The segment in which the last time lay.
    current: usize,
    /// Commands of one arrival (an explicit pipeline).
    unit: u64,
    /// Arrivals at the same moment.
    together: u64,
    /// Arrivals drawn so far.
    drawn: u64,
    /// Commands planned before the next moment, as the integral of the rate.
    mass: f64,
    spread: Spread,
    random: CounterRng,
}

impl Arrivals {
    /// The plan of `open`, for arrivals of `unit` commands each.
    #[must_use]
    pub fn new(open: &OpenLoop, unit: u64, seed: u64) -> Self {
        let mut before = 0.0;
        let mut segments = Vec::with_capacity(open.schedule.0.len());
        for (index, step) in open.schedule.0.iter().enumerate() {
            segments.push(Segment { at: step.at, rate: step.rate, before });
            before += open.schedule.0.get(index + 1).map_or(0.0, |next| (next.at - step.at) * step.rate);
        }
        let unit = unit.max(1);
        let mut arrivals = Self {
            segments: segments.into(),
            current: 0,
            unit,
            together: (open.burst / unit).max(1),
            drawn: 0,
            mass: 0.0,
            spread: open.spread,
            random: CounterRng::at(seed, ARRIVALS),
        };
        if open.spread == Spread::Poisson {
            arrivals.mass = arrivals.gap();
        }
        arrivals
    }

    /// Commands between two moments.
    fn gap(&mut self) -> f64 {
        let mean = (self.unit * self.together) as f64;
        match self.spread {
            Spread::Uniform => mean,
            // Inverse of the exponential distribution; 1 - u is never 0.
            Spread::Poisson => -mean * (1.0 - unit(self.random.draw())).ln(),
        }
    }

    /// The planned time of the next arrival after the start; `None` when the rate stays at 0.
    #[must_use]
    pub fn peek(&self) -> Option<Duration> {
        let mut current = self.current;
        loop {
            let segment = self.segments[current];
            let next = self.segments.get(current + 1);
            // A moment at a border belongs to the later step; one in a pause comes when the pause ends.
            if next.is_some_and(|next| self.mass >= next.before) {
                current += 1;
                continue;
            }
            if segment.rate == 0.0 {
                return None;
            }
            let seconds = segment.at + (self.mass - segment.before) / segment.rate;
            return Some(Duration::try_from_secs_f64(seconds).unwrap_or(NEVER).min(NEVER));
        }
    }

    /// Arrivals planned for one moment.
    #[must_use]
    pub fn together(&self) -> u64 {
        self.together
    }

    /// Arrivals drawn so far.
    #[must_use]
    pub fn drawn(&self) -> u64 {
        self.drawn
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    /// Draws the next arrival's planned time.
    fn next(&mut self) -> Option<Duration> {
        let planned = self.peek()?;
        while self.segments.get(self.current + 1).is_some_and(|next| self.mass >= next.before) {
            self.current += 1;
        }
        self.drawn += 1;
        if self.drawn.is_multiple_of(self.together) {
            self.mass = match self.spread {
                // From the count, so that rounding does not add up.
                Spread::Uniform => self.drawn as f64 * self.unit as f64,
                Spread::Poisson => self.mass + self.gap(),
            };
        }
        Some(planned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(schedule: &str, burst: u64, spread: Spread) -> OpenLoop {
        OpenLoop { schedule: schedule.parse().unwrap(), burst, spread }
    }

    fn before(arrivals: Arrivals, seconds: f64) -> Vec<f64> {
        arrivals.map(|at| at.as_secs_f64()).take_while(|&at| at < seconds).collect()
    }

    #[test]
    fn an_even_rate_is_met_exactly_over_a_long_time() {
        let times = before(Arrivals::new(&open("0=1000", 1, Spread::Uniform), 1, 1), 1000.0);
        assert_eq!(times.len(), 1_000_000);
        assert!((times[999_999] - 999.999).abs() < 1e-9);
    }

    #[test]
    fn steps_pauses_and_borders_are_kept() {
        let times = before(Arrivals::new(&open("1s=10,2s=0,3s=100", 1, Spread::Uniform), 1, 1), 4.0);
        let within = |from: f64, to: f64| times.iter().filter(|&&at| at >= from && at < to).count();
        assert_eq!((within(0.0, 1.0), within(1.0, 2.0), within(2.0, 3.0), within(3.0, 4.0)), (0, 10, 0, 100), "{times:?}");
        let ends = Arrivals::new(&open("0=10,1=0", 1, Spread::Uniform), 1, 1);
        assert_eq!(ends.count(), 10);
        assert_eq!("1s=10,2s=0,3s=100".parse::<Schedule>().unwrap().commands_before(Duration::from_secs(4)), 110.0);
    }

    #[test]
    fn a_burst_is_planned_for_one_moment_and_the_rate_stays() {
        let times = before(Arrivals::new(&open("0=100", 10, Spread::Uniform), 1, 1), 10.0);
        assert_eq!(times.len(), 1000);
        assert!(times.chunks(10).all(|burst| burst.iter().all(|at| at == &burst[0])));
        // Pipelines of 4 in bursts of 8: two arrivals at a time, 25 pipelines a second.
        let times = before(Arrivals::new(&open("0=100", 8, Spread::Uniform), 4, 1), 4.0);
        assert_eq!(times.len(), 100);
        assert_eq!((times[0], times[1]), (0.0, 0.0));
        assert!((times[2] - 0.08).abs() < 1e-12);
    }

    #[test]
    fn random_arrivals_have_the_mean_and_the_deviation_of_their_process_and_follow_the_seed() {
        let arrivals = |seed| Arrivals::new(&open("0=1000", 1, Spread::Poisson), 1, seed);
        let times = before(arrivals(7), 100.0);
        assert!((times.len() as f64 - 100_000.0).abs() < 4.0 * 100_000f64.sqrt(), "{}", times.len());
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        // An exponential distribution's deviation is its mean.
        assert!((deviation / mean - 1.0).abs() < 0.05, "{mean} {deviation}");
        assert_eq!(times, before(arrivals(7), 100.0));
        assert_ne!(times, before(arrivals(8), 100.0));
    }

    #[test]
    fn what_is_no_schedule_is_told() {
        for (text, part) in
            [("10", "time=rate"), ("0=a", "time=rate"), ("0=-1", "time=rate"), ("5=1,5=2", "in order"), ("0=0,1=0", "every rate")]
        {
            let error = text.parse::<Schedule>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9, 1e-300] {
            assert!(Schedule::constant(rate).unwrap_err().contains("can't be kept"), "{rate}");
        }
        assert!("0=10,1=1e300".parse::<Schedule>().is_err() && "0=10,1e300=1".parse::<Schedule>().is_ok());
        assert_eq!(before(Arrivals::new(&open("1e300=1", 1, Spread::Uniform), 1, 1), 1.0), [0.0; 0]);
    }
}
