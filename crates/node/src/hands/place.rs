//! What viewers are told about the composer: whether a key would begin something new there, or
//! could be the answer to a question.
//!
//! It also tells them about mail that waits because a person writes. The screen shows typed text
//! with a delay. So after a key, an empty composer is reported only a moment after the program has
//! printed something, or somewhat later if it prints nothing.
//! Not here: how the composer is read (`synapse-terminal`), what a viewer does with it (the
//! binary).

use std::time::Duration;
use synapse_core::agents::AgentState;
use synapse_holder::terminal::wire::{Ask, Composer, MAIL_WAITS_FOR_KEYS};
use synapse_terminal::composer::Holds;
use synapse_terminal::turn::{Held, Sight};
use tokio::time::Instant;

/// How long a program that prints may take to show what was typed.
const ECHO: Duration = Duration::from_millis(150);
/// How long a program that prints nothing may take.
const SILENCE: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Place {
    told: Option<Composer>,
    /// When an empty composer can be trusted again.
    pub(super) due: Option<Instant>,
    /// Nothing was printed since the last key.
    is_silent: bool,
    /// The number of bytes typed by people so far.
    typed: u64,
    /// The waiting mail that was last reported.
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

    /// Returns what to tell the viewers now, if anything.
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

    /// Returns a notice, once, if mail waits because of the person at the keyboard.
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

    /// Typed text is not on the screen at once; until it can be, an empty composer is not trusted.
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
        // A composer that is not empty is reported at once; without output, an empty one is trusted
        // after a second.
        place.typed(1);
        let other = Ask::Composer { composer: Composer::Other, typed: Some(4) };
        assert_eq!(place.tell(Composer::Other), Some(other));
        tokio::time::advance(SILENCE).await;
        assert_eq!(place.tell(Composer::Empty), empty(4));
    }
}
