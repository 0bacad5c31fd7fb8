//! Sessions of other days.

use super::support::{QUICK, Results, fake};
use redis_client_bench::record::comparison::ComparisonRecord;

#[test]
fn a_saved_session_is_compared_with_and_only_on_the_same_machine_and_server() {
    let results = Results::new();
    let (old, new) = (fake("cpu=1000"), fake("cpu=1200"));
    let metrics = ["--metrics", "client-cpu"];
    let (code, text, error) = results.run(&[&[old.as_str(), "--save-baseline", "main"], &metrics[..], QUICK].concat());
    assert_eq!(code, Some(0), "{text}{error}");
    assert!(text.contains("A/A session"), "{text}");
    let path = results.0.path().join("baselines/main.json");
    let baseline = ComparisonRecord::load(&path).unwrap();
    assert_eq!((baseline.subjects.len(), baseline.rounds[0].turns.len()), (1, 2));

    let against =
        [&[new.as_str(), "--baseline", "main", "--save-baseline", "next", "--max-regression", "5%"], &metrics[..], QUICK].concat();
    let (code, text, error, record) = results.recorded(&against);
    assert_eq!(code, Some(3), "{text}{error}");
    assert!(text.contains("was measured on") && text.contains("no A/A shows it"), "{text}");
    assert_eq!(record.rounds.len(), baseline.rounds.len(), "a round for each of the older session");
    assert!(record.rounds.iter().all(|round| round.turns.len() == 4), "old and new, each with its control");
    let next = ComparisonRecord::load(&results.0.path().join("baselines/next.json")).unwrap();
    assert_eq!((next.subjects[0].name.as_str(), next.rounds[0].turns.len()), (new.as_str(), 2));

    let mut other = baseline.clone();
    other.target.server.version = "1.2.3".into();
    other.environment.cores += 1;
    other.save(&path).unwrap();
    let (code, _, error) = results.run(&against);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("its machine was") && error.contains("redis 1.2.3") && error.contains("--force"), "{error}");
    let (code, text, error) = results.run(&[&against[..], &["--force"]].concat());
    assert_eq!(code, Some(3), "{text}{error}");
    assert!(text.contains("Compared by --force: its server was redis 1.2.3"), "{text}");
}
