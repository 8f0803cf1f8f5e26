//! Which agent CLIs are installed, and their versions. Each is run without a shell and with a
//! deadline.

use super::facts::{Program, Said};
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const NAMES: [&str; 5] = ["claude", "codex", "gemini", "opencode", "copilot"];
/// All are run at the same time, and a CLI on Node.js takes seconds to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);
/// Longer than any version. A program that prints more does not answer the question.
const SAID_BYTES_MAX: u64 = 4096;

/// Runs all of them at once, because each may take a while.
pub fn ask_all() -> Vec<Program> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let asked = NAMES.map(|name| {
        let found = find(name, &path);
        (name, found.map(|program| std::thread::spawn(move || ask(&program))))
    });
    let heard = asked.into_iter().map(|(name, asking)| {
        let said = match asking.map(std::thread::JoinHandle::join) {
            None => Said::NotFound,
            Some(Ok(said)) => said,
            Some(Err(_)) => Said::Nothing("it could not be asked".to_owned()),
        };
        Program { name, said }
    });
    heard.collect()
}

/// Searches only absolute folders of PATH: nobody chose a program that lies in the current folder.
fn find(name: &str, path: &std::ffi::OsStr) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let is_program = |file: &PathBuf| {
        file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(name)).find(is_program)
}

fn ask(program: &Path) -> Said {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    crate::program::withhold_secrets(&mut command);
    // In its own process group, so that everything it starts can be killed with it.
    let mut child = match command.process_group(0).spawn() {
        Ok(child) => child,
        Err(e) => return Said::Nothing(e.to_string()),
    };
    let out = child.stdout.take();
    let reading = std::thread::spawn(move || {
        let mut said = Vec::new();
        if let Some(out) = out {
            let _ = out.take(SAID_BYTES_MAX).read_to_end(&mut said);
        }
        said
    });
    let ended = has_ended(&child);
    // The child is not reaped yet, so its pid cannot mean another process group.
    end_group(&child);
    let status = child.wait();
    let said = reading.join().unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().map(|line| crate::show::line(line, 60)).find(|line| !line.is_empty());
    let status = status.ok().filter(|_| ended).map(|status| status.success());
    match (status, line) {
        (None, _) => Said::Nothing(format!("no answer within {} s", PATIENCE.as_secs())),
        (Some(true), Some(line)) => Said::Version(line),
        (Some(true), None) => Said::Nothing("`--version` prints nothing".to_owned()),
        (Some(false), _) => Said::Nothing("`--version` fails".to_owned()),
    }
}

/// Whether the program exited in time. It is not reaped.
fn has_ended(child: &Child) -> bool {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    let until = Instant::now() + PATIENCE;
    let how = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    while Instant::now() < until {
        match waitid(WaitId::Pid(Pid::from_child(child)), how) {
            Ok(None) => std::thread::sleep(PAUSE),
            Ok(Some(_)) => return true,
            Err(_) => return false,
        }
    }
    false
}

fn end_group(child: &Child) {
    let group = rustix::process::Pid::from_child(child);
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
}
