//! Waiting for a run: its folder changed, or its runner is gone. No polling.

use notify::{RecursiveMode, Watcher as _};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

pub(super) struct RunWatch {
    changed: Arc<Notify>,
    runner: Option<AsyncFd<OwnedFd>>,
    _watcher: Option<notify::RecommendedWatcher>,
}

impl RunWatch {
    pub(super) fn new(dir: &Path, runner: Option<u32>) -> Self {
        let changed = Arc::new(Notify::new());
        let news = changed.clone();
        let told = move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|e| !e.kind.is_access()) {
                news.notify_one();
            }
        };
        let watcher = notify::recommended_watcher(told).ok().and_then(|mut watcher| {
            watcher.watch(dir, RecursiveMode::NonRecursive).ok()?;
            Some(watcher)
        });
        let pid = runner.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        let runner = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::NONBLOCK).ok()).and_then(watched);
        Self { changed, runner, _watcher: watcher }
    }

    /// Returns when it is worth looking again.
    pub(super) async fn news(&mut self) {
        let Some(runner) = &self.runner else { return self.changed.notified().await };
        let gone = tokio::select! {
            () = self.changed.notified() => false,
            _ = runner.readable() => true,
        };
        if gone {
            self.runner = None;
        }
    }

    /// Nothing can change any more without our doing.
    pub(super) fn runner_is_gone(&self) -> bool {
        self.runner.is_none()
    }
}

#[allow(unsafe_code)]
fn watched(pidfd: OwnedFd) -> Option<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor must stay open and the same while it is registered. It is owned, moved into the
    // `AsyncFd` and never taken out or duplicated, so nothing else can close or replace it before that drops.
    unsafe { AsyncFd::register(pidfd) }.ok()
}
