//! What of Criterion's options concerns us.

/// What this invocation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Measuring, with so many samples of each cell.
    Measure {
        /// The last so many runs are samples.
        samples: usize,
    },
    /// `--test`: each cell once, verified.
    Test,
    /// `--list`, `--profile-time` and the like: Criterion's own affair.
    Other,
}

impl Mode {
    /// Reads this process' arguments as Criterion does.
    pub fn from_args() -> Self {
        let args: Vec<String> = std::env::args().skip(1).collect();
        let has = |name: &str| args.iter().any(|arg| arg == name || arg.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')));
        if ["--list", "--profile-time", "--load-baseline", "--help", "-h"].into_iter().any(has) {
            return Mode::Other;
        }
        if has("--test") || !has("--bench") {
            return Mode::Test;
        }
        Mode::Measure { samples: value_of(&args, "--sample-size").and_then(|text| text.parse().ok()).unwrap_or(usize::MAX) }
    }
}

/// The value of an option, written `--option value` or `--option=value`.
fn value_of(args: &[String], option: &str) -> Option<String> {
    let inline = args.iter().find_map(|arg| arg.strip_prefix(option)?.strip_prefix('=').map(str::to_owned));
    inline.or_else(|| args.iter().position(|arg| arg == option).and_then(|place| args.get(place + 1)).cloned())
}

/// The baseline that Criterion saves to.
pub fn save_baseline() -> String {
    let args: Vec<String> = std::env::args().collect();
    value_of(&args, "--save-baseline").or_else(|| value_of(&args, "-s")).unwrap_or_else(|| "base".into())
}
