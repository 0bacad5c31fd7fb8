//! Whole sessions on a simulated machine: how often a verdict is wrong, and how often a difference is found.
//!
//! `RCB_SIMULATED_SESSIONS=N` multiplies the sessions and adds the rows of the tables that nothing is asserted of;
//! `--nocapture` prints them.

mod level;
mod machine;
mod power;

use machine::{Disturbance, Effect, Machine, normal};

use super::{Comparison, Orders, Round, Session, Settings, Spending};

/// Time that an observation takes beside the time measured: starting the process, connecting, warming up.
const OVERHEAD_SECONDS: f64 = 0.15;

/// A kind of session.
#[derive(Clone, Debug)]
pub struct Plan {
    pub workloads: usize,
    pub rounds: usize,
    pub noise: Disturbance,
    pub effect: Effect,
    pub settings: Settings,
}

impl Plan {
    /// As many rounds of three observations as fit into the seconds, for each of the workloads.
    pub fn of_seconds(workloads: usize, seconds: f64, noise: Disturbance) -> Self {
        let rounds = (seconds / workloads as f64 / (3.0 * (noise.seconds + OVERHEAD_SECONDS))) as usize;
        Self { workloads, rounds, noise, effect: Effect::new(), settings: Settings::default() }
    }

    /// Runs a session as the real one does: rounds in drawn order, looks when due, an end when all is decided. Gives the
    /// judgement that counts, and the rounds it took.
    pub fn run(&self, seed: u64) -> (Comparison, usize) {
        let mut machine = Machine::new(self.noise, seed);
        let mut orders: Vec<Orders> = (0..self.workloads).map(|workload| Orders::new(3, seed ^ (workload as u64) << 32)).collect();
        let names: Vec<String> = (0..self.workloads).map(|workload| format!("w{workload}")).collect();
        let (mut session, mut spending) = (Session::default(), Spending::default());
        for round in 1.. {
            for (workload, name) in names.iter().enumerate() {
                session.push(name, self.round(&mut machine, orders[workload].next().unwrap(), workload % 2 == 0));
            }
            let Some(look) = spending.after_round(round as f64 / self.rounds as f64, round) else { continue };
            let comparison = Comparison::of(&session, &self.settings, look);
            if look.last || comparison.undecided().next().is_none() {
                return (comparison, round);
            }
        }
        unreachable!("the last look ends the session")
    }

    fn round(&self, machine: &mut Machine, order: Vec<usize>, counted: bool) -> Round {
        let shock = normal(&mut machine.random) * self.noise.rate;
        let mut observed = [const { None }; 3];
        for subject in order {
            observed[subject] = Some(machine.observe(shock, counted, (subject == 1).then_some(&self.effect)));
        }
        let [baseline, candidate, control] = observed.map(Option::unwrap);
        Round { baseline, candidate, control }
    }

    /// Runs so many sessions (times `RCB_SIMULATED_SESSIONS`), on both cores, and gives what `pick` makes of each.
    pub fn sessions<T: Send>(&self, sessions: usize, seed: u64, pick: impl Fn(Comparison, usize) -> T + Sync) -> Vec<T> {
        let sessions = sessions * times().unwrap_or(1);
        let half = |part: usize| {
            let pick = &pick;
            move || {
                (0..sessions)
                    .filter(|session| session % 2 == part)
                    .map(|session| {
                        let (comparison, rounds) = self.run(seed + session as u64);
                        pick(comparison, rounds)
                    })
                    .collect::<Vec<T>>()
            }
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(half(1));
            let mut all = half(0)();
            all.extend(other.join().expect("a simulated session"));
            all
        })
    }
}

/// What `RCB_SIMULATED_SESSIONS` asks for.
pub fn times() -> Option<usize> {
    std::env::var("RCB_SIMULATED_SESSIONS").ok()?.parse().ok()
}

/// The share of those for which something is so.
pub fn share<T>(all: &[T], is: impl Fn(&T) -> bool) -> f64 {
    all.iter().filter(|one| is(one)).count() as f64 / all.len() as f64
}

/// The largest number of successes out of `n` of probability `p` that is exceeded in fewer than 1 of 1,000 cases.
pub fn binomial_bound(n: usize, p: f64) -> usize {
    let (mut term, mut sum) = ((1.0 - p).powi(n as i32), 0.0);
    for k in 0..n {
        sum += term;
        if sum > 0.999 {
            return k;
        }
        term *= (n - k) as f64 / (k + 1) as f64 * p / (1.0 - p);
    }
    n
}
