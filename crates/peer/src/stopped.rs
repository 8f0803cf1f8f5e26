//! Noticing that the process behind a Unix socket is stopped (SIGSTOP, a debugger).
//!
//! The kernel still takes connections and requests for such a process, so nothing fails; only no answer comes.

use crate::CallError;
use std::time::Duration;
use synapse_store::registry::is_stopped;
use tokio::net::UnixStream;

/// A process may be stopped for a moment and be resumed; so it is looked at more than once.
const LOOK_EVERY: Duration = Duration::from_millis(250);
const LOOKS: u32 = 4;

/// The process that listens at the other end of this connection, if the system tells.
pub(crate) fn pid_behind(stream: &UnixStream) -> Option<u32> {
    let pid = stream.peer_cred().ok()?.pid()?;
    // 0 if it is not in our space of pids.
    u32::try_from(pid).ok().filter(|pid| *pid > 0)
}

/// Returns once this process has been stopped at several looks in a row, else never.
pub(crate) async fn seen(pid: Option<u32>) -> u32 {
    let Some(pid) = pid else { return std::future::pending().await };
    let mut looks = 0;
    while looks < LOOKS {
        tokio::time::sleep(LOOK_EVERY).await;
        looks = if is_stopped(pid) { looks + 1 } else { 0 };
    }
    pid
}

pub(crate) fn error(pid: u32) -> CallError {
    CallError::NotResponding { why: format!("process {pid} is stopped; `kill -CONT {pid}` resumes it") }
}
