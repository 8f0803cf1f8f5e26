//! What viewers are told of the place where a person writes: whether a key would begin something new there, or could be
//! the answer to a question.
//!
//! What was just typed is not shown yet, so that it is empty is believed, and said again, a moment after the last key.
//! Not here: how the composer is read (`synapse-terminal`), what a viewer does with it (the binary).

use std::time::Duration;
use synapse_core::agents::AgentState;
use synapse_holder::terminal::wire::{Ask, Composer};
use synapse_terminal::composer::Holds;
use synapse_terminal::turn::Sight;
use tokio::time::Instant;

/// How long a program may take to show what was typed.
const ECHO: Duration = Duration::from_millis(150);

#[derive(Default)]
pub(super) struct Place {
    told: Option<Composer>,
    /// When an empty composer may be believed again.
    pub(super) due: Option<Instant>,
}

impl Place {
    /// A person pressed keys.
    pub(super) fn typed(&mut self) {
        (self.told, self.due) = (None, Some(Instant::now() + ECHO));
    }

    /// What is to be said now, if anything.
    pub(super) fn tell(&mut self, seen: Composer) -> Option<Ask> {
        let is_due = self.due.is_none_or(|due| due <= Instant::now());
        if is_due {
            self.due = None;
        }
        if self.told == Some(seen) || seen == Composer::Empty && !is_due {
            return None;
        }
        self.told = Some(seen);
        Some(Ask::Composer(seen))
    }
}

pub(super) fn seen(sight: &Sight) -> Composer {
    match (sight.state, &sight.composer) {
        (AgentState::Waiting, _) => Composer::Prompt,
        (AgentState::Error | AgentState::Offline, _) => Composer::Other,
        (_, Holds::Empty) => Composer::Empty,
        _ => Composer::Other,
    }
}
