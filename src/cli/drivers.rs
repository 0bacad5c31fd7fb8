//! `rcb drivers`.

use comfy_table::{Table, presets};
use serde::Serialize;

mod caches;
mod subscribers;

use super::{Outcome, print, print_json};
use crate::drivers::{DRIVERS, Descriptor, PipelineReach, Resp, Settings, Topology};
use crate::report::lines;
use caches::Cache;
use subscribers::PubSub;

#[derive(clap::Args)]
pub struct Arguments {
    /// As JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Entry {
    name: &'static str,
    client: &'static str,
    version: &'static str,
    summary: &'static str,
    documentation: &'static str,
    topologies: Vec<String>,
    resp: Vec<u8>,
    connections: &'static str,
    explicit_pipeline_on_cluster: Option<&'static str>,
    checkout_commands: &'static [&'static str],
    pubsub: PubSub,
    client_side_cache: Cache,
    notes: &'static [&'static str],
}

impl Entry {
    fn new(driver: &'static Descriptor) -> Self {
        let cluster = driver.runs_on(Topology::Cluster).then_some(match driver.pipeline_reach {
            PipelineReach::AnySlot => "any keys",
            PipelineReach::OneSlot => "keys of one slot",
        });
        Self {
            name: driver.name,
            client: driver.client,
            version: driver.version(),
            summary: driver.summary,
            documentation: driver.documentation,
            topologies: driver.topologies.iter().map(ToString::to_string).collect(),
            resp: driver.resp.iter().map(|&resp| resp.into()).collect(),
            connections: connections(driver),
            explicit_pipeline_on_cluster: cluster,
            checkout_commands: driver.checkout,
            pubsub: PubSub::new(driver),
            client_side_cache: Cache::new(driver),
            notes: driver.notes,
        }
    }
}

/// How the connections that it opens follow from those asked for.
fn connections(driver: &Descriptor) -> &'static str {
    let three = Settings { connections: const { std::num::NonZeroUsize::new(3).unwrap() }, ..Settings::default() };
    let topology = driver.topologies.first().copied().unwrap_or(Topology::Standalone);
    if driver.most_connections > 1 && (driver.connections)(&three, topology) == 3 { "as many as asked" } else { "1" }
}

/// What each driver's subscribers can do, as a table.
fn subscribers(entries: &[Entry]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["subscriber", "server, RESP2", "server, RESP3", "cluster, RESP2", "cluster, RESP3", "buffer", "which way"]);
    for entry in entries {
        let pubsub = &entry.pubsub;
        table.add_row([
            entry.name.to_owned(),
            pubsub.cell(Topology::Standalone, Resp::V2),
            pubsub.cell(Topology::Standalone, Resp::V3),
            pubsub.cell(Topology::Cluster, Resp::V2),
            pubsub.cell(Topology::Cluster, Resp::V3),
            pubsub.buffer_cell(),
            pubsub.way.unwrap_or("unsupported").to_owned(),
        ]);
    }
    table
}

/// What each driver can cache on its own side, as a table; drivers that can't are left out.
fn caches(entries: &[Entry]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["cache", "server", "cluster", "capacity in", "hits, misses", "evictions", "beside a miss", "which way"]);
    for entry in entries {
        if let Some(cells) = entry.client_side_cache.cells() {
            table.add_row(std::iter::once(entry.name.to_owned()).chain(cells));
        }
    }
    table
}

pub fn run(arguments: &Arguments) -> Outcome {
    let entries: Vec<Entry> = DRIVERS.iter().map(Entry::new).collect();
    if arguments.json {
        print_json(&entries)?;
        return Ok(std::process::ExitCode::SUCCESS);
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["driver", "client", "connections", "topologies", "RESP", "cluster pipeline", "checkout sends", "what it is"]);
    for entry in &entries {
        table.add_row([
            entry.name.to_owned(),
            format!("{} {}", entry.client, entry.version),
            entry.connections.to_owned(),
            entry.topologies.join(", "),
            entry.resp.iter().map(u8::to_string).collect::<Vec<_>>().join(", "),
            entry.explicit_pipeline_on_cluster.unwrap_or("–").to_owned(),
            if entry.checkout_commands.is_empty() { "–".to_owned() } else { entry.checkout_commands.join(" + ").to_uppercase() },
            entry.summary.to_owned(),
        ]);
    }
    let mut text = vec![lines(&table)];
    text.push(String::new());
    text.push("On a cluster, a pipeline window (or off) uses one standalone client per master, so every driver that runs".into());
    text.push("standalone can be swept there too.".into());
    text.push(String::new());
    text.push(lines(&subscribers(&entries)));
    text.push(String::new());
    text.push("Publishing every driver can. A subscriber at one chosen node of a cluster can what it can at a server.".into());
    text.push(String::new());
    text.push(lines(&caches(&entries)));
    text.push(String::new());
    text.push("Client-side caches are for RESP3. Drivers that are not listed have none; why is among their notes.".into());
    for entry in &entries {
        let uncached = entry.client_side_cache.reasons().into_iter().map(|reason| format!("  - Unsupported caching: {reason}."));
        let cached = entry.client_side_cache.notes().iter().map(|note| format!("  - Cache: {note}")).chain(uncached);
        let refusals = entry.pubsub.reasons().into_iter().map(|reason| format!("  - Unsupported subscriptions: {reason}."));
        let notes: Vec<_> = entry.notes.iter().map(|note| format!("  - {note}")).chain(refusals).chain(cached).collect();
        if !notes.is_empty() {
            text.push(format!("\n{}:", entry.name));
            text.extend(notes);
        }
    }
    print(&text.join("\n"));
    Ok(std::process::ExitCode::SUCCESS)
}
