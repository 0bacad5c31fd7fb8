//! The machine and the build that a measurement was made with.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Above this share of busy cores, before any work of ours, the machine counts as busy.
const BUSY_SHARE: f64 = 0.25;

/// Runnable processes, averaged over 1, 5 and 15 minutes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Over one minute.
    pub one: f64,
    /// Over five minutes.
    pub five: f64,
    /// Over fifteen minutes.
    pub fifteen: f64,
}

/// What a record keeps of the machine and the build. What the system does not tell is `None`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Operating system, as Rust names it: `linux`, `macos`.
    pub os: String,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Processor model.
    pub cpu: Option<String>,
    /// Logical cores that this process may use.
    pub cores: usize,
    /// Memory in bytes.
    pub memory: Option<u64>,
    /// Load at the time of the call.
    pub load: Option<Load>,
    /// Share of all cores' time that was spent on something in the quarter of a second before, 0 to 1.
    pub busy: Option<f64>,
    /// Frequency governor of the first core.
    pub governor: Option<String>,
    /// What the system runs in, if it says so: a container, or the maker of the virtual machine.
    pub virtualisation: Option<String>,
    /// Version of the compiler that built this.
    pub rustc: String,
    /// Target triple that it was built for.
    pub target: String,
    /// Built without optimisation.
    pub debug_build: bool,
    /// Version of this crate.
    pub version: String,
}

impl Environment {
    /// Reads it now. The load is that before any work, so call this first.
    #[must_use]
    pub fn read() -> Self {
        Self {
            os: std::env::consts::OS.into(),
            kernel: first_line("/proc/sys/kernel/osrelease").or_else(|| output("uname", &["-r"])),
            cpu: cpu_model(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory: memory(),
            load: load(),
            busy: busy(),
            governor: first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            virtualisation: virtualisation(),
            rustc: env!("RCB_RUSTC").into(),
            target: env!("RCB_TARGET").into(),
            debug_build: cfg!(debug_assertions),
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }
}

/// What makes figures from this environment doubtful, one printable line each.
#[must_use]
pub fn warnings(environment: &Environment) -> Vec<String> {
    let mut list = Vec::new();
    if environment.debug_build {
        list.push("debug build: the figures are those of unoptimised code; build with --release".to_owned());
    }
    let cores = environment.cores;
    if let Some(busy) = environment.busy.filter(|busy| *busy > BUSY_SHARE) {
        list.push(format!("busy machine: {:.0} % of {cores} cores were in use before the start; end other work", busy * 100.0));
    }
    if cores == 1 {
        list.push("single core: client and server take turns, so neither is measured on its own".to_owned());
    }
    if let Some(governor) = environment.governor.as_deref().filter(|governor| matches!(*governor, "powersave" | "conservative")) {
        list.push(format!("the frequency governor is {governor}: the clock rate follows the load; set it to performance"));
    }
    list
}

fn first_line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
}

/// What a program prints, where the system has no file for it.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

fn sysctl(name: &str) -> Option<String> {
    if cfg!(target_os = "linux") { None } else { output("sysctl", &["-n", name]) }
}

fn cpu_model() -> Option<String> {
    // The names that kernels use on x86, on Arm boards and on POWER.
    let names = ["model name", "Model", "Hardware", "cpu"];
    let found = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| names.iter().find_map(|name| field(&text, name)));
    found.or_else(|| sysctl("machdep.cpu.brand_string")).or_else(|| sysctl("hw.model"))
}

/// The value of the first `name : value` line.
fn field(text: &str, name: &str) -> Option<String> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let mut values = lines.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned());
    values.find(|value| !value.is_empty())
}

fn memory() -> Option<u64> {
    let linux = fs::read_to_string("/proc/meminfo").ok().and_then(|text| field(&text, "MemTotal"));
    match linux {
        Some(kib) => kib.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024),
        None => sysctl("hw.memsize").or_else(|| sysctl("hw.physmem"))?.parse().ok(),
    }
}

/// How long the machine is watched for [`Environment::busy`].
const WATCHED: Duration = Duration::from_millis(250);

/// The share of busy time while we wait. The load average would still tell of the build that came before.
fn busy() -> Option<f64> {
    let before = cpu_time(&fs::read_to_string("/proc/stat").ok()?)?;
    std::thread::sleep(WATCHED);
    let after = cpu_time(&fs::read_to_string("/proc/stat").ok()?)?;
    let (busy, all) = (after.0.checked_sub(before.0)?, after.1.checked_sub(before.1)?);
    // To the percent: more digits would only pretend.
    (all > 0).then(|| (busy as f64 / all as f64 * 100.0).round() / 100.0)
}

/// Busy and all time of all cores, in ticks, from the first line of `/proc/stat` (proc(5)): user, nice, system, idle, iowait …
fn cpu_time(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_whitespace().take(8).map_while(|tick| tick.parse().ok()).collect();
    let idle = ticks.get(3)? + ticks.get(4).copied().unwrap_or(0);
    let all: u64 = ticks.iter().sum();
    Some((all - idle, all))
}

fn load() -> Option<Load> {
    parse_load(&first_line("/proc/loadavg").or_else(|| sysctl("vm.loadavg"))?)
}

/// `0.10 0.20 0.30 …`, in braces where sysctl prints it.
fn parse_load(text: &str) -> Option<Load> {
    let mut numbers = text.split_whitespace().filter(|word| *word != "{").map(|word| word.replace(',', ".").parse::<f64>());
    Some(Load { one: numbers.next()?.ok()?, five: numbers.next()?.ok()?, fifteen: numbers.next()?.ok()? })
}

fn virtualisation() -> Option<String> {
    if fs::exists("/.dockerenv").unwrap_or(false) || fs::exists("/run/.containerenv").unwrap_or(false) {
        return Some("container".into());
    }
    let flagged = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| field(&text, "flags"));
    let virtual_machine = flagged.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"));
    let maker = first_line("/sys/class/dmi/id/sys_vendor");
    let model = first_line("/sys/class/dmi/id/product_name");
    let name = [maker, model].into_iter().flatten().collect::<Vec<_>>().join(" ");
    virtual_machine.then(|| if name.is_empty() { "virtual machine".into() } else { format!("virtual machine ({name})") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_doubt_is_told_and_a_quiet_machine_raises_none() {
        let quiet =
            Environment { debug_build: false, cores: 4, busy: Some(0.25), governor: Some("performance".into()), ..Environment::read() };
        assert_eq!(warnings(&quiet), Vec::<String>::new());
        let told = |environment: Environment| warnings(&environment).join("\n");
        assert!(told(Environment { debug_build: true, ..quiet.clone() }).starts_with("debug build"));
        assert!(told(Environment { busy: Some(0.26), ..quiet.clone() }).starts_with("busy machine"));
        assert!(told(Environment { cores: 1, busy: None, ..quiet.clone() }).starts_with("single core"));
        assert!(told(Environment { governor: Some("powersave".into()), ..quiet }).contains("powersave"));
    }

    #[test]
    fn the_systems_formats_are_read() {
        let load = Load { one: 0.5, five: 1.25, fifteen: 2.0 };
        assert_eq!(parse_load("0.50 1.25 2.00 1/234 5678"), Some(load));
        assert_eq!(parse_load("{ 0.50 1.25 2.00 }"), Some(load));
        assert_eq!(parse_load("0,50 1,25 2,00"), Some(load));
        assert_eq!(parse_load(""), None);
        assert_eq!(cpu_time("cpu  10 1 4 80 5 0 0 0 3 0\ncpu0 1 2 3 4"), Some((15, 100)));
        assert_eq!(cpu_time("intr 1"), None);
        assert_eq!(field("processor\t: 0\nmodel name\t: A: B\n", "model name").as_deref(), Some("A: B"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_linux_machine_tells_its_facts_and_they_survive_a_record() {
        let environment = Environment::read();
        assert!(environment.kernel.is_some() && environment.load.is_some() && environment.memory.is_some_and(|bytes| bytes > 1 << 20));
        assert!(environment.rustc.starts_with("rustc ") && environment.target.contains("linux"));
        let text = serde_json::to_string(&environment).unwrap();
        assert_eq!(serde_json::from_str::<Environment>(&text).unwrap(), environment);
    }
}
