//! What there is to see of a terminal at one moment, for whoever may type to it.

use crate::composer::Holds;
use crate::held::Held;
use crate::screen::Screen;
use crate::text::bones;
use crate::turn::TYPING_MS;
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
    /// Our header is among the rows that have left the screen at its top.
    pub shown_above: bool,
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
    /// Its profile says that text is typed as keys, because it knows no bracketed pastes.
    pub takes_keys: bool,
}

impl Sight {
    /// A person is typing, as far as we know, until then.
    pub(crate) fn typing_until(&self) -> Option<Timestamp> {
        self.person_at.map(|at| at.plus_ms(TYPING_MS)).filter(|at| *at > self.now)
    }
}

/// A long text that was submitted takes at most so many rows above the screen.
const ROWS_ABOVE_MAX: usize = 400;

/// Whether a text without blanks is among the rows that have left the screen at its top.
pub(crate) fn is_above(screen: &Screen, text: &str) -> bool {
    let above: String = screen.rows_above(ROWS_ABOVE_MAX).iter().map(|row| bones(row)).collect();
    above.contains(text)
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
            shown_above: false,
            tells: false,
            told: false,
            paused: false,
            bar: None,
            by_line: false,
            takes_keys: false,
        }
    }
}
