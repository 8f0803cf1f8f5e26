//! Systems that do not tell of the end of a process: looks at intervals.
//!
//! Not here: Linux (`os/linux.rs`), the only system where all promises hold.

use rustix::process::{Signal, getpid, getppid, kill_process};
use std::time::Duration;
use synapse_holder::ProcessMark;

const LOOK_EVERY: Duration = Duration::from_millis(500);

/// From now on the death of the parent is a SIGTERM to this process, within half a second.
pub(crate) fn end_with_parent() {
    let parent = getppid();
    std::thread::spawn(move || {
        while getppid() == parent {
            std::thread::sleep(LOOK_EVERY);
        }
        let _ = kill_process(getpid(), Signal::TERM);
    });
}

/// The end of a process, looked for at intervals.
pub(crate) struct EndOf(ProcessMark);

impl EndOf {
    /// None if there is no such process.
    pub(crate) fn process(pid: u32) -> std::io::Result<Option<Self>> {
        Ok(ProcessMark::of(pid).map(Self))
    }

    pub(crate) async fn wait(&self) {
        while self.0.is_alive() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// Nothing to be done: the system takes such pages back by itself when it needs them.
pub(crate) fn give_back_code() {}
