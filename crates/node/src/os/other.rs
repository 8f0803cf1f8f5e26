//! Systems that do not report the end of a process: polls at intervals.
//!
//! Not here: Linux (`os/linux.rs`), the only system where all guarantees hold.

use rustix::process::{Signal, getpid, getppid, kill_process};
use std::time::Duration;
use synapse_holder::ProcessMark;

const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Sends this process SIGTERM within half a second after its parent dies.
pub(crate) fn end_with_parent() {
    let parent = getppid();
    std::thread::spawn(move || {
        while getppid() == parent {
            std::thread::sleep(LOOK_EVERY);
        }
        let _ = kill_process(getpid(), Signal::TERM);
    });
}

/// Waits for the end of a process by polling.
pub(crate) struct EndOf(ProcessMark);

impl EndOf {
    /// Returns `None` if there is no such process.
    pub(crate) fn process(pid: u32) -> std::io::Result<Option<Self>> {
        Ok(ProcessMark::of(pid).map(Self))
    }

    pub(crate) async fn wait(&self) {
        while self.0.is_alive() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// Does nothing: the system reclaims such pages by itself when it needs them.
pub(crate) fn give_back_code() {}
