//! Finds the agents that a process runs under, by walking from its pid up to the agents'
//! holders.
//!
//! `holders/<pid>` is only a claim; the agent's lock must name the same living process. Invariant:
//! a process whose ancestors cannot all be seen is nobody, not the person. Otherwise a child that
//! connects and exits could pass its parent's request off as the person's, and so could an agent
//! that uses up the files this process may open.
//! Not here: the rights that follow (`auth`), which process a TCP connection belongs to (`owner`).

use synapse_core::ids::AgentId;
use synapse_holder::depth;
use synapse_holder::{Ancestor, PinnedProcess, SocketPeer, SystemLimit, lineage};
use synapse_store::files::FileError;
use synapse_store::holders;
use synapse_store::home::Home;

/// Where a process is in the tree of agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kin {
    /// No agent started it.
    Person,
    /// The agents above it, nearest first.
    Under(Vec<AgentId>),
    /// The process or one of its ancestors exited before all could be seen, or it runs below an
    /// agent whose holder cannot be found.
    Gone,
    /// This system limit prevented the lookup; a later one may succeed.
    Limited(SystemLimit),
}

/// Returns the kin of the process at the other end of a Unix socket. Call it when the connection is
/// accepted.
pub fn of_peer(home: &Home, peer: &SocketPeer) -> Kin {
    match &peer.process {
        Ok(Some(process)) => of_process(home, process),
        Ok(None) => Kin::Gone,
        Err(limit) => Kin::Limited(*limit),
    }
}

/// Returns the kin of a process. One below an agent that hid its holder, or below an agent of
/// another home, is nobody: its depth gives it away, because it is at least as deep as a process
/// started by this agent's own holder (`depth`).
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

/// Returns the kin that follows from the process's ancestors.
fn agents_above(home: &Home, process: &PinnedProcess) -> Result<Kin, Unreadable> {
    const LOOKS: usize = 3;
    let line = (0..LOOKS).find_map(|_| lineage(process.pid).transpose());
    let Some(line) = line.transpose()? else { return Ok(Kin::Gone) };
    let held = line.into_iter().map(|ancestor| held_by(home, ancestor));
    let agents: Vec<AgentId> = held.filter_map(Result::transpose).collect::<Result<_, _>>()?;
    // Check this last: while the process lives, everything above was about it and not about a later
    // process with its pid.
    if !process.check_alive()? {
        return Ok(Kin::Gone);
    }
    Ok(if agents.is_empty() { Kin::Person } else { Kin::Under(agents) })
}

/// Returns the agents above this process, nearest first.
pub fn own(home: &Home) -> Kin {
    match PinnedProcess::open(std::process::id()) {
        Ok(Some(process)) => agents_above(home, &process).unwrap_or_else(Kin::from),
        Ok(None) => Kin::Gone,
        Err(limit) => Kin::Limited(limit),
    }
}

/// Why the file that names a holder's agent exists but could not be read.
#[derive(Debug, Clone, Copy)]
pub enum Unreadable {
    /// A system limit prevented it.
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

/// Returns the agent that this process holds now.
fn held_by(home: &Home, ancestor: Ancestor) -> Result<Option<AgentId>, Unreadable> {
    let Some(id) = holders::claimed_by(home, ancestor.pid)? else { return Ok(None) };
    let recorded = synapse_holder::recorded_holder(home.agent(&id).path())?;
    let is_holder =
        recorded.is_some_and(|mark| mark.pid == ancestor.pid && mark.start_time == ancestor.start_time);
    Ok(is_holder.then_some(id))
}

/// Returns the holders of all running agents.
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
