//! The prompt that waits for a person, whether the agent asks in its terminal or over ACP.

use crate::doors::App;
use crate::registrar::Cli;
use synapse_store::registry::PendingPrompt;
use tokio::sync::watch;

impl App {
    /// Whether its prompts can be decided from elsewhere.
    pub fn takes_decisions(&self) -> bool {
        self.acp.is_some() || self.seat.as_ref().is_some_and(|seat| seat.watch().profile().approve.is_some())
    }

    /// Whether this kind of agent can ask at all.
    pub fn may_ask(&self) -> bool {
        self.acp.is_some() || self.seat.is_some()
    }

    /// Watches the prompt it waits for.
    pub fn pending(&self) -> watch::Receiver<Option<PendingPrompt>> {
        match (&self.seat, &self.acp) {
            (Some(seat), _) => seat.pending(),
            (None, Some(desk)) => desk.pending(),
            (None, None) => watch::channel(None).1,
        }
    }

    /// Returns the prompt in one line while the agent waits.
    pub fn asks(&self) -> Option<String> {
        match (&self.seat, &self.acp) {
            (Some(seat), _) => seat.asks(),
            (None, Some(desk)) => desk.prompt().map(|prompt| prompt.asks),
            (None, None) => None,
        }
    }

    /// Watches what is known of its program's version.
    pub fn cli(&self) -> watch::Receiver<Cli> {
        match (&self.seat, &self.acp) {
            (Some(seat), _) => seat.cli(),
            (None, Some(desk)) => desk.cli(),
            (None, None) => watch::channel(Cli::default()).1,
        }
    }
}
