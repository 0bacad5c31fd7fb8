//! From the configuration to the cells, grouped as Criterion reports them.

use std::num::NonZeroUsize;
use std::time::Duration;

use super::{BenchConfig, Sweep};
use crate::drivers::{Descriptor, Scope, Settings, Strategy, Topology, find};
use crate::record::{Cell, CellSettings};
use crate::workload::commands::{Operation, Workload};
use crate::workload::runs_on;

/// Cells that stand together in one of Criterion's reports.
#[derive(Clone, Debug)]
pub struct Group {
    /// Criterion's group, at most 64 bytes.
    pub name: String,
    /// What all of its cells need.
    pub topology: Topology,
    /// Whether the parameter is a number to draw a line over. Criterion draws such a chart only for groups whose members
    /// have no throughput set.
    pub line_chart: bool,
    /// In the order in which they run.
    pub cells: Vec<PlannedCell>,
}

/// A cell to be measured.
#[derive(Clone, Debug)]
pub struct PlannedCell {
    /// Criterion's function.
    pub function: String,
    /// Criterion's parameter.
    pub parameter: String,
    /// What to do.
    pub workload: Workload,
    /// With which driver.
    pub driver: &'static Descriptor,
    /// How it is set.
    pub settings: Settings,
    /// Concurrent callers.
    pub callers: usize,
    /// Why the driver can't do it, by its own statement.
    pub unsupported: Option<String>,
    /// For the record.
    pub cell: Cell,
}

struct Planner<'a> {
    config: &'a BenchConfig,
    topology: Topology,
}

impl Planner<'_> {
    fn settings(&self, connections: usize, strategy: Strategy, scope: Scope) -> Settings {
        Settings {
            connections: NonZeroUsize::new(connections).unwrap_or(NonZeroUsize::MIN),
            resp: self.config.connection.resp,
            profile: self.config.connection.profile,
            strategy,
            scope,
            in_flight: NonZeroUsize::new(self.config.pipeline_window.in_flight),
            response_timeout: None,
            no_delay: None,
        }
    }

    fn cell(&self, driver: &'static Descriptor, workload: &Workload, settings: Settings, callers: usize) -> PlannedCell {
        let unsupported = runs_on(driver, &settings, self.topology).err().map(|error| error.to_string());
        let cell = Cell {
            workload: workload.clone(),
            driver: driver.name.to_owned(),
            client: driver.client.to_owned(),
            client_version: driver.version().to_owned(),
            topology: self.topology,
            settings: CellSettings::new(driver, &settings, self.topology),
            callers,
            runtime: self.config.runtime(),
            cached: None,
        };
        PlannedCell {
            function: driver.name.to_owned(),
            parameter: String::new(),
            workload: workload.clone(),
            driver,
            settings,
            callers,
            unsupported,
            cell,
        }
    }
}

/// The drivers of a sweep that are in this build and can hold `connections`.
fn able<'a>(sweep: &'a Sweep, connections: usize) -> impl Iterator<Item = &'static Descriptor> + use<'a> {
    sweep.drivers.iter().filter_map(|name| find(name).ok()).filter(move |driver| connections <= driver.most_connections)
}

fn workload(operation: Operation, payload: usize, fields: usize, keys: usize) -> Workload {
    match operation {
        Operation::Get | Operation::Set => Workload { operation, payload, fields: 0, keys },
        Operation::Hkeys => Workload { operation, payload: 0, fields, keys },
    }
}

/// The cells of the bench `pipeline_window`: a group per topology, connections, callers, limit and scope, with a line per
/// driver over the windows.
///
/// A driver that can't hold so many connections is left out of that group.
#[must_use]
pub fn pipeline_window(config: &BenchConfig) -> Vec<Group> {
    let window = &config.pipeline_window;
    let workload = workload(window.operation, window.payload, window.fields, window.keys);
    let mut groups = Vec::new();
    for (topology, sweep) in [(Topology::Standalone, &window.standalone), (Topology::Cluster, &window.cluster)] {
        let Some(sweep) = sweep else { continue };
        let planner = Planner { config, topology };
        let concurrency = pairs(&sweep.connections, &sweep.callers);
        let batching: Vec<_> = pairs(&window.limits, &window.scopes).collect();
        for ((&connections, &callers), &(&limit, &scope)) in concurrency.flat_map(|one| batching.iter().map(move |other| (one, other))) {
            let mut name = format!("window-{topology},conns={connections},callers={callers}");
            if limit != 0 {
                name += &format!(",limit={limit}");
            }
            if scope == Scope::PerConnection {
                name += ",scope=conn";
            }
            let mut cells = Vec::new();
            // Off and native have neither limit nor scope: they are measured in the first such group only.
            let first = limit == window.limits[0] && scope == window.scopes[0];
            for driver in able(sweep, connections) {
                let mut add = |strategy, suffix: &str, parameter: String| {
                    let settings = planner.settings(connections, strategy, scope);
                    let mut planned = planner.cell(driver, &workload, settings, callers);
                    planned.function += suffix;
                    planned.parameter = parameter;
                    cells.push(planned);
                };
                for &micros in &window.windows_us {
                    let strategy = Strategy::window(Duration::from_nanos((micros * 1e3).round() as u64), limit);
                    if strategy != Strategy::Off || first {
                        add(strategy, "", micros.to_string());
                    }
                }
                if window.idle {
                    add(Strategy::Idle { limit }, ",idle", "0".into());
                }
                if window.native && first {
                    add(Strategy::Native, ",native", "0".into());
                }
            }
            groups.push(Group { name, topology, line_chart: true, cells });
        }
    }
    groups
}

/// The cells of the bench `commands`: a group per topology, command and size.
///
/// A driver that can't hold so many connections, or that has no mode for the topology, is left out.
#[must_use]
pub fn commands(config: &BenchConfig) -> Vec<Group> {
    let commands = &config.commands;
    let mut groups = Vec::new();
    for (topology, sweep) in [(Topology::Standalone, &commands.standalone), (Topology::Cluster, &commands.cluster)] {
        let Some(sweep) = sweep else { continue };
        let planner = Planner { config, topology };
        for &operation in &commands.operations {
            let payloads = if operation == Operation::Hkeys { &commands.payloads[..1] } else { &commands.payloads[..] };
            for &payload in payloads {
                let workload = workload(operation, payload, commands.fields, commands.keys);
                let mut cells = Vec::new();
                for (&connections, &callers) in pairs(&sweep.connections, &sweep.callers) {
                    for driver in able(sweep, connections) {
                        let settings = planner.settings(connections, Strategy::Native, Scope::Shared);
                        let mut planned = planner.cell(driver, &workload, settings, callers);
                        planned.parameter = format!("conns={connections},callers={callers}");
                        cells.push(planned);
                    }
                }
                let name = cells.first().map_or_else(String::new, |planned| format!("commands-{}", planned.cell.workload_name()));
                if !cells.is_empty() {
                    groups.push(Group { name, topology, line_chart: false, cells });
                }
            }
        }
    }
    groups
}

/// Every value of the first list with every one of the second, the first varying slowest.
fn pairs<'a, A, B>(first: &'a [A], second: &'a [B]) -> impl Iterator<Item = (&'a A, &'a B)> {
    first.iter().flat_map(move |one| second.iter().map(move |other| (one, other)))
}
