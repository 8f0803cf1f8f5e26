//! Linux: the death signal of the parent, and descriptors of processes.

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use std::os::fd::OwnedFd;
use tokio::io::unix::AsyncFd;

/// From now on the death of the parent is a SIGTERM to this process.
pub(crate) fn end_with_parent() {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
}

/// The end of a process, waited for without looking.
pub(crate) struct EndOf(AsyncFd<OwnedFd>);

impl EndOf {
    /// None if there is no such process, or the system has no descriptors for processes.
    pub(crate) fn process(pid: u32) -> Option<Self> {
        let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
        watched(pidfd_open(pid, PidfdFlags::NONBLOCK).ok()?).map(Self)
    }

    pub(crate) async fn wait(&self) {
        let _ = self.0.readable().await;
    }
}

#[allow(unsafe_code)]
fn watched(pidfd: OwnedFd) -> Option<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor must stay open and the same while it is registered. It is owned, moved into the
    // `AsyncFd` and never taken out or duplicated, so nothing else can close or replace it before that drops.
    unsafe { AsyncFd::register(pidfd) }.ok()
}
