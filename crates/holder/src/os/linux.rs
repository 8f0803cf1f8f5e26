//! Linux: `/proc`, pidfds, FIFOs.
//!
//! Invariant: a signal goes only to the process that was looked at, even if
//! its pid is given to another in between.
//! Not here: other systems (`os/other.rs`).

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::io::Errno;
use rustix::process::{self, PidfdFlags, Signal};

use super::{INPUT_LOOK_EVERY, Job, PeerDescriptor, Stat, pid_of};
use crate::limit::SystemLimit;

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
    // Read once: later there may be no descriptor left to read it with, and then nothing would seem to be of this boot.
    static BOOT: OnceLock<String> = OnceLock::new();
    if let Some(boot) = BOOT.get() {
        return boot.clone();
    }
    match fs::read_to_string("/proc/sys/kernel/random/boot_id") {
        Ok(id) => BOOT.get_or_init(|| id.trim().to_owned()).clone(),
        Err(_) => String::new(),
    }
}

pub(crate) fn stat(pid: u32) -> Option<Stat> {
    look_at(pid).ok().flatten()
}

/// As `stat`; an error if a limit of the system kept us from looking.
pub(crate) fn look_at(pid: u32) -> io::Result<Option<Stat>> {
    match fs::read(format!("/proc/{pid}/stat")) {
        Ok(line) => Ok(parse_stat(&line)),
        Err(error) if SystemLimit::of(&error).is_some() => Err(error),
        Err(_) => Ok(None),
    }
}

/// Every process there is, with its parent: `(pid, parent)`.
pub(crate) fn all_parents() -> Result<Vec<(u32, u32)>, SystemLimit> {
    let mut parents = Vec::new();
    for pid in numbered_entries(Path::new("/proc"))? {
        if let Ok(Some(stat)) = SystemLimit::check(look_at(pid))? {
            parents.push((pid, stat.parent));
        }
    }
    Ok(parents)
}

/// Whether the kernel was built to list children directly.
pub(crate) fn lists_children() -> bool {
    Path::new("/proc/thread-self/children").exists()
}

/// The children of all threads of `pid`; only with `lists_children`.
pub(crate) fn children_of(pid: u32) -> Result<Vec<u32>, SystemLimit> {
    let tasks = format!("/proc/{pid}/task");
    let mut children = Vec::new();
    for task in numbered_entries(Path::new(&tasks))? {
        if let Ok(line) = SystemLimit::check(fs::read_to_string(format!("{tasks}/{task}/children")))? {
            children.extend(line.split_ascii_whitespace().filter_map(|word| word.parse::<u32>().ok()));
        }
    }
    Ok(children)
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

/// A descriptor of the process that has this pid now; none if there is none, or on old kernels.
pub(crate) fn open_process(pid: u32) -> Result<Option<OwnedFd>, SystemLimit> {
    let Some(pid) = pid_of(pid) else { return Ok(None) };
    let opened = process::pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from);
    Ok(SystemLimit::check(opened)?.ok())
}

/// Whether the process of a pidfd has ended: the kernel makes it readable then.
pub(crate) fn has_ended(process: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    loop {
        match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(ready) => return ready != 0,
            Err(Errno::INTR) => {}
            Err(_) => return true,
        }
    }
}

/// The pid and the user of whoever connected to this socket, as they were then.
pub(crate) fn peer_credentials(socket: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    // Not `rustix`: its pid cannot be 0, which is what the kernel says of a process outside of our PID namespace.
    let nobody = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let found = socket_option(socket, libc::SO_PEERCRED, nobody)?;
    Ok((found.pid.cast_unsigned(), found.uid))
}

/// The very process that connected to this socket. Since Linux 6.5.
#[allow(unsafe_code)]
pub(crate) fn peer_descriptor(socket: BorrowedFd<'_>) -> Result<PeerDescriptor, SystemLimit> {
    Ok(match SystemLimit::check(socket_option::<RawFd>(socket, libc::SO_PEERPIDFD, -1))? {
        // SAFETY: the kernel made this descriptor for us in the call above, and nothing else knows of it.
        Ok(descriptor) if descriptor >= 0 => {
            PeerDescriptor::Process(unsafe { OwnedFd::from_raw_fd(descriptor) })
        }
        Err(e) if e.raw_os_error() == Some(libc::ENOPROTOOPT) => PeerDescriptor::Unsupported,
        _ => PeerDescriptor::Gone,
    })
}

/// Reads an option of a socket. `T` is one of the plain structures of numbers that the kernel fills.
#[allow(unsafe_code)]
fn socket_option<T: Copy>(socket: BorrowedFd<'_>, name: libc::c_int, mut value: T) -> io::Result<T> {
    let size = size_of::<T>();
    let mut length = libc::socklen_t::try_from(size).map_err(io::Error::other)?;
    // SAFETY: `value` and `length` live across the call, and `length` is the size of `value`, of which the kernel
    // writes no more. `T` is private to this file: numbers only, for which every pattern of bits is valid.
    let failed = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, (&raw mut value).cast(), &raw mut length)
    };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    if length as usize == size { Ok(value) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// Now, on the clock by which the kernel tells when a process started.
pub(crate) fn now_as_start_time() -> Result<Option<u64>, SystemLimit> {
    Ok(SystemLimit::check(fs::read_to_string("/proc/uptime"))?.ok().and_then(|text| parse_uptime(&text)))
}

/// Seconds since the boot with two decimals, as the hundredths in which `/proc/<pid>/stat` counts.
fn parse_uptime(text: &str) -> Option<u64> {
    let (seconds, hundredths) = text.split_ascii_whitespace().next()?.split_once('.')?;
    Some(seconds.parse::<u64>().ok()? * 100 + hundredths.parse::<u64>().ok()?)
}

pub(crate) fn name_of(pid: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_owned())
}

/// Wakes the runner when its command gets more input: whoever adds some writes a byte into this FIFO. It costs no
/// inotify instance, of which a user has 128 by default.
pub(crate) struct InputWatch {
    /// None on a file system without FIFOs; then the input is looked at from time to time.
    fifo: Option<File>,
}

impl InputWatch {
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        match mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) if SystemLimit::of(&error.into()).is_some() => return Err(error.into()),
            Err(_) => return Ok(Self { fifo: None }),
        }
        // For writing too, so that it opens at once and never reads as ended.
        let flags = OFlags::NOFOLLOW.bits().cast_signed();
        let fifo = File::options().read(true).write(true).custom_flags(flags).open(path)?;
        Ok(Self { fifo: Some(fifo) })
    }

    /// Returns after `wake_input` was called since the last time, or since `new`.
    pub(crate) fn wait(&self) -> io::Result<()> {
        let Some(mut fifo) = self.fifo.as_ref() else {
            std::thread::sleep(INPUT_LOOK_EVERY);
            return Ok(());
        };
        let mut wakes = [0; 512];
        loop {
            match fifo.read(&mut wakes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other.map(drop),
            }
        }
    }
}

/// Wakes the `InputWatch` at this path, if there is one; if not, its runner has yet to read the input.
pub(crate) fn wake_input(path: &Path) {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    for _ in 0..WAKE_TRIES {
        match File::options().write(true).custom_flags(flags).open(path) {
            Ok(mut fifo) => {
                // One that is full wakes its reader already.
                let _ = fifo.write(b"!");
                return;
            }
            Err(error) if SystemLimit::of(&error).is_some() => std::thread::sleep(WAKE_PAUSE),
            Err(_) => return,
        }
    }
}

const WAKE_TRIES: u32 = 20;
const WAKE_PAUSE: Duration = Duration::from_millis(5);

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

fn numbered_entries(folder: &Path) -> Result<Vec<u32>, SystemLimit> {
    let entries = SystemLimit::check(fs::read_dir(folder))?.into_iter().flatten().flatten();
    Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
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
