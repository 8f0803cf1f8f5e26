//! Questions: answered from memory; what has left memory is in the store, and the node asks there.

use super::Hub;
use crate::effect::{Answer, Command, Facts, InboxView, Output};
use crate::ids::{AgentId, MessageId, Timestamp};
use crate::policy::{self, About, Caller, Verb};
use crate::receipt::Step;
use crate::refusal::Refusal;

impl Hub {
    pub(super) fn answer(
        &mut self,
        now: Timestamp,
        caller: &Caller,
        question: Command,
        facts: &Facts,
        out: &mut Output,
    ) -> Result<Answer, Refusal> {
        policy::may(caller, Verb::Read, About::default())?;
        match question {
            Command::Watch { watcher, topic, after } => {
                let latest = self.state.seq;
                let after = after.unwrap_or(latest);
                Ok(match self.watchers.follow(watcher, topic, after, latest) {
                    Ok(missed) => Answer::Following { missed, latest },
                    Err(behind) => Answer::Behind(behind),
                })
            }
            Command::Inbox { agent, take, max } => self.inbox(now, caller, agent, take, max, out),
            Command::Receipt { message } => {
                let open = self.open_message(&message)?;
                Ok(Answer::Receipt { letter: Box::new(open.letter.clone()), trail: open.trail.clone() })
            }
            Command::Task { task } => Ok(Answer::Task(Box::new(self.open_task(&task, facts)?.clone()))),
            Command::Tasks { max } => {
                Ok(Answer::Tasks(self.state.tasks.values().take(max).cloned().collect()))
            }
            Command::Agents => Ok(Answer::Agents(
                self.state
                    .agents
                    .values()
                    .map(|agent| {
                        let waiting = self.state.mailboxes.get(&agent.id).map_or(0, |m| m.waiting());
                        (agent.clone(), self.presence.get(&agent.id).cloned(), waiting)
                    })
                    .collect(),
            )),
            Command::Send(_) | Command::Reply { .. } | Command::Report { .. } | Command::Cancel { .. } => {
                unreachable!("handled before questions are")
            }
        }
    }

    fn inbox(
        &mut self,
        now: Timestamp,
        caller: &Caller,
        agent: AgentId,
        take: bool,
        max: usize,
        out: &mut Output,
    ) -> Result<Answer, Refusal> {
        let Some(mailbox) = self.state.mailboxes.get(&agent) else {
            return Ok(Answer::Inbox(InboxView::default()));
        };
        let (waiting, notes, leased) = (mailbox.waiting(), mailbox.notes(), mailbox.leases().count());
        let shown = mailbox.in_order(now, self.limits.ageing_ms);
        let mut letters: Vec<_> = shown
            .into_iter()
            .take(max)
            .filter_map(|at| self.state.at(at))
            .map(|open| (open.letter.clone(), open.trail.clone()))
            .collect();
        if take {
            policy::may(caller, Verb::Report, About { worker: Some(agent), requester: None })?;
            // Taking one may let a link have another of them: that one is not taken here as well.
            letters.retain(|(letter, _)| {
                let taken = self.is_unleased(&letter.id);
                if taken {
                    self.seen(now, caller, &letter.id, Step::Seen, self.who_moves(caller), out);
                }
                taken
            });
        }
        Ok(Answer::Inbox(InboxView { waiting, notes, leased, letters }))
    }

    /// Still in its mailbox, and with no link.
    fn is_unleased(&self, message: &MessageId) -> bool {
        self.state.letters.get(message).is_some_and(|open| {
            let mailbox = self.state.mailboxes.get(&open.letter.to);
            !open.handed && mailbox.is_some_and(|m| m.lease_of(open.at).is_none())
        })
    }
}
