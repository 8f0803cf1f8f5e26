//! Tasks change state and end: by reports of their agent, replies, cancels and timeouts.

use super::Hub;
use super::deliver::Link;
use crate::effect::{Answer, Effect, EndedTask, Facts, Output, Replied, Report};
use crate::ids::{AgentId, MessageId, TaskId, TaskRef, Timestamp};
use crate::message::{Body, Expects};
use crate::policy::{About, Caller, Verb};
use crate::receipt::{Happened, Step};
use crate::record::{Archive, Record, Said};
use crate::refusal::Refusal;
use crate::state::Open;
use crate::task::{CancelAsked, Ending, Move, Task, TaskState};

impl Hub {
    pub(super) fn report(
        &mut self,
        now: Timestamp,
        caller: &Caller,
        message: &MessageId,
        report: Report,
        out: &mut Output,
    ) -> Result<Answer, Refusal> {
        let open = self.open_message(message)?;
        let (task, handed, agent) = (open.letter.task, open.handed, open.letter.to);
        self.may(caller, Verb::Report, About { worker: Some(agent), requester: None })?;
        let by = self.who_moves(caller);
        let begins_or_ends = matches!(report, Report::Writing | Report::Working | Report::Refused { .. });
        if begins_or_ends && handed && self.is_of_another(caller, &task) {
            let state = self.state.tasks.get(&task).map_or(TaskState::Working, |t| t.state);
            return Err(Refusal::NotNow { task: task.short(), state });
        }
        match report {
            Report::Step(Step::Seen) => self.seen(now, caller, message, Step::Seen, by, out),
            Report::Step(Step::Submitted) if open.letter.follow_up => {
                self.seen(now, caller, message, Step::Submitted, by, out);
            }
            Report::Step(step) => self.mark(now, task, message, Happened::Step(step), out),
            Report::Writing => self.write(now, caller, message, by, out),
            Report::Held { why } if !handed => {
                self.give_back(now, message, &why, false, false, out);
                self.pump(now, agent, out);
            }
            Report::Held { why } => self.mark(now, task, message, Happened::Held(why), out),
            Report::NotSubmitted { why, rest_ms } => {
                self.put_back(now, caller, message, &why, rest_ms, out)?
            }
            Report::Unsure { why } => self.mark(now, task, message, Happened::Unknown(why), out),
            Report::Working => self.begin(now, caller, message, by, out),
            Report::Said(said) => self.say(now, task, said, out)?,
            Report::NeedsInput { prompt, auth } => {
                let to = if auth { TaskState::AuthRequired } else { TaskState::InputRequired };
                self.move_task(now, task, to, by, "it asks".into(), Some(prompt), out)?;
                self.make_room(now, agent, out);
            }
            Report::Message { body } => {
                let (state, why) = (TaskState::Completed, "answered with a message".to_owned());
                self.end(now, task, Ending { state, by, why, answer: Some(body), direct: true }, false, out);
            }
            Report::Refused { why } if !handed => {
                self.give_back(now, message, &why, true, true, out);
                self.pump(now, agent, out);
            }
            Report::Refused { why } => {
                let ending = Ending { state: TaskState::Failed, by, why, answer: None, direct: false };
                self.end(now, task, ending, false, out);
            }
            Report::Done { state, answer, why } => {
                if !state.is_terminal() {
                    return Err(Refusal::bad_field("state", format!("{} does not end a task", state.name())));
                }
                self.end(now, task, Ending { state, by, why, answer, direct: false }, false, out);
            }
        }
        Ok(Answer::Done)
    }

    fn mark(&mut self, now: Timestamp, task: TaskId, message: &MessageId, what: Happened, out: &mut Output) {
        self.emit(now, Record::Marked { message: message.clone(), task, what }, out);
    }

    /// Lets others use the place of a task that waits for an answer.
    fn make_room(&mut self, now: Timestamp, agent: AgentId, out: &mut Output) {
        self.show_load(now, agent, out);
        self.pump(now, agent, out);
    }

    /// Whether the caller is a hand that never had this task, or lost it. Another hand may be
    /// working on it, and the task must not begin twice.
    pub(super) fn is_of_another(&self, caller: &Caller, task: &TaskId) -> bool {
        let Caller::Hand { link, .. } = caller else { return false };
        self.links.get(link).is_none_or(|l| l.serves.until_ended() && !l.tasks.contains(task))
    }

    /// The agent has the message. A one-way message is then complete; otherwise
    /// its task is now working.
    pub(super) fn seen(
        &mut self,
        now: Timestamp,
        caller: &Caller,
        message: &MessageId,
        step: Step,
        by: String,
        out: &mut Output,
    ) {
        self.hand_over(now, caller, message, Happened::Step(step), out);
        let Some(open) = self.state.letters.get(message) else { return };
        let (task, agent) = (open.letter.task, open.letter.to);
        let serves_until_ended = matches!(caller, Caller::Hand { link, .. }
            if self.links.get(link).is_some_and(|l| l.serves.until_ended()));
        if open.letter.expects == Expects::Receipt && !open.letter.follow_up && !serves_until_ended {
            let ending =
                Ending { state: TaskState::Completed, by, why: "seen".into(), answer: None, direct: false };
            self.end(now, task, ending, false, out);
        } else {
            self.move_quietly(now, task, by, step.name(), out);
            self.show_load(now, agent, out);
        }
        self.pump(now, agent, out);
    }

    /// Journaled before the first byte is written, so that a crash leaves a record that part of
    /// it may be there.
    fn write(&mut self, now: Timestamp, caller: &Caller, message: &MessageId, by: String, out: &mut Output) {
        const WRITING: &str = "it is being written";
        self.hand_over(now, caller, message, Happened::Held(WRITING.into()), out);
        if let Some(task) = self.state.letters.get(message).map(|open| open.letter.task) {
            self.move_quietly(now, task, by, WRITING, out);
        }
    }

    fn begin(&mut self, now: Timestamp, caller: &Caller, message: &MessageId, by: String, out: &mut Output) {
        self.hand_over(now, caller, message, Happened::Step(Step::Submitted), out);
        let Some(open) = self.state.letters.get(message) else { return };
        let (task, agent) = (open.letter.task, open.letter.to);
        self.move_quietly(now, task, by, "started", out);
        self.show_load(now, agent, out);
    }

    /// Takes the message out of its mailbox; a hand that serves until the end now has its task.
    fn hand_over(
        &mut self,
        now: Timestamp,
        caller: &Caller,
        message: &MessageId,
        what: Happened,
        out: &mut Output,
    ) {
        let Some(open) = self.state.letters.get(message) else { return };
        if let Caller::Hand { link, .. } = caller
            && !open.handed
            && !open.letter.follow_up
            && let Some(link) = self.links.get_mut(link).filter(|l| l.serves.until_ended())
        {
            link.tasks.insert(open.letter.task);
        }
        let task = open.letter.task;
        let record = if open.handed {
            Record::Marked { message: message.clone(), task, what }
        } else {
            Record::Handed { message: message.clone(), task, what }
        };
        self.emit(now, record, out);
        self.lease_done(message);
    }

    /// Moves the task to working, if that is a legal move.
    fn move_quietly(&mut self, now: Timestamp, task: TaskId, by: String, why: &str, out: &mut Output) {
        let may = self.state.tasks.get(&task).is_some_and(|t| t.state.may_become(TaskState::Working));
        if may {
            let to = Move { at: now, to: TaskState::Working, by, why: why.to_owned() };
            self.emit(now, Record::Moved { task, to, said: None }, out);
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn move_task(
        &mut self,
        now: Timestamp,
        id: TaskId,
        to: TaskState,
        by: String,
        why: String,
        said: Option<Body>,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let Some(task) = self.state.tasks.get(&id) else { return Ok(()) };
        if task.history.len() >= self.limits.moves_max {
            let why = format!("it changed its state {} times", self.limits.moves_max);
            self.end(
                now,
                id,
                Ending { state: TaskState::Failed, by: "node".into(), why, answer: None, direct: false },
                false,
                out,
            );
            return Ok(());
        }
        self.check_said(task, said.as_ref().map_or(0, Body::bytes))?;
        if !task.state.may_become(to) {
            return Err(Refusal::NotNow { task: task.label(), state: task.state });
        }
        self.emit(now, Record::Moved { task: id, to: Move { at: now, to, by, why }, said }, out);
        Ok(())
    }

    fn say(&mut self, now: Timestamp, task: TaskId, mut said: Said, out: &mut Output) -> Result<(), Refusal> {
        let bytes = match &said {
            Said::Progress { text, .. } => text.len(),
            Said::Artifact { content, .. } => content.bytes(),
        };
        if let Some(open) = self.state.tasks.get(&task) {
            self.check_said(open, bytes)?;
            if let Said::Artifact { id, name, append, .. } = &mut said
                && id.is_empty()
            {
                *id = open.artifacts.next_id(name.as_deref(), *append);
            }
        }
        self.emit(now, Record::Said { task, what: said }, out);
        Ok(())
    }

    fn check_said(&self, task: &Task, bytes: usize) -> Result<(), Refusal> {
        let max = self.limits.artifact_bytes_max;
        if task.said_bytes + bytes as u64 > max {
            let bytes = usize::try_from(task.said_bytes).unwrap_or(usize::MAX).saturating_add(bytes);
            return Err(Refusal::TooLarge { bytes, max: usize::try_from(max).unwrap_or(usize::MAX) });
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn reply(
        &mut self,
        now: Timestamp,
        caller: &Caller,
        task: Option<TaskRef>,
        body: Body,
        failed: bool,
        facts: &Facts,
        out: &mut Output,
    ) -> Result<Answer, Refusal> {
        if body.bytes() > self.limits.message_bytes_max {
            return Err(Refusal::TooLarge { bytes: body.bytes(), max: self.limits.message_bytes_max });
        }
        let found = match &task {
            Some(name) => self.find_open(name)?,
            None => self.last_handed(caller),
        };
        let Some(open) = found else {
            let EndedTask { id, agent, requester, message, .. } = self.ended_task(task.as_ref(), facts)?;
            self.may(caller, Verb::Report, About { worker: Some(agent), requester: None })?;
            return Ok(Answer::Replied(Replied::Send { to: requester, task: id, parent: message }));
        };
        self.may(caller, Verb::Report, About { worker: Some(open.agent), requester: None })?;
        let (id, requester, parent) = (open.id, open.requester.clone(), open.messages[0].clone());
        if open.expects == Expects::Receipt {
            return Ok(Answer::Replied(Replied::Send { to: requester, task: id, parent }));
        }
        let state = if failed { TaskState::Failed } else { TaskState::Completed };
        let ending = Ending {
            state,
            by: self.who_moves(caller),
            why: "replied".into(),
            answer: Some(body),
            direct: false,
        };
        self.end(now, id, ending, false, out);
        Ok(Answer::Replied(Replied::Completed { task: id }))
    }

    /// Keeps the answer to a one-way message. Its task has ended and does not
    /// change; nobody waits for it.
    pub(super) fn keep_answer(
        &mut self,
        now: Timestamp,
        caller: &Caller,
        task: &TaskRef,
        answer: Body,
        facts: &Facts,
        out: &mut Output,
    ) -> Result<Answer, Refusal> {
        if answer.bytes() > self.limits.message_bytes_max {
            return Err(Refusal::TooLarge { bytes: answer.bytes(), max: self.limits.message_bytes_max });
        }
        if let Some(open) = self.find_open(task)? {
            return Err(Refusal::NotNow { task: open.label(), state: open.state });
        }
        let EndedTask { id, agent, .. } = self.ended_task(Some(task), facts)?;
        self.may(caller, Verb::Report, About { worker: Some(agent), requester: None })?;
        self.emit(now, Record::Said { task: id, what: Said::late_answer(answer) }, out);
        Ok(Answer::Done)
    }

    pub(super) fn cancel(
        &mut self,
        now: Timestamp,
        caller: &Caller,
        name: &TaskRef,
        why: String,
        facts: &Facts,
        out: &mut Output,
    ) -> Result<Answer, Refusal> {
        let task = self.open_task(name, facts)?;
        let (id, by) = (task.id, self.who_moves(caller));
        self.may(caller, Verb::Cancel, About { worker: None, requester: Some(&task.requester.who) })?;
        match self.held_by(&id) {
            Some(link) => {
                let asked = CancelAsked { by, why: why.clone() };
                self.emit(now, Record::CancelAsked { task: id, asked }, out);
                out.effects.push(Effect::Stop { link, task: id, why });
            }
            None => {
                self.tell_to_stop(&id, &why, out);
                self.end(
                    now,
                    id,
                    Ending { state: TaskState::Canceled, by, why, answer: None, direct: false },
                    false,
                    out,
                );
            }
        }
        Ok(Answer::Done)
    }

    /// Ends a task; the only way one ends. Closes its trails, writes all of it to the
    /// archive, and frees its place.
    pub(super) fn end(
        &mut self,
        now: Timestamp,
        id: TaskId,
        mut ending: Ending,
        dead_letter: bool,
        out: &mut Output,
    ) {
        let Some(task) = self.state.tasks.get(&id) else { return };
        let mut archived = (**task).clone();
        if let (Some(asked), TaskState::Canceled) = (&task.cancel, ending.state) {
            (ending.by, ending.why) = (asked.by.clone(), asked.why.clone());
        }
        let last = Happened::Failed(format!("{}: {}", ending.state.name(), ending.why));
        let last = match (ending.state, &ending.answer) {
            (TaskState::Completed, Some(_)) => Some(Happened::Step(Step::Answered)),
            (TaskState::Completed, None) => None,
            _ => Some(last),
        };
        let trails = task
            .messages
            .iter()
            .filter_map(|message| Some((message.clone(), self.state.letters.get(message)?)))
            .map(|(message, open)| {
                let mut trail = open.trail.clone();
                if open.letter.follow_up && !open.handed {
                    trail.add(now, Happened::Failed("its task ended before it was taken".into()));
                } else if let Some(last) = &last {
                    trail.add(now, last.clone());
                }
                (message, trail)
            })
            .collect();
        archived.state = ending.state;
        archived.history.push(Move {
            at: now,
            to: ending.state,
            by: ending.by.clone(),
            why: ending.why.clone(),
        });
        let (agent, messages) = (archived.agent, archived.messages.clone());
        self.ended.push(EndedTask {
            id,
            agent,
            state: ending.state,
            requester: archived.requester.clone(),
            message: messages[0].clone(),
        });
        let archive = Box::new(Archive { task: archived, trails, dead_letter });
        self.emit(now, Record::Ended { task: id, ending, archive }, out);
        messages.iter().for_each(|message| self.lease_done(message));
        for link in self.links.values_mut() {
            link.let_go(self.state.seq, id);
        }
        if self.links.values().any(|link| link.agent == agent) {
            self.show_load(now, agent, out);
        }
        self.pump(now, agent, out);
    }

    pub(super) fn time_out(&mut self, now: Timestamp, out: &mut Output) {
        while let Some((_, id)) = self.state.next_timed().filter(|(deadline, _)| *deadline <= now) {
            let seconds = self.state.tasks.get(&id).and_then(|t| t.timeout_ms).unwrap_or(0).div_ceil(1000);
            let why = format!("timed out after {seconds} s");
            self.tell_to_stop(&id, &why, out);
            self.end(
                now,
                id,
                Ending { state: TaskState::Failed, by: "node".into(), why, answer: None, direct: false },
                false,
                out,
            );
        }
    }

    /// Fails the tasks whose questions nobody answered in time.
    pub(super) fn give_up_asking(&mut self, now: Timestamp, out: &mut Output) {
        let limit_ms = self.limits.asking_ms;
        while let Some((since, id)) = self.state.longest_asking()
            && since.plus_ms(limit_ms) <= now
        {
            let why = format!("nobody answered its question within {} s", limit_ms.div_ceil(1000));
            self.tell_to_stop(&id, &why, out);
            let ending =
                Ending { state: TaskState::Failed, by: "node".into(), why, answer: None, direct: false };
            self.end(now, id, ending, false, out);
        }
    }

    /// Notifies everyone who may be working on a task that it is over: the hand that has it, or the
    /// programs that have seen it.
    fn tell_to_stop(&self, id: &TaskId, why: &str, out: &mut Output) {
        let Some(task) = self.state.tasks.get(id) else { return };
        let seen = |link: &Link| !link.serves.until_ended() && task.has_begun();
        let at_work = |link: &Link| {
            link.agent == task.agent
                && (seen(link) || link.tasks.contains(id) || link.has_any(&task.messages))
        };
        let links = self.links.iter().filter(|(_, link)| at_work(link));
        out.effects.extend(links.map(|(link, _)| Effect::Stop {
            link: *link,
            task: *id,
            why: why.to_owned(),
        }));
    }

    /// Fails tasks that an agent began and nobody works on any more, because its program did
    /// not come back in time.
    pub(super) fn end_abandoned(&mut self, now: Timestamp, out: &mut Output) {
        let limit_ms = self.limits.absence_ms;
        let gone: Vec<AgentId> = self
            .absent
            .iter()
            .filter(|(_, since)| now.since_ms(**since) >= limit_ms)
            .map(|(id, _)| *id)
            .collect();
        for agent in gone {
            self.absent.remove(&agent);
            let all = self.state.tasks.values();
            let begun = all.filter(|task| task.agent == agent && task.has_begun());
            let tasks: Vec<TaskId> = begun.map(|task| task.id).collect();
            for id in tasks {
                let why = format!("its program went away and was not back within {} s", limit_ms / 1000);
                let ending =
                    Ending { state: TaskState::Failed, by: "node".into(), why, answer: None, direct: false };
                self.end(now, id, ending, false, out);
            }
        }
    }

    pub(super) fn open_message(&self, message: &MessageId) -> Result<&Open, Refusal> {
        self.state
            .letters
            .get(message)
            .ok_or_else(|| Refusal::NoSuchMessage { message: message.as_str().to_owned() })
    }

    pub(super) fn find_open(&self, name: &TaskRef) -> Result<Option<&Task>, Refusal> {
        match self.state.tasks_named(name).as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(one)),
            _ => Err(Refusal::AmbiguousTask { task: name.as_str().to_owned() }),
        }
    }

    pub(super) fn open_task(&self, name: &TaskRef, facts: &Facts) -> Result<&Task, Refusal> {
        if let Some(task) = self.find_open(name)? {
            return Ok(task);
        }
        let ended = self.ended_task(Some(name), facts)?;
        Err(Refusal::TaskEnded { task: ended.id.short(), state: ended.state })
    }

    /// Returns the ended task with this name, including one that ended in the current batch.
    fn ended_task(&self, name: Option<&TaskRef>, facts: &Facts) -> Result<EndedTask, Refusal> {
        let now_ended =
            || self.ended.iter().rev().find(|ended| name.is_some_and(|name| name.names(&ended.id)));
        let ended = facts.ended.as_ref().or_else(now_ended).cloned();
        ended.ok_or_else(|| Refusal::NoSuchTask {
            task: name.map_or("the last one", TaskRef::as_str).to_owned(),
        })
    }

    /// Returns the open task whose message reached the caller's agent last.
    fn last_handed(&self, caller: &Caller) -> Option<&Task> {
        let agent = caller.agent()?;
        let mine = self.state.letters.values().filter(|o| o.handed && o.letter.to == agent);
        let newest = mine.max_by_key(|o| o.handed_at)?;
        self.state.tasks.get(&newest.letter.task).map(|task| &**task)
    }
}
