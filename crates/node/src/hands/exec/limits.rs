//! What a command agent does while a limit of the system is in the way: nothing fails for it, it is tried again.
//!
//! Not here: messages that wait in the mailbox meanwhile (`start_gate`), which limits there are (`synapse-holder`).

use std::io;
use std::time::Duration;
use synapse_core::ids::TaskId;
use synapse_holder::SystemLimit;

/// Before what a limit of the system kept us from doing is tried again.
pub(super) const LIMIT_PAUSE: Duration = Duration::from_millis(250);

/// Does it now, or as soon as no limit of the system is in the way.
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

/// Tries again for as long as a limit of the system is what it fails for.
pub(super) async fn past_limits<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match attempt() {
            Err(e) if SystemLimit::of(&e).is_some() => tokio::time::sleep(LIMIT_PAUSE).await,
            other => return other,
        }
    }
}
