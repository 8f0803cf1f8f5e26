//! Receipts: how far a message has come, each step only with proof.
//!
//! Invariant: the steps of a trail only climb; the last mark of a closed trail says how it ended.
//! Not here: who proves a step (the hands in `synapse-node`).

use crate::ids::Timestamp;
use serde::{Deserialize, Serialize};

/// The steps of a receipt, lowest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    Accepted,
    Stored,
    Leased,
    Written,
    Submitted,
    Seen,
    Answered,
}

impl Step {
    pub const ALL: [Self; 7] = [
        Self::Accepted,
        Self::Stored,
        Self::Leased,
        Self::Written,
        Self::Submitted,
        Self::Seen,
        Self::Answered,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Stored => "stored",
            Self::Leased => "leased",
            Self::Written => "written",
            Self::Submitted => "submitted",
            Self::Seen => "seen",
            Self::Answered => "answered",
        }
    }

    pub fn parse(raw: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| step.name() == raw)
    }
}

/// One line of a trail.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Mark {
    pub at: Timestamp,
    #[serde(flatten)]
    pub what: Happened,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Happened {
    Step(Step),
    /// It waits, for this reason.
    Held(String),
    /// It returned to the mailbox, for this reason.
    Returned(String),
    /// It ended without an answer, for this reason.
    Failed(String),
    /// Its fate is unknown, for this reason.
    Unknown(String),
}

/// All marks of one message, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Trail(Vec<Mark>);

impl Trail {
    /// Enough for three tries, each with lease, steps and return.
    const MARKS_MAX: usize = 64;

    pub fn accepted(at: Timestamp) -> Self {
        let mark = |step| Mark { at, what: Happened::Step(step) };
        Self(vec![mark(Step::Accepted), mark(Step::Stored)])
    }

    /// Adds a mark, unless it repeats the last one or a step already reached since the last return.
    pub fn add(&mut self, at: Timestamp, what: Happened) {
        let told = matches!(what, Happened::Step(step) if self.reached().is_some_and(|r| r >= step));
        let repeated = self.0.last().is_some_and(|last| last.what == what);
        if told || repeated {
            return;
        }
        if self.0.len() == Self::MARKS_MAX {
            self.0.remove(2);
        }
        self.0.push(Mark { at, what });
    }

    pub fn marks(&self) -> &[Mark] {
        &self.0
    }

    /// Returns the highest step since the message was last returned. A stored message
    /// never falls below stored.
    pub fn reached(&self) -> Option<Step> {
        let returned = self.0.iter().rposition(|m| matches!(m.what, Happened::Returned(_)));
        let fresh = returned.map_or(0, |at| at + 1);
        let steps = |marks: &[Mark]| {
            marks.iter().filter_map(|m| if let Happened::Step(s) = m.what { Some(s) } else { None }).max()
        };
        steps(&self.0[fresh..]).or_else(|| steps(&self.0).map(|s| s.min(Step::Stored)))
    }

    pub fn has(&self, step: Step) -> bool {
        self.reached().is_some_and(|reached| reached >= step)
    }

    /// Returns what holds the message back, if anything does.
    pub fn hold(&self) -> Option<&str> {
        match self.0.last().map(|m| &m.what) {
            Some(
                Happened::Held(why)
                | Happened::Returned(why)
                | Happened::Failed(why)
                | Happened::Unknown(why),
            ) => Some(why),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trail_climbs_and_falls_back_to_stored_when_the_message_returns() {
        let mut trail = Trail::accepted(Timestamp(1));
        assert_eq!(trail.reached(), Some(Step::Stored));
        trail.add(Timestamp(2), Happened::Step(Step::Leased));
        trail.add(Timestamp(3), Happened::Step(Step::Written));
        trail.add(Timestamp(3), Happened::Step(Step::Leased));
        assert_eq!(trail.reached(), Some(Step::Written));
        assert_eq!(trail.marks().len(), 4, "a lower step adds nothing");
        trail.add(Timestamp(4), Happened::Returned("lease ran out".into()));
        assert_eq!(trail.reached(), Some(Step::Stored));
        assert_eq!(trail.hold(), Some("lease ran out"));
        trail.add(Timestamp(5), Happened::Step(Step::Leased));
        assert_eq!(trail.hold(), None);
        assert!(!trail.has(Step::Seen));
    }

    #[test]
    fn a_trail_has_an_end() {
        let mut trail = Trail::accepted(Timestamp(0));
        for n in 0..1000 {
            trail.add(Timestamp(n), Happened::Held(format!("reason {n}")));
        }
        assert_eq!(trail.marks().len(), Trail::MARKS_MAX);
        assert!(trail.has(Step::Stored));
    }

    #[test]
    fn step_names_come_back() {
        for step in Step::ALL {
            assert_eq!(Step::parse(step.name()), Some(step));
            assert_eq!(serde_json::to_value(step).unwrap(), step.name());
        }
    }
}
