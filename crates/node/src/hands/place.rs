//! What viewers are told of the place where a person writes: whether a key would begin something new there, or could be
//! the answer to a question.
//!
//! And what they are told of mail that waits because a person writes. What was just typed is not shown yet, so that it is
//! empty is believed, and said again, a moment after the program has printed something since the last key; or, if it
//! prints nothing, somewhat later.
//! Not here: how the composer is read (`synapse-terminal`), what a viewer does with it (the binary).

use std::time::Duration;
use synapse_core::agents::AgentState;
use synapse_holder::terminal::wire::{Ask, Composer, MAIL_WAITS_FOR_KEYS};
use synapse_terminal::composer::Holds;
use synapse_terminal::turn::{Held, Sight};
use tokio::time::Instant;

/// How long a program that prints may take to show what was typed.
const ECHO: Duration = Duration::from_millis(150);
/// How long one that prints nothing may take.
const SILENCE: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Place {
    told: Option<Composer>,
    /// When an empty composer may be believed again.
    pub(super) due: Option<Instant>,
    /// Nothing was printed since the last key.
    is_silent: bool,
    /// How many typed bytes we were told of.
    typed: u64,
    /// The mail that was last told of.
    mail: Option<String>,
}

impl Place {
    /// A person pressed keys.
    pub(super) fn typed(&mut self, bytes: usize) {
        self.typed += bytes as u64;
        (self.told, self.due, self.is_silent) = (None, Some(Instant::now() + SILENCE), true);
    }

    /// The program printed something.
    pub(super) fn printed(&mut self) {
        if std::mem::take(&mut self.is_silent) && self.due.is_some() {
            self.due = Some(Instant::now() + ECHO);
        }
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
        Some(Ask::Composer { composer: seen, typed: Some(self.typed) })
    }

    /// Mail waits, for a reason: if that is the person at the keyboard, they are told so, once.
    pub(super) fn mail(&mut self, mail: Option<String>) -> Option<Ask> {
        if self.mail == mail {
            return None;
        }
        self.mail = mail;
        let (waiting, why) = self.mail.as_deref()?.split_once(": ")?;
        let yours = [(Held::Typing, MAIL_WAITS_FOR_KEYS), (Held::Draft, "you have a draft in the composer")];
        let (_, words) = yours.into_iter().find(|(held, _)| held.to_string() == why)?;
        Some(Ask::Notice(format!("{waiting}: {words}")))
    }
}

pub(super) fn seen(sight: &Sight) -> Composer {
    match (sight.state, &sight.composer) {
        (AgentState::Waiting, _) => Composer::Prompt,
        (AgentState::Error | AgentState::Offline, _) => Composer::Other,
        (_, Holds::Empty) if !sight.by_line => Composer::Empty,
        _ => Composer::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty(typed: u64) -> Option<Ask> {
        Some(Ask::Composer { composer: Composer::Empty, typed: Some(typed) })
    }

    /// What was typed is not on the screen at once: until it can be, an empty composer is not believed.
    #[tokio::test(start_paused = true)]
    async fn after_a_key_an_empty_composer_is_believed_later() {
        let mut place = Place::default();
        assert_eq!(place.tell(Composer::Empty), empty(0));
        assert_eq!(place.tell(Composer::Empty), None, "once");
        place.typed(3);
        assert_eq!(place.tell(Composer::Empty), None);
        tokio::time::advance(ECHO).await;
        assert_eq!(place.tell(Composer::Empty), None, "nothing was printed yet");
        place.printed();
        assert_eq!(place.tell(Composer::Empty), None);
        tokio::time::advance(ECHO).await;
        assert_eq!(place.tell(Composer::Empty), empty(3));
        // What is not empty is told at once; and what prints nothing is believed after a second.
        place.typed(1);
        let other = Ask::Composer { composer: Composer::Other, typed: Some(4) };
        assert_eq!(place.tell(Composer::Other), Some(other));
        tokio::time::advance(SILENCE).await;
        assert_eq!(place.tell(Composer::Empty), empty(4));
    }
}
