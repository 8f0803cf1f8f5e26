//! All agents of a home as one process sees them, for another one that cannot look itself.
//!
//! In a sandbox the home may be hidden, and pids mean nothing. The node of the agent looks from outside and reports
//! what became of each process, so that the sandboxed command judges none of them.

use std::path::Path;

use serde::{Deserialize, Serialize};
use synapse_core::ids::AgentId;
use synapse_core::routes::{Candidate, NearFolders};

use super::{Entry, NodeProcess, Place, Scan, scan};
use crate::home::Home;
use crate::known::Known;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RegistrySnapshot {
    /// Agents that run, sorted by id.
    pub agents: Vec<ObservedAgent>,
    /// All agents that were ever seen, running or not.
    pub known: Vec<Known>,
}

/// An agent that runs, and the state of its node's process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedAgent {
    pub entry: Entry,
    pub node: NodeProcess,
}

impl RegistrySnapshot {
    pub fn take(home: &Home) -> Self {
        let here = Place::here();
        let observe = |entry: Entry| ObservedAgent { node: entry.node(&here), entry };
        let agents = scan(home).agents.into_iter().map(observe).collect();
        Self { agents, known: Known::all(home).0 }
    }
}

/// Everyone a target may mean: who runs first, then who is known and does not.
pub fn candidates(home: &Home) -> Vec<Candidate> {
    merge(&scan(home), &Known::all(home).0)
}

/// The folders that count as near for somebody who works in this one. Without a repository it is only this one.
pub fn near_folders(folder: &Path) -> NearFolders {
    const PARENTS_MAX: usize = 64;
    let up = || folder.ancestors().take(PARENTS_MAX);
    let is_root = |folder: &Path| folder.join(".git").symlink_metadata().is_ok();
    let depth = up().position(is_root).unwrap_or(0);
    NearFolders::new(up().take(depth + 1).map(|folder| folder.to_string_lossy().into_owned()).collect())
}

/// As `candidates`, from what was read already.
pub fn merge(scan: &Scan, known: &[Known]) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = scan.agents.iter().map(Entry::candidate).collect();
    // The agents of a scan are sorted by id.
    let runs = |id: &AgentId| scan.agents.binary_search_by_key(id, |entry| entry.agent_id).is_ok();
    all.extend(known.iter().filter(|known| !runs(&known.id)).map(Known::candidate));
    all
}
