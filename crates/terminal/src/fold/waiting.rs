//! When an agent waits for a decision, and when it no longer does.
//!
//! Waiting begins on any sign and ends only on a positive one, once the prompt is off the screen.

use super::{Assumed, DISMISSED_MS, Fold, PROMPT_MS, Rank, Reading};
use crate::rules::Sees;
use synapse_core::ids::Timestamp;

/// What a key can do to a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptKey {
    /// Enter or a character: it may choose an answer, and then the turn goes on.
    Answers,
    /// Esc or Ctrl-C: it closes the prompt, and often the turn.
    Dismisses,
}

impl Fold {
    /// The best evidence that it waits.
    pub(super) fn waits(&self) -> Option<(Rank, String)> {
        let waiting = self.readings().into_iter().find(|(_, reading)| reading.sees == Sees::Waiting);
        // A prompt that is only blank now may be between two frames: still there until something else is.
        let Some((rank, reading)) = waiting else {
            let asked = self.asked.as_ref().filter(|asked| !asked.seen)?;
            return (self.decided.since_ms(asked.at) < PROMPT_MS).then(|| (Rank::Hook, asked.why.clone()));
        };
        let gone = rank == Rank::Screen && self.blank_since.is_some();
        (!gone).then(|| (rank, reading.why.clone()))
    }

    /// What another hook says, of a tool that ran beside the one that is asked about, is no reason to believe that
    /// the prompt is gone before it was drawn.
    pub(super) fn see_what_was_asked(&mut self, now: Timestamp) {
        let seen = self.readings().iter().any(|(rank, r)| *rank != Rank::Hook && r.sees == Sees::Waiting);
        let Some(asked) = &mut self.asked else { return };
        asked.seen |= seen;
        if now.since_ms(asked.at) >= PROMPT_MS && self.hook.as_ref().is_none_or(|r| r.sees != Sees::Waiting) {
            self.asked = None;
        }
    }

    /// Hooks tell that a permission is asked for, but not that it was refused with Esc. A key, and a positive sign after
    /// it, tell that. Without a key what is printed ends nothing: another process of this user could have drawn an
    /// idle screen over the prompt.
    pub(super) fn give_up_on_hooks(&mut self) {
        let Some(hook) = &self.hook else { return };
        if hook.sees != Sees::Waiting {
            return;
        }
        let others = [&self.native, &self.status, &self.title, &self.screen];
        if others.iter().any(|lasting| lasting.as_ref().is_some_and(|r| r.sees == Sees::Waiting)) {
            return;
        }
        let after = |from: Timestamp, others: &[&Option<Reading>]| {
            others.iter().any(|lasting| lasting.as_ref().is_some_and(|r| r.since > from))
        };
        if self.key.is_some_and(|(at, _)| after(at, &others)) {
            (self.hook, self.asked) = (None, None);
        }
    }

    /// No source says waiting any more. Is there a positive sign of something else?
    pub(super) fn leaves_waiting(&mut self) -> bool {
        let since = self.verdict.since;
        let key = self.key.filter(|(at, _)| *at >= since);
        let prompt_gone =
            self.blank_since.is_some() || self.screen.as_ref().is_none_or(|r| r.sees != Sees::Waiting);
        let source = self.verdict.source;
        let shows_else = |rank: Rank, reading: &Reading| {
            reading.sees != Sees::Waiting && reading.nth > self.became_at && self.is_shown(rank)
        };
        let positive = self
            .readings()
            .into_iter()
            .any(|(rank, reading)| rank >= source.min(Rank::Title) && shows_else(rank, reading));
        let ended_by_key = key.is_some_and(|(at, key)| match key {
            PromptKey::Answers => true,
            // It may be that only something in front of the prompt was closed.
            PromptKey::Dismisses => {
                self.readings().into_iter().any(|(rank, r)| r.since >= at && shows_else(rank, r))
            }
        });
        if !prompt_gone || !(positive || ended_by_key) {
            return false;
        }
        if let Some((at, key)) = key {
            // It was answered: the turn goes on, until the program shows otherwise.
            let ms = match key {
                PromptKey::Answers => self.timing.assume_busy_ms,
                PromptKey::Dismisses => DISMISSED_MS.min(self.timing.assume_busy_ms),
            };
            let confirmed = self.readings().iter().any(|(_, r)| r.sees == Sees::Busy && r.since >= at);
            self.assumed = Some(Assumed { since: at.max(since), ms, confirmed });
            if self.readings().iter().any(|(rank, r)| *rank > Rank::Screen && r.since >= at) {
                self.assumed = None;
            }
        }
        self.key = None;
        if self.screen.as_ref().is_some_and(|r| r.sees == Sees::Waiting) {
            self.screen = None;
            self.blank_since = None;
        }
        true
    }
}
