//! Something may have changed: rings when files in a folder change, so that nobody has to look again and again.
//!
//! Where the system cannot tell (no more watches), and for what no file tells (a killed process), it rings by
//! itself after a while.

use notify::{RecursiveMode, Watcher as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

pub(super) struct Bell {
    news: Arc<Notify>,
    watcher: Option<notify::RecommendedWatcher>,
}

impl Bell {
    /// Rings for changes of the files in this folder.
    pub(super) fn at(folder: &Path) -> Self {
        let news = Arc::new(Notify::new());
        let told = news.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| !event.kind.is_access()) {
                told.notify_one();
            }
        });
        let watcher = watcher.ok().and_then(|mut watcher| {
            watcher.watch(folder, RecursiveMode::NonRecursive).ok()?;
            Some(watcher)
        });
        Self { news, watcher }
    }

    /// Returns at the next change, or after `at_most`.
    pub(super) async fn rung(&self, at_most: Duration) {
        const WITHOUT_WATCH: Duration = Duration::from_millis(500);
        let limit = if self.watcher.is_some() { at_most } else { at_most.min(WITHOUT_WATCH) };
        let _ = tokio::time::timeout(limit, self.news.notified()).await;
    }
}
