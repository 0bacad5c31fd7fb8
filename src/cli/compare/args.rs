//! The flags of `rcb compare`.

use std::path::PathBuf;
use std::time::Duration;

use crate::cli::limits::parse_time;
use crate::compare::{Gate, Metric};
use crate::target::TargetArgs;

pub const EXAMPLES: &str = "\
Examples:
  rcb compare redis@0.32.7 redis@1.8.1                  two releases of a client
  rcb compare redis@1.8.1 redis@path:../redis-rs        a release and your branch
  rcb compare fred@git:../fred.rs#v10.1.0 fred@git:../fred.rs#HEAD
  rcb compare fred fred-pool:connections=4              two drivers of this build
  rcb compare redis-rs:nodelay=off redis-rs:nodelay=on  two settings
  rcb compare raw raw                                   A/A: how much noise there is
  rcb compare redis-rs mine@worker:./worker.py          a worker of your own, see docs/WORKER.md
  rcb compare redis@1.8.1 redis@path:. --workload get-64 --max-time 30s --max-regression 5%

Exit codes: 0 done, 1 a cell failed, 2 wrong usage, 3 a regression beyond --max-regression, 130 interrupted (go on with --resume).";

/// `5%` or `0.05`.
pub fn share(text: &str) -> Result<f64, String> {
    let form = || format!("{text:?} is no share; write 5% or 0.05");
    let share = match text.trim().strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map_err(|_| form())? / 100.0,
        None => text.trim().parse::<f64>().map_err(|_| form())?,
    };
    if (0.0..1.0).contains(&share) { Ok(share) } else { Err(format!("{text:?} is not below 100 %; write 5% or 0.05")) }
}

fn gate(text: &str) -> Result<Gate, String> {
    Ok(Gate { max_regression: share(text)? })
}

fn metric(text: &str) -> Result<Metric, String> {
    let known = || Metric::ALL.map(Metric::name).join(", ");
    Metric::ALL.into_iter().find(|metric| metric.name() == text.trim()).ok_or_else(|| format!("no metric {text:?}; there are {}", known()))
}

fn threshold(text: &str) -> Result<(Metric, f64), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is no threshold; write rate=2%"))?;
    Ok((metric(name)?, share(value)?))
}

/// A time that is longer than none.
fn some_time(text: &str) -> Result<Duration, String> {
    match parse_time(text)? {
        Duration::ZERO => Err("a time of 0 measures nothing; give more".to_owned()),
        time => Ok(time),
    }
}

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// What is compared: the first is the baseline, each other a candidate. NAME, CRATE@VERSION, CRATE@path:FOLDER,
    /// CRATE@git:FOLDER#REVISION or NAME@worker:PATH, with settings after it as in fred-pool:connections=4,resp=3
    #[arg(value_name = "SUBJECT")]
    pub subjects: Vec<String>,
    /// Workloads, separated by commas [default: all that --config or this tool has]
    #[arg(long = "workload", value_name = "NAMES", value_delimiter = ',', help_heading = "What is done")]
    pub workloads: Vec<String>,
    /// Workloads of a file: its section [[compare.workload]]
    #[arg(long, value_name = "PATH", help_heading = "What is done")]
    pub config: Option<PathBuf>,
    /// List the workloads, and end
    #[arg(long, help_heading = "What is done")]
    pub list: bool,
    /// Longest time of the session for each workload
    #[arg(long, value_name = "TIME", value_parser = some_time, default_value = "60s", help_heading = "How long")]
    pub max_time: Duration,
    /// Time of one observation
    #[arg(long, value_name = "TIME", value_parser = some_time, default_value = "60ms", help_heading = "How long")]
    pub time: Duration,
    /// Warm-up before each observation, left out of it
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "20ms", help_heading = "How long")]
    pub warm_up: Duration,
    /// An operation that goes without its reply for so long is given up
    #[arg(long, value_name = "TIME", value_parser = some_time, default_value = "10s", help_heading = "How long")]
    pub patience: Duration,
    /// Decides the order of the subjects in each round [default: drawn, and recorded]
    #[arg(long, value_name = "SEED", help_heading = "How long")]
    pub seed: Option<u64>,
    /// Metrics to judge, separated by commas: rate, p50, p99, client-cpu, allocations, allocated-bytes, commands-per-read
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = metric, help_heading = "Verdicts")]
    pub metrics: Vec<Metric>,
    /// The smallest difference that matters, by metric: --threshold rate=2%
    #[arg(long = "threshold", value_name = "METRIC=SHARE", value_parser = threshold, help_heading = "Verdicts")]
    pub thresholds: Vec<(Metric, f64)>,
    /// Exit with 3 when a candidate is worse by more than this, beyond doubt and above the noise
    #[arg(long, value_name = "SHARE", value_parser = gate, help_heading = "Verdicts")]
    pub max_regression: Option<Gate>,
    /// Compare the only subject with an older session that was saved under this name
    #[arg(long, value_name = "NAME", help_heading = "Records")]
    pub baseline: Option<String>,
    /// Save the baseline (of a single subject: its A/A session) under this name
    #[arg(long, value_name = "NAME", help_heading = "Records")]
    pub save_baseline: Option<String>,
    /// Compare with an older session, or go on with one, though machine, server or settings differ
    #[arg(long, help_heading = "Records")]
    pub force: bool,
    /// Where records are kept
    #[arg(long, value_name = "FOLDER", default_value = "results", help_heading = "Records")]
    pub results: PathBuf,
    /// The record's file [default: compare-TIME.json in the folder of --results]
    #[arg(long, value_name = "PATH", help_heading = "Records")]
    pub out: Option<PathBuf>,
    /// Go on with a session that was interrupted, as it was asked for
    #[arg(long, value_name = "PATH", conflicts_with_all = ["subjects", "workloads", "config", "seed", "metrics", "thresholds", "baseline", "out"], help_heading = "Records")]
    pub resume: Option<PathBuf>,
    /// Bind the server (if we started it as a process) and the workers to cores of their own
    #[arg(long, help_heading = "Machine")]
    pub pin: bool,
    /// Keep every core awake by a loop of the lowest priority, for workloads of few callers on an idle machine
    #[arg(long, help_heading = "Machine")]
    pub spin: bool,
    /// Build workers without the network
    #[arg(long, help_heading = "Workers of other versions")]
    pub offline: bool,
    /// The sources of this crate, where they are not where this rcb was built
    #[arg(long, value_name = "FOLDER", help_heading = "Workers of other versions")]
    pub sources: Option<PathBuf>,
    #[command(flatten)]
    pub target: TargetArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_as_percent_or_as_a_fraction() {
        assert_eq!((share("5%"), share("0.05"), share("0")), (Ok(0.05), Ok(0.05), Ok(0.0)));
        for wrong in ["5", "-1%", "100%", "x", ""] {
            assert!(share(wrong).unwrap_err().contains("5% or 0.05"), "{wrong}");
        }
        assert_eq!(threshold("rate=2%"), Ok((Metric::Rate, 0.02)));
        assert!(threshold("speed=2%").unwrap_err().contains("client-cpu"));
    }
}
