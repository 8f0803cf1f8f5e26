//! The agent of this node. All but its name is fixed while the node runs.
//!
//! Not here: who may rename it (`doors/rename`), the names of others (`synapse-store`'s
//! `registry`).

use std::time::Duration;
use synapse_core::agents::Agent;
use synapse_core::ids::{AgentId, AgentType, Label};
use tokio::sync::{Mutex, watch};

/// How the agent is called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Naming {
    pub name: Option<Label>,
    /// Its number among the unnamed agents of its type and folder.
    pub number: Option<u32>,
}

pub struct OwnAgent {
    pub id: AgentId,
    pub kind: AgentType,
    pub role: Option<Label>,
    pub capabilities: Vec<Label>,
    pub port: Option<u16>,
    naming: watch::Sender<Naming>,
    /// What the registry entry says.
    registered: watch::Sender<Naming>,
    /// Held during a rename, so that there is one at a time.
    pub renaming: Mutex<()>,
}

impl OwnAgent {
    pub fn new(agent: &Agent, number: Option<u32>) -> Self {
        let naming = Naming { name: agent.name.clone(), number };
        Self {
            id: agent.id,
            kind: agent.kind.clone(),
            role: agent.role.clone(),
            capabilities: agent.capabilities.clone(),
            port: agent.port,
            registered: watch::Sender::new(naming.clone()),
            naming: watch::Sender::new(naming),
            renaming: Mutex::default(),
        }
    }

    /// Returns it as the core's `Agent`, with its present name.
    pub fn now(&self) -> Agent {
        Agent {
            id: self.id,
            kind: self.kind.clone(),
            name: self.naming.borrow().name.clone(),
            role: self.role.clone(),
            capabilities: self.capabilities.clone(),
            port: self.port,
        }
    }

    pub fn label(&self) -> String {
        self.now().label()
    }

    pub fn handle(&self) -> Option<String> {
        self.now().handle()
    }

    /// Returns a receiver of its names.
    pub fn names(&self) -> watch::Receiver<Naming> {
        self.naming.subscribe()
    }

    /// Shows it under another name from now on. Returns when the registry has that name too, or
    /// cannot be written for a while.
    pub async fn set_naming(&self, naming: Naming) {
        const REGISTERED_WITHIN: Duration = Duration::from_secs(2);
        let mut registered = self.registered.subscribe();
        self.naming.send_replace(naming.clone());
        let seen = registered.wait_for(|shown| *shown == naming);
        let _ = tokio::time::timeout(REGISTERED_WITHIN, seen).await;
    }

    /// Notes that the registry entry has this name.
    pub fn note_registered(&self, naming: &Naming) {
        self.registered.send_if_modified(|shown| {
            let is_new = shown != naming;
            shown.clone_from(naming);
            is_new
        });
    }
}
