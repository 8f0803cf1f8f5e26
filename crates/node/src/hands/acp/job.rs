//! Tasks and receipts of an ACP agent: a message on its way to the program, its answer, its end.
//!
//! Invariant: the journal records that a message is about to be written before its line is written.
//! So after a crash nobody concludes that a message certainly did not arrive.

use super::session::{How, TurnEnd};
use super::{CANCELS_WITHIN, End, Talk};
use crate::doors::Shared;
use crate::hands::answers::TurnAnswer;
use crate::hands::wording;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use synapse_core::Refusal;
use synapse_core::effect::{Answer, Command, Report};
use synapse_core::ids::{LinkId, MessageId, TaskId, TaskRef};
use synapse_core::message::{Body, Expects, Letter};
use synapse_core::policy::Caller;
use synapse_core::receipt::{Happened, Step};
use synapse_core::task::TaskState;
use synapse_dialects::audit::Actor;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A message and the turn that processes it.
pub(super) struct Job {
    pub(super) letter: Arc<Letter>,
    /// Resolves when the whole line is in the program's pipe.
    pub(super) writing: Option<oneshot::Receiver<()>>,
    expects: Expects,
    /// The program has started to work on it.
    has_begun: bool,
    /// Its task has ended, but its turn still runs.
    is_over: bool,
    /// The hash of the last question reported to the requester.
    asked: Option<String>,
    /// Messages that continue the same task, to be sent when the turn has ended.
    later: VecDeque<(Arc<Letter>, Body)>,
}

/// The stop of a running turn, and the reason for it.
pub(super) struct Stopping {
    why: String,
    /// The task to cancel, if the stop is a cancellation.
    task: Option<TaskId>,
    /// When the task ends even if the turn does not. `None` once that has happened.
    pub(super) until: Option<Instant>,
}

/// Returns the tasks that an earlier node had begun, and the first message of each.
pub(super) async fn begun(app: &Shared) -> Result<(Vec<TaskId>, Vec<MessageId>), Refusal> {
    let (answer, _) = app.ask(hand(app, LinkId(0)), Command::Tasks { max: usize::MAX }).await?;
    let Answer::Tasks(tasks) = answer else { return Err(Refusal::Stopping) };
    let begun = tasks.iter().filter(|task| task.has_begun());
    Ok(begun.filter_map(|task| Some((task.id, task.messages.first()?.clone()))).unzip())
}

/// Takes over the messages that an earlier node had begun. Those already submitted end as unknown;
/// the others are returned, to be sent again with a mark.
pub(super) async fn take_over(
    app: &Shared,
    link: LinkId,
    begun: Vec<MessageId>,
) -> VecDeque<(Arc<Letter>, Body)> {
    let mut again = VecDeque::new();
    for message in begun {
        let asked = message.clone();
        let found = app.archive(move |history| history.message(&asked)).await.ok().flatten();
        let receipt = app.ask(hand(app, link), Command::Receipt { message: message.clone() }).await;
        let (Some((letter, body)), Ok((Answer::Receipt { trail, .. }, _))) = (found, receipt) else {
            let why = "its message could not be found again after a crash".to_owned();
            done(app, link, &message, TaskState::Failed, None, why).await;
            continue;
        };
        let is_unsure = trail.marks().iter().any(|mark| matches!(mark.what, Happened::Unknown(_)));
        if trail.has(Step::Submitted) {
            let why = "its node ended while its program worked on it, and the program with it; \
                       whether it did its work is unknown";
            done(app, link, &message, TaskState::Failed, None, why.into()).await;
            continue;
        }
        let why = "its node ended while the message was given to its program";
        let _ = report(app, link, &message, Report::Unsure { why: why.into() }).await;
        match is_unsure {
            true => {
                let why = format!("it is unknown whether it arrived: {why}, twice");
                done(app, link, &message, TaskState::Failed, None, why).await;
            }
            false => again.push_back((letter, body)),
        }
    }
    again
}

/// Fails the messages that were to be sent again and now cannot be.
pub(super) async fn give_up(app: &Shared, link: LinkId, again: VecDeque<(Arc<Letter>, Body)>, why: &str) {
    for (letter, _) in again {
        let why = format!("it is unknown whether it arrived before its node ended; {why}");
        done(app, link, &letter.id, TaskState::Failed, None, why).await;
    }
}

/// Fails the message in progress when the program ends.
pub(super) async fn end_with_program(app: &Shared, link: LinkId, job: Option<Job>, why: &str) {
    let Some(job) = job.filter(|job| !job.is_over) else { return };
    let why = match job.has_begun {
        true => format!("its program ended before it answered: {why}"),
        false => {
            let why = format!("it is unknown whether it arrived: its program ended: {why}");
            let _ = report(app, link, &job.letter.id, Report::Unsure { why: why.clone() }).await;
            why
        }
    };
    done(app, link, &job.letter.id, TaskState::Failed, None, why).await;
}

pub(super) fn hand(app: &Shared, link: LinkId) -> Caller {
    Caller::Hand { link, agent: app.agent.id }
}

async fn report(app: &Shared, link: LinkId, message: &MessageId, report: Report) -> Result<(), Refusal> {
    loop {
        let command = Command::Report { message: message.clone(), report: report.clone() };
        match app.ask(hand(app, link), command).await {
            // Nothing may be lost because a disk was full for a while.
            Err(Refusal::Busy | Refusal::NotStored { .. }) => {
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
            other => return other.map(drop),
        }
    }
}

async fn done(
    app: &Shared,
    link: LinkId,
    message: &MessageId,
    state: TaskState,
    answer: Option<Body>,
    why: String,
) {
    let mut record = app.audit.message(&Actor::of(&hand(app, link)), "hand");
    record.add(|facts| facts.ended(message, answer.as_ref()));
    let told = report(app, link, message, Report::Done { state, answer, why }).await;
    if let Some(mut line) = record.end("ended", told.as_ref().err()) {
        line.note = Some(state.name().into());
        app.audit.write(line).await;
    }
    if let Err(refusal) = told {
        tracing::info!(%message, %refusal, "the end of a turn was not needed");
    }
}

/// Returns the final state of a task, and why, from the end of its turn.
fn ending(end: &TurnEnd, stopping: Option<&Stopping>) -> (TaskState, String) {
    if let Some(stopping) = stopping
        && (stopping.task.is_some() || end.how == How::Canceled)
    {
        return (TaskState::Canceled, stopping.why.clone());
    }
    if let (Some(asks), How::Finished | How::Canceled) = (&end.denied, &end.how) {
        let why = format!("the user denied what it asked for, and its turn ended: {asks}");
        return (TaskState::Rejected, why);
    }
    match &end.how {
        How::Finished => (TaskState::Completed, "its turn ended; the answer came over ACP".into()),
        How::Canceled => (TaskState::Canceled, "its program canceled the turn".into()),
        How::Failed(why) => (TaskState::Failed, why.clone()),
    }
}

impl Talk {
    async fn report(&self, message: &MessageId, step: Report) -> Result<(), Refusal> {
        report(&self.app, self.link, message, step).await
    }

    async fn done(&self, message: &MessageId, state: TaskState, answer: Option<Body>, why: String) {
        done(&self.app, self.link, message, state, answer, why).await;
    }

    /// Handles a message that the core delivers.
    pub(super) async fn deliver(&mut self, letter: Arc<Letter>, body: Body, notes: usize) -> Result<(), End> {
        if let Some(job) = self.job.as_mut().filter(|job| job.letter.task == letter.task) {
            job.later.push_back((letter, body));
            return Ok(());
        }
        let held = match (&self.job, self.session.is_open(), self.session.has_turn()) {
            (None, true, false) => return self.begin(letter, &body, false, notes).await,
            (None, false, _) => "its program is starting",
            _ => "its turn runs",
        };
        let _ = self.report(&letter.id, Report::Held { why: held.into() }).await;
        Ok(())
    }

    /// Sends a message from before a crash again, as soon as the program is free.
    pub(super) async fn begin_again(&mut self) -> Result<(), End> {
        if self.job.is_some() || !self.session.is_open() || self.session.has_turn() {
            return Ok(());
        }
        match self.again.pop_front() {
            Some((letter, body)) => self.begin(letter, &body, true, 0).await,
            None => Ok(()),
        }
    }

    /// Cancels a task whose message was still to be sent again.
    pub(super) async fn drop_again(&mut self, task: TaskId, why: String) {
        let Some(at) = self.again.iter().position(|(letter, _)| letter.task == task) else { return };
        if let Some((letter, _)) = self.again.remove(at) {
            self.done(&letter.id, TaskState::Canceled, None, why).await;
        }
    }

    async fn begin(
        &mut self,
        letter: Arc<Letter>,
        body: &Body,
        again: bool,
        notes: usize,
    ) -> Result<(), End> {
        let text = body.content().map(|content| content.as_text()).unwrap_or_default();
        let typed = wording::of(&letter, &text, again, notes);
        // On disk before its first byte is written.
        if let Err(refusal) = self.report(&letter.id, Report::Writing).await {
            tracing::info!(message = %letter.id, %refusal, "a message is not given to the program");
            return Ok(());
        }
        let Some(line) = self.session.prompt(typed.as_str().trim_end()) else { return Ok(()) };
        let writing = self.program.write_told(line)?;
        let expects = letter.expects;
        self.job = Some(Job {
            letter,
            writing: Some(writing),
            expects,
            has_begun: false,
            is_over: false,
            asked: None,
            later: VecDeque::new(),
        });
        Ok(())
    }

    /// Reports that the program's pipe has the whole message. `is_written` is false if it never
    /// will.
    pub(super) async fn written(&mut self, is_written: bool) {
        let Some(job) = &mut self.job else { return };
        job.writing = None;
        let message = job.letter.id.clone();
        if !is_written {
            return;
        }
        let _ = self.report(&message, Report::Step(Step::Written)).await;
    }

    /// Reports that the program works on the message, so it has read it.
    pub(super) async fn began(&mut self) {
        let Some(job) = &mut self.job else { return };
        (job.has_begun, job.writing) = (true, None);
        let (message, one_way) = (job.letter.id.clone(), job.expects == Expects::Receipt);
        for step in [Step::Written, Step::Submitted, Step::Seen] {
            let _ = self.report(&message, Report::Step(step)).await;
        }
        if one_way && let Some(job) = &mut self.job {
            job.is_over = true;
            let why = "its program works on it".to_owned();
            self.done(&message, TaskState::Completed, None, why).await;
        }
    }

    /// Handles a change of the open question.
    pub(super) async fn asks(&mut self) {
        self.desk.show(self.session.question());
        self.tell_state();
        let Some(job) = self.job.as_mut().filter(|job| !job.is_over) else { return };
        let (message, question) = (job.letter.id.clone(), self.session.question());
        let hash = question.map(|question| question.view.hash.clone());
        if job.asked == hash {
            return;
        }
        let before = std::mem::replace(&mut job.asked, hash);
        let body = question.map(super::question::Question::body);
        // Between two questions it worked, even if only for a moment.
        if before.is_some() {
            let _ = self.report(&message, Report::Working).await;
        }
        if let Some(prompt) = body {
            let _ = self.report(&message, Report::NeedsInput { prompt, auth: false }).await;
        }
    }

    /// Cancels the running turn.
    pub(super) fn stop(&mut self, why: String, task: Option<TaskId>) -> Result<(), End> {
        if !self.session.has_turn() {
            return Ok(());
        }
        // One cancel is enough, unless the program has ignored it until the deadline.
        if let Some(stopping) = self.stopping.as_mut().filter(|stopping| stopping.until.is_some()) {
            (stopping.why, stopping.task) = (why, task.or(stopping.task));
            return Ok(());
        }
        let lines = self.session.cancel();
        tracing::info!(why, "a turn is to be stopped");
        for line in lines {
            self.program.write(line)?;
        }
        self.desk.show(None);
        self.stopping = Some(Stopping { why, task, until: Some(Instant::now() + CANCELS_WITHIN) });
        Ok(())
    }

    /// Ends the task if the program ignores a cancel until the deadline.
    pub(super) async fn cancel_late(&mut self) {
        let Some(stopping) = &mut self.stopping else { return };
        if stopping.until.take_if(|until| *until <= Instant::now()).is_none() {
            return;
        }
        let why = format!("{}; its program goes on in spite of the cancel", stopping.why);
        let Some(job) = self.job.as_mut().filter(|job| !job.is_over) else { return };
        job.is_over = true;
        let message = job.letter.id.clone();
        self.done(&message, TaskState::Canceled, None, why).await;
    }

    pub(super) async fn turn_ended(&mut self, end: TurnEnd) -> Result<(), End> {
        let stopping = self.stopping.take();
        // A sender that has the answer must see the agent idle.
        self.tell_state();
        let Some(mut job) = self.job.take() else { return Ok(()) };
        let (state, why) = ending(&end, stopping.as_ref());
        tracing::info!(task = %job.letter.task.short(), state = state.name(), "its turn has ended");
        let answer = TurnAnswer { text: end.text, source: "acp", complete: end.complete };
        if job.is_over {
            if stopping.is_none() && job.expects == Expects::Receipt {
                self.keep_answer(job.letter.task, answer).await;
            }
            return Ok(());
        }
        if stopping.is_none()
            && let Some((letter, body)) = job.later.pop_front()
        {
            self.begin(letter, &body, false, 0).await?;
            if let Some(next) = &mut self.job {
                // The sender still waits for the answer.
                (next.later, next.expects) = (job.later, job.expects);
            }
            return Ok(());
        }
        let is_kept = match state {
            TaskState::Completed => true,
            TaskState::Failed => !answer.text.is_empty(),
            _ => false,
        };
        let answer = is_kept.then(|| answer.into_body());
        self.done(&job.letter.id, state, answer, why).await;
        Ok(())
    }

    /// Stores the answer to a one-way message in the history; the task has already ended.
    async fn keep_answer(&self, task: TaskId, answer: TurnAnswer) {
        if answer.text.trim().is_empty() {
            return;
        }
        let Ok(task) = TaskRef::parse(&task.to_string()) else { return };
        let command = Command::KeepAnswer { task: task.clone(), answer: answer.into_body() };
        if let Err(refusal) = self.app.ask(hand(&self.app, self.link), command).await {
            tracing::warn!(task = task.as_str(), %refusal, "the answer to a one-way message is not in the history");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_ends_as_its_turn_did() {
        let end = |how: How, denied: Option<&str>| TurnEnd {
            how,
            text: String::new(),
            complete: false,
            denied: denied.map(str::to_owned),
        };
        let stop = |task| Some(Stopping { why: "stop".into(), task, until: None });
        let canceled = || stop(Some(TaskId::from_bytes([1; 16])));
        let failed = || How::Failed("quota".into());
        let table = [
            (end(How::Finished, None), None, TaskState::Completed),
            (end(How::Canceled, None), None, TaskState::Canceled),
            (end(failed(), None), None, TaskState::Failed),
            (end(How::Finished, Some("ls")), None, TaskState::Rejected),
            (end(How::Canceled, Some("ls")), None, TaskState::Rejected),
            (end(failed(), Some("ls")), None, TaskState::Failed),
            (end(How::Canceled, None), stop(None), TaskState::Canceled),
            (end(How::Canceled, Some("ls")), stop(None), TaskState::Canceled),
            // It finished before it saw the interrupt.
            (end(How::Finished, None), stop(None), TaskState::Completed),
            (end(How::Finished, None), canceled(), TaskState::Canceled),
            (end(failed(), None), canceled(), TaskState::Canceled),
        ];
        for (end, stopping, state) in table {
            assert_eq!(ending(&end, stopping.as_ref()).0, state, "{end:?}");
        }
    }
}
