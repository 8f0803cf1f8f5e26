//! A message of ours that came back: some programs put what they were asked into the composer again when they are
//! stopped before they said anything. It would look like a person's draft, and all mail would wait behind it.
//!
//! Only what we stopped ourselves is taken back, only if the composer holds that text and nothing else, and only
//! while no person has pressed a key since.

use crate::composer::{Holds, Match};
use crate::text::{ERASE, ERASE_MS, Typed, bones};
use crate::turn::Sight;
use synapse_core::agents::AgentState;
use synapse_core::ids::Timestamp;

#[derive(Debug)]
pub struct Leftover {
    typed: Typed,
    since: Timestamp,
    asked_at: Option<Timestamp>,
    pressed_at: Option<Timestamp>,
    presses: usize,
}

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Back {
    Wait { until: Timestamp },
    TakeKeyboard { ms: u32 },
    ReleaseKeyboard,
    Press(&'static [u8]),
    Done,
}

/// So long after the stop it may come back.
const COMES_BACK_MS: u64 = 5_000;
/// So long after the stop nothing else is typed: a composer that is empty may be about to get the text back.
const SETTLES_MS: u64 = 1_000;
const KEYBOARD_MS: u32 = 3_000;
/// The keyboard is not asked for again within this.
const ASK_MS: u64 = 1_000;
/// So long after a key the composer may be half drawn, and be read as something else.
const REDRAWN_MS: u64 = 500;

impl Leftover {
    /// The turn that this text began was stopped.
    pub fn new(typed: Typed, since: Timestamp) -> Self {
        Self { typed, since, asked_at: None, pressed_at: None, presses: 0 }
    }

    pub fn into_typed(self) -> Typed {
        self.typed
    }

    /// Until when nothing else may be typed.
    pub fn settles(&self, now: Timestamp) -> Option<Timestamp> {
        Some(self.since.plus_ms(SETTLES_MS)).filter(|at| *at > now)
    }

    pub fn next(&mut self, sight: &Sight) -> Back {
        let touched = sight.person_at.is_some_and(|at| at >= self.since);
        let over = self.since.plus_ms(COMES_BACK_MS);
        let asks = matches!(sight.state, AgentState::Waiting | AgentState::Error | AgentState::Offline);
        if touched || asks || over <= sight.now || self.presses > self.typed.erase_presses_max() {
            return if sight.keyboard { Back::ReleaseKeyboard } else { Back::Done };
        }
        // For a moment it may look busy once more; a key is pressed only while it does not.
        let is_there = self.is_there(sight) && sight.state == AgentState::Idle;
        let is_gone = self.pressed_at.is_some() && sight.composer == Holds::Empty;
        match (is_there, sight.keyboard, self.pressed_at) {
            (false, true, Some(at)) if !is_gone && at.plus_ms(REDRAWN_MS) > sight.now => {
                Back::Wait { until: at.plus_ms(REDRAWN_MS) }
            }
            (false, true, _) => Back::ReleaseKeyboard,
            // Also when it is gone: what was only half drawn may turn out to be there.
            (false, false, _) => Back::Wait { until: over },
            (true, false, _) => match self.asked_at.map(|at| at.plus_ms(ASK_MS)) {
                Some(until) if until > sight.now => Back::Wait { until },
                _ => {
                    self.asked_at = Some(sight.now);
                    Back::TakeKeyboard { ms: KEYBOARD_MS }
                }
            },
            (true, true, Some(at)) if at.plus_ms(ERASE_MS) > sight.now => {
                Back::Wait { until: at.plus_ms(ERASE_MS) }
            }
            (true, true, _) => {
                (self.presses, self.pressed_at) = (self.presses + 1, Some(sight.now));
                Back::Press(ERASE)
            }
        }
    }

    /// All of it, or what is left of it.
    fn is_there(&self, sight: &Sight) -> bool {
        match (&sight.composer, self.pressed_at) {
            (Holds::Text(text), Some(_)) => bones(self.typed.as_str()).starts_with(text.as_str()),
            (holds, _) => matches!(holds.compare(&self.typed), Match::Whole | Match::Tail),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(now: u64, composer: Holds, keyboard: bool) -> Sight {
        Sight { composer, keyboard, ..Sight::at(now, AgentState::Idle) }
    }

    fn ours() -> Typed {
        Typed::new("[A2A:0b78765b:user]", "talk on")
    }

    fn text(text: &str) -> Holds {
        Holds::Text(bones(text))
    }

    #[test]
    fn what_came_back_is_taken_out_and_nothing_else() {
        let whole = || text(ours().as_str());
        let mut left = Leftover::new(ours(), Timestamp(0));
        assert_eq!(left.next(&sight(0, Holds::Empty, false)), Back::Wait { until: Timestamp(COMES_BACK_MS) });
        assert_eq!(left.next(&sight(50, whole(), false)), Back::TakeKeyboard { ms: KEYBOARD_MS });
        assert_eq!(
            left.next(&sight(55, whole(), false)),
            Back::Wait { until: Timestamp(50 + ASK_MS) },
            "once"
        );
        assert_eq!(left.next(&sight(60, whole(), true)), Back::Press(ERASE));
        let wait = Back::Wait { until: Timestamp(60 + ERASE_MS) };
        assert_eq!(left.next(&sight(70, text("[A2A:0b78765b:user]"), true)), wait);
        assert_eq!(left.next(&sight(130, text("[A2A:0b78765b:user]"), true)), Back::Press(ERASE));
        assert_eq!(left.next(&sight(140, Holds::Empty, true)), Back::ReleaseKeyboard);
        assert_eq!(
            left.next(&sight(150, Holds::Empty, false)),
            Back::Wait { until: Timestamp(COMES_BACK_MS) }
        );
        assert_eq!(left.next(&sight(COMES_BACK_MS, Holds::Empty, false)), Back::Done);
    }

    /// Between a key and what comes of it, the composer is drawn anew, and may be read as anything.
    #[test]
    fn a_composer_that_is_half_drawn_is_waited_for() {
        let mut left = Leftover::new(ours(), Timestamp(0));
        let whole = || text(ours().as_str());
        assert_eq!(left.next(&sight(0, whole(), false)), Back::TakeKeyboard { ms: KEYBOARD_MS });
        assert_eq!(left.next(&sight(10, whole(), true)), Back::Press(ERASE));
        let half = Back::Wait { until: Timestamp(10 + REDRAWN_MS) };
        assert_eq!(left.next(&sight(20, Holds::Unknown, true)), half);
        assert_eq!(left.next(&sight(30, text("another"), true)), half);
        assert_eq!(left.next(&sight(100, text("[A2A:0b78765b:user]"), true)), Back::Press(ERASE));
        // What stays something else is not ours.
        assert_eq!(left.next(&sight(100 + REDRAWN_MS, text("another"), true)), Back::ReleaseKeyboard);
        let wait = Back::Wait { until: Timestamp(COMES_BACK_MS) };
        assert_eq!(left.next(&sight(110 + REDRAWN_MS, text("another"), false)), wait);
        assert_eq!(left.next(&sight(120 + REDRAWN_MS, Holds::Empty, false)), wait);
        let again = 130 + ASK_MS;
        assert_eq!(
            left.next(&sight(again, text("[A2A:0b78765b:user]"), false)),
            Back::TakeKeyboard { ms: KEYBOARD_MS }
        );
    }

    #[test]
    fn nothing_is_typed_until_it_is_clear_whether_it_comes_back() {
        let left = Leftover::new(ours(), Timestamp(100));
        assert_eq!(left.settles(Timestamp(100)), Some(Timestamp(100 + SETTLES_MS)));
        assert_eq!(left.settles(Timestamp(100 + SETTLES_MS)), None);
    }

    #[test]
    fn a_draft_a_key_or_a_late_text_is_left_alone() {
        let check = |sight: Sight, back: Back| {
            assert_eq!(Leftover::new(ours(), Timestamp(0)).next(&sight), back, "{sight:?}");
        };
        let draft = sight(10, text("my own words"), false);
        check(draft, Back::Wait { until: Timestamp(COMES_BACK_MS) });
        let both = sight(10, text(&format!("{} and mine", ours().as_str())), false);
        check(both, Back::Wait { until: Timestamp(COMES_BACK_MS) });
        let whole = sight(10, text(ours().as_str()), false);
        check(Sight { person_at: Some(Timestamp(5)), ..whole.clone() }, Back::Done);
        check(Sight { state: AgentState::Waiting, ..whole.clone() }, Back::Done);
        // Nothing is pressed while it works, and nothing is given up either.
        let busy = Sight { state: AgentState::Busy, ..whole.clone() };
        check(busy.clone(), Back::Wait { until: Timestamp(COMES_BACK_MS) });
        check(Sight { keyboard: true, ..busy }, Back::ReleaseKeyboard);
        check(Sight { now: Timestamp(COMES_BACK_MS), ..whole }, Back::Done);
        // The keyboard goes back in any case.
        check(sight(COMES_BACK_MS, Holds::Empty, true), Back::ReleaseKeyboard);
    }
}
