//! The tables of `rcb cache`: clients across, scenarios down, one table a mode; and what is to be said beside them.

use std::time::Duration;

use comfy_table::{Table, presets};

use super::lines;
use crate::record::scenarios::ScenarioRow;
use crate::scenarios::{Away, Played, Scenario, Verdict, Way};

/// The text of a cell.
#[must_use]
pub fn cell(played: &Played) -> String {
    match &played.verdict {
        // It served nothing old, and nothing at all: no word to choose a client by.
        Verdict::Ok if played.account.away.as_ref().is_some_and(|away| away.back_ns.is_none()) => "nothing old, never back".to_owned(),
        Verdict::Ok => "ok".to_owned(),
        Verdict::NotPossible { .. } => "not possible".to_owned(),
        Verdict::Failed { .. } => "FAILED".to_owned(),
        Verdict::Stale => stale(played),
    }
}

fn stale(played: &Played) -> String {
    let account = &played.account;
    let mut parts = Vec::new();
    if let Some(away) = account.away.as_ref().filter(|away| away.late_keys > 0) {
        parts.push(format!("{} of {} stale while away", away.late_keys, away.keys));
    }
    if account.stale > 0 {
        let end = match (account.lasting, account.longest_ns) {
            (0, Some(longest)) => format!(", for {} at most", short(longest)),
            // It ended early: nobody looked again.
            (0, None) => String::new(),
            (lasting, _) if lasting == account.stale => ", to the end".to_owned(),
            (lasting, _) => format!(", {lasting} to the end"),
        };
        parts.push(format!("{} of {} stale{end}", account.stale, account.judged));
    }
    parts.join("; ")
}

fn short(ns: u64) -> String {
    let duration = Duration::from_nanos(ns);
    if duration < Duration::from_millis(1) { format!("{:.0?}", duration) } else { format!("{:.1?}", duration) }
}

/// One table for each mode, in the order in which they were played.
#[must_use]
pub fn tables(rows: &[ScenarioRow]) -> String {
    let ways = unique(rows.iter().map(|row| row.way));
    ways.into_iter().map(|way| format!("mode {way}\n{}", table(rows, way))).collect::<Vec<_>>().join("\n\n")
}

fn unique<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut known = Vec::new();
    for item in items {
        if !known.contains(&item) {
            known.push(item);
        }
    }
    known
}

fn table(rows: &[ScenarioRow], way: Way) -> String {
    let rows: Vec<_> = rows.iter().filter(|row| row.way == way).collect();
    let drivers = unique(rows.iter().map(|row| (row.driver.as_str(), format!("{}\n{} {}", row.driver, row.client, row.client_version))));
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(std::iter::once("scenario".to_owned()).chain(drivers.iter().map(|(_, head)| head.clone())));
    for scenario in Scenario::ALL {
        let of = |driver: &str| rows.iter().find(|row| row.scenario == scenario && row.driver == driver);
        if drivers.iter().all(|(driver, _)| of(driver).is_none()) {
            continue;
        }
        let cells = drivers.iter().map(|(driver, _)| of(driver).map_or("–".to_owned(), |row| cell(&row.played)));
        table.add_row(std::iter::once(scenario.name().to_owned()).chain(cells));
    }
    lines(&table)
}

/// What is to be said of rows beside the table: why they failed, what was stale, what the client said. Rows of which nothing is to be said
/// are left out; a reason that several rows share is said once.
#[must_use]
pub fn details(rows: &[ScenarioRow]) -> String {
    let mut text: Vec<String> = Vec::new();
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for row in rows {
        let said = said(&row.played);
        if let Verdict::NotPossible { reason } = &row.played.verdict {
            let who = format!("{} {}, {}", row.driver, row.scenario, row.way);
            match reasons.iter_mut().find(|(known, _)| known == reason) {
                Some((_, list)) => list.push(who),
                None => reasons.push((reason.clone(), vec![who])),
            }
        } else if !said.is_empty() {
            text.push(format!("{} {} {}, {}, mode {}:", row.driver, row.client, row.client_version, row.scenario, row.way));
            text.extend(said.into_iter().map(|line| format!("  - {line}")));
        }
    }
    if !reasons.is_empty() {
        text.push("not possible:".to_owned());
        text.extend(reasons.into_iter().map(|(reason, who)| format!("  - {reason} ({})", who.join("; "))));
    }
    text.join("\n")
}

fn said(played: &Played) -> Vec<String> {
    let account = &played.account;
    let mut said = Vec::new();
    if let Verdict::Failed { reason } = &played.verdict {
        said.push(format!("FAILED: {reason}"));
        if account.is_stale() {
            said.push(stale(played));
        }
    }
    said.extend(account.examples.iter().cloned());
    if account.stale > account.lasting
        && let Some(longest) = account.longest_ns
    {
        said.push(format!(
            "{} of {} stale keys were right after {} at most",
            account.stale - account.lasting,
            account.stale,
            short(longest)
        ));
    }
    if account.lasting > 0 {
        let keys = if account.lasting == 1 { "1 key was".to_owned() } else { format!("{} keys were", account.lasting) };
        said.push(format!("{keys} as stale 2 s after the fence"));
    }
    if account.refused > 0 {
        said.push(format!("{} of {} reads were refused", account.refused, account.judged));
    }
    said.extend(account.away.iter().map(away));
    // Of one that went as it must, the figures are for the record.
    if played.verdict != Verdict::Ok || account.refused > 0 {
        said.extend(account.remarks.iter().cloned());
    }
    said
}

fn away(away: &Away) -> String {
    let back = away.back_ns.map_or("it does not connect again".to_owned(), |back| format!("back after {}", short(back)));
    let last = away.last_old_ns.map_or(String::new(), |last| format!(", the last {} after the loss", short(last)));
    format!(
        "{back}; reads until then: {} old{last}, {} new, {} failed, {} given up{}",
        away.old_reads,
        away.new_reads,
        away.failed_reads,
        away.slow_reads,
        away.said.as_ref().map_or(String::new(), |said| format!("; it first said: {said}"))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drivers::{CacheMode, find};
    use crate::scenarios::Account;

    fn row(scenario: Scenario, way: Way, verdict: Verdict, account: Account) -> ScenarioRow {
        let played = Played { verdict, account, counts: None, took_s: 0.0 };
        ScenarioRow { client_version: "1.2.3".into(), ..ScenarioRow::new(find("raw").unwrap(), scenario, way, played) }
    }

    fn stale(judged: u64, stale: u64, lasting: u64, longest_ns: Option<u64>) -> Account {
        Account { judged, stale, lasting, longest_ns, ..Account::default() }
    }

    #[test]
    fn tables_have_clients_across_and_scenarios_down_and_details_say_what_they_leave_out() {
        let away = Away {
            keys: 128,
            old_reads: 900,
            late_keys: 128,
            last_old_ns: Some(1_001_000_000),
            back_ns: Some(1_002_000_000),
            ..Away::default()
        };
        let failed = Verdict::Failed { reason: "client error: gone".into() };
        let impossible = Verdict::NotPossible { reason: "it needs a cluster".into() };
        let broadcast = Way { mode: CacheMode::Broadcast, noloop: true };
        let mut rows = vec![
            row(Scenario::Overwrite, Way::FIRST, Verdict::Ok, stale(512, 0, 0, None)),
            row(Scenario::Flushall, Way::FIRST, Verdict::Stale, stale(128, 128, 128, None)),
            row(Scenario::Race, Way::FIRST, Verdict::Stale, stale(128, 3, 1, Some(400_000))),
            row(Scenario::ClientKill, Way::FIRST, Verdict::Stale, Account { away: Some(away), ..stale(128, 2, 0, Some(3_400_000)) }),
            row(Scenario::SlotMove, Way::FIRST, impossible.clone(), Account::default()),
            row(Scenario::FlushOneMaster, Way::FIRST, impossible, Account::default()),
            row(Scenario::OwnWrites, broadcast, failed, stale(1, 1, 0, None)),
        ];
        let mut other = rows[0].clone();
        other.driver = "another".into();
        rows.push(other);
        insta::assert_snapshot!(format!("{}\n\n{}", tables(&rows), details(&rows)));
    }
}
