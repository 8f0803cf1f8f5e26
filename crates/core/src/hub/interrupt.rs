//! Interrupting what an agent is doing (X-4, PTY-9).
//!
//! A program that listens while it works is notified and decides for itself; the interruption is
//! recorded in the task's history. A plain command cannot be notified, so it is stopped: its task
//! is canceled, and the reason says that it was interrupted. A message that comes with the
//! interruption has the highest priority, so it is next.

use super::Hub;
use crate::effect::{Answer, Draft, Effect, Facts, Fresh, Interruption, Output};
use crate::ids::{AgentId, LinkId, TaskId, Timestamp};
use crate::message::{Body, Content};
use crate::policy::{self, About, Caller, Verb};
use crate::record::Record;
use crate::refusal::Refusal;
use crate::task::CancelAsked;

/// The most tasks of one agent that one request interrupts; a joined program
/// may have seen many more.
const TASKS_MAX: usize = 256;

impl Hub {
    /// Interrupts all or nothing: if the message is refused or is a repeat, nothing is interrupted.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn interrupt(
        &mut self,
        now: Timestamp,
        caller: &Caller,
        agent: AgentId,
        why: String,
        draft: Option<Draft>,
        facts: &Facts,
        fresh: Fresh,
        out: &mut Output,
    ) -> Result<Answer, Refusal> {
        policy::may(&self.rules, caller, Verb::Interrupt, About::default())?;
        let begun = self.state.tasks.values().filter(|task| task.agent == agent && task.has_begun());
        let begun: Vec<TaskId> = begun.map(|task| task.id).take(TASKS_MAX).collect();
        let taken = match draft {
            Some(draft) => match self.accept(now, caller, draft, facts, fresh, out)? {
                Answer::Accepted(taken) => taken.into_iter().next(),
                _ => None,
            },
            None => {
                let digest = Body::of(&Content::text(why.clone())).digest();
                self.pass_guard(now, &caller.sender(), agent, 0, digest, out)?;
                None
            }
        };
        if taken.as_ref().is_some_and(|taken| taken.duplicate) {
            return Ok(Answer::Interrupted { tasks: Vec::new(), taken });
        }
        let by = self.who_moves(caller);
        let mut tasks = Vec::new();
        for task in begun {
            if let Some(what) = self.interrupt_task(now, agent, task, &by, &why, out) {
                tasks.push((task, what));
            }
        }
        Ok(Answer::Interrupted { tasks, taken })
    }

    fn interrupt_task(
        &mut self,
        now: Timestamp,
        agent: AgentId,
        id: TaskId,
        by: &str,
        why: &str,
        out: &mut Output,
    ) -> Option<Interruption> {
        let task = self.state.tasks.get(&id)?;
        if task.cancel.is_some() {
            return None;
        }
        let has_room = task.history.len() < self.limits.moves_max;
        let deaf = self.held_by(&id).filter(|link| !self.links[link].hears());
        if let Some(link) = deaf {
            let why = format!("interrupted: {why}");
            let asked = CancelAsked { by: by.to_owned(), why: why.clone() };
            self.emit(now, Record::CancelAsked { task: id, asked }, out);
            out.effects.push(Effect::Stop { link, task: id, why });
            return Some(Interruption::Stopping);
        }
        let listening: Vec<LinkId> = self
            .links
            .iter()
            .filter(|(_, link)| {
                link.agent == agent && (!link.serves.until_ended() || link.tasks.contains(&id))
            })
            .map(|(link, _)| *link)
            .collect();
        if listening.is_empty() {
            return None;
        }
        // A full history gets no further line, but the program is notified all the same.
        if has_room {
            let record = Record::Interrupted { task: id, by: by.to_owned(), why: why.to_owned() };
            self.emit(now, record, out);
        }
        let told = |link| Effect::Interrupt { link, task: id, by: by.to_owned(), why: why.to_owned() };
        out.effects.extend(listening.into_iter().map(told));
        Some(Interruption::Told)
    }
}
