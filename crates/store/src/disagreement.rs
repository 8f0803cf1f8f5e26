//! A lasting contradiction between a program's own reports and the screen rules of its
//! profile, for `synapse doctor`.
//!
//! One `disagreement.json` in the agent's directory, which only its user can read, because it
//! contains rows of the screen. The node writes it, and removes it when the profile changes. The
//! next start of the program removes it, too.

use crate::files::{self, Access, FileError};
use crate::home::AgentDir;
use serde::{Deserialize, Serialize};

/// What the program reported, and what its screen rules said at the same time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleDisagreement {
    pub since_ms: u64,
    pub last_ms: u64,
    /// How many times it lasted long.
    pub times: u32,
    pub longest_ms: u64,
    /// What reported the program's state, such as `hook`; the state, and the reason.
    pub source: String,
    pub says: String,
    pub why: String,
    /// The rule that matched the screen, and its state; `None` if no rule did.
    #[serde(default)]
    pub rule: Option<ScreenRule>,
    pub profile: String,
    /// The source of that profile.
    pub profile_from: String,
    /// The program as it was started.
    pub program: String,
    #[serde(default)]
    pub cli_version: Option<String>,
    /// The lowest rows of the screen at that time.
    pub rows: Vec<String>,
    #[serde(default)]
    pub proposal: Option<ProposedLines>,
}

/// A screen rule of a profile.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreenRule {
    pub name: String,
    pub state: String,
}

/// Lines proposed for a profile, and where they belong.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProposedLines {
    pub place: String,
    pub lines: Vec<String>,
}

const BYTES_MAX: usize = 64 << 10;

impl RuleDisagreement {
    pub fn save(&self, dir: &AgentDir) -> Result<(), FileError> {
        files::write_private(&dir.disagreement(), &serde_json::to_vec(self).unwrap_or_default())
    }

    /// Returns `None` if there was none, or it could not be written.
    pub fn load(dir: &AgentDir) -> Option<Self> {
        let bytes = files::read_private(&dir.disagreement(), BYTES_MAX, Access::Plain).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Removes it, because the program or profile it is about is not in use any more.
    pub fn forget(dir: &AgentDir) {
        let _ = std::fs::remove_file(dir.disagreement());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Home;
    use std::os::unix::fs::MetadataExt as _;
    use synapse_core::ids::{AgentId, AgentType};

    #[test]
    fn record_is_private_and_forgotten() {
        let root = tempfile::tempdir().unwrap();
        let home = Home::at(root.path().join("home"), root.path().join("registry"));
        home.ensure().unwrap();
        let id = AgentId::derive("host", "/", &AgentType::parse("sh").unwrap(), None);
        let dir = home.agent(&id);
        dir.ensure().unwrap();
        assert_eq!(RuleDisagreement::load(&dir), None);
        let found = RuleDisagreement { times: 3, rows: vec!["> ".into()], ..RuleDisagreement::default() };
        found.save(&dir).unwrap();
        assert_eq!(RuleDisagreement::load(&dir), Some(found));
        assert_eq!(dir.disagreement().metadata().unwrap().mode() & 0o777, 0o600);
        RuleDisagreement::forget(&dir);
        assert_eq!(RuleDisagreement::load(&dir), None);
    }
}
