//! Resumes a message that an earlier node had begun.

use super::super::mail;
use super::{Job, Stage, Typist, Wording};
use crate::driver::now;
use synapse_core::effect::{Answer, Command};
use synapse_core::ids::MessageId;
use synapse_core::receipt::Step as Rung;
use synapse_core::task::TaskState;
use synapse_terminal::turn::Turn;

impl Typist {
    /// Takes over a message that was being written, or worked on, when the earlier node died.
    pub(super) async fn take_over(&mut self, message: MessageId) {
        let asked = message.clone();
        let found = self.app.archive(move |history| history.message(&asked)).await.ok().flatten();
        let receipt = self.ask(Command::Receipt { message: message.clone() }).await;
        let (Some((letter, body)), Ok(Answer::Receipt { trail, .. })) = (found, receipt) else {
            let why = "its message could not be found again after a crash".to_owned();
            return self.done(&message, TaskState::Failed, None, why).await;
        };
        let notes = mail::counted(&self.mail(), &letter.task);
        let typed = self.typed(&letter, &body, Wording::default(), notes);
        let stage = if trail.has(Rung::Submitted) {
            Stage::Working { since: now(), idle_since: None, asked: None, drawn: None }
        } else {
            Stage::Typing
        };
        let turn = Turn::resumed(typed, &self.submit());
        self.job = Some(Job::new(letter, turn, stage, notes));
    }
}
