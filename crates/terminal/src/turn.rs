//! One message into one terminal: a closed loop from "may I?" to proof that the turn began.
//!
//! Each step depends on what the screen shows at that moment and never on a delay alone: gate, keyboard, paste, echo,
//! Enter alone, proof. It is pure: the caller passes what is visible and carries out one step at a time. It types only
//! to an idle program, even if that would queue input: a busy one may ask for approval, which Enter would give.
//!
//! Invariants: Enter is pressed only while the composer holds our text and nothing else and nothing waits for
//! approval; at most three times; a person's draft is never touched; what is not proven is not said.
//! Not here: what is typed (`text`), how the composer is read (`composer`), receipts (the node).

mod aside;
mod line;

pub use crate::held::{Held, Note, Outcome, Proof};
pub use crate::sight::Sight;

use crate::composer::{Holds, Match};
use crate::profile::Submit;
use crate::text::{ERASE_MS, Typed, bones};
use synapse_core::agents::AgentState;
use synapse_core::ids::Timestamp;

/// What is to be done next. Whoever carries it out calls `next` again afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Nothing, until something changes or the time has come.
    Wait {
        until: Option<Timestamp>,
        held: Option<Held>,
    },
    /// Keep everybody else's keys away for so long.
    TakeKeyboard {
        ms: u32,
    },
    ReleaseKeyboard,
    /// Put this down where it survives us, and look again: that takes time, and much may have changed meanwhile.
    Note(Note),
    /// Write it in one piece.
    Paste(Vec<u8>),
    /// Write what follows the piece before.
    PasteRest(Vec<u8>),
    Enter,
    /// Take back what we have written.
    Erase(&'static [u8]),
    Done(Outcome),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Gate,
    /// The keyboard was asked for.
    Asked,
    /// Only the first character was written (`line`).
    Probed {
        at: Timestamp,
    },
    /// Written; not yet seen for long enough.
    Pasted {
        at: Timestamp,
    },
    /// Something came in between: the person decides first.
    Aside,
    Entered {
        at: Timestamp,
    },
    /// What was written is taken back. All of it is ours if the keyboard has been ours since it was empty.
    Erasing {
        presses: usize,
        at: Timestamp,
        why: &'static str,
        all_ours: bool,
    },
    Done,
}

pub struct Turn {
    typed: Typed,
    /// Between the paste and Enter, and between the echo and Enter, at least.
    settle_ms: u64,
    echo_ms: u64,
    phase: Phase,
    empty_since: Option<Timestamp>,
    /// What was last done to the program may not be shown before this.
    shown_by: Option<Timestamp>,
    /// What was last put down.
    noted: Option<Note>,
    pastes: u8,
    enters: u8,
    entered_at: Option<Timestamp>,
    /// Since when the composer is seen to hold all of the text.
    echoed_since: Option<Timestamp>,
    /// How often Enter was not pressed because the program had printed meanwhile.
    refusals: u8,
    submitted_before: bool,
    /// Our header stood on the screen, or above it, before we wrote: seeing it there proves nothing.
    shown_before: bool,
    shown_above_before: bool,
    /// What proves it, and until when the program itself may still say so.
    proven: Option<(Proof, Timestamp)>,
    outcome: Option<Outcome>,
}

/// The composer must have been empty for so long.
const EMPTY_MS: u64 = 120;
/// A person who pressed a key within this is typing.
pub const TYPING_MS: u64 = 2_000;
/// How long others' keys are kept away; the loop gives them back as soon as it can.
const KEYBOARD_MS: u32 = 8_000;
const KEYBOARD_PATIENCE_MS: u64 = 1_000;
const ECHO_MS_MAX: u64 = 5_000;
/// After Enter: how long it may take until the turn shows.
const PROOF_MS: u64 = 3_000;
const FIRST_PROOF_MS: u64 = 10_000;
/// A program that can say what it was given is let say so, for this long after there is another proof.
const TOLD_MS: u64 = 2_000;
const PASTES_MAX: u8 = 2;
const ENTERS_MAX: u8 = 3;
const REFUSALS_MAX: u8 = 100;

impl Turn {
    pub fn new(typed: Typed, submit: &Submit) -> Self {
        Self {
            typed,
            settle_ms: submit.settle_ms,
            echo_ms: submit.echo_ms,
            phase: Phase::Gate,
            empty_since: None,
            shown_by: None,
            noted: None,
            pastes: 0,
            enters: 0,
            entered_at: None,
            echoed_since: None,
            refusals: 0,
            submitted_before: false,
            shown_before: false,
            shown_above_before: false,
            proven: None,
            outcome: None,
        }
    }

    /// The composer has been seen empty since then.
    pub fn after_empty(mut self, since: Option<Timestamp>) -> Self {
        self.empty_since = since;
        self
    }

    /// The same message again, by whoever comes after a crash: it may have been written, and even submitted.
    pub fn resumed(typed: Typed, submit: &Submit) -> Self {
        Self {
            phase: Phase::Aside,
            noted: Some(Note::Writing),
            pastes: 1,
            submitted_before: true,
            ..Self::new(typed, submit)
        }
    }

    pub fn typed(&self) -> &Typed {
        &self.typed
    }

    /// Whether anything of it may be in the terminal.
    pub fn is_written(&self) -> bool {
        self.pastes > 0
    }

    /// Whether it was put down that it is being written: it goes back to nobody.
    pub fn is_noted(&self) -> bool {
        self.noted.is_some()
    }

    /// When Enter was first pressed: its turn began after that.
    pub fn entered_at(&self) -> Option<Timestamp> {
        self.entered_at
    }

    pub fn is_at_gate(&self) -> bool {
        self.phase == Phase::Gate
    }

    /// Enter was not pressed: the program had printed something that was not seen yet. All is looked at again.
    pub fn not_entered(&mut self) {
        if matches!(self.phase, Phase::Entered { .. }) {
            self.enters = self.enters.saturating_sub(1);
            self.refusals = self.refusals.saturating_add(1);
            self.phase = Phase::Aside;
        }
    }

    /// It was written, and something else comes first.
    pub fn is_aside(&self) -> bool {
        self.phase == Phase::Aside
    }

    pub fn next(&mut self, sight: &Sight) -> Step {
        match sight.composer {
            Holds::Empty => drop(self.empty_since.get_or_insert(sight.now)),
            _ => self.empty_since = None,
        }
        match self.phase {
            Phase::Gate => self.gate(sight),
            Phase::Asked => self.asked(sight),
            Phase::Probed { at } => self.probed(sight, at),
            Phase::Pasted { at } => self.pasted(sight, at),
            Phase::Aside => self.aside(sight),
            Phase::Entered { at } => self.entered(sight, at),
            Phase::Erasing { presses, at, why, all_ours } => self.erasing(sight, presses, at, why, all_ours),
            Phase::Done => self.done(sight),
        }
    }

    /// Why it must not be typed to right now.
    fn barred(sight: &Sight) -> Option<Held> {
        if let Some((held, _)) = sight.bar {
            return Some(held);
        }
        let held = match sight.state {
            AgentState::Idle => None,
            AgentState::Busy => Some(Held::Busy),
            AgentState::Waiting => Some(Held::Waiting),
            AgentState::Starting => Some(Held::Starting),
            AgentState::Error | AgentState::Offline => Some(Held::Gone),
            AgentState::Maintenance | AgentState::Unknown => Some(Held::Unknown),
        };
        let held = held.or(sight.paused.then_some(Held::Paused));
        let takes_text = sight.pastes_bracketed || sight.by_line || sight.takes_keys;
        held.or((!takes_text).then_some(Held::NoPaste))
    }

    /// Why nothing may be typed, whatever it is, and when to look again at the latest.
    pub fn held(sight: &Sight) -> (Option<Held>, Option<Timestamp>) {
        let held = Self::barred(sight).or(match sight.composer {
            Holds::Empty => None,
            Holds::Unknown => Some(Held::NoComposer),
            Holds::Text(_) | Holds::Collapsed(..) => Some(Held::Draft),
        });
        match (held, sight.typing_until()) {
            (None, Some(until)) => (Some(Held::Typing), Some(until)),
            (held, _) => (held, sight.bar.and_then(|(_, until)| until)),
        }
    }

    fn gate(&mut self, sight: &Sight) -> Step {
        let (held, until) = Self::held(sight);
        if held.is_some() {
            return Step::Wait { until, held };
        }
        let ready = self.empty_since.unwrap_or(sight.now).plus_ms(EMPTY_MS);
        if ready > sight.now {
            return Step::Wait { until: Some(ready), held: None };
        }
        self.phase = Phase::Asked;
        Step::TakeKeyboard { ms: KEYBOARD_MS }
    }

    /// Everything typed before is in the program now: is it still as it was?
    fn asked(&mut self, sight: &Sight) -> Step {
        if !sight.keyboard {
            return Step::Wait { until: None, held: None };
        }
        let typing = sight.person_at.is_some_and(|at| at.plus_ms(EMPTY_MS) > sight.now);
        if Self::barred(sight).is_some() || sight.composer != Holds::Empty || typing {
            self.phase = Phase::Gate;
            return Step::ReleaseKeyboard;
        }
        if !sight.settled {
            return Step::Wait { until: None, held: None };
        }
        if self.noted.is_none() {
            self.noted = Some(Note::Writing);
            return Step::Note(Note::Writing);
        }
        self.phase = Phase::Pasted { at: sight.now };
        self.pastes += 1;
        self.shown_before = sight.shown;
        self.shown_above_before = sight.shown_above;
        self.shown_by = Some(sight.now.plus_ms(ECHO_MS_MAX));
        self.write(sight)
    }

    fn pasted(&mut self, sight: &Sight, at: Timestamp) -> Step {
        if Self::barred(sight).is_some() || !sight.keyboard {
            self.phase = Phase::Aside;
            return if sight.keyboard { Step::ReleaseKeyboard } else { self.next(sight) };
        }
        let compared = sight.composer.compare(&self.typed);
        match compared {
            Match::Whole | Match::Tail => drop(self.echoed_since.get_or_insert(sight.now)),
            Match::Among | Match::No => self.echoed_since = None,
        }
        let echoed = self.echoed_since.unwrap_or(sight.now).plus_ms(self.echo_ms);
        let settled = at.plus_ms(self.settle_ms).max(echoed);
        match compared {
            Match::Whole | Match::Tail if settled <= sight.now => self.enter(sight),
            Match::Whole | Match::Tail => Step::Wait { until: Some(settled), held: None },
            Match::No | Match::Among if at.plus_ms(ECHO_MS_MAX) > sight.now => {
                Step::Wait { until: Some(at.plus_ms(ECHO_MS_MAX)), held: None }
            }
            Match::No | Match::Among if self.typed.is_line() => self.line_not_echoed(sight),
            Match::No | Match::Among => self.not_echoed(sight),
        }
    }

    fn not_echoed(&mut self, sight: &Sight) -> Step {
        if sight.composer == Holds::Empty && self.pastes < PASTES_MAX {
            self.phase = Phase::Gate;
            return Step::ReleaseKeyboard;
        }
        let why = match sight.composer {
            Holds::Empty => "the program did not take the text",
            Holds::Unknown => "the composer is not to be seen after writing",
            Holds::Text(_) | Holds::Collapsed(..) => "the composer holds something else beside the text",
        };
        if matches!(sight.composer, Holds::Text(_) | Holds::Collapsed(..)) {
            self.phase = Phase::Erasing { presses: 0, at: sight.now, why, all_ours: true };
            return self.next(sight);
        }
        self.finish(sight, Outcome::NotSubmitted { why, erased: sight.composer == Holds::Empty })
    }

    /// Once it is certain that nothing else asks for it.
    fn enter(&mut self, sight: &Sight) -> Step {
        if !sight.settled {
            return Step::Wait { until: None, held: None };
        }
        if self.noted != Some(Note::Written) {
            self.noted = Some(Note::Written);
            return Step::Note(Note::Written);
        }
        if self.refusals >= REFUSALS_MAX {
            let why = "the program prints without a pause, so Enter was not pressed";
            self.phase = Phase::Erasing { presses: 0, at: sight.now, why, all_ours: false };
            return self.next(sight);
        }
        self.enters += 1;
        self.entered_at.get_or_insert(sight.now);
        self.shown_by = Some(sight.now.plus_ms(PROOF_MS));
        self.phase = Phase::Entered { at: sight.now };
        Step::Enter
    }

    fn entered(&mut self, sight: &Sight, at: Timestamp) -> Step {
        if let Some(step) = self.proven(sight, self.proof(sight, at)) {
            return step;
        }
        if sight.keyboard {
            return Step::ReleaseKeyboard;
        }
        let patience = if self.submitted_before || self.enters > 1 { PROOF_MS } else { FIRST_PROOF_MS };
        let compared = sight.composer.compare(&self.typed);
        if compared == Match::Among {
            self.phase = Phase::Aside;
            return self.next(sight);
        }
        let ours = compared != Match::No;
        // A text that still stands there was not taken; one that has gone may be slow to show its turn.
        let until = at.plus_ms(if ours { PROOF_MS } else { patience });
        if until > sight.now {
            return Step::Wait { until: Some(until), held: None };
        }
        match sight.state {
            AgentState::Waiting => Step::Wait { until: None, held: Some(Held::Waiting) },
            _ if ours => self.press_again(sight),
            AgentState::Error | AgentState::Offline => {
                self.finish(sight, Outcome::Unknown { why: "its program ended after Enter" })
            }
            // A person writes there: with what is ours, or after it has gone.
            _ if matches!(sight.composer, Holds::Text(_) | Holds::Collapsed(..)) => {
                self.phase = Phase::Aside;
                self.next(sight)
            }
            _ => self.finish(sight, Outcome::Unknown { why: "the text left the composer and no turn began" }),
        }
    }

    fn press_again(&mut self, sight: &Sight) -> Step {
        if let Some(held) = Self::barred(sight) {
            return Step::Wait { until: None, held: Some(held) };
        }
        if self.typed.is_line() {
            let why = "Enter was pressed, and the text still stands at the cursor";
            return self.finish(sight, Outcome::Unknown { why });
        }
        if self.enters >= ENTERS_MAX {
            let why = "Enter was pressed three times and the text stayed in the composer";
            self.phase = Phase::Erasing { presses: 0, at: sight.now, why, all_ours: false };
            return Step::TakeKeyboard { ms: KEYBOARD_MS };
        }
        self.phase = Phase::Aside;
        Step::TakeKeyboard { ms: KEYBOARD_MS }
    }

    /// While a program draws its screen anew, what is in its composer may seem to be outside.
    fn is_shown(&self, sight: &Sight) -> bool {
        sight.shown && sight.settled && !self.shown_before
    }

    /// Once there is a proof: the end, or a while in which the program may say so itself.
    fn proven(&mut self, sight: &Sight, proof: Option<Proof>) -> Option<Step> {
        let told_by = sight.now.plus_ms(if sight.tells { TOLD_MS } else { 0 });
        let told = proof.filter(|proof| *proof == Proof::Told).map(|proof| (proof, sight.now));
        self.proven = told.or(self.proven).or(proof.map(|proof| (proof, told_by)));
        let (proof, told_by) = self.proven?;
        Some(match () {
            () if told_by <= sight.now => self.finish(sight, Outcome::Submitted(proof)),
            () if sight.keyboard => Step::ReleaseKeyboard,
            () => Step::Wait { until: Some(told_by), held: None },
        })
    }

    fn proof(&self, sight: &Sight, at: Timestamp) -> Option<Proof> {
        let gone = sight.composer.compare(&self.typed) == Match::No;
        // Of a long text, once an answer stands below it.
        let scrolled_off = sight.shown_above && sight.settled && !self.shown_above_before;
        let began = sight.state == AgentState::Busy && !sight.state_assumed && sight.state_since >= at;
        match () {
            () if sight.told => Some(Proof::Told),
            () if gone && began => Some(Proof::Began),
            () if gone && (self.is_shown(sight) || scrolled_off) => Some(Proof::Shown),
            () => None,
        }
    }

    fn erasing(
        &mut self,
        sight: &Sight,
        presses: usize,
        at: Timestamp,
        why: &'static str,
        all_ours: bool,
    ) -> Step {
        // An Enter that was late may have submitted it after all.
        if let Some(entered_at) = self.entered_at
            && let Some(step) = self.proven(sight, self.proof(sight, entered_at))
        {
            return step;
        }
        let ours = match &sight.composer {
            Holds::Text(_) | Holds::Collapsed(..) if all_ours => true,
            Holds::Text(text) => bones(self.typed.as_str()).starts_with(text.as_str()),
            Holds::Collapsed(..) => sight.composer.compare(&self.typed) == Match::Whole,
            Holds::Empty | Holds::Unknown => false,
        };
        if presses == 0 && !sight.keyboard && at.plus_ms(KEYBOARD_PATIENCE_MS) > sight.now {
            return Step::Wait { until: Some(at.plus_ms(KEYBOARD_PATIENCE_MS)), held: None };
        }
        let may = sight.keyboard && Self::barred(sight).is_none() && ours;
        if !may || presses > self.typed.erase_presses_max() {
            let erased = sight.composer == Holds::Empty;
            // Nothing of it was erased, and it is gone.
            if erased && presses == 0 && self.enters > 0 {
                return self.finish(sight, Outcome::Unknown { why });
            }
            return self.finish(sight, Outcome::NotSubmitted { why, erased });
        }
        if presses > 0 && at.plus_ms(ERASE_MS) > sight.now {
            return Step::Wait { until: Some(at.plus_ms(ERASE_MS)), held: None };
        }
        self.phase = Phase::Erasing { presses: presses + 1, at: sight.now, why, all_ours };
        Step::Erase(self.typed.erase())
    }

    fn finish(&mut self, sight: &Sight, outcome: Outcome) -> Step {
        self.phase = Phase::Done;
        self.outcome = Some(outcome);
        self.done(sight)
    }

    /// The keyboard goes back before the end is told.
    fn done(&mut self, sight: &Sight) -> Step {
        if sight.keyboard {
            return Step::ReleaseKeyboard;
        }
        match self.outcome.clone() {
            Some(outcome) => Step::Done(outcome),
            None => Step::Wait { until: None, held: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::ERASE;

    fn typed() -> Typed {
        Typed::new("[A2A:0011:tester]", "do this")
    }

    /// What was put down took time: only what is seen after that counts.
    #[test]
    fn nothing_is_pressed_on_what_was_seen_before_a_note() {
        let holds = || Holds::Text(bones(typed().as_str()));
        let sees = |now: u64, composer: Holds| Sight { composer, ..Sight::at(now, AgentState::Idle) };
        let mut turn = Turn::new(typed(), &Submit::default());
        turn.next(&sees(0, Holds::Empty));
        assert!(matches!(turn.next(&sees(200, Holds::Empty)), Step::TakeKeyboard { .. }));
        assert_eq!(turn.next(&sees(210, Holds::Empty)), Step::Note(Note::Writing));
        // Printed meanwhile, and not looked at yet: it may be a prompt.
        let unsettled = Sight { settled: false, ..sees(220, Holds::Empty) };
        assert!(matches!(turn.next(&unsettled), Step::Wait { .. }));
        assert!(matches!(turn.next(&sees(260, Holds::Empty)), Step::Paste(_)));
        assert_eq!(turn.next(&sees(500, holds())), Step::Note(Note::Written));
        let unsettled = Sight { settled: false, ..sees(510, holds()) };
        assert!(matches!(turn.next(&unsettled), Step::Wait { .. }));
        let prompt = Sight { composer: holds(), ..Sight::at(900, AgentState::Waiting) };
        assert_eq!(turn.next(&prompt), Step::ReleaseKeyboard, "the person decides first");
        assert!(turn.is_aside());
    }

    /// Gemini CLI swallows an Enter that comes too soon after it has taken a paste, however late that is.
    #[test]
    fn enter_waits_from_the_moment_the_text_is_seen() {
        let holds = || Holds::Text(bones(typed().as_str()));
        let sees = |now: u64, composer: Holds| Sight { composer, ..Sight::at(now, AgentState::Idle) };
        let submit = Submit { settle_ms: 60, echo_ms: 100, ..Submit::default() };
        let until = |step: Step| match step {
            Step::Wait { until, held: None } => until.map(|at| at.0),
            other => panic!("{other:?}"),
        };
        let mut turn = Turn::new(typed(), &submit);
        turn.phase = Phase::Pasted { at: Timestamp(1_000) };
        assert_eq!(until(turn.next(&sees(1_050, Holds::Empty))), Some(6_000));
        assert_eq!(until(turn.next(&sees(1_400, holds()))), Some(1_500));
        // It is drawn again: what was seen before counts no more.
        assert_eq!(until(turn.next(&sees(1_450, Holds::Empty))), Some(6_000));
        assert_eq!(until(turn.next(&sees(1_460, holds()))), Some(1_560));
        assert_eq!(until(turn.next(&sees(1_559, holds()))), Some(1_560));
        assert_eq!(turn.next(&sees(1_560, holds())), Step::Note(Note::Written));
        assert_eq!(turn.next(&sees(1_565, holds())), Step::Enter);
        // One that shows it at once has the pause after the paste.
        let mut turn = Turn::new(typed(), &Submit { echo_ms: 0, ..submit });
        turn.phase = Phase::Pasted { at: Timestamp(1_000) };
        assert_eq!(until(turn.next(&sees(1_010, holds()))), Some(1_060));
        assert_eq!(turn.next(&sees(1_060, holds())), Step::Note(Note::Written));
    }

    /// Aider prints a long text where it was typed, and the answer below it: the header leaves the screen.
    #[test]
    fn text_that_scrolled_off_is_submitted() {
        for (before, above, settled, proven) in [
            (false, true, true, true),
            (true, true, true, false),
            (false, true, false, false),
            (false, false, true, false),
        ] {
            let mut turn = Turn::new(typed(), &Submit::default());
            (turn.phase, turn.enters) = (Phase::Entered { at: Timestamp(0) }, 1);
            turn.shown_above_before = before;
            let sight =
                Sight { shown_above: above, settled, keyboard: false, ..Sight::at(10, AgentState::Idle) };
            let done = turn.next(&sight) == Step::Done(Outcome::Submitted(Proof::Shown));
            assert_eq!(done, proven, "{before} {above} {settled}");
        }
    }

    /// Qwen Code draws its whole screen row by row. A node that was just restarted saw half of it, took the text in the
    /// composer for one above it, and said that it was submitted.
    #[test]
    fn screen_that_is_being_drawn_does_not_prove_a_submission() {
        let sees = |settled| Sight {
            composer: Holds::Unknown,
            shown: true,
            settled,
            keyboard: false,
            ..Sight::at(100, AgentState::Idle)
        };
        let mut turn = Turn::resumed(typed(), &Submit::default());
        assert_eq!(turn.next(&sees(false)), Step::Wait { until: None, held: Some(Held::NoComposer) });
        assert_eq!(turn.next(&sees(true)), Step::Done(Outcome::Submitted(Proof::Shown)));
    }

    /// Finding L16: the program printed between our last look and Enter, which the holder then did not press.
    #[test]
    fn enter_that_was_not_pressed_is_pressed_only_after_another_look() {
        let holds = || Holds::Text(bones(typed().as_str()));
        let sees = |now: u64, state| Sight { composer: holds(), keyboard: true, ..Sight::at(now, state) };
        let mut turn = Turn::new(typed(), &Submit::default());
        (turn.phase, turn.noted, turn.pastes) = (Phase::Pasted { at: Timestamp(0) }, Some(Note::Written), 1);
        assert_eq!(turn.next(&sees(200, AgentState::Idle)), Step::Enter);
        turn.not_entered();
        let asks = turn.next(&sees(201, AgentState::Waiting));
        assert_eq!(asks, Step::Wait { until: None, held: Some(Held::Waiting) });
        assert!(matches!(
            turn.next(&sees(300, AgentState::Idle)),
            Step::Wait { until: Some(Timestamp(450)), .. }
        ));
        assert_eq!(turn.next(&sees(450, AgentState::Idle)), Step::Enter);
        assert_eq!(turn.enters, 1);
        turn.refusals = REFUSALS_MAX;
        turn.not_entered();
        turn.next(&sees(500, AgentState::Idle));
        assert_eq!(turn.next(&sees(900, AgentState::Idle)), Step::Erase(ERASE), "not for ever");
    }
}
