//! Where the program's own word and the rules for its screen contradict each other.

use super::{Fold, said_at};
use crate::disagreement::Conflict;
use crate::rules::Sees;
use crate::signal::{Rank, Reading};
use synapse_core::agents::AgentState;
use synapse_core::ids::Timestamp;

impl Fold {
    /// What every source but the screen says, if they all say the same and no key was pressed since: since when, too.
    ///
    /// After a key the screen may know more. No hook tells of an Esc that ends a turn, and a menu that a person opened is
    /// in no report.
    pub(crate) fn told(&self, keyed_at: Timestamp) -> Option<(Rank, &Reading)> {
        let is_watched = !self.exited && !self.closed && !self.unread.screen && self.unread.server.is_none();
        // A server answers, and a title is there, before the program takes input.
        let is_starting = self.verdict.state == AgentState::Starting;
        let counts = |rank: Rank| !is_starting || matches!(rank, Rank::Hook | Rank::Status);
        let told: Vec<_> = self.readings().into_iter().filter(|(rank, _)| *rank > Rank::Screen).collect();
        let (rank, first) = *told.first().filter(|(rank, _)| counts(*rank) && is_watched)?;
        let is_one = told.iter().all(|(_, other)| other.sees == first.sees);
        (is_one && said_at(rank, first) >= keyed_at).then_some((rank, first))
    }

    /// The contradiction between that and the screen. `has_rule`: whether a rule for the screen tells this state.
    pub(crate) fn conflict(&self, keyed_at: Timestamp, has_rule: impl Fn(Sees) -> bool) -> Option<Conflict> {
        let (source, told) = self.told(keyed_at)?;
        let screen = self.screen.as_ref().filter(|_| self.is_shown(Rank::Screen));
        let is_conflict = match screen {
            // A dialog that only the screen shows is nothing unusual.
            Some(screen) => screen.sees != told.sees && screen.sees != Sees::Waiting,
            None => has_rule(told.sees),
        };
        is_conflict.then(|| Conflict {
            source,
            says: told.sees,
            why: told.why.clone(),
            screen: screen.map(|screen| (screen.sees, screen.why.clone())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Timing;

    /// Runs `<ms> <source> <state>` and `<ms> key`; gives `<source> <says>/<screen>` if they contradict each other.
    fn conflict(script: &str) -> String {
        let mut fold = Fold::new(Timestamp(0), Timing::default());
        let mut keyed_at = Timestamp(0);
        for step in script.split(',') {
            let words: Vec<&str> = step.split_whitespace().collect();
            let now = Timestamp(words[0].parse().unwrap());
            let sees = words.get(2).and_then(|word| match *word {
                "idle" => Some(Sees::Idle),
                "busy" => Some(Sees::Busy),
                "waiting" => Some(Sees::Waiting),
                _ => None,
            });
            let rank = match words[1] {
                "hook" => Rank::Hook,
                "native" => Rank::Native,
                "status" => Rank::Status,
                "title" => Rank::Title,
                "screen" => Rank::Screen,
                "key" => {
                    keyed_at = now;
                    continue;
                }
                "close" => {
                    fold.closed(now, true);
                    continue;
                }
                _ => Rank::Silence,
            };
            fold.read(now, rank, sees.map(|sees| (sees, words[1].to_owned())));
        }
        let found = fold.conflict(keyed_at, |sees| sees != Sees::Waiting);
        found.map_or_else(String::new, |found| {
            let screen = found.screen.as_ref().map_or("nothing", |(sees, _)| sees.name());
            format!("{} {}/{screen}", found.source.name(), found.says.name())
        })
    }

    #[test]
    fn screen_contradicts_only_what_all_others_say() {
        for (script, expected) in [
            ("1 screen idle", ""),
            ("1 screen busy, 2 hook idle", "hook idle/busy"),
            ("1 screen idle, 2 hook idle", ""),
            ("1 screen idle, 2 status busy", "status busy/idle"),
            ("1 screen idle, 900 screen idle, 901 native busy, 902 hook busy", "hook busy/idle"),
            // The others do not agree: then it is not the screen alone.
            ("1 screen idle, 2 hook busy, 3 status idle", ""),
            ("1 screen busy, 2 hook idle, 3 status idle, 4 title busy", ""),
            // No rule fits; a contradiction only if there is a rule for that state.
            ("1 screen idle, 2 screen none, 3 hook idle", "hook idle/nothing"),
            ("1 screen none, 3 hook busy", "hook busy/nothing"),
            ("1 screen none, 3 hook waiting", ""),
            // A dialog that only the screen shows.
            ("1 screen waiting, 3 hook idle", ""),
            // Esc, or a menu: the screen knows more.
            ("1 screen busy, 2 hook busy, 3 key, 4 screen idle", ""),
            ("1 screen busy, 2 key, 3 hook busy, 4 screen idle", "hook busy/idle"),
            // It is starting: a title is there before it takes input.
            ("1 screen none, 2 title idle", ""),
            ("1 screen none, 2 status idle", "status idle/nothing"),
            ("1 screen busy, 2 hook idle, 3 close", ""),
        ] {
            assert_eq!(conflict(script), expected, "{script}");
        }
    }
}
