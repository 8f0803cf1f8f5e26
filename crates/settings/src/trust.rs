//! The project files that the user trusts: their paths and hashes, in one file of Synapse's home.
//!
//! A trusted file counts like the user's own, as long as every byte is unchanged. The caller passes
//! the bytes that it will use, so a file that changes in between is not trusted.
//!
//! Invariant: an unreadable list trusts nothing.
//! Not here: asking the user (`synapse trust`), reading projects (`project`).

use crate::disk::{self, Whose};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

/// The name of the list in Synapse's home.
pub const TRUST_FILE: &str = "trusted.json";
/// The most files that can be trusted at once.
pub const TRUSTED_MAX: usize = 1_000;

/// A trusted file, with the hash of its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustedFile {
    pub path: PathBuf,
    pub sha256: String,
    /// When it was trusted, in milliseconds since 1970.
    #[serde(default)]
    pub at_ms: u64,
}

/// All trusted files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TrustList {
    #[serde(default)]
    pub files: Vec<TrustedFile>,
}

/// Why the list was not read or changed.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("cannot read {}: {why}", .file.display())]
    Read { file: PathBuf, why: String },
    #[error("cannot write {}: {source}", .file.display())]
    Write { file: PathBuf, source: io::Error },
    #[error("{TRUSTED_MAX} files are trusted already, and there is no room for more")]
    Full,
}

impl TrustList {
    /// Loads the list of this home; empty if there is none.
    pub fn load(home: &Path) -> Result<Self, TrustError> {
        let file = home.join(TRUST_FILE);
        let failed = |why: String| TrustError::Read { file: file.clone(), why };
        match disk::read(&file, Whose::User) {
            Ok(None) => Ok(Self::default()),
            Ok(Some(text)) => serde_json::from_str(&text).map_err(|e| failed(e.to_string())),
            Err(wrong) => Err(failed(wrong.to_string())),
        }
    }

    /// Whether these exact bytes are trusted at this path.
    pub fn trusts(&self, path: &Path, bytes: &[u8]) -> bool {
        let known = self.files.iter().find(|file| file.path == path);
        known.is_some_and(|file| file.sha256 == hash(bytes))
    }

    fn put(&mut self, new: TrustedFile) {
        self.files.retain(|file| file.path != new.path);
        self.files.push(new);
    }
}

/// Adds files; one that is trusted with other content is replaced.
pub fn add(home: &Path, new: Vec<TrustedFile>) -> Result<(), TrustError> {
    change(home, |list| {
        new.into_iter().for_each(|file| list.put(file));
        if list.files.len() > TRUSTED_MAX {
            list.files.retain(|file| file.path.exists());
        }
        if list.files.len() > TRUSTED_MAX { Err(TrustError::Full) } else { Ok(()) }
    })
}

/// Removes files, and returns those that were trusted.
pub fn revoke(home: &Path, is_meant: impl Fn(&Path) -> bool) -> Result<Vec<PathBuf>, TrustError> {
    let mut gone = Vec::new();
    change(home, |list| {
        gone = list.files.iter().map(|file| file.path.clone()).filter(|path| is_meant(path)).collect();
        list.files.retain(|file| !is_meant(&file.path));
        Ok(())
    })?;
    Ok(gone)
}

fn change(
    home: &Path,
    edit: impl FnOnce(&mut TrustList) -> Result<(), TrustError>,
) -> Result<(), TrustError> {
    let file = home.join(TRUST_FILE);
    let failed = |source| TrustError::Write { file: file.clone(), source };
    let _alone = disk::lock(home).map_err(failed)?;
    let before = TrustList::load(home)?;
    let mut list = before.clone();
    edit(&mut list)?;
    if list == before {
        return Ok(());
    }
    let text = serde_json::to_string_pretty(&list).map_err(|e| failed(e.into()))?;
    disk::replace(&file, &format!("{text}\n"), Whose::User).map_err(failed)
}

/// Returns the SHA-256 hash as `sha256sum` prints it.
pub fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn file(path: &str, bytes: &[u8]) -> TrustedFile {
        TrustedFile { path: path.into(), sha256: hash(bytes), at_ms: 1 }
    }

    /// Finding H3: one changed byte, or another path, is not trusted.
    #[test]
    fn trust_is_for_these_bytes_at_this_path() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(TrustList::load(home.path()).unwrap(), TrustList::default());
        add(home.path(), vec![file("/p/a.yaml", b"abc"), file("/p/b.yaml", b"x")]).unwrap();
        let list = TrustList::load(home.path()).unwrap();
        let trusts = |path: &str, bytes: &[u8]| list.trusts(Path::new(path), bytes);
        assert!(trusts("/p/a.yaml", b"abc"));
        assert!(!trusts("/p/a.yaml", b"abd") && !trusts("/p/c.yaml", b"abc"));
        let mode = home.path().join(TRUST_FILE).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        add(home.path(), vec![file("/p/a.yaml", b"new")]).unwrap();
        let list = TrustList::load(home.path()).unwrap();
        assert!(list.trusts(Path::new("/p/a.yaml"), b"new") && list.files.len() == 2);
        let gone = revoke(home.path(), |path| path.ends_with("a.yaml")).unwrap();
        assert_eq!(gone, [PathBuf::from("/p/a.yaml")]);
        assert_eq!(TrustList::load(home.path()).unwrap().files.len(), 1);
    }

    #[test]
    fn unreadable_list_trusts_nothing() {
        let home = tempfile::tempdir().unwrap();
        let list = home.path().join(TRUST_FILE);
        std::fs::write(&list, "{").unwrap();
        assert!(TrustList::load(home.path()).is_err());
        add(home.path(), vec![file("/p/a", b"")]).unwrap_err();
        std::fs::write(&list, "{}").unwrap();
        std::fs::set_permissions(&list, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(TrustList::load(home.path()).is_err());
    }

    #[test]
    fn full_list_makes_room_only_for_files_that_are_gone() {
        let home = tempfile::tempdir().unwrap();
        let there = home.path().join("there");
        std::fs::write(&there, "").unwrap();
        let many = (0..=TRUSTED_MAX).map(|n| file(&format!("/no/such/{n}"), b"")).collect();
        add(home.path(), many).unwrap();
        assert_eq!(TrustList::load(home.path()).unwrap().files, []);
    }
}
