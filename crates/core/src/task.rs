//! Tasks: what an agent was asked to do, and the legal moves between their states.
//!
//! Every message opens a task or continues one. A task is in memory while it is open; the record
//! that ends it carries all of it to the archive.
//!
//! Invariant: a terminal state never changes again; every move is in the history with who and why.
//! Not here: deciding when a task ends (`hub::tasks`), keeping ended ones (`synapse-store`).

use crate::ids::{AgentId, ContextId, MessageId, TaskId, Tenant, Timestamp};
use crate::message::{Body, Expects, Sender};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskState {
    Submitted,
    Working,
    InputRequired,
    AuthRequired,
    Completed,
    Failed,
    Canceled,
    Rejected,
}

use TaskState::{AuthRequired, Canceled, Completed, Failed, InputRequired, Rejected, Submitted, Working};

/// The table of legal moves. `Working → Submitted` is a requeue: the link that had
/// it died before it began.
// tidy: table
const MOVES: [(TaskState, &[TaskState]); 8] = [
    (Submitted, &[Working, InputRequired, AuthRequired, Completed, Failed, Canceled, Rejected]),
    (Working, &[Submitted, InputRequired, AuthRequired, Completed, Failed, Canceled, Rejected]),
    (InputRequired, &[Working, AuthRequired, Completed, Failed, Canceled, Rejected]),
    (AuthRequired, &[Working, InputRequired, Completed, Failed, Canceled, Rejected]),
    (Completed, &[]),
    (Failed, &[]),
    (Canceled, &[]),
    (Rejected, &[]),
];

impl TaskState {
    pub const ALL: [Self; 8] =
        [Submitted, Working, InputRequired, AuthRequired, Completed, Failed, Canceled, Rejected];

    pub fn may_become(self, next: Self) -> bool {
        MOVES.iter().any(|(from, to)| *from == self && to.contains(&next))
    }

    pub fn is_terminal(self) -> bool {
        MOVES.iter().any(|(from, to)| *from == self && to.is_empty())
    }

    /// Whether the task waits for an answer from its requester.
    pub fn asks(self) -> bool {
        matches!(self, InputRequired | AuthRequired)
    }

    pub fn name(self) -> &'static str {
        match self {
            Submitted => "submitted",
            Working => "working",
            InputRequired => "input-required",
            AuthRequired => "auth-required",
            Completed => "completed",
            Failed => "failed",
            Canceled => "canceled",
            Rejected => "rejected",
        }
    }

    pub fn parse(raw: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == raw)
    }
}

/// One line of a task's history.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Move {
    pub at: Timestamp,
    pub to: TaskState,
    /// Who caused it: `user`, an agent's label, `node`.
    pub by: String,
    pub why: String,
}

/// An open task.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Task {
    pub id: TaskId,
    /// The caller's own id for it, scoped to that caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller_id: Option<String>,
    /// The conversation it belongs to, if one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextId>,
    /// The tenant under which it was requested over A2A; other tenants do not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Tenant>,
    pub agent: AgentId,
    pub requester: Sender,
    pub expects: Expects,
    pub state: TaskState,
    /// The message that opened it, and those that continued it.
    pub messages: Vec<MessageId>,
    pub history: Vec<Move>,
    /// Its current question, while it waits for the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<Body>,
    /// Its questions so far, oldest first, up to a size limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<Question>,
    /// How long it may work, counted from when it starts working.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// The requested cancel that the hand has not confirmed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<CancelAsked>,
    pub said_bytes: u64,
    /// How many artifacts it began, and the id of the last one; used for artifacts without an id.
    #[serde(default, skip_serializing_if = "ArtifactCount::is_empty")]
    pub artifacts: ArtifactCount,
}

/// One question that a task asked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Question {
    pub at: Timestamp,
    pub state: TaskState,
    pub body: Body,
}

/// Most bytes of questions that are kept with a task.
pub(crate) const QUESTIONS_BYTES_MAX: usize = 64 << 10;

/// Counts a task's artifacts, to name those without an id.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ArtifactCount {
    begun: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<String>,
}

impl ArtifactCount {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the id of the next artifact: its name, or else its number. A chunk without a name
    /// continues the last artifact.
    pub fn next_id(&self, name: Option<&str>, append: bool) -> String {
        let name = name.filter(|name| !name.is_empty());
        let last = self.last.as_deref().filter(|_| append);
        match name.or(last) {
            Some(id) => id.to_owned(),
            None => format!("artifact-{}", self.begun.saturating_add(1)),
        }
    }

    pub(crate) fn add(&mut self, id: &str, append: bool) {
        if !append || self.last.is_none() {
            self.begun = self.begun.saturating_add(1);
        }
        self.last = Some(id.to_owned());
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CancelAsked {
    pub by: String,
    pub why: String,
}

/// How a task ended, with the answer if there is one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ending {
    pub state: TaskState,
    pub by: String,
    pub why: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Body>,
    /// The answer is a plain message: the requester never needs to know about the task.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub direct: bool,
}

impl Task {
    pub fn label(&self) -> String {
        self.id.short()
    }

    /// Returns the conversation it belongs to; its own id if none was named.
    pub fn conversation(&self) -> String {
        self.context.as_ref().map_or_else(|| self.id.to_string(), ToString::to_string)
    }

    /// Returns since when it waits for an answer, or `None` if it does not wait.
    /// Interruptions do not reset this.
    pub fn asks_since(&self) -> Option<Timestamp> {
        let moves = self.history.iter().rev().take_while(|step| step.to == self.state);
        moves.last().filter(|_| self.state.asks()).map(|step| step.at)
    }

    /// Whether its agent has begun, so that running it again could do the work twice.
    pub fn has_begun(&self) -> bool {
        self.state != Submitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finding A2: artifacts without an id do not overwrite each other, and a chunk
    /// goes to the one before it.
    #[test]
    fn artifacts_without_an_id_get_one_each() {
        let ids = |lines: &[(Option<&str>, bool)]| {
            let mut count = ArtifactCount::default();
            let next = |(name, append): &(Option<&str>, bool)| {
                let id = count.next_id(*name, *append);
                count.add(&id, *append);
                id
            };
            lines.iter().map(next).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(ids(&[(Some("a.txt"), false), (Some("b.txt"), false)]), "a.txt b.txt");
        assert_eq!(
            ids(&[(None, false), (None, false), (Some(""), false)]),
            "artifact-1 artifact-2 artifact-3"
        );
        assert_eq!(
            ids(&[(None, false), (None, true), (None, false), (None, true)]),
            "artifact-1 artifact-1 artifact-2 artifact-2"
        );
        assert_eq!(ids(&[(None, true), (None, true), (None, false)]), "artifact-1 artifact-1 artifact-2");
        assert_eq!(ids(&[(Some("a"), false), (None, true), (Some("b"), true), (None, true)]), "a a b b");
        assert_eq!(ids(&[(Some("a"), false), (None, false)]), "a artifact-2");
    }

    #[test]
    fn the_table_of_moves_covers_every_state_once() {
        for state in TaskState::ALL {
            assert_eq!(MOVES.iter().filter(|(from, _)| *from == state).count(), 1, "{state:?}");
            assert!(!state.may_become(state), "{state:?} to itself is no move");
            assert_eq!(TaskState::parse(state.name()), Some(state));
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
    }

    #[test]
    fn nothing_leaves_a_terminal_state_and_every_open_one_can_end() {
        for from in TaskState::ALL {
            let goes = TaskState::ALL.into_iter().any(|to| from.may_become(to));
            assert_eq!(goes, !from.is_terminal());
            if !from.is_terminal() {
                for end in [Completed, Failed, Canceled, Rejected] {
                    assert!(from.may_become(end), "{from:?} to {end:?}");
                }
            }
        }
    }
}
