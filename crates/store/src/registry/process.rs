//! Whether a process lives, as far as the system tells, and since when.

#[cfg(target_os = "linux")]
use std::{fs::File, io::Read as _, path::Path};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Process {
    Runs {
        start_time: u64,
    },
    Gone,
    /// The system does not tell.
    Hidden,
}

#[cfg(target_os = "linux")]
pub(super) fn look_at(pid: u32) -> Process {
    // One read has the whole line, which is far shorter than this.
    let mut line = [0; 2048];
    let read = File::open(format!("/proc/{pid}/stat")).and_then(|mut stat| stat.read(&mut line));
    match read {
        Ok(len) => parse_stat(&line[..len]).unwrap_or(Process::Hidden),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => Process::Gone,
        // Absence proves something only where presence can be seen.
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
    // A process may call itself `a) R 1 (b`; only the last parenthesis closes.
    let name_end = line.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(&line[name_end + 1..]).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let start_time = fields.nth(START_TIME_AFTER_STATE)?.parse().ok()?;
    Some(if matches!(state, "Z" | "X" | "x") { Process::Gone } else { Process::Runs { start_time } })
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
        let runs = Some(Process::Runs { start_time: 4711 });
        assert_eq!(parse_stat(line("cat", "S").as_bytes()), runs);
        assert_eq!(parse_stat(line("a) Z 1 (b", "R").as_bytes()), runs);
        assert_eq!(parse_stat(line("cat", "Z").as_bytes()), Some(Process::Gone));
        assert_eq!(parse_stat(b""), None);
        assert_eq!(parse_stat(b"7 (cat) S 1"), None);
    }
}
