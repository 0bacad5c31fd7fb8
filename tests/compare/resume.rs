//! Ctrl-C keeps what was measured, and `--resume` goes on.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use redis_client_bench::record::comparison::ComparisonRecord;

use super::support::{Results, fake};

#[test]
fn an_interrupted_session_goes_on_where_it_was() {
    let results = Results::new();
    let out = results.out();
    let subjects = [fake("cpu=1000"), fake("cpu=1200")];
    let flags = ["--workload", "get-1", "--time", "10ms", "--warm-up", "0", "--metrics", "client-cpu", "--max-time", "12s"];
    let target = ["--target", "process", "--out", out.to_str().unwrap()];
    let arguments = [&[subjects[0].as_str(), &subjects[1]], &flags[..], &target].concat();
    let child = results.command(&arguments).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    // The record is saved after every round.
    while ComparisonRecord::load(&out).map_or(0, |record| record.rounds.len()) < 3 {
        assert!(Instant::now() < deadline, "no rounds");
        std::thread::sleep(Duration::from_millis(10));
    }
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
    let ended = child.wait_with_output().unwrap();
    let (text, error) = (String::from_utf8(ended.stdout).unwrap(), String::from_utf8(ended.stderr).unwrap());
    assert_eq!(ended.status.code(), Some(130), "{error}");
    assert!(text.contains("no verdicts") && !text.contains("WORSE"), "{text}");
    assert!(error.contains("--resume"), "{error}");
    let kept = ComparisonRecord::load(&out).unwrap();
    assert!(!kept.complete && kept.judged.is_none() && kept.rounds.iter().all(|round| round.turns.len() == 3));
    assert_eq!(kept.failures().count(), 0, "what was under way when it was interrupted is no failure");

    let (code, text, error) = results.run(&["--resume", out.to_str().unwrap(), "--max-regression", "5%"]);
    assert_eq!(code, Some(3), "{text}{error}");
    let whole = ComparisonRecord::load(&out).unwrap();
    assert!(whole.complete && whole.rounds.len() > kept.rounds.len());
    assert_eq!(whole.rounds[..kept.rounds.len()], kept.rounds);
    assert_eq!((whole.asked.seed, whole.created.as_str()), (kept.asked.seed, kept.created.as_str()));
    // The orders go on where they were: those of the seed, from the first round to the last.
    let orders = redis_client_bench::compare::Orders::new(3, whole.asked.seed);
    let places = [(0, false), (0, true), (1, false)];
    for (round, order) in whole.rounds.iter().zip(orders) {
        let wanted: Vec<_> = order.iter().map(|place| places[*place]).collect();
        assert_eq!(round.turns.iter().map(|turn| (turn.subject, turn.control)).collect::<Vec<_>>(), wanted);
    }
    let (code, _, error) = results.run(&["--resume", out.to_str().unwrap()]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("came to its end"), "{error}");
}
