//! The spool: mail for an agent that does not run, or that a socket cannot reach.
//!
//! A maildir. A letter is written to `tmp`, synced, and renamed into `new`, so that it exists whole
//! or not at all, even after a power cut. Its name sorts by arrival and is its permanent id: if the
//! reader dies before `done`, the name shows that the letter was already taken. A file that is not
//! a letter goes to `bad` with the reason, and never blocks the others.
//!
//! Invariant: once `put` returned `Ok` the letter is on disk, and stays until
//! `done` or `set_aside`.
//! Not here: what a letter says; notifying a running node of a new one.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Dir};

use crate::anchor::Anchor;
use crate::files::{self, Access, FileError, Sync};

/// An open spool. Cheap to keep; any number of processes may have it open at once.
#[derive(Debug)]
pub struct Spool {
    path: PathBuf,
    arrivals: PathBuf,
    tmp: OwnedFd,
    new: OwnedFd,
    bad: OwnedFd,
    /// How many letters may still be added before they are counted again.
    room: AtomicUsize,
    /// Files that could not even be moved to `bad`; reported once, then skipped.
    stuck: Mutex<HashSet<OsString>>,
    swept: Mutex<Option<Instant>>,
    access: Access,
    anchor: Anchor,
}

/// The name of a letter: sorts by arrival, always unique, made of `A-Z a-z 0-9 . -` only.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpoolId(String);

impl SpoolId {
    pub const BYTES_MAX: usize = 128;

    /// Returns `None` for a name that a letter cannot have.
    pub fn parse(raw: &str) -> Option<Self> {
        let fits = (1..=Self::BYTES_MAX).contains(&raw.len()) && !raw.starts_with('.');
        (fits && raw.bytes().all(is_plain)).then(|| Self(raw.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SpoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An entry of the spool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    Letter {
        name: SpoolId,
        bytes: Vec<u8>,
    },
    /// Already moved to `bad`.
    Bad {
        name: String,
        why: String,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    #[error(
        "{max} letters wait in {} already and no more are taken; start the agent so that it reads them",
        .path.display()
    )]
    SpoolFull { path: PathBuf, max: usize },
    #[error("the message has {bytes} bytes and at most {max} fit; send the large part as a file")]
    TooLarge { bytes: usize, max: usize },
    #[error(
        "the disk is full, so the message could not be kept in {}; free some space and send it again",
        .path.display()
    )]
    NoSpace { path: PathBuf },
    #[error("{} was removed or replaced meanwhile, so the message is not stored; send it again", .path.display())]
    Gone { path: PathBuf },
    #[error(transparent)]
    File(#[from] FileError),
}

impl Spool {
    /// The most letters that wait in one spool. Concurrent writers may exceed it by a few.
    pub const LETTERS_MAX: usize = 10_000;
    /// The largest message that the settings allow, with its envelope. Writers
    /// apply the current setting.
    pub const LETTER_BYTES_MAX: usize = (32 << 20) + (64 << 10);
    /// Like `LETTER_BYTES_MAX`, for a strict spool: a message of 1 MiB.
    pub const STRICT_LETTER_BYTES_MAX: usize = (1 << 20) + (64 << 10);
    /// The most that one `take` returns, so that a full spool does not fill the memory.
    pub const TAKE_LETTERS_MAX: usize = 256;
    pub const TAKE_BYTES_MAX: usize = 16 * 1024 * 1024;
    /// How many bad files are kept for inspection.
    pub const BAD_MAX: usize = 100;

    /// Opens or creates the spool in this directory.
    pub fn open(dir: &Path) -> Result<Self, SpoolError> {
        Self::open_for(dir, Access::Any)
    }

    /// Like `open`, for a folder among other users' files: rejects a letter that others could read,
    /// or that has a second hard link.
    pub fn open_strict(dir: &Path) -> Result<Self, SpoolError> {
        Self::open_for(dir, Access::Sole)
    }

    fn open_for(dir: &Path, access: Access) -> Result<Self, SpoolError> {
        files::private_dir(dir)?;
        let open = |name: &str| files::open_private_dir(&dir.join(name));
        let new = open("new")?;
        Ok(Self {
            anchor: Anchor::of([dir.join("new").as_path()]),
            path: dir.to_owned(),
            arrivals: dir.join("new"),
            tmp: open("tmp")?,
            new,
            bad: open("bad")?,
            room: AtomicUsize::new(0),
            stuck: Mutex::default(),
            swept: Mutex::default(),
            access,
        })
    }

    /// Returns the directory in which letters appear, for watching it.
    pub fn arrivals(&self) -> &Path {
        &self.arrivals
    }

    /// Returns how many letters wait, counted up to just above the limit.
    pub fn waiting(&self) -> Result<usize, SpoolError> {
        let entries = self.list(&self.new)?;
        Ok(entries.take(Self::LETTERS_MAX + 1).count())
    }

    /// Stores a letter; once this returns `Ok`, only a broken disk loses it.
    pub fn put(&self, bytes: &[u8]) -> Result<SpoolId, SpoolError> {
        let max = self.letter_bytes_max();
        if bytes.len() > max {
            return Err(SpoolError::TooLarge { bytes: bytes.len(), max });
        }
        self.find_room()?;
        let name = fresh_name().map_err(|error| self.failed("make a name in", error))?;
        self.write(&name, bytes).map_err(|error| self.failed("write to", error))?;
        if !self.anchor.holds() {
            return Err(SpoolError::Gone { path: self.path.clone() });
        }
        Ok(SpoolId(name))
    }

    /// Returns the oldest waiting letters and any bad files. The number is limited: call again
    /// after `done`, until it returns none.
    pub fn take(&self) -> Result<Vec<Found>, SpoolError> {
        self.sweep();
        let mut names: Vec<OsString> = {
            let stuck = lock(&self.stuck);
            self.list(&self.new)?.filter(|name| !stuck.contains(name)).collect()
        };
        names.sort_unstable();
        let (mut found, mut total) = (Vec::new(), 0);
        for name in names {
            if found.len() >= Self::TAKE_LETTERS_MAX || total >= Self::TAKE_BYTES_MAX {
                break;
            }
            match self.read(&name) {
                Ok(Some((name, bytes))) => {
                    total += bytes.len();
                    found.push(Found::Letter { name, bytes });
                }
                Ok(None) => {}
                Err(why) => found.push(self.refuse(&name, why)),
            }
        }
        Ok(found)
    }

    /// Removes a letter whose content is safely stored elsewhere. Not synced: if it reappears after
    /// a power cut, its name is recognized.
    pub fn done(&self, name: &SpoolId) -> Result<(), SpoolError> {
        match rustix::fs::unlinkat(&self.new, name.as_str(), AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(errno) => Err(FileError::io(&self.arrivals.join(name.as_str()), "remove", errno).into()),
        }
    }

    /// Moves a letter that cannot be used to `bad`, with the reason.
    pub fn set_aside(&self, name: &SpoolId, why: &str) -> Result<(), SpoolError> {
        self.move_to_bad(name.as_str().as_ref(), why)
            .map_err(|error| FileError::io(&self.arrivals.join(name.as_str()), "set aside", error).into())
    }

    fn letter_bytes_max(&self) -> usize {
        match self.access {
            Access::Sole => Self::STRICT_LETTER_BYTES_MAX,
            _ => Self::LETTER_BYTES_MAX,
        }
    }

    fn find_room(&self) -> Result<(), SpoolError> {
        let take_one = |room: usize| room.checked_sub(1);
        if self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take_one).is_ok() {
            return Ok(());
        }
        let free = Self::LETTERS_MAX.saturating_sub(self.waiting()?);
        if free == 0 {
            return Err(SpoolError::SpoolFull { path: self.path.clone(), max: Self::LETTERS_MAX });
        }
        // Other writers add letters too, so this process uses only a share of
        // the free room uncounted.
        self.room.store(free / 8, Ordering::Relaxed);
        Ok(())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        files::write_new_at(self.tmp.as_fd(), name.as_ref(), bytes, Sync::Yes)?;
        if let Err(errno) = rustix::fs::renameat(&self.tmp, name, &self.new, name) {
            let _ = rustix::fs::unlinkat(&self.tmp, name, AtFlags::empty());
            return Err(errno.into());
        }
        files::sync_fd(self.new.as_fd()).map_err(|errno| {
            // Not acknowledged, so it must not arrive: the sender will retry under another name.
            let _ = rustix::fs::unlinkat(&self.new, name, AtFlags::empty());
            errno.into()
        })
    }

    fn failed(&self, doing: &'static str, error: io::Error) -> SpoolError {
        let error = FileError::io(&self.path, doing, error);
        if error.is_no_space() {
            return SpoolError::NoSpace { path: self.path.clone() };
        }
        error.into()
    }

    /// Returns `None` if another reader was faster; `Err` says why it is not a letter.
    fn read(&self, name: &OsStr) -> Result<Option<(SpoolId, Vec<u8>)>, String> {
        let id = name.to_str().and_then(SpoolId::parse);
        let id = id.ok_or("its name is not one of a letter (letters, digits, dots and dashes)")?;
        let path = || self.arrivals.join(name);
        match files::read_at(self.new.as_fd(), name, self.letter_bytes_max(), self.access, path) {
            Ok(bytes) if bytes.is_empty() => Err("it is empty".to_owned()),
            Ok(bytes) => Ok(Some((id, bytes))),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    fn refuse(&self, name: &OsStr, why: String) -> Found {
        let shown = plain(name);
        match self.move_to_bad(name, &why) {
            Ok(()) => Found::Bad { name: shown, why },
            Err(error) => {
                lock(&self.stuck).insert(name.to_owned());
                Found::Bad { name: shown, why: format!("{why}; and it cannot be set aside: {error}") }
            }
        }
    }

    fn move_to_bad(&self, name: &OsStr, why: &str) -> io::Result<()> {
        let aside = format!("{:020}-{}", fresh_nanos(), plain(name));
        rustix::fs::renameat(&self.new, name, &self.bad, &aside)?;
        // The reason is optional; the bad file is out of the way without it.
        let note = format!("{aside}{WHY}");
        let _ = files::write_new_at(self.bad.as_fd(), note.as_ref(), why.as_bytes(), Sync::No);
        self.trim_bad();
        Ok(())
    }

    fn trim_bad(&self) {
        let Ok(names) = self.list(&self.bad) else { return };
        let is_note = |name: &OsString| name.as_encoded_bytes().ends_with(WHY.as_bytes());
        let mut kept: Vec<OsString> = names.filter(|name| !is_note(name)).collect();
        kept.sort_unstable();
        let surplus = kept.len().saturating_sub(Self::BAD_MAX);
        for mut name in kept.into_iter().take(surplus) {
            if rustix::fs::unlinkat(&self.bad, &name, AtFlags::empty()).is_err() {
                let _ = rustix::fs::unlinkat(&self.bad, &name, AtFlags::REMOVEDIR);
            }
            name.push(WHY);
            let _ = rustix::fs::unlinkat(&self.bad, &name, AtFlags::empty());
        }
    }

    /// Removes old files of dead writers from `tmp`, now and then.
    fn sweep(&self) {
        let mut swept = lock(&self.swept);
        if swept.is_some_and(|at| at.elapsed() < SWEEP_EVERY) {
            return;
        }
        *swept = Some(Instant::now());
        let Ok(names) = self.list(&self.tmp) else { return };
        let now_s = files::now_s();
        for name in names {
            let stat = rustix::fs::statat(&self.tmp, &name, AtFlags::SYMLINK_NOFOLLOW);
            if stat.is_ok_and(|stat| files::is_older(&stat, now_s, files::STALE_S)) {
                let _ = rustix::fs::unlinkat(&self.tmp, &name, AtFlags::empty());
            }
        }
    }

    /// Lists the names in one of our directories; hidden files are never letters.
    fn list(&self, dir: &OwnedFd) -> Result<impl Iterator<Item = OsString> + use<>, SpoolError> {
        let entries = Dir::read_from(dir).map_err(|errno| FileError::io(&self.path, "list", errno))?;
        let names = entries.flatten().map(|entry| files::os_str(entry.file_name()).to_owned());
        Ok(names.filter(|name| !name.as_encoded_bytes().starts_with(b".")))
    }
}

/// Returns a new name: time first, so that names sort by arrival; the rest makes it unique.
fn fresh_name() -> io::Result<String> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let (nanos, pid) = (fresh_nanos(), std::process::id());
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    Ok(format!("{nanos:020}.{pid}.{count}.{}", files::random_hex::<8>()?))
}

/// Returns the time, but always later than the last call, so that a clock that is set back or too
/// coarse does not change the order of one process's letters.
fn fresh_nanos() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
    let later = |last: u64| now.max(last.saturating_add(1));
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(later(last)));
    last.map_or(now, later)
}

/// Returns a safe name that is as close to the given one as possible.
fn plain(name: &OsStr) -> String {
    let bytes = name.as_encoded_bytes().iter().take(100);
    bytes.map(|byte| if is_plain(*byte) { char::from(*byte) } else { '-' }).collect()
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-')
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The data behind these locks is only a cache, so it is still valid after a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const WHY: &str = ".why";
const SWEEP_EVERY: Duration = Duration::from_secs(15 * 60);
