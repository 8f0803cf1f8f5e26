//! Whether a process lives, since when, and whether it is stopped, as far as the system reports it.

#[cfg(target_os = "linux")]
use std::{fs::File, io::Read as _, path::Path};

use serde::{Deserialize, Serialize};

use super::{Entry, Place};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Process {
    Runs {
        start_time: u64,
        is_stopped: bool,
    },
    Gone,
    /// The system does not report it.
    Hidden,
}

/// The current state of an agent's node process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeProcess {
    Runs,
    /// Stopped by a signal or a debugger: it accepts connections but does not answer.
    Stopped,
    /// Ended; the holder starts the next one.
    Gone,
    /// Unknown: its pid means nothing in this scope, or the system does not report it.
    Hidden,
}

impl Entry {
    /// Returns the current state of the node that wrote this entry.
    pub fn node(&self, here: &Place) -> NodeProcess {
        if !self.place.shares_pids_with(here) {
            return NodeProcess::Hidden;
        }
        match look_at(self.node_pid) {
            Process::Runs { start_time, is_stopped } if [0, start_time].contains(&self.node_start_time) => {
                if is_stopped {
                    NodeProcess::Stopped
                } else {
                    NodeProcess::Runs
                }
            }
            Process::Runs { .. } | Process::Gone => NodeProcess::Gone,
            Process::Hidden => NodeProcess::Hidden,
        }
    }
}

/// Whether a process is known to be stopped, by a signal or a debugger.
pub fn is_stopped(pid: u32) -> bool {
    matches!(look_at(pid), Process::Runs { is_stopped: true, .. })
}

#[cfg(target_os = "linux")]
pub(super) fn look_at(pid: u32) -> Process {
    // One read returns the whole line, which is far shorter than this.
    let mut line = [0; 2048];
    let read = File::open(format!("/proc/{pid}/stat")).and_then(|mut stat| stat.read(&mut line));
    match read {
        Ok(len) => parse_stat(&line[..len]).unwrap_or(Process::Hidden),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => Process::Gone,
        // A missing file proves something only if this process's own file is visible.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if Path::new("/proc/self/stat").exists() { Process::Gone } else { Process::Hidden }
        }
        Err(_) => Process::Hidden,
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn look_at(pid: u32) -> Process {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    match pid.map(rustix::process::test_kill_process) {
        None | Some(Err(rustix::io::Errno::SRCH)) => Process::Gone,
        Some(_) => Process::Hidden,
    }
}

#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
fn parse_stat(line: &[u8]) -> Option<Process> {
    // A process may call itself `a) R 1 (b`; only the last parenthesis ends the name.
    let name_end = line.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(&line[name_end + 1..]).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let start_time = fields.nth(START_TIME_AFTER_STATE)?.parse().ok()?;
    let is_stopped = matches!(state, "T" | "t");
    Some(if matches!(state, "Z" | "X" | "x") {
        Process::Gone
    } else {
        Process::Runs { start_time, is_stopped }
    })
}

/// Field 22 of proc(5), counted from the one after the state, which is field 3.
const START_TIME_AFTER_STATE: usize = 18;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_it_calls_itself() {
        let line = |name: &str, state: &str| {
            format!("7 ({name}) {state} 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 9 9")
        };
        let runs = |is_stopped| Some(Process::Runs { start_time: 4711, is_stopped });
        assert_eq!(parse_stat(line("cat", "S").as_bytes()), runs(false));
        assert_eq!(parse_stat(line("a) Z 1 (b", "R").as_bytes()), runs(false));
        assert_eq!(parse_stat(line("cat", "T").as_bytes()), runs(true));
        assert_eq!(parse_stat(line("cat", "t").as_bytes()), runs(true));
        assert_eq!(parse_stat(line("cat", "Z").as_bytes()), Some(Process::Gone));
        assert_eq!(parse_stat(b""), None);
        assert_eq!(parse_stat(b"7 (cat) S 1"), None);
    }
}
