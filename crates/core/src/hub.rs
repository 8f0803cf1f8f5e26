//! The hub: one state machine that owns mailboxes, tasks and agents.
//!
//! `handle(now, input)` decides, applies its own records at once, and returns records and effects.
//! The effects may be carried out only after the records are on disk; `cycle` enforces that.
//!
//! Invariants: nothing is acknowledged without a record; a message is in one place; no
//! queue exceeds its limit.
//! Not here: I/O of any kind. `accept` takes messages in, `deliver` hands them out, `tasks` moves
//! and ends tasks, `ask` answers questions.

mod accept;
mod ask;
mod deliver;
mod interrupt;
mod rename;
mod share;
mod tasks;

use crate::agents::{AgentState, Presence};
use crate::effect::{Answer, Command, Effect, EndedTask, Input, Output, Prior};
use crate::guard::Guard;
use crate::ids::{AgentId, AskId, LinkId, Seq, TaskId, Timestamp};
use crate::policy::{self, About, Caller, Rules, Verb};
use crate::record::{Entry, Record};
use crate::refusal::Refusal;
use crate::settings::Limits;
use crate::state::{State, Unfit};
use crate::watch::Watchers;
use deliver::Link;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

#[derive(Debug)]
pub struct Hub {
    limits: Limits,
    state: State,
    // The fields below are volatile: they belong to this run, not to the journal.
    links: BTreeMap<LinkId, Link>,
    presence: BTreeMap<AgentId, Presence>,
    /// Agents that no link serves any more, and since when.
    absent: BTreeMap<AgentId, Timestamp>,
    watchers: Watchers,
    guard: Guard,
    rules: Rules,
    recent: Recent,
    /// Tasks that ended in the current batch; the store does not know them yet.
    ended: Vec<EndedTask>,
    /// Set when a batch was rolled back: messages it delivered wait again,
    /// although links have room.
    rolled_back: bool,
}

impl Hub {
    pub fn new(limits: Limits) -> Self {
        Self::with_state(limits, State::default())
    }

    pub fn with_state(limits: Limits, mut state: State) -> Self {
        state.rebuild_indexes();
        Self {
            limits,
            state,
            links: BTreeMap::new(),
            presence: BTreeMap::new(),
            absent: BTreeMap::new(),
            watchers: Watchers::default(),
            guard: Guard::default(),
            rules: Rules::default(),
            recent: Recent::default(),
            ended: Vec::new(),
            rolled_back: false,
        }
    }

    /// Applies one journaled record during recovery, without any decision or effect.
    pub fn replay(&mut self, entry: &Entry) -> Result<(), Unfit> {
        self.state.apply(entry)
    }

    /// Runs after the last replayed record: returns the messages that were leased when the node
    /// died, without counting a try.
    pub fn restarted(&mut self, now: Timestamp, out: &mut Output) {
        self.return_orphans(now, "the node restarted", out);
        let begun = self.state.tasks.values().filter(|task| task.has_begun());
        self.absent = begun.map(|task| (task.agent, now)).collect();
    }

    pub fn handle(&mut self, now: Timestamp, input: Input, out: &mut Output) {
        match input {
            Input::Asked { ask, caller, command, facts, fresh } => {
                let answer = match command {
                    Command::Send(draft) => self.accept(now, &caller, *draft, &facts, fresh, out),
                    Command::Reply { task, body, failed } => {
                        self.reply(now, &caller, task, body, failed, &facts, out)
                    }
                    Command::Report { message, report } => self.report(now, &caller, &message, report, out),
                    Command::KeepAnswer { task, answer } => {
                        self.keep_answer(now, &caller, &task, answer, &facts, out)
                    }
                    Command::Cancel { task, why } => self.cancel(now, &caller, &task, why, &facts, out),
                    Command::Interrupt { agent, why, draft } => {
                        let draft = draft.map(|draft| *draft);
                        self.interrupt(now, &caller, agent, why, draft, &facts, fresh, out)
                    }
                    Command::Share { agent, text } => self.share(now, &caller, agent, text, out),
                    Command::Follow { agent, on } => self.follow(now, &caller, agent, on, out),
                    Command::Rename { agent, name } => self.rename(now, &caller, agent, name, out),
                    question => self.answer(now, &caller, question, &facts),
                };
                self.tell(ask, answer, out);
            }
            Input::AgentUp { agent, restarted } => {
                let id = agent.id;
                if self.state.agents.get(&id) != Some(&agent) {
                    self.emit(now, Record::Known(agent), out);
                }
                let (state, why) = Presence::first(restarted);
                self.presence_becomes(now, id, state, why, out);
                self.show_context(id, out);
            }
            Input::LinkOpened { link, agent, window, serves, running } => {
                self.open_link(now, link, Link::new(agent, window, serves, running), out);
            }
            Input::LinkClosed { link } => self.close_link(now, link, out),
            Input::Presence { agent, state, why } => self.presence_becomes(now, agent, state, &why, out),
            Input::Heartbeat { agent, beat } => {
                if let Some(presence) = self.presence.get_mut(&agent) {
                    presence.last_seen = now;
                    presence.heartbeat = Some(beat);
                }
            }
            Input::Gate { link, held } => self.gate(now, link, held, out),
            Input::WatcherLeft { watcher } => self.watchers.leave(watcher),
            Input::Rules(rules) => self.rules = rules,
            Input::Clock => {}
        }
        self.expire(now, out);
    }

    /// Returns when `handle(Clock)` must be called even if nothing else happens. After a failed
    /// commit this is at once; a driver whose disk fails pauses between its retries.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let boxes = self.state.mailboxes.values().filter_map(crate::mailbox::Mailbox::next_deadline).min();
        let tasks = self.state.next_timed().map(|(at, _)| at);
        let asking = self.state.longest_asking().map(|(since, _)| since.plus_ms(self.limits.asking_ms));
        let again = self.rolled_back.then_some(Timestamp(0));
        let absent = self.absent.values().map(|since| since.plus_ms(self.limits.absence_ms)).min();
        boxes.into_iter().chain(tasks).chain(asking).chain(again).chain(absent).min()
    }

    /// Call this when the last batch is on disk.
    pub fn stored(&mut self) {
        self.ended.clear();
    }

    /// Call this when the last batch did not reach the disk. The state is what the journal has;
    /// nothing was acknowledged.
    pub fn roll_back(&mut self, mut state: State) {
        state.rebuild_indexes();
        self.watchers.forget_after(state.seq);
        self.recent.forget_after(state.seq);
        self.ended.clear();
        self.state = state;
        for (id, link) in &mut self.links {
            link.resume(*id, &self.state);
        }
        // As after a restart: counts of messages that were never stored would block a
        // sender that only retries.
        self.guard = Guard::default();
        self.rolled_back = true;
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    fn may(&self, caller: &Caller, verb: Verb, about: About<'_>) -> Result<(), Refusal> {
        policy::may(&self.rules, caller, verb, about)
    }

    pub fn presence_of(&self, agent: &AgentId) -> Option<&Presence> {
        self.presence.get(agent)
    }

    pub fn watcher_count(&self) -> usize {
        self.watchers.count()
    }

    /// Whether this sender used this id so recently that the store may not have it yet.
    pub fn recently_accepted(&self, key: &str) -> bool {
        self.recent.by_key.contains_key(key)
    }

    /// Applies a record to the state and notifies the watchers; the only way durable state changes.
    fn emit(&mut self, now: Timestamp, record: Record, out: &mut Output) {
        let entry = Arc::new(Entry { seq: self.state.seq.next(), at: now, record });
        self.state.apply(&entry).expect("a record that was just decided fits the state it was decided on");
        if let Record::Moved { task, to, .. } = &entry.record {
            for link in self.links.values_mut() {
                link.task_moved(task, to.to);
            }
        }
        let limits = &self.limits;
        for watcher in self.watchers.happened(&entry, limits.ring_events_max, limits.ring_bytes_max) {
            out.effects.push(Effect::Notify { watcher, entry: entry.clone() });
        }
        out.entries.push(entry);
    }

    fn tell(&self, ask: AskId, answer: Result<Answer, Refusal>, out: &mut Output) {
        out.effects.push(Effect::Reply { ask, answer: Box::new(answer) });
    }

    fn presence_becomes(
        &mut self,
        now: Timestamp,
        agent: AgentId,
        state: AgentState,
        why: &str,
        out: &mut Output,
    ) {
        let presence =
            self.presence.entry(agent).or_insert_with(|| Presence::new(now, AgentState::Unknown, ""));
        if presence.becomes(now, state, why.to_owned()) {
            out.effects.push(Effect::Presence { agent, presence: presence.clone() });
        }
    }

    fn label_of(&self, agent: &AgentId) -> String {
        self.state.agents.get(agent).map_or_else(|| agent.short(), crate::agents::Agent::label)
    }

    fn held_by(&self, task: &TaskId) -> Option<LinkId> {
        self.links.iter().find(|(_, link)| link.tasks.contains(task)).map(|(id, _)| *id)
    }

    fn who_moves(&self, caller: &Caller) -> String {
        match caller {
            Caller::Hand { agent, .. } => self.label_of(agent),
            other => other.label(),
        }
    }
}

/// Keys accepted so recently that their batch may not be committed yet. The store has the older
/// ones and passes them as facts.
#[derive(Debug, Default)]
struct Recent {
    by_key: HashMap<Arc<str>, Prior>,
    order: VecDeque<(Seq, Arc<str>)>,
}

impl Recent {
    /// Larger than any batch.
    const MAX: usize = 4_096;

    fn add(&mut self, seq: Seq, key: &str, prior: Prior) {
        let key: Arc<str> = key.into();
        self.by_key.insert(key.clone(), prior);
        self.order.push_back((seq, key));
        if self.order.len() > Self::MAX
            && let Some((_, old)) = self.order.pop_front()
        {
            self.by_key.remove(&old);
        }
    }

    fn forget_after(&mut self, seq: Seq) {
        while self.order.back().is_some_and(|(at, _)| *at > seq) {
            if let Some((_, key)) = self.order.pop_back() {
                self.by_key.remove(&key);
            }
        }
    }
}
