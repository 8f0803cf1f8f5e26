//! All agents of a home as one process sees them, for another process that cannot look itself.
//!
//! In a sandbox the home may be hidden, and pids mean nothing. The node of the agent
//! looks from outside and reports the state of each process, so that the sandboxed
//! command does not have to judge it.

use std::path::Path;

use serde::{Deserialize, Serialize};
use synapse_core::ids::AgentId;
use synapse_core::routes::{Candidate, NearFolders};

use super::{Entry, NodeProcess, Place, Scan, scan};
use crate::home::Home;
use crate::known::Known;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RegistrySnapshot {
    /// Running agents, sorted by id.
    pub agents: Vec<ObservedAgent>,
    /// All agents ever seen, running or not.
    pub known: Vec<Known>,
}

/// A running agent, and the state of its node's process.
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

/// Returns everyone that a target may mean: running agents first, then known ones that do not run.
pub fn candidates(home: &Home) -> Vec<Candidate> {
    merge(&scan(home), &Known::all(home).0)
}

/// Returns what an agent is called in any folder; the start of its id if nothing is known of it.
pub fn label(home: &Home, id: &AgentId) -> String {
    let all = candidates(home);
    let found = all.iter().find(|one| one.id == *id);
    found.map_or_else(|| id.short(), |one| one.call_it_anywhere(&all))
}

/// Returns the folders that are near to this one: the folder and its parents up to the
/// repository's root. Without a repository it is only the folder itself.
pub fn near_folders(folder: &Path) -> NearFolders {
    const PARENTS_MAX: usize = 64;
    let up = || folder.ancestors().take(PARENTS_MAX);
    let is_root = |folder: &Path| folder.join(".git").symlink_metadata().is_ok();
    let depth = up().position(is_root).unwrap_or(0);
    NearFolders::new(up().take(depth + 1).map(|folder| folder.to_string_lossy().into_owned()).collect())
}

/// Like `candidates`, from data that was already read; both lists are sorted by id.
pub fn merge(scan: &Scan, known: &[Known]) -> Vec<Candidate> {
    let former_names = |id: &AgentId| {
        let found = known.binary_search_by_key(id, |known| known.id).ok();
        found.map_or_else(Vec::new, |at| known[at].former_names.clone())
    };
    let live = |entry: &Entry| Candidate { former_names: former_names(&entry.agent_id), ..entry.candidate() };
    let mut all: Vec<Candidate> = scan.agents.iter().map(live).collect();
    // The agents of a scan are sorted by id.
    let runs = |id: &AgentId| scan.agents.binary_search_by_key(id, |entry| entry.agent_id).is_ok();
    all.extend(known.iter().filter(|known| !runs(&known.id)).map(Known::candidate));
    all
}
