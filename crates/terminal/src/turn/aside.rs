//! A text that was written when something else came first: a prompt, a person, or a crash of whoever wrote it.

use super::{ECHO_MS_MAX, Held, KEYBOARD_MS, Outcome, PASTES_MAX, Phase, Proof, Sight, Step, Turn};
use crate::composer::{Holds, Match};
use synapse_core::ids::Timestamp;

impl Turn {
    /// It was written, and then something else came first, or whoever wrote it died.
    pub(super) fn aside(&mut self, sight: &Sight) -> Step {
        let gone = sight.composer.compare(&self.typed) == Match::No;
        // A line may stand above the cursor because the program printed something.
        let may_be_given = self.enters > 0 || !self.typed.is_line();
        let shown = (gone && may_be_given && self.is_shown(sight)).then_some(Proof::Shown);
        if let Some(step) = self.proven(sight, if sight.told { Some(Proof::Told) } else { shown }) {
            return step;
        }
        if let Some(held) = Self::barred(sight) {
            if held == Held::Gone {
                let why = "its program ended after the text was written";
                return self.finish(sight, Outcome::Unknown { why });
            }
            return Step::Wait { until: None, held: Some(held) };
        }
        let shown_by = *self.shown_by.get_or_insert(sight.now.plus_ms(ECHO_MS_MAX));
        let entered = self.enters > 0 || self.submitted_before;
        match sight.composer.compare(&self.typed) {
            // Enter may be on its way.
            Match::Whole if entered && shown_by > sight.now => {
                Step::Wait { until: Some(shown_by), held: None }
            }
            Match::Whole if sight.typing_until().is_some() => {
                if sight.keyboard {
                    return Step::ReleaseKeyboard;
                }
                Step::Wait { until: sight.typing_until(), held: Some(Held::Typing) }
            }
            Match::Whole if sight.keyboard => {
                self.phase = Phase::Pasted { at: sight.now };
                self.next(sight)
            }
            Match::Whole => Step::TakeKeyboard { ms: KEYBOARD_MS },
            // The person has written beside it: theirs to send or to clear.
            Match::Among => Step::Wait { until: None, held: Some(Held::Draft) },
            Match::Tail | Match::No => self.aside_without_text(sight, shown_by),
        }
    }

    fn aside_without_text(&mut self, sight: &Sight, shown_by: Timestamp) -> Step {
        match sight.composer {
            Holds::Empty if shown_by > sight.now => Step::Wait { until: Some(shown_by), held: None },
            Holds::Empty if self.submitted_before || self.enters > 0 => {
                let why = "it left the composer and is not on the screen";
                self.finish(sight, Outcome::Unknown { why })
            }
            // A dialog has swallowed it: nothing was submitted.
            Holds::Empty if self.pastes < PASTES_MAX => {
                self.phase = Phase::Gate;
                if sight.keyboard { Step::ReleaseKeyboard } else { self.next(sight) }
            }
            Holds::Empty => {
                let why = "the program did not take the text";
                self.finish(sight, Outcome::NotSubmitted { why, erased: true })
            }
            Holds::Unknown => Step::Wait { until: None, held: Some(Held::NoComposer) },
            Holds::Text(_) | Holds::Collapsed(..) => Step::Wait { until: None, held: Some(Held::Draft) },
        }
    }
}
