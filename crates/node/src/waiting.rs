//! What an agent waits for a person to decide, whichever way it asks: in its terminal or over ACP.

use crate::doors::App;
use crate::registrar::Cli;
use synapse_store::registry::PendingPrompt;
use tokio::sync::watch;

impl App {
    /// Whether what it asks can be decided from elsewhere.
    pub fn takes_decisions(&self) -> bool {
        self.acp.is_some() || self.seat.as_ref().is_some_and(|seat| seat.watch().profile().approve.is_some())
    }

    /// Whether it may ask at all.
    pub fn may_ask(&self) -> bool {
        self.acp.is_some() || self.seat.is_some()
    }

    /// What it waits for, now and later.
    pub fn pending(&self) -> watch::Receiver<Option<PendingPrompt>> {
        match (&self.seat, &self.acp) {
            (Some(seat), _) => seat.pending(),
            (None, Some(desk)) => desk.pending(),
            (None, None) => watch::channel(None).1,
        }
    }

    /// The same in one line, while it waits.
    pub fn asks(&self) -> Option<String> {
        match (&self.seat, &self.acp) {
            (Some(seat), _) => seat.asks(),
            (None, Some(desk)) => desk.prompt().map(|prompt| prompt.asks),
            (None, None) => None,
        }
    }

    /// What is known of its program's version, now and later.
    pub fn cli(&self) -> watch::Receiver<Cli> {
        match (&self.seat, &self.acp) {
            (Some(seat), _) => seat.cli(),
            (None, Some(desk)) => desk.cli(),
            (None, None) => watch::channel(Cli::default()).1,
        }
    }
}
