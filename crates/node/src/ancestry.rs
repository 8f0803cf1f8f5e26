//! Which agents a process is under: the way up from a pid to the agents' holders.
//!
//! `holders/<pid>` is a claim; the lock of the agent must name the very same living process. Invariant: a
//! process whose ancestors cannot be seen to the end is nobody's, not the person's. Otherwise a child that
//! connects and exits could pass its parent's words off as the person's, and so could an agent that uses up
//! the files that this process may open.
//! Not here: what follows for rights (`auth`), which process a TCP connection is of (`owner`).

use synapse_core::ids::AgentId;
use synapse_holder::depth;
use synapse_holder::{Ancestor, PinnedProcess, SocketPeer, SystemLimit, lineage};
use synapse_store::files::FileError;
use synapse_store::holders;
use synapse_store::home::Home;

/// Where a process stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kin {
    /// No agent started it.
    Person,
    /// The agents above it, nearest first.
    Under(Vec<AgentId>),
    /// It, or one above it, has gone before all could be seen, or it runs below an agent whose holder is not to be found.
    Gone,
    /// This limit of the system prevented the look; a later one may go well.
    Limited(SystemLimit),
}

/// Where the process at the other end of a Unix socket stands. To be asked when the connection is accepted.
pub fn of_peer(home: &Home, peer: &SocketPeer) -> Kin {
    match &peer.process {
        Ok(Some(process)) => of_process(home, process),
        Ok(None) => Kin::Gone,
        Err(limit) => Kin::Limited(*limit),
    }
}

/// Where a process stands. One below an agent that hid its holder, or below an agent of another home, is nobody: it is as
/// deep as what this agent's own holder starts (`depth`).
pub fn of_process(home: &Home, process: &PinnedProcess) -> Kin {
    let kin = agents_above(home, process).unwrap_or_else(Kin::from);
    if kin != Kin::Person || depth::own() == 0 {
        return kin;
    }
    match is_above_us(process) {
        Ok(true) => Kin::Person,
        Ok(false) => Kin::Gone,
        Err(limit) => Kin::Limited(limit),
    }
}

fn is_above_us(process: &PinnedProcess) -> Result<bool, SystemLimit> {
    let depth = SystemLimit::check(depth::of(process.pid))?;
    Ok(depth.is_ok_and(|depth| depth < depth::own()) && process.check_alive()?)
}

/// As its ancestors say.
fn agents_above(home: &Home, process: &PinnedProcess) -> Result<Kin, Unreadable> {
    const LOOKS: usize = 3;
    let line = (0..LOOKS).find_map(|_| lineage(process.pid).transpose());
    let Some(line) = line.transpose()? else { return Ok(Kin::Gone) };
    let held = line.into_iter().map(|ancestor| held_by(home, ancestor));
    let agents: Vec<AgentId> = held.filter_map(Result::transpose).collect::<Result<_, _>>()?;
    // Only now: as long as it lives, all of this was about it and not about a later process with its pid.
    if !process.check_alive()? {
        return Ok(Kin::Gone);
    }
    Ok(if agents.is_empty() { Kin::Person } else { Kin::Under(agents) })
}

/// The agents above this very process, nearest first.
pub fn own(home: &Home) -> Kin {
    match PinnedProcess::open(std::process::id()) {
        Ok(Some(process)) => agents_above(home, &process).unwrap_or_else(Kin::from),
        Ok(None) => Kin::Gone,
        Err(limit) => Kin::Limited(limit),
    }
}

/// What says which agent a process holds is there, and could not be read.
#[derive(Debug, Clone, Copy)]
pub enum Unreadable {
    /// Because of this limit of the system.
    Limited(SystemLimit),
    Failed,
}

impl Unreadable {
    fn because_of(error: &(dyn std::error::Error + 'static)) -> Self {
        SystemLimit::behind(error).map_or(Self::Failed, Self::Limited)
    }
}

impl From<SystemLimit> for Unreadable {
    fn from(limit: SystemLimit) -> Self {
        Self::Limited(limit)
    }
}

impl From<FileError> for Unreadable {
    fn from(error: FileError) -> Self {
        Self::because_of(&error)
    }
}

impl From<std::io::Error> for Unreadable {
    fn from(error: std::io::Error) -> Self {
        Self::because_of(&error)
    }
}

impl From<Unreadable> for Kin {
    fn from(unreadable: Unreadable) -> Self {
        match unreadable {
            Unreadable::Limited(limit) => Self::Limited(limit),
            Unreadable::Failed => Self::Gone,
        }
    }
}

/// The agent that this process holds, now.
fn held_by(home: &Home, ancestor: Ancestor) -> Result<Option<AgentId>, Unreadable> {
    let Some(id) = holders::claimed_by(home, ancestor.pid)? else { return Ok(None) };
    let recorded = synapse_holder::recorded_holder(home.agent(&id).path())?;
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
        Err(error) => return Err(error.into()),
    };
    let mut pids = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        let Some(id) = holders::claimed_by(home, pid)? else { continue };
        let Some(mark) = synapse_holder::recorded_holder(home.agent(&id).path())? else { continue };
        if mark.pid == pid && mark.check_alive()? {
            pids.push(pid);
        }
    }
    Ok(pids)
}
