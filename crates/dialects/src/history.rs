//! Past messages and their outcomes, as `synapse history` prints them for programs.
//!
//! Stable: fields are added, never renamed; golden files in `tests/golden` show every shape.
//! Not here: finding them (`synapse-store`), output for people (the command).

use crate::api::{AnswerView, MarkView, MessageView, MoveView, ReceiptView, TaskView};
use crate::time;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use synapse_core::ids::{MessageId, Seq, Timestamp};
use synapse_core::message::{Body, Letter};
use synapse_core::receipt::Trail;
use synapse_core::record::{Archive, Said};
use synapse_core::task::{Ending, Task};

/// One line of an export.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum HistoryRecord {
    /// The agent whose history follows.
    Agent(AgentRecord),
    /// A message was accepted.
    Message(Box<MessageRecord>),
    /// A task ended.
    Ended(Box<EndedRecord>),
    /// A task produced an artifact.
    Artifact(ArtifactRecord),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentRecord {
    pub agent_id: String,
    /// Its current name.
    pub label: String,
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessageRecord {
    /// Its position in the receiver's journal.
    pub seq: u64,
    /// The current name of the receiver.
    pub to_label: String,
    /// The sender's id for it.
    pub sender_message_id: String,
    #[serde(flatten)]
    pub message: MessageView,
}

impl MessageRecord {
    pub fn new(seq: Seq, to_label: &str, letter: &Letter, body: &Body, trail: Option<&Trail>) -> Self {
        Self {
            seq: seq.0,
            to_label: to_label.to_owned(),
            sender_message_id: letter.sender_id.to_string(),
            message: MessageView::new(letter, Some(body), trail),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndedRecord {
    pub seq: u64,
    pub at: String,
    pub by: String,
    pub why: String,
    /// Whether the mailbox gave up on delivering it.
    pub dead_letter: bool,
    #[serde(flatten)]
    pub task: TaskView,
    /// The receipt of each of its messages.
    pub receipts: Vec<ReceiptView>,
}

impl EndedRecord {
    pub fn new(seq: Seq, at: Timestamp, ending: &Ending, archive: &Archive) -> Self {
        let id = archive.task.id.to_string();
        let receipt = |(message, trail): &(MessageId, Trail)| ReceiptView::new(message, &id, trail);
        Self {
            seq: seq.0,
            at: time::show(at),
            by: ending.by.clone(),
            why: ending.why.clone(),
            dead_letter: archive.dead_letter,
            task: TaskView::new(&archive.task, Some(ending)),
            receipts: archive.trails.iter().map(receipt).collect(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArtifactRecord {
    pub seq: u64,
    pub agent_id: String,
    pub task_id: String,
    pub artifact_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether it continues the previous chunk with the same id.
    pub append: bool,
    pub last: bool,
    pub content: Value,
}

impl ArtifactRecord {
    /// Returns `None` if it is not an artifact.
    pub fn new(seq: Seq, agent_id: String, task_id: String, said: &Said) -> Option<Self> {
        let Said::Artifact { id, name, content, append, last } = said else { return None };
        let (artifact_id, name, content) = (id.clone(), name.clone(), AnswerView::of(content).content);
        Some(Self { seq: seq.0, agent_id, task_id, artifact_id, name, append: *append, last: *last, content })
    }
}

/// The outcome of a message's task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The state of the task; `open` if only that is known.
    pub state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<AnswerView>,
}

impl Outcome {
    pub fn ended(at: Timestamp, ending: &Ending) -> Self {
        Self {
            state: ending.state.name().to_owned(),
            ended_at: Some(time::show(at)),
            by: Some(ending.by.clone()),
            why: Some(ending.why.clone()),
            answer: ending.answer.as_ref().map(AnswerView::of),
        }
    }

    /// Returns the outcome of a task that has not ended, if the task is known.
    pub fn open(task: Option<&Task>) -> Self {
        let state = task.map_or("open", |task| task.state.name()).to_owned();
        Self { state, ended_at: None, by: None, why: None, answer: None }
    }
}

/// A message with its outcome; one entry of `history --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryLine {
    #[serde(flatten)]
    pub record: MessageRecord,
    pub outcome: Outcome,
}

/// The output of `history search --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchView {
    pub query: String,
    /// Oldest first.
    pub hits: Vec<SearchHit>,
    /// Whether these are all hits.
    pub complete: bool,
    /// Why there may be more, and what helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchHit {
    /// A message, or the end of a task whose answer contains the words.
    pub record: HistoryRecord,
    /// The text around the first match.
    pub snippet: String,
    /// Where the words are in the snippet: start and length, in characters.
    pub matches: Vec<(usize, usize)>,
}

/// The output of `history show --json`: all messages of one conversation, each after its cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConversationView {
    pub correlation_id: String,
    pub messages: Vec<ConversationMessage>,
    pub complete: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConversationMessage {
    /// How many messages led to it; 0 if it began the conversation, or its cause is gone.
    pub depth: usize,
    #[serde(flatten)]
    pub line: HistoryLine,
    /// All marks of its receipt.
    pub trail: Vec<MarkView>,
    /// All moves of its task.
    pub moves: Vec<MoveView>,
}
