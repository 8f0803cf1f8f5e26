//! What is seen of a program whose profile has no composer, and to which lines are typed at its cursor (`quiet`).

use super::Watch;
use crate::composer::Holds;
use crate::held::Held;
use crate::quiet::{self, Echo};
use crate::text::{Typed, bones};
use crate::turn::Sight;
use synapse_core::agents::AgentState;

impl Watch {
    /// Whether messages are typed at its cursor, since its profile has no composer and its user asked for that.
    pub fn types_lines(&self) -> bool {
        self.profile.composer.is_none() && self.profile.type_when.is_some()
    }

    /// Whether messages are typed as one line: there, or into a composer whose program knows no pastes.
    pub fn types_one_line(&self) -> bool {
        self.types_lines() || self.profile.submit.keys
    }

    /// What there is to see for one who types at the cursor. A program of which nobody can tell what it does is idle
    /// while its screen is quiet.
    pub(super) fn by_line(&self, sight: Sight, typed: Option<&Typed>) -> Sight {
        let bar = self.line.bar(sight.now, self.printed_at, &self.screen);
        let state = match sight.state {
            AgentState::Unknown | AgentState::Starting if !self.profile.can_tell_idle() => {
                let is_quiet = !matches!(bar, Some((Held::NotQuiet, _)));
                if is_quiet { AgentState::Idle } else { AgentState::Busy }
            }
            state => state,
        };
        let echo = self.line.echo(&self.screen);
        let composer = match (&echo, typed) {
            (Echo::Gone, _) => Holds::Unknown,
            (Echo::Shown { text, .. }, Some(typed)) if quiet::is_whole(text, typed) => {
                Holds::Text(bones(typed.as_str()))
            }
            (Echo::Shown { text, is_entered: false }, _) if !text.is_empty() => Holds::Text(text.clone()),
            (Echo::Nothing | Echo::Shown { .. }, _) => Holds::Empty,
        };
        let is_there = matches!(composer, Holds::Text(_));
        let on_screen: String = self.screen.rows().iter().map(|row| bones(row)).collect();
        let shown = typed.is_some_and(|typed| !is_there && on_screen.contains(&bones(typed.header())));
        Sight { bar, state, composer, shown, by_line: true, ..sight }
    }

    /// A text of ours is about to be written.
    pub fn begin_line(&mut self) {
        self.line.begin(&self.screen);
    }

    /// Nobody follows it any more.
    pub fn end_line(&mut self) {
        self.line.end();
    }

    /// It is not known what was typed before.
    pub fn forget_keys(&mut self) {
        self.line.forget();
    }
}
