//! Files that are there whole or not at all, also after a power cut.
//!
//! Invariant: when a function here returns well, what it wrote survives.
//! Not here: what is in the files (`run_dir`, `holder`).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Replaces `folder/name` in one step; readers see the old or the new.
pub(crate) fn replace(folder: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    let draft = draft_of(folder, name);
    let mut file = private().write(true).create(true).truncate(false).open(&draft)?;
    file.write_all(content)?;
    // Cut last: another process could take the blocks of a file that is emptied first.
    file.set_len(content.len() as u64)?;
    file.sync_all()?;
    fs::rename(&draft, folder.join(name))?;
    sync_folder(folder)
}

/// Takes the room that `replace` needs for up to `bytes` bytes. A file system that never writes in place may still
/// need more.
pub(crate) fn reserve(folder: &Path, name: &str, bytes: usize) -> io::Result<()> {
    let mut file = private().write(true).create(true).truncate(false).open(draft_of(folder, name))?;
    file.write_all(&vec![b' '; bytes])
}

/// Gives back what `reserve` took.
pub(crate) fn release(folder: &Path, name: &str) -> io::Result<()> {
    remove_file_if_there(&draft_of(folder, name))
}

/// Creates `folder/name` in one step with its content; `false` if it exists.
pub(crate) fn create_once(folder: &Path, name: &str, content: &[u8]) -> io::Result<bool> {
    let draft = folder.join(format!(".{name}.{}.tmp", std::process::id()));
    // A crash may have left a draft that is linked already; writing to it would
    // write to the file itself.
    remove_file_if_there(&draft)?;
    write(&draft, content).inspect_err(|_| drop(fs::remove_file(&draft)))?;
    // A link, unlike a rename, never replaces; and unlike O_EXCL it never shows
    // a file that is still empty.
    let linked = fs::hard_link(&draft, folder.join(name));
    let removed = fs::remove_file(&draft);
    match linked {
        // An error means that there is no such file: the caller may try again.
        Ok(()) => removed
            .and_then(|()| sync_folder(folder))
            .map(|()| true)
            .inspect_err(|_| drop(fs::remove_file(folder.join(name)))),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Writes and syncs one file that no other user may read.
pub(crate) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = private().write(true).create(true).truncate(true).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

fn draft_of(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!(".{name}.tmp"))
}

pub(crate) fn remove_file_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Options for files that only their owner may read, and that are never
/// reached through a symbolic link someone left there.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    options
}
