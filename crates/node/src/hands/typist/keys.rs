//! Keys that are not a message: a person's decision on a prompt, keys that a person named, and the
//! stop of a turn.

use super::denial::Denial;
use super::{Stage, Stopping, Typist};
use crate::driver::now;
use crate::hands::wishes::{Taken, Wish};
use synapse_core::ids::{TaskId, Timestamp};
use synapse_core::task::TaskState;
use synapse_holder::terminal::wire::Ask;
use synapse_terminal::interrupt::{Stop, Stopped};
use synapse_terminal::keys::{Key, Press, Pressed, Pressing};
use synapse_terminal::prompt::{Decide, Decided, Deciding};
use synapse_terminal::turn::Sight;
use tokio::sync::oneshot;

/// Keys that a person wants pressed.
pub(super) struct Wanted {
    stage: Wanting,
    reply: oneshot::Sender<Result<Pressed, Taken>>,
}

enum Wanting {
    /// They wait until this time for the message being typed.
    Turn {
        keys: Vec<Key>,
        until: Timestamp,
    },
    Begun(Pressing),
}

/// How long keys wait for the end of what is being typed.
const WAIT_MS: u64 = 30_000;

impl Typist {
    pub(super) fn wished(&mut self, wish: Wish) {
        match wish {
            // Without keys in the profile the reply is dropped, since no key can be pressed.
            Wish::Decide { hash, allow, reply } => {
                let keys = self.seat.watch().profile().approve.clone();
                self.deciding = keys.map(|keys| (Deciding::new(hash, allow, &keys), reply));
            }
            Wish::Press { keys, wait, reply } => match self.taken() {
                Some(taken) if !wait => drop(reply.send(Err(taken))),
                _ => {
                    let stage = Wanting::Turn { keys, until: now().plus_ms(WAIT_MS) };
                    self.pressing = Some(Wanted { stage, reply });
                }
            },
        }
    }

    /// Returns why other keys must not be pressed now. A text that is set aside does not block
    /// them: it waits for a person.
    fn taken(&self) -> Option<Taken> {
        let writes = self.job.as_ref().is_some_and(|job| {
            matches!(job.stage, Stage::Typing) && !job.turn.is_at_gate() && !job.turn.is_aside()
        });
        if writes {
            return Some(Taken("a message is being typed into it"));
        }
        self.keyboard.then_some(Taken("a message is being taken out of its composer"))
    }

    /// Answers a pending request after the program has ended.
    pub(in crate::hands) fn farewell(&mut self) {
        if let Some(Wanted { stage: Wanting::Begun(pressing), reply }) = self.pressing.take() {
            let _ = reply.send(Ok(pressing.when_ended()));
        }
    }

    /// Returns when waiting keys are given up.
    pub(super) fn keys_due(&self) -> Option<Timestamp> {
        match &self.pressing.as_ref()?.stage {
            Wanting::Turn { until, .. } => Some(*until),
            Wanting::Begun(_) => None,
        }
    }

    /// Presses keys that a person named. Returns `None` if there are none to press now, else
    /// whether another step may follow at once.
    pub(super) fn press_keys(&mut self, sight: &Sight, asks: &mut Vec<Ask>) -> Option<bool> {
        let mut wanted = self.pressing.take()?;
        if let Wanting::Turn { keys, until } = &mut wanted.stage {
            match self.taken() {
                Some(taken) if *until <= sight.now => {
                    let _ = wanted.reply.send(Err(taken));
                    return None;
                }
                Some(_) => {
                    self.pressing = Some(wanted);
                    return None;
                }
                None => wanted.stage = Wanting::Begun(Pressing::new(std::mem::take(keys), sight.now)),
            }
        }
        let Wanting::Begun(pressing) = &mut wanted.stage else { return None };
        match pressing.next(sight) {
            Press::Wait { until } => {
                self.wake = Some(until);
                self.pressing = Some(wanted);
                return Some(false);
            }
            Press::TakeKeyboard { ms } => asks.push(Ask::Keyboard { ms }),
            Press::ReleaseKeyboard => {
                self.keyboard = false;
                asks.push(Ask::Keyboard { ms: 0 });
            }
            Press::Press(key) => {
                let application = self.seat.watch().screen().cursor_keys_are_application();
                self.press(&key.bytes(application), asks);
                // As after any key of a person, mail waits until the effect of this one is visible.
                self.person_typed();
                self.wake = Some(sight.now.plus_ms(1));
            }
            Press::Done(pressed) => {
                let _ = wanted.reply.send(Ok(pressed));
                return Some(true);
            }
        }
        self.pressing = Some(wanted);
        Some(true)
    }

    /// Decides the visible prompt for a person. Returns whether another step may follow at once.
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
            Decide::Press(keys) => {
                let is_denial = !deciding.allows();
                self.press_if_quiet(&keys, asks);
                if let (Some(job), Some(prompt)) = (&mut self.job, prompt) {
                    job.denied = is_denial.then(|| Denial::new(sight.now, prompt.summary.text));
                }
            }
            Decide::Done(decided) => {
                if let Some((_, reply)) = self.deciding.take() {
                    let _ = reply.send(decided);
                }
                if let Some(job) = self.job.as_mut().filter(|_| decided != Decided::Taken) {
                    job.denied = None;
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

    /// Ends the task of a turn that was stopped.
    async fn turn_stopped(&mut self, stopped: Stopped, why: &str, task: Option<TaskId>) {
        tracing::info!(?stopped, why, "a turn was to be stopped");
        self.may_come_back(stopped, task.is_some());
        if stopped == Stopped::Stopped {
            self.one_way = None;
        }
        let cut = matches!(stopped, Stopped::Stopped) || task.is_some();
        let working =
            self.job.as_ref().is_some_and(|job| matches!(job.stage, Stage::Working { .. }) || task.is_some());
        if cut
            && working
            && let Some(job) = self.job.take()
        {
            self.seat.watch().end_line();
            let why = match stopped {
                Stopped::StillBusy => format!("{why}; it goes on in spite of the interrupt"),
                _ => why.to_owned(),
            };
            self.done(&job.letter.id, TaskState::Canceled, None, why).await;
        }
    }
}
