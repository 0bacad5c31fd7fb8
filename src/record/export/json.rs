//! The common form as JSON: `redis-client-bench/export`.

use serde::Serialize;

use super::{ExportError, Sheet};

#[derive(Serialize)]
struct Export<'a> {
    format: &'static str,
    version: u32,
    records: &'a [Sheet],
}

pub(super) fn text(sheets: &[Sheet]) -> Result<String, ExportError> {
    let export = Export { format: "redis-client-bench/export", version: 1, records: sheets };
    let text = serde_json::to_string_pretty(&export).map_err(|error| ExportError::Write(error.to_string()))?;
    Ok(text + "\n")
}
