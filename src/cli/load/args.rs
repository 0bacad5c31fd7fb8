//! The flags of `rcb load`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use super::cache::CacheArgs;
use super::server::ServerArgs;
use crate::drivers::{Profile, Scope};
use crate::record::RuntimeFlavour;
use crate::target::TargetArgs;
use crate::workload::load::arrivals::{Schedule, Spread};
use crate::workload::mix::{DataSize, Distribution};

pub const EXAMPLES: &str = "\
Examples:
  rcb load --driver redis-rs -r 10000 --cmd 'SET __key__ __data__' --cmd-ratio 0.25 --cmd 'GET __key__' --cmd-ratio 0.75
  rcb load --driver raw,redis-rs,fred -c 64 --test-time 10s -t get,set
  rcb load -h db.local -p 6379 -n 1000000 -r 100 SET __key__ value
  rcb load --rps 10000 --arrivals poisson --test-time 30s --prefill GET __key__
  rcb load --driver deadpool-redis -c 200 --connections 16 --mix-large 0.01:1MiB --test-time 20s
  rcb load --csc --driver raw,redis-rs,fred -r 10000 --cmd 'SET __key__ __data__' --cmd-ratio 0.25 --cmd 'GET __key__' --cmd-ratio 0.75
  rcb load --csc --csc-baseline --external-writers --test-time 10s -r 10000 --cmd 'SET __key__ __data__' --cmd-ratio 0.05 --cmd 'GET __key__' --cmd-ratio 0.95

In every argument __key__ becomes a key's number (the argument then begins with rcb:load:), __data__ a value, __field__ a field's
number. Exit codes: 0 done, 1 a run failed or a cached read was stale, 2 wrong usage, 130 interrupted (with summary and files of what
was done).";

fn positive(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| format!("{text:?} is not a whole number of at least 1"))
}

fn count(text: &str) -> Result<u64, String> {
    match text.replace(['_', ','], "").parse() {
        Ok(0) => Err("0 commands are no load; give at least 1".to_owned()),
        Ok(count) => Ok(count),
        Err(_) => Err(format!("{text:?} is not a whole number")),
    }
}

/// Seconds, or a number with a unit.
fn duration(text: &str) -> Result<Duration, String> {
    let form = || format!("{text:?} is no duration; write seconds, or a unit as in 500ms, 30s or 2min");
    let duration = match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|_| form())?,
        Err(_) => humantime::parse_duration(text).map_err(|_| form())?,
    };
    if duration > Duration::from_secs(30 * 24 * 3600) { Err("more than 30 days".to_owned()) } else { Ok(duration) }
}

pub(super) fn nonzero_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("a duration of 0 measures nothing; give more".to_owned()),
        duration => Ok(duration),
    }
}

/// What `--window` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    Off,
    Idle,
    After(Duration),
}

fn window(text: &str) -> Result<Window, String> {
    let form = || format!("{text:?} is no pipeline window; write it with its unit, as in 75us, or off or idle");
    match text {
        "off" => Ok(Window::Off),
        "idle" => Ok(Window::Idle),
        _ => match humantime::parse_duration(text) {
            Ok(Duration::ZERO) => Ok(Window::Off),
            Ok(window) if window <= Duration::from_secs(1) => Ok(Window::After(window)),
            Ok(_) => Err("a pipeline window of more than a second; give less".to_owned()),
            Err(_) => Err(form()),
        },
    }
}

fn resp(text: &str) -> Result<crate::resp::Resp, String> {
    match text {
        "2" => Ok(crate::resp::Resp::V2),
        "3" => Ok(crate::resp::Resp::V3),
        _ => Err("the RESP version is 2 or 3".to_owned()),
    }
}

fn rate(text: &str) -> Result<Schedule, String> {
    Schedule::constant(text.replace('_', "").parse().map_err(|_| format!("{text:?} is not a number of commands per second"))?)
}

/// `--mix-large 0.01:1MiB`.
fn large(text: &str) -> Result<(f64, usize), String> {
    let form = || format!("{text:?} is no mix of small and large replies; write the large ones' share and size, as in 0.01:1MiB");
    let (ratio, size) = text.split_once(':').unwrap_or((text, "1MiB"));
    let ratio: f64 = ratio.parse().ok().filter(|ratio| (0.0..1.0).contains(ratio) && *ratio > 0.0).ok_or_else(form)?;
    match size.parse::<DataSize>() {
        Ok(DataSize::Fixed(size)) if size > 0 => Ok((ratio, size)),
        _ => Err(form()),
    }
}

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub server: ServerArgs,

    /// The command to send, as plain words: everything after the flags
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND", help_heading = "What is sent")]
    pub words: Vec<String>,
    /// A command in the quoting of a shell; any number of them
    #[arg(long = "cmd", value_name = "COMMAND", conflicts_with = "words", help_heading = "What is sent")]
    pub commands: Vec<String>,
    /// The share of each --cmd, in order; a sum other than 1 ± 0.01 is taken in proportion
    #[arg(long = "cmd-ratio", value_name = "SHARE", requires = "commands", allow_hyphen_values = true, help_heading = "What is sent")]
    pub ratios: Vec<f64>,
    /// Presets, each a run of its own: ping, set, get, incr, lpush, rpush, lpop, rpop, sadd, hset, hkeys, hgetall, spop, zadd, zpopmin, lrange_100, mset …
    #[arg(short = 't', long = "tests", value_name = "NAMES", value_delimiter = ',', conflicts_with_all = ["words", "commands"], help_heading = "What is sent")]
    pub tests: Vec<String>,
    /// Small GETs beside large ones on the same connections: the large ones' share and size [implies --prefill]
    #[arg(long, value_name = "SHARE:SIZE", value_parser = large, conflicts_with_all = ["words", "commands", "tests"], help_heading = "What is sent")]
    pub mix_large: Option<(f64, usize)>,
    /// Keys that __key__ is drawn from
    #[arg(short = 'r', long = "keys", default_value_t = 1_000_000, value_name = "KEYS", help_heading = "What is sent")]
    pub keys: u64,
    /// How keys are drawn: uniform, sequential, gaussian, zipfian or zipfian:EXPONENT
    #[arg(long, default_value = "uniform", value_name = "NAME", help_heading = "What is sent")]
    pub key_distribution: Distribution,
    /// Bytes of __data__, such as 64 or 4KiB, or a range such as 32-1024
    #[arg(short = 'd', long = "data-size", default_value = "64", value_name = "SIZE", help_heading = "What is sent")]
    pub data: DataSize,
    /// Fields that __field__ is drawn from
    #[arg(long, default_value_t = 10, value_name = "FIELDS", help_heading = "What is sent")]
    pub field_range: u64,
    /// Fields of a hash, members of a set and elements of a list when prefilled
    #[arg(long, default_value = "10", value_parser = positive, value_name = "COUNT", help_heading = "What is sent")]
    pub hash_fields: NonZeroUsize,
    /// Decides every command, key, value and random arrival: the same seed gives the same sequence with every driver
    #[arg(long, default_value_t = 12_345, value_name = "SEED", help_heading = "What is sent")]
    pub random_seed: u64,
    /// Write all keys before each run, outside the clock; then every GET must find its value
    #[arg(long, help_heading = "What is sent")]
    pub prefill: bool,

    /// Allow commands on keys outside rcb: on a server that is not ours; what they write stays
    #[arg(long, help_heading = "What is sent")]
    pub foreign_keys: bool,

    /// Drivers (see rcb drivers), separated by commas; several take turns and end in one table [default: redis-rs]
    #[arg(long = "driver", value_name = "NAMES", value_delimiter = ',', help_heading = "How")]
    pub drivers: Vec<String>,
    /// Callers at the same time, each waiting for its reply
    #[arg(short = 'c', long = "callers", default_value = "50", value_parser = positive, value_name = "CALLERS", help_heading = "How")]
    pub callers: NonZeroUsize,
    /// Connections, on a cluster to each master [default: as many as callers, or as the driver can have]
    #[arg(long, value_parser = positive, value_name = "COUNT", help_heading = "How")]
    pub connections: Option<NonZeroUsize>,
    /// Commands of a run, exactly [default: 1000000 unless --test-time is given]
    #[arg(short = 'n', long = "requests", value_parser = count, value_name = "COUNT", help_heading = "How")]
    pub requests: Option<u64>,
    /// Length of a run, in seconds or with a unit
    #[arg(long, value_parser = nonzero_duration, value_name = "TIME", help_heading = "How")]
    pub test_time: Option<Duration>,
    /// The same work before each run, which counts for nothing
    #[arg(long, value_parser = duration, default_value = "0", value_name = "TIME", help_heading = "How")]
    pub warmup: Duration,
    /// Commands that a caller sends together, as an explicit pipeline
    #[arg(short = 'P', long = "pipeline", default_value = "1", value_parser = positive, value_name = "COUNT", help_heading = "How")]
    pub pipeline: NonZeroUsize,
    /// Send each pipeline as a transaction: MULTI, the commands, EXEC
    #[arg(long, help_heading = "How")]
    pub multi: bool,
    /// Pipeline window around the client: a time such as 75us, off or idle [default: the client's own way]
    #[arg(long, value_parser = window, value_name = "WINDOW", help_heading = "How")]
    pub window: Option<Window>,
    /// Most commands that a window sends at once, 0 = no limit
    #[arg(long, default_value_t = 0, requires = "window", value_name = "COUNT", help_heading = "How")]
    pub limit: usize,
    /// Where commands wait for each other in a window
    #[arg(long, value_enum, default_value_t = Scope::Shared, requires = "window", value_name = "SCOPE", help_heading = "How")]
    pub scope: Scope,
    /// The target must be a cluster; without --url one of 3x1 is started
    #[arg(long, help_heading = "How")]
    pub cluster: bool,
    /// RESP version, 2 or 3 [default: 2, with --csc 3]
    #[arg(long, value_parser = resp, value_name = "VERSION", help_heading = "How")]
    pub resp: Option<crate::resp::Resp>,
    /// The client's own knobs: equalised, or as the crate ships
    #[arg(long, value_enum, default_value_t = Profile::Tuned, value_name = "PROFILE", help_heading = "How")]
    pub profile: Profile,
    /// Worker threads of the runtime [default: one for each core]
    #[arg(long, value_parser = positive, value_name = "COUNT", help_heading = "How")]
    pub threads: Option<NonZeroUsize>,
    /// Runtime that the clients live on
    #[arg(long, value_enum, default_value_t = RuntimeFlavour::MultiThread, value_name = "FLAVOUR", help_heading = "How")]
    pub runtime: RuntimeFlavour,
    /// Rounds in which each driver has its turn, in shuffled order
    #[arg(long, default_value = "1", value_parser = positive, value_name = "COUNT", help_heading = "How")]
    pub rounds: NonZeroUsize,

    /// Open loop: commands per second, whatever the server does; latency then counts from the planned time
    #[arg(long, value_parser = rate, value_name = "RATE", help_heading = "Open loop")]
    pub rps: Option<Schedule>,
    /// A rate over time: 0s=1000,10s=5000
    #[arg(long, value_name = "SCHEDULE", conflicts_with = "rps", help_heading = "Open loop")]
    pub rps_schedule: Option<Schedule>,
    /// Commands that are due at the same moment
    #[arg(long, default_value = "1", value_parser = positive, value_name = "COUNT", help_heading = "Open loop")]
    pub rps_burst: NonZeroUsize,
    /// How arrivals spread within the rate
    #[arg(long, value_enum, default_value_t = Spread::Uniform, value_name = "SPREAD", help_heading = "Open loop")]
    pub arrivals: Spread,

    #[command(flatten)]
    pub cache: CacheArgs,

    /// Count errors by kind instead of stopping at the first
    #[arg(long, help_heading = "Errors and output")]
    pub continue_on_error: bool,
    /// Do not check the replies
    #[arg(long, help_heading = "Errors and output")]
    pub no_verify: bool,
    /// How long without any reply a run is given up
    #[arg(long, value_parser = nonzero_duration, default_value = "30s", value_name = "TIME", help_heading = "Errors and output")]
    pub patience: Duration,
    /// Everything as JSON
    #[arg(long, value_name = "FILE", help_heading = "Errors and output")]
    pub json_out_file: Option<PathBuf>,
    /// The latencies of each second as an HdrHistogram interval log; one run only
    #[arg(long, value_name = "FILE", help_heading = "Errors and output")]
    pub hdr_file: Option<PathBuf>,
    /// The series of each run as CSV
    #[arg(long, value_name = "FILE", help_heading = "Errors and output")]
    pub csv: Option<PathBuf>,

    /// Print help
    #[arg(long, action = clap::ArgAction::Help, help_heading = "Errors and output")]
    pub help: Option<bool>,
}

impl std::fmt::Debug for Arguments {
    /// Nothing: a command or a URL may hold a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arguments").finish_non_exhaustive()
    }
}
