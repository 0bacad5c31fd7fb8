//! The table of the benches `publish` and `subscribe`.

use comfy_table::{CellAlignment, Table, presets};

pub use crate::record::pubsub::{Figures, Ran, Record, Row};

/// Every row, failed ones too.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let mut table = Table::new();
    let header = ["cell", "ns/message", "messages/s", "of raw", "client µs/msg", "server µs/msg", "cmds/read", "what"];
    table.load_style(presets::NOTHING).set_header(header);
    for index in 1..header.len() - 1 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for row in rows {
        let mut cells = vec![row.name.clone()];
        match &row.ran {
            Ran::Measured(figures) => {
                let raw = rows.iter().find(|other| other.driver == "raw" && other.is_twin(row)).and_then(Row::figures);
                let share = raw.map(|raw| raw.ns_per_message() / figures.ns_per_message().max(f64::MIN_POSITIVE) * 100.0);
                let none = || "–".to_owned();
                cells.extend([
                    format!("{:.0}", figures.ns_per_message()),
                    format!("{:.0}", 1e9 / figures.ns_per_message().max(f64::MIN_POSITIVE)),
                    share.map_or_else(none, |share| format!("{share:.0}%")),
                    format!("{:.2}", figures.per_message(figures.client_ns) / 1e3),
                    format!("{:.2}", figures.per_message(figures.server_ns) / 1e3),
                    if figures.reads > 0 { format!("{:.1}", figures.commands as f64 / figures.reads as f64) } else { none() },
                    "exact".to_owned(),
                ]);
            }
            other => {
                cells.extend((1..header.len() - 1).map(|_| "–".to_owned()));
                cells.push(match other {
                    Ran::Failed { reason } => format!("FAILED: {reason}"),
                    Ran::Unsupported { reason } => reason.clone(),
                    _ => "verified, not timed".to_owned(),
                });
            }
        }
        table.add_row(cells);
    }
    table.to_string().lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(driver: &str, ran: Ran) -> Row {
        Row { name: format!("publish-128B/{driver}/serial"), driver: driver.into(), client: "x 1".into(), ran }
    }

    #[test]
    fn a_failed_cell_is_a_row_with_its_reason_and_the_share_of_raw_is_that_of_its_twin() {
        let measured = |elapsed_ns| Ran::Measured(Figures { messages: 10, elapsed_ns, ..Figures::default() });
        let rows = [row("raw", measured(1_000)), row("fast", measured(2_000)), row("lossy", Ran::Failed { reason: "got 9 of 10".into() })];
        let text = table(&rows);
        assert!(text.lines().any(|line| line.contains("/fast/") && line.contains("50%") && line.contains("200")), "{text}");
        assert!(text.lines().any(|line| line.contains("/lossy/") && line.ends_with("FAILED: got 9 of 10")), "{text}");
    }
}
