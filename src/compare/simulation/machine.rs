//! A noisy machine: observations with the disturbances that were seen on a shared 2-core machine.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::super::{Metric, Observation};

/// How noisy. Standard deviations of logarithms, of one observation of a second.
#[derive(Clone, Copy, Debug)]
pub struct Disturbance {
    /// Of the rate, of each observation by itself: what a ratio within a round cannot cancel. Student's t of 4 degrees.
    pub rate: f64,
    /// Of the client's CPU time per operation, of each observation by itself.
    pub cpu: f64,
    /// Of the slow drift of the machine, as a multiple of `rate`.
    pub drift: f64,
    /// How much of the drift is left from one observation to the next (AR(1)).
    pub persistence: f64,
    /// The chance that an observation starts a burst: a neighbour that takes 10 to 50 % for one to a few observations.
    pub bursts: f64,
    /// Length of an observation in seconds. Half of the variance is of the process (placement, layout), half averages out.
    pub seconds: f64,
}

impl Disturbance {
    pub const USUAL: Self = Self { rate: 0.05, cpu: 0.015, drift: 1.0, persistence: 0.95, bursts: 0.03, seconds: 1.0 };
}

/// What the candidate truly differs by: factors on the metrics that are not 1.
pub type Effect = BTreeMap<Metric, f64>;

pub struct Machine {
    pub random: StdRng,
    noise: Disturbance,
    drift: f64,
    burst: f64,
}

impl Machine {
    pub fn new(noise: Disturbance, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let drift = normal(&mut random) * noise.rate * noise.drift;
        Self { random, noise, drift, burst: 0.0 }
    }

    /// One observation of a subject, `shock` being what hit its whole round.
    pub fn observe(&mut self, shock: f64, counted: bool, effect: Option<&Effect>) -> Observation {
        let Disturbance { rate, cpu, drift, persistence, bursts, seconds } = self.noise;
        self.drift = persistence * self.drift + (1.0 - persistence * persistence).sqrt() * rate * drift * normal(&mut self.random);
        if self.random.random::<f64>() < if self.burst > 0.0 { 0.5 } else { bursts } {
            self.burst = self.random.random_range(0.1..0.5);
        } else {
            self.burst = 0.0;
        }
        let averaged = (0.5 + 0.5 / seconds).sqrt();
        let own = averaged * rate * heavy(&mut self.random);
        let slow = self.drift + shock + own + self.burst;
        let random = &mut self.random;
        let logs = [
            (Metric::Rate, 100_000f64, -slow),
            (Metric::P50, 150_000.0, 0.9 * slow + averaged * 0.3 * rate * heavy(random)),
            (Metric::P99, 900_000.0, 1.5 * slow + averaged * 0.08 * heavy(random) + self.burst * random.random::<f64>()),
            (Metric::ClientCpu, 6_000.0, 0.1 * (self.drift + shock + self.burst) + averaged * cpu * heavy(random)),
            (Metric::Allocations, 12.0, if counted { 0.0 } else { 1e-4 * normal(random) }),
            (Metric::AllocatedBytes, 800.0, if counted { 0.0 } else { 1e-3 * normal(random) }),
            (Metric::CommandsPerRead, 8.0, -0.4 * slow + averaged * 0.02 * heavy(random)),
        ];
        let factor = |metric| effect.and_then(|effect| effect.get(&metric)).copied().unwrap_or(1.0);
        Observation::Measured(logs.map(|(metric, level, log)| (metric, level * log.exp() * factor(metric))).into())
    }
}

pub fn normal(random: &mut StdRng) -> f64 {
    let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.random::<f64>()).cos()
}

/// Student's t of 4 degrees of freedom, scaled to a deviation of 1.
pub fn heavy(random: &mut StdRng) -> f64 {
    let chi_squared = -2.0 * ((1.0 - random.random::<f64>()) * (1.0 - random.random::<f64>())).ln();
    normal(random) / (chi_squared / 4.0).sqrt() / std::f64::consts::SQRT_2
}
