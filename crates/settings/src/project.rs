//! A project's `.synapse` folder: how it is found, and which of its files are read (H3).
//!
//! The search starts in the working folder and goes up. It ends at the root of the repository, at
//! the user's home folder, and before a folder that others can write to, because anyone who can put
//! a file there could choose settings for us.
//!
//! Invariant: a file is read only if it, its folders and every folder from the working folder up to
//! the project's root belong to us or root and are not writable by others. Below the root no link
//! is followed. The check applies to the open file, whose bytes are read once.
//! Not here: what is in the files, and which of them are trusted (`trust`).

use crate::fault::FileWrong;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The folder of a project, or of the user, that holds our files.
pub const FOLDER: &str = ".synapse";
/// The most parents that are searched; no sensible folder is deeper.
const ANCESTORS_MAX: usize = 256;
/// The most names that are read from a folder.
const ENTRIES_MAX: usize = 10_000;

/// Where to search.
#[derive(Debug, Clone, Copy)]
pub struct Search<'a> {
    /// The working folder.
    pub folder: &'a Path,
    /// Synapse's home, which never counts as a project.
    pub home: &'a Path,
    /// The user's home folder, where the search ends.
    pub user_folder: Option<&'a Path>,
}

/// Folders that may contain the project's `.synapse`, nearest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Roots {
    pub folders: Vec<PathBuf>,
    /// A `.synapse` that was not read, because others can write to the folder around it.
    pub passed_over: Option<IgnoredFile>,
}

/// A file or folder of a project that is not read, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}", .path.display())]
pub struct IgnoredFile {
    pub path: PathBuf,
    pub why: FileWrong,
}

/// The owner and mode of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ownership {
    pub uid: u32,
    pub gid: u32,
    pub mode: u32,
}

impl Ownership {
    fn of(found: &Metadata) -> Self {
        Self { uid: found.uid(), gid: found.gid(), mode: found.mode() }
    }

    /// Checks that only `us` and root could have written it. The group may write if its number is
    /// the user's: many systems give each user such a private group and make files writable for it.
    pub fn check(self, us: u32) -> Result<(), FileWrong> {
        const WRITABLE_BY_GROUP: u32 = 0o020;
        const WRITABLE_BY_ALL: u32 = 0o002;
        if ![us, 0].contains(&self.uid) {
            return Err(FileWrong::Foreign { uid: self.uid });
        }
        let by_group = self.mode & WRITABLE_BY_GROUP != 0 && self.gid != us;
        if by_group || self.mode & WRITABLE_BY_ALL != 0 {
            return Err(FileWrong::TooOpen { mode: self.mode & 0o1777 });
        }
        Ok(())
    }

    /// Like `check`, for a folder on the search path. A sticky folder is shared between users.
    pub fn check_folder(self, us: u32) -> Result<(), FileWrong> {
        const STICKY: u32 = 0o1000;
        self.check(us)?;
        if self.mode & STICKY != 0 {
            return Err(FileWrong::TooOpen { mode: self.mode & 0o1777 });
        }
        Ok(())
    }
}

impl Search<'_> {
    pub fn roots(&self) -> Roots {
        // Resolve links: the parents of a link differ from those of its target.
        let folder = self.folder.canonicalize().unwrap_or_else(|_| self.folder.to_owned());
        let same = |a: &Metadata, b: &Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        let user_folder = self.user_folder.and_then(|own| own.metadata().ok());
        let homes = [Some(self.home.to_owned()), self.user_folder.map(|own| own.join(FOLDER))];
        let homes: Vec<Metadata> =
            homes.into_iter().flatten().filter_map(|home| home.metadata().ok()).collect();
        let mut roots = Roots::default();
        for root in folder.ancestors().take(ANCESTORS_MAX) {
            let Ok(found) = root.metadata() else { break };
            if user_folder.as_ref().is_some_and(|own| same(own, &found)) {
                break;
            }
            let path = root.join(FOLDER);
            if let Err(why) = Ownership::of(&found).check_folder(our_uid()) {
                let is_there = path.symlink_metadata().is_ok();
                roots.passed_over = is_there.then(|| IgnoredFile { path: root.to_owned(), why });
                break;
            }
            let is_home = path.metadata().is_ok_and(|found| homes.iter().any(|home| same(home, &found)));
            if !is_home {
                roots.folders.push(root.to_owned());
            }
            if root.join(".git").symlink_metadata().is_ok() {
                break;
            }
        }
        roots
    }
}

/// Returns the bytes of `.synapse/…` below a root from the search; `None` if there is no such file.
pub fn read(root: &Path, below: &[&str], bytes_max: u64) -> Result<Option<Vec<u8>>, IgnoredFile> {
    let Some((name, folders)) = below.split_last() else { return Ok(None) };
    let Some((folder, path)) = open_folder(root, folders)? else { return Ok(None) };
    let path = path.join(name);
    let ignored = |why| IgnoredFile { path: path.clone(), why };
    let told = |error: io::Error| ignored(FileWrong::Io(error.to_string()));
    // Non-blocking, because opening a pipe would otherwise wait for a writer.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(&folder, *name, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP | Errno::MLINK) => return Err(ignored(FileWrong::Link)),
        Err(Errno::NXIO | Errno::OPNOTSUPP) => return Err(ignored(FileWrong::NotAFile)),
        Err(errno) => return Err(told(errno.into())),
    };
    let found = file.metadata().map_err(told)?;
    if found.is_dir() {
        return Err(ignored(FileWrong::Folder));
    }
    if !found.is_file() {
        return Err(ignored(FileWrong::NotAFile));
    }
    Ownership::of(&found).check(our_uid()).map_err(ignored)?;
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(told)?;
    if bytes.len() as u64 > bytes_max {
        return Err(ignored(FileWrong::TooLarge { max: bytes_max }));
    }
    Ok(Some(bytes))
}

/// Returns the sorted names in a folder of `.synapse`, without hidden ones, at most `max`; empty if
/// there is no such folder.
pub fn names(root: &Path, below: &[&str], max: usize) -> Result<Vec<String>, IgnoredFile> {
    let Some((folder, path)) = open_folder(root, below)? else { return Ok(Vec::new()) };
    let told = |errno: Errno| IgnoredFile {
        path: path.clone(),
        why: FileWrong::Io(io::Error::from(errno).to_string()),
    };
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(&folder).map_err(told)? {
        let entry = entry.map_err(told)?;
        if let Ok(name) = entry.file_name().to_str()
            && !name.starts_with('.')
        {
            names.push(name.to_owned());
        }
        if names.len() == ENTRIES_MAX {
            break;
        }
    }
    names.sort();
    names.truncate(max);
    Ok(names)
}

/// Opens `.synapse` and the folders below it, one at a time.
fn open_folder(root: &Path, below: &[&str]) -> Result<Option<(File, PathBuf)>, IgnoredFile> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let ignored = |path: &Path, why| IgnoredFile { path: path.to_owned(), why };
    let io = |errno: Errno| FileWrong::Io(io::Error::from(errno).to_string());
    let mut path = root.to_owned();
    let opened = rustix::fs::open(root, flags, Mode::empty());
    let mut folder = opened.map(File::from).map_err(|errno| ignored(root, io(errno)))?;
    for step in std::iter::once(&FOLDER).chain(below) {
        path.push(step);
        folder = match rustix::fs::openat(&folder, *step, flags, Mode::empty()) {
            Ok(folder) => File::from(folder),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::MLINK | Errno::NOTDIR) => {
                let is_link = path.symlink_metadata().is_ok_and(|found| found.is_symlink());
                return Err(ignored(&path, if is_link { FileWrong::Link } else { FileWrong::NotAFolder }));
            }
            Err(errno) => return Err(ignored(&path, io(errno))),
        };
        let found = folder.metadata().map_err(|error| ignored(&path, FileWrong::Io(error.to_string())))?;
        Ownership::of(&found).check(our_uid()).map_err(|why| ignored(&path, why))?;
    }
    Ok(Some((folder, path)))
}

pub(crate) fn our_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    /// Finding H3: who may have written a file of a project, with numbers in place of real users.
    #[test]
    fn only_files_that_nobody_else_can_write_are_read() {
        let us = 1000;
        for (uid, gid, mode, fits) in [
            (us, us, 0o644, true),
            (us, us, 0o664, true),
            (0, 0, 0o644, true),
            (us, 100, 0o644, true),
            (us, 100, 0o664, false),
            (us, 0, 0o664, false),
            (0, us, 0o664, true),
            (us, us, 0o666, false),
            (us, us, 0o646, false),
            (1001, us, 0o644, false),
            (1001, 1001, 0o600, false),
        ] {
            let checked = Ownership { uid, gid, mode }.check(us);
            assert_eq!(checked.is_ok(), fits, "{uid} {gid} {mode:o}: {checked:?}");
        }
        let folder = |mode| Ownership { uid: 0, gid: 0, mode }.check_folder(us);
        assert!(folder(0o755).is_ok());
        assert!(folder(0o1777).is_err() && folder(0o1755).is_err() && folder(0o777).is_err());
    }

    struct Rig(tempfile::TempDir);

    impl Rig {
        fn new() -> Self {
            let rig = Self(tempfile::tempdir().unwrap());
            std::fs::create_dir_all(rig.at("user/code/repo/src/deep")).unwrap();
            std::fs::create_dir_all(rig.at("user/.synapse")).unwrap();
            rig
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(name)
        }

        fn roots(&self, folder: &str) -> Roots {
            let (user, folder) = (self.at("user"), self.at(folder));
            Search { folder: &folder, home: &user.join(FOLDER), user_folder: Some(&user) }.roots()
        }

        fn mode(&self, name: &str, mode: u32) {
            std::fs::set_permissions(self.at(name), std::fs::Permissions::from_mode(mode)).unwrap();
        }

        fn write(&self, name: &str, text: &str) {
            let file = self.at(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, text).unwrap();
            self.mode(name, 0o644);
        }
    }

    #[test]
    fn search_ends_at_the_repository_and_at_the_users_folder() {
        let rig = Rig::new();
        let below = |roots: Roots| -> Vec<String> {
            let user = rig.at("user");
            roots.folders.iter().map(|f| f.strip_prefix(&user).unwrap().display().to_string()).collect()
        };
        assert_eq!(below(rig.roots("user/code/repo/src")), ["code/repo/src", "code/repo", "code"]);
        std::fs::create_dir(rig.at("user/code/repo/.git")).unwrap();
        assert_eq!(below(rig.roots("user/code/repo/src")), ["code/repo/src", "code/repo"]);
        assert_eq!(rig.roots("user"), Roots::default());
    }

    /// Finding H3: the search ignores a `.synapse` in or above a folder that others can write to.
    #[test]
    fn search_ends_below_a_shared_folder() {
        for mode in [0o1777, 0o777] {
            let rig = Rig::new();
            rig.write("user/code/.synapse/settings.json", "{}");
            rig.write("user/code/repo/.synapse/settings.json", "{}");
            rig.mode("user/code/repo", mode);
            let roots = rig.roots("user/code/repo/src");
            assert_eq!(roots.folders, [rig.at("user/code/repo/src")]);
            assert_eq!(roots.passed_over.map(|ignored| ignored.path), Some(rig.at("user/code/repo")));
        }
    }

    #[test]
    fn links_and_open_files_are_not_read() {
        let rig = Rig::new();
        let root = rig.at("user/code/repo");
        let read = || read(&root, &["profiles", "x.yaml"], 100);
        assert_eq!(read(), Ok(None));
        rig.write("user/code/repo/.synapse/profiles/x.yaml", "name: x\n");
        rig.mode("user/code/repo/.synapse", 0o755);
        rig.mode("user/code/repo/.synapse/profiles", 0o755);
        assert_eq!(read(), Ok(Some(b"name: x\n".to_vec())));
        assert_eq!(names(&root, &["profiles"], 10), Ok(vec!["x.yaml".to_owned()]));
        rig.mode("user/code/repo/.synapse/profiles/x.yaml", 0o666);
        assert!(matches!(read(), Err(IgnoredFile { why: FileWrong::TooOpen { .. }, .. })));
        rig.mode("user/code/repo/.synapse/profiles/x.yaml", 0o644);
        rig.mode("user/code/repo/.synapse/profiles", 0o777);
        let ignored = read().unwrap_err();
        assert_eq!(ignored.path, root.join(".synapse/profiles"));
        rig.mode("user/code/repo/.synapse/profiles", 0o755);
        std::fs::remove_file(root.join(".synapse/profiles/x.yaml")).unwrap();
        symlink("/etc/passwd", root.join(".synapse/profiles/x.yaml")).unwrap();
        assert_eq!(read().unwrap_err().why, FileWrong::Link);
        std::fs::rename(root.join(".synapse"), root.join("elsewhere")).unwrap();
        symlink("elsewhere", root.join(".synapse")).unwrap();
        assert_eq!(read().unwrap_err().why, FileWrong::Link);
        rig.write("user/code/big/.synapse/profiles/x.yaml", &"x".repeat(101));
        let big = super::read(&rig.at("user/code/big"), &["profiles", "x.yaml"], 100);
        assert_eq!(big.unwrap_err().why, FileWrong::TooLarge { max: 100 });
    }

    /// Only root can create files of others; elsewhere
    /// `only_files_that_nobody_else_can_write_are_read` covers this.
    #[test]
    fn files_of_another_user_are_not_read() {
        let rig = Rig::new();
        let root = rig.at("user/code/repo");
        rig.write("user/code/repo/.synapse/settings.json", "{}");
        rig.mode("user/code/repo/.synapse", 0o755);
        let file = root.join(".synapse/settings.json");
        if std::os::unix::fs::chown(&file, Some(12_345), None).is_err() {
            return;
        }
        let ignored = read(&root, &["settings.json"], 100).unwrap_err();
        assert_eq!(ignored, IgnoredFile { path: file, why: FileWrong::Foreign { uid: 12_345 } });
        std::os::unix::fs::chown(&root, Some(12_345), None).unwrap();
        assert_eq!(rig.roots("user/code/repo/src").folders, [root.join("src")]);
    }
}
