//! `rcb export`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::load::outputs::Output;
use super::{Failure, Outcome, print};
use crate::record::AnyRecord;
use crate::record::export::{ExportError, Format, Sheet, Wanted, export};

pub const EXAMPLES: &str = "\
Examples:
  rcb export --format markdown target/rcb/commands.json
  rcb export --format csv results/*.json --output figures.csv
  rcb export --format gobench old.json > old.txt; rcb export --format gobench new.json > new.txt
                                          then: benchstat old.txt new.txt, or benchstat -col /driver new.txt
  rcb export --format bmf load.json > bmf.json; bencher run --adapter json --file bmf.json
  rcb export --format github-action-benchmark --better bigger load.json --output bigger.json
                                          for the tool customBiggerIsBetter; smaller is customSmallerIsBetter

What failed or can't be stood behind is no number in any format: it is left out and named on standard error.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Whose format
    #[arg(long, value_enum)]
    format: Format,
    /// Which figures a file for github-action-benchmark holds; it takes those of one direction only [default: smaller]
    #[arg(long, value_enum)]
    better: Option<Wanted>,
    /// End with exit code 1 when a cell was left out because it failed or can't be stood behind
    #[arg(long)]
    strict: bool,
    /// Write to this file, whole or not at all, instead of standard output
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Records of the benches, of rcb load, subscribe, publish and compare; rcb cache gives verdicts and no figures
    #[arg(required = true, value_name = "RECORD")]
    records: Vec<PathBuf>,
}

/// A record in its common form.
pub(super) fn sheet(path: &Path) -> Result<Sheet, Failure> {
    let record = AnyRecord::load(path).map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(Sheet::of(&path.display().to_string(), &record))
}

/// Tells what has no figure; true when something failed.
pub(super) fn tell_left_out(sheet: &Sheet) -> bool {
    for left in &sheet.left_out {
        let what = if left.unsupported { "unsupported" } else { "left out" };
        tell!("{}: {what}: {}: {}", sheet.record, left.name, left.reason);
    }
    if !sheet.complete {
        tell!("{}: interrupted: cells may be missing", sheet.record);
    }
    !sheet.complete || sheet.left_out.iter().any(|left| !left.unsupported)
}

pub fn run(arguments: &Arguments) -> Outcome {
    if arguments.better.is_some() && arguments.format != Format::GithubActionBenchmark {
        return Err(Failure::Usage(
            "--better is for --format github-action-benchmark; the other formats hold figures of both directions".into(),
        ));
    }
    let sheets = arguments.records.iter().map(|path| sheet(path)).collect::<Result<Vec<_>, _>>()?;
    let mut failed = false;
    for sheet in &sheets {
        failed |= tell_left_out(sheet);
        sheet.warnings.iter().for_each(|warning| tell!("{}: warning: {warning}", sheet.record));
    }
    let text = export(&sheets, arguments.format, arguments.better.unwrap_or_default()).map_err(|error| match error {
        ExportError::Twice { .. } => Failure::Usage(error.to_string()),
        ExportError::Nothing(_) | ExportError::Write(_) => Failure::Measurement(error.to_string()),
    })?;
    match &arguments.output {
        Some(path) => write(path, &text)?,
        None => print(text.trim_end_matches('\n')),
    }
    Ok(if failed && arguments.strict { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Writes a file whole, or leaves what was there.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let output = Output::open(path).map_err(Failure::Usage)?;
    output.write(|out| out.write_all(text.as_bytes())).map_err(Failure::Measurement)
}
