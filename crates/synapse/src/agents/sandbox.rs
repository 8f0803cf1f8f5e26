//! Whether this process is in a sandbox of an agent, and what the agent's node tells it there (CLI-10).
//!
//! A sandbox hides up to three things: the home, the sockets of nodes, and the processes of others. Any of them makes
//! what this process sees itself unreliable. So it asks the node of its agent, through the outbox.
//! Not here: the files of the outbox (`synapse-store`), how a node answers (`synapse-node`).

use crate::fail::Fail;
use std::collections::HashMap;
use synapse_core::ids::AgentId;
use synapse_core::routes::Candidate;
use synapse_node::ancestry::{self, Kin};
use synapse_peer::CallError;
use synapse_peer::outbox::{Own, RollAnswer};
use synapse_store::home::Home;
use synapse_store::known::Known;
use synapse_store::registry::{self, NodeProcess, RegistrySnapshot, Scan};

pub(super) enum Sandbox {
    /// Or none that hides anything from us.
    None,
    /// The node of our agent told us who is here.
    Told { own: Own, told: Box<ToldRoll> },
    /// The node of our agent could not be asked, for this reason; the home can be seen.
    Silent { why: String },
}

/// Who is on this machine, as the agent's node sees it.
pub(super) struct ToldRoll {
    pub scan: Scan,
    pub known: Vec<Known>,
    pub candidates: Vec<Candidate>,
    pub nodes: HashMap<AgentId, NodeProcess>,
}

impl Sandbox {
    /// Asks the node if something is hidden from us.
    pub(super) fn find(home: &Home) -> Result<Self, Fail> {
        let Some(own) = own_outbox() else { return Ok(Self::None) };
        let is_home_hidden = !home.agents_dir().is_dir();
        if !is_home_hidden && !hides_others(home, &own) {
            return Ok(Self::None);
        }
        match own.roll() {
            Ok(answer) => Ok(Self::Told { own, told: Box::new(answer.into()) }),
            Err(e) if is_home_hidden => Err(e.into()),
            // Its path is in the reason already.
            Err(CallError::Unreachable { why, .. }) => Ok(Self::Silent { why }),
            Err(e) => Ok(Self::Silent { why: e.to_string() }),
        }
    }

    pub(super) fn answer(&self) -> Option<&ToldRoll> {
        match self {
            Self::Told { told, .. } => Some(told),
            Self::None | Self::Silent { .. } => None,
        }
    }

    pub(super) fn own(&self) -> Option<&Own> {
        match self {
            Self::Told { own, .. } => Some(own),
            Self::None | Self::Silent { .. } => None,
        }
    }

    /// Why the node of our agent could not be asked.
    pub(super) fn silence(&self) -> Option<&str> {
        match self {
            Self::Silent { why } => Some(why),
            Self::None | Self::Told { .. } => None,
        }
    }
}

/// Whether sockets or processes of others are hidden from this process, although it sees the home.
fn hides_others(home: &Home, own: &Own) -> bool {
    if !synapse_peer::sockets_work() {
        return true;
    }
    // Of another home, or not running: nobody could tell us more than we see.
    if registry::read(home, &own.agent).is_none() {
        return false;
    }
    // Everything below an agent is deep. A person whose environment names an agent by mistake is not below it.
    if cfg!(target_os = "linux") && synapse_holder::depth::own() == 0 {
        return false;
    }
    // Codex lets a process make a socket, and only forbids it to connect.
    synapse_peer::is_socket_denied(&home.agent(&own.agent).socket())
        || !matches!(ancestry::own(home), Kin::Under(_))
}

/// The outbox of the agent that this process says it belongs to; its node believes only who has the key.
pub(super) fn own_outbox() -> Option<Own> {
    let agent = AgentId::parse(&std::env::var("SYNAPSE_AGENT_ID").ok()?).ok()?;
    let named = std::env::var_os(synapse_node::serve::OUTBOX_VARIABLE).map(std::path::PathBuf::from);
    Own::find(named.as_deref(), &std::env::current_dir().ok()?, agent)
}

impl From<RollAnswer> for ToldRoll {
    fn from(answer: RollAnswer) -> Self {
        match answer {
            RollAnswer::Snapshot(RegistrySnapshot { agents, known }) => {
                let nodes = agents.iter().map(|one| (one.entry.agent_id, one.node)).collect();
                let agents = agents.into_iter().map(|one| one.entry).collect();
                let scan = Scan { agents, ..Scan::default() };
                let candidates = registry::merge(&scan, &known);
                Self { scan, known, candidates, nodes }
            }
            RollAnswer::Candidates(candidates) => {
                let (scan, known, nodes) = (Scan::default(), Vec::new(), HashMap::new());
                Self { scan, known, candidates, nodes }
            }
        }
    }
}
