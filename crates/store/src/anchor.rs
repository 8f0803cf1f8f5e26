//! Notices that files we have open were removed, replaced or cut short under their names (L13).
//!
//! What is written to such a file is gone with the process. It costs a `stat` for each file, about a microsecond.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Files under their names, as they were when they were opened.
#[derive(Debug)]
pub(crate) struct Anchor(Vec<AnchoredFile>);

#[derive(Debug)]
struct AnchoredFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
    /// A file that is shorter has lost something that we wrote.
    bytes_min: u64,
}

impl Anchor {
    /// Of these paths, those that exist. Any length is fine until `require` says otherwise.
    pub(crate) fn of<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Self {
        let anchored = |path: &Path| {
            let found = path.symlink_metadata().ok()?;
            Some(AnchoredFile { path: path.to_owned(), identity: (found.dev(), found.ino()), bytes_min: 0 })
        };
        Self(paths.into_iter().filter_map(anchored).collect())
    }

    /// From now on this file must have at least so many bytes.
    pub(crate) fn require(&mut self, path: &Path, bytes_min: u64) {
        if let Some(file) = self.0.iter_mut().find(|file| file.path == path) {
            file.bytes_min = bytes_min;
        }
    }

    /// Whether each name still leads to the same file, with at least the bytes that it must have.
    pub(crate) fn holds(&self) -> bool {
        self.0.iter().all(|file| {
            let found = file.path.symlink_metadata();
            found.is_ok_and(|found| {
                (found.dev(), found.ino()) == file.identity && found.len() >= file.bytes_min
            })
        })
    }
}
