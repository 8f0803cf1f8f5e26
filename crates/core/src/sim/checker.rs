//! The checker of one node: follows every committed record and verifies what each may claim.
//!
//! It applies the journal to a state of its own, which serves as the replay to compare the live
//! state with. It also keeps what the hub does not: which lease was really delivered, which step a
//! program really reported, and which key belongs to which message.

use super::{Broken, Rule};
use crate::effect::Serves;
use crate::ids::{AgentId, LinkId, MessageId, Seq, TaskId, Timestamp};
use crate::mailbox::{self, Slot};
use crate::message::Letter;
use crate::receipt::{Happened, Step, Trail};
use crate::record::{Archive, Entry, Record};
use crate::settings::Limits;
use crate::state::State;
use crate::task::{Ending, TaskState};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Checker {
    pub(super) state: State,
    limits: Limits,
    keys: BTreeMap<(String, AgentId), MessageId>,
    ended: BTreeMap<TaskId, TaskState>,
    /// Messages that rest: until when, and whether a turn has woken them since.
    rests: BTreeMap<MessageId, (Timestamp, bool)>,
    /// Leases whose message was not delivered to the link yet.
    to_hand: BTreeSet<(MessageId, LinkId)>,
    pub(super) links: BTreeMap<LinkId, Serves>,
    /// Messages that reached a program at least once.
    pub(super) delivered: BTreeSet<MessageId>,
    /// Steps that programs reported, whether or not the node received the report.
    pub(super) said: BTreeSet<(MessageId, Step)>,
    /// Endings that somebody requested or reported.
    pub(super) wished: BTreeSet<(TaskId, TaskState)>,
    pub(super) answered: BTreeSet<TaskId>,
    pub(super) dead_letters: u64,
}

fn broken(rule: Rule, what: String) -> Result<(), Broken> {
    Err(Broken { rule, what })
}

impl Checker {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            state: State::default(),
            limits,
            keys: BTreeMap::new(),
            ended: BTreeMap::new(),
            rests: BTreeMap::new(),
            to_hand: BTreeSet::new(),
            links: BTreeMap::new(),
            delivered: BTreeSet::new(),
            said: BTreeSet::new(),
            wished: BTreeSet::new(),
            answered: BTreeSet::new(),
            dead_letters: 0,
        }
    }

    /// Checks and applies entries that were just committed.
    pub(super) fn committed(&mut self, entries: &[Arc<Entry>]) -> Result<(), Broken> {
        for entry in entries {
            self.before(entry)?;
            let applied = self.state.apply(entry);
            applied.map_err(|unfit| {
                let what = format!("the journal does not fit itself at {}: {unfit}", entry.record.name());
                Broken::new(Rule::ReplayIsTheLiveState, what)
            })?;
            self.after(entry)?;
        }
        Ok(())
    }

    fn before(&mut self, entry: &Entry) -> Result<(), Broken> {
        match &entry.record {
            Record::Accepted { letter, .. } => self.accepted(letter),
            Record::Leased { message, link, .. } => self.leased(entry.at, message, *link),
            Record::Handed { message, what, .. } | Record::Marked { message, what, .. } => {
                self.marked(message, what)
            }
            Record::Moved { task, .. } if self.ended.contains_key(task) => {
                broken(Rule::TerminalStatesStay, format!("task {} moves again", task.short()))
            }
            Record::Ended { task, ending, archive } => self.ended(entry.at, *task, ending, archive),
            _ => Ok(()),
        }
    }

    fn accepted(&mut self, letter: &Letter) -> Result<(), Broken> {
        let key = (letter.key().text(), letter.to);
        if let Some(old) = self.keys.insert(key, letter.id.clone()) {
            let what = format!("key {} was {old} and is now {}", letter.sender_id, letter.id);
            return broken(Rule::OneEffectPerKey, what);
        }
        Ok(())
    }

    fn marked(&mut self, message: &MessageId, what: &Happened) -> Result<(), Broken> {
        let Happened::Step(step) = what else { return Ok(()) };
        if *step < Step::Written || self.said.contains(&(message.clone(), *step)) {
            return Ok(());
        }
        broken(Rule::ReceiptsAreHonest, format!("{message} is called {} and nobody said so", step.name()))
    }

    /// Checks that no waiting message that this link could take has a higher level, or an
    /// equal one and is older.
    fn leased(&mut self, now: Timestamp, message: &MessageId, link: LinkId) -> Result<(), Broken> {
        let Some(open) = self.state.letters.get(message) else { return Ok(()) };
        if open.letter.follow_up {
            return Ok(());
        }
        let notes = matches!(self.links.get(&link), Some(Serves::UntilSeen { notes: true }));
        let rank = |letter: &Letter, at: Seq| {
            let slot = Slot { priority: letter.priority, since: letter.accepted_at, bytes: 0, tries: 0 };
            (mailbox::level(&slot, now, self.limits.ageing_ms), std::cmp::Reverse(at))
        };
        let own = rank(&open.letter, open.at);
        let Some(mailbox) = self.state.mailboxes.get(&open.letter.to) else { return Ok(()) };
        let mut heads: BTreeMap<u8, (Seq, &Letter)> = BTreeMap::new();
        for at in mailbox.ids() {
            let Some(other) = self.state.at(at) else { continue };
            let letter = &other.letter;
            let rests = self.rests.get(&letter.id).is_some_and(|(until, woken)| !woken && *until > now);
            let may_go = notes || !letter.priority.is_note();
            if mailbox.lease_of(at).is_none() && !rests && may_go {
                heads.entry(letter.priority.level()).or_insert((at, letter));
            }
        }
        for (at, letter) in heads.values() {
            if rank(letter, *at) > own {
                let what = format!(
                    "{message} (level {}) leaves before {} (level {})",
                    own.0,
                    letter.id,
                    rank(letter, *at).0
                );
                return broken(Rule::HigherGoesFirst, what);
            }
        }
        Ok(())
    }

    fn ended(
        &mut self,
        now: Timestamp,
        id: TaskId,
        ending: &Ending,
        archive: &Archive,
    ) -> Result<(), Broken> {
        if let Some(before) = self.ended.insert(id, ending.state) {
            let what = format!("task {} was {} and ends again", id.short(), before.name());
            return broken(Rule::TerminalStatesStay, what);
        }
        let task = self.state.tasks.get(&id);
        let timed_out = task.and_then(|t| t.deadline).is_some_and(|deadline| deadline <= now);
        let expires = |since: Timestamp| since.plus_ms(self.limits.asking_ms) <= now;
        let unanswered = task.and_then(|t| t.asks_since()).is_some_and(expires);
        let worn_out = task.is_some_and(|t| t.history.len() >= self.limits.moves_max);
        let wished = self.wished.contains(&(id, ending.state));
        let seen =
            archive.trails.iter().any(|(message, _)| self.said.contains(&(message.clone(), Step::Seen)));
        let legal = match ending.state {
            _ if wished => true,
            _ if !self.delivered.contains(&archive.task.messages[0]) => false,
            TaskState::Completed => seen,
            TaskState::Failed if archive.dead_letter => return self.dead_letter(id, archive),
            TaskState::Failed => timed_out || unanswered || worn_out || ending.why.contains("went away"),
            _ => false,
        };
        if !legal {
            let what = format!(
                "task {} ended {} ({}) and nobody asked",
                id.short(),
                ending.state.name(),
                ending.why
            );
            return broken(Rule::NothingAcknowledgedIsLost, what);
        }
        archive.trails.iter().try_for_each(|(message, trail)| self.honest(message, id, trail))
    }

    fn dead_letter(&mut self, id: TaskId, archive: &Archive) -> Result<(), Broken> {
        self.dead_letters += 1;
        let tried = archive.task.messages.iter().filter_map(|message| {
            let open = self.state.letters.get(message)?;
            Some(self.state.mailboxes.get(&open.letter.to)?.lease_of(open.at)?.slot.tries)
        });
        if tried.max() < Some(self.limits.tries_max) {
            let what = format!("task {} is a dead letter before its tries are used up", id.short());
            return broken(Rule::NothingAcknowledgedIsLost, what);
        }
        Ok(())
    }

    /// Checks that every step of a trail was really observed.
    pub(super) fn honest(&self, message: &MessageId, task: TaskId, trail: &Trail) -> Result<(), Broken> {
        let open = self.state.letters.get(message);
        let reached = |letter: &Letter| !letter.follow_up || self.delivered.contains(message);
        for mark in trail.marks() {
            let Happened::Step(step) = mark.what else { continue };
            let proven = match step {
                Step::Accepted | Step::Stored | Step::Leased => true,
                Step::Answered => self.answered.contains(&task) && open.is_none_or(|o| reached(&o.letter)),
                // An inbox reader reported it by hand; that was checked when
                // the record was written.
                Step::Seen => true,
                step => self.said.contains(&(message.clone(), step)),
            };
            if !proven {
                let what = format!("the receipt of {message} says {} without proof", step.name());
                return broken(Rule::ReceiptsAreHonest, what);
            }
        }
        Ok(())
    }

    fn after(&mut self, entry: &Entry) -> Result<(), Broken> {
        match &entry.record {
            Record::Leased { message, link, .. } => {
                self.rests.remove(message);
                self.to_hand.insert((message.clone(), *link));
            }
            Record::Returned { message, rest_until: Some(until), .. } => {
                self.rests.insert(message.clone(), (*until, false));
            }
            Record::Handed { message, .. } => {
                self.rests.remove(message);
            }
            Record::Ended { archive, .. } => {
                for message in &archive.task.messages {
                    self.rests.remove(message);
                }
            }
            Record::Accepted { letter, .. } => return self.bounded(&letter.to),
            _ => {}
        }
        Ok(())
    }

    fn bounded(&self, agent: &AgentId) -> Result<(), Broken> {
        let Some(mailbox) = self.state.mailboxes.get(agent) else { return Ok(()) };
        let limits = &self.limits;
        let fits = mailbox.len() <= limits.mailbox_max
            && mailbox.bytes() <= limits.mailbox_bytes_max
            && self.state.tasks.len() <= limits.open_tasks_max;
        if fits {
            return Ok(());
        }
        let what = format!(
            "{} messages, {} bytes, {} tasks",
            mailbox.len(),
            mailbox.bytes(),
            self.state.tasks.len()
        );
        broken(Rule::NoQueuePassesItsBound, what)
    }

    /// A turn at this time woke the messages that had rested long enough.
    pub(super) fn turned(&mut self, now: Timestamp) {
        for (until, woken) in self.rests.values_mut() {
            *woken |= *until <= now;
        }
    }

    /// The process died and will deliver nothing more.
    pub(super) fn crashed(&mut self) {
        self.to_hand.clear();
        self.links.clear();
    }

    /// The live state was loaded from the journal again: woken messages rest once more, unless a
    /// snapshot was taken after they woke.
    pub(super) fn reread(&mut self, live: &State) {
        for (message, (_, woken)) in &mut self.rests {
            let open = live.letters.get(message);
            *woken =
                open.is_some_and(|o| live.mailboxes.get(&o.letter.to).is_some_and(|m| m.is_waiting(o.at)));
        }
    }

    /// Checks that a message delivered to a link has its own lease there.
    pub(super) fn hands_out(&mut self, message: &MessageId, link: LinkId) -> Result<(), Broken> {
        self.delivered.insert(message.clone());
        if self.to_hand.remove(&(message.clone(), link)) {
            return Ok(());
        }
        let what = format!("{message} is handed to link {} without a lease of its own", link.0);
        broken(Rule::NoMessageInTwoPlaces, what)
    }

    /// Checks that every open message is in exactly one place: in its mailbox
    /// once, or with its agent.
    pub(super) fn one_place(live: &State) -> Result<(), Broken> {
        let mut placed = 0;
        for (agent, mailbox) in &live.mailboxes {
            let ids = mailbox.ids();
            if ids.len() != mailbox.len() {
                let what = format!("a message of {} lies in two lanes", agent.short());
                return broken(Rule::NoMessageInTwoPlaces, what);
            }
            for at in ids {
                match live.at(at) {
                    Some(open) if open.letter.to == *agent && !open.handed => placed += 1,
                    Some(open) => {
                        let what = format!("{} is handed over and still in a mailbox", open.letter.id);
                        return broken(Rule::NoMessageInTwoPlaces, what);
                    }
                    None => {
                        let what = format!("place {} of a mailbox holds nothing known", at.0);
                        return broken(Rule::NoMessageInTwoPlaces, what);
                    }
                }
            }
        }
        let waiting = live.letters.values().filter(|open| !open.handed).count();
        if placed != waiting {
            let what = format!("{waiting} messages wait, {placed} lie in mailboxes");
            return broken(Rule::NoMessageInTwoPlaces, what);
        }
        Ok(())
    }
}

/// Whether two states are equal once all resting messages are woken.
pub(super) fn same(one: &State, other: &State) -> bool {
    let woken = |state: &State| {
        let mut state = state.clone();
        state.mailboxes.values_mut().for_each(mailbox::Mailbox::wake_all);
        state
    };
    one.seq == other.seq && woken(one) == woken(other)
}
