//! What `rcb load --csc` adds to the summary of a run and to the comparison: what the cache did, what each class of command took,
//! how late invalidations came, and whether a read was stale.

use std::fmt::Write;

use comfy_table::{Table, presets};

use super::load::{Group, millis, optional, rate, right_aligned};
use super::table::{grouped, lines};
use crate::compare::median;
use crate::drivers::{Capacity, CountedBy};
use crate::measure::{Latency, latency};
use crate::record::load::{Asked, AskedCache, Distribution, Figures, LoadRecord, Status};
use crate::workload::cache::{CacheFigures, Lag, LagFigures, Staleness};

const MEBIBYTE: f64 = (1 << 20) as f64;

/// The lines below the throughput: who counted what.
pub(super) fn rates(out: &mut String, figures: &Figures, cache: &CacheFigures) {
    let mut line = |count: u64, what: &str, by: Option<CountedBy>| {
        let by = by.map_or(String::new(), |by| format!(" ({by})"));
        let _ = writeln!(out, "                    {} {what} per second{by}", rate(per_second(figures, count)));
    };
    line(cache.hits(), "cache hits", Some(cache.reads_by));
    line(cache.misses(), "cache misses", None);
    line(cache.counts.invalidations, "invalidations", Some(cache.invalidations_by));
    match cache.counts.evictions {
        Some(evictions) => line(evictions, "evictions", cache.evictions_by),
        None => out.push_str("                    evictions: nobody can tell with this client\n"),
    }
    if let Some(ratio) = cache.hit_ratio() {
        let reads = grouped((cache.hits() + cache.misses()) as f64);
        let _ = writeln!(out, "Hit ratio {:.1}% of {reads} reads", ratio * 100.0);
    }
}

fn per_second(figures: &Figures, count: u64) -> f64 {
    if figures.duration > 0.0 { count as f64 / figures.duration } else { 0.0 }
}

/// The latencies by class.
pub(super) fn classes(out: &mut String, cache: &CacheFigures) {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["By class", "unit", "count", "avg", "p50", "p95", "p99", "p99.9", "max"]);
    let nanos = |value: f64| grouped(value);
    let msec = |value: f64| format!("{:.3}", value / 1e6);
    for (name, class, unit, shown) in [
        ("hit", &cache.hit, "ns", &nanos as &dyn Fn(f64) -> String),
        ("miss", &cache.miss, "msec", &msec),
        ("read, hit or miss", &cache.unknown, "msec", &msec),
        ("write", &cache.write, "msec", &msec),
    ] {
        let Some(latency) = class.latency else { continue };
        let at = |value: u64| shown(value as f64);
        table.add_row([
            name.to_owned(),
            unit.to_owned(),
            latency.count.to_string(),
            shown(latency.mean_ns),
            at(latency.p50_ns),
            at(latency.p95_ns),
            at(latency.p99_ns),
            at(latency.p999_ns),
            at(latency.max_ns),
        ]);
    }
    right_aligned(&mut table, 2);
    let _ = writeln!(out, "{}", lines(&table));
    if cache.hit.latency.is_some() {
        let _ = writeln!(out, "Of each of these about {:.0} ns are our two readings of the clock", cache.clock_ns);
    }
    if cache.unknown.latency.is_some() {
        out.push_str(
            "It can't be told well enough of each read whether it was a hit to time them apart; how many were, the client counts itself\n",
        );
    }
    if cache.mistaken() > 0 {
        let share = 100.0 * cache.mistaken() as f64 / cache.misses().max(1) as f64;
        let _ = writeln!(
            out,
            "{} misses ({share:.1}% of all) are among the hits of this table, not in the counts above: their replies were there when first looked for",
            grouped(cache.mistaken() as f64)
        );
    }
}

/// What is known of the cache beside rates and latencies.
pub(super) fn details(out: &mut String, cache: &CacheFigures, asked: &Asked, cached: bool) {
    if cached {
        let _ = writeln!(out, "Cache: {}; {}", cache.way, settings(cache));
    }
    if let Some(lag) = &cache.lag {
        lags(out, lag);
    }
    if cached {
        let memory = cache.memory_bytes.map(|bytes| bytes as f64 / MEBIBYTE);
        let _ = writeln!(
            out,
            "Cache memory {} with the buffers of its connections, {} entries at the end",
            optional(memory, 1, " MiB"),
            cache.counts.entries.map_or("unknown".to_owned(), |entries| grouped(entries as f64)),
        );
    }
    staleness(out, &cache.staleness, asked.cache.as_ref().is_some_and(|asked| asked.allow_stale));
}

fn settings(cache: &CacheFigures) -> String {
    let capacity = match cache.capacity {
        Some(Capacity::Entries(entries)) => format!("at most {} keys", grouped(entries.get() as f64)),
        Some(Capacity::Bytes(bytes)) => format!("at most {} bytes of keys and values", grouped(bytes.get() as f64)),
        None => "capacity as it ships".to_owned(),
    };
    let ttl = cache.ttl_seconds.map_or("age as it ships".to_owned(), |seconds| format!("for at most {seconds} s"));
    let noloop = if cache.noloop { ", no invalidations for own writes" } else { "" };
    let writers = if cache.external_writers { ", written by a second client" } else { "" };
    format!("mode {}{noloop}, {capacity}, {ttl}{writers}", cache.mode)
}

fn lags(out: &mut String, lag: &Lag) {
    for (whose, figures) in [("own", &lag.own), ("foreign", &lag.foreign)] {
        let LagFigures { probes, unresolved, skipped, waited_ns, latency, gap } = figures;
        match latency.latency {
            Some(latency) => {
                let _ = write!(
                    out,
                    "Invalidation lag of {whose} writes (msec): p50 {} p99 {} max {} in {probes} probes",
                    millis(latency.p50_ns),
                    millis(latency.p99_ns),
                    millis(latency.max_ns),
                );
            }
            None if *probes > 0 => {
                let _ = write!(out, "Invalidation lag of {whose} writes: not one of {probes} probes was resolved");
            }
            None if *waited_ns > 0 => {
                let _ = write!(out, "Invalidation lag of {whose} writes: no probe came to its end");
            }
            None => continue,
        }
        if let Some(gap) = gap.latency {
            let _ = write!(out, ", told to within {} (p50)", millis(gap.p50_ns));
        }
        if *unresolved > 0 {
            let _ = write!(out, "; {unresolved} NEVER SAW the new value in time");
        }
        if *skipped > 0 {
            let _ = write!(out, "; {skipped} were given up, since the key did not stay in the cache or a command failed");
        }
        if *waited_ns > 0 {
            let _ = write!(out, "; one more still read the old value {} after its write, when the run ended", millis(*waited_ns));
        }
        out.push('\n');
    }
    if [&lag.own, &lag.foreign].iter().all(|figures| figures.probes == 0 && figures.waited_ns == 0) {
        out.push_str("Invalidation lag: no probe was done\n");
    }
}

fn staleness(out: &mut String, found: &Staleness, allowed: bool) {
    if let Some(reason) = &found.unjudged {
        let _ = writeln!(out, "Staleness: not judged; {reason}");
        return;
    }
    let stale = found.stale_from_cache + found.stale_from_server + found.after_disconnect;
    let number = |count: u64| grouped(count as f64);
    let told = number(found.with_floor);
    let grounds = format!("{} of {} writes were alone with their key", number(found.clean_writes), number(found.writes));
    let _ = match (stale, found.with_floor) {
        (0, 0) => writeln!(out, "Staleness: nothing to judge: no read was of a key whose change the client had been told of"),
        (0, _) => writeln!(out, "Staleness: none in {told} reads of keys whose change the client had been told of; {grounds}"),
        _ => {
            let verdict = if allowed { "allowed by --allow-stale" } else { "so this run has failed; --allow-stale takes it as a figure" };
            writeln!(out, "STALE: {} of {told} reads of keys whose change the client had been told of, {verdict}", number(stale))
        }
    };
    if stale > 0 {
        let age = |value: fn(&Latency) -> u64| found.ages.latency.as_ref().map_or("unknown".to_owned(), |ages| millis(value(ages)));
        let _ = writeln!(
            out,
            "   {} from the cache, {} from a server, {} after the tracked connection was lost; {grounds}",
            number(found.stale_from_cache),
            number(found.stale_from_server),
            number(found.after_disconnect),
        );
        let _ = writeln!(
            out,
            "   read after they were known to be too old (msec): p50 {} p99 {} max {}",
            age(|ages| ages.p50_ns),
            age(|ages| ages.p99_ns),
            millis(found.longest_ns)
        );
        for read in &found.first {
            let version = read.version.map_or("nil".to_owned(), |version| format!("version {version}"));
            let _ = writeln!(out, "   {} gave {version} in place of {}, {} msec after", read.key, read.floor, millis(read.age_ns));
        }
    }
    if found.fences_failed > 0 {
        let _ = writeln!(
            out,
            "   {} of {} delivery fences failed: the tracked connection was lost, or did not answer, and then what was written before is not judged",
            found.fences_failed, found.fences
        );
    }
}

/// The second table of a comparison: the caches. Rates are medians of the rounds, percentiles of all rounds together.
pub(super) fn comparison(record: &LoadRecord, groups: &[Group<'_>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "workload",
        "cache of",
        "hit %",
        "hits/s",
        "misses/s",
        "inval/s",
        "evict/s",
        "hit p50 ns",
        "miss p50 ms",
        "write p50 ms",
        "lag own ms",
        "lag foreign ms",
        "stale",
        "cache MiB",
        "entries",
    ]);
    for group in groups {
        table.add_row(row(group));
    }
    right_aligned(&mut table, 2);
    let mut text = lines(&table);
    for group in groups {
        let stale: u64 = caches(group).map(CacheFigures::stale).sum();
        if stale > 0 {
            let told: u64 = caches(group).map(|cache| cache.staleness.with_floor).sum();
            let (stale, told) = (grouped(stale as f64), grouped(told as f64));
            let _ = write!(
                text,
                "\n{} {}: {stale} STALE READS of {told} after a change that the client had been told of",
                group.workload, group.subject
            );
        }
    }
    for group in groups {
        let lags = caches(group).filter_map(|cache| cache.lag.as_ref());
        let unseen: u64 = lags.map(|lag| lag.own.unresolved + lag.foreign.unresolved).sum();
        if unseen > 0 {
            let _ = write!(
                text,
                "\n{} {}: {unseen} probes NEVER SAW the new value in time, and are not in its lags",
                group.workload, group.subject
            );
        }
    }
    for group in groups {
        if let Some(reason) = caches(group).find_map(|cache| cache.staleness.unjudged.as_ref()) {
            let _ = write!(text, "\n{} {}: staleness NOT JUDGED: {reason}", group.workload, group.subject);
        }
    }
    if let Some(asked) = &record.asked.cache {
        let _ = write!(text, "\n{}", told(asked, groups));
    }
    text
}

/// Those of all its runs, finished or not.
fn caches<'a>(group: &'a Group<'_>) -> impl Iterator<Item = &'a CacheFigures> {
    group.runs.iter().filter_map(|run| run.figures.as_ref()?.cache.as_deref())
}

fn told(asked: &AskedCache, groups: &[Group<'_>]) -> String {
    let mut text = format!("csc mode {}", asked.mode);
    text.push_str(if asked.noloop { ", NOLOOP" } else { "" });
    text.push_str(if asked.external_writers { "; written by a second client" } else { "; written by the caching client itself" });
    text.push_str("; lags are medians; the memory holds the buffers of the connections too");
    if groups.iter().any(|group| group.subject.starts_with("redis-rs")) {
        text.push_str("; redis-rs counts entries that expired as invalidations");
    }
    if asked.baseline && asked.probes_per_second > 0 {
        let _ = write!(text, "; only the runs with a cache have the {} probes a second of the lag beside them", asked.probes_per_second);
    }
    text
}

/// Stale reads of all rounds; a dash where there was nothing to judge in any.
fn stale(runs: &[(&Figures, &CacheFigures)]) -> String {
    let judged = |cache: &CacheFigures| cache.staleness.unjudged.is_none() && cache.staleness.with_floor > 0;
    if !runs.iter().any(|(_, cache)| judged(cache)) {
        return "–".to_owned();
    }
    grouped(runs.iter().map(|(_, cache)| cache.stale()).sum::<u64>() as f64)
}

fn row(group: &Group<'_>) -> Vec<String> {
    let whole = group.runs.iter().filter(|run| run.status == Status::Done);
    let runs: Vec<(&Figures, &CacheFigures)> =
        whole.filter_map(|run| run.figures.as_deref().and_then(|figures| Some((figures, figures.cache.as_deref()?)))).collect();
    let mut cells = vec![group.workload.to_owned(), group.subject.clone()];
    if runs.is_empty() {
        cells.extend((0..13).map(|_| "–".to_owned()));
        return cells;
    }
    let cached = group.runs.iter().any(|run| run.cached == Some(true));
    let none = || "–".to_owned();
    let middle = |value: &dyn Fn(&Figures, &CacheFigures) -> Option<f64>| {
        let values: Option<Vec<f64>> = runs.iter().map(|(figures, cache)| value(figures, cache)).collect();
        values.filter(|_| cached).map(|values| median(&values))
    };
    let each_second = |count: &dyn Fn(&CacheFigures) -> Option<u64>| {
        let value = middle(&|figures, cache| Some(per_second(figures, count(cache)?)));
        value.map_or_else(none, |value| if value < 1000.0 { rate(value) } else { grouped(value) })
    };
    let p50 = |of: &dyn Fn(&CacheFigures) -> Option<&Distribution>| {
        let mut all = latency::histogram();
        for histogram in runs.iter().filter_map(|(_, cache)| of(cache)?.histogram()) {
            latency::merge(&mut all, &histogram);
        }
        Latency::of(&all).map(|latency| latency.p50_ns)
    };
    let shown = |value: Option<u64>| value.map_or_else(none, millis);
    let memory = runs.iter().filter_map(|(_, cache)| cache.memory_bytes).max().filter(|_| cached);
    let entries = runs.iter().filter_map(|(_, cache)| cache.counts.entries).max().filter(|_| cached);
    cells.extend([
        middle(&|_, cache| cache.hit_ratio()).map_or_else(none, |ratio| format!("{:.1}", ratio * 100.0)),
        each_second(&|cache| Some(cache.hits())),
        each_second(&|cache| Some(cache.misses())),
        each_second(&|cache| Some(cache.counts.invalidations)),
        each_second(&|cache| cache.counts.evictions),
        p50(&|cache| Some(&cache.hit)).map_or_else(none, |nanos| grouped(nanos as f64)),
        shown(p50(&|cache| Some(&cache.miss))),
        shown(p50(&|cache| Some(&cache.write))),
        shown(p50(&|cache| Some(&cache.lag.as_ref()?.own.latency))),
        shown(p50(&|cache| Some(&cache.lag.as_ref()?.foreign.latency))),
        stale(&runs),
        memory.map_or_else(none, |bytes| format!("{:.1}", bytes as f64 / MEBIBYTE)),
        entries.map_or_else(none, |entries| grouped(entries as f64)),
    ]);
    cells
}

#[cfg(test)]
mod tests;
