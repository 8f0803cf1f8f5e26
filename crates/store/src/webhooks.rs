//! The webhooks of an agent's tasks: their URLs, their credentials, and the last
//! event that each was sent.
//!
//! Two files for each, in a folder of its own. The request is synced before it is acknowledged. The
//! position of the last event sent is not: if it is lost, some events are sent twice.
//!
//! Invariant: secrets are in files for this user alone, and in no text that is shown to people.
//! Not here: sending, and what a position means (`synapse-node`).

use crate::files::{self, Access, FileError, Problem};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::path::{Path, PathBuf};
use synapse_core::ids::TaskId;

/// Most webhooks of one agent.
pub const WEBHOOKS_MAX: usize = 1_000;
const BYTES_MAX: usize = 64 << 10;
const PLACE_BYTES_MAX: usize = 64;

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    pub task: TaskId,
    /// The caller's id for it; unique per task.
    pub id: String,
    pub url: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<Login>,
    /// Events after this position are sent.
    pub from: String,
    /// Whether the caller speaks version 0.3 of A2A, and expects events in that form.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_of_v03: bool,
}

/// The credentials that authenticate us to a webhook.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    pub scheme: String,
    pub credentials: String,
}

/// Omits the secrets; a URL may contain one too.
impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, id, from, .. } = self;
        f.debug_struct("Webhook")
            .field("task", task)
            .field("id", id)
            .field("from", from)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

/// The folder with an agent's webhooks.
#[derive(Debug, Clone)]
pub struct Webhooks {
    dir: PathBuf,
}

impl Webhooks {
    pub fn at(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Returns all webhooks, each with the position of the last event sent, and the files
    /// that could not be read.
    pub fn all(&self) -> (Vec<(Webhook, Option<String>)>, Vec<Problem>) {
        let (mut found, mut problems) = (Vec::new(), Vec::new());
        let Ok(listed) = std::fs::read_dir(&self.dir) else { return (found, problems) };
        for path in listed.flatten().map(|file| file.path()) {
            if path.extension().is_none_or(|ending| ending != ASKED) {
                self.sweep(&path);
            } else if found.len() == WEBHOOKS_MAX {
                problems.push(Problem::new(path, "there are more webhooks than are kept"));
            } else {
                match read(&path) {
                    Ok(webhook) => found.push((webhook, place(&path))),
                    Err(why) => problems.push(Problem::new(path, why)),
                }
            }
        }
        (found, problems)
    }

    /// Stores a webhook; it is on disk when this returns. One with the same
    /// task and id is replaced.
    pub fn put(&self, webhook: &Webhook) -> Result<(), FileError> {
        files::private_dir(&self.dir)?;
        files::write_private(&self.path(webhook), &serde_json::to_vec(webhook).unwrap_or_default())
    }

    /// Stores the position up to which events were sent.
    pub fn told(&self, webhook: &Webhook, place: &str) -> Result<(), FileError> {
        files::write_volatile(&self.path(webhook).with_extension(TOLD), place.as_bytes())
    }

    /// Removes a webhook; a missing one is fine.
    pub fn remove(&self, webhook: &Webhook) -> Result<(), FileError> {
        let path = self.path(webhook);
        files::remove(&path)?;
        files::remove(&path.with_extension(TOLD))?;
        files::sync(&self.dir)
    }

    /// Returns the path of its file, named by a digest because the caller chooses the id.
    fn path(&self, webhook: &Webhook) -> PathBuf {
        let digest = Sha256::digest(format!("{} {}", webhook.task, webhook.id));
        let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        self.dir.join(name).with_extension(ASKED)
    }

    /// Removes what a crash left behind: a position without its webhook, or a draft.
    fn sweep(&self, path: &Path) {
        let is_place = path.extension().is_some_and(|ending| ending == TOLD);
        let is_draft = path.file_name().is_some_and(|name| files::is_draft(name.as_encoded_bytes()));
        if is_draft || (is_place && !path.with_extension(ASKED).exists()) {
            let _ = files::remove(path);
        }
    }
}

const ASKED: &str = "json";
const TOLD: &str = "told";

fn read(path: &Path) -> Result<Webhook, String> {
    let bytes = files::read_private(path, BYTES_MAX, Access::Secret).map_err(|e| e.to_string())?;
    // A parser's error may quote what it read.
    serde_json::from_slice(&bytes)
        .map_err(|e| format!("it is no webhook (line {}, column {})", e.line(), e.column()))
}

fn place(path: &Path) -> Option<String> {
    let bytes = files::read_private(&path.with_extension(TOLD), PLACE_BYTES_MAX, Access::Secret).ok()?;
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn webhook(id: &str) -> Webhook {
        Webhook {
            task: TaskId::parse("00112233445566778899aabbccddeeff").unwrap(),
            id: id.to_owned(),
            url: "https://hook.example.org/s3cr3t-path".into(),
            token: "s3cr3t-token".into(),
            login: Some(Login { scheme: "Bearer".into(), credentials: "s3cr3t-bearer".into() }),
            from: "12-9".into(),
            is_of_v03: false,
        }
    }

    #[test]
    fn webhooks_outlive_their_node_and_so_does_how_far_they_were_told() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("webhooks");
        let hooks = Webhooks::at(dir.clone());
        assert_eq!(hooks.all().0, []);
        assert!(!dir.exists(), "looking makes nothing");
        let (one, odd) = (webhook("one"), webhook("../../etc/passwd\0 \u{1f980}"));
        hooks.put(&one).unwrap();
        hooks.put(&odd).unwrap();
        hooks.told(&odd, "14-0").unwrap();
        let again = Webhooks::at(dir.clone());
        let (mut found, problems) = again.all();
        found.sort_by(|a, b| a.1.cmp(&b.1));
        assert_eq!(
            (found, problems),
            (vec![(one.clone(), None), (odd.clone(), Some("14-0".into()))], vec![])
        );
        let replaced = Webhook { url: "https://other.example.org".into(), ..one };
        again.put(&replaced).unwrap();
        again.remove(&odd).unwrap();
        again.remove(&odd).unwrap();
        assert_eq!(again.all().0, [(replaced, None)]);
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1, "nothing is left of what was removed");
    }

    #[test]
    fn secrets_are_for_this_user_alone_and_in_no_text() {
        use std::os::unix::fs::PermissionsExt as _;
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("webhooks");
        let hooks = Webhooks::at(dir.clone());
        hooks.put(&webhook("one")).unwrap();
        assert!(!format!("{:?}", webhook("one")).contains("s3cr3t"));
        assert!(!format!("{:?}", webhook("one").login).contains("s3cr3t"));
        let file = std::fs::read_dir(&dir).unwrap().next().unwrap().unwrap().path();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&dir), mode(&file)), (0o700, 0o600));
        // A file that others could have read, or that is damaged, is neither used nor quoted.
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let (found, problems) = hooks.all();
        assert!(found.is_empty() && problems.len() == 1, "{problems:?}");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&file, "{\"task\": \"s3cr3t\"}").unwrap();
        let (found, problems) = hooks.all();
        assert!(found.is_empty() && !problems[0].why.contains("s3cr3t"), "{problems:?}");
    }

    #[test]
    fn what_a_crash_left_behind_goes() {
        let root = tempfile::tempdir().unwrap();
        let hooks = Webhooks::at(root.path().to_owned());
        std::fs::write(root.path().join("00ff.told"), "12-0").unwrap();
        assert_eq!(hooks.all(), (vec![], vec![]));
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
    }
}
