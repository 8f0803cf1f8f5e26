//! Which agents a process is under: the way up from a pid to the agents' holders.
//!
//! `holders/<pid>` is a claim; the lock of the agent must name the very same living process. Invariant: a
//! process whose ancestors cannot be seen to the end is nobody's, not the person's. Otherwise a child that
//! connects and exits could pass its parent's words off as the person's, and so could an agent that uses up
//! the files that this process may open.
//! Not here: what follows for rights (`auth`), which process a TCP connection is of (`owner`).

use synapse_core::ids::AgentId;
use synapse_holder::depth;
use synapse_holder::{Ancestor, PinnedProcess, SocketPeer, lineage};
use synapse_store::holders;
use synapse_store::home::Home;

/// Where a process stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kin {
    /// No agent started it.
    Person,
    /// The agents above it, nearest first.
    Under(Vec<AgentId>),
    /// It, or one above it, has gone before all could be seen, a limit of the system kept us from looking, or it runs
    /// below an agent whose holder is not to be found.
    Gone,
}

/// Where the process at the other end of a Unix socket stands. To be asked when the connection is accepted.
pub fn of_peer(home: &Home, peer: &SocketPeer) -> Kin {
    peer.process.as_ref().map_or(Kin::Gone, |process| of_process(home, process))
}

/// Where a process stands. One below an agent that hid its holder, or below an agent of another home, is nobody: it is as
/// deep as what this agent's own holder starts (`depth`).
pub fn of_process(home: &Home, process: &PinnedProcess) -> Kin {
    let kin = agents_above(home, process);
    if kin != Kin::Person || depth::own() == 0 {
        return kin;
    }
    match depth::of(process.pid) {
        Ok(depth) if depth < depth::own() && process.is_alive() => Kin::Person,
        _ => Kin::Gone,
    }
}

/// As its ancestors say.
fn agents_above(home: &Home, process: &PinnedProcess) -> Kin {
    const LOOKS: usize = 3;
    let Some(line) = (0..LOOKS).find_map(|_| lineage(process.pid)) else { return Kin::Gone };
    let held = line.into_iter().map(|ancestor| held_by(home, ancestor));
    let Ok(agents) = held.filter_map(Result::transpose).collect::<Result<Vec<AgentId>, Unreadable>>() else {
        return Kin::Gone;
    };
    // Only now: as long as it lives, all of this was about it and not about a later process with its pid.
    if !process.is_alive() {
        return Kin::Gone;
    }
    if agents.is_empty() { Kin::Person } else { Kin::Under(agents) }
}

/// The agents above this very process, nearest first.
pub fn own(home: &Home) -> Kin {
    PinnedProcess::open(std::process::id()).map_or(Kin::Gone, |process| agents_above(home, &process))
}

/// What says which agent a process holds is there, and could not be read.
#[derive(Debug)]
pub struct Unreadable;

/// The agent that this process holds, now.
fn held_by(home: &Home, ancestor: Ancestor) -> Result<Option<AgentId>, Unreadable> {
    let Some(id) = holders::claimed_by(home, ancestor.pid).map_err(|_| Unreadable)? else { return Ok(None) };
    let recorded = synapse_holder::recorded_holder(home.agent(&id).path()).map_err(|_| Unreadable)?;
    let is_holder =
        recorded.is_some_and(|mark| mark.pid == ancestor.pid && mark.start_time == ancestor.start_time);
    Ok(is_holder.then_some(id))
}

/// The holders of all agents that run.
#[cfg(target_os = "linux")]
pub fn holders(home: &Home) -> Result<Vec<u32>, Unreadable> {
    let entries = match std::fs::read_dir(home.root().join("holders")) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(_) => return Err(Unreadable),
    };
    let mut pids = Vec::new();
    for entry in entries {
        let name = entry.map_err(|_| Unreadable)?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        let Some(id) = holders::claimed_by(home, pid).map_err(|_| Unreadable)? else { continue };
        let Some(mark) = synapse_holder::recorded_holder(home.agent(&id).path()).map_err(|_| Unreadable)?
        else {
            continue;
        };
        if mark.pid == pid && mark.check_alive().map_err(|_| Unreadable)? {
            pids.push(pid);
        }
    }
    Ok(pids)
}
