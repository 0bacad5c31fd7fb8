//! The files: whole, readable, and in agreement with the summary.

use std::time::Duration;

use base64::Engine;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

use super::support::{Server, load, only, output, rcb};

#[test]
fn the_series_and_the_log_sum_to_the_total() {
    let server = Server::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let (csv, hdr) = (folder.path().join("a.csv"), folder.path().join("a.hlog"));
    let port = server.port();
    for (kind, flags) in [("service", &["--test-time", "1.3s"][..]), ("planned", &["--rps", "400", "--test-time", "1300ms"])] {
        let arguments = ["-p", &port, "-c", "4", "-r", "50", "--csv", csv.to_str().unwrap(), "--hdr-file", hdr.to_str().unwrap()];
        let (code, out, error, json) = load(&[&arguments[..], flags, &["SET", "__key__", "__data__"]].concat());
        assert_eq!(code, Some(0), "{out} {error}");
        let figures = &only(&json)["figures"];
        let total = figures["commands"].as_u64().unwrap();
        let sum = |field: &str| {
            let mut reader = csv::Reader::from_path(&csv).unwrap();
            let column = reader.headers().unwrap().iter().position(|name| name == field).unwrap();
            let values: Vec<u64> = reader.records().map(|line| line.unwrap()[column].parse().unwrap()).collect();
            assert!(values.len() >= 2, "{values:?}");
            values.into_iter().sum::<u64>()
        };
        assert_eq!((sum("commands"), sum("errors")), (total, 0), "{out}");
        let seconds = figures["seconds"].as_array().unwrap();
        assert_eq!(seconds.iter().map(|second| second["commands"].as_u64().unwrap()).sum::<u64>(), total);

        let log = std::fs::read(&hdr).unwrap();
        let decode = |text: &str| -> Histogram<u64> {
            let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
            Deserializer::new().deserialize(&mut &bytes[..]).unwrap()
        };
        let (mut counts, mut length, mut max) = (0, Duration::ZERO, 0);
        for entry in IntervalLogIterator::new(&log) {
            if let LogEntry::Interval(interval) = entry.unwrap() {
                let histogram = decode(interval.encoded_histogram());
                counts += histogram.len();
                max = max.max(histogram.max());
                length += interval.duration();
            }
        }
        assert_eq!(counts, total, "{out}");
        assert!(length.as_secs_f64() >= 1.0, "{length:?}");
        // The same histogram is in the record.
        let whole = decode(figures[kind]["hdr"].as_str().unwrap());
        assert_eq!((whole.len(), whole.max()), (total, max));
        assert_eq!(figures[kind]["latency"]["p99_ns"].as_u64(), Some(whole.value_at_quantile(0.99)));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_that_cant_be_written_at_the_end_is_exit_1_and_the_summary_is_there() {
    let server = Server::start(&[]);
    let arguments = ["-p", &server.port(), "-n", "100", "-c", "4", "-r", "50", "--json-out-file", "/dev/full", "GET", "__key__"];
    let (code, out, error) = output(&mut rcb(&arguments));
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("/dev/full could not be written") && out.contains("Total Commands 100"), "{out} {error}");
}

#[test]
fn nothing_of_a_load_is_left_on_a_server_of_somebody_else() {
    let server = Server::start(&[]);
    let endpoint = server.endpoint();
    super::support::ask(&endpoint, &["SET", "theirs", "1"]);
    let port = server.port();
    for command in [&["-t", "set,get,lpush,hset,zadd,mset,spop"][..], &["--prefill", "GET", "__key__"], &["--mix-large", "0.1:64KiB"]] {
        let arguments = [&["-p", &port, "-n", "500", "-c", "4", "-r", "50", "--driver", "raw"], command].concat();
        let (code, out, error) = output(&mut rcb(&arguments));
        assert_eq!(code, Some(0), "{command:?} {out} {error}");
        assert_eq!(
            super::support::ask(&endpoint, &["KEYS", "*"]),
            redis_client_bench::resp::Value::Array(vec![redis_client_bench::resp::Value::Blob(b"theirs".to_vec())])
        );
    }
}
