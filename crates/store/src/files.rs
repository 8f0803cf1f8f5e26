//! Safe file access: files are written whole or not at all, and read only if
//! they belong to this user.
//!
//! Another user of the machine may have put anything at any path before us. So these functions
//! never follow a symbolic link at the end of a path, never read what another user owns, never wait
//! for the other end of a pipe, and never read without a limit. Checks are made on the open file,
//! because a name may be replaced.
//!
//! Invariant: once `write_private` returns, the content survives a power cut; a reader sees either
//! the old or the new content.
//! Not here: which files there are (`home`), and what is in them.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawMode, Stat};
use rustix::io::Errno;

/// Why a file or directory was not used, and what helps.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error(
        "{} is a symbolic link, which is not followed because another user could have put it there; \
         if it is yours, put the real thing in its place: `ls -l {0}`", .path.display()
    )]
    Symlink { path: PathBuf },
    #[error(
        "{} belongs to another user (uid {uid}), so it is not trusted; \
         as that user or an administrator: `chown {} {0}`, or move it away", .path.display(), our_uid()
    )]
    Foreign { path: PathBuf, uid: u32 },
    #[error(
        "{} is open to other users (mode {mode:03o}), so it is not trusted; look at what is in it, \
         then: `chmod {wanted:03o} {0}`", .path.display()
    )]
    TooOpen { path: PathBuf, mode: u32, wanted: u32 },
    #[error("{} has a second name (a hard link), so it is not trusted; move it away: `ls -l {0}`", .path.display())]
    HardLink { path: PathBuf },
    #[error("{} is not a plain file; move it away: `ls -l {0}`", .path.display())]
    NotAFile { path: PathBuf },
    #[error("{} is not a directory; move it away: `ls -l {0}`", .path.display())]
    NotADirectory { path: PathBuf },
    #[error(
        "{} is larger than the {max} bytes that are read; look at what wrote it: `ls -l {0}`", .path.display()
    )]
    TooLarge { path: PathBuf, max: usize },
    #[error("cannot {doing} {}: {source}", .path.display())]
    Io { path: PathBuf, doing: &'static str, source: io::Error },
}

impl FileError {
    /// Whether the path simply does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Whether the disk or this user's quota is full.
    pub fn is_no_space(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Self::Io { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded))
    }

    pub(crate) fn io(path: &Path, doing: &'static str, source: impl Into<io::Error>) -> Self {
        Self::Io { path: path.to_owned(), doing, source: source.into() }
    }
}

/// Something on disk that was skipped, and why. Never fatal, but worth showing to a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub path: PathBuf,
    pub why: String,
}

impl Problem {
    pub(crate) fn new(path: PathBuf, why: impl ToString) -> Self {
        Self { path, why: why.to_string() }
    }
}

/// How far a file may be open to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nobody else may even read it.
    Secret,
    /// Others may read it, but not write.
    Plain,
    /// As secret, and without further hard links, which could be anywhere.
    Sole,
    /// Not checked; for files of other tools in a directory of this user.
    Any,
}

/// Creates `path` as a directory that only this user can enter, with all its parents.
///
/// An existing directory of this user that others can read is closed to them. One that others can
/// write to is refused, since its content may not be trustworthy.
pub fn private_dir(path: &Path) -> Result<(), FileError> {
    open_private_dir(path).map(drop)
}

/// Like `private_dir`, but also accepts a directory of this user that others can write to. Only for
/// directories whose files are each checked.
pub fn adopt_dir(path: &Path) -> Result<(), FileError> {
    let dir = open_or_make(path)?;
    close_to_others(path, &dir)
}

/// Creates `path` as a directory of this user if it is missing; others may read it.
pub fn own_dir(path: &Path) -> Result<(), FileError> {
    open_or_make(path).map(drop)
}

/// Like `private_dir`, and returns it open: even if the name changes, this is the
/// directory that was checked.
pub(crate) fn open_private_dir(path: &Path) -> Result<OwnedFd, FileError> {
    let dir = open_or_make(path)?;
    let mode = mode_of(&stat_dir(path, &dir)?);
    if mode & WRITABLE_BY_OTHERS != 0 {
        return Err(FileError::TooOpen { path: path.to_owned(), mode, wanted: 0o700 });
    }
    close_to_others(path, &dir)?;
    Ok(dir)
}

/// Opens a directory of this user as it is; `None` if it is missing.
pub(crate) fn open_own_dir(path: &Path) -> Result<Option<OwnedFd>, FileError> {
    match rustix::fs::open(path, DIRECTORY, Mode::empty()) {
        Ok(dir) => {
            stat_dir(path, &dir)?;
            Ok(Some(dir))
        }
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::LOOP | Errno::NOTDIR) => Err(not_a_dir(path)),
        Err(errno) => Err(FileError::io(path, "open", errno)),
    }
}

/// Replaces the file atomically, for this user only, and returns once it would survive a power cut.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let (dir, name) = split(path)?;
    let draft = draft(path, dir, bytes, Sync::Yes)?;
    put_in_place(path, &draft, &dir.join(name))?;
    sync_dir(dir)
}

/// Replaces the file atomically, for this user only, but not durably. For content
/// that a restart renews.
pub fn write_volatile(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let (dir, name) = split(path)?;
    let draft = draft(path, dir, bytes, Sync::No)?;
    put_in_place(path, &draft, &dir.join(name))
}

/// Replaces a file that is not secret atomically and durably, with the given mode. For the user's
/// own files, which we only edit.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> Result<(), FileError> {
    let (dir, name) = split(path)?;
    let draft = draft(path, dir, bytes, Sync::Yes)?;
    let changed =
        std::fs::set_permissions(&draft, std::os::unix::fs::PermissionsExt::from_mode(mode & 0o777));
    if let Err(error) = changed {
        let _ = std::fs::remove_file(&draft);
        return Err(FileError::io(path, "set the mode of", error));
    }
    put_in_place(path, &draft, &dir.join(name))?;
    sync_dir(dir)
}

/// Creates the file with its content atomically and durably. Returns `false` and leaves an
/// existing file unchanged.
pub fn create_private(path: &Path, bytes: &[u8]) -> Result<bool, FileError> {
    let (dir, _) = split(path)?;
    let draft = draft(path, dir, bytes, Sync::Yes)?;
    let linked = place_if_free(&draft, path);
    // After a link there are two names, after a rename one; in both cases remove the draft.
    let _ = std::fs::remove_file(&draft);
    match linked {
        Ok(()) => sync_dir(dir).map(|()| true),
        Err(Errno::EXIST) => Ok(false),
        Err(errno) => Err(FileError::io(path, "create", errno)),
    }
}

/// Reads a whole file, which must be plain, belong to this user, and have at most `max` bytes.
pub fn read_private(path: &Path, max: usize, access: Access) -> Result<Vec<u8>, FileError> {
    read_at(CWD, path.as_os_str(), max, access, || path.to_owned())
}

/// Like `read_private`, for a name in an open directory; `path` is only for error messages.
pub(crate) fn read_at(
    dir: BorrowedFd<'_>,
    name: &OsStr,
    max: usize,
    access: Access,
    path: impl Fn() -> PathBuf,
) -> Result<Vec<u8>, FileError> {
    // Non-blocking, because opening a pipe would otherwise wait for a writer.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(dir, name, flags, Mode::empty());
    let file = File::from(opened.map_err(|errno| match errno {
        Errno::LOOP | Errno::MLINK => FileError::Symlink { path: path() },
        Errno::NXIO | Errno::OPNOTSUPP => FileError::NotAFile { path: path() },
        errno => FileError::io(&path(), "open", errno),
    })?);
    let stat = rustix::fs::fstat(&file).map_err(|errno| FileError::io(&path(), "look at", errno))?;
    check_file(&stat, access, &path)?;
    let stated = usize::try_from(stat.st_size).unwrap_or(usize::MAX);
    if stated > max {
        return Err(FileError::TooLarge { path: path(), max });
    }
    let bytes = read_up_to(file, stated, max).map_err(|error| FileError::io(&path(), "read", error))?;
    bytes.ok_or_else(|| FileError::TooLarge { path: path(), max })
}

/// Checks that an open file is plain, belongs to this user, and is not more open
/// to others than allowed.
pub(crate) fn check_open(file: &File, access: Access, path: &Path) -> Result<(), FileError> {
    let stat = rustix::fs::fstat(file).map_err(|errno| FileError::io(path, "look at", errno))?;
    check_file(&stat, access, &|| path.to_owned())
}

/// Removes the file; a missing one is fine.
pub fn remove(path: &Path) -> Result<(), FileError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(FileError::io(path, "remove", error)),
        _ => Ok(()),
    }
}

/// Syncs the directory, so that removals survive a power cut; a missing one is fine.
pub fn sync(dir: &Path) -> Result<(), FileError> {
    match sync_dir(dir) {
        Err(error) if error.is_missing() => Ok(()),
        synced => synced,
    }
}

/// Writes a new file into an open directory, for this user only, and removes it again on failure.
pub(crate) fn write_new_at(dir: BorrowedFd<'_>, name: &OsStr, bytes: &[u8], sync: Sync) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR)?);
    let written = file.write_all(bytes).and_then(|()| match sync {
        Sync::Yes => file.sync_all(),
        Sync::No => Ok(()),
    });
    if written.is_err() {
        let _ = rustix::fs::unlinkat(dir, name, AtFlags::empty());
    }
    written
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sync {
    Yes,
    No,
}

/// Returns the effective user id: the only user whose files are trusted.
pub fn our_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns `N` random bytes as hex digits.
pub(crate) fn random_hex<const N: usize>() -> io::Result<String> {
    let mut bytes = [0u8; N];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes.iter().fold(String::with_capacity(N * 2), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    }))
}

/// Returns a name for an unfinished file.
pub(crate) fn draft_name(random: &str) -> String {
    format!("{DRAFT}{}-{random}", std::process::id())
}

/// Whether a name is one of our drafts, which a crash may have left behind.
pub(crate) fn is_draft(name: &[u8]) -> bool {
    name.starts_with(DRAFT.as_bytes())
}

/// Removes a draft that is too old to be still in progress. Drafts of other users are left alone.
pub(crate) fn sweep_draft(dir: BorrowedFd<'_>, name: &OsStr, now_s: u64) {
    let Ok(stat) = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) else { return };
    if stat.st_uid == our_uid() && is_older(&stat, now_s, STALE_S) {
        let _ = rustix::fs::unlinkat(dir, name, AtFlags::empty());
    }
}

pub(crate) fn is_older(stat: &Stat, now_s: u64, age_s: u64) -> bool {
    u64::try_from(stat.st_mtime).is_ok_and(|changed| changed.saturating_add(age_s) < now_s)
}

pub(crate) fn now_s() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn open_or_make(path: &Path) -> Result<OwnedFd, FileError> {
    if let Some(dir) = open_own_dir(path)? {
        return Ok(dir);
    }
    make_dirs(path)?;
    open_own_dir(path)?.ok_or_else(|| FileError::io(path, "open", Errno::NOENT))
}

fn make_dirs(path: &Path) -> Result<(), FileError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let made = match rustix::fs::mkdir(path, Mode::RWXU) {
        Err(Errno::NOENT) if parent != path && parent != Path::new(".") => {
            make_dirs(parent)?;
            rustix::fs::mkdir(path, Mode::RWXU)
        }
        made => made,
    };
    match made {
        // A directory's name is content of its parent: without this sync,
        // everything below could vanish.
        Ok(()) => sync_dir(parent),
        Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(FileError::io(path, "create", errno)),
    }
}

fn stat_dir(path: &Path, dir: &OwnedFd) -> Result<Stat, FileError> {
    let stat = rustix::fs::fstat(dir).map_err(|errno| FileError::io(path, "look at", errno))?;
    if stat.st_uid == our_uid() {
        Ok(stat)
    } else {
        Err(FileError::Foreign { path: path.to_owned(), uid: stat.st_uid })
    }
}

fn close_to_others(path: &Path, dir: &OwnedFd) -> Result<(), FileError> {
    if mode_of(&stat_dir(path, dir)?) == 0o700 {
        return Ok(());
    }
    rustix::fs::fchmod(dir, Mode::RWXU).map_err(|errno| FileError::io(path, "close to other users", errno))
}

fn not_a_dir(path: &Path) -> FileError {
    let path = path.to_owned();
    match std::fs::symlink_metadata(&path) {
        Ok(found) if found.file_type().is_symlink() => FileError::Symlink { path },
        _ => FileError::NotADirectory { path },
    }
}

fn check_file(stat: &Stat, access: Access, path: &impl Fn() -> PathBuf) -> Result<(), FileError> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(FileError::NotAFile { path: path() });
    }
    if stat.st_uid != our_uid() {
        return Err(FileError::Foreign { path: path(), uid: stat.st_uid });
    }
    let (forbidden, wanted) = match access {
        Access::Secret | Access::Sole => (0o077, 0o600),
        Access::Plain => (WRITABLE_BY_OTHERS, 0o600),
        Access::Any => (0, 0o600),
    };
    if access == Access::Sole && stat.st_nlink != 1 {
        return Err(FileError::HardLink { path: path() });
    }
    let mode = mode_of(stat);
    if mode & forbidden != 0 {
        return Err(FileError::TooOpen { path: path(), mode, wanted });
    }
    Ok(())
}

/// Reads a file; `None` if it has more than `max` bytes.
fn read_up_to(mut file: File, stated: usize, max: usize) -> io::Result<Option<Vec<u8>>> {
    // One byte of room more than the file has: a read that leaves it free has reached the end, so a
    // file that did not grow costs one call.
    let mut bytes = vec![0u8; stated + 1];
    let mut len = 0;
    loop {
        let got = match file.read(&mut bytes[len..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            got => got?,
        };
        len += got;
        if len > max {
            return Ok(None);
        }
        if got == 0 || len == stated {
            bytes.truncate(len);
            return Ok(Some(bytes));
        }
        if len == bytes.len() {
            bytes.resize((len * 2).min(max) + 1, 0);
        }
    }
}

/// Splits the path of a new file into directory and name.
fn split(path: &Path) -> Result<(&Path, &OsStr), FileError> {
    let name = path.file_name().ok_or_else(|| FileError::io(path, "write", Errno::INVAL))?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((dir, name))
}

fn draft(path: &Path, dir: &Path, bytes: &[u8], sync: Sync) -> Result<PathBuf, FileError> {
    let failed = |error: io::Error| FileError::io(path, "write", error);
    let draft = dir.join(draft_name(&random_hex::<8>().map_err(failed)?));
    write_new_at(CWD, draft.as_os_str(), bytes, sync).map_err(failed)?;
    Ok(draft)
}

fn put_in_place(path: &Path, draft: &Path, target: &Path) -> Result<(), FileError> {
    rustix::fs::rename(draft, target).map_err(|errno| {
        let _ = std::fs::remove_file(draft);
        FileError::io(path, "replace", errno)
    })
}

/// Puts the draft in place without replacing anything, by a link. File systems without links need a
/// rename with `NOREPLACE`, which is newer and less supported.
fn place_if_free(draft: &Path, path: &Path) -> Result<(), Errno> {
    match rustix::fs::link(draft, path) {
        #[cfg(target_os = "linux")]
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => {
            rustix::fs::renameat_with(CWD, draft, CWD, path, rustix::fs::RenameFlags::NOREPLACE)
        }
        linked => linked,
    }
}

fn sync_dir(dir: &Path) -> Result<(), FileError> {
    let opened = rustix::fs::open(dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    opened.and_then(|dir| sync_fd(dir.as_fd())).map_err(|errno| FileError::io(dir, "sync", errno))
}

/// Syncs a directory. Some file systems report that they cannot; that counts as success.
pub(crate) fn sync_fd(dir: BorrowedFd<'_>) -> Result<(), Errno> {
    match rustix::fs::fsync(dir) {
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(()),
        synced => synced,
    }
}

// The width of a mode differs between systems.
#[allow(clippy::useless_conversion)]
fn mode_of(stat: &Stat) -> u32 {
    u32::from(stat.st_mode as RawMode) & 0o777
}

pub(crate) fn os_str(name: &std::ffi::CStr) -> &OsStr {
    OsStr::from_bytes(name.to_bytes())
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const WRITABLE_BY_OTHERS: u32 = 0o022;
const DRAFT: &str = ".synapse-draft-";
pub(crate) const STALE_S: u64 = 3600;
