//! The result of the last attempt to notify the user that an agent waits, for `synapse
//! explain` and `synapse doctor`.
//!
//! One `notified.json` in the agent's directory. It names the prompt, so that a node that restarts
//! while the prompt is pending does not notify the user again.

use serde::{Deserialize, Serialize};

use crate::files::{self, Access, FileError};
use crate::home::AgentDir;

/// The result of one notifier command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotifierResult {
    /// `told_at_ms` of the prompt.
    pub told_at_ms: u64,
    pub at_ms: u64,
    /// The program, without its arguments: they may contain a secret.
    pub program: String,
    pub failed: bool,
    /// The outcome, such as `exited with code 0`.
    pub why: String,
    /// The end of its standard error.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr: String,
}

const BYTES_MAX: usize = 16 << 10;

impl NotifierResult {
    pub fn save(&self, dir: &AgentDir) -> Result<(), FileError> {
        files::write_private(&dir.notified(), &serde_json::to_vec(self).unwrap_or_default())
    }

    /// Returns `None` if no command was started yet, or its result could not be written.
    pub fn load(dir: &AgentDir) -> Option<Self> {
        let bytes = files::read_private(&dir.notified(), BYTES_MAX, Access::Plain).ok()?;
        serde_json::from_slice(&bytes).ok()
    }
}
