//! Detects that an open file was removed, replaced or truncated under its name (L13).
//!
//! Anything written to such a file is lost when the process exits. Each check costs a `stat` per
//! file, about a microsecond.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The files with their identities at the time they were opened.
#[derive(Debug)]
pub(crate) struct Anchor(Vec<AnchoredFile>);

#[derive(Debug)]
struct AnchoredFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
    /// A shorter file has lost data that we wrote.
    bytes_min: u64,
}

impl Anchor {
    /// Anchors those of the paths that exist. Any length is accepted until
    /// `require` sets a minimum.
    pub(crate) fn of<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Self {
        let anchored = |path: &Path| {
            let found = path.symlink_metadata().ok()?;
            Some(AnchoredFile { path: path.to_owned(), identity: (found.dev(), found.ino()), bytes_min: 0 })
        };
        Self(paths.into_iter().filter_map(anchored).collect())
    }

    /// Requires at least this many bytes from now on.
    pub(crate) fn require(&mut self, path: &Path, bytes_min: u64) {
        if let Some(file) = self.0.iter_mut().find(|file| file.path == path) {
            file.bytes_min = bytes_min;
        }
    }

    /// Whether each name still leads to the same file, with at least the required bytes.
    pub(crate) fn holds(&self) -> bool {
        self.0.iter().all(|file| {
            let found = file.path.symlink_metadata();
            found.is_ok_and(|found| {
                (found.dev(), found.ino()) == file.identity && found.len() >= file.bytes_min
            })
        })
    }
}
