//! A child that outlives us by a moment: when we die in whatever way, it ends what we started.
//!
//! It is a shell that reads what to do from a pipe whose other end only we hold. The end of that pipe is the end of
//! us. It has its own process group, so that a Ctrl-C in the terminal does not reach it.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// `group N` and `container ID` add to the list, `forget` empties it, `done` ends the watchdog and leaves all as it is.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
PATH=$PATH:/usr/bin:/bin
groups= containers=
while read -r verb what; do
    case $verb in
        group) groups="$groups -$what" ;;
        container) containers="$containers $what" ;;
        forget) groups= containers= ;;
        done) exit 0 ;;
    esac
done
for group in $groups; do kill -9 "$group"; done
if [ -n "$1" ]; then rm -rf -- "$1"; fi
if [ -n "$containers" ] && command -v docker; then docker rm --force --volumes $containers; fi
"#;

/// The watchdog's end that we hold.
#[derive(Debug)]
pub(super) struct Watchdog {
    child: Child,
    pipe: Option<ChildStdin>,
}

impl Watchdog {
    /// Starts one that removes `folder`, if any, and ends all that it was told of, when we die.
    pub(super) fn start(folder: Option<&Path>) -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "rcb-watchdog"]).arg(folder.unwrap_or(Path::new("")));
        command.current_dir("/").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let pipe = child.stdin.take();
        Ok(Self { child, pipe })
    }

    fn tell(&mut self, line: &str) -> io::Result<()> {
        match &mut self.pipe {
            Some(pipe) => pipe.write_all(line.as_bytes()),
            None => Ok(()),
        }
    }

    /// Watch over a process group.
    pub(super) fn add_group(&mut self, leader: u32) -> io::Result<()> {
        self.tell(&format!("group {leader}\n"))
    }

    /// Watch over a container. Only where the `docker` command is there to remove it.
    #[cfg(feature = "container")]
    pub(super) fn add_container(&mut self, id: &str) -> io::Result<()> {
        self.tell(&format!("container {id}\n"))
    }

    /// What was added is ended already: from here on its numbers may be another's.
    pub(super) fn forget(&mut self) {
        // An error means that the watchdog is gone, and with it the danger.
        let _ = self.tell("forget\n");
    }
}

impl Drop for Watchdog {
    /// Dismisses it and waits for its end.
    fn drop(&mut self) {
        let _ = self.tell("done\n");
        self.pipe = None;
        let _ = self.child.wait();
    }
}
