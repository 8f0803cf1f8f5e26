//! The driver: a thread that owns the core and the journal. Jobs in, effects out, the only `&mut`.
//!
//! It takes the jobs queued during the last commit, reads the clock once, runs one cycle
//! (`synapse_core::cycle`), and carries out the resulting effects. Waiting for the next deadline is
//! its only timer.
//!
//! Invariant: no effect before its commit. A full disk refuses; it does not stop the node.

use crate::effects::{Effects, Watching};
use crate::handle::{EventSender, Handle, Heard, QUEUE_MAX, ToHand};
use crate::metrics::Metrics;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use synapse_core::agents::Agent;
use synapse_core::cycle;
use synapse_core::effect::{Command, Draft, EndedTask, Facts, Fresh, Input, Serves};
use synapse_core::ids::{AgentId, AskId, LinkId, Seq, TaskId, TaskRef, Timestamp, WatcherId};
use synapse_core::policy::Caller;
use synapse_core::watch::Topic;
use synapse_core::{Hub, Refusal};
use synapse_store::{Journal, JournalError};
use tokio::sync::{mpsc, oneshot};

/// The maximum number of jobs committed together.
const BATCH_MAX: usize = 1_024;
/// How long everything is refused after a failed commit, before the next attempt.
const DISK_PAUSE: Duration = Duration::from_millis(250);

pub enum Job {
    Ask {
        caller: Caller,
        command: Command,
        reply: oneshot::Sender<Heard>,
    },
    /// Like `Ask`; the sender also gets all events of its task, beginning with this message.
    Send {
        caller: Caller,
        draft: Box<Draft>,
        events: EventSender,
        reply: oneshot::Sender<Heard>,
    },
    Follow {
        caller: Caller,
        topic: Topic,
        after: Option<Seq>,
        sender: EventSender,
        reply: oneshot::Sender<(WatcherId, Heard)>,
    },
    Link {
        agent: AgentId,
        window: usize,
        serves: Serves,
        running: Vec<TaskId>,
        sender: mpsc::Sender<ToHand>,
        reply: oneshot::Sender<LinkId>,
    },
    Tell(Input),
    Stop,
}

pub struct Driver {
    hub: Hub,
    journal: Journal,
    jobs: Receiver<Job>,
    effects: Effects,
    metrics: Arc<Metrics>,
    waiting: Arc<AtomicUsize>,
    agent: Agent,
    /// Whether an earlier node of this agent ran.
    restarted: bool,
    next_id: u64,
    randomness: Randomness,
    disk_pause: Option<(std::time::Instant, String)>,
    /// Expired history is removed in slices, whenever there is nothing else to do.
    prune_due: bool,
}

impl Driver {
    /// Creates the driver, and the handle through which all other code reaches it.
    pub fn new(
        hub: Hub,
        journal: Journal,
        effects: Effects,
        metrics: Arc<Metrics>,
        agent: Agent,
        restarted: bool,
    ) -> (Self, Handle) {
        let (sender, jobs) = sync_channel(QUEUE_MAX);
        let waiting = Arc::new(AtomicUsize::new(0));
        let handle = Handle { jobs: sender, waiting: waiting.clone() };
        let driver = Self {
            hub,
            journal,
            jobs,
            effects,
            metrics,
            waiting,
            agent,
            restarted,
            // Ids of links and asks must differ from those of the earlier process.
            next_id: now().0 << 20,
            randomness: Randomness::default(),
            disk_pause: None,
            prune_due: true,
        };
        (driver, handle)
    }

    fn agent_up(&self) -> Input {
        Input::AgentUp { agent: self.agent.clone(), restarted: self.restarted }
    }

    /// Runs until told to stop. An error means that the journal can be neither written nor read.
    pub fn run(mut self) -> Result<(), cycle::Lost> {
        self.effects.later.push(self.agent_up());
        let turned = cycle::restart(&mut self.hub, now(), &mut self.journal)?;
        self.effects.carry_out(turned.effects, &self.journal);
        self.show_waiting();
        loop {
            let mut stop = false;
            let batch = self.next_batch(&mut stop);
            let turned = cycle::turn(&mut self.hub, now(), batch, &mut self.journal)?;
            self.journal.end();
            if turned.records > 0 {
                self.metrics.committed(turned.records);
            }
            if let Some(why) = &turned.failed {
                tracing::warn!(%why, "a batch was not stored");
                self.metrics.commit_failed();
                self.disk_pause = Some((std::time::Instant::now(), why.clone()));
                if !self.hub.state().agents.contains_key(&self.agent.id) {
                    self.effects.later.push(self.agent_up());
                }
            }
            self.effects.latest = self.hub.state().seq;
            for gone in self.effects.carry_out(turned.effects, &self.journal) {
                self.effects.later.push(gone);
            }
            self.show_waiting();
            if turned.failed.is_some() && self.journal.is_gone() {
                // Its callers were refused. The next node reports what is missing, and does not
                // create a new journal in its place.
                return Err(cycle::Lost {
                    commit: JournalError::Gone.to_string(),
                    recover: "its files are not where they were".to_owned(),
                });
            }
            if stop {
                self.close();
                return Ok(());
            }
            self.tidy_up();
        }
    }

    fn next_batch(&mut self, stop: &mut bool) -> Vec<Input> {
        let mut inputs = std::mem::take(&mut self.effects.later);
        if self.disk_pause.as_ref().is_some_and(|(since, _)| since.elapsed() >= DISK_PAUSE) {
            self.disk_pause = None;
        }
        // A failed commit is not retried at once: a full disk stays full for a while.
        let pause = if self.disk_pause.is_some() { DISK_PAUSE } else { Duration::from_millis(1) };
        let at_once = self.disk_pause.is_none() && (!inputs.is_empty() || self.prune_due);
        let wake_at = self.hub.next_deadline().or_else(|| (!inputs.is_empty()).then(now));
        let first = match (!at_once, wake_at) {
            (false, _) => self.jobs.try_recv().ok(),
            (true, None) => self.jobs.recv().ok().or_else(|| {
                *stop = true;
                None
            }),
            (true, Some(deadline)) => {
                let wait = Duration::from_millis(deadline.since_ms(now()));
                match self.jobs.recv_timeout(wait.max(pause)) {
                    Ok(job) => Some(job),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => {
                        *stop = true;
                        None
                    }
                }
            }
        };
        inputs.push(Input::Clock);
        let Some(first) = first else { return inputs };
        self.take(first, &mut inputs, stop);
        while inputs.len() < BATCH_MAX {
            let Ok(job) = self.jobs.try_recv() else { break };
            self.take(job, &mut inputs, stop);
        }
        inputs
    }

    fn take(&mut self, job: Job, inputs: &mut Vec<Input>, stop: &mut bool) {
        self.next_id += 1;
        let id = self.next_id;
        match job {
            Job::Send { caller, mut draft, events, reply } => {
                let watcher = WatcherId(id);
                self.effects.watchers.insert(watcher, Watching { events, ends_with_task: true });
                draft.watcher = Some(watcher);
                self.ask(AskId(id), caller, Command::Send(draft), reply, inputs);
            }
            Job::Ask { caller, command, reply } => self.ask(AskId(id), caller, command, reply, inputs),
            Job::Follow { caller, topic, after, sender, reply } => {
                let watcher = WatcherId(id);
                self.effects.watchers.insert(watcher, Watching { events: sender, ends_with_task: false });
                self.effects.follow_replies.insert(AskId(id), (watcher, reply));
                let command = Command::Watch { watcher, topic, after };
                let (facts, fresh) = (Facts::default(), Fresh::default());
                inputs.push(Input::Asked { ask: AskId(id), caller, command, facts, fresh });
            }
            Job::Link { agent, window, serves, running, sender, reply } => {
                let link = LinkId(id);
                self.effects.links.insert(link, sender);
                let _ = reply.send(link);
                inputs.push(Input::LinkOpened { link, agent, window, serves, running });
            }
            Job::Tell(input) => {
                match &input {
                    Input::LinkClosed { link } => drop(self.effects.links.remove(link)),
                    Input::WatcherLeft { watcher } => drop(self.effects.watchers.remove(watcher)),
                    _ => {}
                }
                inputs.push(input);
            }
            Job::Stop => *stop = true,
        }
    }

    fn ask(
        &mut self,
        ask: AskId,
        caller: Caller,
        command: Command,
        reply: oneshot::Sender<Heard>,
        inputs: &mut Vec<Input>,
    ) {
        if let Some(refusal) = self.refused_at_once(&command) {
            self.effects.refuse(ask, reply, refusal);
            return;
        }
        let facts = match self.facts(&caller, &command) {
            Ok(facts) => facts,
            Err(e) => {
                self.effects.refuse(ask, reply, Refusal::NotStored { why: e.to_string() });
                return;
            }
        };
        let fresh = self.fresh(&command);
        self.effects.replies.insert(ask, reply);
        inputs.push(Input::Asked { ask, caller, command, facts, fresh });
    }

    /// Refuses new messages at once while the disk is known to be full, instead of after another
    /// failed commit.
    fn refused_at_once(&self, command: &Command) -> Option<Refusal> {
        let (_, why) = self.disk_pause.as_ref()?;
        matches!(command, Command::Send(_) | Command::Interrupt { .. })
            .then(|| Refusal::NotStored { why: why.clone() })
    }

    /// Looks up what the store remembers and the core no longer does.
    fn facts(&mut self, caller: &Caller, command: &Command) -> Result<Facts, JournalError> {
        let mut facts = Facts::default();
        match command {
            Command::Send(draft) | Command::Interrupt { draft: Some(draft), .. } => {
                if let Some(key) = draft.key(caller.sender().who) {
                    let key = key.text();
                    if !self.hub.recently_accepted(&key) {
                        self.journal.begin()?;
                        facts.prior = self.journal.prior(&key)?;
                    }
                }
                if let Some(task) = &draft.continues {
                    facts.ended = self.ended(task)?;
                }
            }
            Command::Reply { task: Some(task), .. }
            | Command::KeepAnswer { task, .. }
            | Command::Cancel { task, .. }
            | Command::Task { task } => {
                facts.ended = self.ended(task)?;
            }
            Command::Reply { task: None, .. } => {
                let agent = caller.agent().unwrap_or(self.agent.id);
                facts.ended = self.journal.last_ended(&agent.to_string())?;
            }
            _ => {}
        }
        Ok(facts)
    }

    /// Returns what the journal has of a task that is not open.
    fn ended(&self, task: &TaskRef) -> Result<Option<EndedTask>, JournalError> {
        if self.hub.state().tasks_named(task).is_empty() { self.journal.ended(task, now()) } else { Ok(None) }
    }

    fn fresh(&mut self, command: &Command) -> Fresh {
        match command {
            Command::Send(_) | Command::Interrupt { draft: Some(_), .. } => {
                let task = self.randomness.bytes();
                Fresh { message: time_ordered(now(), self.randomness.bytes()), task }
            }
            _ => Fresh::default(),
        }
    }

    fn show_waiting(&self) {
        let waiting = self.hub.state().mailboxes.values().map(|m| m.waiting()).sum();
        self.waiting.store(waiting, Ordering::Relaxed);
        self.metrics.gauges(waiting, self.hub.state().tasks.len(), self.hub.watcher_count());
    }

    /// Housekeeping between batches; what fails is tried again later.
    fn tidy_up(&mut self) {
        if self.journal.wants_snapshot(self.hub.state()) {
            match self.journal.take_snapshot(self.hub.state()) {
                Ok(()) => self.prune_due = true,
                Err(e) => tracing::warn!(error = %e, "no snapshot could be taken"),
            }
        } else if self.prune_due {
            self.prune_due = self.journal.prune(now()).unwrap_or_else(|e| {
                tracing::warn!(error = %e, "old history could not be removed");
                false
            });
        }
    }

    fn close(&mut self) {
        const WORTH_A_SNAPSHOT: u64 = 1_000;
        if let Err(e) = self.journal.close(self.hub.state(), WORTH_A_SNAPSHOT) {
            tracing::warn!(error = %e, "no snapshot at the end; the next start replays instead");
        }
    }
}

pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Formats sixteen bytes like a UUID of version 7: the time, then randomness. Ids in time order
/// keep the journal's indexes compact.
fn time_ordered(at: Timestamp, random: [u8; 16]) -> [u8; 16] {
    let mut bytes = random;
    bytes[..6].copy_from_slice(&at.0.to_be_bytes()[2..]);
    bytes[6] = 0x70 | (bytes[6] & 0x0f);
    bytes[8] = 0x80 | (bytes[8] & 0x3f);
    bytes
}

/// Random bytes, fetched from the kernel a page at a time.
struct Randomness {
    page: [u8; 1024],
    used: usize,
}

impl Default for Randomness {
    fn default() -> Self {
        Self { page: [0; 1024], used: 1024 }
    }
}

impl Randomness {
    fn bytes(&mut self) -> [u8; 16] {
        if self.used + 16 > self.page.len() {
            getrandom::fill(&mut self.page).expect("the kernel has randomness");
            self.used = 0;
        }
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.page[self.used..self.used + 16]);
        self.used += 16;
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_message_ids_are_uuids_of_version_7_in_the_order_of_time() {
        let (earlier, later) =
            (time_ordered(Timestamp(1_000), [0xff; 16]), time_ordered(Timestamp(1_001), [0; 16]));
        assert!(earlier < later);
        assert_eq!((later[6] >> 4, later[8] >> 6), (7, 2));
        assert_eq!(later[..6], [0, 0, 0, 0, 3, 0xe9]);
    }
}
