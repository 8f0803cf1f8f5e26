//! A message of ours that came back: some programs put what they were asked into the composer again when they are
//! stopped before they said anything. It would look like a person's draft, and all mail would wait behind it.
//!
//! Only what we stopped ourselves is taken back, only if the composer holds that text and nothing else, and only
//! while no person has pressed a key since.

use crate::composer::{Holds, Match};
use crate::text::{Typed, bones};
use crate::turn::Sight;
use synapse_core::agents::AgentState;
use synapse_core::ids::Timestamp;

#[derive(Debug)]
pub struct Leftover {
    typed: Typed,
    since: Timestamp,
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
const KEYBOARD_MS: u32 = 3_000;
const ERASE_MS: u64 = 60;
/// To the start of the line, and over the line end before it.
const ERASE: &[u8] = b"\x15\x7f";

impl Leftover {
    /// The turn that this text began was stopped.
    pub fn new(typed: Typed, since: Timestamp) -> Self {
        Self { typed, since, pressed_at: None, presses: 0 }
    }

    pub fn next(&mut self, sight: &Sight) -> Back {
        let touched = sight.person_at.is_some_and(|at| at >= self.since);
        let over = self.since.plus_ms(COMES_BACK_MS);
        let presses_max = 10 + 3 * self.typed.as_str().matches('\n').count();
        let idle = sight.state == AgentState::Idle;
        if touched || !idle || over <= sight.now || self.presses > presses_max {
            return if sight.keyboard { Back::ReleaseKeyboard } else { Back::Done };
        }
        match (self.is_there(sight), sight.keyboard, self.pressed_at) {
            (false, true, _) => Back::ReleaseKeyboard,
            (false, false, Some(_)) => Back::Done,
            (false, false, None) => Back::Wait { until: over },
            (true, false, _) => Back::TakeKeyboard { ms: KEYBOARD_MS },
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
        Sight {
            now: Timestamp(now),
            state: AgentState::Idle,
            state_since: Timestamp(0),
            state_assumed: false,
            composer,
            pastes_bracketed: true,
            person_at: None,
            keyboard,
            shown: false,
            told: false,
        }
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
        assert_eq!(left.next(&sight(60, whole(), true)), Back::Press(ERASE));
        let wait = Back::Wait { until: Timestamp(60 + ERASE_MS) };
        assert_eq!(left.next(&sight(70, text("[A2A:0b78765b:user]"), true)), wait);
        assert_eq!(left.next(&sight(130, text("[A2A:0b78765b:user]"), true)), Back::Press(ERASE));
        assert_eq!(left.next(&sight(140, Holds::Empty, true)), Back::ReleaseKeyboard);
        assert_eq!(left.next(&sight(150, Holds::Empty, false)), Back::Done);
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
        check(Sight { now: Timestamp(COMES_BACK_MS), ..whole }, Back::Done);
        // The keyboard goes back in any case.
        check(sight(COMES_BACK_MS, Holds::Empty, true), Back::ReleaseKeyboard);
    }
}
