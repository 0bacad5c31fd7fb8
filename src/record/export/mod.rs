//! Exports: one file for each consumer's format, all from the [common form](Sheet) of a record.
//!
//! What failed or can't be stood behind never becomes a number: it is in [`Sheet::left_out`], and a format that has comments names
//! it there.

mod action;
mod bmf;
mod csv;
mod from;
mod gobench;
mod json;
mod markdown;
mod sheet;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

pub use action::Wanted;
pub use sheet::{Against, Entry, Figure, LeftOut, Measure, Name, Sheet, server_text};

/// Who is to read an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// One line for each figure
    Csv,
    /// A table for people
    Markdown,
    /// Go's benchmark format, for benchstat
    Gobench,
    /// Bencher Metric Format, for `bencher run --adapter json`
    Bmf,
    /// For the tools customSmallerIsBetter and customBiggerIsBetter of github-action-benchmark
    GithubActionBenchmark,
    /// Everything in the common form
    Json,
}

/// What can't be exported so.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// Two cells would become one.
    #[error("{name} is in {first} and in {second}, and this format can't tell them apart; export one at a time")]
    Twice {
        /// The name.
        name: String,
        /// A record.
        first: String,
        /// The other, or the same.
        second: String,
    },
    /// There is no figure in any of the records.
    #[error("no figure to export{0}")]
    Nothing(String),
    /// The writer of a format failed.
    #[error("can't write the export: {0}")]
    Write(String),
}

/// The text of `sheets` in `format`. `wanted` is for [`Format::GithubActionBenchmark`], whose files hold figures of one direction only.
///
/// # Errors
/// [`ExportError`]; nothing is exported then.
pub fn export(sheets: &[Sheet], format: Format, wanted: Wanted) -> Result<String, ExportError> {
    if sheets.iter().all(|sheet| sheet.entries.is_empty()) {
        return Err(ExportError::Nothing(String::new()));
    }
    match format {
        Format::Csv => csv::text(sheets),
        Format::Markdown => Ok(markdown::text(sheets)),
        Format::Gobench => gobench::text(sheets),
        Format::Bmf => bmf::text(sheets),
        Format::GithubActionBenchmark => action::text(sheets, wanted),
        Format::Json => json::text(sheets),
    }
}

/// Names that a consumer takes for one and the same would mix the figures of two cells.
fn all_differ<'a>(names: impl IntoIterator<Item = (String, &'a str)>) -> Result<(), ExportError> {
    let mut seen: HashMap<String, &str> = HashMap::new();
    for (name, record) in names {
        if let Some(first) = seen.insert(name.clone(), record) {
            return Err(ExportError::Twice { name, first: first.to_owned(), second: record.to_owned() });
        }
    }
    Ok(())
}

/// A value as JSON and the others write it: the shortest text that reads back as the same number.
fn number(value: f64) -> String {
    format!("{value}")
}
