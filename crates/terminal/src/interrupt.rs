//! Stopping a running turn as its profile says, on what is seen, and never so often that the program quits (PTY-9).
//!
//! The profile's key while it is busy by its own signs; a while later, if it still is, one Ctrl+C and no second. Where
//! Ctrl+C would quit the program, its Escape is pressed again instead, a few times: a program under load may read the
//! first one before its screen knows of the turn.
//! Nothing while it waits for a person, nothing when it is idle, no signal ever.

use crate::profile::{Interrupt, InterruptKey};
use crate::turn::{Held, Sight};
use synapse_core::agents::AgentState;
use synapse_core::ids::Timestamp;

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    Wait { until: Option<Timestamp>, held: Option<Held> },
    Press(&'static [u8]),
    Done(Stopped),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// It was not busy, so there was nothing to stop.
    NothingRan,
    Stopped,
    /// It goes on in spite of it.
    StillBusy,
    /// Its program has ended.
    Ended,
}

/// How long it may take until it shows that it stopped.
const PATIENCE_MS: u64 = 2_000;
/// No Ctrl+C after any other key within this: two quit some programs.
const ESCALATE_MS: u64 = 2_500;
/// How often Escape is tried where Ctrl+C may not be.
const ROUNDS_MAX: u8 = 3;

#[derive(Debug)]
pub struct Interrupting {
    rule: Interrupt,
    /// Keys of this round.
    pressed: u8,
    /// Rounds that came to nothing.
    rounds: u8,
    last_at: Option<Timestamp>,
    escalated: bool,
}

const ESCAPE: &[u8] = b"\x1b";
const CTRL_C: &[u8] = b"\x03";

impl Interrupting {
    pub fn new(rule: Interrupt) -> Self {
        Self { rule, pressed: 0, rounds: 0, last_at: None, escalated: false }
    }

    pub fn next(&mut self, sight: &Sight) -> Stop {
        let busy = sight.state == AgentState::Busy && !sight.state_assumed;
        match sight.state {
            AgentState::Error | AgentState::Offline => return Stop::Done(Stopped::Ended),
            AgentState::Waiting => return Stop::Wait { until: None, held: Some(Held::Waiting) },
            AgentState::Idle if self.last_at.is_none() => return Stop::Done(Stopped::NothingRan),
            AgentState::Idle => return Stop::Done(Stopped::Stopped),
            _ if !busy => return Stop::Wait { until: None, held: Some(Held::Unknown) },
            _ => {}
        }
        let Some(last) = self.last_at else { return self.press(sight.now) };
        if self.pressed < self.rule.times {
            let due = last.plus_ms(self.rule.gap_ms);
            return if due <= sight.now { self.press(sight.now) } else { wait(due) };
        }
        match (self.escalated, self.rule.key) {
            (false, InterruptKey::Escape) if last.plus_ms(ESCALATE_MS) > sight.now => {
                wait(last.plus_ms(ESCALATE_MS))
            }
            (false, InterruptKey::Escape) if self.rule.escalates => {
                (self.escalated, self.last_at) = (true, Some(sight.now));
                Stop::Press(CTRL_C)
            }
            _ if last.plus_ms(PATIENCE_MS) > sight.now => wait(last.plus_ms(PATIENCE_MS)),
            (_, InterruptKey::Escape) if !self.rule.escalates && self.rounds + 1 < ROUNDS_MAX => {
                (self.rounds, self.pressed) = (self.rounds + 1, 0);
                self.press(sight.now)
            }
            _ => Stop::Done(Stopped::StillBusy),
        }
    }

    fn press(&mut self, now: Timestamp) -> Stop {
        (self.pressed, self.last_at) = (self.pressed + 1, Some(now));
        Stop::Press(match self.rule.key {
            InterruptKey::Escape => ESCAPE,
            InterruptKey::CtrlC => CTRL_C,
        })
    }
}

fn wait(until: Timestamp) -> Stop {
    Stop::Wait { until: Some(until), held: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(now: u64, state: AgentState) -> Sight {
        Sight::at(now, state)
    }

    /// Drives it every 10 ms; what was pressed and when, and how it ended.
    fn drive(
        rule: Interrupt,
        state_at: impl Fn(u64, usize) -> AgentState,
    ) -> (Vec<(u64, u8)>, Option<Stopped>) {
        let mut interrupting = Interrupting::new(rule);
        let mut pressed = Vec::new();
        for now in (0..60_000).step_by(10) {
            match interrupting.next(&sight(now, state_at(now, pressed.len()))) {
                Stop::Wait { .. } => {}
                Stop::Press(key) => pressed.push((now, key[0])),
                Stop::Done(stopped) => return (pressed, Some(stopped)),
            }
        }
        (pressed, None)
    }

    fn escape(times: u8) -> Interrupt {
        Interrupt { key: InterruptKey::Escape, times, gap_ms: 250, escalates: true }
    }

    #[test]
    fn it_presses_what_the_profile_says_and_no_more() {
        use AgentState::{Busy, Idle, Unknown, Waiting};
        let never = |_: u64, _: usize| Busy;
        let (pressed, end) = drive(escape(1), |_, keys| if keys > 0 { Idle } else { Busy });
        assert_eq!((pressed.len(), end), (1, Some(Stopped::Stopped)));
        let (pressed, end) = drive(escape(2), |_, keys| if keys > 1 { Idle } else { Busy });
        assert_eq!((pressed, end), (vec![(0, 0x1b), (250, 0x1b)], Some(Stopped::Stopped)));
        // It stays busy by its own signs: one Ctrl+C, and then it is given up.
        let (pressed, end) = drive(escape(1), never);
        assert_eq!((pressed, end), (vec![(0, 0x1b), (2_500, 3)], Some(Stopped::StillBusy)));
        let quits = Interrupt { escalates: false, ..escape(2) };
        let (pressed, end) = drive(quits.clone(), never);
        assert_eq!((pressed.len(), end), (2 * usize::from(ROUNDS_MAX), Some(Stopped::StillBusy)));
        assert!(pressed.iter().all(|(_, key)| *key == 0x1b), "Ctrl+C would quit it");
        // The first Escape came before its screen knew of the turn.
        let (pressed, end) = drive(quits, |_, keys| if keys > 2 { Idle } else { Busy });
        assert_eq!(pressed, [(0, 0x1b), (250, 0x1b), (2_750, 0x1b)]);
        assert_eq!(end, Some(Stopped::Stopped));
        let (pressed, end) = drive(Interrupt::default(), never);
        assert_eq!((pressed, end), (vec![(0, 3)], Some(Stopped::StillBusy)));
        // Nothing runs, or a person is asked, or nobody knows.
        assert_eq!(drive(escape(1), |_, _| Idle), (vec![], Some(Stopped::NothingRan)));
        assert_eq!(drive(escape(1), |_, _| Waiting), (vec![], None));
        assert_eq!(drive(escape(1), |_, _| Unknown), (vec![], None));
        // It was busy, then asked: nothing is pressed into the prompt.
        let (pressed, end) = drive(escape(2), |now, _| if now < 100 { Busy } else { Waiting });
        assert_eq!((pressed.len(), end), (1, None));
    }

    #[test]
    fn a_guess_is_no_reason_to_press_anything() {
        let mut interrupting = Interrupting::new(escape(1));
        let assumed = Sight { state_assumed: true, ..sight(0, AgentState::Busy) };
        assert!(matches!(interrupting.next(&assumed), Stop::Wait { .. }));
    }
}
