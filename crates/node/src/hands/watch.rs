//! Waiting for a run: its folder changed, or its runner is gone. No polling.

use crate::os::EndOf;
use notify::{RecursiveMode, Watcher as _};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Notify;

pub(super) struct RunWatch {
    changed: Arc<Notify>,
    runner: Option<EndOf>,
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
        let runner = runner.and_then(EndOf::process);
        Self { changed, runner, _watcher: watcher }
    }

    /// Returns when it is worth looking again.
    pub(super) async fn news(&mut self) {
        let Some(runner) = &self.runner else { return self.changed.notified().await };
        let gone = tokio::select! {
            () = self.changed.notified() => false,
            () = runner.wait() => true,
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
