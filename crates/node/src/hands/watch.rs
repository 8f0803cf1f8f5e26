//! Waits for a run: its folder changed, or its runner is gone.
//!
//! The node's one file watcher and a pidfd report this without polling. Where the system has no
//! more of either, the run is polled; it never fails for that reason.

use crate::folders::{Changes, FolderWatcher};
use crate::os::EndOf;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

pub(crate) struct RunWatch {
    changed: Arc<Notify>,
    runner: Runner,
    is_watched: bool,
    folder: PathBuf,
    folders: FolderWatcher,
}

enum Runner {
    Watched(EndOf),
    /// It runs, and nothing reports when it ends.
    Unwatched,
    Gone,
}

/// The polling interval for a run that cannot be watched.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// On other systems, adding a folder to a watcher may lose events of the others.
const IS_RELIABLE: bool = cfg!(target_os = "linux");

impl RunWatch {
    pub(crate) fn new(folders: &FolderWatcher, folder: &Path, runner: Option<u32>) -> Self {
        let changed = Arc::new(Notify::new());
        folders.notify(folder, Changes::Arrivals, &changed);
        let is_watched = IS_RELIABLE && folders.watch(folder);
        let runner = match runner.map(EndOf::process) {
            None | Some(Ok(None)) => Runner::Gone,
            Some(Ok(Some(end))) => Runner::Watched(end),
            Some(Err(_)) => Runner::Unwatched,
        };
        Self { changed, runner, is_watched, folder: folder.to_owned(), folders: folders.clone() }
    }

    /// Returns when it is worth looking again.
    pub(crate) async fn news(&mut self) {
        let is_told = self.is_watched && !matches!(self.runner, Runner::Unwatched);
        let next_look = async {
            match is_told {
                true => std::future::pending().await,
                false => tokio::time::sleep(LOOK_EVERY).await,
            }
        };
        let end = async {
            match &self.runner {
                Runner::Watched(end) => end.wait().await,
                Runner::Unwatched | Runner::Gone => std::future::pending().await,
            }
        };
        let is_gone = tokio::select! {
            () = self.changed.notified() => false,
            () = next_look => false,
            () = end => true,
        };
        if is_gone {
            self.runner = Runner::Gone;
        }
    }

    /// Whether the runner is gone, so nothing changes any more without us.
    pub(super) fn runner_is_gone(&self) -> bool {
        matches!(self.runner, Runner::Gone)
    }
}

impl Drop for RunWatch {
    fn drop(&mut self) {
        self.folders.forget(&self.folder);
    }
}
