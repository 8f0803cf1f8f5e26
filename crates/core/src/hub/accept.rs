//! Accepting messages: check rights, route, repeats, loop guard and room, then write
//! one record per receiver.
//!
//! The order matters: a repeat of an accepted message always gets its answer, even if
//! the mailbox is full or the guard has tripped, because the sender only wants to know
//! that its message is safe.

use super::Hub;
use crate::effect::{Answer, Draft, Facts, Fresh, Output, Prior, Taken};
use crate::ids::{AgentId, MessageId, TaskId, Timestamp};
use crate::message::{Chain, Digest, Letter, Sender};
use crate::policy::{About, Caller, Verb};
use crate::record::{Opens, Record};
use crate::refusal::Refusal;
use crate::routes::{self, Candidate, NearFolders, NoRoute, Target};
use crate::task::TaskState;
use crate::watch::Topic;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;

impl Hub {
    pub(super) fn accept(
        &mut self,
        now: Timestamp,
        caller: &Caller,
        draft: Draft,
        facts: &Facts,
        fresh: Fresh,
        out: &mut Output,
    ) -> Result<Answer, Refusal> {
        self.may(caller, Verb::Message, About::default())?;
        if draft.watcher.is_some() {
            self.may(caller, Verb::Read, About::default())?;
        }
        self.check_draft(now, &draft)?;
        let from = caller.sender();
        if let Some(taken) = self.repeated(&from, &draft, facts)? {
            return Ok(Answer::Accepted(vec![taken]));
        }
        let continued = self.continued(caller, &draft, facts)?;
        let receivers = match continued {
            Some((_, agent)) => vec![agent],
            None => self.receivers(&draft.to)?,
        };
        // All or none: if a broadcast were refused halfway, its retry would count as a repeat, and
        // the other receivers would never get it.
        for (n, to) in receivers.iter().enumerate() {
            self.check_room(to, draft.body.bytes() as u64, n, continued.is_some())?;
        }
        let (digest, hops) = (draft.body.digest(), draft.chain.as_ref().map_or(0, |chain| chain.hops));
        for to in &receivers {
            self.pass_guard(now, &from, *to, hops, digest, out)?;
        }
        let mut taken = Vec::with_capacity(receivers.len());
        for (n, to) in receivers.into_iter().enumerate() {
            let task = continued.map(|(task, _)| task);
            let letter = self.letter(now, &from, &draft, digest, to, task, fresh, n);
            if let Some(watcher) = draft.watcher.filter(|_| n == 0) {
                self.watchers.begin(watcher, Topic::Task(letter.task));
            }
            taken.push(self.take_in(now, letter, &draft, continued.is_none(), out));
        }
        Ok(Answer::Accepted(taken))
    }

    fn check_draft(&self, now: Timestamp, draft: &Draft) -> Result<(), Refusal> {
        let (bytes, max) = (draft.body.bytes(), self.limits.message_bytes_max);
        if bytes > max {
            return Err(Refusal::TooLarge { bytes, max });
        }
        draft.check_time(now, self.limits.clock_skew_ms_max)
    }

    /// Returns the earlier result if the same key came with the same content before.
    fn repeated(&self, from: &Sender, draft: &Draft, facts: &Facts) -> Result<Option<Taken>, Refusal> {
        let Some(key) = draft.key(from.who.clone()) else { return Ok(None) };
        let prior = self.recent.by_key.get(key.text().as_str()).or(facts.prior.as_ref());
        match prior {
            None => Ok(None),
            Some(prior) if prior.digest == draft.body.digest() => Ok(Some(Taken {
                message: prior.message.clone(),
                task: prior.task,
                agent: prior.agent,
                duplicate: true,
                ahead: 0,
            })),
            Some(_) => Err(Refusal::Conflict { message: key.message }),
        }
    }

    fn continued(
        &self,
        caller: &Caller,
        draft: &Draft,
        facts: &Facts,
    ) -> Result<Option<(TaskId, AgentId)>, Refusal> {
        let Some(name) = &draft.continues else { return Ok(None) };
        let task = self.open_task(name, facts)?;
        if !matches!(task.state, TaskState::InputRequired | TaskState::AuthRequired) {
            return Err(Refusal::NotNow { task: task.label(), state: task.state });
        }
        // The answer to "may I?" is an approval, however the wire names it.
        if task.state == TaskState::AuthRequired {
            self.may(caller, Verb::Approve, About::default())?;
        }
        Ok(Some((task.id, task.agent)))
    }

    fn receivers(&self, target: &Target) -> Result<Vec<AgentId>, Refusal> {
        // The common case: the node has one agent, and the message is for it.
        if let (Target::Here, 1, Some(only)) =
            (target, self.state.agents.len(), self.state.agents.keys().next())
        {
            return Ok(vec![*only]);
        }
        let candidates: Vec<Candidate> = self
            .state
            .agents
            .values()
            .map(|agent| Candidate {
                id: agent.id,
                kind: agent.kind.clone(),
                name: agent.name.clone(),
                number: None,
                port: agent.port,
                capabilities: agent.capabilities.clone(),
                live: self.presence.contains_key(&agent.id),
                folder: String::new(),
                former_names: Vec::new(),
            })
            .collect();
        let found = routes::resolve(target, &candidates, &NearFolders::default())
            .map_err(|no| refused(target, no))?;
        if let Target::Skill(_) = target {
            let waiting = |id: &AgentId| self.state.mailboxes.get(id).map_or(0, |m| m.len());
            return Ok(found.into_iter().min_by_key(waiting).into_iter().collect());
        }
        Ok(found)
    }

    /// Checks that one more message fits, beside `others` of the same broadcast.
    fn check_room(&self, to: &AgentId, bytes: u64, others: usize, follow_up: bool) -> Result<(), Refusal> {
        if !follow_up && self.state.tasks.len() + others >= self.limits.open_tasks_max {
            return Err(Refusal::TooManyTasks { max: self.limits.open_tasks_max });
        }
        let Some(mailbox) = self.state.mailboxes.get(to) else { return Ok(()) };
        let full = mailbox.len() >= self.limits.mailbox_max;
        if full || mailbox.bytes() + bytes > self.limits.mailbox_bytes_max {
            return Err(Refusal::MailboxFull { agent: self.label_of(to), waiting: mailbox.len() });
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn letter(
        &self,
        now: Timestamp,
        from: &Sender,
        draft: &Draft,
        digest: Digest,
        to: AgentId,
        continues: Option<TaskId>,
        fresh: Fresh,
        n: usize,
    ) -> Letter {
        let id = message_id(nth(fresh.message, n));
        let open = continues.and_then(|task| self.state.tasks.get(&task));
        let (context, tenant) = match open {
            Some(task) => (task.context.clone(), task.tenant.clone()),
            None => (draft.context.clone(), draft.tenant.clone()),
        };
        let chain =
            draft.chain.clone().unwrap_or_else(|| Chain { correlation: id.clone(), parent: None, hops: 0 });
        Letter {
            // Only the first message of a broadcast carries the sender's id: a
            // key names one message.
            sender_id: draft.sender_id.clone().filter(|_| n == 0).unwrap_or_else(|| id.clone()),
            id,
            from: from.clone(),
            to,
            task: continues.unwrap_or_else(|| self.free_task_id(now, nth(fresh.task, n))),
            priority: draft.priority,
            expects: draft.expects,
            chain,
            digest,
            bytes: draft.body.bytes() as u64,
            accepted_at: now,
            follow_up: continues.is_some(),
            context,
            tenant,
        }
    }

    /// Makes a task id whose short form is unique among open tasks; on a clash it
    /// tries the next number.
    fn free_task_id(&self, now: Timestamp, mut bytes: [u8; 16]) -> TaskId {
        loop {
            let id = TaskId::begun(now, bytes);
            if !self.state.has_task_like(&id) {
                return id;
            }
            let head = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]).wrapping_add(1);
            bytes[..4].copy_from_slice(&head.to_be_bytes());
        }
    }

    pub(super) fn pass_guard(
        &mut self,
        now: Timestamp,
        from: &Sender,
        to: AgentId,
        hops: u8,
        digest: Digest,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let passed = self.guard.pass(now, from, to, hops, digest, &self.limits);
        if let Err(refusal) = &passed
            && self.guard.is_news(now, from, to)
        {
            let tripped = Record::Tripped { from: from.label.clone(), to, why: refusal.to_string() };
            self.emit(now, tripped, out);
        }
        passed
    }

    fn take_in(
        &mut self,
        now: Timestamp,
        letter: Letter,
        draft: &Draft,
        opens: bool,
        out: &mut Output,
    ) -> Taken {
        let (message, task, agent) = (letter.id.clone(), letter.task, letter.to);
        let ahead = self.state.mailboxes.get(&agent).map_or(0, |m| m.ahead_of(letter.priority));
        let key = letter.key().text();
        let prior = Prior { agent, message: message.clone(), task, digest: letter.digest };
        let opens = opens.then(|| {
            Box::new(Opens {
                caller_id: draft.caller_task_id.clone(),
                context: draft.context.clone(),
                timeout_ms: draft.timeout_ms,
            })
        });
        let record = Record::Accepted { letter: Arc::new(letter), body: draft.body.clone(), opens };
        self.emit(now, record, out);
        self.recent.add(self.state.seq, &key, prior);
        self.pump(now, agent, out);
        let left_at_once = self.state.letters.get(&message).is_none_or(|open| {
            let mailbox = self.state.mailboxes.get(&agent);
            open.handed || mailbox.is_some_and(|m| m.lease_of(open.at).is_some())
        });
        Taken { message, task, agent, duplicate: false, ahead: if left_at_once { 0 } else { ahead } }
    }
}

fn refused(target: &Target, no: NoRoute) -> Refusal {
    let target = match target {
        Target::Here => "this agent".to_owned(),
        Target::Named(name) => name.clone(),
        Target::Everyone => "broadcast".to_owned(),
        Target::Skill(skill) => format!("skill:{skill}"),
    };
    match no {
        NoRoute::Unknown { nearest, renamed } => Refusal::NoSuchAgent { target, nearest, renamed },
        NoRoute::Ambiguous { choices } => Refusal::Ambiguous { target, choices },
        NoRoute::Moved { was, folder, now } => {
            let was = routes::describe_stopped(&was, &folder);
            Refusal::HandleMoved { target, was, now }
        }
    }
}

impl From<(&Target, NoRoute)> for Refusal {
    fn from((target, no): (&Target, NoRoute)) -> Self {
        refused(target, no)
    }
}

/// Returns the id for the n-th message of a broadcast: the fresh id itself for the first,
/// derived ids for the others.
fn nth(fresh: [u8; 16], n: usize) -> [u8; 16] {
    if n == 0 {
        return fresh;
    }
    let mut hash = Sha256::new();
    hash.update(fresh);
    hash.update(n.to_be_bytes());
    let mut bytes = fresh;
    bytes[6..].copy_from_slice(&hash.finalize()[..10]);
    bytes
}

/// Formats sixteen bytes as a UUID.
fn message_id(bytes: [u8; 16]) -> MessageId {
    let hex = TaskId::from_bytes(bytes).to_string();
    let mut text = String::with_capacity(36);
    for (n, group) in [0..8, 8..12, 12..16, 16..20, 20..32].into_iter().enumerate() {
        if n > 0 {
            text.push('-');
        }
        text.push_str(&hex[group]);
    }
    MessageId::parse(&text).expect("hex digits and dashes are a message id")
}
