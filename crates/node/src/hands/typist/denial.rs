//! A denied prompt: whether the turn continued after it, which decides how its task ends.
//!
//! Most CLIs end the turn when a prompt is denied; then the task was not done and is rejected.
//! Others tell the model "no" and let it continue; then its answer counts like any other. Only the
//! program's later behaviour shows which.
//! Not here: pressing the key (`keys`), ending the task (`follow`).

use synapse_core::agents::AgentState;
use synapse_core::ids::Timestamp;
use synapse_terminal::turn::Sight;

/// A turn that continues works for at least this long. Some programs look busy for another frame or
/// two while they end it.
const WORKED_MS_MIN: u64 = 1_000;

/// A denied prompt, and what the program did afterwards.
#[derive(Debug)]
pub(super) struct Denial {
    pub(super) at: Timestamp,
    /// What was denied, in one line.
    asks: String,
    worked_ms: u64,
    busy_since: Option<Timestamp>,
}

impl Denial {
    pub(super) fn new(at: Timestamp, asks: String) -> Self {
        Self { at, asks, worked_ms: 0, busy_since: None }
    }

    /// Records the current state. A busy state that is only assumed, because something was typed,
    /// proves nothing.
    pub(super) fn see(&mut self, sight: &Sight) {
        let is_busy = sight.state == AgentState::Busy && !sight.state_assumed;
        if let Some(since) = self.busy_since.take() {
            self.worked_ms += sight.now.since_ms(since);
        }
        self.busy_since = is_busy.then_some(sight.now);
    }

    /// Whether the turn continued after the denial.
    pub(super) fn has_gone_on(&self) -> bool {
        self.worked_ms >= WORKED_MS_MIN
    }

    /// Returns why the task was not done.
    pub(super) fn why(&self) -> String {
        format!("the user denied what it asked for, and its turn ended: {}", self.asks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synapse_terminal::{Size, Watch, profile};

    /// Plays states, each for a number of milliseconds. Returns whether the turn continued.
    fn went_on(states: &[(AgentState, bool, u64)]) -> bool {
        let watch = Watch::new(Timestamp(0), profile::shipped("generic").unwrap(), Size::new(80, 24), 0);
        let mut denial = Denial::new(Timestamp(0), "asks to run: ls".into());
        let mut now = 0;
        for (state, is_assumed, ms) in states {
            for at in [now, now + ms] {
                let mut sight = watch.sight(Timestamp(at), None);
                (sight.state, sight.state_assumed) = (*state, *is_assumed);
                denial.see(&sight);
            }
            now += ms;
        }
        denial.has_gone_on()
    }

    #[test]
    fn turn_goes_on_only_if_the_program_works_for_a_while() {
        use AgentState::{Busy, Idle};
        assert!(!went_on(&[(Idle, false, 5_000)]));
        assert!(!went_on(&[(Busy, true, 3_000), (Idle, false, 5_000)]), "only assumed");
        assert!(!went_on(&[(Busy, false, 300), (Idle, false, 5_000)]), "the last frames of the turn");
        assert!(went_on(&[(Busy, true, 300), (Busy, false, 1_500), (Idle, false, 5_000)]));
        assert!(went_on(&[(Busy, false, 600), (Idle, false, 50), (Busy, false, 600), (Idle, false, 5_000)]));
    }
}
