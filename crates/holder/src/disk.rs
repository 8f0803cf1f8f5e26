//! Files that are there whole or not at all, also after a power cut.
//!
//! Invariant: when a function here returns well, what it wrote survives.
//! Not here: what is in the files (`run_dir`, `holder`).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Replaces `folder/name` in one step; readers see the old or the new.
pub(crate) fn replace(folder: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    let draft = folder.join(format!(".{name}.tmp"));
    write(&draft, content)?;
    fs::rename(&draft, folder.join(name))?;
    sync_folder(folder)
}

/// Creates `folder/name` in one step with its content; `false` if it exists.
pub(crate) fn create_once(folder: &Path, name: &str, content: &[u8]) -> io::Result<bool> {
    let draft = folder.join(format!(".{name}.{}.tmp", std::process::id()));
    // A crash may have left a draft that is linked already; writing to it would
    // write to the file itself.
    remove_file_if_there(&draft)?;
    write(&draft, content)?;
    // A link, unlike a rename, never replaces; and unlike O_EXCL it never shows
    // a file that is still empty.
    let linked = fs::hard_link(&draft, folder.join(name));
    fs::remove_file(&draft)?;
    match linked {
        Ok(()) => sync_folder(folder).map(|()| true),
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

fn remove_file_if_there(path: &Path) -> io::Result<()> {
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
