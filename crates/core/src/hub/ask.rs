//! Queries: answered from memory. For what is no longer in memory the node asks the store.

use super::Hub;
use crate::effect::{Answer, Command, Facts, InboxView, Place};
use crate::ids::{AgentId, Timestamp};
use crate::listing::Listing;
use crate::policy::{About, Caller, Verb};
use crate::receipt::{Happened, Trail};
use crate::refusal::Refusal;
use crate::state::Open;

impl Hub {
    pub(super) fn answer(
        &mut self,
        now: Timestamp,
        caller: &Caller,
        question: Command,
        facts: &Facts,
    ) -> Result<Answer, Refusal> {
        self.may(caller, Verb::Read, About::default())?;
        match question {
            Command::Watch { watcher, topic, after } => {
                let latest = self.state.seq;
                let after = after.unwrap_or(latest);
                Ok(match self.watchers.follow(watcher, topic, after, latest) {
                    Ok(missed) => Answer::Following { missed, latest },
                    Err(behind) => Answer::Behind(behind),
                })
            }
            Command::Inbox { agent, max } => Ok(Answer::Inbox(self.inbox(now, agent, max))),
            Command::Receipt { message } => {
                let open = self.open_message(&message)?;
                let place = self.place(now, open);
                Ok(Answer::Receipt { letter: open.letter.clone(), trail: self.trail_now(open), place })
            }
            Command::Task { task } => {
                let task = Box::new(self.open_task(&task, facts)?.clone());
                Ok(Answer::Task { task, at: self.state.seq })
            }
            Command::Tasks { max } => {
                Ok(Answer::Tasks(self.state.tasks.values().take(max).map(|task| (**task).clone()).collect()))
            }
            Command::OwnTasks(listing) => Ok(self.own_tasks(now, caller, &listing)),
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
            Command::Shared { agent } => Ok(self.shared(&agent)),
            Command::Interrupt { .. } | Command::Share { .. } | Command::Follow { .. } => {
                unreachable!("handled before questions are")
            }
            Command::KeepAnswer { .. } | Command::Cancel { .. } | Command::Rename { .. } => {
                unreachable!("handled before questions are")
            }
            Command::Send(_) | Command::Reply { .. } | Command::Report { .. } => {
                unreachable!("handled before questions are")
            }
        }
    }

    fn own_tasks(&self, now: Timestamp, caller: &Caller, listing: &Listing) -> Answer {
        let own = caller.sender().who;
        let all = self.state.tasks.values().filter(|task| task.requester.who == own);
        let mut total = 0;
        let mut found = Vec::new();
        for task in all {
            let first = task.messages.first().and_then(|first| self.state.letters.get(first));
            let opened = first.map_or(Timestamp(0), |open| open.letter.accepted_at);
            total += usize::from(listing.wants(task, opened));
            found.extend(listing.place(task, opened).map(|at| (at, task)));
        }
        found.sort_unstable_by_key(|(at, task)| std::cmp::Reverse((*at, task.id)));
        found.truncate(listing.max);
        let tasks: Vec<_> = found.into_iter().map(|(at, task)| (at, (**task).clone())).collect();
        // The clock may have been set back since.
        let as_of = tasks.first().map_or(now, |(first, _)| now.max(*first));
        Answer::OwnTasks { tasks, total, at: self.state.seq, as_of }
    }

    fn place(&self, now: Timestamp, open: &Open) -> Place {
        let Some(mailbox) = self.state.mailboxes.get(&open.letter.to).filter(|_| !open.handed) else {
            return Place::Handed;
        };
        if let Some(lease) = mailbox.lease_of(open.at) {
            return Place::Leased { until: lease.until, tries: lease.slot.tries };
        }
        if let Some((until, tries)) = mailbox.rest_of(open.at) {
            return Place::Resting { until, tries };
        }
        let order = mailbox.in_order(now, self.limits.ageing_ms);
        let ahead = order.iter().position(|at| *at == open.at).unwrap_or(0);
        Place::Waiting { ahead, tries: mailbox.tries_of(open.at) }
    }

    /// Returns the trail, with the reason for waiting if the agent's terminal
    /// holds the message back.
    fn trail_now(&self, open: &Open) -> Trail {
        let mut trail = open.trail.clone();
        let mailbox = self.state.mailboxes.get(&open.letter.to).filter(|_| !open.handed);
        if let (Some(true), Some((since, why))) =
            (mailbox.map(|mailbox| mailbox.is_waiting(open.at)), self.held_at(&open.letter.to))
        {
            let after = trail.marks().last().map_or(*since, |mark| mark.at);
            trail.add((*since).max(after), Happened::Held(why.clone()));
        }
        trail
    }

    fn inbox(&self, now: Timestamp, agent: AgentId, max: usize) -> InboxView {
        let Some(mailbox) = self.state.mailboxes.get(&agent) else { return InboxView::default() };
        let shown = mailbox.in_order(now, self.limits.ageing_ms);
        let letters = shown.into_iter().take(max).filter_map(|at| self.state.at(at));
        InboxView {
            waiting: mailbox.waiting(),
            notes: mailbox.notes(),
            leased: mailbox.leases().count(),
            letters: letters.map(|open| (open.letter.clone(), self.trail_now(open))).collect(),
        }
    }
}
