//! Notices when a profile's rules for the screen contradict what the program itself tells, for long.
//!
//! A CLI that was updated may look different, and then the rules are wrong while its hooks, its server, its status
//! reports or its title are still right. Each stretch of time in which both say something else counts once it is long;
//! several long ones, or one that lasts, are worth a person's attention. Screens are kept beside them, so that a rule can
//! be proposed.
//!
//! Invariant: nothing here changes a state or a rule. What is kept is bounded, whatever the program does.
//! Not here: what counts as a contradiction (`fold::conflict`), who is told (the node, `synapse doctor`).

use crate::learn::{self, ProposedRule, Shot};
use crate::rules::{ROWS, Sees};
use crate::signal::Rank;
use std::collections::VecDeque;
use synapse_core::ids::Timestamp;

/// So many long stretches of one kind are worth telling.
const TIMES_MIN: u32 = 3;
/// One stretch that is so many times as long as a long one is, too.
const LASTING: u64 = 6;
/// Different contradictions that are kept: the latest.
const KINDS_MAX: usize = 8;
/// Screens that are kept of each state, at least so far apart.
const SAMPLES_MAX: usize = 4;
const SAMPLE_MS: u64 = 1_000;
/// Longest row that is kept.
const ROW_CHARS_MAX: usize = 200;

/// Two sources that contradict each other at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub source: Rank,
    pub says: Sees,
    pub why: String,
    /// What the rules make of the screen, and which of them fits; none if none does.
    pub screen: Option<(Sees, String)>,
}

impl Conflict {
    fn is_like(&self, other: &Self) -> bool {
        let kind = |conflict: &Self| {
            (conflict.source, conflict.says, conflict.screen.as_ref().map(|(sees, _)| *sees))
        };
        kind(self) == kind(other)
    }
}

/// A contradiction between the program's own word and the rules for its screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disagreement {
    /// Who tells what the program does.
    pub source: Rank,
    pub says: Sees,
    pub why: String,
    /// What the rules make of the screen, and which of them fits; none if none does.
    pub screen: Option<(Sees, String)>,
    /// When it began for the first time, and when it was last seen.
    pub since: Timestamp,
    pub last: Timestamp,
    /// How many long stretches there were.
    pub times: u32,
    pub longest_ms: u64,
    /// The lowest rows of the screen at that time.
    pub rows: Vec<String>,
}

#[derive(Debug, Clone)]
struct Stretch {
    conflict: Conflict,
    since: Timestamp,
    /// For how long it must have lasted to be noted the next time.
    note_ms: u64,
}

/// All contradictions of one program, and what its screen showed in which state.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disagreements {
    open: Option<Stretch>,
    kinds: VecDeque<Disagreement>,
    samples: Samples,
}

impl Disagreements {
    /// What is said now; `rows` is asked for the screen if that is to be kept. `long_ms`: what counts as long.
    pub fn compare(
        &mut self,
        now: Timestamp,
        long_ms: u64,
        conflict: Option<Conflict>,
        rows: impl FnOnce() -> Vec<String>,
    ) {
        let is_same = |stretch: &Stretch| conflict.as_ref().is_some_and(|new| new.is_like(&stretch.conflict));
        if let Some(ended) = self.open.take_if(|stretch| !is_same(stretch)) {
            self.note_end(now, &ended, long_ms);
        }
        let Some(conflict) = conflict else { return };
        let open = self.open.get_or_insert_with(|| Stretch {
            conflict: conflict.clone(),
            since: now,
            note_ms: long_ms,
        });
        let lasted = now.since_ms(open.since);
        if lasted < open.note_ms {
            return;
        }
        let is_first = open.note_ms == long_ms;
        // Noted again when it has lasted, and then each time it is twice as long: rarely, however long it takes.
        while open.note_ms <= lasted {
            let lasting = long_ms.saturating_mul(LASTING);
            open.note_ms = lasting.max(open.note_ms.saturating_mul(2)).max(open.note_ms.saturating_add(1));
        }
        let stretch = open.clone();
        let kind = self.kind_of(&stretch);
        (kind.last, kind.longest_ms) = (now, kind.longest_ms.max(lasted));
        kind.times = kind.times.saturating_add(u32::from(is_first));
        (kind.why, kind.screen, kind.rows) = (conflict.why, conflict.screen, kept_rows(&rows()));
    }

    fn note_end(&mut self, now: Timestamp, stretch: &Stretch, long_ms: u64) {
        let lasted = now.since_ms(stretch.since);
        if stretch.note_ms > long_ms {
            let kind = self.kind_of(stretch);
            (kind.last, kind.longest_ms) = (now, kind.longest_ms.max(lasted));
        }
    }

    fn kind_of(&mut self, stretch: &Stretch) -> &mut Disagreement {
        let Conflict { source, says, why, screen } = stretch.conflict.clone();
        let is_like = |kind: &Disagreement| {
            let screens =
                (kind.screen.as_ref().map(|(sees, _)| *sees), screen.as_ref().map(|(sees, _)| *sees));
            (kind.source, kind.says) == (source, says) && screens.0 == screens.1
        };
        match self.kinds.iter().position(is_like) {
            Some(at) => &mut self.kinds[at],
            None => {
                self.kinds.truncate(KINDS_MAX - 1);
                let (since, rows) = (stretch.since, Vec::new());
                self.kinds.push_front(Disagreement {
                    source,
                    says,
                    why,
                    screen,
                    since,
                    last: since,
                    times: 0,
                    longest_ms: 0,
                    rows,
                });
                &mut self.kinds[0]
            }
        }
    }

    /// When `compare` may note something though nothing changes.
    pub fn due(&self) -> Option<Timestamp> {
        self.open.as_ref().map(|open| open.since.plus_ms(open.note_ms))
    }

    /// The contradiction that is worth telling, if there is one: the one that was seen last.
    pub fn worth_telling(&self, long_ms: u64) -> Option<&Disagreement> {
        let lasting = long_ms.saturating_mul(LASTING);
        let told = self.kinds.iter().filter(|kind| kind.times >= TIMES_MIN || kind.longest_ms >= lasting);
        told.max_by_key(|kind| kind.last)
    }

    /// A rule that would fit the screens of this state and none of the others that were seen.
    pub fn proposed_rule(&self, state: Sees) -> Option<ProposedRule> {
        let others: Vec<Shot> =
            self.samples.0.iter().filter(|(sees, _)| *sees != state).map(|(_, shot)| shot.clone()).collect();
        let shown: Vec<Shot> =
            self.samples.0.iter().filter(|(sees, _)| *sees == state).map(|(_, shot)| shot.clone()).collect();
        learn::rule_for(state, &shown, &others)
    }

    /// Whether a screen of this state is due to be kept.
    pub fn wants_sample(&self, now: Timestamp, state: Sees) -> bool {
        let last = self.samples.0.iter().rev().find(|(sees, _)| *sees == state);
        last.is_none_or(|(_, shot)| now.0 >= shot.at_ms.saturating_add(SAMPLE_MS))
    }

    /// The program told this state for a while, and shows these rows.
    pub fn keep_sample(&mut self, now: Timestamp, state: Sees, rows: &[String]) {
        let shot = Shot {
            at_ms: now.0,
            ms: 1,
            rows: kept_rows(rows),
            cursor: (0, 0),
            drawn: Vec::new(),
            faint: Vec::new(),
            title: String::new(),
        };
        self.samples.keep(state, shot);
    }
}

/// Screens, and what the program told meanwhile; the latest of each state.
#[derive(Debug, Clone, Default)]
struct Samples(Vec<(Sees, Shot)>);

impl Samples {
    fn keep(&mut self, state: Sees, shot: Shot) {
        let all = &mut self.0;
        // The same screen again teaches nothing.
        all.retain(|(sees, kept)| *sees != state || !kept.is_like(&shot));
        if all.iter().filter(|(sees, _)| *sees == state).count() >= SAMPLES_MAX
            && let Some(oldest) = all.iter().position(|(sees, _)| *sees == state)
        {
            all.remove(oldest);
        }
        all.push((state, shot));
    }
}

/// The lowest rows that are not empty, as many as rules look at.
fn kept_rows(rows: &[String]) -> Vec<String> {
    let kept = rows.iter().rev().filter(|row| !row.is_empty()).take(ROWS);
    let mut kept: Vec<String> = kept.map(|row| row.chars().take(ROW_CHARS_MAX).collect()).collect();
    kept.reverse();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG_MS: u64 = 30_000;

    fn conflict(words: &str) -> Option<Conflict> {
        let sees = |word: &str| match word {
            "idle" => Some(Sees::Idle),
            "busy" => Some(Sees::Busy),
            "waiting" => Some(Sees::Waiting),
            _ => None,
        };
        let (says, screen) = words.split_once('/')?;
        Some(Conflict {
            source: Rank::Hook,
            says: sees(says)?,
            why: "hook, x".into(),
            screen: sees(screen).map(|sees| (sees, "a rule".into())),
        })
    }

    /// Runs a script of `<second> <says>/<screen>`, or `<second> same`; gives what is worth telling at its end: the kind,
    /// how often, and the seconds of the longest.
    fn told(script: &str) -> String {
        let mut all = Disagreements::default();
        for step in script.split(',') {
            let (second, words) = step.trim().split_once(' ').unwrap();
            let now = Timestamp(second.parse::<u64>().unwrap() * 1_000);
            // As the watch does: what is due in between happens at its own time.
            while let Some(due) = all.due().filter(|due| *due < now) {
                let open = all.open.as_ref().map(|stretch| stretch.conflict.clone());
                all.compare(due, LONG_MS, open, || vec![format!("at {}", due.0)]);
            }
            all.compare(now, LONG_MS, conflict(words), || vec![format!("at {}", now.0)]);
        }
        all.worth_telling(LONG_MS).map_or_else(String::new, |found| {
            let screen = found.screen.as_ref().map_or("nothing", |(sees, _)| sees.name());
            assert_eq!(found.rows.len(), 1, "the screen of that moment is kept");
            format!("{}/{screen} {}x {}s", found.says.name(), found.times, found.longest_ms / 1_000)
        })
    }

    #[test]
    fn only_long_disagreement_is_worth_telling() {
        for (script, expected) in [
            ("0 same", ""),
            ("0 idle/busy, 29 idle/busy, 30 same, 99 same", ""),
            ("0 idle/busy, 179 idle/busy", ""),
            ("0 idle/busy, 180 idle/busy", "idle/busy 1x 180s"),
            ("0 idle/busy, 200 same", "idle/busy 1x 200s"),
            ("0 idle/busy, 9999 idle/busy", "idle/busy 1x 5760s"),
            // Three long stretches; short ones do not count.
            ("0 busy/idle, 31 same, 40 busy/idle, 75 same, 80 busy/idle, 109 same", ""),
            ("0 busy/idle, 31 same, 40 busy/idle, 75 same, 80 busy/idle, 111 same", "busy/idle 3x 35s"),
            // Another kind begins anew, and so does agreement for a moment.
            ("0 busy/idle, 90 busy/nothing, 180 busy/idle, 200 same", ""),
            ("0 idle/nothing, 100 same, 101 idle/nothing, 200 same", ""),
            ("0 idle/nothing, 100 busy/nothing, 290 same", "busy/nothing 1x 190s"),
            ("0 waiting/busy, 181 same", "waiting/busy 1x 181s"),
        ] {
            assert_eq!(told(script), expected, "{script}");
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut all = Disagreements::default();
        let long = vec!["x".repeat(10 * ROW_CHARS_MAX); 10 * ROWS];
        for n in 0..1_000_u64 {
            let source = [Rank::Hook, Rank::Native, Rank::Status, Rank::Title][(n % 4) as usize];
            let says = [Sees::Idle, Sees::Busy, Sees::Waiting][(n % 3) as usize];
            let conflict = Conflict { source, says, why: "x".into(), screen: None };
            let now = Timestamp(n * 2 * LONG_MS);
            all.compare(now, LONG_MS, Some(conflict.clone()), || long.clone());
            all.compare(now.plus_ms(LONG_MS), LONG_MS, Some(conflict), || long.clone());
            if all.wants_sample(now, says) {
                all.keep_sample(now, says, &[format!("{n}"), long[0].clone()]);
            }
        }
        assert!(all.kinds.len() <= KINDS_MAX && all.samples.0.len() <= 3 * SAMPLES_MAX);
        let rows = &all.kinds[0].rows;
        assert!(rows.len() == ROWS && rows.iter().all(|row| row.len() == ROW_CHARS_MAX));
    }

    #[test]
    fn rule_is_proposed_from_the_screens_that_were_seen() {
        let mut all = Disagreements::default();
        let frames = ["⠋ Crunching (esc to stop)", "⠙ Crunching (esc to stop)"];
        for (n, row) in frames.iter().enumerate() {
            all.keep_sample(
                Timestamp(n as u64),
                Sees::Busy,
                &[(*row).into(), "> ".into(), " ? for help".into()],
            );
        }
        all.keep_sample(Timestamp(9), Sees::Idle, &["> ".into(), " ? for help".into()]);
        let rule = all.proposed_rule(Sees::Busy).unwrap();
        assert_eq!((rule.state, rule.fits_percent), ("busy", 100));
        assert!(rule.patterns.iter().any(|one| one.pattern.contains("[⠀-⣿]")), "{rule:?}");
        assert!(all.proposed_rule(Sees::Idle).is_none(), "the composer looks the same while it works");
        assert!(all.proposed_rule(Sees::Waiting).is_none(), "none was seen");
    }
}
