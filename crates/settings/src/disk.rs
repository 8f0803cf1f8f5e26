//! The files of settings: where they are, how they are read and replaced, and whether they changed.
//!
//! For the user's file symbolic links are followed, since people keep such files elsewhere; but what a link leads to is
//! believed only if it belongs to the user or to root and is not open for all to write. A project's file has to keep
//! the rules of `project`.
//!
//! Invariant: reading waits for nobody and has a limit; a replaced file is the old one or the new one, never half.
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

/// Settings files are small; what is larger is something else.
pub const BYTES_MAX: u64 = 1 << 20;

/// What decides which settings hold.
#[derive(Debug, Clone)]
pub struct Places {
    /// Synapse's home; the user's file is in it.
    pub home: PathBuf,
    /// Where one works; the project's file is here or above.
    pub folder: PathBuf,
    /// The user's own folder, for `~/`.
    pub user_folder: Option<PathBuf>,
    pub variables: BTreeMap<String, String>,
}

impl Places {
    /// With the environment of this process.
    pub fn here(home: &Path, folder: &Path) -> Self {
        let known: Vec<String> = crate::KEYS.iter().filter_map(crate::Key::variable_name).collect();
        let ours = known.into_iter().filter_map(|name| {
            // What is not text fits no setting; shown with its odd signs replaced.
            let value = std::env::var_os(&name)?.to_string_lossy().into_owned();
            Some((name, value))
        });
        let (home, folder, user_folder) = (home.to_owned(), folder.to_owned(), user_folder());
        Self { home, folder, user_folder, variables: ours.collect() }
    }

    pub fn user_file(&self) -> PathBuf {
        self.home.join(FILE)
    }

    /// Where projects are searched for.
    pub fn search(&self) -> Search<'_> {
        Search { folder: &self.folder, home: &self.home, user_folder: self.user_folder.as_deref() }
    }

    /// The nearest project's file, here or above; never the user's own.
    pub fn project_file(&self) -> Option<PathBuf> {
        self.read_project().0.map(|(file, _)| file)
    }

    /// The nearest project's file that may be read, with its bytes, and what was passed over for it.
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

    /// Where a project's file would be made.
    pub fn new_project_file(&self) -> PathBuf {
        self.folder.join(FOLDER).join(FILE)
    }

    /// Whether a file is the user's own: of this home, or of the usual one.
    pub fn is_users(&self, file: &Path) -> bool {
        let usual = self.user_folder.as_ref().map(|user| user.join(FOLDER).join(FILE));
        file == self.user_file() || Some(file) == usual.as_deref()
    }

    /// What the files look like from outside; if this is the same, so are they.
    pub fn stamp(&self) -> Stamp {
        let roots = self.search().roots().folders;
        let projects = roots.iter().map(|root| root.join(FOLDER).join(FILE));
        let files = [self.user_file(), self.home.join(TRUST_FILE)].into_iter().chain(projects);
        Stamp(files.map(|file| file.metadata().ok().map(|found| Look::of(&found))).collect())
    }
}

/// The user's own folder, as the environment of this process has it.
pub fn user_folder() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from).filter(|folder| folder.is_absolute())
}

/// See `Places::stamp`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp(Vec<Option<Look>>);

impl Stamp {
    /// Whether a file changed so shortly ago that its next change may not show in its times.
    pub fn is_fresh(&self, now: SystemTime) -> bool {
        const FRESH_S: i64 = 2;
        let now = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        // A time to come is the mark of a clock that was set; waiting for it could take long.
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

/// The settings that hold. Never fails: see `Loaded::faults`, and `Loaded::faultless` for all or nothing.
pub fn load(places: &Places) -> Loaded {
    let user_file = places.user_file();
    let user = read(&user_file, Whose::User).transpose();
    let (project, ignored) = places.read_project();
    let project = project.map(|(file, bytes)| {
        // The bytes that are looked up are those that are parsed.
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

/// The text of a file; none if there is none.
pub fn read(file: &Path, whose: Whose) -> Result<Option<String>, FileWrong> {
    // Not blocking: opening a pipe would otherwise wait for someone to write to it.
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

/// Changes a file of settings, alone: two who change it at once do so one after the other. Returns the faults it
/// had before and still has.
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

/// Waits its turn, but not for ever: who holds it is as short as we are.
pub(crate) fn lock(folder: &Path) -> io::Result<File> {
    const PAUSE: Duration = Duration::from_millis(20);
    const TRIES_MAX: u32 = 250;
    let held = File::open(folder)?;
    for _ in 0..TRIES_MAX {
        match rustix::fs::flock(&held, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(held),
            Err(Errno::WOULDBLOCK) => std::thread::sleep(PAUSE),
            // Some file systems have no locks; then two at once is a risk to take.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOLCK) => return Ok(held),
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(io::Error::other("another process has been changing it for five seconds"))
}

fn parent(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new("/"))
}

/// Replaces the file in one step, through links, and returns once it would survive a power cut. A new one is for
/// this user alone, or for a project as the user's other files are; an old one keeps its rights.
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
    // Some file systems cannot sync a folder; then there is nothing more to be had.
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

/// The name of a file of settings.
pub const FILE: &str = "settings.json";
