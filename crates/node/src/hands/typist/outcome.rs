//! The outcome of typing a message, and what follows: it was submitted, certainly not submitted, or
//! nobody can tell.

use super::{Job, Stage, Typist};
use std::collections::VecDeque;
use synapse_core::effect::Report;
use synapse_core::ids::MessageId;
use synapse_core::task::TaskState;
use synapse_terminal::turn::{Outcome, Sight, Turn};

/// The pauses of a message that was certainly not submitted and left nothing behind: after the
/// first miss, the second, and so on; the last one for all that follow. A person may have to close
/// what covered the composer.
const RESTS_MS: [u64; 4] = [1_000, 8_000, 60_000, 300_000];
/// A message stays with us for this many misses, so that later ones stay behind it. Then it returns
/// to its mailbox, and others come first.
const MISSES_IN_HAND_MAX: u8 = 1;

/// Returns the pause after this many misses. `None` if the message is given up, because some of it
/// is left in the composer.
fn rest_ms(misses: u8, erased: bool) -> Option<u64> {
    let last = RESTS_MS.len() - 1;
    erased.then(|| RESTS_MS[usize::from(misses.saturating_sub(1)).min(last)])
}

/// The misses of messages that went back to their mailbox, for the next try.
#[derive(Debug, Default)]
pub(super) struct Misses(VecDeque<(MessageId, u8)>);

impl Misses {
    /// A message that is forgotten is typed as if for the first time.
    const MAX: usize = 256;

    fn remember(&mut self, message: &MessageId, misses: u8) {
        self.0.truncate(Self::MAX - 1);
        self.0.push_front((message.clone(), misses));
    }

    /// Returns the misses of a message that was delivered to us again.
    pub(super) fn take(&mut self, message: &MessageId) -> u8 {
        let at = self.0.iter().position(|(one, _)| one == message);
        at.and_then(|at| self.0.remove(at)).map_or(0, |(_, misses)| misses)
    }
}

impl Job {
    /// Whether the message returns to the mailbox, as if it had not been here.
    fn goes_back(&self) -> bool {
        let is_only_ours = self.again || self.letter.follow_up || !self.later.is_empty();
        self.misses > MISSES_IN_HAND_MAX && !is_only_ours
    }
}

/// How a message is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Wording {
    /// The text says that it may be a repetition.
    pub again: bool,
    /// The text goes into a file, however short it is.
    pub as_file: bool,
}

impl Typist {
    pub(super) async fn outcome(&mut self, message: &MessageId, sight: &Sight, outcome: Outcome) {
        self.seat.watch().end_line();
        match outcome {
            Outcome::Submitted(proof) => self.submitted(message, proof).await,
            Outcome::NotSubmitted { why, erased } => self.missed(message, sight, why, erased).await,
            Outcome::Unknown { why } => self.unsure(message, why).await,
        }
    }

    /// Whether the message must not be typed yet.
    pub(super) fn rests(&mut self, sight: &Sight) -> bool {
        let rests_until =
            self.job.as_ref().and_then(|job| job.rests_until).filter(|until| *until > sight.now);
        if rests_until.is_some() {
            self.wake = rests_until;
        }
        rests_until.is_some()
    }

    /// Handles a message that was certainly not submitted. If nothing of it is left, it is typed
    /// again later, as the name of a file: the program may have displayed the text in another form
    /// than written, and a file name looks the same in every program.
    async fn missed(&mut self, message: &MessageId, sight: &Sight, why: &'static str, erased: bool) {
        let Some(job) = &mut self.job else { return };
        job.misses = job.misses.saturating_add(1);
        let misses = job.misses;
        let left = if erased { "nothing of it is left there" } else { "it may still be in the composer" };
        let why = format!("written, not submitted: {why}; {left}");
        let Some(rest_ms) = rest_ms(misses, erased) else {
            self.job = None;
            return self.done(message, TaskState::Failed, None, why).await;
        };
        let why = format!("{why}; it is typed again");
        // A message that may be a repetition stays here: only this process knows that it has to say
        // so.
        if job.goes_back() {
            self.job = None;
            self.misses.remember(message, misses);
            let report = Report::NotSubmitted { why, rest_ms };
            if let Err(refusal) = self.report(message, report).await {
                tracing::info!(%message, %refusal, "a message that was not submitted does not go back");
            }
            return;
        }
        job.rests_until = Some(sight.now.plus_ms(rest_ms));
        let wording = Wording { again: job.again, as_file: true };
        let _ = self.report(message, Report::Held { why }).await;
        self.retype(message, wording).await;
    }

    /// Reports that nobody can tell whether it arrived, and types it once more with a mark.
    async fn unsure(&mut self, message: &MessageId, why: &'static str) {
        let _ = self.report(message, Report::Unsure { why: why.into() }).await;
        let Some(job) = &self.job else { return };
        if job.again {
            self.job = None;
            let why = format!("it is unknown whether it arrived: {why}");
            return self.done(message, TaskState::Failed, None, why).await;
        }
        let wording = Wording { again: true, as_file: job.misses > 0 };
        self.retype(message, wording).await;
    }

    /// Types the current message once more.
    async fn retype(&mut self, message: &MessageId, wording: Wording) {
        let asked = message.clone();
        let found = self.app.archive(move |history| history.message(&asked)).await.ok().flatten();
        let (Some((_, body)), Some(Job { letter, notes, .. })) = (found, &self.job) else { return };
        let turn = Turn::new(self.typed(letter, &body, wording, *notes), &self.submit());
        if let Some(job) = &mut self.job {
            (job.turn, job.stage, job.again) = (turn, Stage::Typing, wording.again);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_are_bounded_and_told_once() {
        let mut misses = Misses::default();
        let id = |n: usize| MessageId::parse(&format!("m-{n}")).unwrap();
        (0..2 * Misses::MAX).for_each(|n| misses.remember(&id(n), 2));
        assert_eq!(misses.0.len(), Misses::MAX);
        let newest = id(2 * Misses::MAX - 1);
        assert_eq!((misses.take(&newest), misses.take(&newest), misses.take(&id(0))), (2, 0, 0));
    }

    #[test]
    fn message_is_given_up_only_if_some_of_it_is_left() {
        let rests: Vec<Option<u64>> = [1, 2, 3, 4, 5, u8::MAX].map(|misses| rest_ms(misses, true)).into();
        assert_eq!(rests, [1_000, 8_000, 60_000, 300_000, 300_000, 300_000].map(Some));
        assert_eq!(rest_ms(1, false), None);
    }
}
