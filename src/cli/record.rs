//! `rcb record`.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use super::{Failure, Outcome, print};
use crate::interrupt::{EXIT_INTERRUPTED, Graceful, Interrupt, interrupted};
use crate::record::AnyRecord;
use crate::record::export::Sheet;

pub const EXAMPLES: &str = "\
Examples:
  rcb record target/rcb/commands.json          store the record of a bench
  rcb record load --driver fred -c 64 -n 1000000 -t get
                                               run it, then store its record
  rcb record compare redis@0.32.7 redis@1.8.1  the same of a comparison
  rcb record --results ../figures load.json    in another folder

A stored record is the record as it was written. Its name holds the time, the kind and the machine; none is ever replaced.
Commit the folder: rcb history and rcb export read it.";

/// The verbs that write a record, with the flag that names its file.
const RUNS: [(&str, &str); 5] = [
    ("load", "--json-out-file"),
    ("publish", "--json-out-file"),
    ("subscribe", "--json-out-file"),
    ("cache", "--json-out-file"),
    ("compare", "--out"),
];

/// How long a run that is interrupted may take to end.
const LONGEST_END: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Folder of the stored records; made if it is not there
    #[arg(long, value_name = "FOLDER", default_value = "results")]
    results: PathBuf,
    /// Records to store; or load, publish, subscribe, cache or compare with its arguments, to run it and store what it gave
    #[arg(required = true, value_name = "RECORD | VERB …", trailing_var_arg = true, allow_hyphen_values = true)]
    what: Vec<OsString>,
}

pub fn run(arguments: &Arguments) -> Outcome {
    let verb = arguments.what.first().and_then(|first| RUNS.iter().find(|(verb, _)| first == verb));
    if let Some((_, flag)) = verb {
        return run_and_store(arguments, flag);
    }
    let mut stored = Vec::new();
    for path in arguments.what.iter().map(Path::new) {
        if path.to_string_lossy().starts_with('-') {
            let path = path.display();
            return Err(Failure::Usage(format!(
                "{path} is no record; write --results before the records, and the arguments of a run after its verb"
            )));
        }
        stored.push(Session::read(path)?);
    }
    for session in &stored {
        session.store(&arguments.results)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A record to be stored.
struct Session {
    from: PathBuf,
    text: Vec<u8>,
    name: String,
    complete: bool,
}

impl Session {
    fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read(path).map_err(|error| Failure::Usage(format!("can't read the record {}: {error}", path.display())))?;
        // What can't be read back later must not be stored as if it could.
        let record = AnyRecord::parse(path, &text).map_err(|error| Failure::Usage(error.to_string()))?;
        let sheet = Sheet::of(&path.display().to_string(), &record);
        if !sheet.complete {
            tell!("{}: interrupted: cells may be missing", path.display());
        }
        Ok(Self { from: path.to_owned(), text, name: name(&sheet), complete: sheet.complete })
    }

    /// Stores it under a name of its own. The same record again is left alone.
    fn store(&self, folder: &Path) -> Result<PathBuf, Failure> {
        let told = |error: &dyn std::fmt::Display| Failure::Measurement(format!("can't store a record in {}: {error}", folder.display()));
        std::fs::create_dir_all(folder).map_err(|error| told(&error))?;
        for number in 1..u32::MAX {
            let more = if number == 1 { String::new() } else { format!("-{number}") };
            let path = folder.join(format!("{}{more}.json", self.name));
            if std::fs::read(&path).is_ok_and(|there| there == self.text) {
                tell!("{} is stored already", self.from.display());
                print(&path.display().to_string());
                return Ok(path);
            }
            if path.exists() {
                continue;
            }
            let mut builder = tempfile::Builder::new();
            builder.prefix(".rcb-");
            #[cfg(unix)]
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
            let mut file = builder.tempfile_in(folder).map_err(|error| told(&error))?;
            file.write_all(&self.text).and_then(|()| file.as_file().sync_all()).map_err(|error| told(&error))?;
            match file.persist_noclobber(&path) {
                Ok(_) => {
                    print(&path.display().to_string());
                    return Ok(path);
                }
                // Somebody else's took the name meanwhile.
                Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(told(&error.error)),
            }
        }
        Err(told(&"every name is taken"))
    }
}

/// `2026-11-30T181353Z-bench-commands-b476af2d`. Nothing of the record can lead out of the folder.
fn name(sheet: &Sheet) -> String {
    let plain = |text: &str| {
        let word = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '-' };
        text.chars().map(word).collect::<String>()
    };
    let made_by = sheet.made_by.strip_prefix("rcb ").unwrap_or(&sheet.made_by);
    format!("{}-{}-{}", plain(&sheet.created.replace(':', "")), plain(made_by), sheet.machine.id)
}

/// Runs a verb in a process of its own, which handles its own interruption, and stores what it wrote.
fn run_and_store(arguments: &Arguments, flag: &str) -> Outcome {
    if arguments.what.iter().any(|word| word == "-h" && arguments.what[0] != "load" || word == "--help") {
        return Err(Failure::Usage(format!("for help on the run itself: rcb {} --help", arguments.what[0].display())));
    }
    if arguments.what.iter().any(|word| word.to_string_lossy().split('=').next() == Some(flag)) {
        return Err(Failure::Usage(format!("rcb record names the record itself; leave out {flag}")));
    }
    let broken = |error: &dyn std::fmt::Display| Failure::Measurement(format!("can't run rcb {}: {error}", arguments.what[0].display()));
    let folder = tempfile::tempdir().map_err(|error| broken(&error))?;
    let path = folder.path().join("record.json");
    let program = std::env::current_exe().map_err(|error| broken(&error))?;
    let graceful = Graceful::register("interrupted; storing what was measured", LONGEST_END);
    let (verb, rest) = arguments.what.split_at(1);
    let mut child = Command::new(program).args(verb).arg(flag).arg(&path).args(rest).spawn().map_err(|error| broken(&error))?;
    let forward = forward(&child);
    let status = child.wait().map_err(|error| broken(&error))?;
    drop(forward);
    let code = status.code().unwrap_or(EXIT_INTERRUPTED);
    if path.is_file() {
        let session = Session::read(&path)?;
        let stored = session.store(&arguments.results)?;
        if !session.complete && arguments.what[0] == "compare" {
            // The comparison named a file that is gone when this ends.
            tell!("the session is kept in {}: that is the file for --resume", stored.display());
        }
    } else {
        tell!("nothing was stored: the run left no record");
    }
    let code = if interrupted() { EXIT_INTERRUPTED } else { code };
    // Whoever waits for the end of this may go on.
    drop(graceful);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Passes an interruption on to the run, which may not have got it itself.
#[cfg(unix)]
fn forward(child: &std::process::Child) -> Interrupt {
    let process = i32::try_from(child.id()).ok().map(nix::unistd::Pid::from_raw);
    Interrupt::register(move || {
        if let Some(process) = process {
            // It may have ended already.
            let _ = nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGINT);
        }
    })
}

#[cfg(not(unix))]
fn forward(_: &std::process::Child) -> Interrupt {
    Interrupt::register(|| {})
}
