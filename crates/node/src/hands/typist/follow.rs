//! Follows a task after it was submitted: questions, messages that continue it, and its answer
//!

use super::super::answers::{self, TurnAnswer};
use super::super::terminal::Seat;
use super::denial::Denial;
use super::{Job, Stage, Typist, Wording};
use crate::launch::Tells;
use std::path::PathBuf;
use std::time::Duration;
use synapse_core::agents::AgentState;
use synapse_core::effect::Report;
use synapse_core::ids::{MessageId, Timestamp};
use synapse_core::task::TaskState;
use synapse_terminal::prompt::Prompt;
use synapse_terminal::session_log::LoggedTurn;
use synapse_terminal::text::Typed;
use synapse_terminal::turn::{Sight, Turn};

/// After a turn has ended, the program must stay idle this long before its text is taken as the
/// answer.
const STAYS_IDLE_MS: u64 = 5_000;
/// The same if the program itself reported the end of its turn.
const STAYS_PROVEN_MS: u64 = 100;
/// The same if its session log has an answer: the log may be ahead of what the program does next.
const STAYS_LOGGED_MS: u64 = 250;
/// How often a session log is read while its answer is awaited.
pub(super) const LOG_LOOK_MS: u64 = 100;
/// The time limit of a look into the session logs.
const LOG_PATIENCE: Duration = Duration::from_millis(500);
/// A program may report that it waits before it shows the prompt. A prompt without choices counts
/// after this long.
const DRAWN_MS: u64 = 3_000;
/// A prompt with choices must be unchanged for this long: some are drawn in two steps.
const STANDS_MS: u64 = 300;

/// Returns the visible prompt once it has settled, and since when the program waits.
fn settled_prompt(seat: &Seat) -> Option<(Prompt, Timestamp)> {
    let watch = seat.watch();
    let prompt = watch.is_settled().then(|| watch.prompt()).flatten()?;
    Some((prompt, watch.verdict().since))
}

impl Typist {
    /// Follows a submitted task until its turn has ended and the program stays idle.
    pub(super) async fn follow(&mut self, sight: &Sight) -> bool {
        if sight.state == AgentState::Idle && self.continue_task() {
            return true;
        }
        let Some(Job { letter, stage, denied, .. }) = &mut self.job else { return false };
        denied.iter_mut().for_each(|denial| denial.see(sight));
        let Stage::Working { since, idle_since, asked, drawn } = stage else { return false };
        let (message, since) = (letter.id.clone(), *since);
        match sight.state {
            AgentState::Idle => {
                let idle_since = *idle_since.get_or_insert(sight.now);
                let logged = self.logged_job().await;
                let due = idle_since.plus_ms(self.stays_ms(since, logged.as_ref()));
                if due > sight.now {
                    let look = self.seat.session_logs().map(|_| sight.now.plus_ms(LOG_LOOK_MS));
                    self.wake = [Some(due), look].into_iter().flatten().min();
                    return false;
                }
                self.answer(&message, since, logged).await;
                true
            }
            AgentState::Waiting => {
                *idle_since = None;
                let Some((prompt, since)) = settled_prompt(&self.seat) else { return false };
                if asked.as_ref() == Some(&prompt.hash) {
                    return false;
                }
                // A half-drawn prompt has another hash than the whole one. Reported too early, it
                // could not be decided.
                let seen = drawn.take().filter(|(hash, _)| *hash == prompt.hash);
                let (hash, seen_at) = seen.unwrap_or_else(|| (prompt.hash.clone(), sight.now));
                *drawn = Some((hash, seen_at));
                let whole = if prompt.choices.is_empty() { since.plus_ms(DRAWN_MS) } else { Timestamp(0) };
                let due = whole.max(seen_at.plus_ms(STANDS_MS));
                if due > sight.now {
                    self.wake = Some(due);
                    return false;
                }
                // It asks for something else, so the turn continued.
                *denied = None;
                // Between two prompts it worked, even if only for a moment.
                if asked.replace(prompt.hash.clone()).is_some() {
                    let _ = self.report(&message, Report::Working).await;
                }
                let prompt = answers::question(&prompt);
                let _ = self.report(&message, Report::NeedsInput { prompt, auth: false }).await;
                false
            }
            AgentState::Error | AgentState::Offline => {
                self.job = None;
                let why = "its program ended before it answered".to_owned();
                self.done(&message, TaskState::Failed, None, why).await;
                true
            }
            _ => {
                *idle_since = None;
                if asked.take().is_some() {
                    let _ = self.report(&message, Report::Working).await;
                }
                false
            }
        }
    }

    /// Types the next message of the same task after the turn has ended.
    fn continue_task(&mut self) -> bool {
        let Some((letter, body)) = self.job.as_mut().and_then(|job| job.later.pop_front()) else {
            return false;
        };
        let turn = Turn::new(self.typed(&letter, &body, Wording::default(), 0), &self.submit());
        let Some(job) = &mut self.job else { return false };
        (job.letter, job.turn, job.stage, job.again) = (letter, turn, Stage::Typing, false);
        job.denied = None;
        true
    }

    /// Whether the program worked or answered after the denial.
    fn has_gone_on(&self, denial: &Denial) -> bool {
        let watch = self.seat.watch();
        let has_answered = watch.heard().answer.as_ref().is_some_and(|(_, at)| *at >= denial.at);
        has_answered || denial.has_gone_on()
    }

    /// Returns how long the program has to stay idle until its turn counts as ended.
    pub(super) fn stays_ms(&self, since: Timestamp, logged: Option<&LoggedTurn>) -> u64 {
        let watch = self.seat.watch();
        if logged.is_some_and(|turn| turn.is_final) && watch.is_idle_by_all() {
            return STAYS_LOGGED_MS;
        }
        let tells_answers = self.seat.tells().names_prompts() && self.seat.trouble().is_none();
        if watch.is_turn_over(since, tells_answers) { STAYS_PROVEN_MS } else { STAYS_IDLE_MS }
    }

    /// Returns the current task's turn from the program's session log.
    async fn logged_job(&mut self) -> Option<LoggedTurn> {
        let job = self.job.as_mut()?;
        let (typed, mut log) = (job.turn.typed().clone(), job.log.take());
        let turn = self.logged_turn(&typed, &mut log).await;
        self.job.as_mut()?.log = log;
        turn
    }

    /// Returns the turn that began with this text from the program's session log. `log` remembers
    /// the file.
    pub(super) async fn logged_turn(&self, typed: &Typed, log: &mut Option<PathBuf>) -> Option<LoggedTurn> {
        let logs = self.seat.session_logs()?;
        let (header, known) = (typed.header().to_owned(), log.take());
        let look = move || {
            let (turn, log) = logs.turn(&header, known.as_deref())?;
            let session = logs.session_of(&log);
            Some((turn, log, session))
        };
        // A folder may hang, for example on a network file system. Then the answer comes from the
        // screen.
        let looked = tokio::time::timeout(LOG_PATIENCE, tokio::task::spawn_blocking(look)).await;
        let (turn, found, session) = looked.ok()?.ok().flatten()?;
        *log = Some(found);
        session.into_iter().for_each(|session| self.seat.is_in_session(session));
        Some(turn)
    }

    /// Ends the task of a turn that has ended, with its answer.
    async fn answer(&mut self, message: &MessageId, since: Timestamp, logged: Option<LoggedTurn>) {
        let Some(job) = self.job.take() else { return };
        if let Some(denial) = job.denied.as_ref().filter(|denial| !self.has_gone_on(denial)) {
            return self.done(message, TaskState::Rejected, None, denial.why()).await;
        }
        let answer = self.turn_answer(job.turn.typed(), since, logged);
        let why = format!("its turn ended without a reply; the answer is from its {}", answer.source);
        self.done(message, TaskState::Completed, Some(answer.into_body()), why).await;
    }

    /// Returns what the turn of a message has said so far.
    pub(super) fn turn_answer(
        &self,
        typed: &Typed,
        since: Timestamp,
        logged: Option<LoggedTurn>,
    ) -> TurnAnswer {
        let told_by = match self.seat.tells() {
            Tells::OpencodeServer { .. } => "server",
            _ => "hook",
        };
        let watch = self.seat.watch();
        let heard = watch.heard().answer.as_ref().filter(|(_, at)| *at >= since);
        match (heard, logged.filter(|turn| !turn.answer.is_empty())) {
            (Some((answer, _)), _) => answers::told(answer, told_by),
            (None, Some(turn)) => answers::logged(turn),
            (None, None) => answers::on_screen(&watch, typed),
        }
    }
}
