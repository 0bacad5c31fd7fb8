//! The final table of a record.

use comfy_table::{Cell as TableCell, CellAlignment, Table, presets};

use crate::record::{Outcome, Record, Row};

const HEADER: [&str; 11] =
    ["cell", "ns/op", "ops/s", "of raw", "allocs/op", "B/op", "cmds/read", "client µs/op", "server µs/op", "audit", "marks"];

/// How fast `row` is beside its twin of the driver `raw`: the ratio of their rates, if both were measured.
#[must_use]
pub fn share_of_raw(record: &Record, row: &Row) -> Option<f64> {
    let own = row.measurement()?;
    let raw = record.rows.iter().filter(|other| other.cell.driver == "raw" && other.cell.is_twin(&row.cell)).find_map(Row::measurement)?;
    Some(own.ops_per_second() / raw.ops_per_second())
}

/// Every row of `record`, failed ones too, as a table.
#[must_use]
pub fn table(record: &Record) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(HEADER);
    for index in 1..HEADER.len() - 2 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for row in &record.rows {
        table.add_row(match &row.outcome {
            Outcome::Measured(_) => measured(record, row),
            Outcome::Verified => note(row, "verified, not timed"),
            Outcome::Unsupported { reason } => note(row, reason),
            Outcome::Failed { reason } => note(row, &format!("FAILED: {reason}")),
        });
    }
    lines(&table)
}

/// The table's text without trailing blanks.
pub(crate) fn lines(table: &Table) -> String {
    table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn measured(record: &Record, row: &Row) -> Vec<TableCell> {
    let Some(figures) = row.measurement() else { return Vec::new() };
    let optional = |value: Option<f64>, digits: usize| value.map_or("–".to_owned(), |value| format!("{value:.digits$}"));
    let marks: Vec<String> = figures.marks.iter().map(ToString::to_string).collect();
    let audit = if figures.audit.checkout > 0 {
        format!("exact, +{:.2}/op checkout", figures.audit.checkout as f64 / figures.operations().max(1) as f64)
    } else {
        "exact".to_owned()
    };
    [
        row.name.clone(),
        format!("{:.0}", figures.ns_per_op()),
        grouped(figures.ops_per_second()),
        share_of_raw(record, row).map_or("–".to_owned(), |share| format!("{:.0}%", share * 100.0)),
        optional(figures.allocs_per_op(), 2),
        optional(figures.bytes_per_op(), 0),
        optional(figures.commands_per_read(), 1),
        format!("{:.2}", figures.client_cpu_per_op() / 1e3),
        format!("{:.2}", figures.server_cpu_per_op() / 1e3),
        audit,
        marks.join(", "),
    ]
    .map(TableCell::new)
    .into()
}

/// A row without figures: the text takes the place of the first columns.
fn note(row: &Row, text: &str) -> Vec<TableCell> {
    let mut cells = vec![TableCell::new(&row.name)];
    cells.extend((1..HEADER.len() - 2).map(|_| TableCell::new("–")));
    cells.extend([TableCell::new(text), TableCell::new("")]);
    cells
}

/// A whole number with a comma at every third digit.
pub(super) fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drivers::{Settings, Topology, find};
    use crate::measure::Environment;
    use crate::record::{Cell, CellSettings, Measurement, Runtime, RuntimeFlavour, Sample};
    use crate::workload::commands::{Operation, Workload};

    fn cell(driver: &str, callers: usize) -> Cell {
        let raw = find("raw").unwrap();
        Cell {
            workload: Workload { operation: Operation::Get, payload: 64, fields: 0, keys: 10 },
            driver: driver.into(),
            client: driver.into(),
            client_version: "1.2.3".into(),
            topology: Topology::Standalone,
            settings: CellSettings::new(raw, &Settings::default(), Topology::Standalone),
            callers,
            runtime: Runtime { flavour: RuntimeFlavour::MultiThread, workers: 2 },
            cached: None,
        }
    }

    fn measured(driver: &str, callers: usize, elapsed_ns: u64) -> Row {
        let samples = vec![Sample { operations: 1_000, elapsed_ns }];
        Row::new(cell(driver, callers), Outcome::Measured(Box::new(Measurement { samples, ..Measurement::default() })))
    }

    #[test]
    fn the_share_of_raw_is_taken_from_the_row_of_the_same_settings() {
        let mut record = Record::new("test", Environment::read());
        record.rows =
            vec![measured("raw", 1, 1_000_000), measured("raw", 64, 500_000), measured("other", 64, 2_000_000), measured("other", 8, 1)];
        assert_eq!(share_of_raw(&record, &record.rows[2]), Some(0.25));
        assert_eq!(share_of_raw(&record, &record.rows[1]), Some(1.0));
        assert_eq!(share_of_raw(&record, &record.rows[3]), None, "raw was not measured with 8 callers");
    }

    #[test]
    fn a_failed_cell_is_a_row_with_its_reason_and_without_figures() {
        let mut record = Record::new("test", Environment::read());
        let reason = "audit failed: the server executed 2 GET, we counted 1".to_owned();
        record.rows = vec![measured("raw", 1, 2_000_000), Row::new(cell("other", 1), Outcome::Failed { reason: reason.clone() })];
        let text = table(&record);
        let failed = text.lines().find(|line| line.contains("/other/")).unwrap();
        assert!(failed.contains(&format!("FAILED: {reason}")), "{text}");
        assert_eq!(failed.matches('–').count(), HEADER.len() - 3, "{failed}");
        assert!(text.lines().any(|line| line.contains("/raw/") && line.contains("2000") && line.contains("500,000")), "{text}");
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!([0.0, 999.6, 1000.0, 1234567.0].map(grouped), ["0", "1,000", "1,000", "1,234,567"]);
    }
}
