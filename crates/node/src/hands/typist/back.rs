//! A message that its program put back into the composer after we stopped its turn
//! (`synapse_terminal::leftover`).

use super::{Stage, Typist};
use crate::driver::now;
use synapse_holder::terminal::wire::Ask;
use synapse_terminal::composer::Holds;
use synapse_terminal::interrupt::Stopped;
use synapse_terminal::leftover::{Back, Leftover};
use synapse_terminal::turn::Sight;

impl Typist {
    /// Handles the end of an attempt to stop the turn of the last message.
    pub(super) fn may_come_back(&mut self, stopped: Stopped, canceled: bool) {
        // A text that was set aside may be in the composer, or may have been submitted without
        // proof.
        let unproven = self.job.as_ref().filter(|job| canceled && matches!(job.stage, Stage::Typing));
        let unproven = unproven.filter(|job| job.turn.is_written()).map(|job| job.turn.typed().clone());
        let typed = match stopped {
            Stopped::Stopped | Stopped::NothingRan | Stopped::StillBusy if unproven.is_some() => unproven,
            Stopped::Stopped => self.last.take(),
            // The program may have received the stop and show it late, or be stopped by the next
            // try.
            Stopped::StillBusy => self.last.clone(),
            Stopped::NothingRan | Stopped::Ended => return,
        };
        // A second stop finds nothing new; what the first one stopped may still come back.
        let typed = typed.or_else(|| self.left.take().map(Leftover::into_typed));
        self.left = typed.map(|typed| Leftover::new(typed, now()));
        tracing::info!(may_come_back = self.left.is_some(), "a message may come back into the composer");
    }

    /// Not while a message is being typed into the composer.
    pub(super) fn may_take_back(&self) -> bool {
        let is_free = |job: &super::Job| matches!(job.stage, Stage::Typing) && job.turn.is_at_gate();
        self.left.is_some() && self.job.as_ref().is_none_or(is_free)
    }

    /// Takes the message out of the composer. Returns whether another step may follow at once.
    pub(super) fn take_back(&mut self, sight: &Sight, asks: &mut Vec<Ask>) -> bool {
        let Some(left) = &mut self.left else { return false };
        match left.next(sight) {
            Back::Wait { until } => {
                self.wake = Some(self.wake.map_or(until, |wake| wake.min(until)));
                return false;
            }
            Back::TakeKeyboard { ms } => asks.push(Ask::Keyboard { ms }),
            Back::ReleaseKeyboard => {
                self.keyboard = false;
                asks.push(Ask::Keyboard { ms: 0 });
            }
            Back::Press(keys) => self.press(keys, asks),
            Back::Done => {
                tracing::info!(
                    composer_is_empty = sight.composer == Holds::Empty,
                    "a message is no longer waited for"
                );
                self.left = None;
            }
        }
        true
    }
}
