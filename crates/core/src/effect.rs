//! Inputs and effects, both closed: all that can happen, and all we can ask for.
//!
//! Not here: deciding (`hub`), carrying out (`synapse-node`).

use crate::agents::{Agent, AgentState, Context, Heartbeat, Presence};
use crate::ids::{
    AgentId, AskId, ContextId, LinkId, MessageId, Seq, TaskId, TaskRef, Tenant, Timestamp, WatcherId,
};
use crate::listing::Listing;
use crate::message::{Body, Chain, Digest, Expects, Key, Letter, Priority, Who};
use crate::policy::{Caller, Rules};
use crate::receipt::{Step, Trail};
use crate::record::{Entry, Said};
use crate::refusal::Refusal;
use crate::routes::Target;
use crate::task::{Task, TaskState};
use crate::watch::{Behind, Topic};
use std::sync::Arc;

/// Everything that makes a hub do something.
#[derive(Clone, Debug)]
pub enum Input {
    Asked {
        ask: AskId,
        caller: Caller,
        command: Command,
        facts: Facts,
        fresh: Fresh,
    },
    /// An agent of ours is there; what it is may have changed.
    AgentUp {
        agent: Agent,
        /// It ran before under another node: what it does now is not known yet.
        restarted: bool,
    },
    LinkOpened {
        link: LinkId,
        agent: AgentId,
        window: usize,
        serves: Serves,
        running: Vec<TaskId>,
    },
    LinkClosed {
        link: LinkId,
    },
    Presence {
        agent: AgentId,
        state: AgentState,
        why: String,
    },
    Heartbeat {
        agent: AgentId,
        beat: Heartbeat,
    },
    /// Whether a terminal may be typed to now; if not, why not. Not journaled: its hand says it anew.
    Gate {
        link: LinkId,
        held: Option<String>,
    },
    WatcherLeft {
        watcher: WatcherId,
    },
    /// Who may do what, from now on. Not journaled: each start says it anew.
    Rules(Rules),
    Clock,
}

/// How a link takes messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Serves {
    /// A hand that works on each task until it ends; its window counts tasks. Takes no notes. What it runs may
    /// hear of an interruption while it works, or can only be stopped.
    UntilEnded { hears: bool },
    /// A program that says when it has seen a message; its window counts messages not yet seen.
    UntilSeen { notes: bool },
    /// A terminal: takes a message only while its gate is open, and works on each task until it ends.
    Typed,
}

impl Serves {
    pub fn until_ended(self) -> bool {
        matches!(self, Self::UntilEnded { .. } | Self::Typed)
    }
}

/// Identifiers that nobody has used, made outside because the core has no randomness.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fresh {
    pub message: [u8; 16],
    pub task: [u8; 16],
}

/// What the store remembers and the core no longer does.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// This sender has used this message id before.
    pub prior: Option<Prior>,
    /// The task that the command names has ended.
    pub ended: Option<EndedTask>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prior {
    pub agent: AgentId,
    pub message: MessageId,
    pub task: TaskId,
    pub digest: Digest,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndedTask {
    pub id: TaskId,
    pub agent: AgentId,
    pub state: TaskState,
    pub requester: crate::message::Sender,
    pub message: MessageId,
}

#[derive(Clone, Debug)]
pub enum Command {
    Send(Box<Draft>),
    /// Answer a task; the last one handed to the caller if none is named.
    Reply {
        task: Option<TaskRef>,
        body: Body,
        failed: bool,
    },
    /// What the agent (or our hand, for it) has to say about a message it was given.
    Report {
        message: MessageId,
        report: Report,
    },
    /// What an agent answered to a one-way message, whose task ended before: kept for the history.
    KeepAnswer {
        task: TaskRef,
        answer: Body,
    },
    Cancel {
        task: TaskRef,
        why: String,
    },
    /// Interrupt what an agent is doing, and put a message first in its mailbox if there is one.
    Interrupt {
        agent: AgentId,
        why: String,
        draft: Option<Box<Draft>>,
    },
    /// What an agent is doing, in its own words; none takes it back.
    Share {
        agent: AgentId,
        text: Option<String>,
    },
    /// Hear what an agent shares, or no longer.
    Follow {
        agent: AgentId,
        on: bool,
    },
    /// What an agent shared last, and who follows it.
    Shared {
        agent: AgentId,
    },
    Watch {
        watcher: WatcherId,
        topic: Topic,
        after: Option<Seq>,
    },
    /// What waits for an agent, in the order in which it would leave. Looking changes nothing: whoever has
    /// read a message reports it as seen.
    Inbox {
        agent: AgentId,
        max: usize,
    },
    Receipt {
        message: MessageId,
    },
    Task {
        task: TaskRef,
    },
    Tasks {
        max: usize,
    },
    /// The caller's own among the open ones.
    OwnTasks(Listing),
    Agents,
}

/// A message before it is one.
#[derive(Clone, Debug)]
pub struct Draft {
    pub to: Target,
    pub sender_id: Option<MessageId>,
    pub body: Body,
    pub priority: Priority,
    pub expects: Expects,
    pub chain: Option<Chain>,
    pub continues: Option<TaskRef>,
    pub caller_task_id: Option<String>,
    /// The conversation that its task belongs to, if it opens one.
    pub context: Option<ContextId>,
    /// The tenant that it is sent under, over A2A.
    pub tenant: Option<Tenant>,
    pub timeout_ms: Option<u64>,
    pub sent_at: Option<Timestamp>,
    /// Who follows its task from this message on. It is let go once the task has ended.
    pub watcher: Option<WatcherId>,
}

impl Draft {
    /// The dedupe key that it has if this caller sends it; none without an id of the caller's.
    pub fn key(&self, who: Who) -> Option<Key> {
        let message = self.sender_id.clone()?;
        Some(Key { who, tenant: self.tenant.clone(), message })
    }

    /// Refuses a time stamp that is far from ours; checked once, where the message enters.
    pub fn check_time(&self, now: Timestamp, skew_ms_max: u64) -> Result<(), Refusal> {
        let off = self.sent_at.map_or(0, |sent| sent.since_ms(now).max(now.since_ms(sent)));
        if off <= skew_ms_max {
            return Ok(());
        }
        let hours = off / 3_600_000;
        let why = format!("it is {hours} hours away from this machine's clock; check both clocks");
        Err(Refusal::bad_field("timestamp", why))
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Report {
    /// A rung of the ladder was reached. `Seen` takes the message out of the mailbox.
    Step(Step),
    /// It is about to be written into a terminal: from now on it is in the hand's keeping.
    Writing,
    /// It cannot be given to the terminal now: it goes back as if it had not been handed out.
    Held {
        why: String,
    },
    /// It was written, and certainly not submitted; nothing of it is left. It goes back to its mailbox, and is not
    /// handed out again before this time is over, so that others may come first.
    NotSubmitted {
        why: String,
        rest_ms: u64,
    },
    /// What happens to it cannot be told.
    Unsure {
        why: String,
    },
    /// Work has begun: from now on it must not be done again.
    Working,
    Said(Said),
    NeedsInput {
        prompt: Body,
        auth: bool,
    },
    /// It answers with a message, and there was no task to speak of.
    Message {
        body: Body,
    },
    /// It could not begin; it goes back.
    Refused {
        why: String,
    },
    Done {
        state: TaskState,
        answer: Option<Body>,
        why: String,
    },
}

/// What is carried out, and only once the records before it are on disk.
#[derive(Clone, Debug)]
pub enum Effect {
    Reply {
        ask: AskId,
        answer: Box<Result<Answer, Refusal>>,
    },
    Deliver {
        link: LinkId,
        letter: Arc<Letter>,
        tries: u8,
        /// How many notes wait for an agent that is not handed any.
        notes: usize,
        /// What it says, if that is still in memory; else it is in the journal.
        body: Option<Body>,
    },
    Stop {
        link: LinkId,
        task: TaskId,
        why: String,
    },
    /// A message that must not wait for the end of a turn is first in line, and the gate is closed.
    Urge {
        link: LinkId,
        by: String,
    },
    /// Whoever works on a task hears that it is interrupted; the task goes on.
    Interrupt {
        link: LinkId,
        task: TaskId,
        by: String,
        why: String,
    },
    Notify {
        watcher: WatcherId,
        entry: Arc<Entry>,
    },
    /// How an agent is has changed.
    Presence {
        agent: AgentId,
        presence: Presence,
    },
    /// What an agent shares has changed.
    Context {
        agent: AgentId,
        context: Option<Context>,
    },
}

#[derive(Clone, Debug)]
pub enum Answer {
    Accepted(Vec<Taken>),
    Replied(Replied),
    Done,
    /// The task as it is after the event at this place.
    Task {
        task: Box<Task>,
        at: Seq,
    },
    Tasks(Vec<Task>),
    /// In the order of the listing, each with its place there; and how many the listing wants in all.
    OwnTasks {
        tasks: Vec<(Timestamp, Task)>,
        total: usize,
        at: Seq,
        /// When that was: whatever moves later has not moved yet.
        as_of: Timestamp,
    },
    Receipt {
        letter: Arc<Letter>,
        trail: Trail,
        place: Place,
    },
    Interrupted {
        tasks: Vec<(TaskId, Interruption)>,
        taken: Option<Taken>,
    },
    Shared {
        context: Option<Context>,
        followers: Vec<crate::message::Sender>,
    },
    Inbox(InboxView),
    Following {
        missed: Vec<Arc<Entry>>,
        latest: Seq,
    },
    Behind(Behind),
    Agents(Vec<(Agent, Option<Presence>, usize)>),
}

/// What became of one message that was sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken {
    pub message: MessageId,
    pub task: TaskId,
    pub agent: AgentId,
    pub duplicate: bool,
    /// How many messages will leave before it; none if it left at once or is a repeat.
    pub ahead: usize,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Replied {
    /// The one who waited has it.
    Completed { task: TaskId },
    /// Nobody waits for this task any more; send it to its requester as a linked message.
    Send { to: crate::message::Sender, task: TaskId, parent: MessageId },
}

/// Where an open message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In its lane; so many leave before it.
    Waiting { ahead: usize, tries: u8 },
    /// It came back and is not tried again before this time.
    Resting { until: Timestamp, tries: u8 },
    /// A link has it, until then unless it says more.
    Leased { until: Timestamp, tries: u8 },
    /// Its agent has it.
    Handed,
}

/// What an interruption did to a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interruption {
    /// Its program was told, and decides.
    Told,
    /// What runs cannot be told anything, so it is being stopped.
    Stopping,
}

#[derive(Clone, Debug, Default)]
pub struct InboxView {
    pub waiting: usize,
    pub notes: usize,
    pub leased: usize,
    pub letters: Vec<(Arc<Letter>, Trail)>,
}

/// What one input led to.
#[derive(Clone, Debug, Default)]
pub struct Output {
    pub entries: Vec<Arc<Entry>>,
    pub effects: Vec<Effect>,
}
