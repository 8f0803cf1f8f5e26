//! The gate: whether the core may deliver the next message, and if not, why.

use super::Typist;
use super::place;
use crate::driver::now;
use synapse_core::effect::Input;
use synapse_terminal::composer::Holds;
use synapse_terminal::turn::{Held, Turn};

impl Typist {
    /// Reports to the core whether a message may come, and if not, why.
    pub(super) fn tell_gate(&mut self) {
        let mut sight = self.sight();
        sight.keyboard = false;
        match sight.composer {
            Holds::Empty => drop(self.empty_since.get_or_insert(sight.now)),
            _ => self.empty_since = None,
        }
        self.composer = place::seen(&sight);
        // No output ends the wait for a quiet screen, so it needs a timer.
        let quiet_at = sight.bar.and_then(|(_, until)| until);
        self.wake = [self.wake, quiet_at].into_iter().flatten().min();
        let held = match (&self.job, &self.stopping) {
            (Some(job), _) => Some(format!("message {} is in hand", job.letter.task.short())),
            (None, Some(_)) => Some("its turn is being stopped".to_owned()),
            (None, None) => {
                let (held, until) = Turn::held(&sight);
                self.wake = [self.wake, until].into_iter().flatten().min();
                held.map(|held| self.words(held))
            }
        };
        if self.gate.as_ref() != Some(&held) {
            self.gate = Some(held.clone());
            self.app.handle.tell(Input::Gate { link: self.link, held });
        }
    }

    /// Describes why nothing is typed; for a pause, also until when.
    pub(super) fn words(&self, held: Held) -> String {
        let told = match held {
            Held::NoProfile => self.seat.untyped(),
            Held::Paused => self.seat.watch().paused(now()).map(ToString::to_string),
            _ => None,
        };
        told.unwrap_or_else(|| held.to_string())
    }
}
