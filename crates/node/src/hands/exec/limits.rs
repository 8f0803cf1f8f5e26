//! Retries what a system limit prevents a command agent from doing, instead of failing.
//!
//! Not here: messages that wait in the mailbox meanwhile (`start_gate`), the definition of the
//! limits (`synapse-holder`).

use std::io;
use std::time::Duration;
use synapse_core::ids::TaskId;
use synapse_holder::SystemLimit;

/// The pause before a retry after a system limit.
pub(super) const LIMIT_PAUSE: Duration = Duration::from_millis(250);

/// Runs `attempt` now, or retries it in the background while a system limit prevents it.
pub(super) fn until_done(
    task: TaskId,
    failed: &'static str,
    attempt: impl Fn() -> io::Result<()> + Send + Sync + 'static,
) {
    let warn = move |e: io::Error| tracing::warn!(%task, error = %e, "{failed}");
    match attempt() {
        Err(e) if SystemLimit::of(&e).is_some() => {
            warn(e);
            tokio::spawn(async move { past_limits(attempt).await.unwrap_or_else(warn) });
        }
        other => other.unwrap_or_else(warn),
    }
}

/// Retries for as long as the failure is a system limit.
pub(super) async fn past_limits<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match attempt() {
            Err(e) if SystemLimit::of(&e).is_some() => tokio::time::sleep(LIMIT_PAUSE).await,
            other => return other,
        }
    }
}
