//! Every format of every kind of record: snapshots, and the consumers' own rules.

mod comparison;
mod fixtures;
mod grammar;
mod rules;

use fixtures::{all, bench, load};
use grammar::{conforms, gobench};

use super::{Format, Sheet, Wanted, export};

fn text(sheets: &[Sheet], format: Format) -> String {
    export(sheets, format, Wanted::Smaller).unwrap()
}

#[test]
fn csv_is_one_line_for_each_figure() {
    insta::assert_snapshot!(text(&all(), Format::Csv));
}

#[test]
fn markdown_names_machine_server_and_what_has_no_figures() {
    insta::assert_snapshot!(text(&all(), Format::Markdown));
}

#[test]
fn go_benchmarks_are_one_line_for_each_run() {
    let text = text(&all(), Format::Gobench);
    gobench(&text).unwrap();
    insta::assert_snapshot!(text);
}

#[test]
fn bmf_follows_its_schema() {
    let text = text(&all(), Format::Bmf);
    conforms(include_str!("../../../../tests/schemas/bmf.json"), &text).unwrap();
    insta::assert_snapshot!(text);
}

#[test]
fn files_for_github_action_benchmark_follow_its_form_and_share_no_figure() {
    let schema = include_str!("../../../../tests/schemas/github-action-benchmark.json");
    let smaller = export(&[load()], Format::GithubActionBenchmark, Wanted::Smaller).unwrap();
    let bigger = export(&[load()], Format::GithubActionBenchmark, Wanted::Bigger).unwrap();
    conforms(schema, &smaller).unwrap();
    conforms(schema, &bigger).unwrap();
    let unit = |text: &str, unit: &str| text.contains(&format!("\"unit\": \"{unit}\""));
    assert!(unit(&smaller, "ns/op") && unit(&bigger, "ops/s") && !unit(&smaller, "ops/s") && !unit(&bigger, "ns/op"));
    insta::assert_snapshot!(bigger);
    insta::assert_snapshot!(smaller);
}

#[test]
fn json_is_the_common_form() {
    let text = text(&[bench()], Format::Json);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((value["format"].as_str(), value["version"].as_u64()), (Some("redis-client-bench/export"), Some(1)));
    insta::assert_snapshot!(text);
}
