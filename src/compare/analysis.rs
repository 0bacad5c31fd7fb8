//! The judgement of a session: every metric of every workload, as one family of questions.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::bootstrap::{Span, median_span};
use super::metric::Metric;
use super::multiplicity::q_values;
use super::noise::{Noise, visible_difference};
use super::paired::Interval;
use super::rank::{odd_one_out, signed_rank};
use super::ratio::{Ratios, share_of_ln};
use super::sequential::{Look, MINIMUM_ROUNDS};
use super::session::Session;
use super::verdict::{Evidence, Gate, Verdict, ln_threshold};

/// How many times closer baseline and control have to agree than the candidate with either, in every round, for the metric
/// to count as counted rather than timed.
const COUNTED: f64 = 10.0;

/// What verdicts are held to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The false discovery rate of a session: of A/A sessions, the share that may call any difference at all. Threshold
    /// and noise floor come on top: at 0.01, at most 2 of 1,000 simulated A/A sessions did.
    pub false_discovery: f64,
    /// The part of sessions in which an interval may miss the true median at any look.
    pub interval_error: f64,
    /// The metrics to judge: what is not reported must not be asked, since every question makes the others dearer.
    pub metrics: BTreeSet<Metric>,
    /// Differences that matter, as shares, where they are not [the metric's own](Metric::default_threshold).
    pub thresholds: BTreeMap<Metric, f64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { false_discovery: 0.01, interval_error: 0.05, metrics: Metric::ALL.into(), thresholds: BTreeMap::new() }
    }
}

impl Settings {
    /// The smallest difference of a metric that matters, as a share.
    #[must_use]
    pub fn threshold(&self, metric: Metric) -> f64 {
        self.thresholds.get(&metric).copied().unwrap_or_else(|| metric.default_threshold())
    }
}

/// One metric of one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Analysis {
    /// The workload's name.
    pub workload: String,
    /// The metric.
    pub metric: Metric,
    /// Candidate / baseline: the median of the rounds and its interval, at the family's confidence.
    pub ratio: Interval,
    /// Control / baseline (A/A): the median and its 95 % interval.
    pub control: Interval,
    /// The share that a difference had to exceed to stand out from A/A.
    pub noise_floor: f64,
    /// The share that a difference had to reach to matter.
    pub threshold: f64,
    /// How rare rounds like these are without a difference, two-sided.
    pub p_value: f64,
    /// The same in view of the whole family.
    pub q_value: f64,
    /// What follows.
    pub verdict: Verdict,
}

impl Analysis {
    /// Whether a gate takes it for a regression.
    #[must_use]
    pub fn breaks(&self, gate: Gate) -> bool {
        gate.broken(self.verdict, self.metric.direction(), self.ratio.low, self.ratio.high)
    }
}

/// The questions that were corrected together: exactly those that are reported.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Family {
    /// How many questions: metrics of workloads.
    pub questions: usize,
    /// The q-value up to which a difference is significant at this look.
    pub significant: f64,
    /// The confidence of the ratios' intervals at this look.
    pub confidence: f64,
}

/// A session as judged at one look.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// What was corrected together.
    pub family: Family,
    /// Every question with its answer, by workload and metric.
    pub analyses: Vec<Analysis>,
}

impl Comparison {
    /// Judges every metric that was measured of every workload, of those that the settings name.
    #[must_use]
    pub fn of(session: &Session, settings: &Settings, look: Look) -> Self {
        let mut questions = Vec::new();
        for (workload, rounds) in &session.workloads {
            for metric in session.metrics(workload).intersection(&settings.metrics).copied() {
                questions.extend(Question::of(workload, metric, Ratios::of(rounds, metric)));
            }
        }
        let q_values = q_values(&questions.iter().map(|question| question.p_value).collect::<Vec<_>>());
        let error = settings.interval_error * look.share;
        let family = Family { questions: questions.len(), significant: settings.false_discovery * look.share, confidence: 1.0 - error };
        let analyses = questions
            .into_iter()
            .zip(q_values)
            .filter_map(|(question, q_value)| question.answer(q_value, settings, &family, error))
            .collect();
        Self { family, analyses }
    }

    /// What more rounds could still decide. A session may end when there is none, or none of what it was run for.
    pub fn undecided(&self) -> impl Iterator<Item = &Analysis> {
        self.analyses.iter().filter(|analysis| !analysis.verdict.decided())
    }

    /// What a gate takes for a regression.
    pub fn regressions(&self, gate: Gate) -> impl Iterator<Item = &Analysis> {
        self.analyses.iter().filter(move |analysis| analysis.breaks(gate))
    }
}

struct Question<'a> {
    workload: &'a str,
    metric: Metric,
    ratios: Ratios,
    p_value: f64,
}

impl<'a> Question<'a> {
    /// `None` without a usable round.
    fn of(workload: &'a str, metric: Metric, ratios: Ratios) -> Option<Self> {
        if ratios.candidate.is_empty() {
            return None;
        }
        let p_value = p_value(&ratios);
        Some(Self { workload, metric, ratios, p_value })
    }

    fn answer(&self, q_value: f64, settings: &Settings, family: &Family, error: f64) -> Option<Analysis> {
        let logs = &self.ratios.candidate;
        let (span, noise) = (median_span(logs, error)?, Noise::of(&self.ratios.control)?);
        let threshold = settings.threshold(self.metric);
        let significant = q_value <= family.significant;
        let evidence = Evidence { span, noise, rounds: logs.len(), threshold: ln_threshold(threshold), significant };
        let verdict = evidence.verdict(self.metric.direction()).unwrap_or_else(|| {
            let level = family.significant / family.questions as f64;
            let enough = logs.len() >= MINIMUM_ROUNDS;
            let visible = enough.then(|| visible_difference(logs, &span, evidence.least(), level)).flatten();
            Verdict::Undecided { visible: visible.map(share_of_ln) }
        });
        Some(Analysis {
            workload: self.workload.to_owned(),
            metric: self.metric,
            ratio: interval(span, logs.len()),
            control: interval(noise.control, logs.len()),
            noise_floor: share_of_ln(noise.floor),
            threshold,
            p_value: self.p_value,
            q_value,
            verdict,
        })
    }
}

/// The signed rank's p-value; or, when baseline and control (all but) agree in every round and the candidate alone stands
/// apart, to the same side, that of the odd one out.
///
/// The second is smaller and never contradicts the first, which then has its least value; so it only says of counted
/// metrics how sure a few equal rounds are.
fn p_value(ratios: &Ratios) -> f64 {
    let apart = |side: f64| {
        ratios.candidate.iter().zip(&ratios.control).all(|(candidate, control)| {
            let gap = candidate * side;
            gap > 0.0 && control.abs() * COUNTED <= gap
        })
    };
    if apart(1.0) || apart(-1.0) { odd_one_out(ratios.candidate.len()) } else { signed_rank(&ratios.candidate) }
}

fn interval(span: Span, rounds: usize) -> Interval {
    Interval { median: span.median.exp(), low: span.low.exp(), high: span.high.exp(), rounds }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Observation, Round};
    use super::*;

    fn measured(metric: Metric, value: f64) -> Observation {
        Observation::Measured(BTreeMap::from([(metric, value)]))
    }

    fn session(metric: Metric, rounds: impl IntoIterator<Item = [f64; 3]>) -> Session {
        let mut session = Session::default();
        for values in rounds {
            let [baseline, candidate, control] = values.map(|value| measured(metric, value));
            session.push("get", Round { baseline, candidate, control });
        }
        session
    }

    fn only(metric: Metric, rounds: impl IntoIterator<Item = [f64; 3]>) -> Analysis {
        Comparison::of(&session(metric, rounds), &Settings::default(), Look::ONLY).analyses.remove(0)
    }

    #[test]
    fn what_is_equal_in_every_round_does_not_differ() {
        let analysis = only(Metric::Allocations, [[12.0; 3]; 12]);
        assert_eq!(analysis.verdict, Verdict::NoDifference);
        assert_eq!((analysis.ratio.low, analysis.ratio.high, analysis.p_value, analysis.noise_floor), (1.0, 1.0, 1.0, 0.0));
        assert_eq!(only(Metric::Allocations, [[0.0; 3]; 12]).verdict, Verdict::NoDifference, "none of both is no division by zero");
        assert_eq!(only(Metric::Allocations, [[0.0, 0.004, 0.0]; 12]).verdict, Verdict::NoDifference, "less than a grain");
    }

    #[test]
    fn a_constant_difference_is_decided_by_the_threshold() {
        let constant = |candidate: f64| only(Metric::AllocatedBytes, [[1000.0, candidate, 1000.0]; 12]);
        assert_eq!(constant(1004.0).verdict, Verdict::NoDifference, "0.4 % is below the 0.5 % that matter");
        assert_eq!(constant(1006.0).verdict, Verdict::Worse);
        assert_eq!(constant(990.0).verdict, Verdict::Better);
        assert!((constant(1006.0).p_value - 3f64.powi(-12)).abs() < 1e-15);
        let short = only(Metric::AllocatedBytes, [[1000.0, 2000.0, 1000.0]; 9]);
        assert_eq!(short.verdict, Verdict::Undecided { visible: None }, "nine rounds are below the minimum: {short:?}");
        let none = only(Metric::Allocations, [[0.0, 2.0, 0.0]; 12]);
        assert_eq!(none.verdict, Verdict::Worse);
        assert!(none.ratio.high.is_finite());
    }

    #[test]
    fn a_counted_metric_may_waver_a_little() {
        let waver = |round: usize| 1000.0 + (round % 3) as f64 / 10.0;
        let analysis = only(Metric::AllocatedBytes, (0..12).map(|round| [waver(round), 1010.0 + waver(round + 1), waver(round + 2)]));
        assert_eq!(analysis.verdict, Verdict::Worse);
        assert!((analysis.p_value - 3f64.powi(-12)).abs() < 1e-15);
    }

    #[test]
    fn a_difference_that_the_control_has_as_well_is_none() {
        let analysis = only(Metric::ClientCpu, (0..20).map(|round| [1000.0, 1050.0 + f64::from(round), 1049.0 + f64::from(round)]));
        assert!(analysis.q_value <= 0.01);
        assert!(!analysis.verdict.decided(), "{analysis:?}");
        let same = only(Metric::ClientCpu, (0..20).map(|round| [1000.0, 1001.0, 1049.0 + f64::from(round)]));
        assert!(!same.verdict.decided(), "a control that is off is no ground for \"no difference\" either: {same:?}");
    }

    #[test]
    fn failed_rounds_are_left_out_and_may_leave_too_few() {
        let mut session = session(Metric::Rate, [[100.0, 50.0, 100.0]; 9]);
        let failed = Observation::Failed("crash".into());
        for _ in 0..5 {
            session.push("get", Round { baseline: measured(Metric::Rate, 1.0), candidate: failed.clone(), control: failed.clone() });
        }
        session.push("set", Round { baseline: failed.clone(), candidate: failed.clone(), control: failed });
        let comparison = Comparison::of(&session, &Settings::default(), Look::ONLY);
        assert_eq!((comparison.family.questions, comparison.analyses[0].ratio.rounds), (1, 9));
        assert_eq!(comparison.undecided().count(), 1);
        let others = Settings { metrics: [Metric::P50].into(), ..Settings::default() };
        assert_eq!(Comparison::of(&session, &others, Look::ONLY).family.questions, 0);
        let nothing = Comparison::of(&Session::default(), &Settings::default(), Look::ONLY);
        assert_eq!((nothing.analyses.len(), nothing.undecided().count()), (0, 0));
    }

    #[test]
    fn the_gate_picks_the_regressions() {
        let session = session(Metric::Rate, (0..20).map(|round| [100.0, 90.0 + f64::from(round % 3), 99.5 + f64::from(round % 2)]));
        let comparison = Comparison::of(&session, &Settings::default(), Look::ONLY);
        assert_eq!(comparison.regressions(Gate { max_regression: 0.05 }).count(), 1);
        assert_eq!(comparison.regressions(Gate { max_regression: 0.10 }).count(), 0);
        let text = serde_json::to_string(&comparison).unwrap();
        let kept: Comparison = serde_json::from_str(&text).unwrap();
        assert_eq!((kept.family, kept.analyses[0].verdict), (comparison.family, comparison.analyses[0].verdict));
    }

    proptest! {
        #[test]
        fn any_values_give_figures_and_swapping_turns_the_verdict(
            values in prop::collection::vec(prop::array::uniform2(prop_oneof![Just(0.0), Just(f64::NAN), 0.9f64..1.1, 0.0f64..1e12]), 1..40),
            metric in prop::sample::select(&Metric::ALL[..]),
        ) {
            let forth = Comparison::of(&session(metric, values.iter().map(|[a, b]| [*a, *b, *a])), &Settings::default(), Look::ONLY);
            let back = Comparison::of(&session(metric, values.iter().map(|[a, b]| [*b, *a, *b])), &Settings::default(), Look::ONLY);
            prop_assert_eq!(forth.analyses.len(), back.analyses.len());
            for (forth, back) in forth.analyses.iter().zip(&back.analyses) {
                let ratio = forth.ratio;
                prop_assert!(ratio.low <= ratio.median && ratio.median <= ratio.high && ratio.high.is_finite());
                prop_assert!(forth.noise_floor.is_finite() && (0.0..=1.0).contains(&forth.p_value) && forth.q_value <= 1.0);
                prop_assert!((ratio.low * back.ratio.high - 1.0).abs() < 1e-9);
                prop_assert_eq!(forth.p_value, back.p_value);
                prop_assert_eq!(forth.verdict.decided(), back.verdict.decided());
                prop_assert_eq!(forth.verdict == Verdict::Better, back.verdict == Verdict::Worse);
            }
        }
    }
}
