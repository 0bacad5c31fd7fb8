//! How many files, and so connections, this process may have open, how much memory it may take, and how long a step.

use std::time::Duration;

use crate::drivers::Error;

/// Raises the soft limit of open files as far as `needed`, where the hard limit allows it. Servers that we start inherit it.
///
/// # Errors
/// One sentence with a hint when the hard limit is below.
#[cfg(unix)]
pub fn allow_files(needed: u64) -> Result<(), String> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return Ok(()) };
    if soft >= needed {
        return Ok(());
    }
    if hard < needed {
        return Err(format!(
            "{needed} connections and files are needed, and this process may open {hard}; raise `ulimit -n`, or put more channels on one connection \
             with --channels-per-subscriber"
        ));
    }
    setrlimit(Resource::RLIMIT_NOFILE, needed, hard)
        .map_err(|error| format!("the limit of open files could not be raised to {needed}: {error}"))
}

/// There is no such limit.
///
/// # Errors
/// Never.
#[cfg(not(unix))]
pub fn allow_files(_: u64) -> Result<(), String> {
    Ok(())
}

/// Whether `needed` bytes for the buffers of clients can be had; where the system does not tell, they can.
///
/// # Errors
/// One sentence with a hint.
pub fn allow_memory(needed: u64) -> Result<(), String> {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available =
        text.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    let (needed_mib, available_mib) = (needed >> 20, available.unwrap_or(u64::MAX) >> 10);
    if needed_mib > available_mib {
        return Err(format!(
            "buffers of that size for so many subscribers need about {needed_mib} MiB, and {available_mib} MiB are available; use a smaller --buffer, or \
             put more channels on one connection with --channels-per-subscriber"
        ));
    }
    Ok(())
}

/// What `work` gives, or why not: its error, more than `limit`, Ctrl-C.
///
/// # Errors
/// One sentence that begins with `what`, but for an interruption.
pub async fn within<T>(limit: Duration, what: &str, work: impl Future<Output = Result<T, Error>>) -> Result<T, String> {
    tokio::select! {
        done = tokio::time::timeout(limit, work) => match done {
            Ok(done) => done.map_err(|error| format!("{what}: {error}")),
            Err(_) => Err(format!("{what}: not done within {limit:?}")),
        },
        () = crate::interrupt::wait() => Err("interrupted".to_owned()),
    }
}

/// A length of time: seconds as a plain number, or with a unit such as `500ms`.
///
/// # Errors
/// What is wrong with it.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().map(|seconds| Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string()));
    let time = seconds.unwrap_or_else(|| humantime::parse_duration(text).map_err(|error| error.to_string()));
    match time {
        Ok(time) if time > Duration::from_secs(366 * 86_400) => Err("use a year at most".into()),
        Ok(time) => Ok(time),
        Err(error) => Err(format!("{error}; use seconds, such as 30, or a unit, such as 500ms")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_or_have_a_unit() {
        assert_eq!(parse_time("30"), Ok(Duration::from_secs(30)));
        assert_eq!(parse_time("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_time("250ms"), Ok(Duration::from_millis(250)));
        for wrong in ["", "-1", "fast", "nan", "1e300", "400days"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn buffers_that_no_machine_has_are_refused() {
        assert_eq!(allow_memory(1 << 20), Ok(()));
        #[cfg(target_os = "linux")]
        assert!(allow_memory(1 << 60).unwrap_err().contains("smaller --buffer"));
    }

    #[test]
    fn a_limit_that_can_not_be_raised_is_told() {
        assert_eq!(allow_files(1), Ok(()));
        #[cfg(unix)]
        assert!(allow_files(u64::MAX - 1).unwrap_err().contains("--channels-per-subscriber"));
    }
}
