//! Records for `synapse doctor` when the screen rules of the profile contradict what the program
//! reports.
//!
//! This changes neither the state nor the profile.

use super::{Seat, TerminalHand};
use synapse_store::disagreement::{ProposedLines, RuleDisagreement, ScreenRule};
use synapse_terminal::disagreement::Disagreement;
use synapse_terminal::{Sees, Watch};

/// The last disagreement recorded for a terminal.
#[derive(Default)]
pub(super) struct Recorded {
    last: Option<Disagreement>,
    /// The number of profile changes at that time.
    profile_changes: u32,
}

impl Recorded {
    /// Records a new disagreement, and removes a record about an earlier profile.
    pub(super) async fn keep(&mut self, hand: &TerminalHand) {
        let changes = hand.seat.profile_changes();
        let is_other_profile = std::mem::replace(&mut self.profile_changes, changes) != changes;
        if hand.seat.watch().disagreement() == self.last.as_ref() && !is_other_profile {
            return;
        }
        // Read this before the watch is locked: a profile change locks the profile first, then the
        // watch.
        let from = hand.seat.chosen().from;
        let record = {
            let watch = hand.seat.watch();
            self.last = watch.disagreement().cloned();
            self.last.as_ref().map(|found| record(&hand.seat, from, &watch, found))
        };
        let dir = hand.dir.clone();
        let written = tokio::task::spawn_blocking(move || match record {
            Some(record) => record.save(&dir),
            None if is_other_profile => {
                RuleDisagreement::forget(&dir);
                Ok(())
            }
            None => Ok(()),
        });
        if let Ok(Err(e)) = written.await {
            tracing::warn!(error = %e, "what its profile and its program disagree about could not be written down");
        }
    }
}

fn record(seat: &Seat, profile_from: String, watch: &Watch, found: &Disagreement) -> RuleDisagreement {
    let rule = found.screen.as_ref().map(|(sees, why)| ScreenRule {
        name: why.strip_prefix("screen, ").unwrap_or(why).to_owned(),
        state: sees.name().to_owned(),
    });
    let place = place(found.says, rule.as_ref().map(|rule| rule.name.as_str()));
    let proposal = watch.proposed_rule(found.says).map(|proposed| ProposedLines {
        place,
        lines: proposed.to_yaml().lines().map(str::to_owned).collect(),
    });
    RuleDisagreement {
        since_ms: found.since.0,
        last_ms: found.last.0,
        times: found.times,
        longest_ms: found.longest_ms,
        source: found.source.name().to_owned(),
        says: found.says.name().to_owned(),
        why: found.why.clone(),
        rule,
        profile: watch.profile().name.clone(),
        profile_from,
        program: seat.typing.program.clone(),
        cli_version: seat.cli.borrow().version.clone(),
        rows: found.rows.clone(),
        proposal,
    }
}

/// Returns where to add a rule. The first rule that matches decides, and a rule for `waiting` must
/// not be hidden by another.
fn place(says: Sees, rule: Option<&str>) -> String {
    match (says, rule) {
        (Sees::Waiting, _) => "as the first rule of `screen:`".to_owned(),
        (_, Some(rule)) => format!("in `screen:`, right above the rule '{rule}'"),
        (Sees::Busy, None) => "in `screen:`, below the rules for `waiting`".to_owned(),
        (Sees::Idle, None) => "as the last rule of `screen:`".to_owned(),
    }
}
