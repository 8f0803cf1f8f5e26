//! Which agents a process is under: the way up from a pid to the agents' holders.
//!
//! `holders/<pid>` is a claim; the lock of the agent must name the very same living process. Invariant: a
//! process whose ancestors cannot be seen to the end is nobody's, not the person's. Otherwise a child that
//! connects and exits could pass its parent's words off as the person's.
//! Not here: what follows for rights (`auth`), which process a TCP connection is of (`owner`).

use synapse_core::ids::AgentId;
use synapse_store::holders;
use synapse_store::home::Home;

/// Where a process stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kin {
    /// No agent started it.
    Person,
    /// The agents above it, nearest first.
    Under(Vec<AgentId>),
    /// It, or one above it, has gone before all could be seen.
    Gone,
}

pub fn kin(home: &Home, pid: u32) -> Kin {
    const LOOKS: usize = 3;
    let Some(ancestors) = (0..LOOKS).find_map(|_| whole_ancestry(pid)) else { return Kin::Gone };
    let agents: Vec<AgentId> = ancestors.into_iter().filter_map(|ancestor| held_by(home, ancestor)).collect();
    if agents.is_empty() { Kin::Person } else { Kin::Under(agents) }
}

/// The agent that this process holds, now.
pub fn held_by(home: &Home, pid: u32) -> Option<AgentId> {
    let id = holders::claimed_by(home, pid)?;
    let mark = synapse_holder::holder_of(home.agent(&id).path())?;
    (mark.pid == pid && mark.is_alive()).then_some(id)
}

/// A process and all above it, if nothing changed while we looked.
fn whole_ancestry(pid: u32) -> Option<Vec<u32>> {
    let before = synapse_holder::ProcessMark::of(pid)?;
    let ancestors = synapse_holder::ancestors(pid);
    let top = synapse_holder::parent_of(*ancestors.last()?)?;
    let same = synapse_holder::ProcessMark::of(pid)? == before;
    // Process 1 is everybody's ancestor; 0 stands above whoever came from outside our pid namespace.
    (same && top <= 1).then_some(ancestors)
}
