//! Linux: `/proc`, pidfds, inotify.
//!
//! Invariant: a signal goes only to the process that was looked at, even if
//! its pid is given to another in between.
//! Not here: other systems (`os/other.rs`).

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use rustix::process::{self, PidfdFlags, Signal};

use super::{Job, Stat, pid_of};

/// A path that leads to the program of this process as it was started, whatever became of its file.
pub(crate) fn own_program() -> io::Result<PathBuf> {
    let link = Path::new("/proc/self/exe");
    if link.exists() { Ok(link.to_owned()) } else { std::env::current_exe() }
}

/// Orphans among the descendants become children of this process from now on.
pub(crate) fn become_subreaper() -> io::Result<()> {
    Ok(process::set_child_subreaper(Some(process::getpid()))?)
}

/// Differs between two boots of a machine, so that a pid and a start time from
/// before the boot are not taken for a process of today.
pub(crate) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}

pub(crate) fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Every process there is, with its parent: `(pid, parent)`.
pub(crate) fn all_parents() -> Vec<(u32, u32)> {
    numbered_entries(Path::new("/proc"))
        .into_iter()
        .filter_map(|pid| Some((pid, stat(pid)?.parent)))
        .collect()
}

/// Whether the kernel was built to list children directly.
pub(crate) fn lists_children() -> bool {
    Path::new("/proc/thread-self/children").exists()
}

/// The children of all threads of `pid`; only with `lists_children`.
pub(crate) fn children_of(pid: u32) -> Vec<u32> {
    let tasks = format!("/proc/{pid}/task");
    numbered_entries(Path::new(&tasks))
        .into_iter()
        .filter_map(|task| fs::read_to_string(format!("{tasks}/{task}/children")).ok())
        .flat_map(|line| {
            line.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<_>>()
        })
        .collect()
}

/// Sends `signal` to `pid` if `is_meant` recognises the process; says whether
/// it was sent.
pub(crate) fn signal_if(pid: u32, signal: Signal, is_meant: impl Fn(&Stat) -> bool) -> bool {
    let Some(target) = pid_of(pid) else {
        return false;
    };
    // The descriptor is taken before the look: from then on it means one
    // process, and a pid that is reused in between fails the look.
    match process::pidfd_open(target, PidfdFlags::empty()) {
        Ok(descriptor) => {
            stat(pid).is_some_and(|seen| is_meant(&seen))
                && process::pidfd_send_signal(descriptor, signal).is_ok()
        }
        Err(Errno::SRCH) => false,
        // Old kernels and strict sandboxes have no pidfds.
        Err(_) => {
            stat(pid).is_some_and(|seen| is_meant(&seen)) && process::kill_process(target, signal).is_ok()
        }
    }
}

/// Wakes its owner when a file grows or its folder gets a new entry.
pub(crate) struct InputWatch {
    events: OwnedFd,
}

impl InputWatch {
    pub(crate) fn new(file: &Path, folder: &Path) -> io::Result<Self> {
        let events = inotify::init(CreateFlags::CLOEXEC)?;
        inotify::add_watch(&events, file, WatchFlags::MODIFY)?;
        // Only new entries: the output grows in the same folder, and must not
        // wake the reader of the input.
        inotify::add_watch(&events, folder, WatchFlags::CREATE | WatchFlags::MOVED_TO)?;
        Ok(Self { events })
    }

    /// Returns after something happened since the last call, or since `new`.
    pub(crate) fn wait(&self) -> io::Result<()> {
        let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
        loop {
            match rustix::io::read(&self.events, &mut buffer) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Reads a line of `/proc/<pid>/stat`: `pid (name) state parent ...`.
fn parse_stat(line: &[u8]) -> Option<Stat> {
    // A process may call itself `a) R 1 (b`; only the last parenthesis closes.
    let name_end = line.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(&line[name_end + 1..]).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(Stat {
        parent: fields.get(PARENT)?.parse().ok()?,
        job: Job {
            group: fields.get(GROUP)?.parse().ok()?,
            terminal: fields.get(TERMINAL)?.parse::<i32>().ok()?.cast_unsigned().into(),
        },
        is_zombie: matches!(*fields.get(STATE)?, "Z" | "X" | "x"),
        start_time: fields.get(START_TIME)?.parse().ok()?,
    })
}

fn numbered_entries(folder: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

// Places after the name; proc(5) counts from 1 and has the state as its third.
const STATE: usize = 0;
const PARENT: usize = 1;
const GROUP: usize = 2;
const TERMINAL: usize = 4;
const START_TIME: usize = 19;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_process_cannot_confuse_the_reader() {
        let tail = "S 7 8 9 34817 -1 4194304 1 0 0 0 3 4 0 0 20 0 1 0 12345 1 2";
        let zombie = tail.replacen('S', "Z", 1);
        let expected =
            Stat { parent: 7, job: Job { group: 8, terminal: 34817 }, is_zombie: false, start_time: 12345 };
        let table: &[(Vec<u8>, Option<Stat>)] = &[
            (format!("42 (sh) {tail}").into_bytes(), Some(expected.clone())),
            (format!("42 (a b c) {tail}").into_bytes(), Some(expected.clone())),
            (format!("42 (a) R 1 (b) {tail}").into_bytes(), Some(expected.clone())),
            (format!("42 ()))) {tail}").into_bytes(), Some(expected.clone())),
            (format!("42 (a\nb) {tail}\n").into_bytes(), Some(expected.clone())),
            ([b"42 (\xff\xfe) ", tail.as_bytes()].concat(), Some(expected.clone())),
            (format!("42 (gone) {zombie}").into_bytes(), Some(Stat { is_zombie: true, ..expected })),
            (b"42 (cut) S 7 8".to_vec(), None),
            (b"42 no name".to_vec(), None),
            (b"".to_vec(), None),
        ];
        for (line, stat) in table {
            assert_eq!(&parse_stat(line), stat, "{}", line.escape_ascii());
        }
    }
}
