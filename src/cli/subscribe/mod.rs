//! `rcb subscribe`.

mod report;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::limits::{allow_files, allow_memory, parse_time};
use super::{Failure, Outcome, check_resp, json_file, named_drivers, print, runtime, save_json};
use crate::drivers::{Kind, Profile, Resp, Settings, Topology};
use crate::interrupt::{EXIT_INTERRUPTED, Graceful, interrupted};
use crate::measure::{self, Environment};
use crate::record::subscribe::{BufferFacts, Ran, SUBSCRIBE_FORMAT, SubscribeRecord, SubscribeRow as Row};
use crate::target::{Target, TargetArgs, provide};
use crate::workload::pubsub::channels::{Channels, usual_prefix};
use crate::workload::pubsub::engine::{self, Against, News};
use crate::workload::pubsub::plan::Plan;

const EXAMPLES: &str = "\
Examples:
  rcb subscribe --subscribers-per-channel 9 --test-time 30      100 channels × 9 subscribers
  rcb subscribe --topology cluster --distribute-subscribers --resp 3 --driver raw --driver fred
  rcb subscribe --mode ssubscribe --topology 3x0 --driver raw   shard channels
  rcb subscribe --driver fred --messages 100000 --publish-batch 1000 --channel-maximum 1 --allow-loss
                                                                who loses messages in a burst
  rcb subscribe --publishers 0 --url redis://db:6379            receive only; the publishers are elsewhere:
  rcb subscribe --publish-only --url redis://db:6379";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Driver, once for each: they run one after the other, in an order that is shuffled for each round
    #[arg(long = "driver", value_name = "NAME", default_value = "raw")]
    drivers: Vec<String>,
    /// Subscriptions to each channel
    #[arg(long, value_name = "N", default_value_t = 1)]
    subscribers_per_channel: u32,
    /// Number of the first channel
    #[arg(long, value_name = "N", default_value_t = 1)]
    channel_minimum: u32,
    /// Number of the last channel
    #[arg(long, value_name = "N", default_value_t = 100)]
    channel_maximum: u32,
    /// What the names of the channels begin with
    #[arg(long, value_name = "TEXT", default_value_t = usual_prefix())]
    subscriber_prefix: String,
    /// Channels on one subscriber, that is on one connection
    #[arg(long, value_name = "N", default_value_t = 1)]
    channels_per_subscriber: u32,
    /// How channels are subscribed to; psubscribe takes a pattern for each channel
    #[arg(long, value_enum, default_value_t = Kind::Channel)]
    mode: Kind,
    /// Protocol version, 2 or 3
    #[arg(long, value_name = "VERSION", default_value = "2")]
    resp: Resp,
    /// The client's knobs
    #[arg(long, value_enum, default_value_t = Profile::Tuned)]
    profile: Profile,
    /// On a cluster: each subscriber connects to the next node, replicas too. Shard channels are where their slot is anyway
    #[arg(long)]
    distribute_subscribers: bool,
    /// How long is measured, in seconds or with a unit; with --messages, the longest that it may take
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "10")]
    test_time: Duration,
    /// What comes before, and is left out of time and count; none with --messages
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "1")]
    warm_up: Duration,
    /// Messages to publish on each channel, instead of as many as the time allows
    #[arg(long, value_name = "N")]
    messages: Option<u64>,
    /// Publishers in this run; 0 = they are in another process
    #[arg(long, value_name = "N", default_value_t = 1)]
    publishers: u32,
    /// Only publish: the subscribers are in another process, which has the same channels and subscribers per channel
    #[arg(long)]
    publish_only: bool,
    /// Messages per second of all publishers together [default: each as soon as the last is answered]
    #[arg(long, value_name = "N")]
    publish_rps: Option<f64>,
    /// Bytes of a message
    #[arg(long, value_name = "BYTES", default_value_t = 128)]
    data_size: usize,
    /// Messages in one explicit pipeline of a publisher, all to one channel
    #[arg(long, value_name = "N", default_value_t = 1)]
    publish_batch: u64,
    /// End one subscription and make it again every so often
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    churn_interval: Option<Duration>,
    /// How long each subscriber dawdles after each message
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "0")]
    subscriber_delay: Duration,
    /// Messages that the client's own buffer holds, where that can be set [default: as the crate ships]
    #[arg(long, value_name = "N")]
    buffer: Option<NonZeroUsize>,
    /// How long nothing may arrive at the end before what is missing counts as lost
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "2")]
    drain: Duration,
    /// How long connecting, and the servers' confirmation of all subscriptions, may take
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "30")]
    open_within: Duration,
    /// The run's number, where publishers and subscribers are two processes [default: the subscribers take the first that comes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    run_id: Option<u64>,
    /// How often each driver has its turn
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Seed of the order of the drivers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Exit with 0 though messages were lost
    #[arg(long)]
    allow_loss: bool,
    /// Also write everything to this file, as JSON
    #[arg(long, value_name = "PATH")]
    json_out_file: Option<PathBuf>,
    #[command(flatten)]
    target: TargetArgs,
}

impl Arguments {
    fn plan(&self) -> Plan {
        Plan {
            channels: Channels { prefix: self.subscriber_prefix.clone(), minimum: self.channel_minimum, maximum: self.channel_maximum },
            kind: self.mode,
            per_channel: self.subscribers_per_channel,
            channels_per_subscriber: self.channels_per_subscriber,
            distribute: self.distribute_subscribers,
            publishers: self.publishers,
            publish_only: self.publish_only,
            rate: self.publish_rps,
            batch: self.publish_batch,
            payload: self.data_size,
            messages: self.messages,
            test_time: self.test_time,
            warm_up: if self.messages.is_some() { Duration::ZERO } else { self.warm_up },
            drain: self.drain,
            churn: self.churn_interval,
            delay: self.subscriber_delay,
            buffer: self.buffer,
            run: self.run_id,
            open_within: self.open_within,
        }
    }

    fn report(&self, environment: Environment, target: &Target) -> SubscribeRecord {
        SubscribeRecord {
            format: SUBSCRIBE_FORMAT.to_owned(),
            version: 1,
            created: crate::record::timestamp(std::time::SystemTime::now()),
            warnings: measure::warnings(&environment),
            environment,
            target: target.facts(),
            mode: self.mode,
            resp: self.resp,
            profile: self.profile,
            channels: self.channel_maximum - self.channel_minimum + 1,
            subscribers_per_channel: self.subscribers_per_channel,
            channels_per_subscriber: self.channels_per_subscriber,
            distribute_subscribers: self.distribute_subscribers,
            publishers: self.publishers,
            publish_rps: self.publish_rps,
            publish_batch: self.publish_batch,
            data_size: self.data_size,
            subscriber_delay_s: self.subscriber_delay.as_secs_f64(),
            churn_interval_s: self.churn_interval.map(|interval| interval.as_secs_f64()),
            warm_up_s: self.plan().warm_up.as_secs_f64(),
            latency_from: self.plan().latency_from().to_owned(),
            rounds: self.rounds,
            seed: self.seed,
            complete: false,
            rows: Vec::new(),
        }
    }
}

/// Connections that are needed beside those of subscribers: publishers, census, audit, and what the program has open anyway.
const OTHER_FILES: u64 = 256;

/// What Redis allows as it ships, with a margin.
const USUAL_CLIENTS: u64 = 9_000;

/// What fred 10.1.0 allocates beforehand for each message that its buffer may hold, in all of a client's channels; measured on Linux.
const BYTES_OF_A_SLOT: u64 = 720;

pub fn run(arguments: &Arguments) -> Outcome {
    let plan = arguments.plan();
    plan.check().map_err(Failure::Usage)?;
    let names = arguments.drivers.iter().map(String::as_str);
    let mut drivers = named_drivers(names, ", and give --rounds for more turns").map_err(Failure::Usage)?;
    drivers.iter().try_for_each(|driver| check_resp(driver, arguments.resp)).map_err(Failure::Usage)?;
    let json = json_file(arguments.json_out_file.as_deref())?;
    let subscribers = plan.subscriptions().div_ceil(u64::from(plan.channels_per_subscriber));
    let clients = subscribers + u64::from(plan.publishers) + OTHER_FILES;
    // Cluster clients may open a connection to every master.
    let files = if arguments.target.topology.is_some_and(|layout| layout.topology() == Topology::Cluster) { clients * 2 } else { clients };
    allow_files(files).map_err(Failure::Usage)?;
    if let Some(buffer) = plan.buffer
        && drivers.iter().any(|driver| driver.pubsub.buffer.is_some_and(|buffer| buffer.settable))
    {
        allow_memory((buffer.get() as u64).saturating_mul(subscribers).saturating_mul(BYTES_OF_A_SLOT)).map_err(Failure::Usage)?;
    }
    let environment = Environment::read();
    let runtime = runtime(false)?;
    let mut spec = arguments.target.spec()?;
    spec.resp = arguments.resp;
    if clients > USUAL_CLIENTS && spec.urls.is_empty() && !spec.extra.iter().any(|word| word == "--maxclients") {
        spec.extra.extend(["--maxclients".to_owned(), (clients + 1_000).to_string()]);
    }
    let target = runtime.block_on(provide(&spec))?;
    // After the target, so that on Ctrl-C the servers are still there for the end of the run.
    let graceful = Graceful::register("interrupted; settling the accounts", Duration::from_secs(30));
    tell!("target: {target}");
    let mut report = arguments.report(environment, &target);
    report.warnings.extend(target.warnings.iter().cloned());
    report.warnings.iter().for_each(|warning| tell!("warning: {warning}"));
    let possible = plan
        .check_target(target.topology(), &target.server)
        .and_then(|()| drivers.iter().try_for_each(|driver| plan.check_driver(driver, target.topology(), arguments.resp)));
    if let Err(reason) = possible {
        runtime.block_on(target.shutdown());
        return Err(Failure::Usage(reason));
    }
    let settings = Settings { resp: arguments.resp, profile: arguments.profile, ..Settings::default() };
    let mut code = 0;
    let mut random = StdRng::seed_from_u64(arguments.seed);
    let mut turns = Vec::new();
    for round in 1..=arguments.rounds {
        drivers.shuffle(&mut random);
        turns.extend(drivers.iter().map(|&driver| (round, driver)));
    }
    for (round, driver) in turns {
        if interrupted() {
            break;
        }
        let against = Against { servers: &target.servers, nodes: &target.nodes };
        let mut listener = |news: News<'_>| match news {
            News::Ready(outcome) => tell!("{}", report::ready(driver, outcome)),
            News::Tick(tick) => tell!("{}", report::tick(tick)),
        };
        let running = engine::start(driver.name, against, &settings, &plan, &mut listener);
        let running = running.map_err(|error| Failure::Usage(error.to_string()))?;
        let result = match runtime.block_on(running) {
            Ok(outcome) => {
                if outcome.is_unsound() || outcome.is_lossy() && !arguments.allow_loss || outcome.ended_by.is_some() {
                    code = 1;
                }
                Ran::Measured(Box::new(outcome))
            }
            Err(failure) => {
                code = 1;
                Ran::Failed { reason: failure.to_string() }
            }
        };
        let buffer = driver.pubsub.buffer.map(|buffer| BufferFacts {
            capacity: buffer.applied(&crate::drivers::SubscriberSettings { buffer: plan.buffer, node: None }),
            when_full: buffer.when_full.to_string(),
        });
        let row = Row {
            driver: driver.name.to_owned(),
            round,
            client: driver.client_version(),
            way: driver.pubsub.way.to_owned(),
            buffer,
            result,
        };
        print(&report::summary(&row, &plan));
        report.rows.push(row);
    }
    if report.rows.len() > 1 {
        print(&report::table(&report.rows));
    }
    runtime.block_on(target.shutdown());
    if let Some(json) = json {
        report.complete = !interrupted();
        save_json(json, &report)?;
    }
    if interrupted() {
        // Whoever waits for the end of this run may go on.
        drop(graceful);
        return Ok(ExitCode::from(EXIT_INTERRUPTED as u8));
    }
    Ok(ExitCode::from(code))
}
