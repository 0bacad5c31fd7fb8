//! The measurements of one comparison: workloads, rounds, and an observation or a failure per subject and round.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::metric::Metric;

/// What one run of one subject gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Observation {
    /// The figures of the run, in the units of [`Metric`]. A metric that could not be had is not there.
    Measured(BTreeMap<Metric, f64>),
    /// Why the run gave none: a crash, a timeout, a wrong reply.
    Failed(String),
}

impl Observation {
    fn value(&self, metric: Metric) -> Option<f64> {
        match self {
            Self::Measured(figures) => figures.get(&metric).copied(),
            Self::Failed(_) => None,
        }
    }

    fn failure(&self) -> Option<&str> {
        match self {
            Self::Measured(_) => None,
            Self::Failed(reason) => Some(reason),
        }
    }
}

/// One round: every subject ran once, in an order of its own ([`Orders`](super::Orders)).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// The subject that the other is measured by.
    pub baseline: Observation,
    /// The subject that the verdict is about.
    pub candidate: Observation,
    /// The baseline under a second name (A/A): what it differs by from the baseline is noise.
    pub control: Observation,
}

impl Round {
    /// The names of the three subjects of a round, in the order of the fields.
    pub const SUBJECTS: [&str; 3] = ["baseline", "candidate", "control"];

    /// The baseline's, the candidate's and the control's value of a metric; `None` unless all three were measured.
    ///
    /// A round with a hole is left out as a whole, so that candidate and control are judged by the same rounds.
    #[must_use]
    pub fn values(&self, metric: Metric) -> Option<[f64; 3]> {
        Some([self.baseline.value(metric)?, self.candidate.value(metric)?, self.control.value(metric)?])
    }

    /// The subjects that failed, with the reason.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, &str)> {
        Self::SUBJECTS
            .into_iter()
            .zip([&self.baseline, &self.candidate, &self.control])
            .filter_map(|(subject, observation)| Some((subject, observation.failure()?)))
    }
}

/// Rounds by workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// The rounds of each workload, oldest first, by the workload's name.
    pub workloads: BTreeMap<String, Vec<Round>>,
}

impl Session {
    /// Adds a round of a workload.
    pub fn push(&mut self, workload: &str, round: Round) {
        self.workloads.entry(workload.to_owned()).or_default().push(round);
    }

    /// The metrics that at least one round of a workload gave for all three subjects: what can be judged of it.
    #[must_use]
    pub fn metrics(&self, workload: &str) -> BTreeSet<Metric> {
        let rounds = self.workloads.get(workload).map_or(&[][..], Vec::as_slice);
        Metric::ALL.into_iter().filter(|metric| rounds.iter().any(|round| round.values(*metric).is_some())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(rate: f64) -> Observation {
        Observation::Measured(BTreeMap::from([(Metric::Rate, rate)]))
    }

    #[test]
    fn a_round_with_a_failure_gives_no_values_but_its_reason() {
        let round = Round { baseline: measured(1.0), candidate: Observation::Failed("timeout".into()), control: measured(2.0) };
        assert_eq!(round.values(Metric::Rate), None);
        assert_eq!(round.failures().collect::<Vec<_>>(), [("candidate", "timeout")]);
        let mut session = Session::default();
        session.push("get", round.clone());
        assert!(session.metrics("get").is_empty());
        session.push("get", Round { candidate: measured(3.0), ..round });
        assert_eq!(session.metrics("get"), BTreeSet::from([Metric::Rate]));
        assert!(session.metrics("set").is_empty());
        let text = serde_json::to_string(&session).unwrap();
        assert_eq!(serde_json::from_str::<Session>(&text).unwrap(), session);
    }
}
