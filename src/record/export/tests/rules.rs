//! What must hold for every export, whatever the record.

use super::fixtures::{all, bench, bench_of, bench_row, load, load_of, load_run, sheet};
use super::{gobench, text};
use crate::drivers::{CacheCounts, CacheMode, CountedBy};
use crate::measure::Distribution;
use crate::record::export::{ExportError, Figure, Format, Measure, Sheet, Wanted, export};
use crate::record::load::{AskedCache, LoadRecord};
use crate::workload::cache::{CacheFigures, ProbeReads, Staleness};

const FORMATS: [Format; 6] = [Format::Csv, Format::Markdown, Format::Gobench, Format::Bmf, Format::GithubActionBenchmark, Format::Json];

/// The lines that may hold numbers of cells: neither comments nor what names the cells without figures.
fn numbers(text: &str, format: Format) -> String {
    match format {
        Format::Markdown => text.lines().filter(|line| line.starts_with('|')).collect::<Vec<_>>().join("\n"),
        Format::Gobench => text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n"),
        Format::Json => {
            let mut value: serde_json::Value = serde_json::from_str(text).unwrap();
            value["records"].as_array_mut().unwrap().iter_mut().for_each(|record| record["left_out"] = serde_json::Value::Null);
            value.to_string()
        }
        _ => text.to_owned(),
    }
}

#[test]
fn what_failed_or_is_unsound_is_no_number_in_any_format() {
    for format in FORMATS {
        let text = numbers(&text(&[bench()], format), format);
        assert!(text.contains("redis-rs"), "{format:?}");
        for driver in ["fred", "deadpool-redis", "bb8-redis", "rustis", "raw"] {
            assert!(!text.contains(driver), "{format:?} has {driver}: {text}");
        }
    }
    let reasons: Vec<String> = bench().left_out.iter().map(|left| format!("{}: {}", left.name, left.reason)).collect();
    assert_eq!(reasons.len(), 5, "{reasons:?}");
    assert!(reasons[0].contains("/fred/") && reasons[0].contains("1999"), "{reasons:?}");
    assert!(reasons[1].contains("failed: can't connect"), "{reasons:?}");
    let named = text(&[bench()], Format::Gobench);
    assert_eq!(named.lines().filter(|line| line.starts_with("# left out")).count(), 5, "{named}");
}

#[test]
fn a_round_that_failed_has_no_part_in_the_others_figures() {
    let sheet = load();
    let [entry] = &sheet.entries[..] else { panic!("{:?}", sheet.entries) };
    let rate = entry.figure(Measure::Rate).unwrap();
    assert_eq!((rate.value, rate.range()), (75_000.0, Some((50_000.0, 100_000.0))));
    let p50 = entry.figure(Measure::P50).unwrap();
    assert!(p50.samples[0] < 101_000.0 && p50.samples[1] > 200_000.0 && (100_900.0..101_200.0).contains(&p50.value), "{p50:?}");
    let reasons: Vec<&str> = sheet.left_out.iter().map(|left| left.reason.as_str()).collect();
    assert_eq!(reasons, ["given up: no reason was recorded", "7 of 10007 commands failed"]);
}

#[test]
fn reads_through_a_cache_are_no_rounds_of_reads_beside_it_and_a_cache_that_lied_has_no_figures() {
    let mut record: LoadRecord = serde_json::from_str(&load_of(&[
        load_run("fred", 1, "done", 0.1, 0),
        load_run("fred", 1, "done", 0.4, 0),
        load_run("fred", 2, "done", 0.1, 0),
    ]))
    .unwrap();
    record.asked.cache = Some(AskedCache {
        mode: CacheMode::OptIn,
        noloop: false,
        ttl_seconds: 30.0,
        capacity: None,
        external_writers: true,
        probes_per_second: 0,
        baseline: true,
        allow_stale: true,
    });
    for (run, cached) in record.runs.iter_mut().zip([true, false, true]) {
        run.cached = Some(cached);
        let figures = run.figures.as_mut().unwrap();
        figures.cache = cached.then(|| Box::new(cache_figures()));
    }
    let shown = |record: &LoadRecord| sheet("csc.json", &serde_json::to_string(record).unwrap());
    let names: Vec<String> = shown(&record).entries.iter().map(|entry| entry.name.to_string()).collect();
    assert!(names.len() == 2 && names[0].contains("cache=opt-in,ttl=30s,writers=external") && names[1].contains("cache=off"), "{names:?}");
    let rates: Vec<f64> = shown(&record).entries.iter().map(|entry| entry.figure(Measure::Rate).unwrap().value).collect();
    assert_eq!(rates, [100_000.0, 25_000.0]);
    record.runs[2].figures.as_mut().unwrap().cache.as_mut().unwrap().staleness.stale_from_cache = 3;
    let sheet = shown(&record);
    assert_eq!(sheet.entries[0].operations.len(), 1);
    assert!(sheet.left_out.len() == 1 && sheet.left_out[0].reason.contains("3 stale reads"), "{:?}", sheet.left_out);
}

/// Figures of a cache that was asked for nothing.
fn cache_figures() -> CacheFigures {
    let none = || Distribution::default();
    CacheFigures {
        mode: CacheMode::OptIn,
        noloop: false,
        capacity: None,
        ttl_seconds: Some(30.0),
        external_writers: true,
        way: "its own".into(),
        counts: CacheCounts::default(),
        probe_reads: ProbeReads::default(),
        reads_by: CountedBy::Client,
        invalidations_by: CountedBy::Client,
        evictions_by: None,
        hit: none(),
        miss: none(),
        unknown: none(),
        write: none(),
        clock_ns: 0.0,
        memory_bytes: None,
        staleness: Staleness::default(),
        lag: None,
        seconds: Vec::new(),
    }
}

#[test]
fn sums_over_all_samples_are_not_repeated_as_if_they_were_measured_each_time() {
    let file = gobench(&text(&[bench()], Format::Gobench)).unwrap();
    let values = |unit: &str| {
        let of = |result: &super::grammar::Result1| result.values.iter().find(|(_, own)| own == unit).map(|(value, _)| *value);
        file.results.iter().filter_map(of).collect::<Vec<f64>>()
    };
    assert_eq!(values("ns/op"), [1000.0, 2000.0]);
    assert_eq!(values("client-cpu-ns/op"), [1000.0]);
    assert_eq!(file.results.iter().map(|result| result.iterations).collect::<Vec<_>>(), [1000, 1000, 2000]);
    assert!(file.config.iter().any(|(key, value)| key == "server" && value == "redis 7.0.15, standalone, process"), "{:?}", file.config);
}

#[test]
fn one_cell_in_two_records_is_refused_where_they_would_become_one() {
    let twice = || {
        [
            sheet("a.json", &load_of(&[load_run("fred", 1, "done", 0.1, 0)])),
            sheet("b.json", &load_of(&[load_run("fred", 1, "done", 0.3, 0)])),
        ]
    };
    for format in [Format::Gobench, Format::Bmf, Format::GithubActionBenchmark] {
        let error = export(&twice(), format, Wanted::Smaller).unwrap_err();
        assert!(matches!(&error, ExportError::Twice { first, second, .. } if first == "a.json" && second == "b.json"), "{error}");
    }
    for format in [Format::Csv, Format::Markdown, Format::Json] {
        let text = text(&twice(), format);
        assert!(text.contains("a.json") && text.contains("b.json"), "{format:?}");
    }
}

#[test]
fn records_without_a_figure_are_an_error_and_not_an_empty_file() {
    let failed = sheet("a.json", &bench_of(&[bench_row("fred", 1, "\"x\"")], true));
    for format in FORMATS {
        assert!(matches!(export(std::slice::from_ref(&failed), format, Wanted::Bigger), Err(ExportError::Nothing(_))), "{format:?}");
    }
}

#[test]
fn names_stay_whole_whatever_the_workload_is_called() {
    let run = load_run("fred", 1, "done", 0.1, 0).replace("GET __key__", "SET a/b \\\"x,y\\\"|\\n 5");
    let sheets: [Sheet; 1] = [sheet("a.json", &load_of(&[run]))];
    let file = gobench(&text(&sheets, Format::Gobench)).unwrap();
    assert!(file.results[0].name.starts_with("BenchmarkSET_a_b_\"x,y\"|__5/driver=fred/"), "{}", file.results[0].name);
    let csv = text(&sheets, Format::Csv);
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let workload = reader.headers().unwrap().iter().position(|column| column == "workload").unwrap();
    assert!(reader.records().all(|line| line.unwrap().get(workload) == Some("SET a/b \"x,y\"|\n 5")));
    let markdown = text(&sheets, Format::Markdown);
    let row = markdown.lines().find(|line| line.contains("SET a/b")).unwrap();
    assert!(row.contains("\\|") && row.ends_with('|'), "{row}");
}

#[test]
fn every_number_reads_back_as_it_was() {
    let sheets = all();
    let mut wanted: Vec<f64> =
        sheets.iter().flat_map(|sheet| &sheet.entries).flat_map(|entry| entry.figures.iter().map(|figure| figure.value)).collect();
    let csv = text(&sheets, Format::Csv);
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let value = reader.headers().unwrap().iter().position(|column| column == "value").unwrap();
    let mut got: Vec<f64> = reader.records().map(|line| line.unwrap()[value].parse().unwrap()).collect();
    wanted.sort_by(f64::total_cmp);
    got.sort_by(f64::total_cmp);
    assert_eq!(got, wanted);
}

#[test]
fn what_is_no_number_is_no_figure() {
    assert_eq!(Figure::new(Measure::Rate, f64::NAN, Vec::new()), None);
    assert_eq!(Figure::new(Measure::Rate, 1.0, vec![1.0, f64::INFINITY]), None);
    assert_eq!(Figure::new(Measure::Rate, -1.0, Vec::new()), None);
    assert_eq!(Figure::median(Measure::Rate, Vec::new()), None);
}
