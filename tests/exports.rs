//! `rcb export`, `rcb record` and `rcb history` as a user meets them, on records made by real runs.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

fn rcb(folder: &Path, arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rcb"));
    for variable in ["REDIS_URL", "RCB_TARGET_KIND", "RCB_IMAGE", "RCB_TOPOLOGY"] {
        command.env_remove(variable);
    }
    let Output { status, stdout, stderr } = command.args(arguments).current_dir(folder).stdin(Stdio::null()).output().unwrap();
    Ran { code: status.code(), out: String::from_utf8(stdout).unwrap(), err: String::from_utf8(stderr).unwrap() }
}

/// A folder with `load.json`: raw, one run of 500 commands.
fn with_a_load() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let run =
        ["load", "--driver", "raw", "--target", "process", "-c", "4", "-n", "500", "-r", "10", "-t", "get", "--json-out-file", "load.json"];
    let ran = rcb(folder.path(), &run);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    folder
}

fn stored(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder.join("results")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn a_real_record_is_exported_in_every_format_to_standard_output_or_a_file() {
    let folder = with_a_load();
    for (format, begins) in [
        ("csv", "record,created"),
        ("markdown", "## rcb load"),
        ("gobench", "Unit ns/op"),
        ("bmf", "{"),
        ("github-action-benchmark", "["),
        ("json", "{"),
    ] {
        let shown = rcb(folder.path(), &["export", "--format", format, "load.json"]);
        assert!(shown.code == Some(0) && shown.out.starts_with(begins), "{format}: {} {}", shown.out, shown.err);
        assert_eq!(rcb(folder.path(), &["export", "--format", format, "load.json", "--output", "export"]).code, Some(0), "{format}");
        assert_eq!(fs::read_to_string(folder.path().join("export")).unwrap(), shown.out, "{format}");
    }
    let wrong = rcb(folder.path(), &["export", "--format", "csv", "--better", "bigger", "load.json"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("github-action-benchmark"), "{}", wrong.err);
    // The debug build of the tests is told wherever its figures go.
    assert!(rcb(folder.path(), &["export", "--format", "bmf", "load.json"]).err.contains("debug build"));
}

#[test]
fn an_unsound_run_is_named_on_standard_error_and_strict_fails() {
    let folder = with_a_load();
    let text = fs::read_to_string(folder.path().join("load.json")).unwrap();
    let mut record: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut second = record["runs"][0].clone();
    second["driver"] = "fred".into();
    second["figures"]["audit"]["deviations"] = serde_json::json!(["the servers executed 499 get, we counted 500"]);
    record["runs"].as_array_mut().unwrap().push(second);
    fs::write(folder.path().join("load.json"), record.to_string()).unwrap();
    let lax = rcb(folder.path(), &["export", "--format", "csv", "load.json"]);
    assert!(
        lax.code == Some(0) && !lax.out.contains("fred") && lax.err.contains("fred") && lax.err.contains("499"),
        "{}\n{}",
        lax.out,
        lax.err
    );
    let strict = rcb(folder.path(), &["export", "--format", "csv", "--strict", "load.json"]);
    assert_eq!((strict.code, strict.out), (Some(1), lax.out));
}

#[test]
fn broken_newer_and_missing_records_are_refused_with_field_and_line() {
    let folder = with_a_load();
    let text = fs::read_to_string(folder.path().join("load.json")).unwrap();
    let told = |text: &str| {
        fs::write(folder.path().join("wrong.json"), text).unwrap();
        let ran = rcb(folder.path(), &["export", "--format", "csv", "wrong.json"]);
        assert!(ran.code == Some(2) && ran.out.is_empty(), "{}", ran.err);
        ran.err
    };
    let right = "\"commands\": 500";
    // The first is what was asked for, the second what was counted.
    let place = text.match_indices(right).nth(1).unwrap().0;
    let wrong = told(&format!("{}\"commands\": \"many\"{}", &text[..place], &text[place + right.len()..]));
    let line = text[..place].lines().count();
    assert!(wrong.contains("runs[0].figures.commands") && wrong.contains(&format!("line {line} ")), "{wrong}");
    assert!(told(&text.replacen("\"version\": 1", "\"version\": 99", 1)).contains("newer rcb"));
    assert!(told(&text[..text.len() / 2]).contains("line "));
    assert!(told("{}").contains("`format`"));
    assert!(rcb(folder.path(), &["export", "--format", "csv", "none.json"]).err.contains("none.json"));
    // The same of what is to be stored: nothing is.
    assert_eq!(rcb(folder.path(), &["record", "load.json", "wrong.json"]).code, Some(2));
    assert!(!folder.path().join("results").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_and_an_unwritable_place_are_told() {
    let folder = with_a_load();
    let full = rcb(folder.path(), &["export", "--format", "csv", "load.json", "--output", "/dev/full"]);
    assert!(full.code == Some(1) && full.err.contains("No space left"), "{}", full.err);
    let nowhere = rcb(folder.path(), &["export", "--format", "csv", "load.json", "--output", "none/export"]);
    assert!(nowhere.code == Some(2) && nowhere.err.contains("none/export"), "{}", nowhere.err);
    fs::write(folder.path().join("results"), "a file").unwrap();
    let taken = rcb(folder.path(), &["record", "load.json"]);
    assert!(taken.code == Some(1) && taken.err.contains("results"), "{}", taken.err);
}

#[test]
fn sessions_are_stored_once_under_their_time_kind_and_machine() {
    let folder = with_a_load();
    let first = rcb(folder.path(), &["record", "load.json"]);
    assert_eq!(first.code, Some(0), "{}", first.err);
    let names = stored(folder.path());
    let [name] = &names[..] else { panic!("{names:?}") };
    let parts: Vec<&str> = name.trim_end_matches(".json").rsplitn(3, '-').collect();
    assert!(parts[0].len() == 8 && parts[1] == "load" && parts[2].ends_with('Z') && !name.contains(':'), "{name}");
    assert_eq!(fs::read(folder.path().join("results").join(name)).unwrap(), fs::read(folder.path().join("load.json")).unwrap());
    let again = rcb(folder.path(), &["record", "load.json"]);
    assert!(again.code == Some(0) && again.err.contains("stored already") && stored(folder.path()).len() == 1, "{}", again.err);
    // Another session of the same second takes no other's place.
    let other = fs::read_to_string(folder.path().join("load.json")).unwrap().replacen("\"round\": 1", "\"round\": 2", 1);
    fs::write(folder.path().join("load.json"), other).unwrap();
    assert_eq!(rcb(folder.path(), &["record", "load.json"]).code, Some(0));
    assert_eq!(stored(folder.path()).len(), 2);
}

#[test]
fn a_run_is_done_and_stored_with_its_own_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let run = ["record", "--results", "results", "publish", "--driver", "raw", "--target", "process", "-n", "20", "--serial"];
    let ran = rcb(folder.path(), &run);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("raw") && ran.out.trim_end().ends_with(".json"), "{}", ran.out);
    assert!(stored(folder.path())[0].contains("-publish-"));
    let wrong = rcb(folder.path(), &["record", "publish", "--driver", "nobody", "--target", "process"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("nothing was stored") && stored(folder.path()).len() == 1, "{}", wrong.err);
    let twice = rcb(folder.path(), &["record", "publish", "--json-out-file", "x.json"]);
    assert!(twice.code == Some(2) && twice.err.contains("--json-out-file"), "{}", twice.err);
}

#[test]
fn a_history_shows_versions_in_order_and_draws_them() {
    let folder = with_a_load();
    let text = fs::read_to_string(folder.path().join("load.json")).unwrap().replace("\"debug_build\": true", "\"debug_build\": false");
    let release = |version: &str| {
        text.replacen(&format!("\"client_version\": \"{}\"", env!("CARGO_PKG_VERSION")), &format!("\"client_version\": \"{version}\""), 1)
    };
    for (file, version) in [("a.json", "1.10.0"), ("b.json", "1.9.0")] {
        fs::write(folder.path().join(file), release(version)).unwrap();
        assert_eq!(rcb(folder.path(), &["record", file]).code, Some(0));
    }
    let ran = rcb(folder.path(), &["history", "redis-client-bench", "--svg", "history.svg"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let place = |version: &str| ran.out.find(version).unwrap_or_else(|| panic!("{version} in {}", ran.out));
    assert!(place("1.9.0") < place("1.10.0") && ran.out.contains("not a verdict"), "{}", ran.out);
    assert!(fs::read_to_string(folder.path().join("history.svg")).unwrap().contains("1.10.0"));
    let nobody = rcb(folder.path(), &["history", "nobody"]);
    assert!(nobody.code == Some(2) && nobody.err.contains("redis-client-bench"), "{}", nobody.err);
    let debug = rcb(folder.path(), &["history", "redis-client-bench", "load.json"]);
    assert!(debug.code == Some(2) && debug.err.contains("debug build"), "{}", debug.err);
}
