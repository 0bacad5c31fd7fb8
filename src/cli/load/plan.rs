//! From the flags to what is run, with every mistake told before any work.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use super::args::{Arguments, Window};
use super::cache::CacheArgs;
use super::caching::{Caching, Way};
use crate::cli::{check_resp, named_drivers, too_many_connections};
use crate::drivers::{DRIVERS, Descriptor, PipelineReach, Resp, Scope, Settings, Strategy, Topology, find};
use crate::record::load::Asked;
use crate::record::{Runtime, RuntimeFlavour};
use crate::target::Target;
use crate::workload::load::arrivals::{OpenLoop, Spread};
use crate::workload::load::engine::Job;
use crate::workload::mix::{CommandSpec, Mix, MixOptions, Reach, Slot, large_mix, preset};
use crate::workload::runs_on;

/// Commands of a run unless the flags say otherwise.
const DEFAULT_COMMANDS: u64 = 1_000_000;
/// Where the sequence of a warm-up begins: no run comes so far.
const WARMUP_FROM: u64 = 1 << 62;
/// Lists of the presets `lrange_…`: they are long, so there are few.
const LONG_LISTS: u64 = 16;
/// Presets that measure nothing on an empty keyspace.
const READING: &[&str] = &["get", "hkeys", "hgetall", "lpop", "rpop", "spop", "zpopmin", "lrange"];
/// Commands that no foreign server may be given: they reach beyond our own keys, or change the server itself.
const DANGEROUS: &[&str] = &[
    "flushall",
    "flushdb",
    "swapdb",
    "config",
    "debug",
    "shutdown",
    "replicaof",
    "slaveof",
    "failover",
    "acl",
    "module",
    "save",
    "bgsave",
    "bgrewriteaof",
    "cluster",
];
/// Commands whose slots are looked at, to see whether pipelines stay in one.
const LOOKED_AT: u64 = 512;

/// Most keys that are removed from a server that is not ours.
const MOST_REMOVED: u64 = 20_000_000;
/// Most commands that all callers hold at the same time: each takes some hundred bytes.
const MOST_HELD: usize = 4_000_000;

/// One thing to be measured.
pub struct Workload {
    pub name: String,
    pub mix: Arc<Mix>,
    pub prefill: bool,
}

/// A driver with its settings.
pub struct Subject {
    pub driver: &'static Descriptor,
    pub settings: Settings,
    pub way: Way,
    /// Why it can't take part.
    pub unsupported: Option<String>,
}

/// All that is run.
pub struct Plan {
    pub workloads: Vec<Workload>,
    pub subjects: Vec<Subject>,
    pub job: Job,
    pub warmup: Duration,
    /// Keys outside our prefix may be touched on a server that is not ours.
    pub foreign_keys: bool,
    pub rounds: usize,
    pub runtime: Runtime,
    pub notices: Vec<String>,
    pub asked: Asked,
    /// `None` without `--csc`.
    pub caching: Option<Caching>,
    cache: CacheArgs,
}

impl Plan {
    /// What the flags ask for; the drivers are checked against the topology when it is known, see [`Plan::for_target`].
    pub fn new(arguments: &Arguments) -> Result<Self, String> {
        let mut notices = Vec::new();
        arguments.cache.check(arguments)?;
        let caching = Caching::new(&arguments.cache);
        let workloads = workloads(arguments, &mut notices)?;
        let open = open_loop(arguments)?;
        if arguments.multi && workloads.iter().any(|workload| workload.mix.entries().iter().any(|entry| entry.is_blocking)) {
            return Err("a command that blocks never does inside a transaction; leave out --multi".to_owned());
        }
        let windowed = matches!(arguments.window, Some(Window::Idle | Window::After(_) | Window::Off));
        if windowed && (arguments.pipeline.get() > 1 || arguments.multi) {
            return Err("explicit pipelines and transactions pass by a pipeline window, so it would not be measured; give -P or --multi, or --window".to_owned());
        }
        if arguments.runtime == RuntimeFlavour::CurrentThread && arguments.threads.is_some_and(|threads| threads.get() > 1) {
            return Err("a current-thread runtime has one thread; leave out --threads or --runtime".to_owned());
        }
        if arguments.callers.get().saturating_mul(arguments.pipeline.get()) > MOST_HELD {
            return Err(format!("-c times -P is more than {MOST_HELD} commands in memory at the same time; give less"));
        }
        let workers = match (arguments.runtime, arguments.threads) {
            (RuntimeFlavour::CurrentThread, _) => 1,
            (_, Some(threads)) => threads.get(),
            (_, None) => std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
        };
        let commands = arguments.requests.or(if arguments.test_time.is_none() { Some(DEFAULT_COMMANDS) } else { None });
        let job = Job {
            callers: arguments.callers.get(),
            pipeline: arguments.pipeline.get(),
            transaction: arguments.multi,
            commands,
            time: arguments.test_time,
            open: open.clone(),
            seed: arguments.random_seed,
            first: 0,
            continue_on_error: arguments.continue_on_error,
            verify: !arguments.no_verify,
            patience: arguments.patience,
        };
        let asked = Asked {
            keys: arguments.keys,
            key_distribution: arguments.key_distribution.to_string(),
            data_size: arguments.data.to_string(),
            seed: arguments.random_seed,
            prefill: workloads.iter().any(|workload| workload.prefill),
            callers: job.callers,
            pipeline: job.pipeline,
            transaction: job.transaction,
            commands,
            test_time: job.time.map(|time| time.as_secs_f64()),
            warmup: arguments.warmup.as_secs_f64(),
            open_loop: open,
            verify: job.verify,
            continue_on_error: job.continue_on_error,
            rounds: arguments.rounds.get(),
            cache: caching.as_ref().map(Caching::asked),
        };
        let subjects = subjects(arguments)?;
        if let Some(caching) = &caching {
            for workload in &workloads {
                notices.extend(caching.check(&workload.name, &workload.mix)?);
                for subject in subjects.iter().filter(|subject| subject.way == Way::Cached) {
                    notices.extend(caching.job(subject.driver, &workload.mix)?.1);
                }
            }
        }
        Ok(Self {
            workloads,
            subjects,
            job,
            warmup: arguments.warmup,
            foreign_keys: arguments.foreign_keys,
            rounds: arguments.rounds.get(),
            runtime: Runtime { flavour: arguments.runtime, workers },
            notices,
            asked,
            caching,
            cache: arguments.cache.clone(),
        })
    }

    /// The warm-up of a run.
    pub fn warm_up(&self) -> Option<Job> {
        let time = Some(self.warmup).filter(|time| !time.is_zero())?;
        Some(Job { commands: None, time: Some(time), first: WARMUP_FROM, ..self.job.clone() })
    }

    /// Settles what depends on the target: whether the servers are our own, their topology, and what they can.
    pub fn for_target(&mut self, target: &Target) -> Result<(), String> {
        let (ours, topology) = (target.is_ours(), target.topology());
        if self.caching.is_some() && !target.server.at_least(6, 0) {
            return Err(format!("--csc needs CLIENT TRACKING, which servers have from Redis 6.0 on, and this is {}", target.server));
        }
        let entries = self.workloads.iter().flat_map(|workload| workload.mix.entries());
        let dangerous = |name: &str| DANGEROUS.contains(&name);
        if let Some(entry) = entries.into_iter().find(|entry| !ours && dangerous(&entry.name)) {
            return Err(format!(
                "`{}` reaches beyond the keys under rcb: and the server is not ours; leave --url out, and a server is started for it",
                entry.label
            ));
        }
        if topology == Topology::Cluster && (self.job.pipeline > 1 || self.job.transaction) {
            let scattered = self.workloads.iter().find(|workload| !in_one_slot(&workload.mix));
            let limited = self.subjects.iter().find(|subject| subject.driver.pipeline_reach == PipelineReach::OneSlot);
            if let Some(workload) = scattered {
                let hint = "give the keys a hash tag, as in {tag}__key__";
                if self.job.transaction {
                    return Err(format!("on a cluster a transaction must stay in one slot, and {} does not: {hint}", workload.name));
                }
                if let Some(subject) = limited {
                    let name = subject.driver.name;
                    return Err(format!("on a cluster {name} takes pipelines of one slot only, and {} has many: {hint}", workload.name));
                }
            }
        }
        for subject in &mut self.subjects {
            subject.unsupported = runs_on(subject.driver, &subject.settings, topology).err().map(|error| error.to_string());
            if self.job.transaction && self.job.continue_on_error && !subject.driver.tells_transaction_errors {
                let reason = "it gives the error of one command of a transaction as that of all, so errors can't be counted as with others";
                subject.unsupported.get_or_insert_with(|| reason.to_owned());
            }
            if subject.unsupported.is_none() {
                self.cache.check_topology(subject.driver, topology)?;
            }
        }
        if let [only, others @ ..] = &self.subjects[..]
            && others.iter().all(|other| other.driver.name == only.driver.name)
            && let Some(reason) = &only.unsupported
        {
            return Err(format!("{}: {reason}", only.driver.name));
        }
        Ok(())
    }
}

impl Plan {
    /// On a server of somebody else only keys under our prefix may be touched, and only as many as can be removed again.
    pub fn spare_the_server(&self) -> Result<(), String> {
        for workload in &self.workloads {
            let keys = workload.mix.key_count();
            if keys > MOST_REMOVED {
                return Err(format!("{keys} keys could not be removed from the server again; give at most -r {MOST_REMOVED}"));
            }
            for entry in workload.mix.entries().iter().filter(|_| !self.foreign_keys) {
                let (label, hint) = (&entry.label, "use __key__, or allow it with --foreign-keys");
                match &entry.reach {
                    Reach::Ours => {}
                    Reach::Foreign(key) => {
                        return Err(format!("`{label}` touches the key {key} of a server that is not ours; {hint}"));
                    }
                    Reach::Unknown => {
                        return Err(format!(
                            "what `{label}` touches is not known, and the server is not ours; allow it with --foreign-keys"
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

fn in_one_slot(mix: &Mix) -> bool {
    let mut slot = Slot::default();
    let mut slots = (0..LOOKED_AT).filter_map(|index| {
        mix.generate(index, &mut slot);
        slot.command.slot()
    });
    let first = slots.next();
    slots.all(|slot| Some(slot) == first)
}

fn workloads(arguments: &Arguments, notices: &mut Vec<String>) -> Result<Vec<Workload>, String> {
    let prefill = arguments.prefill || arguments.cache.csc;
    let mut planned: Vec<(String, Vec<CommandSpec>, bool)> = Vec::new();
    if let Some((ratio, size)) = arguments.mix_large {
        planned.push(("small and large replies".to_owned(), large_mix(ratio, size), true));
    }
    for name in &arguments.tests {
        let mut spec = preset(name).map_err(|error| error.to_string())?;
        let name = name.trim().to_ascii_lowercase();
        if planned.iter().any(|(known, ..)| *known == name) {
            return Err(format!("the preset {name} is named twice; name it once, and give --rounds for more runs"));
        }
        let reads = READING.iter().any(|reading| name.starts_with(reading));
        if name.starts_with("lrange") {
            spec.keys = Some(arguments.keys.min(LONG_LISTS));
        }
        if name.contains("pop") {
            notices.push(format!("{name}: when the prefilled elements are popped (-r keys of --hash-fields each), the rest finds nothing"));
        }
        if reads && !prefill {
            notices.push(format!("{name}: all keys are written before the run, or there would be nothing to read"));
        }
        planned.push((name, vec![spec], prefill || reads));
    }
    if !arguments.commands.is_empty() {
        let parsed: Result<Vec<_>, _> = arguments.commands.iter().map(|text| CommandSpec::parse(text)).collect();
        let mut specs = parsed.map_err(|error| error.to_string())?;
        Mix::ratios(&mut specs, &arguments.ratios).map_err(|error| error.to_string())?;
        planned.push((name_of(&arguments.commands), specs, prefill));
    }
    if !arguments.words.is_empty() {
        let spec = CommandSpec::new(&arguments.words);
        planned.push((arguments.words.join(" "), vec![spec], prefill));
    }
    if planned.is_empty() {
        return Err("nothing to send; name a command (rcb load SET __key__ __data__), --cmd, or a preset (-t get,set)".to_owned());
    }
    planned
        .into_iter()
        .map(|(name, specs, prefill)| {
            let options = MixOptions {
                seed: arguments.random_seed,
                keys: arguments.keys,
                distribution: arguments.key_distribution,
                data: arguments.data,
                field_range: arguments.field_range,
                hash_fields: arguments.hash_fields.get(),
                prefilled: prefill,
            };
            let (mix, told) = Mix::new(specs, options).map_err(|error| error.to_string())?;
            notices.extend(told);
            if let Some((one, other)) = mix.likely_clash() {
                let (one, other) = (&mix.entries()[one].label, &mix.entries()[other].label);
                return Err(format!("`{one}` and `{other}` use the same keys as different types; give one its own, as in list:__key__"));
            }
            Ok(Workload { name, mix: Arc::new(mix), prefill })
        })
        .collect()
}

fn name_of(commands: &[String]) -> String {
    match commands {
        [only] => only.trim().to_owned(),
        _ => "mix".to_owned(),
    }
}

fn open_loop(arguments: &Arguments) -> Result<Option<OpenLoop>, String> {
    let Some(schedule) = arguments.rps.clone().or_else(|| arguments.rps_schedule.clone()) else {
        if arguments.rps_burst.get() > 1 {
            return Err("--rps-burst needs --rps or --rps-schedule".to_owned());
        }
        if arguments.arrivals != Spread::Uniform {
            return Err("--arrivals is about a set rate; give --rps or --rps-schedule with it".to_owned());
        }
        return Ok(None);
    };
    let burst = arguments.rps_burst.get() as u64;
    let pipeline = arguments.pipeline.get() as u64;
    if burst > 1 && !burst.is_multiple_of(pipeline) {
        return Err(format!("a burst of {burst} is not a whole number of pipelines of {pipeline}; give a multiple"));
    }
    if let Some(time) = arguments.test_time
        && schedule.commands_before(time) < 1.0
    {
        return Err("at that rate not one command is due within --test-time; give a higher rate or a longer time".to_owned());
    }
    let ends = schedule.steps().last().is_some_and(|step| step.rate == 0.0);
    if ends && arguments.test_time.is_none() {
        return Err("the schedule ends at a rate of 0, so -n may never be reached; give --test-time".to_owned());
    }
    Ok(Some(OpenLoop { schedule, burst, spread: arguments.arrivals }))
}

fn subjects(arguments: &Arguments) -> Result<Vec<Subject>, String> {
    let usual = if find("redis-rs").is_ok() { "redis-rs" } else { "raw" };
    let mut names: Vec<&str> = arguments.drivers.iter().map(|name| name.trim()).collect();
    if names.is_empty() {
        names.push(usual);
    }
    let strategy = match arguments.window {
        None => Strategy::Native,
        Some(Window::Off) => Strategy::Off,
        Some(Window::Idle) => Strategy::Idle { limit: arguments.limit },
        Some(Window::After(window)) => Strategy::Window { window, limit: arguments.limit },
    };
    if arguments.scope == Scope::PerConnection && !matches!(arguments.window, Some(Window::Idle | Window::After(_))) {
        return Err("--scope is about a pipeline window; give --window with a time, or idle".to_owned());
    }
    let csc = arguments.cache.csc;
    let resp = arguments.resp.unwrap_or(if csc { Resp::V3 } else { Resp::V2 });
    let drivers = named_drivers(names, "")?;
    // Beside others it is a row that says so.
    if let [only] = drivers[..] {
        check_resp(only, resp)?;
    }
    let mut subjects: Vec<Subject> = Vec::new();
    for driver in drivers {
        arguments.cache.check_driver(driver)?;
        if let Some(asked) = arguments.connections
            && let Some(reason) = too_many_connections(driver, asked)
        {
            let pools = DRIVERS.iter().filter(|driver| driver.most_connections >= asked.get()).map(|driver| driver.name);
            let pools = pools.collect::<Vec<_>>().join(", ");
            return Err(format!("{reason}; give --connections {}, or a driver that holds several: {pools}", driver.most_connections));
        }
        let usual = NonZeroUsize::new(arguments.callers.get().min(driver.most_connections)).unwrap_or(NonZeroUsize::MIN);
        let connections = if csc { NonZeroUsize::MIN } else { arguments.connections.unwrap_or(usual) };
        let settings = Settings { connections, resp, profile: arguments.profile, strategy, scope: arguments.scope, ..Settings::default() };
        if arguments.cache.csc_baseline {
            subjects.push(Subject { driver, settings: settings.clone(), way: Way::Uncached, unsupported: None });
        }
        let way = if csc { Way::Cached } else { Way::Plain };
        subjects.push(Subject { driver, settings, way, unsupported: None });
    }
    Ok(subjects)
}
