//! Attachments: files that came with messages, in a folder of the agent, each named by the
//! digest of its bytes.
//!
//! Equal files are stored once. The journal knows which message refers to which file (table
//! `attachment`). A file that no message refers to is removed, but only after a delay, because its
//! message may still be under way.
//!
//! Invariant: when `put` returns, the file has the bytes that its name says, and only
//! this user can read it.
//! Not here: which caller may read one (`synapse-node`).

use crate::files::{self, Access, FileError};
use rustix::fs::OFlags;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use synapse_core::message::{Digest, FileRef};

/// How long a file without a message is kept.
const UNUSED_AGE: Duration = Duration::from_secs(3_600);

pub struct Attachments {
    dir: PathBuf,
}

/// Why a file was not stored.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    #[error("the files of this agent may have {max} bytes together (limits.files_bytes_max)")]
    NoRoom { max: u64 },
    #[error("the file could not be stored: {0}")]
    Disk(#[from] FileError),
}

impl Attachments {
    pub fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    pub fn path(&self, file: &FileRef) -> PathBuf {
        self.dir.join(file.sha256.hex())
    }

    /// Stores these bytes, unless the total would then exceed `total_max`.
    pub fn put(&self, bytes: &[u8], total_max: u64) -> Result<FileRef, AttachError> {
        files::private_dir(&self.dir)?;
        let file = FileRef { sha256: Digest::of(bytes), bytes: bytes.len() as u64 };
        let path = self.path(&file);
        // A program may have changed the stored file, because it was given the path.
        let kept = files::read_private(&path, bytes.len(), Access::Secret).ok();
        if kept.is_some_and(|kept| kept == bytes) {
            // Refresh its age: the message that brings it now is not in the journal yet.
            let touched = File::options().append(true).open(&path);
            let _ = touched.and_then(|file| file.set_modified(SystemTime::now()));
            return Ok(file);
        }
        if self.total()? + file.bytes > total_max {
            return Err(AttachError::NoRoom { max: total_max });
        }
        files::write_private(&path, bytes)?;
        Ok(file)
    }

    /// Opens a file for reading, without loading it.
    pub fn open(&self, file: &FileRef) -> Result<File, FileError> {
        let path = self.path(file);
        let mut options = File::options();
        options.read(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        let opened = options.open(&path).map_err(|error| FileError::io(&path, "open", error))?;
        files::check_open(&opened, Access::Secret, &path)?;
        Ok(opened)
    }

    /// Removes files that no message refers to, and returns how many.
    pub fn sweep(&self, mut is_used: impl FnMut(&str) -> bool) -> Result<usize, FileError> {
        let mut removed = 0;
        let cutoff = SystemTime::now() - UNUSED_AGE;
        for (name, meta) in self.entries()? {
            let is_old = meta.modified().is_ok_and(|at| at < cutoff);
            if is_old && !is_used(&name) {
                files::remove(&self.dir.join(&name))?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    fn total(&self) -> Result<u64, FileError> {
        Ok(self.entries()?.iter().map(|(_, meta)| meta.len()).sum())
    }

    fn entries(&self) -> Result<Vec<(String, std::fs::Metadata)>, FileError> {
        let listed = match std::fs::read_dir(&self.dir) {
            Ok(listed) => listed,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(FileError::io(&self.dir, "list", error)),
        };
        let found = listed.flatten().filter_map(|entry| {
            let meta = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
            Some((entry.file_name().into_string().ok()?, meta))
        });
        Ok(found.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn aged(attachments: &Attachments, file: &FileRef) {
        let old = SystemTime::now() - 2 * UNUSED_AGE;
        File::options().append(true).open(attachments.path(file)).unwrap().set_modified(old).unwrap();
    }

    /// Finding A8: equal bytes are one file, only this user can read it, and the total is limited.
    #[test]
    fn same_bytes_are_kept_once() {
        let root = tempfile::tempdir().unwrap();
        let attachments = Attachments::new(root.path().join("files"));
        let one = attachments.put(b"hello", 10).unwrap();
        assert_eq!(attachments.put(b"hello", 10).unwrap(), one);
        assert_eq!(attachments.total().unwrap(), 5);
        let mode = std::fs::metadata(attachments.path(&one)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(matches!(attachments.put(b"hello!", 10), Err(AttachError::NoRoom { max: 10 })));
        // A file that a program changed is restored.
        std::fs::write(attachments.path(&one), b"hullo").unwrap();
        attachments.put(b"hello", 20).unwrap();
        assert_eq!(std::fs::read(attachments.path(&one)).unwrap(), b"hello");
    }

    #[test]
    fn files_without_a_message_are_removed_after_a_while() {
        let root = tempfile::tempdir().unwrap();
        let attachments = Attachments::new(root.path().join("files"));
        let (used, unused) = (attachments.put(b"used", 99).unwrap(), attachments.put(b"unused", 99).unwrap());
        let is_used = |name: &str| name == used.sha256.hex();
        assert_eq!(attachments.sweep(is_used).unwrap(), 0, "its message may be on its way");
        aged(&attachments, &used);
        aged(&attachments, &unused);
        assert_eq!(attachments.sweep(is_used).unwrap(), 1);
        assert!(attachments.open(&used).is_ok() && attachments.open(&unused).is_err());
    }
}
