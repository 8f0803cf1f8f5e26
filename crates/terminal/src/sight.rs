//! What there is to see of a terminal at one moment, for whoever may type to it.

use crate::composer::Holds;
use crate::held::Held;
use synapse_core::agents::AgentState;
use synapse_core::ids::Timestamp;

/// What there is to see at one moment.
#[derive(Debug, Clone)]
pub struct Sight {
    pub now: Timestamp,
    pub state: AgentState,
    pub state_since: Timestamp,
    /// The state is only concluded from what was typed.
    pub state_assumed: bool,
    /// The state is of what is on the screen now: nothing was printed since it was looked at.
    pub settled: bool,
    pub composer: Holds,
    pub pastes_bracketed: bool,
    /// When a person last pressed a key.
    pub person_at: Option<Timestamp>,
    /// Nobody else's keys reach the program.
    pub keyboard: bool,
    /// Our header stands on the screen outside the composer.
    pub shown: bool,
    /// The program is made to say what it is given.
    pub tells: bool,
    /// The program said itself that it was given this text.
    pub told: bool,
    /// Its usage limit is reached.
    pub paused: bool,
    /// Why nothing may be typed, whatever its state is, and when to look again at the latest.
    pub bar: Option<(Held, Option<Timestamp>)>,
    /// Its profile has no composer. Lines are typed at its cursor (`quiet`).
    pub by_line: bool,
}

#[cfg(test)]
impl Sight {
    /// Somebody may type: what tests change from.
    pub(crate) fn at(now: u64, state: AgentState) -> Self {
        Self {
            now: Timestamp(now),
            state,
            state_since: Timestamp(0),
            state_assumed: false,
            settled: true,
            composer: Holds::Empty,
            pastes_bracketed: true,
            person_at: None,
            keyboard: true,
            shown: false,
            tells: false,
            told: false,
            paused: false,
            bar: None,
            by_line: false,
        }
    }
}
