//! Delivering messages: links, leases, and what links return.
//!
//! A link with room gets the next message under a lease. A lease ends when the agent has the
//! message, when it expires, or when its link closes; a message that used up its tries
//! becomes a dead letter.

use super::Hub;
use crate::agents::AgentState;
use crate::effect::{Effect, Output, Serves};
use crate::ids::{AgentId, LinkId, MessageId, Seq, TaskId, Timestamp};
use crate::policy::Caller;
use crate::record::Record;
use crate::refusal::Refusal;
use crate::state::State;
use crate::task::{Ending, Move, TaskState};
use std::collections::{BTreeSet, VecDeque};

#[derive(Debug)]
pub(super) struct Link {
    pub(super) agent: AgentId,
    window: usize,
    pub(super) serves: Serves,
    /// Messages leased to this link.
    leased: BTreeSet<MessageId>,
    /// Tasks it works on (only links that serve until the end).
    pub(super) tasks: BTreeSet<TaskId>,
    /// Those of its tasks that wait for input: up to a limit, they do not count against the window.
    asking: BTreeSet<TaskId>,
    /// Recently ended tasks, each with the record that ended it; a roll-back of that
    /// record restores the task.
    ended: VecDeque<(Seq, TaskId)>,
    /// Why nothing is delivered to it now, and since when.
    held: Option<(Timestamp, String)>,
    /// The urgent message that its hand was last notified of.
    urged: Option<Seq>,
}

impl Link {
    pub(super) fn new(agent: AgentId, window: usize, serves: Serves, running: Vec<TaskId>) -> Self {
        let (tasks, ended) = (running.into_iter().collect(), VecDeque::new());
        let held =
            (serves == Serves::Typed).then(|| (Timestamp(0), "its terminal is being looked at".to_owned()));
        let (leased, asking) = (BTreeSet::new(), BTreeSet::new());
        Self { agent, window, serves, leased, tasks, asking, ended, held, urged: None }
    }

    /// Removes a task that ended or returned to its mailbox; a roll-back of the
    /// record at `at` restores it.
    pub(super) fn let_go(&mut self, at: Seq, task: TaskId) {
        /// Larger than the number of tasks that a batch can end on one link.
        const ENDED_MAX: usize = 4_096;
        if self.tasks.remove(&task) {
            self.asking.remove(&task);
            self.ended.push_back((at, task));
            if self.ended.len() > ENDED_MAX {
                self.ended.pop_front();
            }
        }
    }

    /// Whether one of these messages is leased to it.
    pub(super) fn has_any(&self, messages: &[MessageId]) -> bool {
        messages.iter().any(|message| self.leased.contains(message))
    }

    /// Tracks whether the task waits for input after it changed its state.
    pub(super) fn task_moved(&mut self, task: &TaskId, to: TaskState) {
        if !to.asks() {
            self.asking.remove(task);
        } else if self.lends_places() && self.tasks.contains(task) {
            self.asking.insert(*task);
        }
    }

    /// Whether other tasks may run while one waits for input. Not on a terminal: it has one
    /// place, and it stays taken.
    fn lends_places(&self) -> bool {
        matches!(self.serves, Serves::UntilEnded { .. })
    }

    /// Whether it can take another task; up to `asking_max` tasks that wait for input do not count.
    fn has_room(&self, asking_max: usize) -> bool {
        let free = self.asking.len().min(asking_max);
        self.held.is_none() && self.leased.len() + self.tasks.len() - free < self.window
    }

    /// Whether one of its tasks that waits for input may resume. Only working tasks count, so one
    /// can resume even if all of them wait.
    fn has_room_to_resume(&self, task: &TaskId) -> bool {
        let working = self.leased.len() + self.tasks.len() - self.asking.len();
        !self.asking.contains(task) || working < self.window
    }

    /// Whether what it runs can be notified while it works.
    pub(super) fn hears(&self) -> bool {
        !matches!(self.serves, Serves::UntilEnded { hears: false })
    }

    fn wants_notes(&self) -> bool {
        matches!(self.serves, Serves::UntilSeen { notes: true })
    }

    fn look_who_asks(&mut self, state: &State) {
        let asks = |task: &&TaskId| state.tasks.get(*task).is_some_and(|task| task.state.asks());
        self.asking = self.tasks.iter().filter(asks).filter(|_| self.lends_places()).copied().collect();
    }

    /// After a roll-back: sets what this link has from the restored state.
    pub(super) fn resume(&mut self, own: LinkId, state: &State) {
        while let Some((_, task)) = self.ended.pop_back_if(|(at, _)| *at > state.seq) {
            self.tasks.insert(task);
        }
        self.tasks.retain(|task| state.tasks.get(task).is_some_and(|task| task.has_begun()));
        self.look_who_asks(state);
        let mailbox = state.mailboxes.get(&self.agent);
        self.leased = mailbox
            .into_iter()
            .flat_map(crate::mailbox::Mailbox::leases)
            .filter(|(_, lease)| lease.link == own)
            .filter_map(|(at, _)| state.at(at).map(|open| open.letter.id.clone()))
            .collect();
    }
}

impl Hub {
    pub(super) fn open_link(&mut self, now: Timestamp, id: LinkId, mut link: Link, out: &mut Output) {
        let agent = link.agent;
        // A hand lists the tasks it was allowed to begin. A task that is not stored as
        // begun is still in the mailbox, where any link may take it; a task that
        // another link has stays there.
        link.tasks.retain(|task| {
            self.state.tasks.get(task).is_some_and(|task| task.has_begun()) && self.held_by(task).is_none()
        });
        link.look_who_asks(&self.state);
        // A cancel that the last hand did not carry out still applies.
        let stops: Vec<(TaskId, String)> = link
            .tasks
            .iter()
            .filter_map(|id| self.state.tasks.get(id)?.cancel.as_ref().map(|c| (*id, c.why.clone())))
            .collect();
        self.links.insert(id, link);
        self.absent.remove(&agent);
        out.effects.extend(stops.into_iter().map(|(task, why)| Effect::Stop { link: id, task, why }));
        self.show_load(now, agent, out);
        self.pump(now, agent, out);
    }

    pub(super) fn close_link(&mut self, now: Timestamp, id: LinkId, out: &mut Output) {
        let Some(link) = self.links.remove(&id) else { return };
        for message in &link.leased {
            self.give_back(now, message, "its agent went away before it had seen it", true, false, out);
        }
        if !self.links.values().any(|other| other.agent == link.agent) {
            self.absent.insert(link.agent, now);
        }
        self.show_load(now, link.agent, out);
        self.pump(now, link.agent, out);
    }

    /// Returns leases of links that no longer exist, e.g. those of the previous process.
    pub(super) fn return_orphans(&mut self, now: Timestamp, why: &str, out: &mut Output) {
        let orphans: Vec<MessageId> = self
            .state
            .mailboxes
            .values()
            .flat_map(crate::mailbox::Mailbox::leases)
            .filter(|(_, lease)| !self.links.contains_key(&lease.link))
            .filter_map(|(at, _)| self.state.at(at).map(|open| open.letter.id.clone()))
            .collect();
        for message in orphans {
            // Uncounted: this node's process died, not the agent.
            self.give_back(now, &message, why, false, false, out);
        }
    }

    /// Delivers as much as the agent's links have room for.
    pub(super) fn pump(&mut self, now: Timestamp, agent: AgentId, out: &mut Output) {
        if let Some(mailbox) = self.state.mailboxes.get(&agent)
            && mailbox.next_deadline().is_some_and(|at| at <= now)
        {
            self.wake(now, agent);
        }
        self.pump_follow_ups(now, agent, out);
        while let Some((link, at)) = self.next_delivery(now, agent) {
            self.lease(now, link, at, out);
        }
        self.urge(now, agent, out);
        self.show_mail(agent, out);
    }

    /// Shows in the agent's presence how many messages wait for its terminal, and why.
    fn show_mail(&mut self, agent: AgentId, out: &mut Output) {
        let Some(mailbox) = self.state.mailboxes.get(&agent) else { return };
        let waiting = mailbox.waiting().saturating_sub(mailbox.notes());
        let held = self.held_at(&agent).filter(|_| waiting > 0);
        let mail = held.map(|(_, why)| format!("{waiting} waiting: {why}"));
        if let Some(presence) = self.presence.get_mut(&agent)
            && presence.mail != mail
        {
            presence.mail = mail;
            out.effects.push(Effect::Presence { agent, presence: presence.clone() });
        }
    }

    /// Opens or closes the gate of a terminal.
    pub(super) fn gate(&mut self, now: Timestamp, id: LinkId, held: Option<String>, out: &mut Output) {
        let Some(link) = self.links.get_mut(&id) else { return };
        link.held = held.map(|why| match &link.held {
            Some((since, before)) if *before == why => (*since, why),
            _ => (now, why),
        });
        let agent = link.agent;
        self.pump(now, agent, out);
    }

    /// Returns why messages for this agent are held back and since when, if its
    /// terminal is the reason.
    pub(super) fn held_at(&self, agent: &AgentId) -> Option<&(Timestamp, String)> {
        self.links.values().filter(|link| link.agent == *agent).find_map(|link| link.held.as_ref())
    }

    /// Notifies a hand whose gate is closed of a message that may interrupt,
    /// once per message.
    fn urge(&mut self, now: Timestamp, agent: AgentId, out: &mut Output) {
        let Some(mailbox) = self.state.mailboxes.get(&agent) else { return };
        let first = mailbox.first(now, self.limits.ageing_ms, false);
        let Some(at) = first else { return };
        let urgent = self.state.at(at).filter(|open| open.letter.priority.is_urgent());
        let Some(by) = urgent.map(|open| open.letter.from.label.clone()) else { return };
        for (id, link) in self.links.iter_mut().filter(|(_, link)| link.agent == agent) {
            let has_room = link.has_room(self.limits.asking_tasks_max);
            if link.serves == Serves::Typed && !has_room && link.urged != Some(at) {
                link.urged = Some(at);
                out.effects.push(Effect::Urge { link: *id, by: by.clone() });
            }
        }
    }

    fn wake(&mut self, now: Timestamp, agent: AgentId) {
        self.state.wake(now, &agent);
    }

    fn next_delivery(&self, now: Timestamp, agent: AgentId) -> Option<(LinkId, Seq)> {
        let mailbox = self.state.mailboxes.get(&agent)?;
        let asking_max = self.limits.asking_tasks_max;
        let with_room = self.links.iter().filter(|(_, l)| l.agent == agent && l.has_room(asking_max));
        with_room.into_iter().find_map(|(id, link)| {
            let at = mailbox.first(now, self.limits.ageing_ms, link.wants_notes())?;
            Some((*id, at))
        })
    }

    /// Delivers follow-ups to the hand that has their task, before any new message. A follow-up
    /// waits only while the window is full of working tasks.
    fn pump_follow_ups(&mut self, now: Timestamp, agent: AgentId, out: &mut Output) {
        let due: Vec<(LinkId, Seq)> = self
            .links
            .iter()
            .filter(|(_, link)| link.agent == agent)
            .flat_map(|(id, link)| link.tasks.iter().map(|task| (*id, task)))
            .filter_map(|(id, task)| Some((id, self.state.tasks.get(task)?)))
            .filter(|(_, task)| task.messages.len() > 1)
            .flat_map(|(id, task)| task.messages.iter().map(move |m| (id, m)))
            .filter_map(|(id, message)| Some((id, self.state.letters.get(message)?)))
            .filter(|(_, open)| open.letter.follow_up && !open.handed)
            .filter(|(_, open)| self.state.mailboxes[&agent].is_waiting(open.at))
            .map(|(id, open)| (id, open.at))
            .collect();
        for (link, at) in due {
            let Some(task) = self.state.at(at).map(|open| open.letter.task) else { continue };
            let may_resume = self.links[&link].has_room_to_resume(&task);
            if may_resume && self.state.mailboxes[&agent].is_waiting(at) {
                self.lease(now, link, at, out);
            }
        }
    }

    fn lease(&mut self, now: Timestamp, id: LinkId, at: Seq, out: &mut Output) {
        let Some(open) = self.state.at(at) else { return };
        let letter = open.letter.clone();
        let until = now.plus_ms(self.limits.lease_ms);
        self.emit(
            now,
            Record::Leased { message: letter.id.clone(), task: letter.task, link: id, until },
            out,
        );
        let mailbox = self.state.mailboxes.get(&letter.to);
        let tries = mailbox.and_then(|mailbox| mailbox.lease_of(at)).map_or(1, |lease| lease.slot.tries);
        let mut notes = mailbox.map_or(0, crate::mailbox::Mailbox::notes);
        if let Some(link) = self.links.get_mut(&id) {
            link.leased.insert(letter.id.clone());
            notes = if link.wants_notes() { 0 } else { notes };
        }
        let body = self.watchers.at(at).and_then(|entry| entry.record.body().cloned());
        out.effects.push(Effect::Deliver { link: id, letter, tries, notes, body });
    }

    /// Ends a lease: the message returns to the mailbox, or becomes a dead letter if
    /// its tries are used up.
    pub(super) fn give_back(
        &mut self,
        now: Timestamp,
        message: &MessageId,
        why: &str,
        counted: bool,
        rest: bool,
        out: &mut Output,
    ) {
        let Some(open) = self.state.letters.get(message) else { return };
        let (at, agent, task) = (open.at, open.letter.to, open.letter.task);
        let Some(lease) = self.state.mailboxes.get(&agent).and_then(|m| m.lease_of(at)) else { return };
        let (tries, link) = (lease.slot.tries, lease.link);
        if let Some(link) = self.links.get_mut(&link) {
            link.leased.remove(message);
        }
        if counted && tries >= self.limits.tries_max {
            let why = format!("not taken after {tries} tries; the last time: {why}");
            let ending =
                Ending { state: TaskState::Failed, by: "node".into(), why, answer: None, direct: false };
            self.end(now, task, ending, true, out);
            return;
        }
        let delay_ms = self.limits.retry_delay_ms << u32::from(tries.saturating_sub(1)).min(16);
        let rest_until = rest.then(|| now.plus_ms(delay_ms));
        let record =
            Record::Returned { message: message.clone(), task, why: why.to_owned(), rest_until, counted };
        self.emit(now, record, out);
    }

    /// Returns a message to the mailbox after a hand had begun to write it. Its task gets
    /// its earlier state back.
    pub(super) fn put_back(
        &mut self,
        now: Timestamp,
        caller: &Caller,
        message: &MessageId,
        why: &str,
        rest_ms: u64,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let open = self.open_message(message)?;
        let (id, agent, follow_up) = (open.letter.task, open.letter.to, open.letter.follow_up);
        let is_written = open.handed && !follow_up && !self.is_of_another(caller, &id);
        let Some(task) = self.state.tasks.get(&id) else { return Ok(()) };
        if !is_written || task.state != TaskState::Working {
            return Err(Refusal::NotNow { task: task.label(), state: task.state });
        }
        let by = self.who_moves(caller);
        let end = |state, why: String| Ending { state, by: by.clone(), why, answer: None, direct: false };
        if task.cancel.is_some() {
            self.end(now, id, end(TaskState::Canceled, why.to_owned()), false, out);
            return Ok(());
        }
        if task.history.len() >= self.limits.moves_max {
            let why = format!("it changed its state {} times; the last time: {why}", self.limits.moves_max);
            self.end(now, id, end(TaskState::Failed, why), false, out);
            return Ok(());
        }
        let rest_until = Some(now.plus_ms(rest_ms));
        let (message, why) = (message.clone(), why.to_owned());
        let returned = Record::Returned { message, task: id, why: why.clone(), rest_until, counted: false };
        self.emit(now, returned, out);
        let to = Move { at: now, to: TaskState::Submitted, by, why };
        self.emit(now, Record::Moved { task: id, to, said: None }, out);
        self.links.values_mut().for_each(|link| link.let_go(self.state.seq, id));
        self.show_load(now, agent, out);
        self.pump(now, agent, out);
        Ok(())
    }

    /// Ends the lease because the agent has the message.
    pub(super) fn lease_done(&mut self, message: &MessageId) {
        for link in self.links.values_mut() {
            link.leased.remove(message);
        }
    }

    /// Handles everything that time alone causes: expired leases, ended rests, timed-out tasks.
    pub(super) fn expire(&mut self, now: Timestamp, out: &mut Output) {
        self.time_out(now, out);
        self.give_up_asking(now, out);
        self.end_abandoned(now, out);
        let due: Vec<AgentId> = self
            .state
            .mailboxes
            .iter()
            .filter(|(_, mailbox)| self.rolled_back || mailbox.next_deadline().is_some_and(|at| at <= now))
            .map(|(agent, _)| *agent)
            .collect();
        self.rolled_back = false;
        for agent in due {
            let expired: Vec<MessageId> = self.state.mailboxes[&agent]
                .leases()
                .filter(|(_, lease)| lease.until <= now)
                .filter_map(|(at, _)| self.state.at(at).map(|open| open.letter.id.clone()))
                .collect();
            for message in expired {
                self.give_back(now, &message, "its lease ran out", true, true, out);
            }
            self.pump(now, agent, out);
        }
    }

    /// Shows an agent behind a hand as busy while it has a task, and one behind a
    /// program as idle or offline.
    pub(super) fn show_load(&mut self, now: Timestamp, agent: AgentId, out: &mut Output) {
        let links: Vec<&Link> = self.links.values().filter(|link| link.agent == agent).collect();
        // A terminal's state comes from its screen; the tasks it was given do not override that.
        if links.iter().any(|link| link.serves == Serves::Typed) {
            return;
        }
        let asking: usize = links.iter().map(|link| link.asking.len()).sum();
        let working: Vec<&TaskId> =
            links.iter().flat_map(|link| link.tasks.difference(&link.asking)).collect();
        let (state, why) = match (links.is_empty(), working.as_slice(), asking) {
            (true, ..) => (AgentState::Offline, "nothing takes its messages".to_owned()),
            (false, [], 0) => (AgentState::Idle, "no task".to_owned()),
            (false, [], 1) => (AgentState::Waiting, "a task waits for input".to_owned()),
            (false, [], several) => (AgentState::Waiting, format!("{several} tasks wait for input")),
            (false, [one], _) => (AgentState::Busy, format!("task {}", one.short())),
            (false, several, _) => (AgentState::Busy, format!("{} tasks", several.len())),
        };
        self.presence_becomes(now, agent, state, &why, out);
    }
}
