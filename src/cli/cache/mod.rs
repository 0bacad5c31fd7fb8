//! `rcb cache`.

mod plan;

use std::path::PathBuf;
use std::process::ExitCode;

use super::{Failure, Outcome, json_file, print, runtime, save_json};
use crate::drivers::{CacheMode, Profile, Resp, Settings};
use crate::interrupt::{EXIT_INTERRUPTED, Graceful, interrupted};
use crate::measure::{self, Environment};
use crate::record::scenarios::{ScenarioRow, ScenariosRecord};
use crate::report::scenarios::{cell, details, tables};
use crate::scenarios::{Against, Ask, CELL_LIMIT, Scenario, play_by_name};
use crate::target::{TargetArgs, provide};

const EXAMPLES: &str = "\
Examples:
  rcb cache                                          every client with a cache, every scenario, on a server of its own
  rcb cache --topology 3x1                           the same on a cluster
  rcb cache --driver redis-rs --scenario race        one scenario with one client
  rcb cache --driver rustis --csc-mode all --csc-noloop --scenario own-writes
  rcb cache --server-bin /opt/valkey/bin/valkey-server --json-out-file cache.json

Exit codes: 0 all was forgotten, 1 something was not or a scenario failed, 2 wrong usage or no target, 130 interrupted.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Driver; several by commas, or once for each [default: all that have a client-side cache on this target]
    #[arg(long = "driver", value_name = "NAME", value_delimiter = ',')]
    drivers: Vec<String>,
    /// Scenario; several by commas, or once for each [default: all]
    #[arg(long = "scenario", value_enum, value_name = "NAME", value_delimiter = ',')]
    scenarios: Vec<Scenario>,
    /// Which keys the server tells about; every scenario is played in this mode only [default: all scenarios in mode all, then overwrite,
    /// own-writes and client-kill in each further mode that a client has]
    #[arg(long, value_enum, value_name = "MODE")]
    csc_mode: Option<CacheMode>,
    /// With --csc-mode: the server does not tell a client of its own writes (NOLOOP)
    #[arg(long, requires = "csc_mode")]
    csc_noloop: bool,
    /// The clients' knobs
    #[arg(long, value_enum, default_value_t = Profile::Tuned)]
    profile: Profile,
    /// Exit with 0 though something was stale; a scenario that failed is still 1
    #[arg(long)]
    allow_stale: bool,
    /// Also write everything to this file, as JSON
    #[arg(long, value_name = "PATH")]
    json_out_file: Option<PathBuf>,
    #[command(flatten)]
    target: TargetArgs,
}

/// How long an interruption waits for the scenario under way to clear up and for the file.
const END_LIMIT: std::time::Duration = std::time::Duration::from_secs(15);

pub fn run(arguments: &Arguments) -> Outcome {
    let named = plan::named(arguments).map_err(Failure::Usage)?;
    let json = json_file(arguments.json_out_file.as_deref())?;
    let environment = Environment::read();
    let runtime = runtime(false)?;
    let mut spec = arguments.target.spec()?;
    spec.resp = Resp::V3;
    let target = runtime.block_on(provide(&spec))?;
    // After the target, so that on Ctrl-C the servers are still there to clear up.
    let graceful = Graceful::register("interrupted; clearing up", END_LIMIT);
    tell!("target: {target}");
    let mut warnings = measure::warnings(&environment);
    warnings.extend(target.warnings.iter().cloned());
    warnings.iter().for_each(|warning| tell!("warning: {warning}"));
    let turns = match plan::turns(arguments, &named, &target) {
        Ok(turns) => turns,
        Err(reason) => {
            runtime.block_on(target.shutdown());
            return Err(Failure::Usage(reason));
        }
    };
    let mut record = ScenariosRecord::new(environment, target.facts(), warnings, arguments.profile);
    let settings = Settings { resp: Resp::V3, profile: arguments.profile, ..Settings::default() };
    let nodes: Vec<_> = target.nodes.iter().map(|node| node.endpoint.clone()).collect();
    let against = Against { servers: target.servers.clone(), nodes, ours: target.is_ours() };
    let run = plan::run_name();
    tell!("{} scenarios, each within {} s", turns.len(), CELL_LIMIT.as_secs());
    for (number, turn) in turns.iter().enumerate() {
        if interrupted() {
            break;
        }
        let plan::Turn { driver, scenario, way } = *turn;
        let prefix = format!("rcb:cache:{run}:{number}:");
        let ask = Ask { scenario, way, settings: settings.clone(), prefix };
        let playing = play_by_name(driver.name, against.clone(), ask).map_err(|error| Failure::Usage(error.to_string()))?;
        let played = runtime.block_on(playing);
        if interrupted() {
            break;
        }
        tell!("{} {scenario}, {way}: {}", driver.name, cell(&played));
        record.rows.push(ScenarioRow::new(driver, scenario, way, played));
    }
    runtime.block_on(target.shutdown());
    print(&format!("{}\n\n{}", tables(&record.rows), details(&record.rows)));
    let (stale, failed) = record.stale_and_failed();
    if stale + failed > 0 {
        let allowed = if arguments.allow_stale && stale > 0 { " (allowed)" } else { "" };
        tell!("{stale} of {} scenarios had stale reads{allowed}, {failed} failed", record.rows.len());
    }
    if let Some(json) = json {
        record.complete = !interrupted();
        save_json(json, &record)?;
    }
    if interrupted() {
        drop(graceful);
        return Ok(ExitCode::from(EXIT_INTERRUPTED as u8));
    }
    Ok(ExitCode::from(u8::from(failed > 0 || stale > 0 && !arguments.allow_stale)))
}
