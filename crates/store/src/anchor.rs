//! Notices that files we have open were removed or replaced under their names (L13).
//!
//! What is written to such a file is gone with the process. It costs a `stat` for each file, about a microsecond.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Files under their names, as they were when they were opened.
#[derive(Debug)]
pub(crate) struct Anchor(Vec<(PathBuf, (u64, u64))>);

impl Anchor {
    /// Of these paths, those that exist.
    pub(crate) fn of<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Self {
        Self(paths.into_iter().filter_map(|path| Some((path.to_owned(), identity(path)?))).collect())
    }

    /// Whether each name still leads to the same file.
    pub(crate) fn holds(&self) -> bool {
        self.0.iter().all(|(path, own)| identity(path) == Some(*own))
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    path.symlink_metadata().ok().map(|found| (found.dev(), found.ino()))
}
