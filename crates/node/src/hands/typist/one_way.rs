//! The answer to a one-way message. Its task ended when it was submitted; the answer goes
//! into the history.
//!
//! The answer is taken when the turn has ended and stays ended, when the next message is about to
//! be written, or when a person begins the next turn. A turn that was stopped has no answer. After
//! a restart, the next node follows a turn that still runs or that is in the program's session log.

use super::super::answers::TurnAnswer;
use super::super::mail;
use super::follow::LOG_LOOK_MS;
use super::{Job, Typist, Wording};
use crate::driver::now;
use std::path::PathBuf;
use std::sync::Arc;
use synapse_core::agents::AgentState;
use synapse_core::effect::Command;
use synapse_core::ids::{AgentId, TaskId, TaskRef, Timestamp};
use synapse_core::message::{Body, Expects, Letter};
use synapse_core::record::Said;
use synapse_core::task::TaskState;
use synapse_store::browse::{Past, Wanted, What};
use synapse_store::{History, JournalError};
use synapse_terminal::text::Typed;

/// A one-way message submitted longer ago is ignored after a restart.
const TAKEN_OVER_MS_MAX: u64 = 3_600_000;

/// A one-way message whose turn may still run.
pub(super) struct OneWay {
    task: TaskId,
    typed: Typed,
    since: Timestamp,
    /// When its turn seems to have ended, and what it had said by then.
    ended: Option<(Timestamp, TurnAnswer)>,
    /// The session log that contains its turn.
    log: Option<PathBuf>,
    /// An earlier node submitted it, so it is unknown whose turn ended since then.
    is_doubtful: bool,
}

impl OneWay {
    pub(super) fn new(job: &Job) -> Self {
        let since = job.turn.entered_at().unwrap_or_else(now);
        let typed = job.turn.typed().clone();
        Self { task: job.letter.task, typed, since, ended: None, log: None, is_doubtful: false }
    }
}

/// Returns an agent's last message if it was one-way, was submitted and has no answer, with the
/// time of submission.
fn unanswered(
    history: &History,
    agent: AgentId,
    since: Timestamp,
) -> Result<Option<(Arc<Letter>, Body, Timestamp)>, JournalError> {
    let wanted = Wanted { since: Some(since), ..Wanted::default() };
    let newest = history.newest(&wanted, 1)?.found.pop();
    let Some(Past { what: What::Message { letter, body }, .. }) = newest else { return Ok(None) };
    if letter.to != agent || letter.expects != Expects::Receipt {
        return Ok(None);
    }
    let Some(Past { what: What::Ended { ending, .. }, at, .. }) = history.ended(&letter.task)? else {
        return Ok(None);
    };
    let is_kept = history.artifacts(&letter.task)?.iter().any(|said: &Said| said.as_late_answer().is_some());
    let is_open = ending.state == TaskState::Completed && ending.answer.is_none() && !is_kept;
    Ok(is_open.then_some((letter, body, at)))
}

impl Typist {
    /// Takes over the last message that an earlier node submitted.
    pub(super) async fn take_over_one_way(&mut self) {
        let (agent, since) = (self.app.agent.id, Timestamp(now().0.saturating_sub(TAKEN_OVER_MS_MAX)));
        let found = self.app.archive(move |history| unanswered(history, agent, since)).await;
        let Ok(Some((letter, body, since))) = found else { return };
        let notes = mail::counted(&self.mail(), &letter.task);
        let typed = self.typed(&letter, &body, Wording::default(), notes);
        let task = letter.task;
        self.one_way = Some(OneWay { task, typed, since, ended: None, log: None, is_doubtful: true });
    }

    /// Stores the answer once it is complete. Returns when to look again if it is not.
    pub(super) async fn follow_one_way(&mut self) -> Option<Timestamp> {
        let mut one_way = self.one_way.take()?;
        let sight = self.sight();
        let logged = match sight.state {
            AgentState::Idle => self.logged_turn(&one_way.typed, &mut one_way.log).await,
            _ => None,
        };
        let stays_ms = self.stays_ms(one_way.since, logged.as_ref());
        match (sight.state, one_way.ended.take()) {
            // It ended while no node ran, and other turns may have begun since.
            (AgentState::Idle, None) if one_way.is_doubtful && logged.is_none() => return None,
            (AgentState::Idle, None) => {
                let answer = self.turn_answer(&one_way.typed, one_way.since, logged);
                one_way.ended = Some((sight.now, answer));
            }
            (AgentState::Idle, Some((at, answer))) => {
                if at.plus_ms(stays_ms) <= sight.now {
                    let is_untouched = !self.has_typed_since(at);
                    let last = is_untouched.then(|| self.turn_answer(&one_way.typed, one_way.since, logged));
                    self.keep_answer(one_way.task, last.unwrap_or(answer)).await;
                    return None;
                }
                one_way.ended = Some((at, answer));
            }
            (AgentState::Error | AgentState::Offline, _) => return None,
            // A person began the next turn.
            (_, Some((at, answer))) if self.has_typed_since(at) => {
                self.keep_answer(one_way.task, answer).await;
                return None;
            }
            (AgentState::Busy | AgentState::Waiting, None) => one_way.is_doubtful = false,
            // It had not ended after all.
            (_, _) => {}
        }
        let due = one_way.ended.as_ref().map(|(at, _)| {
            let look = self.seat.session_logs().map(|_| sight.now.plus_ms(LOG_LOOK_MS));
            look.unwrap_or(Timestamp(u64::MAX)).min(at.plus_ms(stays_ms))
        });
        self.one_way = Some(one_way);
        due
    }

    /// Stores the answer, since the next turn is about to begin and nothing more can be added.
    pub(super) async fn end_one_way(&mut self) {
        let Some(mut one_way) = self.one_way.take() else { return };
        let logged = self.logged_turn(&one_way.typed, &mut one_way.log).await;
        if one_way.is_doubtful && logged.is_none() {
            return;
        }
        let answer = match one_way.ended {
            Some((at, answer)) if self.has_typed_since(at) => answer,
            _ => self.turn_answer(&one_way.typed, one_way.since, logged),
        };
        self.keep_answer(one_way.task, answer).await;
    }

    fn has_typed_since(&self, at: Timestamp) -> bool {
        self.person_at.is_some_and(|typed_at| typed_at >= at)
    }

    async fn keep_answer(&self, task: TaskId, answer: TurnAnswer) {
        if answer.text.trim().is_empty() {
            return;
        }
        let Ok(task) = TaskRef::parse(&task.to_string()) else { return };
        let command = Command::KeepAnswer { task: task.clone(), answer: answer.into_body() };
        if let Err(refusal) = self.ask(command).await {
            tracing::warn!(task = task.as_str(), %refusal, "the answer to a one-way message is not in the history");
        }
    }
}
