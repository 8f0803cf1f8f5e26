//! The API under `/api/v1`: inbox, receipts, tasks, agents. Converts core types to responses,
//! and requests to commands.
//!
//! Stable: fields are added, never renamed; golden files in `tests/golden` show every shape.

use crate::message::{ChainField, parts};
use crate::time;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use synapse_core::Refusal;
use synapse_core::agents::{Agent, Presence};
use synapse_core::effect::{Command, Place};
use synapse_core::ids::{MessageId, TaskId, TaskRef, Timestamp};
use synapse_core::message::{Body, Content, Letter, Piece, Sender};
use synapse_core::receipt::{Happened, Mark, Step, Trail};
use synapse_core::task::{Ending, Move, Question, Task, TaskState};
use utoipa::ToSchema;

/// Who sent or asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SenderView {
    /// `user`, an agent's id, or a name.
    pub sender_id: String,
    pub label: String,
    pub by_user: bool,
    /// `socket`, `token`, `secret`, `certificate`, `spool` (a claim only) or `own`.
    pub proof: String,
}

impl SenderView {
    /// Returns the name that the receiver reads. It marks what a user sent on behalf of an agent,
    /// and senders that are only claimed by a file.
    pub fn shown(&self) -> String {
        self.shown_as(&self.label)
    }

    /// Like `shown`, for a sender that is called otherwise now, or here.
    pub fn shown_as(&self, label: &str) -> String {
        let by_user = if self.by_user { " (by user)" } else { "" };
        let claim = if self.proof == "spool" { " (unproven)" } else { "" };
        format!("{label}{by_user}{claim}")
    }
}

impl From<&Sender> for SenderView {
    fn from(sender: &Sender) -> Self {
        use synapse_core::message::Who;
        let sender_id = match &sender.who {
            Who::User => "user".to_owned(),
            Who::Agent(id) => id.to_string(),
            Who::Named(name) => name.to_string(),
        };
        let proof = serde_json::to_value(sender.proof).ok().and_then(|v| v.as_str().map(str::to_owned));
        Self {
            sender_id,
            label: sender.label.clone(),
            by_user: sender.by_user,
            proof: proof.unwrap_or_default(),
        }
    }
}

/// A message as its receiver sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MessageView {
    pub message_id: String,
    pub task_id: String,
    pub from: SenderView,
    pub to: String,
    /// What its sender calls it: over A2A the client's `messageId`.
    #[serde(default)]
    pub client_message_id: String,
    /// The conversation it belongs to, as its sender names it.
    #[serde(default)]
    pub context_id: String,
    /// The A2A tenant it was sent under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The same conversation as 32 hex digits. Other callers and tenants may use the same `context_id`; this is theirs alone.
    #[serde(default)]
    pub conversation: String,
    /// The inner level, 1 to 10; twice the one that was asked for. In a line for a program it is 1 to 5.
    pub priority: u8,
    /// The inner level, in a line for a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(ignore)]
    pub level: Option<u8>,
    /// 1 (note) to 5 (emergency), as `synapse send --priority` takes it.
    #[serde(default)]
    pub send_priority: u8,
    pub response_expected: bool,
    pub follow_up: bool,
    pub accepted_at: String,
    pub correlation_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_message_id: Option<String>,
    pub hops: u8,
    /// All text parts in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub content: Option<Value>,
    /// The highest step that is proven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
    /// Why it is not further.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    /// Earlier turns of the conversation, oldest first, if the program asked for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<TurnView>,
}

impl MessageView {
    pub fn new(letter: &Letter, body: Option<&Body>, trail: Option<&Trail>) -> Self {
        let content = body.and_then(|b| b.content().ok());
        Self {
            message_id: letter.id.to_string(),
            task_id: letter.task.to_string(),
            from: (&letter.from).into(),
            to: letter.to.to_string(),
            client_message_id: letter.sender_id.as_sent(),
            context_id: letter.context_id(),
            tenant: letter.tenant.as_ref().map(ToString::to_string),
            conversation: letter.conversation(),
            priority: letter.priority.level(),
            level: None,
            send_priority: letter.priority.to_five(),
            response_expected: letter.expects == synapse_core::message::Expects::Answer,
            follow_up: letter.follow_up,
            accepted_at: time::show(letter.accepted_at),
            correlation_id: letter.chain.correlation.to_string(),
            parent_message_id: letter.chain.parent.as_ref().map(ToString::to_string),
            hops: letter.chain.hops,
            text: content.as_ref().map(Content::as_text),
            content: content.and_then(|c| serde_json::to_value(c).ok()),
            receipt: trail.and_then(Trail::reached).map(|step| step.name().to_owned()),
            held: trail.and_then(Trail::hold).map(str::to_owned),
            history: Vec::new(),
        }
    }

    /// Returns the view for programs, where `priority` is 1 to 5, as in the lines that they write.
    pub fn for_program(&self) -> Self {
        let level = Some(self.level.unwrap_or(self.priority));
        Self { priority: self.send_priority, level, ..self.clone() }
    }

    /// Returns the chain for a message caused by this one.
    pub fn caused(&self) -> ChainField {
        ChainField {
            correlation_id: self.correlation_id.clone(),
            parent_message_id: Some(self.message_id.clone()),
            hops: self.hops.saturating_add(1),
        }
    }
}

/// One earlier turn of a conversation: a message of the caller, or the agent's question or answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TurnView {
    /// `user` or `agent`.
    pub role: String,
    pub task_id: String,
    pub at: String,
    pub text: String,
    /// All parts, if there are others than text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub content: Option<Value>,
    /// Of a turn of the agent: the state of its task with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

impl TurnView {
    pub fn asked(letter: &Letter, body: &Body) -> Self {
        Self::new("user", letter.task, letter.accepted_at, body, None)
    }

    /// Returns a turn with a question that the agent asked meanwhile.
    pub fn questioned(task: &Task, question: &Question) -> Self {
        let state = question.state.name().to_owned();
        Self::new("agent", task.id, question.at, &question.body, Some(state))
    }

    /// Returns a turn with the answer, or with the reason of a failure; `None` if there is neither.
    pub fn answered(task: &Task, ending: &Ending) -> Option<Self> {
        let why = || match ending.state {
            TaskState::Failed | TaskState::Rejected if !ending.why.is_empty() => {
                Some(Body::of(&Content::text(ending.why.as_str())))
            }
            _ => None,
        };
        let body = ending.answer.clone().or_else(why)?;
        let at = task.history.last().map_or(Timestamp(0), |last| last.at);
        Some(Self::new("agent", task.id, at, &body, Some(ending.state.name().to_owned())))
    }

    fn new(role: &str, task: TaskId, at: Timestamp, body: &Body, state: Option<String>) -> Self {
        let content = body.content().unwrap_or_default();
        let is_text = content.parts.iter().all(|part| matches!(part.piece, Piece::Text(_)));
        let parts = (!is_text).then(|| serde_json::to_value(&content).unwrap_or_default());
        let (role, task_id, text) = (role.to_owned(), task.to_string(), content.as_text());
        Self { role, task_id, at: time::show(at), text, content: parts, state }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InboxPage {
    pub agent_id: String,
    pub waiting: usize,
    pub notes: usize,
    pub leased: usize,
    pub messages: Vec<MessageView>,
}

/// How far a message has come, each step with its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReceiptView {
    pub message_id: String,
    pub task_id: String,
    /// The highest step that is proven: accepted, stored, leased, written, submitted, seen, answered.
    pub reached: String,
    /// Why it is not further, if something stands in its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    pub trail: Vec<MarkView>,
    /// Where it is now, while its task is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<PlaceView>,
}

/// Where an open message is, and what it waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlaceView {
    /// `waiting`, `resting`, `leased` or `handed`.
    pub place: String,
    /// How many leave before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<usize>,
    /// When its rest or its lease is over (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// How often it was handed out.
    pub tries: u8,
}

impl From<&Place> for PlaceView {
    fn from(place: &Place) -> Self {
        let (name, ahead, until, tries) = match place {
            Place::Waiting { ahead, tries } => ("waiting", Some(*ahead), None, *tries),
            Place::Resting { until, tries } => ("resting", None, Some(*until), *tries),
            Place::Leased { until, tries } => ("leased", None, Some(*until), *tries),
            Place::Handed => ("handed", None, None, 0),
        };
        Self { place: name.to_owned(), ahead, until: until.map(time::show), tries }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MarkView {
    pub at: String,
    /// A step, or `held`, `returned`, `failed`, `unknown`.
    pub what: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl From<&Mark> for MarkView {
    fn from(mark: &Mark) -> Self {
        let (what, why) = happened(&mark.what);
        Self { at: time::show(mark.at), what: what.to_owned(), why }
    }
}

pub(crate) fn happened(what: &Happened) -> (&'static str, Option<String>) {
    match what {
        Happened::Step(step) => (step.name(), None),
        Happened::Held(why) => ("held", Some(why.clone())),
        Happened::Returned(why) => ("returned", Some(why.clone())),
        Happened::Failed(why) => ("failed", Some(why.clone())),
        Happened::Unknown(why) => ("unknown", Some(why.clone())),
    }
}

impl ReceiptView {
    pub fn new(message: &MessageId, task: &str, trail: &Trail) -> Self {
        Self {
            message_id: message.to_string(),
            task_id: task.to_owned(),
            reached: trail.reached().map_or("unknown", Step::name).to_owned(),
            held: trail.hold().map(str::to_owned),
            trail: trail.marks().iter().map(MarkView::from).collect(),
            place: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskView {
    pub task_id: String,
    /// The first eight digits; enough to reply.
    pub short_id: String,
    pub agent_id: String,
    pub requester: SenderView,
    /// submitted, working, input-required, auth-required, completed, failed, canceled, rejected.
    pub state: String,
    pub response_expected: bool,
    pub messages: Vec<String>,
    pub history: Vec<MoveView>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<AnswerView>,
    /// What was said and made on the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub artifacts: Vec<Value>,
    /// A cancel was asked for and is under way.
    pub canceling: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MoveView {
    pub at: String,
    pub to: String,
    pub by: String,
    pub why: String,
}

impl From<&Move> for MoveView {
    fn from(to: &Move) -> Self {
        Self { at: time::show(to.at), to: to.to.name().into(), by: to.by.clone(), why: to.why.clone() }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AnswerView {
    pub text: String,
    #[schema(value_type = Object)]
    pub content: Value,
}

impl AnswerView {
    pub fn of(body: &Body) -> Self {
        let content = body.content().unwrap_or_default();
        Self { text: content.as_text(), content: serde_json::to_value(&content).unwrap_or_default() }
    }
}

impl TaskView {
    pub fn new(task: &Task, ending: Option<&Ending>) -> Self {
        Self {
            task_id: task.id.to_string(),
            short_id: task.id.short(),
            agent_id: task.agent.to_string(),
            requester: (&task.requester).into(),
            state: task.state.name().into(),
            response_expected: task.expects == synapse_core::message::Expects::Answer,
            messages: task.messages.iter().map(ToString::to_string).collect(),
            history: task.history.iter().map(MoveView::from).collect(),
            answer: ending.and_then(|e| e.answer.as_ref()).map(AnswerView::of),
            artifacts: Vec::new(),
            canceling: task.cancel.is_some() && !task.state.is_terminal(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentView {
    pub agent_id: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    pub capabilities: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    pub state: String,
    pub why: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    pub waiting: usize,
}

impl AgentView {
    pub fn new(agent: &Agent, presence: Option<&Presence>, waiting: usize) -> Self {
        Self {
            agent_id: agent.id.to_string(),
            kind: agent.kind.to_string(),
            name: agent.name.as_ref().map(ToString::to_string),
            role: agent.role.as_ref().map(ToString::to_string),
            capabilities: agent.capabilities.iter().map(ToString::to_string).collect(),
            handle: agent.handle(),
            state: presence.map_or("offline", |p| p.state.name()).to_owned(),
            why: presence.map_or_else(String::new, |p| p.why.clone()),
            since: presence.map(|p| time::show(p.since)),
            waiting,
        }
    }
}

/// Answer a task. Without a task id: the last one that reached the caller's agent.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct ReplyRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    #[schema(value_type = Object)]
    pub message: Value,
    /// The task could not be done; the message says why.
    #[serde(default)]
    pub failed: bool,
}

impl ReplyRequest {
    pub fn to_core(self) -> Result<Command, Refusal> {
        let task = self.task_id.as_deref().map(TaskRef::parse).transpose();
        let content = Content { parts: parts("message", self.message)?, ..Content::default() };
        Ok(Command::Reply {
            task: task.map_err(|bad| Refusal::bad_field("task_id", bad.to_string()))?,
            body: Body::of(&content),
            failed: self.failed,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReplyAnswer {
    /// `completed`: the one who waited has it. `sent`: nobody waits for this task any more, so it went to
    /// its requester as a message linked to it.
    pub status: String,
    pub task_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_to: Option<SenderView>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct CancelRequest {
    #[serde(default)]
    pub why: Option<String>,
}
