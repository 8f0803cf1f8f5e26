//! The durable state of a hub: exactly what a journal rebuilds.
//!
//! Invariant: changed only by `apply`; live and replayed states are equal.
//! Not here: links, watchers, heartbeats, rates (volatile, in `hub`); deciding anything.

use crate::agents::{Agent, Context};
use crate::ids::{AgentId, MessageId, Seq, TaskId, TaskRef, Timestamp};
use crate::mailbox::{Mailbox, Misplaced, Slot};
use crate::message::{Body, Letter, Sender};
use crate::receipt::{Happened, Step, Trail};
use crate::record::{Entry, Opens, Record, Said};
use crate::task::{ArtifactCount, Move, QUESTIONS_BYTES_MAX, Question, Task, TaskState};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct State {
    pub seq: Seq,
    pub agents: BTreeMap<AgentId, Agent>,
    pub mailboxes: BTreeMap<AgentId, Mailbox>,
    pub letters: BTreeMap<MessageId, Open>,
    /// Boxed, because ids arrive in random order and an insert moves the values beside it.
    pub tasks: BTreeMap<TaskId, Box<Task>>,
    /// What agents say they are doing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub contexts: BTreeMap<AgentId, Context>,
    /// The followers of what each agent shares.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub followers: BTreeMap<AgentId, Vec<Sender>>,
    /// Message id by sequence number, for mailboxes; rebuilt from `letters`.
    #[serde(skip)]
    by_seq: BTreeMap<Seq, MessageId>,
    /// Tasks with a deadline, soonest first; rebuilt from `tasks`.
    #[serde(skip)]
    timed: BTreeSet<(Timestamp, TaskId)>,
    /// Tasks with an unanswered question, oldest first; rebuilt from `tasks` and `letters`.
    #[serde(skip)]
    asking: BTreeSet<(Timestamp, TaskId)>,
}

/// A message whose task is still open.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Open {
    pub at: Seq,
    pub letter: Arc<Letter>,
    pub trail: Trail,
    /// Its agent has it; it is in no mailbox any more.
    pub handed: bool,
    /// The record with which it was handed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handed_at: Option<Seq>,
}

impl Open {
    /// Returns its mailbox slot before any try.
    fn slot(&self) -> Slot {
        let since = self.trail.marks().first().map_or(Timestamp(0), |mark| mark.at);
        Slot { priority: self.letter.priority, since, bytes: self.letter.bytes, tries: 0 }
    }
}

/// A record that does not fit the state: the journal is damaged, or there is a bug. The hub
/// never works around it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("record {got:?} follows {last:?}: one is missing or doubled")]
    OutOfOrder { last: Seq, got: Seq },
    #[error("record speaks of message {0}, which is not open")]
    NoMessage(MessageId),
    #[error("record speaks of task {0}, which is not open")]
    NoTask(TaskId),
    #[error("record opens task or message {0} a second time")]
    Twice(String),
    #[error("task {task} cannot go from {} to {}", from.name(), to.name())]
    IllegalMove { task: TaskId, from: TaskState, to: TaskState },
    #[error(transparent)]
    Misplaced(#[from] Misplaced),
}

impl State {
    pub fn apply(&mut self, entry: &Entry) -> Result<(), Unfit> {
        if entry.seq != self.seq.next() {
            return Err(Unfit::OutOfOrder { last: self.seq, got: entry.seq });
        }
        let at = entry.at;
        match &entry.record {
            Record::Known(agent) => {
                self.agents.insert(agent.id, agent.clone());
            }
            Record::Accepted { letter, opens, .. } => self.accept(entry.seq, at, letter, opens.as_deref())?,
            Record::Leased { message, link, until, .. } => {
                let (place, mailbox, trail) = self.placed(message)?;
                mailbox.lease(place, *link, *until)?;
                trail.add(at, Happened::Step(Step::Leased));
            }
            Record::Returned { message, why, rest_until, counted, .. } => {
                let open = self.open(message)?;
                let is_handed = std::mem::take(&mut open.handed);
                open.handed_at = None;
                let slot = open.slot();
                let (place, mailbox, trail) = self.placed(message)?;
                match is_handed {
                    true => mailbox.put_to_rest(place, slot, rest_until.unwrap_or(at))?,
                    false => mailbox.give_back(place, *rest_until, *counted)?,
                }
                trail.add(at, Happened::Returned(why.clone()));
            }
            Record::Marked { message, what, .. } => self.open(message)?.trail.add(at, what.clone()),
            Record::Handed { message, what, .. } => {
                let (place, mailbox, trail) = self.placed(message)?;
                mailbox.remove(place)?;
                trail.add(at, what.clone());
                let open = self.open(message)?;
                (open.handed, open.handed_at) = (true, Some(entry.seq));
            }
            Record::Moved { task, to, said } => self.move_task(at, task, to, said.as_ref())?,
            // Its task has ended, and is no longer here.
            Record::Said { what, .. } if what.as_late_answer().is_some() => {}
            Record::Said { task, what } => {
                let bytes = match what {
                    Said::Progress { text, .. } => text.len(),
                    Said::Artifact { content, .. } => content.bytes(),
                };
                let task = self.task_mut(task)?;
                task.said_bytes += bytes as u64;
                if let Said::Artifact { id, append, .. } = what {
                    task.artifacts.add(id, *append);
                }
            }
            Record::CancelAsked { task, asked } => self.task_mut(task)?.cancel = Some(asked.clone()),
            Record::Interrupted { task, by, why } => {
                let task = self.task_mut(task)?;
                let why = format!("interrupted: {why}");
                task.history.push(Move { at, to: task.state, by: by.clone(), why });
            }
            Record::Shared { agent, context: Some(context) } => {
                self.contexts.insert(*agent, context.clone());
            }
            Record::Shared { agent, context: None } => drop(self.contexts.remove(agent)),
            Record::Followed { agent, follower, on } => self.follow(*agent, follower, *on),
            Record::Ended { task, ending, .. } => self.end(task, ending.state)?,
            Record::Tripped { .. } => {}
        }
        self.seq = entry.seq;
        Ok(())
    }

    fn accept(
        &mut self,
        at: Seq,
        now: Timestamp,
        letter: &Arc<Letter>,
        opens: Option<&Opens>,
    ) -> Result<(), Unfit> {
        if self.letters.contains_key(&letter.id) {
            return Err(Unfit::Twice(letter.id.to_string()));
        }
        match opens {
            Some(opens) => {
                let task = Task {
                    id: letter.task,
                    caller_id: opens.caller_id.clone(),
                    context: opens.context.clone(),
                    tenant: letter.tenant.clone(),
                    agent: letter.to,
                    requester: letter.from.clone(),
                    expects: letter.expects,
                    state: TaskState::Submitted,
                    messages: vec![letter.id.clone()],
                    history: Vec::new(),
                    asks: None,
                    questions: Vec::new(),
                    timeout_ms: opens.timeout_ms,
                    deadline: None,
                    cancel: None,
                    said_bytes: 0,
                    artifacts: ArtifactCount::default(),
                };
                if self.tasks.insert(letter.task, Box::new(task)).is_some() {
                    return Err(Unfit::Twice(letter.task.to_string()));
                }
            }
            None => {
                let task = self.task_mut(&letter.task)?;
                task.messages.push(letter.id.clone());
                if let Some(since) = task.asks_since() {
                    self.asking.remove(&(since, letter.task));
                }
            }
        }
        let slot = Slot { priority: letter.priority, since: now, bytes: letter.bytes, tries: 0 };
        self.mailboxes.entry(letter.to).or_default().put(at, slot)?;
        let open =
            Open { at, letter: letter.clone(), trail: Trail::accepted(now), handed: false, handed_at: None };
        self.letters.insert(letter.id.clone(), open);
        self.by_seq.insert(at, letter.id.clone());
        Ok(())
    }

    fn move_task(&mut self, at: Timestamp, id: &TaskId, to: &Move, said: Option<&Body>) -> Result<(), Unfit> {
        let task = self.tasks.get_mut(id).ok_or(Unfit::NoTask(*id))?;
        if !task.state.may_become(to.to) || to.to.is_terminal() {
            return Err(Unfit::IllegalMove { task: task.id, from: task.state, to: to.to });
        }
        if let Some(since) = task.asks_since() {
            self.asking.remove(&(since, task.id));
        }
        task.state = to.to;
        if to.to.asks() {
            self.asking.insert((to.at, task.id));
        }
        if let (TaskState::Working, Some(ms), None) = (to.to, task.timeout_ms, task.deadline) {
            let deadline = at.plus_ms(ms);
            task.deadline = Some(deadline);
            self.timed.insert((deadline, task.id));
        }
        task.said_bytes += said.map_or(0, |body| body.bytes() as u64);
        task.asks = said.filter(|_| to.to.asks()).cloned();
        if let Some(body) = &task.asks {
            let bytes: usize = task.questions.iter().map(|question| question.body.bytes()).sum();
            if bytes + body.bytes() <= QUESTIONS_BYTES_MAX {
                task.questions.push(Question { at: to.at, state: to.to, body: body.clone() });
            }
        }
        task.history.push(to.clone());
        Ok(())
    }

    fn end(&mut self, id: &TaskId, state: TaskState) -> Result<(), Unfit> {
        let task = self.tasks.remove(id).ok_or(Unfit::NoTask(*id))?;
        if !task.state.may_become(state) || !state.is_terminal() {
            return Err(Unfit::IllegalMove { task: *id, from: task.state, to: state });
        }
        if let Some(deadline) = task.deadline {
            self.timed.remove(&(deadline, task.id));
        }
        if let Some(since) = task.asks_since() {
            self.asking.remove(&(since, task.id));
        }
        for message in &task.messages {
            let open = self.letters.remove(message).ok_or_else(|| Unfit::NoMessage(message.clone()))?;
            self.by_seq.remove(&open.at);
            if !open.handed {
                self.mailboxes.entry(task.agent).or_default().remove(open.at)?;
            }
        }
        Ok(())
    }

    fn follow(&mut self, agent: AgentId, follower: &Sender, on: bool) {
        let followers = self.followers.entry(agent).or_default();
        followers.retain(|other| other.who != follower.who);
        if on {
            followers.push(follower.clone());
        }
        if followers.is_empty() {
            self.followers.remove(&agent);
        }
    }

    /// Rebuilds the indexes after loading a snapshot, which does not contain them.
    pub fn rebuild_indexes(&mut self) {
        self.by_seq = self.letters.iter().map(|(id, open)| (open.at, id.clone())).collect();
        self.timed = self.tasks.values().filter_map(|task| Some((task.deadline?, task.id))).collect();
        let has_answer = |task: &Task| {
            let follow_ups = task.messages.iter().skip(1).filter_map(|message| self.letters.get(message));
            follow_ups.into_iter().any(|open| !open.handed)
        };
        let unanswered = self.tasks.values().filter(|task| !has_answer(task));
        self.asking = unanswered.filter_map(|task| Some((task.asks_since()?, task.id))).collect();
    }

    /// Ends rests whose time is over. Time alone decides this, so it is not journaled.
    pub fn wake(&mut self, now: Timestamp, agent: &AgentId) {
        if let Some(mailbox) = self.mailboxes.get_mut(agent) {
            mailbox.wake(now);
        }
    }

    /// Returns the task with the next deadline.
    pub fn next_timed(&self) -> Option<(Timestamp, TaskId)> {
        self.timed.first().copied()
    }

    /// Returns the task whose question has waited longest for an answer, and since when.
    pub fn longest_asking(&self) -> Option<(Timestamp, TaskId)> {
        self.asking.first().copied()
    }

    pub fn at(&self, seq: Seq) -> Option<&Open> {
        self.by_seq.get(&seq).and_then(|id| self.letters.get(id))
    }

    /// Whether an open task has the same short form.
    pub fn has_task_like(&self, id: &TaskId) -> bool {
        let (first, last) = id.same_short();
        self.tasks.range(first..).next().is_some_and(|(found, _)| *found <= last)
    }

    /// Returns the open tasks whose id begins with this name.
    pub fn tasks_named(&self, name: &TaskRef) -> Vec<&Task> {
        let first = TaskId::parse(&format!("{:0<32}", name.as_str())).ok();
        let last = TaskId::parse(&format!("{:f<32}", name.as_str())).ok();
        match (first, last) {
            (Some(first), Some(last)) => self.tasks.range(first..=last).map(|(_, task)| &**task).collect(),
            _ => Vec::new(),
        }
    }

    fn open(&mut self, message: &MessageId) -> Result<&mut Open, Unfit> {
        self.letters.get_mut(message).ok_or_else(|| Unfit::NoMessage(message.clone()))
    }

    fn placed(&mut self, message: &MessageId) -> Result<(Seq, &mut Mailbox, &mut Trail), Unfit> {
        let open = self.letters.get_mut(message).ok_or_else(|| Unfit::NoMessage(message.clone()))?;
        let mailbox = self.mailboxes.entry(open.letter.to).or_default();
        Ok((open.at, mailbox, &mut open.trail))
    }

    fn task_mut(&mut self, id: &TaskId) -> Result<&mut Task, Unfit> {
        self.tasks.get_mut(id).map(|task| &mut **task).ok_or(Unfit::NoTask(*id))
    }
}
