//! Looking at the screen with the rules of the profile.

use super::Watch;
use crate::fold::Rank;
use crate::rules::{self, Sees};
use synapse_core::ids::Timestamp;

impl Watch {
    pub(super) fn look(&mut self, now: Timestamp) {
        self.changed_at = None;
        let rows = self.screen.rows();
        let found = self.profile.rule_on_screen(&rows);
        let sees = match found {
            Some(rule) if rule.state == Sees::Waiting => Some((rule.state, format!("screen, {}", rule.name))),
            _ if rules::looks_like_a_choice(&rules::lowest(&rows, rules::ROWS)) => {
                Some((Sees::Waiting, "screen, a choice is shown".to_owned()))
            }
            Some(rule) => Some((rule.state, format!("screen, {}", rule.name))),
            None => None,
        };
        self.fold.read(now, Rank::Screen, sees);
        self.look_for_limits(now, rows);
    }

    fn look_for_limits(&mut self, now: Timestamp, rows: Vec<String>) {
        let rows = match &self.profile.composer {
            Some(composer) if !self.profile.limits.is_empty() => composer.last_turn(&self.screen),
            _ => rows,
        };
        self.pauses.look(now, &self.profile.limits, &rows, &self.zone);
    }
}
