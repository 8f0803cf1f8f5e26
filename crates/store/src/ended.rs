//! How an agent's program ended, for queries after the agent is gone.
//!
//! One `ended.json` in the agent's directory, written when its program ends by itself and removed
//! at its next start. An agent that was stopped has none.

use serde::{Deserialize, Serialize};

use crate::files::{self, Access, FileError};
use crate::home::AgentDir;

/// How a program ended by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Whether it ended with a code other than 0, or by a signal.
    pub failed: bool,
    /// The code or the signal, and its last output.
    pub why: String,
    pub at_ms: u64,
}

const BYTES_MAX: usize = 16 << 10;

impl Ended {
    pub fn save(&self, dir: &AgentDir) -> Result<(), FileError> {
        files::write_private(&dir.ended(), &serde_json::to_vec(self).unwrap_or_default())
    }

    /// Returns `None` if it did not end by itself, or the file could not be written.
    pub fn load(dir: &AgentDir) -> Option<Self> {
        let bytes = files::read_private(&dir.ended(), BYTES_MAX, Access::Plain).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Removes it, because the program runs again.
    pub fn forget(dir: &AgentDir) {
        let _ = std::fs::remove_file(dir.ended());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Home;
    use synapse_core::ids::{AgentId, AgentType};

    #[test]
    fn an_end_is_remembered_until_the_next_start() {
        let root = tempfile::tempdir().unwrap();
        let home = Home::at(root.path().join("home"), root.path().join("registry"));
        home.ensure().unwrap();
        let id = AgentId::derive("host", "/", &AgentType::parse("sh").unwrap(), None);
        let dir = home.agent(&id);
        dir.ensure().unwrap();
        assert_eq!(Ended::load(&dir), None);
        let ended = Ended { failed: true, why: "exit code 9: no key".into(), at_ms: 7 };
        ended.save(&dir).unwrap();
        assert_eq!(Ended::load(&dir), Some(ended));
        std::fs::write(dir.ended(), "{").unwrap();
        assert_eq!(Ended::load(&dir), None);
        Ended::forget(&dir);
        assert!(!dir.ended().exists());
    }
}
