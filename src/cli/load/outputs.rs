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

    /// Another handle of the file that is being written.
    fn handle(&self) -> io::Result<File> {
        match &self.place {
            Place::Aside(file) => file.as_file().try_clone(),
            Place::Direct(file) => file.try_clone(),
        }
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

/// A line of the CSV file. Times in seconds, latencies in microseconds. New columns come last.
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
    cached: Option<bool>,
    cache_hits: Option<u64>,
    cache_misses: Option<u64>,
    cache_invalidations: Option<u64>,
    cache_evictions: Option<u64>,
}

/// The series of all runs.
pub fn csv(record: &LoadRecord, out: &mut dyn Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    for run in &record.runs {
        let caches = run.figures.iter().filter_map(|figures| figures.cache.as_ref()).flat_map(|cache| &cache.seconds);
        let caches = caches.map(Some).chain(std::iter::repeat(None));
        for (second, cache) in run.figures.iter().flat_map(|figures| &figures.seconds).zip(caches) {
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
                cached: run.cached,
                cache_hits: cache.map(|cache| cache.hits),
                cache_misses: cache.map(|cache| cache.misses),
                cache_invalidations: cache.map(|cache| cache.invalidations),
                cache_evictions: cache.and_then(|cache| cache.evictions),
            })?;
        }
    }
    writer.flush()
}

/// An HdrHistogram interval log, which HdrHistogram's own tools read. Values are nanoseconds, the maxima milliseconds. Each
/// interval is written when it ends, so that memory does not grow with the run.
pub struct HdrLog {
    output: Output,
    out: BufWriter<File>,
    serializer: V2DeflateSerializer,
    begun: bool,
    failure: Option<io::Error>,
}

/// A thousand and a thousand nanoseconds are a millisecond.
const NANOS_PER_MILLI: f64 = 1e6;

impl HdrLog {
    /// A log in `output`.
    pub fn new(output: Output) -> Result<Self, String> {
        let file = output.handle().map_err(|error| format!("can't write {}: {error}", output.path.display()))?;
        Ok(Self { output, out: BufWriter::new(file), serializer: V2DeflateSerializer::new(), begun: false, failure: None })
    }

    /// Writes the head of a run that starts now.
    pub fn begin(&mut self) {
        let now = SystemTime::now();
        let mut head = IntervalLogWriterBuilder::new();
        head.add_comment("rcb load: latencies in nanoseconds").with_start_time(now).with_base_time(now);
        let written = head.begin_log_with(&mut self.out, &mut self.serializer).map(drop);
        self.begun = true;
        self.note(written);
    }

    /// Writes one interval, its ends in seconds after the start.
    pub fn add(&mut self, from: f64, to: f64, latencies: &Histogram<u64>) {
        let seconds = |value: f64| Duration::try_from_secs_f64(value).unwrap_or_default();
        let mut line = IntervalLogWriterBuilder::new();
        line.with_max_value_divisor(NANOS_PER_MILLI);
        let written = line.begin_log_with(&mut self.out, &mut self.serializer).and_then(|mut writer| {
            let written = writer.write_histogram(latencies, seconds(from), seconds(to - from), None);
            written.map_err(|error| io::Error::other(format!("{error:?}")))
        });
        self.note(written);
    }

    fn note(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            self.failure.get_or_insert(error);
        }
    }

    /// Puts the file in place; without a run what was there stays.
    pub fn finish(mut self) -> Result<(), String> {
        if !self.begun {
            return Ok(());
        }
        let flushed = self.out.flush();
        self.note(flushed);
        let failure = self.failure.take();
        self.output.write(|_| failure.map_or(Ok(()), Err))
    }
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

    #[test]
    fn a_log_is_read_back_interval_by_interval() {
        use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.hlog");
        let mut log = HdrLog::new(Output::open(&path).unwrap()).unwrap();
        let mut latencies = crate::measure::latency::histogram();
        log.begin();
        for second in 0..3u32 {
            latencies.record(2_000_000).unwrap();
            log.add(second.into(), f64::from(second) + 1.0, &latencies);
        }
        log.finish().unwrap();
        let text = std::fs::read(&path).unwrap();
        let mut counts = Vec::new();
        for entry in IntervalLogIterator::new(&text) {
            if let LogEntry::Interval(interval) = entry.unwrap() {
                use base64::Engine;
                let bytes = base64::engine::general_purpose::STANDARD.decode(interval.encoded_histogram()).unwrap();
                let read: Histogram<u64> = hdrhistogram::serialization::Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
                counts.push((interval.start_timestamp(), read.len()));
                assert!((interval.max() - 2.0).abs() < 0.01, "{}", interval.max());
            }
        }
        assert_eq!(counts, [(Duration::ZERO, 1), (Duration::from_secs(1), 2), (Duration::from_secs(2), 3)]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_device_is_written_to_and_never_replaced() {
        let full = Output::open(Path::new("/dev/full")).unwrap();
        assert!(full.write(|out| out.write_all(b"x")).is_err());
        assert!(!std::fs::metadata("/dev/full").unwrap().is_file());
    }
}
