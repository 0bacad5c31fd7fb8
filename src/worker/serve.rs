//! The worker's side: one request, one observation, one process.

use std::io::{BufRead, Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::runtime::{Builder, Runtime};

use super::protocol::{
    Answer, GO, LONGEST_LINE, Measured, OperationRequest, PASSWORD, Ready, Request, ServersRequest, TlsRequest, VERSION,
};
use crate::drivers::{Descriptor, Servers, Settings, Topology, find};
use crate::measure::clock::nanos;
use crate::measure::{Latency, peak_memory, reset_peak_memory};
use crate::net::{Endpoint, Secret, TlsOptions};
use crate::record::{CellSettings, RuntimeFlavour};
use crate::workload::commands::{self, Keyspace};
use crate::workload::timed::{NotOpened, Operation, Task, Timed, Worker, open};

/// Longest that connecting or closing may take.
const LONGEST_STEP: Duration = Duration::from_secs(20);

/// Reads a request on standard input and answers on standard output. The exit code is 0 when an observation was made, else 1.
#[must_use]
pub fn serve() -> ExitCode {
    let mut lines = std::io::stdin().lock();
    match observe(&mut lines) {
        Ok(()) => ExitCode::SUCCESS,
        Err(answer) => {
            // A parent that is gone needs no answer.
            let _ = say(&answer);
            ExitCode::FAILURE
        }
    }
}

fn failed(reason: impl ToString) -> Box<Answer> {
    Box::new(Answer::Failed(reason.to_string()))
}

fn say(answer: &Answer) -> Result<(), Box<Answer>> {
    let mut out = std::io::stdout().lock();
    let line = serde_json::to_string(answer).map_err(failed)?;
    out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()).map_err(failed)
}

/// The next line; `None` when the parent has closed its end.
fn line(lines: &mut impl BufRead) -> Result<Option<String>, Box<Answer>> {
    let mut text = String::new();
    let read = lines.by_ref().take(LONGEST_LINE as u64).read_line(&mut text).map_err(|error| failed(format!("no request: {error}")))?;
    match text.strip_suffix('\n') {
        _ if read == 0 => Ok(None),
        Some(line) => Ok(Some(line.to_owned())),
        None if read == LONGEST_LINE => Err(failed(format!("a request of more than {LONGEST_LINE} bytes"))),
        None => Ok(Some(text)),
    }
}

/// A request in the terms of this crate.
struct Order {
    driver: &'static Descriptor,
    servers: Servers,
    settings: Settings,
    task: Task,
    runtime: Runtime,
    flavour: RuntimeFlavour,
}

fn observe(lines: &mut impl BufRead) -> Result<(), Box<Answer>> {
    let text = line(lines)?.ok_or_else(|| failed("no request on standard input; rcb worker is started by rcb compare"))?;
    Request::check_head(&text).map_err(failed)?;
    let request: Request = serde_json::from_str(&text).map_err(|error| failed(format!("the request can't be read: {error}")))?;
    let order = Order::new(&request).map_err(failed)?;
    let opening = open(order.driver.name, &order.servers, &order.settings, &order.task).map_err(failed)?;
    let connecting = async { tokio::time::timeout(LONGEST_STEP, opening).await };
    let mut worker = match order.runtime.block_on(connecting) {
        Ok(Ok(worker)) => worker,
        Ok(Err(NotOpened::Unsupported(reason))) => return Err(Box::new(Answer::Unsupported(reason))),
        Ok(Err(NotOpened::Failed(reason))) => return Err(failed(format!("can't connect: {reason}"))),
        Err(_) => return Err(failed(format!("can't connect within {LONGEST_STEP:?}"))),
    };
    let went = perform(&order, &request, &mut *worker, lines);
    let closing = async { tokio::time::timeout(LONGEST_STEP, worker.close()).await };
    // A client that does not close is left to the end of the process.
    let _ = order.runtime.block_on(closing);
    order.runtime.shutdown_timeout(Duration::from_secs(1));
    went
}

/// From the verification to the end of the parent's input.
fn perform(order: &Order, request: &Request, worker: &mut dyn Worker, lines: &mut impl BufRead) -> Result<(), Box<Answer>> {
    let runtime = &order.runtime;
    runtime.block_on(worker.verify()).map_err(|reason| failed(format!("the verification failed: {reason}")))?;
    if request.warm_up_ns > 0 {
        let warmed = runtime.block_on(worker.run(Duration::from_nanos(request.warm_up_ns)));
        warmed.map_err(|reason| failed(format!("the warm-up failed: {reason}")))?;
    }
    say(&Answer::Ready(order.ready(request)))?;
    match line(lines)? {
        Some(line) if line.trim() == GO => {}
        Some(line) => return Err(failed(format!("{line:?} where {GO:?} was to be expected"))),
        // The parent has thought better of it.
        None => return Ok(()),
    }
    reset_peak_memory();
    let timed = runtime.block_on(worker.run(Duration::from_nanos(request.time_ns))).map_err(failed)?;
    say(&Answer::Measured(measured(&timed)))?;
    // Until the parent has read the servers' counters, nothing may be sent: closing would be.
    while line(lines)?.is_some() {}
    Ok(())
}

fn measured(timed: &Timed) -> Measured {
    let latency = timed.latencies.as_ref().and_then(Latency::of);
    Measured {
        operations: timed.operations,
        elapsed_ns: nanos(timed.elapsed),
        user_ns: nanos(timed.client.user),
        system_ns: nanos(timed.client.system),
        allocations: timed.client.allocations.map(|allocations| allocations.count),
        allocated_bytes: timed.client.allocations.map(|allocations| allocations.bytes),
        p50_ns: latency.map(|latency| latency.p50_ns),
        p99_ns: latency.map(|latency| latency.p99_ns),
        max_ns: latency.map(|latency| latency.max_ns),
        peak_memory: peak_memory(),
    }
}

impl Order {
    fn new(request: &Request) -> Result<Self, String> {
        let driver = find(&request.driver).map_err(|error| error.to_string())?;
        let (flavour, threads) = request.settings.runtime()?;
        let mut builder = match flavour {
            RuntimeFlavour::CurrentThread => Builder::new_current_thread(),
            RuntimeFlavour::MultiThread => Builder::new_multi_thread(),
        };
        let runtime = builder.worker_threads(threads).enable_all().build().map_err(|error| format!("no tokio runtime: {error}"))?;
        let task = Task {
            operation: operation(request)?,
            callers: request.workload.callers.max(1),
            threads,
            burden: Duration::from_nanos(request.settings.burden_ns),
            patience: Duration::from_nanos(request.patience_ns),
        };
        Ok(Self { driver, servers: servers(&request.servers)?, settings: request.settings.settings()?, task, runtime, flavour })
    }

    fn ready(&self, request: &Request) -> Ready {
        // A received message has no checkout: raw publishes.
        let receives = matches!(request.workload.operation, OperationRequest::Receive { .. });
        let checkout = if receives { &[][..] } else { self.driver.checkout };
        let applied = CellSettings::new(self.driver, &self.settings, self.servers.topology);
        let nodelay = applied.nodelay.map_or("as the crate ships", |on| if on { "on" } else { "off" });
        let facts = [
            ("driver", self.driver.name.to_owned()),
            ("rcb", env!("CARGO_PKG_VERSION").to_owned()),
            ("rustc", env!("RCB_RUSTC").to_owned()),
            ("build", if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned()),
            ("connections", applied.connections_opened.to_string()),
            ("nodelay", nodelay.to_owned()),
            ("runtime", format!("{} of {} threads", flavour(self.flavour), self.task.threads)),
        ];
        Ready {
            version: Some(VERSION),
            client: self.driver.client.to_owned(),
            client_version: self.driver.version().to_owned(),
            checkout: checkout.iter().map(|name| (*name).to_owned()).collect(),
            facts: facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        }
    }
}

fn flavour(flavour: RuntimeFlavour) -> &'static str {
    match flavour {
        RuntimeFlavour::MultiThread => "multi-thread",
        RuntimeFlavour::CurrentThread => "current-thread",
    }
}

fn servers(request: &ServersRequest) -> Result<Servers, String> {
    let password = std::env::var(PASSWORD).ok().map(|text| Secret::new(&text));
    let endpoint = |url: &String| -> Result<Endpoint, String> {
        let mut endpoint = Endpoint::parse(url).map_err(|error| error.to_string())?;
        endpoint.username.clone_from(&request.username);
        endpoint.password.clone_from(&password);
        if let (Some(tls), Some(TlsRequest { ca, certificate, key, insecure })) = (&mut endpoint.tls, request.tls.clone()) {
            *tls = TlsOptions { ca, certificate, key, insecure };
        }
        Ok(endpoint)
    };
    let endpoints = request.urls.iter().map(endpoint).collect::<Result<Vec<_>, _>>()?;
    match (request.topology, endpoints.len()) {
        (_, 0) => Err("no server was named".into()),
        (Topology::Standalone, 2..) => Err("several servers were named for a standalone one".into()),
        (topology, _) => Ok(Servers { topology, endpoints }),
    }
}

fn operation(request: &Request) -> Result<Operation, String> {
    let workload = |operation, fields, keys| commands::Workload { operation, payload: 0, fields, keys };
    let given = |workload: commands::Workload, key_prefix: &str, value: &str| -> Result<_, String> {
        let value = STANDARD.decode(value).map_err(|error| format!("the value is no Base64: {error}"))?;
        Ok(Operation::Command { keyspace: Keyspace::given(&workload, key_prefix, value), pipeline: request.workload.pipeline.max(1) })
    };
    match &request.workload.operation {
        OperationRequest::Get { key_prefix, keys, value } => given(workload(commands::Operation::Get, 0, *keys), key_prefix, value),
        OperationRequest::Set { key_prefix, keys, value } => given(workload(commands::Operation::Set, 0, *keys), key_prefix, value),
        OperationRequest::Hkeys { key_prefix, keys, fields } => given(workload(commands::Operation::Hkeys, *fields, *keys), key_prefix, ""),
        OperationRequest::Receive { channel, payload, batch } => {
            Ok(Operation::Receive { channel: channel.clone().into_bytes(), payload: *payload, batch: (*batch).max(1) })
        }
    }
}
