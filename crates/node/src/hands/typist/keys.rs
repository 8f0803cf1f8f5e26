//! Keys that are no message: a person's word on a prompt, and what stops a turn.

use super::{Stage, Stopping, Typist};
use synapse_core::ids::TaskId;
use synapse_core::task::TaskState;
use synapse_holder::terminal::wire::Ask;
use synapse_terminal::interrupt::{Stop, Stopped};
use synapse_terminal::prompt::Decide;
use synapse_terminal::turn::Sight;

impl Typist {
    /// A person's word on the prompt that is shown; whether there may be another step at once.
    pub(super) fn decide(&mut self, sight: &Sight, asks: &mut Vec<Ask>) -> bool {
        let prompt = self.seat.watch().prompt();
        let Some((deciding, _)) = &mut self.deciding else { return false };
        match deciding.next(sight, prompt.as_ref()) {
            Decide::Wait { until, .. } => {
                self.wake = until;
                return false;
            }
            Decide::TakeKeyboard { ms } => asks.push(Ask::Keyboard { ms }),
            Decide::ReleaseKeyboard => {
                self.keyboard = false;
                asks.push(Ask::Keyboard { ms: 0 });
            }
            Decide::Press(keys) => self.press(&keys, asks),
            Decide::Done(decided) => {
                if let Some((_, reply)) = self.deciding.take() {
                    let _ = reply.send(decided);
                }
            }
        }
        true
    }

    pub(super) async fn stop_turn(&mut self, sight: &Sight, asks: &mut Vec<Ask>) -> bool {
        let Some(stopping) = &mut self.stopping else { return false };
        match stopping.machine.next(sight) {
            Stop::Wait { until, .. } => {
                self.wake = until;
                false
            }
            Stop::Press(keys) => {
                self.press(keys, asks);
                false
            }
            Stop::Done(stopped) => {
                let Some(Stopping { why, task, .. }) = self.stopping.take() else { return false };
                self.turn_stopped(stopped, &why, task).await;
                true
            }
        }
    }

    /// What was cut is told on its task.
    async fn turn_stopped(&mut self, stopped: Stopped, why: &str, task: Option<TaskId>) {
        tracing::info!(?stopped, why, "a turn was to be stopped");
        if stopped == Stopped::Stopped {
            self.may_come_back();
        }
        let cut = matches!(stopped, Stopped::Stopped) || task.is_some();
        let working =
            self.job.as_ref().is_some_and(|job| matches!(job.stage, Stage::Working { .. }) || task.is_some());
        if cut
            && working
            && let Some(job) = self.job.take()
        {
            let why = match stopped {
                Stopped::StillBusy => format!("{why}; it goes on in spite of the interrupt"),
                _ => why.to_owned(),
            };
            self.done(&job.letter.id, TaskState::Canceled, None, why).await;
        }
    }
}
