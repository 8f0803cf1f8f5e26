//! Whether an agent should run: from its start until somebody stops it or its program ends.
//!
//! An empty file in the agent's directory. A crash, a power cut and the shutdown of the machine leave
//! it, so `synapse start --all` knows which agents ran.

use crate::files::{self, FileError};
use crate::home::AgentDir;

/// Notes durably that the agent should run.
pub fn note(dir: &AgentDir) -> Result<(), FileError> {
    files::write_private(&dir.should_run(), b"")
}

/// Whether it ran, and nobody stopped it.
pub fn is_noted(dir: &AgentDir) -> bool {
    dir.should_run().exists()
}

pub fn forget(dir: &AgentDir) -> Result<(), FileError> {
    files::remove(&dir.should_run())
}
