//! The prompt that waits for a person, as the registry and the notifier show it.
//!
//! Invariant: people are notified once of each prompt, after it has settled. Its hash may change
//! while it is open, since programs redraw it; it is still the same prompt. After a key that could
//! have answered it, a different summary is a new prompt.
//! Not here: what a prompt asks for (`synapse_terminal::summary`), how people are notified
//! (`crate::notify`, the viewers).

use super::{Seat, TerminalHand};
use synapse_core::agents::AgentState;
use synapse_core::ids::Timestamp;
use synapse_store::registry::PendingPrompt;
use synapse_terminal::Watch;
use synapse_terminal::prompt::Prompt;
use tokio::sync::watch;

/// A program may report that it waits before it shows the prompt. A prompt without choices counts
/// after this long.
const DRAWN_MS: u64 = 3_000;
/// A prompt with choices must be unchanged for this long: some are drawn in two steps.
const STANDS_MS: u64 = 300;

/// Announces each prompt of one terminal once.
pub(super) struct Announcer {
    /// The prompt that was announced before the watch restarted, or by the previous node.
    before: Option<PendingPrompt>,
    /// The prompt that people were last notified of, and since when the program had been waiting.
    told: Option<(PendingPrompt, Timestamp)>,
    /// A key that may have answered it came later.
    is_answered: bool,
    /// The hash of the visible prompt, and since when it is visible.
    shown: Option<(String, Timestamp)>,
    /// When to look again even if nothing happens.
    pub(super) due: Option<Timestamp>,
}

impl Seat {
    /// Watches the prompt that waits for a person.
    pub fn pending(&self) -> watch::Receiver<Option<PendingPrompt>> {
        self.pending.subscribe()
    }

    /// Returns the prompt in one line while the program waits.
    pub fn asks(&self) -> Option<String> {
        let asks = self.pending.borrow().as_ref().map(|pending| pending.asks.clone())?;
        (self.watch().state() == AgentState::Waiting).then_some(asks)
    }

    /// Sets the prompt that an earlier node announced.
    pub fn set_pending(&self, before: Option<PendingPrompt>) {
        self.pending.send_replace(before);
    }
}

impl Announcer {
    pub(super) fn new(before: Option<PendingPrompt>) -> Self {
        Self { before, told: None, is_answered: false, shown: None, due: None }
    }

    /// A key went to the program.
    pub(super) fn answered(&mut self) {
        self.is_answered = true;
    }

    /// Announces the visible prompt if it is new.
    pub(super) fn look(&mut self, now: Timestamp, hand: &TerminalHand) {
        let is_new = self.see(now, &hand.seat.watch());
        let pending = self.registered().cloned();
        hand.seat.pending.send_if_modified(|shown| {
            let is_other = *shown != pending;
            if is_other {
                shown.clone_from(&pending);
            }
            is_other
        });
        if let Some(pending) = pending.filter(|_| is_new) {
            tracing::info!(asks = %pending.asks, "it waits for a person");
        }
    }

    /// Returns the registry entry. An earlier prompt stays there until it is known to be over,
    /// because the next node has to know of it.
    fn registered(&self) -> Option<&PendingPrompt> {
        self.told.as_ref().map(|(pending, _)| pending).or(self.before.as_ref())
    }

    /// Whether there is a prompt that nobody was notified of.
    fn see(&mut self, now: Timestamp, watch: &Watch) -> bool {
        self.due = None;
        match watch.state() {
            AgentState::Waiting => {}
            // A watch that has just begun knows nothing yet; the prompt may still be there.
            AgentState::Unknown | AgentState::Starting if !self.is_answered => {
                self.before = self.told.take().map(|(pending, _)| pending).or(self.before.take());
                return false;
            }
            _ => {
                (self.before, self.told, self.shown) = (None, None, None);
                return false;
            }
        }
        if !watch.is_settled() {
            return false;
        }
        let Some(prompt) = watch.prompt() else { return false };
        let since = watch.verdict().since;
        let shown = self.shown.take().filter(|(hash, _)| *hash == prompt.hash);
        let (hash, shown_at) = shown.unwrap_or_else(|| (prompt.hash.clone(), now));
        self.shown = Some((hash, shown_at));
        let drawn = if prompt.choices.is_empty() { since.plus_ms(DRAWN_MS) } else { Timestamp(0) };
        let due = drawn.max(shown_at.plus_ms(STANDS_MS));
        if due > now {
            self.due = Some(due);
            return false;
        }
        self.take(now, since, prompt)
    }

    fn take(&mut self, now: Timestamp, since: Timestamp, prompt: Prompt) -> bool {
        let asks = &prompt.summary.text;
        let told_at = match (&self.told, self.before.take()) {
            (Some((told, waited)), _) if *waited == since && !(self.is_answered && told.asks != *asks) => {
                Some(told.told_at_ms)
            }
            (None, Some(before)) if before.asks == *asks => Some(before.told_at_ms),
            _ => None,
        };
        if told_at.is_none() {
            self.is_answered = false;
        }
        let pending = PendingPrompt {
            asks: prompt.summary.text,
            asks_all: prompt.summary.is_all,
            prompt: prompt.hash,
            complete: prompt.doubt.is_none(),
            decidable: prompt.is_decidable,
            told_at_ms: told_at.unwrap_or(now.0),
        };
        self.told = Some((pending, since));
        told_at.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synapse_terminal::{Size, profile};

    /// A program without a profile, its announcer, and the time.
    struct Rig {
        watch: Watch,
        announcer: Announcer,
        now: u64,
    }

    impl Rig {
        fn new(before: Option<PendingPrompt>) -> Self {
            let generic = profile::shipped("generic").unwrap();
            let watch = Watch::new(Timestamp(0), generic, Size::new(80, 24), 0);
            Self { watch, announcer: Announcer::new(before), now: 0 }
        }

        /// Draws a question and lets it settle. Returns how often people were notified.
        fn ask(&mut self, question: &str) -> usize {
            self.draw(&format!("{question}\n\n❯ 1. Yes\n  2. No\n\nEsc to cancel"))
        }

        fn draw(&mut self, text: &str) -> usize {
            let text = format!("\u{1b}[2J\u{1b}[H{}", text.replace('\n', "\r\n"));
            self.watch.output(Timestamp(self.now), text.as_bytes());
            let look = |rig: &mut Self, _| {
                rig.now += 100;
                rig.watch.tick(Timestamp(rig.now));
                rig.announcer.see(Timestamp(rig.now), &rig.watch)
            };
            (0..20).filter(|n| look(self, *n)).count()
        }

        fn press(&mut self, keys: &[u8]) {
            self.watch.input(Timestamp(self.now), keys);
            self.announcer.answered();
        }

        fn asks(&self) -> Option<&str> {
            self.announcer.told.as_ref().map(|(pending, _)| pending.asks.as_str())
        }
    }

    #[test]
    fn each_prompt_is_told_once() {
        let mut rig = Rig::new(None);
        assert_eq!(rig.ask("Delete a.txt?"), 1);
        assert_eq!(rig.asks(), Some("asks: Delete a.txt?"));
        let hash = rig.announcer.told.as_ref().unwrap().0.prompt.clone();
        assert_eq!(rig.ask("talk\n\nDelete a.txt?"), 0, "drawn again");
        assert_ne!(rig.announcer.told.as_ref().unwrap().0.prompt, hash, "a decision has to name this one");
        assert_eq!(rig.ask("Delete a.txt? 3 s left?"), 0, "nobody answered the first one");
        rig.press(b"1");
        assert_eq!(rig.ask("Delete b.txt?"), 1, "the next one, without work in between");
        rig.press(b"1");
        assert_eq!(rig.draw("working (esc to interrupt)"), 0);
        assert_eq!(rig.asks(), None);
        assert_eq!(rig.ask("Delete b.txt?"), 1, "the same question asked again");
    }

    /// The node reconnected to the holder and reads the terminal from the start.
    #[test]
    fn prompt_that_is_seen_anew_is_not_told_again() {
        let mut rig = Rig::new(None);
        rig.ask("Delete a.txt?");
        for (is_pressed, told) in [(false, 0), (true, 1)] {
            if is_pressed {
                rig.press(b"1");
            }
            rig.watch = Rig::new(None).watch;
            assert_eq!(rig.draw("some talk"), 0);
            assert_eq!(rig.asks(), None);
            assert_eq!(rig.announcer.registered().is_some(), !is_pressed, "for the next node");
            assert_eq!(rig.ask("Delete a.txt?"), told, "{is_pressed}");
        }
    }

    #[test]
    fn prompt_that_stands_over_a_restart_is_not_told_again() {
        let mut first = Rig::new(None);
        first.ask("Delete a.txt?");
        let before = first.announcer.told.map(|(pending, _)| pending);
        let mut second = Rig::new(before.clone());
        second.now = 60_000;
        assert_eq!(second.ask("Delete a.txt?"), 0);
        assert_eq!(second.announcer.told.as_ref().unwrap().0.told_at_ms, before.as_ref().unwrap().told_at_ms);
        let mut other = Rig::new(before);
        assert_eq!(other.ask("Delete b.txt?"), 1);
    }
}
