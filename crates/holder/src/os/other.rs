//! Systems without `/proc`: answers from `ps`, and looks at intervals.
//!
//! There is no subreaper, so an orphan that leaves the tree is lost to us, and
//! a signal may in theory meet a reused pid.
//! Not here: Linux (`os/linux.rs`), the only system where all promises hold.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{self, Signal};

use super::{INPUT_LOOK_EVERY, Job, PeerDescriptor, Stat, pid_of};
use crate::limit::SystemLimit;

pub(crate) fn own_program() -> io::Result<PathBuf> {
    std::env::current_exe()
}

pub(crate) fn become_subreaper() -> io::Result<()> {
    Ok(())
}

pub(crate) fn boot_id() -> String {
    String::new()
}

pub(crate) fn stat(pid: u32) -> Option<Stat> {
    let line = ps(&["-o", "ppid=,pgid=,tty=,state=,lstart=", "-p", &pid.to_string()])?;
    let mut words = line.split_ascii_whitespace();
    let parent = words.next()?.parse().ok()?;
    let group = words.next()?.parse().ok()?;
    let terminal = words.next().filter(|name| !name.contains('?')).map_or(0, |name| number_of(&name));
    let is_zombie = words.next()?.starts_with('Z');
    // The start is a date in words; any number that follows from it will do.
    let start_time = number_of(&words.collect::<Vec<_>>());
    Some(Stat { parent, job: Job { group, terminal }, is_zombie, start_time })
}

/// As `stat`; an error if a limit of the system kept us from looking.
pub(crate) fn look_at(pid: u32) -> io::Result<Option<Stat>> {
    Ok(stat(pid))
}

fn number_of(words: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    words.hash(&mut hasher);
    hasher.finish()
}

pub(crate) fn all_parents() -> Result<Vec<(u32, u32)>, SystemLimit> {
    let parents = ps(&["-A", "-o", "pid=,ppid="])
        .unwrap_or_default()
        .lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
        })
        .collect();
    Ok(parents)
}

pub(crate) fn lists_children() -> bool {
    false
}

pub(crate) fn children_of(_pid: u32) -> Result<Vec<u32>, SystemLimit> {
    Ok(Vec::new())
}

pub(crate) fn signal_if(pid: u32, signal: Signal, is_meant: impl Fn(&Stat) -> bool) -> bool {
    let Some(target) = pid_of(pid) else {
        return false;
    };
    stat(pid).is_some_and(|seen| is_meant(&seen)) && process::kill_process(target, signal).is_ok()
}

/// There are no descriptors for processes: a process is told from another by when it started.
pub(crate) fn open_process(_pid: u32) -> Result<Option<OwnedFd>, SystemLimit> {
    Ok(None)
}

pub(crate) fn has_ended(_process: &OwnedFd) -> bool {
    true
}

pub(crate) fn peer_descriptor(_socket: BorrowedFd<'_>) -> Result<PeerDescriptor, SystemLimit> {
    Ok(PeerDescriptor::Unsupported)
}

/// Starts are told in words and compared as such; there is no clock to compare them with.
pub(crate) fn now_as_start_time() -> Result<Option<u64>, SystemLimit> {
    Ok(None)
}

pub(crate) fn name_of(pid: u32) -> Option<String> {
    let name = ps(&["-o", "comm=", "-p", &pid.to_string()])?;
    Some(name.trim().rsplit('/').next().unwrap_or_default().to_owned())
}

/// The pid and the user of whoever connected to this socket.
#[cfg(target_vendor = "apple")]
#[allow(unsafe_code)]
pub(crate) fn peer_credentials(socket: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    let (mut uid, mut gid): (libc::uid_t, libc::gid_t) = (0, 0);
    // SAFETY: both numbers live across the call, which writes one user and one group and nothing else.
    if unsafe { libc::getpeereid(socket.as_raw_fd(), &raw mut uid, &raw mut gid) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut pid: libc::pid_t = 0;
    let mut length = libc::socklen_t::try_from(size_of::<libc::pid_t>()).map_err(io::Error::other)?;
    // SAFETY: `pid` and `length` live across the call, and `length` is the size of `pid`, a plain number.
    let failed = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_LOCAL,
            libc::LOCAL_PEERPID,
            (&raw mut pid).cast(),
            &raw mut length,
        )
    };
    if failed != 0 { Err(io::Error::last_os_error()) } else { Ok((pid.cast_unsigned(), uid)) }
}

#[cfg(not(target_vendor = "apple"))]
pub(crate) fn peer_credentials(socket: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    let _ = socket.as_raw_fd();
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system does not tell who connects"))
}

pub(crate) struct InputWatch;

impl InputWatch {
    pub(crate) fn new(_path: &Path) -> io::Result<Self> {
        Ok(Self)
    }

    pub(crate) fn wait(&self) -> io::Result<()> {
        std::thread::sleep(INPUT_LOOK_EVERY);
        Ok(())
    }
}

/// Nothing to wake: the input is looked at from time to time.
pub(crate) fn wake_input(_path: &Path) {}

fn ps(arguments: &[&str]) -> Option<String> {
    let output = Command::new("ps").args(arguments).env("LC_ALL", "C").output().ok()?;
    String::from_utf8(output.stdout).ok()
}
