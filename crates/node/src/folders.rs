//! The one file watcher of a node: notifies of changes in folders.
//!
//! Linux gives a user 128 inotify instances for all programs together, so a node has only one,
//! whatever it watches and however many tasks run (A1). Without it, or for a folder that cannot be
//! watched, callers poll.
//!
//! Not here: what is in the folders (`post`, `outbox`, `profiles`, `hands`).

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The changes of a folder that a caller wants to know of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changes {
    /// New and changed files.
    Arrivals,
    /// New, changed and removed files.
    All,
}

/// Shared by everything in a node that waits for files.
#[derive(Clone)]
pub struct FolderWatcher {
    interests: Arc<Mutex<Interests>>,
    /// `None` if the system has no more watchers.
    watcher: Option<Arc<Mutex<RecommendedWatcher>>>,
}

type Interests = HashMap<PathBuf, (Changes, Arc<Notify>)>;

impl FolderWatcher {
    pub fn start() -> Self {
        let interests: Arc<Mutex<Interests>> = Arc::default();
        let wanted = interests.clone();
        let watcher = notify::recommended_watcher(move |event| notify_interested(&lock(&wanted), event));
        if let Err(e) = &watcher {
            tracing::warn!(
                error = %e,
                "folders cannot be watched (sysctl fs.inotify.max_user_instances?); they are looked at every few seconds"
            );
        }
        Self { interests, watcher: watcher.ok().map(|watcher| Arc::new(Mutex::new(watcher))) }
    }

    /// Notifies `news` of changes in `folder`, once that or the folder above it is watched.
    pub fn notify(&self, folder: &Path, changes: Changes, news: &Arc<Notify>) {
        lock(&self.interests).insert(folder.to_owned(), (changes, news.clone()));
    }

    /// Watches a folder that exists. Returns false if that is not possible.
    pub fn watch(&self, folder: &Path) -> bool {
        let Some(watcher) = &self.watcher else { return false };
        let watched = lock(watcher).watch(folder, RecursiveMode::NonRecursive);
        if let Err(e) = &watched {
            tracing::debug!(error = %e, folder = %folder.display(), "this folder is not watched");
        }
        watched.is_ok()
    }

    /// Stops watching a folder. A folder that was removed meanwhile is not watched anyway.
    pub fn forget(&self, folder: &Path) {
        lock(&self.interests).remove(folder);
        if let Some(watcher) = &self.watcher {
            let _ = lock(watcher).unwatch(folder);
        }
    }
}

fn notify_interested(interests: &Interests, event: notify::Result<notify::Event>) {
    // Events were lost, so every waiter has to look.
    let Ok(event) = event.as_ref().map_err(drop).and_then(|e| if e.need_rescan() { Err(()) } else { Ok(e) })
    else {
        interests.values().for_each(|(_, news)| news.notify_one());
        return;
    };
    let arrives = matches!(event.kind, EventKind::Create(_) | EventKind::Modify(_));
    let leaves = matches!(event.kind, EventKind::Remove(_));
    for path in &event.paths {
        let folders = [Some(path.as_path()), path.parent()].into_iter().flatten();
        for (changes, news) in folders.filter_map(|folder| interests.get(folder)) {
            if arrives || (leaves && *changes == Changes::All) {
                news.notify_one();
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
