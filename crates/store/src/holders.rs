//! Which process holds which agent: the lookup from a pid to an agent.
//!
//! An index only: `holders/<pid>` names an agent, and the agent's own lock file must confirm it
//! (`synapse-holder`'s `holder_of`).

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

/// Returns the agent that this process claims to hold. Returns `None` only if there is no
/// such file: an unreadable file may belong to an agent, so the caller must not take its
/// process for the user's.
pub fn claimed_by(home: &Home, pid: u32) -> Result<Option<AgentId>, FileError> {
    let path = path(home, pid);
    let bytes = match files::read_private(&path, 64, Access::Plain) {
        Ok(bytes) => bytes,
        Err(error) if error.is_missing() || !home.root().is_dir() => return Ok(None),
        Err(error) => return Err(error),
    };
    let id = std::str::from_utf8(&bytes).ok().and_then(|text| AgentId::parse(text).ok());
    let garbled = || std::io::Error::new(std::io::ErrorKind::InvalidData, "it does not name an agent");
    id.map(Some).ok_or_else(|| FileError::io(&path, "read", garbled()))
}

pub fn forget(home: &Home, pid: u32) -> Result<(), FileError> {
    files::remove(&path(home, pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finding H2: a claim that exists but cannot be read is an error, since its process
    /// may be below an agent.
    #[test]
    fn unreadable_claim_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let home = Home::at(root.path().join("home"), root.path().join("registry"));
        assert_eq!(claimed_by(&home, 7).unwrap(), None);
        let agent = AgentId::parse(&"ab".repeat(32)).unwrap();
        note(&home, 7, &agent).unwrap();
        assert_eq!(claimed_by(&home, 7).unwrap(), Some(agent));
        files::write_volatile(&path(&home, 8), b"?").unwrap();
        assert!(claimed_by(&home, 8).is_err());
        std::os::unix::fs::symlink(path(&home, 7), path(&home, 9)).unwrap();
        assert!(claimed_by(&home, 9).is_err());
    }
}
