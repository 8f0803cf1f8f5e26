//! Which process holds which agent: the way from a pid to an agent.
//!
//! An index only: `holders/<pid>` names an agent, and the agent's own lock file must agree before anybody
//! believes it (`synapse-holder`'s `holder_of`).

use crate::files::{self, Access, FileError};
use crate::home::Home;
use std::path::PathBuf;
use synapse_core::ids::AgentId;

fn path(home: &Home, pid: u32) -> PathBuf {
    home.root().join("holders").join(pid.to_string())
}

pub fn note(home: &Home, pid: u32, agent: &AgentId) -> Result<(), FileError> {
    files::private_dir(&home.root().join("holders"))?;
    files::write_volatile(&path(home, pid), agent.to_string().as_bytes())
}

/// The agent that this process says it holds; a claim.
pub fn claimed_by(home: &Home, pid: u32) -> Option<AgentId> {
    let bytes = files::read_private(&path(home, pid), 64, Access::Plain).ok()?;
    AgentId::parse(std::str::from_utf8(&bytes).ok()?).ok()
}

pub fn forget(home: &Home, pid: u32) -> Result<(), FileError> {
    files::remove(&path(home, pid))
}
