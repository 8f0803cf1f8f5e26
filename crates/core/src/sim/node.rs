//! A simulated node: the real hub and the real `cycle` over a simulated disk.
//!
//! Always: effects come from `cycle`, except where a breakage says otherwise.
//! Not here: when a turn happens and what carries the effects out (`world`).

use super::checker::{self, Checker};
use super::dice::Dice;
use super::disk::Disk;
use super::{Breakage, Broken, Rule};
use crate::agents::Agent;
use crate::cycle::{self, Turned};
use crate::effect::{Command, Effect, Facts, Input, Report};
use crate::hub::Hub;
use crate::ids::{AskId, LinkId, Seq, TaskId, Timestamp};
use crate::settings::Limits;
use crate::task::TaskState;

#[derive(Debug)]
pub(super) struct Node {
    pub(super) hub: Option<Hub>,
    pub(super) disk: Disk,
    pub(super) checker: Checker,
    pub(super) agents: Vec<Agent>,
    /// Inputs that arrived and are not decided yet.
    pub(super) inbox: Vec<Input>,
    pub(super) turn_planned: bool,
    pub(super) wake_at: Option<u64>,
    /// The difference between its clock and the world's.
    pub(super) clock_off_ms: i64,
    /// How often it was started.
    pub(super) starts: u64,
    links: u64,
    last_batch: usize,
    breakage: Option<Breakage>,
}

/// The point of a turn at which the process dies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Dies {
    Never,
    BeforeCommit,
    BeforeEffects,
    AmongEffects,
}

pub(super) fn limits() -> Limits {
    Limits {
        message_bytes_max: 400,
        mailbox_max: 12,
        mailbox_bytes_max: 2_000,
        open_tasks_max: 45,
        moves_max: 12,
        artifact_bytes_max: 300,
        pair_per_minute_max: 12,
        asking_tasks_max: 2,
        asking_ms: 80_000,
        ring_events_max: 24,
        ring_bytes_max: 64 << 10,
        ..Limits::default()
    }
}

impl Node {
    pub(super) fn new(agents: Vec<Agent>, clock_off_ms: i64, breakage: Option<Breakage>) -> Self {
        let mut disk = Disk::default();
        disk.late = breakage == Some(Breakage::ReplyBeforeJournal);
        Self {
            hub: None,
            disk,
            checker: Checker::new(limits()),
            agents,
            inbox: Vec::new(),
            turn_planned: false,
            wake_at: None,
            clock_off_ms,
            starts: 0,
            links: 0,
            last_batch: 0,
            breakage,
        }
    }

    pub(super) fn now(&self, time: u64) -> Timestamp {
        Timestamp(time.saturating_add_signed(self.clock_off_ms))
    }

    /// Returns the hub's limits; wrong ones if a breakage asks for that.
    fn own_limits(&self) -> Limits {
        let kept = limits();
        match self.breakage {
            Some(Breakage::AgeTooFast) => Limits { ageing_ms: kept.ageing_ms / 1000, ..kept },
            Some(Breakage::Overfill) => Limits {
                mailbox_max: 2 * kept.mailbox_max,
                mailbox_bytes_max: 2 * kept.mailbox_bytes_max,
                ..kept
            },
            _ => kept,
        }
    }

    /// Starts a process: reads the journal and cleans up after the previous process.
    pub(super) fn start(&mut self, time: u64, dice: &mut Dice) -> Result<Option<Turned>, Broken> {
        let replayed = self.disk.replay(dice.percent(50)).map_err(|why| {
            Broken::new(Rule::ReplayIsTheLiveState, format!("the journal cannot be replayed: {why}"))
        })?;
        if !checker::same(&replayed, &self.checker.state) {
            let what = format!(
                "a restart reads up to record {}, but {} were committed, or they differ",
                replayed.seq.0, self.checker.state.seq.0
            );
            return Err(Broken::new(Rule::ReplayIsTheLiveState, what));
        }
        let now = self.now(time);
        let mut hub = Hub::with_state(self.own_limits(), replayed);
        let turned = cycle::restart(&mut hub, now, &mut self.disk);
        let Ok(turned) = turned else { return Ok(None) };
        if turned.failed.is_some() {
            return Ok(None);
        }
        let restarted = hub.state().clone();
        self.hub = Some(hub);
        self.links = 0;
        self.starts += 1;
        self.checker.crashed();
        self.take_fresh(now)?;
        // A restart returns leases and wakes nothing; the clock may jump back before the
        // first turn wakes messages.
        self.checker.reread(&restarted);
        self.inbox.clear();
        self.inbox.extend(
            self.agents.iter().map(|agent| Input::AgentUp { agent: agent.clone(), restarted: false }),
        );
        Ok(Some(turned))
    }

    pub(super) fn new_link(&mut self) -> LinkId {
        self.links += 1;
        LinkId(self.links)
    }

    /// Decides everything that has arrived. Returns `None` if the process died of it.
    pub(super) fn turn(&mut self, time: u64, dies: Dies) -> Result<Option<Turned>, Broken> {
        let now = self.now(time);
        let mut batch = std::mem::take(&mut self.inbox);
        batch.push(Input::Clock);
        for input in &mut batch {
            self.look_up(input);
        }
        for input in &batch {
            self.note(input);
        }
        let Some(hub) = &mut self.hub else { return Ok(None) };
        self.disk.dying = dies == Dies::BeforeCommit;
        let before = hub.state().seq;
        let asks = batch.iter().filter(|i| matches!(i, Input::Asked { .. })).count();
        let turned = cycle::turn(hub, now, batch, &mut self.disk);
        self.disk.dying = false;
        let Ok(turned) = turned else { return Ok(None) };
        if turned.failed.is_some() {
            self.check_refused(&turned, before, asks)?;
            if let Some(hub) = &self.hub {
                self.checker.reread(hub.state());
            }
        } else {
            self.take_fresh(now)?;
        }
        Ok(Some(turned))
    }

    /// Looks up what the store knows, as a driver does before it asks the hub.
    fn look_up(&self, input: &mut Input) {
        let Input::Asked { caller, command, facts, .. } = input else { return };
        let named = match command {
            Command::Send(draft) | Command::Interrupt { draft: Some(draft), .. } => {
                let key = draft.key(caller.sender().who);
                let prior = key.and_then(|key| self.disk.priors.get(&key.text()).cloned());
                facts.prior = prior.filter(|_| self.breakage != Some(Breakage::ForgetDedupe));
                draft.continues.as_ref()
            }
            Command::Reply { task, .. } => task.as_ref(),
            Command::Cancel { task, .. } | Command::Task { task } => Some(&*task),
            _ => None,
        };
        let ended = named.and_then(|name| self.disk.ended_named(name));
        *facts = Facts { prior: facts.prior.take(), ended };
    }

    /// Records what this input asks for, so that the checker allows it to happen.
    fn note(&mut self, input: &Input) {
        if let Input::LinkOpened { link, serves, .. } = input {
            self.checker.links.insert(*link, *serves);
        }
        let Input::Asked { command, .. } = input else { return };
        let checker = &mut self.checker;
        match command {
            Command::Report { message, report } => {
                let Some(task) = checker.state.letters.get(message).map(|open| open.letter.task) else {
                    return;
                };
                match report {
                    Report::Done { state, answer, .. } => {
                        checker.wished.insert((task, *state));
                        if answer.is_some() {
                            checker.answered.insert(task);
                        }
                    }
                    Report::Refused { .. } => {
                        checker.wished.insert((task, TaskState::Failed));
                    }
                    _ => {}
                }
            }
            Command::Reply { task: Some(name), failed, .. } => {
                let named: Vec<TaskId> = checker.state.tasks_named(name).iter().map(|task| task.id).collect();
                let state = if *failed { TaskState::Failed } else { TaskState::Completed };
                checker.wished.extend(named.iter().map(|id| (*id, state)));
                checker.answered.extend(named);
            }
            Command::Cancel { task: name, .. } => {
                let named: Vec<TaskId> = checker.state.tasks_named(name).iter().map(|task| task.id).collect();
                checker.wished.extend(named.iter().map(|id| (*id, TaskState::Canceled)));
            }
            _ => {}
        }
    }

    /// Checks that a batch that was not stored has no effects but refusals, and changes nothing.
    fn check_refused(&self, turned: &Turned, before: Seq, asks: usize) -> Result<(), Broken> {
        let only_refusals = turned
            .effects
            .iter()
            .all(|e| matches!(e, Effect::Reply { answer, .. } if matches!(**answer, Err(crate::Refusal::NotStored { .. }))));
        let hub = self.hub.as_ref();
        let unchanged = hub
            .is_some_and(|hub| hub.state().seq == before && checker::same(hub.state(), &self.checker.state));
        if only_refusals && unchanged && turned.effects.len() == asks {
            return Ok(());
        }
        let what = format!("{} effects for {asks} asks, state unchanged: {unchanged}", turned.effects.len());
        Err(Broken::new(Rule::NothingIsSaidOfARolledBackBatch, what))
    }

    fn take_fresh(&mut self, now: Timestamp) -> Result<(), Broken> {
        let fresh = std::mem::take(&mut self.disk.fresh);
        if !fresh.is_empty() {
            self.last_batch = fresh.len();
        }
        self.checker.committed(&fresh)?;
        self.checker.turned(now);
        Ok(())
    }

    /// Checks that the live state, the checker's state and both replays of the disk are equal.
    pub(super) fn compare(&self) -> Result<(), Broken> {
        let Some(hub) = &self.hub else { return Ok(()) };
        Checker::one_place(hub.state())?;
        let differ = |what: &str| Err(Broken::new(Rule::ReplayIsTheLiveState, what));
        if !checker::same(hub.state(), &self.checker.state) {
            return differ("the live state is not what its records make");
        }
        for from_snapshot in [false, true] {
            match self.disk.replay(from_snapshot) {
                Ok(state) if checker::same(&state, hub.state()) => {}
                Ok(_) => return differ("a replay of the disk gives another state than the live one"),
                Err(why) => return differ(&why),
            }
        }
        Ok(())
    }

    /// The process dies and loses everything that was not on disk.
    pub(super) fn crash(&mut self) {
        self.hub = None;
        self.inbox.clear();
        self.wake_at = None;
        self.disk.pending.clear();
        if self.breakage == Some(Breakage::LoseOnCrash) {
            self.disk.lose_last(self.last_batch);
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.hub.is_some()
    }
}

/// Returns the id of a request, for a driver that must answer it.
pub(super) fn ask_of(input: &Input) -> Option<AskId> {
    if let Input::Asked { ask, .. } = input { Some(*ask) } else { None }
}
