//! Whether this process is in an agent's sandbox, and what the agent's node tells it there
//! (CLI-10).
//!
//! A sandbox hides up to three things: the home, the sockets of nodes, and other processes. Any of
//! these makes this process's own view unreliable. So it asks the node of its agent, through the
//! outbox. Not here: the files of the outbox (`synapse-store`), how a node answers
//! (`synapse-node`).

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
    /// No sandbox, or one that hides nothing from us.
    None,
    /// The node of our agent told us which agents there are.
    Told { own: Own, told: Box<ToldRoll> },
    /// The node of our agent could not be asked, for this reason. The home is visible.
    Silent { why: String },
}

/// The agents of this machine, as the node of our agent sees them.
pub(super) struct ToldRoll {
    pub scan: Scan,
    pub known: Vec<Known>,
    pub candidates: Vec<Candidate>,
    pub nodes: HashMap<AgentId, NodeProcess>,
}

impl Sandbox {
    /// Detects what is hidden, and then asks the node.
    pub(super) fn find(home: &Home) -> Result<Self, Fail> {
        let Some(own) = own_outbox() else { return Ok(Self::None) };
        let is_home_hidden = !home.agents_dir().is_dir();
        if !is_home_hidden && !hides_others(home, &own) {
            return Ok(Self::None);
        }
        match own.roll() {
            Ok(answer) => Ok(Self::Told { own, told: Box::new(answer.into()) }),
            Err(e) if is_home_hidden => Err(e.into()),
            // The reason contains the path already.
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

/// Whether sockets or other processes are hidden from this process, although it sees the home.
fn hides_others(home: &Home, own: &Own) -> bool {
    if !synapse_peer::sockets_work() {
        return true;
    }
    // The agent belongs to another home or does not run, so nobody could tell us more than we see.
    if registry::read(home, &own.agent).is_none() {
        return false;
    }
    // Every process below an agent has a depth above zero. A person's environment may name an agent
    // by mistake.
    if cfg!(target_os = "linux") && synapse_holder::depth::own() == 0 {
        return false;
    }
    // Codex allows a process to create a socket, but not to connect it.
    synapse_peer::is_socket_denied(&home.agent(&own.agent).socket())
        || !matches!(ancestry::own(home), Kin::Under(_))
}

/// The outbox of the agent that the environment names. The agent's node accepts only calls with the
/// outbox's key.
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
