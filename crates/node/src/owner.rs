//! Finds the process behind a TCP connection from this machine: a stolen token does not make
//! an agent the person.
//!
//! The kernel lists connections with the socket number of the other end, and the sockets that each
//! process has open. This leads to the process, and from it to the agent. The lookup runs once for
//! each connection that authenticates, off the async threads, and within limits.
//!
//! Invariant: a process under an agent is never taken for the person because it was quick, hid its
//! open files, passed its socket from child to child, or put it where no process has it. If an
//! agent has the socket open, the owner is that agent, even if a process of the person has the
//! socket too. A socket of our own user that no visible process has is nobody's. Not here: systems
//! other than Linux, where processes cannot be looked up.

#[cfg(target_os = "linux")]
mod linux;

#[cfg(target_os = "linux")]
use crate::ancestry::{self, Kin, Unreadable};
#[cfg(target_os = "linux")]
use std::collections::BTreeSet;
use std::net::SocketAddr;
use synapse_core::ids::AgentId;
#[cfg(target_os = "linux")]
use synapse_holder::PinnedProcess;
use synapse_holder::SystemLimit;
#[cfg(target_os = "linux")]
use synapse_store::files::our_uid;
use synapse_store::home::Home;

/// The owner of the other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// A process under these agents, nearest first.
    Agents(Vec<AgentId>),
    /// A process that no agent started.
    Person,
    /// Not a process that we could see, and none under an agent: another machine, another user, a
    /// forwarded port.
    Elsewhere,
    /// It may belong to anybody, for this reason.
    Nobody(&'static str),
    /// This system limit prevented the lookup; a later one may succeed.
    Limited(SystemLimit),
}

/// The result of one lookup.
#[cfg(target_os = "linux")]
enum Look {
    Found(Owner),
    /// Look again for this reason; after the last lookup it is the reason why the connection is
    /// nobody's.
    Again(&'static str),
}

#[cfg(target_os = "linux")]
impl Look {
    fn nobody(why: &'static str) -> Self {
        Self::Found(Owner::Nobody(why))
    }

    fn found_or_again(owner: Option<Owner>) -> Self {
        owner.map_or(Self::Again(UNSEEN), Self::Found)
    }
}

#[cfg(target_os = "linux")]
const UNREADABLE: &str = "the processes of the agents of this machine could not be listed";
#[cfg(target_os = "linux")]
const UNSEEN: &str = "no process that can be seen has this connection";
#[cfg(target_os = "linux")]
const TOO_MANY: &str = "too many files are open on this machine to find the calling process";

/// Finds the process whose connection goes from `remote` to us at `local`.
#[cfg(target_os = "linux")]
pub fn of(home: &Home, remote: SocketAddr, local: SocketAddr) -> Owner {
    find(home, remote, local).unwrap_or_else(Owner::Limited)
}

#[cfg(target_os = "linux")]
fn find(home: &Home, remote: SocketAddr, local: SocketAddr) -> Result<Owner, SystemLimit> {
    const LOOKS: usize = 4;
    let is_near = linux::is_near(remote, local);
    let (mut before, mut why) = (None, UNSEEN);
    for _ in 0..LOOKS {
        let looked = match linux::socket_of(remote, local)? {
            linux::Row::Socket { inode, uid } => look(home, inode, uid, &mut before)?,
            linux::Row::None | linux::Row::Unreadable if !is_near => Look::Found(Owner::Elsewhere),
            // The list may miss a row when others change meanwhile.
            linux::Row::None => Look::Again(UNSEEN),
            linux::Row::Several => Look::Again("several connections have the addresses of this one"),
            linux::Row::Closed => {
                Look::nobody("the calling process closed its connection before it could be seen")
            }
            linux::Row::Unreadable => Look::nobody("the connections of this machine cannot be listed"),
        };
        match looked {
            Look::Found(owner) => return Ok(owner),
            Look::Again(reason) => why = reason,
        }
    }
    Ok(Owner::Nobody(why))
}

/// Looks once for the owner of a socket.
#[cfg(target_os = "linux")]
fn look(home: &Home, socket: u64, uid: u32, before: &mut Option<BTreeSet<u32>>) -> Result<Look, SystemLimit> {
    let below = match linux::below_agents(home) {
        Ok(below) => below,
        Err(Unreadable::Limited(limit)) => return Err(limit),
        Err(Unreadable::Failed) => return Ok(Look::Again(UNREADABLE)),
    };
    // Agents first: an agent that has the socket is the owner, even if it gave a copy to a process
    // of the person. This node is below its own agent and trusted.
    let others: Vec<u32> = below.iter().rev().copied().filter(|pid| *pid != std::process::id()).collect();
    match linux::search(&others, socket)? {
        linux::Search::Found(places) => {
            let owner = owner_of(home, &places).filter(|owner| *owner != Owner::Person);
            return Ok(Look::found_or_again(owner));
        }
        linux::Search::TooMany => return Ok(Look::nobody(TOO_MANY)),
        linux::Search::None { .. } => {}
    }
    // For other users the secret decides, unless an agent can make its socket one of that user.
    let is_own = uid == our_uid();
    if !is_own && !linux::can_act_as(&below, uid)? {
        return Ok(Look::Found(Owner::Elsewhere));
    }
    Ok(match linux::search(&linux::all_processes()?, socket)? {
        linux::Search::Found(places) => Look::found_or_again(owner_of(home, &places)),
        linux::Search::TooMany => Look::nobody(TOO_MANY),
        linux::Search::None { .. } if !is_own => {
            Look::nobody("a process under an agent can act as the user of the calling process")
        }
        linux::Search::None { hidden } => unseen(home, socket, &hidden, below, before)?,
    })
}

/// Decides on a socket of our own user that no visible process has; the `hidden` ones conceal their
/// open files.
#[cfg(target_os = "linux")]
fn unseen(
    home: &Home,
    socket: u64,
    hidden: &[u32],
    below: BTreeSet<u32>,
    before: &mut Option<BTreeSet<u32>>,
) -> Result<Look, SystemLimit> {
    let mut may_be_forwarded = false;
    for pid in hidden {
        let process = PinnedProcess::open(*pid)?;
        match process.map_or(Kin::Gone, |process| ancestry::of_process(home, &process)) {
            Kin::Person => may_be_forwarded |= linux::forwards(*pid)?,
            Kin::Limited(limit) => return Err(limit),
            Kin::Under(_) | Kin::Gone => {
                let why = "the calling process cannot be seen, and one under an agent hides its files";
                return Ok(Look::nobody(why));
            }
        }
    }
    // A forwarded port ends in a process of the SSH server that nobody may inspect. It may be that
    // one, if no process under an agent could have the socket, and none of those started or ended
    // since the last lookup.
    if !may_be_forwarded || linux::can_hide(&below, socket)? {
        *before = None;
        return Ok(Look::Again(UNSEEN));
    }
    if before.as_ref() == Some(&below) {
        return Ok(Look::Found(Owner::Elsewhere));
    }
    *before = Some(below);
    Ok(Look::Again(UNSEEN))
}

/// Decides between all processes that have the socket. Returns `None` if one of them is gone.
#[cfg(target_os = "linux")]
fn owner_of(home: &Home, places: &[linux::Place]) -> Option<Owner> {
    decide(places.iter().map(|place| kin_of(home, place)))
}

/// An agent that has the socket wins, whoever else has it; next comes a limit that prevented the
/// lookup of one process.
#[cfg(target_os = "linux")]
fn decide(kins: impl Iterator<Item = Kin>) -> Option<Owner> {
    let mut owner = Some(Owner::Person);
    for kin in kins {
        match kin {
            Kin::Under(agents) => return Some(Owner::Agents(agents)),
            Kin::Limited(limit) => owner = Some(Owner::Limited(limit)),
            Kin::Gone if !matches!(owner, Some(Owner::Limited(_))) => owner = None,
            Kin::Gone | Kin::Person => {}
        }
    }
    owner
}

/// Returns the kin of a process that has the socket. The process is pinned meanwhile, and must
/// still have the socket then.
#[cfg(target_os = "linux")]
fn kin_of(home: &Home, place: &linux::Place) -> Kin {
    match PinnedProcess::open(place.pid) {
        Ok(Some(process)) if place.is_current() => ancestry::of_process(home, &process),
        Ok(_) => Kin::Gone,
        Err(limit) => Kin::Limited(limit),
    }
}

#[cfg(not(target_os = "linux"))]
pub fn of(_home: &Home, _remote: SocketAddr, _local: SocketAddr) -> Owner {
    Owner::Elsewhere
}

/// Finds the process that listens at `address` of loopback. In the kernel's list, the other end of
/// a listener is all zeros.
pub fn of_listener(home: &Home, address: SocketAddr) -> Owner {
    of(home, address, SocketAddr::from(([0, 0, 0, 0], 0)))
}
