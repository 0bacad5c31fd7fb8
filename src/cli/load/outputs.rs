//! The files that a load writes: opened before the run, written aside, and put in place when they are whole.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::record::load::LoadRecord;

/// A file that is not there until it is whole.
pub struct Output {
    path: PathBuf,
    place: Place,
}

enum Place {
    /// Beside the path, to be renamed.
    Aside(NamedTempFile),
    /// A device or a pipe can't be replaced.
    Direct(File),
}

impl Output {
    /// Makes sure that `path` can be written.
    pub fn open(path: &Path) -> Result<Self, String> {
        // What a link names is replaced, not the link.
        let path = &if path.is_file() { std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()) } else { path.to_owned() };
        let error = |error: &dyn std::fmt::Display| format!("can't write {}: {error}", path.display());
        let place = match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => return Err(error(&"it is a directory; name a file")),
            Ok(found) if !found.is_file() => Place::Direct(OpenOptions::new().write(true).open(path).map_err(|reason| error(&reason))?),
            found => {
                if found.is_ok() {
                    // A file that must not be written must not be replaced either.
                    OpenOptions::new().append(true).open(path).map_err(|reason| error(&reason))?;
                }
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
                let mut builder = tempfile::Builder::new();
                builder.prefix(".rcb-");
                #[cfg(unix)]
                builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
                Place::Aside(builder.tempfile_in(folder).map_err(|reason| error(&reason.kind()))?)
            }
        };
        Ok(Self { path: path.to_owned(), place })
    }

    /// Writes it whole, or leaves what was there before.
    pub fn write(self, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), String> {
        let path = self.path.clone();
        let written = match self.place {
            Place::Direct(file) => {
                let mut out = BufWriter::new(file);
                content(&mut out).and_then(|()| out.flush())
            }
            Place::Aside(mut file) => {
                let mut out = BufWriter::new(file.as_file_mut());
                let whole = content(&mut out).and_then(|()| out.flush());
                drop(out);
                whole.and_then(|()| file.as_file().sync_all()).and_then(|()| file.persist(&path).map(drop).map_err(|error| error.error))
            }
        };
        written.map_err(|error| format!("{} could not be written, and is as it was before: {error}", path.display()))
    }
}

/// A line of the CSV file. Times in seconds, latencies in microseconds.
#[derive(Serialize)]
struct Line<'a> {
    workload: &'a str,
    driver: &'a str,
    round: usize,
    from: f64,
    to: f64,
    commands: u64,
    errors: u64,
    rate: Option<f64>,
    backlog: Option<u64>,
    service_p50_us: Option<f64>,
    service_p99_us: Option<f64>,
    service_p999_us: Option<f64>,
    service_max_us: Option<f64>,
    planned_p50_us: Option<f64>,
    planned_p99_us: Option<f64>,
    planned_p999_us: Option<f64>,
    planned_max_us: Option<f64>,
}

/// The series of all runs.
pub fn csv(record: &LoadRecord, out: &mut dyn Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    for run in &record.runs {
        for second in run.figures.iter().flat_map(|figures| &figures.seconds) {
            let micros = |nanos: u64| nanos as f64 / 1e3;
            let (service, planned) = (second.service, second.planned);
            writer.serialize(Line {
                workload: &run.workload,
                driver: &run.driver,
                round: run.round,
                from: second.from,
                to: second.to,
                commands: second.commands,
                errors: second.errors,
                rate: second.rate(),
                backlog: second.backlog,
                service_p50_us: service.map(|latency| micros(latency.p50_ns)),
                service_p99_us: service.map(|latency| micros(latency.p99_ns)),
                service_p999_us: service.map(|latency| micros(latency.p999_ns)),
                service_max_us: service.map(|latency| micros(latency.max_ns)),
                planned_p50_us: planned.map(|latency| micros(latency.p50_ns)),
                planned_p99_us: planned.map(|latency| micros(latency.p99_ns)),
                planned_p999_us: planned.map(|latency| micros(latency.p999_ns)),
                planned_max_us: planned.map(|latency| micros(latency.max_ns)),
            })?;
        }
    }
    writer.flush()
}

/// One interval of the HdrHistogram log.
pub struct Interval {
    pub from: f64,
    pub to: f64,
    pub latencies: Histogram<u64>,
}

/// The intervals as an HdrHistogram log, which HdrHistogram's own tools read. Values are nanoseconds, the maxima milliseconds.
pub fn hdr_log(started: SystemTime, intervals: &[Interval], out: &mut dyn Write) -> io::Result<()> {
    let mut serializer = V2DeflateSerializer::new();
    let mut out = out;
    let mut writer = IntervalLogWriterBuilder::new()
        .add_comment("rcb load: latencies in nanoseconds")
        .with_start_time(started)
        .with_base_time(started)
        .with_max_value_divisor(1e6)
        .begin_log_with(&mut out, &mut serializer)?;
    for interval in intervals {
        let from = Duration::from_secs_f64(interval.from);
        let length = Duration::from_secs_f64((interval.to - interval.from).max(0.0));
        writer.write_histogram(&interval.latencies, from, length, None).map_err(|error| io::Error::other(format!("{error:?}")))?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_fails_leaves_the_older_file_and_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.json");
        std::fs::write(&path, "older").unwrap();
        let full = |out: &mut dyn Write| {
            out.write_all(b"half")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        };
        let error = Output::open(&path).unwrap().write(full).unwrap_err();
        assert!(error.contains("out.json") && error.contains("as it was"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "older");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        Output::open(&path).unwrap().write(|out| out.write_all(b"newer")).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "newer");
    }

    #[test]
    fn a_path_that_cant_be_written_is_told_at_once() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().to_owned(), folder.path().join("none/out.json")] {
            assert!(Output::open(&path).is_err(), "{}", path.display());
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_device_is_written_to_and_never_replaced() {
        let full = Output::open(Path::new("/dev/full")).unwrap();
        assert!(full.write(|out| out.write_all(b"x")).is_err());
        assert!(!std::fs::metadata("/dev/full").unwrap().is_file());
    }
}
