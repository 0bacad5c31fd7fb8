//! The settings of a subject: from `key=value` to the request, and from the request to the driver.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use super::protocol::SettingsRequest;
use super::subject::{Source, SubjectSpec};
use crate::drivers::{Profile, Resp, Settings, Strategy};
use crate::measure::clock::nanos;
use crate::record::RuntimeFlavour;

/// The key that names the driver for a client crate that has several.
pub const DRIVER: &str = "driver";

impl SubjectSpec {
    /// The driver that its worker is to use: the setting `driver`, the name of a driver, or the usual driver of a client
    /// crate.
    #[must_use]
    pub fn driver(&self) -> String {
        let of_client = || super::versions::driver_of(self).ok().map(str::to_owned);
        let usual = || if matches!(self.source, Source::Client(_)) { of_client() } else { None };
        self.settings.get(DRIVER).cloned().or_else(usual).unwrap_or_else(|| self.name.clone())
    }
}

const KEYS: &str = "connections, resp, profile, window, limit, nodelay, runtime, threads, burden";

impl Default for SettingsRequest {
    /// One connection, RESP2, `tuned`, the client's own way of sending.
    fn default() -> Self {
        Self {
            connections: 1,
            resp: 2,
            profile: "tuned".into(),
            window: "native".into(),
            limit: 0,
            nodelay: None,
            runtime: "multi-thread".into(),
            threads: 0,
            burden_ns: 0,
            other: BTreeMap::new(),
        }
    }
}

impl SettingsRequest {
    /// What `spec` asks for.
    ///
    /// # Errors
    /// A key or value that makes no sense, in words for the user. A worker of the user's own may have keys of its own.
    pub fn of(spec: &SubjectSpec) -> Result<Self, String> {
        let mut request = Self::default();
        for (key, value) in spec.settings.iter().filter(|(key, _)| *key != DRIVER) {
            let wrong = |form: &str| format!("{spec}: {key}={value} makes no sense; write {form}");
            match key.as_str() {
                "connections" => {
                    let count: NonZeroUsize = value.parse().map_err(|_| wrong("connections=4"))?;
                    request.connections = count.get();
                }
                "resp" => {
                    let resp: Resp = value.parse().map_err(|_| wrong("resp=2 or resp=3"))?;
                    request.resp = resp.into();
                }
                "profile" => {
                    request.profile = one_of(value, &["tuned", "default"]).ok_or_else(|| wrong("profile=tuned or profile=default"))?
                }
                "window" => {
                    strategy(value, 0).map_err(|_| wrong("window=native, off, idle or a time as in 75us"))?;
                    request.window = value.clone();
                }
                "limit" => request.limit = value.parse().map_err(|_| wrong("limit=100"))?,
                "nodelay" => {
                    let value = one_of(value, &["on", "off"]).ok_or_else(|| wrong("nodelay=on or nodelay=off"))?;
                    request.nodelay = Some(value == "on");
                }
                "runtime" => {
                    request.runtime = one_of(value, &["multi-thread", "current-thread"])
                        .ok_or_else(|| wrong("runtime=multi-thread or current-thread"))?;
                }
                "threads" => request.threads = value.parse::<NonZeroUsize>().map_err(|_| wrong("threads=2"))?.get(),
                "burden" => {
                    let burden = humantime::parse_duration(value).ok().filter(|burden| *burden <= Duration::from_millis(100));
                    let burden = burden.ok_or_else(|| wrong("a time of at most 100ms as in burden=500ns"))?;
                    request.burden_ns = nanos(burden);
                }
                _ if matches!(spec.source, Source::Worker(_)) => {
                    request.other.insert(key.clone(), value.clone());
                }
                _ => return Err(format!("{spec}: the setting {key:?} is not known; there are {KEYS}")),
            }
        }
        Ok(request)
    }

    /// The driver's settings.
    ///
    /// # Errors
    /// What makes no sense, in words for the parent.
    pub fn settings(&self) -> Result<Settings, String> {
        let profile = match self.profile.as_str() {
            "tuned" => Profile::Tuned,
            "default" => Profile::Default,
            other => return Err(format!("the profile {other:?} is not known")),
        };
        Ok(Settings {
            connections: NonZeroUsize::new(self.connections).ok_or("0 connections were asked for")?,
            resp: self.resp.try_into()?,
            profile,
            strategy: strategy(&self.window, self.limit)?,
            no_delay: self.nodelay,
            ..Settings::default()
        })
    }

    /// Kind and threads of the runtime.
    ///
    /// # Errors
    /// What makes no sense, in words for the parent.
    pub fn runtime(&self) -> Result<(RuntimeFlavour, usize), String> {
        match self.runtime.as_str() {
            "current-thread" => Ok((RuntimeFlavour::CurrentThread, 1)),
            "multi-thread" => {
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                Ok((RuntimeFlavour::MultiThread, if self.threads == 0 { cores } else { self.threads }))
            }
            other => Err(format!("the runtime {other:?} is not known")),
        }
    }
}

fn one_of(value: &str, known: &[&str]) -> Option<String> {
    known.contains(&value).then(|| value.to_owned())
}

fn strategy(window: &str, limit: usize) -> Result<Strategy, String> {
    match window {
        "native" => Ok(Strategy::Native),
        "off" => Ok(Strategy::Off),
        "idle" => Ok(Strategy::Idle { limit }),
        time => {
            let window = humantime::parse_duration(time).ok().filter(|window| *window <= Duration::from_secs(1));
            window.map(|window| Strategy::window(window, limit)).ok_or_else(|| format!("the pipeline window {time:?} is not known"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> Result<SettingsRequest, String> {
        SettingsRequest::of(&text.parse().unwrap())
    }

    #[test]
    fn settings_reach_the_driver() {
        let asked = request("fred-pool:connections=4,resp=3,profile=default,window=75us,limit=9,nodelay=off,burden=500ns").unwrap();
        let settings = asked.settings().unwrap();
        assert_eq!((settings.connections.get(), settings.resp, settings.profile), (4, Resp::V3, Profile::Default));
        assert_eq!(settings.strategy, Strategy::Window { window: Duration::from_micros(75), limit: 9 });
        assert_eq!((settings.nodelay(), asked.burden_ns), (Some(false), 500));
        assert_eq!(request("fred").unwrap().settings().unwrap(), Settings::default());
        assert_eq!(request("fred:runtime=current-thread").unwrap().runtime(), Ok((RuntimeFlavour::CurrentThread, 1)));
        assert_eq!(request("fred:threads=3").unwrap().runtime(), Ok((RuntimeFlavour::MultiThread, 3)));
    }

    #[test]
    fn the_driver_of_a_crate_is_its_first() {
        let driver = |text: &str| text.parse::<SubjectSpec>().unwrap().driver();
        assert_eq!((driver("raw"), driver("mine@worker:/w"), driver("mine@worker:/w:driver=x")), ("raw".into(), "mine".into(), "x".into()));
        #[cfg(feature = "redis-rs")]
        assert_eq!((driver("redis@1.0.0"), driver("redis@1.0.0:driver=redis-rs-pool")), ("redis-rs".into(), "redis-rs-pool".into()));
    }

    #[test]
    fn what_makes_no_sense_is_told_with_a_form_that_does() {
        for wrong in ["connections=0", "resp=4", "profile=fast", "window=75", "nodelay=yes", "runtime=x", "threads=0", "burden=2s"] {
            let error = request(&format!("raw:{wrong}")).expect_err(wrong);
            assert!(error.starts_with(&format!("raw:{wrong}: ")) && error.contains("write "), "{error}");
        }
        assert!(request("raw:speed=9").unwrap_err().contains("there are connections, resp"));
        assert_eq!(request("mine@worker:/w:speed=9").unwrap().other["speed"], "9", "a worker of one's own has its own");
        assert!(SettingsRequest { resp: 9, ..SettingsRequest::default() }.settings().is_err());
    }
}
