//! `rcb target`.

use std::process::ExitCode;

use serde::Serialize;

use super::{Outcome, print, print_json, provide_target, runtime};
use crate::measure::{self, Environment};
use crate::target::{TargetArgs, TargetFacts};

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: TargetArgs,
    /// As JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    target: TargetFacts,
    environment: Environment,
    warnings: Vec<String>,
}

pub fn run(arguments: &Arguments) -> Outcome {
    let runtime = runtime(false)?;
    // Read first: starting a target makes the machine busy.
    let environment = Environment::read();
    let warnings = measure::warnings(&environment);
    let target = provide_target(&runtime, &arguments.target)?;
    let facts = target.facts();
    runtime.block_on(target.shutdown());
    if arguments.json {
        print_json(&Report { target: facts, environment, warnings })?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut lines = vec![
        format!("target       {}", facts.provided),
        format!("server       {}", facts.server),
        format!("topology     {}, {} masters, {} replicas", facts.topology, facts.masters, facts.replicas),
    ];
    lines.extend(facts.addresses.iter().map(|address| format!("             {address}")));
    let unknown = || "unknown".to_owned();
    lines.push(format!("machine      {} × {}", environment.cores, environment.cpu.clone().unwrap_or_else(unknown)));
    lines.push(format!("kernel       {} {}", environment.os, environment.kernel.clone().unwrap_or_else(unknown)));
    if let Some(load) = &environment.load {
        lines.push(format!("load         {:.2} {:.2} {:.2}", load.one, load.five, load.fifteen));
    }
    lines.push(format!("build        {} {}, {}", environment.version, environment.rustc, environment.target));
    lines.extend(warnings.iter().chain(&facts.warnings).map(|warning| format!("warning      {warning}")));
    print(&lines.join("\n"));
    Ok(ExitCode::SUCCESS)
}
