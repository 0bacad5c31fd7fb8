//! `rcb subscribe` and `rcb publish` as a user meets them.

use std::process::{Command, Output, Stdio};

/// `rcb` with no target in its environment but what the test gives.
fn rcb(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rcb"));
    for variable in ["REDIS_URL", "RCB_TARGET_KIND", "RCB_IMAGE", "RCB_TOPOLOGY"] {
        command.env_remove(variable);
    }
    let Output { status, stdout, stderr } = command.args(arguments).stdin(Stdio::null()).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn mistakes_get_one_sentence_and_exit_2_before_any_work() {
    let process = ["--target", "process"];
    for (arguments, wanted) in [
        (vec!["subscribe", "--channel-minimum", "9", "--channel-maximum", "8"], "--channel-maximum 8 is below --channel-minimum 9"),
        (vec!["subscribe", "--subscribers-per-channel", "0"], "at least 1 subscriber"),
        (vec!["subscribe", "--data-size", "47"], "use 48 or more"),
        (vec!["subscribe", "--subscriber-prefix", "my channel-"], "has a space"),
        (vec!["subscribe", "--driver", "jedis"], "unknown driver \"jedis\""),
        (vec!["subscribe", "--publish-rps", "0"], "--publish-rps"),
        (vec!["subscribe", "--publish-rps", "1e-20"], "use 0.001 to 100000000"),
        (vec!["subscribe", "--test-time", "soon"], "500ms"),
        (vec!["publish", "--json-out-file", "."], "it is a directory"),
        (vec!["subscribe", "--mode", "listen"], "invalid value"),
        (vec!["subscribe", "--json-out-file", "/nowhere/there.json"], "there is no folder /nowhere"),
        ([&["subscribe", "--distribute-subscribers"][..], &process].concat(), "the target is a standalone server"),
        (vec!["publish", "--data-size", "3"], "use 48 or more"),
        (vec!["publish", "-n", "0"], "0 is not in 1.."),
        (vec!["publish", "--batchsize", "1,0"], "0 is not in 1.."),
        (vec!["publish", "--window", "0"], "--window is 0"),
        (vec!["publish", "--driver", "raw", "--driver", "raw"], "the driver raw is named twice"),
        (vec!["subscribe", "--driver", "raw", "--driver", "raw"], "the driver raw is named twice"),
    ] {
        let (code, out, error) = rcb(&arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {error}");
        assert!(error.contains(wanted) && out.is_empty(), "{arguments:?}: {error}");
    }
}

#[cfg(feature = "redis-rs")]
#[test]
fn more_connections_than_a_driver_has_are_refused_and_not_made_fewer() {
    // No server is there: it is refused before one is asked for.
    let (code, out, error) =
        rcb(&["publish", "--url", "redis://127.0.0.1:1", "--driver", "raw", "--driver", "redis-rs", "--connections", "5"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("redis-rs has at most 1 connection, and 5 were asked for; give --connections 1") && out.is_empty(), "{error}");
}

#[cfg(feature = "deadpool-redis")]
#[test]
fn a_driver_without_subscribers_is_told_with_the_reason() {
    let (code, out, error) = rcb(&["subscribe", "--driver", "deadpool-redis", "--target", "process"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("deadpool-redis can't subscribe") && out.is_empty(), "{error}");
}

#[test]
fn a_run_has_a_line_a_second_a_summary_and_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.json");
    let file = path.to_str().unwrap();
    let (code, out, error) = rcb(&[
        "subscribe",
        "--target",
        "process",
        "--subscribers-per-channel",
        "3",
        "--channel-maximum",
        "4",
        "--warm-up",
        "0.2",
        "--test-time",
        "1.3",
        "--publish-rps",
        "500",
        "--json-out-file",
        file,
    ]);
    assert_eq!(code, Some(0), "{error}\n{out}");
    for line in ["Total Subscriptions 12 on 12 subscribers", "lost 0", "by PUBLISH's own count", "Latency planned publish to receive"] {
        assert!(out.contains(line), "{line} in {out}");
    }
    assert!(error.contains("Message Rate") && error.lines().any(|line| line.ends_with("warm-up")), "{error}");
    let report: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let row = &report["rows"][0];
    assert_eq!((row["driver"].as_str(), row["status"].as_str()), (Some("raw"), Some("measured")));
    assert_eq!(row["accounts"].as_array().unwrap().len(), 12);
    assert_eq!(row["tally"]["lost"], 0);
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    // Each subscription's account, and each second, add up to the whole.
    let sum = |list: &serde_json::Value, field: &str| list.as_array().unwrap().iter().map(|one| number(&one[field])).sum::<u64>();
    assert_eq!(sum(&row["accounts"], "received"), number(&row["tally"]["received"]));
    assert_eq!(sum(&row["series"], "received"), number(&row["tally"]["received"]));
    let measured: Vec<_> = row["series"].as_array().unwrap().iter().filter(|tick| tick["phase"] == "measured").cloned().collect();
    assert_eq!(sum(&serde_json::Value::from(measured), "received"), number(&row["measured"]));
    assert!(row["duration_s"].as_f64().unwrap() >= 1.3, "{}", row["duration_s"]);
    assert!(number(&row["measured"]) < number(&row["tally"]["received"]), "the warm-up is left out of the count");
}

#[cfg(feature = "fred")]
#[test]
fn a_lossy_run_exits_1_unless_loss_is_allowed() {
    let lossy = [
        "subscribe",
        "--target",
        "process",
        "--driver",
        "fred",
        "--channel-maximum",
        "1",
        "--messages",
        "2000",
        "--publish-batch",
        "1000",
        "--subscriber-delay",
        "1ms",
    ];
    let (code, out, error) = rcb(&lossy);
    assert_eq!(code, Some(1), "{error}");
    assert!(out.contains("LOSSY") && out.contains("32 messages; when full: drops the oldest and says so"), "{out}");
    let (code, out, error) = rcb(&[&lossy[..], &["--allow-loss"]].concat());
    assert_eq!(code, Some(0), "{error}");
    assert!(out.contains("LOSSY"), "{out}");
}

#[test]
fn publishing_gives_a_row_for_each_driver_and_mode() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("publish.json");
    let (code, out, error) = rcb(&[
        "publish",
        "--target",
        "process",
        "-n",
        "400",
        "--driver",
        "raw",
        "--repeat",
        "2",
        "--json-out-file",
        path.to_str().unwrap(),
    ]);
    assert_eq!(code, Some(0), "{error}\n{out}");
    assert!(error.contains("raw batch 10: got 400 messages in "), "{error}");
    let report: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 12, "serial, three batches, concurrent, windowed, each twice");
    assert!(rows.iter().all(|row| row["status"] == "measured" && row["received"] == 400), "{report}");
    assert_eq!(out.lines().filter(|line| line.contains("exact")).count(), 12, "{out}");
    let rounds: Vec<u64> = rows.iter().map(|row| row["round"].as_u64().unwrap()).collect();
    assert_eq!(rounds, [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2], "a whole round before the next");
    assert_eq!(
        (report["subscriber"].as_str(), report["complete"].as_bool(), report["rounds"].as_u64()),
        (Some("raw"), Some(true), Some(2))
    );
}

#[cfg(target_os = "linux")]
#[test]
fn results_are_written_to_a_device_and_never_in_its_place() {
    use std::os::unix::fs::FileTypeExt;
    let quick = ["publish", "--target", "process", "-n", "10", "--serial", "--driver", "raw", "--json-out-file"];
    let (code, _, error) = rcb(&[&quick[..], &["/dev/null"]].concat());
    assert_eq!(code, Some(0), "{error}");
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    let (code, _, error) = rcb(&[&quick[..], &["/dev/full"]].concat());
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("/dev/full could not be written"), "{error}");
}

#[test]
fn each_driver_has_its_turn_in_each_round() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.json");
    let (code, out, error) = rcb(&[
        "subscribe",
        "--target",
        "process",
        "--channel-maximum",
        "2",
        "--messages",
        "50",
        "--rounds",
        "2",
        "--json-out-file",
        path.to_str().unwrap(),
    ]);
    assert_eq!(code, Some(0), "{error}\n{out}");
    let report: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let rounds: Vec<u64> = report["rows"].as_array().unwrap().iter().map(|row| row["round"].as_u64().unwrap()).collect();
    assert_eq!(rounds, [1, 2]);
    assert_eq!((report["complete"].as_bool(), report["latency_from"].as_str()), (Some(true), Some("publish")));
    assert_eq!(out.lines().filter(|line| line.ends_with("exact") && line.contains("100%")).count(), 2, "{out}");
}

#[test]
fn a_run_without_measured_time_has_no_rate() {
    let (code, out, error) = rcb(&[
        "subscribe",
        "--target",
        "process",
        "--publishers",
        "0",
        "--channel-maximum",
        "1",
        "--warm-up",
        "100ms",
        "--test-time",
        "200ms",
    ]);
    assert_eq!(code, Some(1), "{error}");
    assert!(out.contains("Message Rate –") && out.contains("Ended By no message came"), "{out}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_settles_the_account_saves_it_and_exits_130() {
    use std::io::{BufRead, BufReader};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.json");
    let mut child = Command::new(env!("CARGO_BIN_EXE_rcb"))
        .args(["subscribe", "--target", "process", "--channel-maximum", "3", "--test-time", "60", "--warm-up", "0"])
        .args(["--json-out-file", path.to_str().unwrap()])
        .env_remove("REDIS_URL")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    // The head of the table, and its first second.
    lines.by_ref().find(|line| line.as_ref().unwrap().contains("Message Rate")).unwrap().unwrap();
    lines.next().unwrap().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap()), nix::sys::signal::SIGINT).unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    let output = child.wait_with_output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(130), "{rest:?}\n{out}");
    assert!(out.contains("Ended By interrupted") && out.contains("lost 0"), "{out}");
    let report: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(report["rows"][0]["ended_by"], "interrupted");
    assert_eq!(report["complete"], false);
}
