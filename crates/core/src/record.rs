//! Records: everything that is written to a journal. State changes only by applying one.
//!
//! Live operation and replay run the same `State::apply`, so a restart rebuilds the same state.
//! Invariant: a record carries everything needed to apply it.
//! Not here: the format on disk beyond serde's (`synapse-store` adds version, checksum and rows).

use crate::agents::{Agent, Context};
use crate::ids::{AgentId, ContextId, LinkId, MessageId, Seq, TaskId, Timestamp};
use crate::message::{Body, Letter, Sender};
use crate::receipt::{Happened, Trail};
use crate::task::{CancelAsked, Ending, Move, Task};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A record with its sequence number and time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    pub seq: Seq,
    pub at: Timestamp,
    pub record: Record,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// An agent became known, or its description changed.
    Known(Agent),
    /// A message was accepted; it opened a task unless it continues one.
    Accepted {
        letter: Arc<Letter>,
        body: Body,
        opens: Option<Box<Opens>>,
    },
    Leased {
        message: MessageId,
        task: TaskId,
        link: LinkId,
        until: Timestamp,
    },
    /// The message returned to its mailbox, where it rests until the given time, if any. A try that
    /// was not the agent's fault does not count. A message that was already handed over returns
    /// too, if it was certainly not submitted.
    Returned {
        message: MessageId,
        task: TaskId,
        why: String,
        rest_until: Option<Timestamp>,
        counted: bool,
    },
    /// A message got a new mark in its trail.
    Marked {
        message: MessageId,
        task: TaskId,
        what: Happened,
    },
    /// The agent has the message: it has left the mailbox, and its task continues.
    Handed {
        message: MessageId,
        task: TaskId,
        what: Happened,
    },
    Moved {
        task: TaskId,
        to: Move,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        said: Option<Body>,
    },
    /// Progress or an artifact of a task that continues.
    Said {
        task: TaskId,
        what: Said,
    },
    CancelAsked {
        task: TaskId,
        asked: CancelAsked,
    },
    /// A task was interrupted but continues; its program was notified.
    Interrupted {
        task: TaskId,
        by: String,
        why: String,
    },
    /// What an agent says it is doing; `None` if it withdrew that.
    Shared {
        agent: AgentId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<Context>,
    },
    /// A follower subscribed to what an agent shares, or unsubscribed.
    Followed {
        agent: AgentId,
        follower: Sender,
        on: bool,
    },
    /// A task ended. Carries what the archive keeps of it.
    Ended {
        task: TaskId,
        ending: Ending,
        archive: Box<Archive>,
    },
    /// The loop guard rejected a message.
    Tripped {
        from: String,
        to: AgentId,
        why: String,
    },
}

/// The fields of a new task that are not in the letter.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Opens {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    Progress {
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        percent: Option<u8>,
    },
    Artifact {
        /// Empty in a report; the hub chooses one.
        id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        content: Body,
        append: bool,
        last: bool,
    },
}

impl Said {
    /// The id of the artifact that holds an answer to a one-way message whose
    /// task had already ended.
    const LATE_ANSWER: &str = "answer-after-end";

    pub fn late_answer(content: Body) -> Self {
        Self::Artifact { id: Self::LATE_ANSWER.into(), name: None, content, append: false, last: true }
    }

    pub fn as_late_answer(&self) -> Option<&Body> {
        match self {
            Self::Artifact { id, content, .. } if id == Self::LATE_ANSWER => Some(content),
            Self::Artifact { .. } | Self::Progress { .. } => None,
        }
    }
}

/// An ended task for the archive: its head with the last move, and the trails of its messages.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Archive {
    pub task: Task,
    pub trails: Vec<(MessageId, Trail)>,
    /// Set when the mailbox gave up on delivering it.
    pub dead_letter: bool,
}

impl Record {
    pub fn task(&self) -> Option<TaskId> {
        match self {
            Self::Accepted { letter, .. } => Some(letter.task),
            Self::Moved { task, .. } | Self::Said { task, .. } | Self::CancelAsked { task, .. } => {
                Some(*task)
            }
            Self::Leased { task, .. } | Self::Returned { task, .. } | Self::Marked { task, .. } => {
                Some(*task)
            }
            Self::Handed { task, .. } | Self::Ended { task, .. } | Self::Interrupted { task, .. } => {
                Some(*task)
            }
            Self::Known(_) | Self::Tripped { .. } | Self::Shared { .. } | Self::Followed { .. } => None,
        }
    }

    pub fn agent(&self) -> Option<AgentId> {
        match self {
            Self::Known(agent) => Some(agent.id),
            Self::Accepted { letter, .. } => Some(letter.to),
            Self::Ended { archive, .. } => Some(archive.task.agent),
            Self::Tripped { to, .. } => Some(*to),
            Self::Shared { agent, .. } | Self::Followed { agent, .. } => Some(*agent),
            _ => None,
        }
    }

    /// Returns the body of the message, for the record that accepted it.
    pub fn body(&self) -> Option<&Body> {
        match self {
            Self::Accepted { body, .. } => Some(body),
            _ => None,
        }
    }

    pub fn is_alert(&self) -> bool {
        match self {
            Self::Tripped { .. } => true,
            Self::Ended { archive, .. } => archive.dead_letter,
            _ => false,
        }
    }

    /// Returns its name in event streams.
    // tidy: table
    pub fn name(&self) -> &'static str {
        match self {
            Self::Known(_) => "agent",
            Self::Accepted { .. } => "accepted",
            Self::Leased { .. } => "leased",
            Self::Returned { .. } => "returned",
            Self::Marked { .. } => "receipt",
            Self::Handed { .. } => "handed",
            Self::Moved { .. } => "task",
            Self::Said { what: Said::Progress { .. }, .. } => "progress",
            Self::Said { what: Said::Artifact { .. }, .. } => "artifact",
            Self::CancelAsked { .. } => "cancel",
            Self::Interrupted { .. } => "interrupt",
            Self::Shared { .. } => "shared",
            Self::Followed { .. } => "followed",
            Self::Ended { .. } => "ended",
            Self::Tripped { .. } => "loop",
        }
    }

    /// Returns the approximate number of bytes that it takes in memory.
    pub fn weight(&self) -> usize {
        const HEAD: usize = 512;
        let bodies = match self {
            Self::Accepted { body, .. } => body.bytes(),
            Self::Moved { said, .. } => said.as_ref().map_or(0, Body::bytes),
            Self::Said { what: Said::Progress { text, .. }, .. } => text.len(),
            Self::Said { what: Said::Artifact { content, .. }, .. } => content.bytes(),
            Self::Ended { ending, archive, .. } => {
                ending.answer.as_ref().map_or(0, Body::bytes) + 128 * archive.task.history.len()
            }
            Self::Shared { context: Some(context), .. } => context.text.len(),
            _ => 0,
        };
        HEAD + bodies
    }
}
