//! Inputs and effects: everything that can happen to the hub, and everything the hub can ask for.
//!
//! Both enums are closed. Not here: deciding (`hub`), carrying out (`synapse-node`).

use crate::agents::{Agent, AgentState, Context, Heartbeat, Presence};
use crate::ids::{
    AgentId, AskId, ContextId, Label, LinkId, MessageId, Seq, TaskId, TaskRef, Tenant, Timestamp, WatcherId,
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

/// Everything that makes a hub act.
#[derive(Clone, Debug)]
pub enum Input {
    Asked {
        ask: AskId,
        caller: Caller,
        command: Command,
        facts: Facts,
        fresh: Fresh,
    },
    /// One of this node's agents is up; its description may have changed.
    AgentUp {
        agent: Agent,
        /// It ran before under an earlier node process, so its current state is unknown.
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
    /// Whether a terminal may be typed to now, and if not, why. Not journaled: its hand
    /// reports it after each start.
    Gate {
        link: LinkId,
        held: Option<String>,
    },
    WatcherLeft {
        watcher: WatcherId,
    },
    /// Replaces the rules on who may do what. Not journaled: the node sends them at each start.
    Rules(Rules),
    Clock,
}

/// How a link takes messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Serves {
    /// A hand that works on each task until it ends; its window counts tasks. It gets no notes.
    /// With `hears`, what it runs can be notified of an interruption while it works; without,
    /// it can only be stopped.
    UntilEnded { hears: bool },
    /// A program that reports when it has seen a message; its window counts messages not yet seen.
    UntilSeen { notes: bool },
    /// A terminal. It takes a message only while its gate is open, and works on
    /// each task until it ends.
    Typed,
}

impl Serves {
    pub fn until_ended(self) -> bool {
        matches!(self, Self::UntilEnded { .. } | Self::Typed)
    }
}

/// Unused identifiers, made by the caller because the core has no randomness.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fresh {
    pub message: [u8; 16],
    pub task: [u8; 16],
}

/// What the store remembers and the core no longer does, looked up before the core is asked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// An earlier message with the same id from this sender.
    pub prior: Option<Prior>,
    /// The task that the command names, if it has ended.
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
    /// Answers a task; without one, the last task handed to the caller.
    Reply {
        task: Option<TaskRef>,
        body: Body,
        failed: bool,
    },
    /// Reports on a message that the agent was given; sent by the agent, or by its hand.
    Report {
        message: MessageId,
        report: Report,
    },
    /// Keeps the answer to a one-way message for the history. Its task has already ended.
    KeepAnswer {
        task: TaskRef,
        answer: Body,
    },
    Cancel {
        task: TaskRef,
        why: String,
    },
    /// Interrupts what an agent is doing, and puts the message, if any, first in its mailbox.
    Interrupt {
        agent: AgentId,
        why: String,
        draft: Option<Box<Draft>>,
    },
    /// Shares what an agent is doing, in its own words; `None` withdraws it.
    Share {
        agent: AgentId,
        text: Option<String>,
    },
    /// Subscribes to what an agent shares, or unsubscribes.
    Follow {
        agent: AgentId,
        on: bool,
    },
    /// Gives an agent another name, or takes its name away.
    Rename {
        agent: AgentId,
        name: Option<Label>,
    },
    /// Asks what an agent shared last, and who follows it.
    Shared {
        agent: AgentId,
    },
    Watch {
        watcher: WatcherId,
        topic: Topic,
        after: Option<Seq>,
    },
    /// Lists what waits for an agent, in delivery order. This changes nothing: a caller that has
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
    /// Lists the caller's own open tasks.
    OwnTasks(Listing),
    Agents,
}

/// A message before the hub accepts it.
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
    /// The conversation of its task, if the message opens one.
    pub context: Option<ContextId>,
    /// The tenant under which it is sent over A2A.
    pub tenant: Option<Tenant>,
    pub timeout_ms: Option<u64>,
    pub sent_at: Option<Timestamp>,
    /// A watcher that follows the task from this message on. The subscription ends with the task.
    pub watcher: Option<WatcherId>,
}

impl Draft {
    /// Returns the dedupe key of the draft for this caller, or `None` if the caller gave no id.
    pub fn key(&self, who: Who) -> Option<Key> {
        let message = self.sender_id.clone()?;
        Some(Key { who, tenant: self.tenant.clone(), message })
    }

    /// Rejects a timestamp too far from the local clock; checked once, when the message enters.
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
    /// The message reached this step. `Seen` takes it out of the mailbox.
    Step(Step),
    /// The hand is about to write it into a terminal; from now on the hand is responsible for it.
    Writing,
    /// The terminal cannot take it now. It is returned as if it had not been delivered.
    Held {
        why: String,
    },
    /// It was written but certainly not submitted, and nothing of it is left on the screen. It
    /// returns to its mailbox and rests for `rest_ms`, so that others may go first.
    NotSubmitted {
        why: String,
        rest_ms: u64,
    },
    /// It is unknown what happened to it.
    Unsure {
        why: String,
    },
    /// Work has begun; from now on the message must not be delivered again.
    Working,
    Said(Said),
    NeedsInput {
        prompt: Body,
        auth: bool,
    },
    /// The agent answers with a plain message; its caller never sees a task.
    Message {
        body: Body,
    },
    /// Work could not begin; the message returns to the mailbox.
    Refused {
        why: String,
    },
    Done {
        state: TaskState,
        answer: Option<Body>,
        why: String,
    },
}

/// An action for the node, to be carried out only once the records before it are on disk.
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
        /// How many notes wait for an agent to which notes are not delivered.
        notes: usize,
        /// The message body if it is still in memory; otherwise the journal has it.
        body: Option<Body>,
    },
    Stop {
        link: LinkId,
        task: TaskId,
        why: String,
    },
    /// An urgent message is first in line and must not wait for the end of the turn,
    /// but the gate is closed.
    Urge {
        link: LinkId,
        by: String,
    },
    /// Notifies the hand or program that works on a task of an interruption; the task continues.
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
    /// The presence of an agent has changed.
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
    /// The task as of the event with this sequence number.
    Task {
        task: Box<Task>,
        at: Seq,
    },
    Tasks(Vec<Task>),
    /// In the order of the listing, each with its sort key, and the total number of matches.
    OwnTasks {
        tasks: Vec<(Timestamp, Task)>,
        total: usize,
        at: Seq,
        /// The time of the snapshot: later changes are not in it.
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
    /// The agent has the name that was asked for.
    Renamed,
    Inbox(InboxView),
    Following {
        missed: Vec<Arc<Entry>>,
        latest: Seq,
    },
    Behind(Behind),
    Agents(Vec<(Agent, Option<Presence>, usize)>),
}

/// The outcome of one sent message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken {
    pub message: MessageId,
    pub task: TaskId,
    pub agent: AgentId,
    pub duplicate: bool,
    /// How many messages will be delivered before it; 0 if it left at once or is a repeat.
    pub ahead: usize,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Replied {
    /// The requester was still waiting and has the answer.
    Completed { task: TaskId },
    /// Nobody waits for this task any more; send the answer to its requester as a linked message.
    Send { to: crate::message::Sender, task: TaskId, parent: MessageId },
}

/// Where an open message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In its lane, with this many messages before it.
    Waiting { ahead: usize, tries: u8 },
    /// It was returned and is not retried before this time.
    Resting { until: Timestamp, tries: u8 },
    /// Leased to a link until this time, unless the link reports before.
    Leased { until: Timestamp, tries: u8 },
    /// Its agent has it.
    Handed,
}

/// What an interruption did to a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interruption {
    /// Its program was notified and decides.
    Told,
    /// Its program cannot be notified, so it is being stopped.
    Stopping,
}

#[derive(Clone, Debug, Default)]
pub struct InboxView {
    pub waiting: usize,
    pub notes: usize,
    pub leased: usize,
    pub letters: Vec<(Arc<Letter>, Trail)>,
}

/// The records and effects of one input.
#[derive(Clone, Debug, Default)]
pub struct Output {
    pub entries: Vec<Arc<Entry>>,
    pub effects: Vec<Effect>,
}
