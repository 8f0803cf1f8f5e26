//! The settings files: where they are, how they are read and replaced, and whether they changed.
//!
//! Symbolic links to the user's file are followed, since people keep such files elsewhere. The file
//! they lead to is trusted only if it belongs to the user or root and is not writable by everyone.
//! A project's file must meet the rules of `project`.
//!
//! Invariant: reading never blocks and has a size limit; a replaced file is the old one or
//! the new one, never half.
//! Not here: what is in the files (`document`), and changing it (`edit`).

use crate::edit::{self, CannotChange, Change, Of};
use crate::fault::{Fault, FileWrong};
use crate::layers::{self, Ignored, Layers, Loaded};
use crate::project::{self, FOLDER, IgnoredFile, Search, our_uid};
use crate::trust::{TRUST_FILE, TrustList};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The most bytes of a settings file; a larger file is something else.
pub const BYTES_MAX: u64 = 1 << 20;

/// The places that determine the effective settings.
#[derive(Debug, Clone)]
pub struct Places {
    /// Synapse's home, which contains the user's file.
    pub home: PathBuf,
    /// The working folder; the project's file is here or in a parent.
    pub folder: PathBuf,
    /// The user's home folder, for `~/`.
    pub user_folder: Option<PathBuf>,
    pub variables: BTreeMap<String, String>,
}

impl Places {
    /// Uses the environment of this process.
    pub fn here(home: &Path, folder: &Path) -> Self {
        let known: Vec<String> = crate::KEYS.iter().filter_map(crate::Key::variable_name).collect();
        let ours = known.into_iter().filter_map(|name| {
            // A value that is not UTF-8 fits no setting; it is shown with replacement characters.
            let value = std::env::var_os(&name)?.to_string_lossy().into_owned();
            Some((name, value))
        });
        let (home, folder, user_folder) = (home.to_owned(), folder.to_owned(), user_folder());
        Self { home, folder, user_folder, variables: ours.collect() }
    }

    pub fn user_file(&self) -> PathBuf {
        self.home.join(FILE)
    }

    /// Returns where to search for projects.
    pub fn search(&self) -> Search<'_> {
        Search { folder: &self.folder, home: &self.home, user_folder: self.user_folder.as_deref() }
    }

    /// Returns the nearest project's file, here or in a parent; never the user's own.
    pub fn project_file(&self) -> Option<PathBuf> {
        self.read_project().0.map(|(file, _)| file)
    }

    /// Returns the nearest readable project's file with its bytes, and any file that was ignored.
    fn read_project(&self) -> (Option<(PathBuf, Vec<u8>)>, Option<IgnoredFile>) {
        let roots = self.search().roots();
        for root in &roots.folders {
            match project::read(root, &[FILE], BYTES_MAX) {
                Ok(Some(bytes)) => return (Some((root.join(FOLDER).join(FILE), bytes)), None),
                Ok(None) => {}
                Err(ignored) => return (None, Some(ignored)),
            }
        }
        (None, roots.passed_over)
    }

    /// Returns the path for a new project's file.
    pub fn new_project_file(&self) -> PathBuf {
        self.folder.join(FOLDER).join(FILE)
    }

    /// Whether a file is the user's own: in this home, or in the default one.
    pub fn is_users(&self, file: &Path) -> bool {
        let usual = self.user_folder.as_ref().map(|user| user.join(FOLDER).join(FILE));
        file == self.user_file() || Some(file) == usual.as_deref()
    }

    /// Returns the metadata of the files; if it is unchanged, so are the files.
    pub fn stamp(&self) -> Stamp {
        let roots = self.search().roots().folders;
        let projects = roots.iter().map(|root| root.join(FOLDER).join(FILE));
        let files = [self.user_file(), self.home.join(TRUST_FILE)].into_iter().chain(projects);
        Stamp(files.map(|file| file.metadata().ok().map(|found| Look::of(&found))).collect())
    }
}

/// Returns the user's home folder from the environment of this process.
pub fn user_folder() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from).filter(|folder| folder.is_absolute())
}

/// The metadata of the settings files, see `Places::stamp`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp(Vec<Option<Look>>);

impl Stamp {
    /// Whether a file changed so recently that its next change may not show in its times.
    pub fn is_fresh(&self, now: SystemTime) -> bool {
        const FRESH_S: i64 = 2;
        let now = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        // Ignore a time in the future: the clock was set back, and waiting for it could take long.
        self.0.iter().flatten().any(|look| (0..=FRESH_S).contains(&now.saturating_sub(look.changed.0)))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Look {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    mode: u32,
}

impl Look {
    fn of(found: &Metadata) -> Self {
        Self {
            file: (found.dev(), found.ino()),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
            mode: found.mode(),
        }
    }
}

/// Loads the effective settings. Never fails: see `Loaded::faults`, and
/// `Loaded::faultless` for all or nothing.
pub fn load(places: &Places) -> Loaded {
    let user_file = places.user_file();
    let user = read(&user_file, Whose::User).transpose();
    let (project, ignored) = places.read_project();
    let project = project.map(|(file, bytes)| {
        // The trusted bytes are the very bytes that are parsed.
        let trusted = TrustList::load(&places.home).is_ok_and(|list| list.trusts(&file, &bytes));
        (file, text_of(bytes), trusted)
    });
    let mut loaded = layers::layer(&Layers {
        user: (&user_file, user.as_ref().map(borrowed)),
        project: project.as_ref().map(|(file, text, _)| (file.as_path(), borrowed(text))),
        project_is_trusted: project.as_ref().is_some_and(|(_, _, trusted)| *trusted),
        variables: &places.variables,
        user_folder: places.user_folder.as_deref(),
    });
    loaded.ignored.extend(ignored.map(Ignored::File));
    loaded
}

fn borrowed(text: &Result<String, FileWrong>) -> Result<&str, FileWrong> {
    text.as_deref().map_err(FileWrong::clone)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    User,
    Project,
}

/// Returns the text of a file; `None` if there is none.
pub fn read(file: &Path, whose: Whose) -> Result<Option<String>, FileWrong> {
    // Non-blocking, because opening a pipe would otherwise wait for a writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = match rustix::fs::open(file, flags, Mode::empty()) {
        Ok(opened) => File::from(opened),
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(Errno::LOOP) => return Err(FileWrong::LinkCircle),
        Err(Errno::NXIO | Errno::OPNOTSUPP) => return Err(FileWrong::NotAFile),
        Err(errno) => return Err(FileWrong::Io(io::Error::from(errno).to_string())),
    };
    let told = |error: io::Error| FileWrong::Io(error.to_string());
    let found = opened.metadata().map_err(told)?;
    if found.is_dir() {
        return Err(FileWrong::Folder);
    }
    if !found.is_file() {
        return Err(FileWrong::NotAFile);
    }
    if whose == Whose::User {
        check_owner(&found)?;
    }
    if found.len() > BYTES_MAX {
        return Err(FileWrong::TooLarge { max: BYTES_MAX });
    }
    let mut bytes = Vec::new();
    opened.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(told)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(FileWrong::TooLarge { max: BYTES_MAX });
    }
    text_of(bytes).map(Some)
}

fn text_of(bytes: Vec<u8>) -> Result<String, FileWrong> {
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        FileWrong::NotUtf8 { line: 1 + good.iter().filter(|byte| **byte == b'\n').count() }
    })
}

fn check_owner(found: &Metadata) -> Result<(), FileWrong> {
    const WRITABLE_BY_ALL: u32 = 0o002;
    if ![our_uid(), 0].contains(&found.uid()) {
        return Err(FileWrong::Foreign { uid: found.uid() });
    }
    if found.mode() & WRITABLE_BY_ALL != 0 {
        return Err(FileWrong::TooOpen { mode: found.mode() & 0o777 });
    }
    Ok(())
}

/// Why a file was not changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    #[error(transparent)]
    Change(#[from] CannotChange),
    #[error("{}: {wrong}; look at it: `ls -ld {0}`", .file.display())]
    Unreadable { file: PathBuf, wrong: FileWrong },
    #[error("{} cannot be written: {source}; look at its folder: `ls -ld {}`", .file.display(), parent(.file).display())]
    Unwritable { file: PathBuf, source: io::Error },
}

/// Changes a settings file under a lock, so that concurrent changes happen one after the other.
/// Returns the faults that it had before and still has.
pub fn change(
    places: &Places,
    file: &Path,
    whose: Whose,
    changes: &[Change<'_>],
) -> Result<Vec<Fault>, ChangeError> {
    let unwritable = |source| ChangeError::Unwritable { file: file.to_owned(), source };
    let _alone = lock(parent(file)).map_err(unwritable)?;
    let read = read(file, whose);
    let text = read.map_err(|wrong| ChangeError::Unreadable { file: file.to_owned(), wrong })?;
    let user_file = places.user_file();
    let user_folder = places.user_folder.as_deref();
    let of = Of { file, is_project: whose == Whose::Project, user_file: &user_file, user_folder };
    let (changed, left) = edit::change(text.as_deref().unwrap_or_default(), changes, of)?;
    let same = text.as_deref() == Some(&changed);
    let nothing = text.is_none() && changed.trim() == "{}";
    if !same && !nothing {
        replace(file, &changed, whose).map_err(unwritable)?;
    }
    Ok(left)
}

/// Takes the lock, and waits for at most five seconds, since every holder is quick.
pub(crate) fn lock(folder: &Path) -> io::Result<File> {
    const PAUSE: Duration = Duration::from_millis(20);
    const TRIES_MAX: u32 = 250;
    let held = File::open(folder)?;
    for _ in 0..TRIES_MAX {
        match rustix::fs::flock(&held, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(held),
            Err(Errno::WOULDBLOCK) => std::thread::sleep(PAUSE),
            // Some file systems have no locks; then concurrent changes are an accepted risk.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOLCK) => return Ok(held),
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(io::Error::other("another process has been changing it for five seconds"))
}

fn parent(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new("/"))
}

/// Replaces the file atomically, follows links, and returns once it would survive a power cut.
/// A new file is for this user alone, or for a project has the user's default mode; an
/// existing one keeps its mode.
pub(crate) fn replace(file: &Path, text: &str, whose: Whose) -> io::Result<()> {
    let target = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let folder = parent(&target);
    let before = target.metadata().ok();
    let mode = if whose == Whose::User { 0o600 } else { 0o666 };
    let (draft, mut to) = new_draft(folder, mode)?;
    let written = to.write_all(text.as_bytes()).and_then(|()| match before {
        Some(before) => to.set_permissions(std::fs::Permissions::from_mode(before.mode() & 0o777)),
        None => Ok(()),
    });
    let placed = written.and_then(|()| to.sync_all()).and_then(|()| std::fs::rename(&draft, &target));
    if placed.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    placed?;
    // Some file systems cannot sync a folder; that is accepted.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

fn new_draft(folder: &Path, mode: u32) -> io::Result<(PathBuf, File)> {
    const TRIES_MAX: u32 = 100;
    let mut tries = 0;
    loop {
        let draft = folder.join(format!(".{FILE}-{}-{tries}", std::process::id()));
        let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&draft);
        match made {
            Ok(file) => return Ok((draft, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < TRIES_MAX => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

/// The name of a settings file.
pub const FILE: &str = "settings.json";
