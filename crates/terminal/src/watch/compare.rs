//! Comparing what the program tells with what the rules make of its screen (`disagreement`).

use super::Watch;
use crate::composer::Holds;
use crate::disagreement::Disagreement;
use crate::learn::ProposedRule;
use crate::rules::Sees;
use synapse_core::ids::Timestamp;

/// A screen counts for what the program tells only once it has told that for this long: one of them is a frame behind.
const TOLD_MS: u64 = 1_000;

impl Watch {
    /// The rules for the screen have contradicted the program's own word for long.
    pub fn disagreement(&self) -> Option<&Disagreement> {
        self.disagreements.worth_telling(self.profile.timing.disagree_ms)
    }

    /// A rule that would fit what was seen of this state.
    pub fn proposed_rule(&self, state: Sees) -> Option<ProposedRule> {
        self.disagreements.proposed_rule(state)
    }

    pub(super) fn compare(&mut self, now: Timestamp) {
        let has_rule = |sees| self.profile.screen.iter().any(|rule| rule.state == sees);
        let conflict = self.fold.conflict(self.keyed_at, has_rule);
        let long_ms = self.profile.timing.disagree_ms;
        self.disagreements.compare(now, long_ms, conflict, || self.screen.rows());
        self.sample(now);
    }

    /// Keeps what the screen shows in a state that the program tells, as an example for a rule.
    fn sample(&mut self, now: Timestamp) {
        let Some((_, told)) = self.fold.told(self.keyed_at).filter(|_| self.is_settled()) else { return };
        let state = told.sees;
        if now.since_ms(told.since) < TOLD_MS || !self.disagreements.wants_sample(now, state) {
            return;
        }
        let mut rows = self.screen.rows();
        if state == Sees::Idle {
            // A rule for idle is made of whole rows. Those above the composer are the model's words, and those in it the
            // person's.
            let Some(composer) = &self.profile.composer else { return };
            let first =
                composer.first_row(&self.screen).filter(|_| composer.read(&self.screen) == Holds::Empty);
            let Some(first) = first else { return };
            rows.drain(..first);
        }
        self.disagreements.keep_sample(now, state, &rows);
    }
}
