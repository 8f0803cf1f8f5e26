//! What is answered to a one-way message. Its task ended when it was submitted; the answer is for the history.
//!
//! It is taken when the turn has ended and stays so, when the next message is about to be written, or when a person
//! begins the next turn. A turn that was stopped has no answer, and a restart of the node forgets it.

use super::super::answers::TurnAnswer;
use super::follow::LOG_LOOK_MS;
use super::{Job, Typist};
use crate::driver::now;
use std::path::PathBuf;
use synapse_core::agents::AgentState;
use synapse_core::effect::Command;
use synapse_core::ids::{TaskId, TaskRef, Timestamp};
use synapse_terminal::text::Typed;

/// A one-way message whose turn may still run.
pub(super) struct OneWay {
    task: TaskId,
    typed: Typed,
    since: Timestamp,
    /// Since when its turn seems to have ended, and what it had said by then.
    ended: Option<(Timestamp, TurnAnswer)>,
    /// The session log that has its turn.
    log: Option<PathBuf>,
}

impl OneWay {
    pub(super) fn new(job: &Job) -> Self {
        let since = job.turn.entered_at().unwrap_or_else(now);
        Self { task: job.letter.task, typed: job.turn.typed().clone(), since, ended: None, log: None }
    }
}

impl Typist {
    /// Keeps the answer once it is whole; when to look again if it is not.
    pub(super) async fn follow_one_way(&mut self) -> Option<Timestamp> {
        let mut one_way = self.one_way.take()?;
        let sight = self.sight();
        let logged = match sight.state {
            AgentState::Idle => self.logged_turn(&one_way.typed, &mut one_way.log).await,
            _ => None,
        };
        let stays_ms = self.stays_ms(one_way.since, logged.as_ref());
        match (sight.state, one_way.ended.take()) {
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

    /// The next turn is about to begin: what was answered until now is all of it.
    pub(super) async fn end_one_way(&mut self) {
        let Some(mut one_way) = self.one_way.take() else { return };
        let logged = self.logged_turn(&one_way.typed, &mut one_way.log).await;
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
