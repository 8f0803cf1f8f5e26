//! What only the operating system can tell: who is whose child, since when a
//! process lives, when a command has more input.
//!
//! Linux answers from `/proc`, pidfds and FIFOs. Elsewhere the answers are
//! coarser (`os/other.rs`), so that everything still compiles and mostly works.
//!
//! Invariant: a process that vanishes while it is looked at is "not there",
//! never an error.
//! Not here: what to do with the answers (`reaper`, `process`, `runner`).

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::*;

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::*;

use rustix::process::Pid;
use std::time::Duration;

/// Where nothing wakes the runner, it looks at its input this often.
const INPUT_LOOK_EVERY: Duration = Duration::from_millis(200);

/// What one look at a process tells about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) parent: u32,
    pub(crate) job: Job,
    /// Dead already, and only waiting for its parent to take notice.
    pub(crate) is_zombie: bool,
    /// Fixed for the life of a process; differs between two lives of one pid.
    pub(crate) start_time: u64,
}

/// What the kernel gives us of the process that connected to a socket.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(crate) enum PeerDescriptor {
    Process(std::os::fd::OwnedFd),
    /// It has ended.
    Gone,
    /// This kernel tells only a pid.
    Unsupported,
}

/// Where a process stands among the jobs of a shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Its process group; `0` if that was made outside of our PID namespace.
    pub group: u32,
    /// A number for its controlling terminal; `0` if it has none. No two sessions have the same one.
    pub terminal: u64,
}

/// `0` and numbers beyond the kernel's range name no process; to `kill` they
/// would even mean a whole group.
pub(crate) fn pid_of(raw: u32) -> Option<Pid> {
    i32::try_from(raw).ok().and_then(Pid::from_raw)
}
