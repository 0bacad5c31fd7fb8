//! `rcb history`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::export::{sheet, write};
use super::{Failure, Outcome, print, print_json};
use crate::record::export::{Measure, Sheet};
use crate::record::history::{Wanted, lines};
use crate::report::history::{chart, table};

pub const EXAMPLES: &str = "\
Examples:
  rcb history redis                                      the rate of every cell, by version
  rcb history fred --measure rate,client-cpu --name callers=64
  rcb history redis --svg redis.svg                      the same as a chart
  rcb history redis --results ../figures old.json        records of another folder, and one more

A line holds only sessions of one cell, machine and server. Its differences carry the noise of days: rcb compare gives verdicts.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Client crate, as rcb drivers names it
    client: String,
    /// More records, beside those of the folder
    #[arg(value_name = "RECORD")]
    records: Vec<PathBuf>,
    /// Folder of stored records [default: results, unless records are named]
    #[arg(long, value_name = "FOLDER")]
    results: Option<PathBuf>,
    /// What to show
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "rate", value_parser = measure)]
    measure: Vec<Measure>,
    /// Only cells whose names hold this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    name: String,
    /// Also draw a chart
    #[arg(long, value_name = "PATH")]
    svg: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

fn measure(text: &str) -> Result<Measure, String> {
    let names = Measure::ALL.map(Measure::name).join(", ");
    Measure::ALL.into_iter().find(|measure| measure.name() == text).ok_or_else(|| format!("there is {names}"))
}

/// The folder where `rcb record` stores unless told otherwise.
const USUAL_FOLDER: &str = "results";

pub fn run(arguments: &Arguments) -> Outcome {
    let mut paths = arguments.records.clone();
    let folder = arguments.results.as_deref().or(arguments.records.is_empty().then_some(Path::new(USUAL_FOLDER)));
    if let Some(folder) = folder {
        paths.extend(records_in(folder)?);
    }
    let sheets = paths.iter().map(|path| sheet(path)).collect::<Result<Vec<Sheet>, _>>()?;
    let wanted = Wanted { client: &arguments.client, measures: &arguments.measure, name: &arguments.name };
    let (history, left_out) = lines(&sheets, &wanted);
    left_out.iter().for_each(|reason| tell!("left out: {reason}"));
    if history.is_empty() {
        let others = if left_out.is_empty() { "" } else { "; the records left out have some" };
        return Err(Failure::Usage(nothing(&sheets, arguments) + others));
    }
    if let Some(path) = &arguments.svg {
        write(path, &chart(&arguments.client, &history).map_err(Failure::Usage)?)?;
    }
    if arguments.json {
        print_json(&history)?
    } else {
        print(&table(&history))
    }
    Ok(ExitCode::SUCCESS)
}

/// Every record of a folder, by name; each must be readable.
fn records_in(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let told = |error: &dyn std::fmt::Display| {
        Failure::Usage(format!(
            "can't read the folder {}: {error}; rcb record stores records there, --results names another",
            folder.display()
        ))
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| told(&error))? {
        let path = entry.map_err(|error| told(&error))?.path();
        if path.extension().is_some_and(|extension| extension == "json") && path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Why there is nothing to show.
fn nothing(sheets: &[Sheet], arguments: &Arguments) -> String {
    let clients: BTreeSet<&str> = sheets.iter().flat_map(|sheet| &sheet.entries).map(|entry| entry.client.as_str()).collect();
    if clients.is_empty() {
        return format!("there is no figure in the {} records read", sheets.len());
    }
    if !clients.contains(arguments.client.as_str()) {
        let known: Vec<&str> = clients.into_iter().collect();
        return format!(
            "there is no figure of {:?} in the {} records read; they are of: {}",
            arguments.client,
            sheets.len(),
            known.join(", ")
        );
    }
    format!("no figure of {} fits --measure and --name", arguments.client)
}
