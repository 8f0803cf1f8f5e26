//! Remotes: agents elsewhere that have a name here, with the last card they were known by.
//!
//! One file in the home for each, readable by this user only and replaced whole. It names where a
//! secret is, but never contains one. A damaged file is reported and skipped.
//!
//! Invariant: the name in the file is the one that its path is made of, so a name means one remote.
//! Not here: fetching and verifying cards (`synapse-peer`).

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use synapse_core::ids::{AgentId, Label};

use crate::files::{self, Access, FileError, Problem};
use crate::home::Home;

/// An agent elsewhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Remote {
    pub name: Label,
    /// The URL as the user gave it.
    pub url: String,
    #[serde(default, skip_serializing_if = "Bring::is_empty")]
    pub bring: Bring,
    /// Hosts besides its own to which its card may point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_hosts: Vec<String>,
    pub card: KnownCard,
    pub added_ms: u64,
}

/// Where to find the credentials to send; the files are read when needed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bring {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_env: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
}

impl Bring {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A card as it was last fetched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KnownCard {
    pub value: Value,
    /// Its source URL.
    pub at: String,
    /// The interface to use, if the user gave the URL of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meant: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    pub fetched_ms: u64,
    pub max_age_s: u64,
    /// The result of the signature check, in words.
    #[serde(default)]
    pub signature: String,
    /// The thumbprint of the key that verified its signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_by: Option<String>,
}

impl KnownCard {
    /// Whether the card does not need to be fetched again yet.
    pub fn is_fresh(&self, now_ms: u64) -> bool {
        let age_ms = now_ms.checked_sub(self.fetched_ms);
        age_ms.is_some_and(|age_ms| age_ms < self.max_age_s.saturating_mul(1_000))
    }
}

impl Remote {
    /// Returns its permanent id, which is also the name of its file.
    pub fn id(&self) -> AgentId {
        id_of(&self.name)
    }

    /// Writes it durably; `false` if the name is taken, and then nothing is written.
    pub fn create(&self, home: &Home) -> Result<bool, FileError> {
        files::private_dir(home.root())?;
        files::private_dir(&dir(home))?;
        files::create_private(&path(home, &self.name), &self.text())
    }

    /// Replaces what was written before.
    pub fn save(&self, home: &Home) -> Result<(), FileError> {
        files::private_dir(&dir(home))?;
        files::write_private(&path(home, &self.name), &self.text())
    }

    pub fn find(home: &Home, name: &Label) -> Result<Option<Self>, FileError> {
        match files::read_private(&path(home, name), BYTES_MAX, Access::Secret) {
            Ok(bytes) => Ok(read(&bytes).filter(|remote| remote.name == *name)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns all remotes by name, and the files that could not be read.
    pub fn all(home: &Home) -> (Vec<Self>, Vec<Problem>) {
        let (mut found, mut problems) = (Vec::new(), Vec::new());
        for entry in std::fs::read_dir(dir(home)).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_none_or(|end| end != "json") {
                // An unfinished file of another writer.
                continue;
            }
            match files::read_private(&path, BYTES_MAX, Access::Secret) {
                Ok(bytes) => match read(&bytes).filter(|remote| self::path(home, &remote.name) == path) {
                    Some(remote) => found.push(remote),
                    None => {
                        problems.push(Problem::new(path, "it is damaged, or of another version; remove it"))
                    }
                },
                Err(error) if error.is_missing() => {}
                Err(error) => problems.push(Problem::new(path, error)),
            }
        }
        found.sort_by(|a, b| a.name.as_str().cmp(b.name.as_str()));
        (found, problems)
    }

    /// Returns `false` if there is no remote with that name.
    pub fn remove(home: &Home, name: &Label) -> Result<bool, FileError> {
        let path = path(home, name);
        let was_there = path.symlink_metadata().is_ok();
        files::remove(&path)?;
        Ok(was_there)
    }

    fn text(&self) -> Vec<u8> {
        let written = Written { schema: SCHEMA.into(), remote: self.clone() };
        serde_json::to_vec_pretty(&written).unwrap_or_default()
    }
}

#[derive(Serialize, Deserialize)]
struct Written {
    schema: String,
    #[serde(flatten)]
    remote: Remote,
}

const SCHEMA: &str = "synapse.remote.v1";
/// A card has at most a megabyte, and more when pretty-printed.
const BYTES_MAX: usize = 4 << 20;

fn read(bytes: &[u8]) -> Option<Remote> {
    let written: Written = serde_json::from_slice(bytes).ok()?;
    (written.schema == SCHEMA).then_some(written.remote)
}

fn dir(home: &Home) -> PathBuf {
    home.root().join("remotes")
}

fn path(home: &Home, name: &Label) -> PathBuf {
    dir(home).join(format!("{}.json", id_of(name)))
}

fn id_of(name: &Label) -> AgentId {
    let mut hash = Sha256::new();
    hash.update(b"synapse remote\n");
    hash.update(name.as_str().as_bytes());
    AgentId::from_bytes(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::os::unix::fs::PermissionsExt as _;

    fn remote(name: &str) -> Remote {
        let card = KnownCard {
            value: json!({ "name": "x" }),
            at: "https://a/c".into(),
            meant: None,
            etag: Some("\"1\"".into()),
            fetched_ms: 1_000,
            max_age_s: 10,
            signature: "not signed".into(),
            signed_by: None,
        };
        Remote {
            name: Label::parse(name).unwrap(),
            url: "https://a".into(),
            bring: Bring { token_env: Some("T".into()), ..Bring::default() },
            allow_hosts: vec!["b".into()],
            card,
            added_ms: 5,
        }
    }

    #[test]
    fn a_remote_is_kept_under_its_name_for_its_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("home"), dir.path().join("registry"));
        let (one, two) = (remote("one"), remote("Two.2"));
        assert_eq!(Remote::all(&home), (vec![], vec![]));
        assert!(one.create(&home).unwrap() && two.create(&home).unwrap());
        assert!(
            !Remote { url: "https://c".into(), ..remote("one") }.create(&home).unwrap(),
            "the name is taken"
        );
        assert_eq!(Remote::find(&home, &one.name).unwrap().as_ref(), Some(&one));
        assert_eq!(Remote::all(&home).0.len(), 2);
        let mode = path(&home, &one.name).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let changed = Remote { url: "https://d".into(), ..one.clone() };
        changed.save(&home).unwrap();
        assert_eq!(Remote::find(&home, &one.name).unwrap(), Some(changed));
        assert!(Remote::remove(&home, &one.name).unwrap() && !Remote::remove(&home, &one.name).unwrap());
        assert_eq!(Remote::find(&home, &one.name).unwrap(), None);
    }

    #[test]
    fn a_damaged_file_hides_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("home"), dir.path().join("registry"));
        let (one, two) = (remote("one"), remote("two"));
        assert!(one.create(&home).unwrap() && two.create(&home).unwrap());
        // A copied file: its name does not match its content.
        std::fs::copy(path(&home, &one.name), path(&home, &two.name)).unwrap();
        let (found, problems) = Remote::all(&home);
        assert_eq!((found, problems.len()), (vec![one.clone()], 1));
        std::fs::write(path(&home, &one.name), b"{").unwrap();
        assert_eq!(Remote::find(&home, &one.name).unwrap(), None);
        assert_eq!(Remote::all(&home).1.len(), 2);
    }

    #[test]
    fn a_card_ages() {
        let card = remote("a").card;
        assert!(card.is_fresh(1_000) && card.is_fresh(10_999) && !card.is_fresh(11_000));
        // The clock was set back.
        assert!(!card.is_fresh(999));
    }
}
