//! The session that an agent's CLI was in last: its conversation, by the id that the CLI gives it.
//!
//! One `session.json` in the agent's directory. The node writes it when the program reports a prompt
//! in another session. It stays when the agent stops, so that `synapse start` can resume the session.
//!
//! The id is what the program reported. Not here: which ids may become an argument
//! (`synapse_terminal::resume`).

use crate::files::{self, Access, FileError};
use crate::home::AgentDir;
use serde::{Deserialize, Serialize};

/// The last session of a CLI.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CliSession {
    pub id: String,
    /// When it was reported first.
    pub since_ms: u64,
}

const BYTES_MAX: usize = 4 << 10;

impl CliSession {
    /// Writes it durably into the agent's directory.
    pub fn save(&self, dir: &AgentDir) -> Result<(), FileError> {
        files::write_private(&dir.cli_session(), &serde_json::to_vec(self).unwrap_or_default())
    }

    /// Returns `None` if none was reported, or the file cannot be read.
    pub fn load(dir: &AgentDir) -> Option<Self> {
        let bytes = files::read_private(&dir.cli_session(), BYTES_MAX, Access::Plain).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Removes it, because its user left the session without beginning another one.
    pub fn forget(dir: &AgentDir) -> Result<(), FileError> {
        files::remove(&dir.cli_session())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Home;
    use std::os::unix::fs::MetadataExt as _;
    use synapse_core::ids::{AgentId, AgentType};

    #[test]
    fn session_is_kept_until_it_is_left() {
        let root = tempfile::tempdir().unwrap();
        let home = Home::at(root.path().join("home"), root.path().join("registry"));
        home.ensure().unwrap();
        let dir = home.agent(&AgentId::derive("host", "/", &AgentType::parse("sh").unwrap(), None));
        dir.ensure().unwrap();
        assert_eq!(CliSession::load(&dir), None);
        CliSession::forget(&dir).unwrap();
        let session = CliSession { id: "ses_1".into(), since_ms: 7 };
        session.save(&dir).unwrap();
        assert_eq!(CliSession::load(&dir), Some(session));
        assert_eq!(dir.cli_session().metadata().unwrap().mode() & 0o777, 0o600);
        std::fs::write(dir.cli_session(), "{").unwrap();
        assert_eq!(CliSession::load(&dir), None);
        CliSession::forget(&dir).unwrap();
        assert!(!dir.cli_session().exists());
    }
}
