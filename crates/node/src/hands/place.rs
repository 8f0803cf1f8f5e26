//! What viewers are told of the place where a person writes: whether a key would begin something new there, or could be
//! the answer to a question.
//!
//! And what they are told of mail that waits because a person writes. What was just typed is not shown yet, so that it is empty is believed, and said again, a moment after the last key.
//! Not here: how the composer is read (`synapse-terminal`), what a viewer does with it (the binary).

use std::time::Duration;
use synapse_core::agents::AgentState;
use synapse_holder::terminal::wire::{Ask, Composer};
use synapse_terminal::composer::Holds;
use synapse_terminal::turn::{Held, Sight};
use tokio::time::Instant;

/// How long a program may take to show what was typed.
const ECHO: Duration = Duration::from_millis(150);

#[derive(Default)]
pub(super) struct Place {
    told: Option<Composer>,
    /// When an empty composer may be believed again.
    pub(super) due: Option<Instant>,
    /// The mail that was last told of.
    mail: Option<String>,
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

    /// Mail waits, for a reason: if that is the person at the keyboard, they are told so, once.
    pub(super) fn mail(&mut self, mail: Option<String>) -> Option<Ask> {
        if self.mail == mail {
            return None;
        }
        self.mail = mail;
        let (waiting, why) = self.mail.as_deref()?.split_once(": ")?;
        let yours = [
            (Held::Typing, "you are typing. Ctrl-b m lets it come now"),
            (Held::Draft, "you have a draft in the composer"),
        ];
        let (_, words) = yours.into_iter().find(|(held, _)| held.to_string() == why)?;
        Some(Ask::Notice(format!("{waiting}: {words}")))
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
