//! What is different where a text is typed as one line, as keys: at the cursor of a program whose composer nobody
//! described, or into a composer whose program knows no pastes.
//!
//! Its first character goes alone to a program that takes keys and no pastes: one that shows no `[` at its cursor, as a
//! pager or a question for a password, gets nothing more. Enter is pressed once.

use super::{ECHO_MS_MAX, Outcome, Phase, Sight, Step, Turn};
use crate::composer::Holds;
use synapse_core::ids::Timestamp;

/// The first character has to be shown within this.
const PROBE_MS_MAX: u64 = 2_000;

impl Turn {
    /// The text, or the first character of a line that is typed as keys.
    pub(super) fn write(&mut self, sight: &Sight) -> Step {
        if sight.pastes_bracketed || !self.typed.is_line() {
            return Step::Paste(self.typed.as_paste());
        }
        self.phase = Phase::Probed { at: sight.now };
        Step::Paste(self.typed.as_keys().0.to_vec())
    }

    /// The first character was typed.
    pub(super) fn probed(&mut self, sight: &Sight, at: Timestamp) -> Step {
        if Self::barred(sight).is_some() || !sight.keyboard {
            let why = "something came in between after its first character was typed";
            return self.finish(sight, Outcome::NotSubmitted { why, erased: false });
        }
        let first = std::str::from_utf8(self.typed.as_keys().0).unwrap_or_default();
        if sight.settled && sight.composer == Holds::Text(first.to_owned()) {
            self.phase = Phase::Pasted { at: sight.now };
            self.shown_by = Some(sight.now.plus_ms(ECHO_MS_MAX));
            return Step::PasteRest(self.typed.as_keys().1.to_vec());
        }
        let until = at.plus_ms(PROBE_MS_MAX);
        if until > sight.now {
            return Step::Wait { until: Some(until), held: None };
        }
        let why = "the program does not show what is typed, so only the first character was typed";
        self.finish(sight, Outcome::NotSubmitted { why, erased: false })
    }

    /// The line is not at the cursor. It is taken back only if all that is new there is a part of it.
    pub(super) fn line_not_echoed(&mut self, sight: &Sight) -> Step {
        let why = "the program does not show the text at its cursor";
        if sight.composer.is_beginning_of(&self.typed) {
            self.phase = Phase::Erasing { presses: 0, at: sight.now, why, all_ours: false };
            return self.next(sight);
        }
        self.finish(sight, Outcome::NotSubmitted { why, erased: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::held::{Held, Note, Proof};
    use crate::profile::Submit;
    use crate::text::{ERASE_LINE, Typed, bones};
    use synapse_core::agents::AgentState;

    fn typed() -> Typed {
        Typed::line("[A2A:0011:tester]", "do\nthis")
    }

    fn sees(now: u64, composer: Holds) -> Sight {
        Sight { composer, pastes_bracketed: false, by_line: true, ..Sight::at(now, AgentState::Idle) }
    }

    /// A turn whose first character was just typed, at 1000.
    fn probed() -> Turn {
        let mut turn = Turn::new(typed(), &Submit::default());
        turn.next(&sees(0, Holds::Empty));
        assert!(matches!(turn.next(&sees(900, Holds::Empty)), Step::TakeKeyboard { .. }));
        assert_eq!(turn.next(&sees(950, Holds::Empty)), Step::Note(Note::Writing));
        assert_eq!(turn.next(&sees(1_000, Holds::Empty)), Step::Paste(b"[".to_vec()));
        turn
    }

    fn whole() -> Holds {
        Holds::Text(bones(typed().as_str()))
    }

    #[test]
    fn line_is_typed_after_its_first_character_was_shown() {
        let mut turn = probed();
        assert!(matches!(turn.next(&sees(1_010, Holds::Empty)), Step::Wait { .. }));
        let rest = b"A2A:0011:tester] do this ".to_vec();
        assert_eq!(turn.next(&sees(1_100, Holds::Text("[".into()))), Step::PasteRest(rest));
        assert!(matches!(turn.next(&sees(1_110, whole())), Step::Wait { .. }));
        assert_eq!(turn.next(&sees(1_300, whole())), Step::Note(Note::Written));
        assert_eq!(turn.next(&sees(1_310, whole())), Step::Enter);
        let shown = Sight { shown: true, keyboard: false, ..sees(1_500, Holds::Empty) };
        assert_eq!(turn.next(&shown), Step::Done(Outcome::Submitted(Proof::Shown)));
    }

    #[test]
    fn nothing_more_is_typed_where_the_first_character_is_not_shown() {
        for composer in [Holds::Empty, Holds::Text("*".into()), Holds::Unknown] {
            let mut turn = probed();
            turn.next(&sees(1_100, composer.clone()));
            assert_eq!(turn.next(&sees(3_000, composer.clone())), Step::ReleaseKeyboard);
            let gone = Sight { keyboard: false, ..sees(3_010, composer) };
            let done = turn.next(&gone);
            assert!(
                matches!(done, Step::Done(Outcome::NotSubmitted { why, erased: false }) if why.contains("does not show")),
                "{done:?}"
            );
        }
    }

    #[test]
    fn line_goes_into_the_composer_of_a_program_without_pastes_if_its_profile_says_so() {
        let composer = |now, holds| Sight { by_line: false, takes_keys: true, ..sees(now, holds) };
        let without = Sight { takes_keys: false, ..composer(0, Holds::Empty) };
        assert_eq!(Turn::held(&without), (Some(Held::NoPaste), None));
        let mut turn = Turn::new(typed(), &Submit { keys: true, ..Submit::default() });
        turn.next(&composer(0, Holds::Empty));
        assert!(matches!(turn.next(&composer(900, Holds::Empty)), Step::TakeKeyboard { .. }));
        assert_eq!(turn.next(&composer(950, Holds::Empty)), Step::Note(Note::Writing));
        assert_eq!(turn.next(&composer(1_000, Holds::Empty)), Step::Paste(b"[".to_vec()));
        assert!(matches!(turn.next(&composer(1_100, Holds::Text("[".into()))), Step::PasteRest(_)));
        // Anything else beside it, such as a popup's choice, and Enter is not pressed.
        let more = Holds::Text(bones(typed().as_str()) + "x");
        assert!(matches!(turn.next(&composer(1_200, more)), Step::Wait { .. }));
        assert_eq!(turn.next(&composer(1_300, whole())), Step::Note(Note::Written));
        assert_eq!(turn.next(&composer(1_310, whole())), Step::Enter);
    }

    #[test]
    fn enter_is_pressed_once() {
        let mut turn = probed();
        turn.next(&sees(1_100, Holds::Text("[".into())));
        turn.next(&sees(1_300, whole()));
        assert_eq!(turn.next(&sees(1_310, whole())), Step::Enter);
        let mut steps = Vec::new();
        for now in (1_400..40_000).step_by(100) {
            let sight = Sight { keyboard: false, ..sees(now, whole()) };
            steps.push(turn.next(&sight));
        }
        assert!(!steps.contains(&Step::Enter));
        assert!(matches!(steps.last(), Some(Step::Done(Outcome::Unknown { .. }))), "{:?}", steps.last());
    }

    #[test]
    fn part_of_a_line_is_taken_back_and_anything_else_is_left() {
        let part: String = bones(typed().as_str()).chars().take(9).collect();
        for (composer, expected) in [
            (Holds::Text(part.clone()), Step::Erase(ERASE_LINE)),
            (Holds::Text(format!("{part}draft")), Step::ReleaseKeyboard),
            (Holds::Unknown, Step::ReleaseKeyboard),
        ] {
            let mut turn = probed();
            turn.next(&sees(1_100, Holds::Text("[".into())));
            assert!(matches!(turn.next(&sees(2_000, composer.clone())), Step::Wait { .. }));
            assert_eq!(turn.next(&sees(9_000, composer.clone())), expected, "{composer:?}");
        }
    }

    /// The text may stand above the cursor because the program printed something, and not because it was given it.
    #[test]
    fn text_above_the_cursor_proves_nothing_before_enter() {
        let mut turn = probed();
        turn.next(&sees(1_100, Holds::Text("[".into())));
        let asks = Sight { state: AgentState::Waiting, ..sees(1_200, Holds::Unknown) };
        turn.next(&asks);
        let after = Sight { shown: true, keyboard: false, ..sees(60_000, Holds::Unknown) };
        for _ in 0..3 {
            assert!(!matches!(turn.next(&after), Step::Done(Outcome::Submitted(_))));
        }
    }

    #[test]
    fn gate_tells_why_nothing_is_typed() {
        for held in [Held::NotQuiet, Held::Touched, Held::NoCursor, Held::Secret, Held::NoProfile] {
            let sight = Sight { bar: Some((held, Some(Timestamp(9)))), ..sees(0, Holds::Empty) };
            assert_eq!(Turn::held(&sight), (Some(held), Some(Timestamp(9))));
        }
    }
}
