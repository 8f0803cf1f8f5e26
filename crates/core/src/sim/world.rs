//! The world: time, the next event, and everyone in it.
//!
//! One queue of events drives everything; time jumps from one to the next. After `Options::steps`
//! events the world is *calm*: nothing fails any more, everyone finishes what they began, and the
//! result is compared with every promise.

use super::clients::{Client, Errand};
use super::dice::Dice;
use super::node::{self, Dies, Node};
use super::programs::Program;
use super::watchers::Watcher;
use super::{Breakage, Broken, Options, Report, Rule};
use crate::agents::Agent;
use crate::cycle::Turned;
use crate::effect::{Answer, Effect, Input};
use crate::ids::{AgentId, AgentType, AskId, Label, MessageId};
use crate::refusal::Refusal;
use std::collections::{BTreeMap, VecDeque};

const STORY_LINES_MAX: usize = 40;

pub(super) type Reply = Result<Answer, Refusal>;

#[derive(Debug)]
pub(super) struct World {
    pub(super) dice: Dice,
    pub(super) options: Options,
    pub(super) time: u64,
    pub(super) calm: bool,
    pub(super) nodes: Vec<Node>,
    pub(super) clients: Vec<Client>,
    pub(super) errands: Vec<Errand>,
    pub(super) programs: Vec<Program>,
    pub(super) watchers: Vec<Watcher>,
    pub(super) asks: BTreeMap<AskId, (usize, Asker)>,
    pub(super) story: VecDeque<String>,
    pub(super) report: Report,
    queue: BTreeMap<(u64, u64), Event>,
    ticket: u64,
}

/// Who waits for an answer.
#[derive(Clone, Debug)]
pub(super) enum Asker {
    Errand(usize),
    Program { program: usize, incarnation: u64, message: MessageId },
    Watcher { watcher: usize },
    Nobody,
}

#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A client makes its next request.
    Client(usize),
    /// An errand is tried or retried.
    Try(usize),
    /// A request of an errand reaches its node.
    Arrives(usize),
    /// An answer reaches its client.
    Answered(usize, Box<Reply>),
    Turn(usize),
    Wake(usize),
    Crash(usize),
    Restart(usize),
    DiskFull(usize),
    DiskFree(usize),
    ClockJumps(usize),
    /// A program connects.
    Opens(usize),
    /// A program acts on a message it has.
    Acts {
        program: usize,
        incarnation: u64,
        message: MessageId,
    },
    FromProgram {
        program: usize,
        incarnation: u64,
        start: u64,
        input: Box<Input>,
    },
    ProgramDies(usize),
    Watcher(usize),
}

impl World {
    pub(super) fn new(seed: u64, options: Options) -> Self {
        let mut world = Self {
            dice: Dice::new(seed),
            options,
            time: 1_700_000_000_000,
            calm: false,
            nodes: Vec::new(),
            clients: Vec::new(),
            errands: Vec::new(),
            programs: Vec::new(),
            watchers: Vec::new(),
            asks: BTreeMap::new(),
            story: VecDeque::new(),
            report: Report::default(),
            queue: BTreeMap::new(),
            ticket: 0,
        };
        for n in 0..world.dice.within(1, 3) {
            world.settle_node(u8::try_from(n).expect("three nodes at most"));
        }
        world.settle_clients();
        world.settle_watchers();
        world
    }

    fn settle_node(&mut self, n: u8) {
        let agents: Vec<Agent> = (0..self.dice.within(1, 4))
            .map(|a| {
                let a = u8::try_from(a).expect("four agents at most");
                Agent {
                    id: AgentId::from_bytes([0x10 * (n + 1) + a; 32]),
                    kind: AgentType::parse("exec").expect("a plain word is a type"),
                    name: Label::parse(&format!("n{n}a{a}")).ok(),
                    role: None,
                    capabilities: Label::parse("review").into_iter().collect(),
                    port: None,
                }
            })
            .collect();
        let off = i64::try_from(self.dice.below(7_200_000)).expect("two hours fit") - 3_600_000;
        let node = self.nodes.len();
        for agent in &agents {
            self.settle_programs(node, agent.id);
        }
        self.nodes.push(Node::new(agents, off, self.options.breakage));
        self.after(0, Event::Restart(node));
        let soon = self.dice.within(3_000, 60_000);
        self.after(soon, Event::Crash(node));
        let soon = self.dice.within(5_000, 90_000);
        self.after(soon, Event::DiskFull(node));
        let soon = self.dice.within(5_000, 200_000);
        self.after(soon, Event::ClockJumps(node));
    }

    pub(super) fn after(&mut self, ms: u64, event: Event) {
        self.ticket += 1;
        self.queue.insert((self.time + ms, self.ticket), event);
    }

    pub(super) fn tell(&mut self, line: impl FnOnce() -> String) {
        if self.story.len() == STORY_LINES_MAX {
            self.story.pop_front();
        }
        let line = format!("{:>5} {:>9} ms  {}", self.report.steps, self.time - 1_700_000_000_000, line());
        self.story.push_back(line);
    }

    pub(super) fn new_ask(&mut self, node: usize, asker: Asker) -> AskId {
        self.ticket += 1;
        let ask = AskId(self.ticket);
        self.asks.insert(ask, (node, asker));
        ask
    }

    /// Runs the world to its end, then checks the result.
    pub(super) fn live(&mut self) -> Result<(), Broken> {
        while self.report.steps < self.options.steps {
            let Some(((time, _), event)) = self.queue.pop_first() else { break };
            self.step(time, event)?;
        }
        self.become_calm()?;
        let patience = self.report.steps + 20 * self.options.steps + 20_000;
        loop {
            while let Some(((time, _), event)) = self.queue.pop_first() {
                self.step(time, event)?;
                if self.report.steps > patience {
                    return Err(Broken::new(
                        Rule::TheWorldComesToRest,
                        "it is still busy long after the faults",
                    ));
                }
            }
            if !self.wind_up() {
                break;
            }
        }
        self.check_the_end()
    }

    fn step(&mut self, time: u64, event: Event) -> Result<(), Broken> {
        self.time = self.time.max(time);
        self.report.steps += 1;
        match event {
            Event::Client(client) => self.client_thinks(client),
            Event::Try(errand) => self.try_errand(errand),
            Event::Arrives(errand) => self.errand_arrives(errand),
            Event::Answered(errand, reply) => return self.errand_answered(errand, *reply),
            Event::Turn(node) => return self.turn(node),
            Event::Wake(node) => {
                if self.nodes[node].wake_at.is_some_and(|at| at <= self.time) {
                    self.nodes[node].wake_at = None;
                    self.plan_turn(node, 0);
                }
            }
            Event::Crash(node) => {
                if !self.calm {
                    let again = self.dice.within(3_000, 120_000);
                    self.after(again, Event::Crash(node));
                    return self.crash(node, "for no reason");
                }
            }
            Event::Restart(node) => return self.restart(node),
            Event::DiskFull(node) => self.disk_fills(node),
            Event::DiskFree(node) => {
                self.nodes[node].disk.full = false;
                self.tell(|| format!("node {node}: the disk has room again"));
            }
            Event::ClockJumps(node) => self.clock_jumps(node),
            Event::Opens(program) => self.program_opens(program),
            Event::Acts { program, incarnation, message } => {
                self.program_acts(program, incarnation, &message)
            }
            Event::FromProgram { program, incarnation, start, input } => {
                self.program_is_heard(program, incarnation, start, *input);
            }
            Event::ProgramDies(program) => self.program_dies(program),
            Event::Watcher(watcher) => return self.watcher_acts(watcher),
        }
        Ok(())
    }

    /// An input arrives at a node, which soon decides it together with whatever
    /// else arrives until then.
    pub(super) fn arrive(&mut self, node: usize, input: Input) {
        self.nodes[node].inbox.push(input);
        let delay = if self.dice.percent(50) { 0 } else { self.dice.within(1, 30) };
        self.plan_turn(node, delay);
    }

    pub(super) fn plan_turn(&mut self, node: usize, delay: u64) {
        if !self.nodes[node].turn_planned {
            self.nodes[node].turn_planned = true;
            self.after(delay, Event::Turn(node));
        }
    }

    fn turn(&mut self, node: usize) -> Result<(), Broken> {
        self.nodes[node].turn_planned = false;
        if !self.nodes[node].is_up() {
            return Ok(());
        }
        let dies = match self.dice.below(400) {
            0 if !self.calm => Dies::BeforeCommit,
            1 if !self.calm => Dies::BeforeEffects,
            2..=3 if !self.calm => Dies::AmongEffects,
            _ => Dies::Never,
        };
        self.report.turns += 1;
        let time = self.time;
        let mut prior: BTreeMap<AskId, bool> = BTreeMap::new();
        for input in &self.nodes[node].inbox {
            if let Some(ask) = node::ask_of(input) {
                prior.insert(ask, self.is_known_repeat(node, input));
            }
        }
        let before = self.nodes[node].disk.entries.len();
        let Some(turned) = self.nodes[node].turn(time, dies)? else {
            return self.crash(node, "before its commit");
        };
        self.tell_records(node, before);
        if let Some(why) = &turned.failed {
            self.report.commit_failures += 1;
            self.tell(|| format!("node {node}: a batch was not stored: {why}"));
            self.retry_after_failure(node);
        }
        self.carry_out(node, turned, dies, &prior)?;
        if !self.nodes[node].is_up() {
            return Ok(());
        }
        self.nodes[node].disk.settle();
        self.plan_wake(node);
        self.look_closely(node)
    }

    pub(super) fn tell_records(&mut self, node: usize, before: usize) {
        let names: Vec<String> = self.nodes[node].disk.entries[before..]
            .iter()
            .map(|e| {
                self.report.fingerprint =
                    (self.report.fingerprint ^ e.seq.0 ^ e.at.0).wrapping_mul(0x0100_0000_01b3);
                format!("{}:{}", e.seq.0, e.record.name())
            })
            .collect();
        self.report.records += names.len() as u64;
        if !names.is_empty() {
            self.tell(|| format!("node {node}: wrote {}", names.join(" ")));
        }
    }

    /// Retries after a failed commit what nobody else retries, as a driver does.
    fn retry_after_failure(&mut self, node: usize) {
        let Some(hub) = &self.nodes[node].hub else { return };
        let unknown: Vec<Agent> = self.nodes[node]
            .agents
            .iter()
            .filter(|agent| !hub.state().agents.contains_key(&agent.id))
            .cloned()
            .collect();
        self.nodes[node]
            .inbox
            .extend(unknown.into_iter().map(|agent| Input::AgentUp { agent, restarted: false }));
        self.plan_turn(node, 700);
    }

    fn carry_out(
        &mut self,
        node: usize,
        turned: Turned,
        dies: Dies,
        prior: &BTreeMap<AskId, bool>,
    ) -> Result<(), Broken> {
        let dies_at = match dies {
            Dies::BeforeEffects => 0,
            Dies::AmongEffects => self.dice.index(turned.effects.len() + 1),
            Dies::Never | Dies::BeforeCommit => usize::MAX,
        };
        for (n, effect) in turned.effects.into_iter().enumerate() {
            if n == dies_at {
                return self.crash(node, "among its effects");
            }
            self.carry(node, effect, prior)?;
        }
        if dies_at == usize::MAX { Ok(()) } else { self.crash(node, "after its effects") }
    }

    fn carry(&mut self, node: usize, effect: Effect, prior: &BTreeMap<AskId, bool>) -> Result<(), Broken> {
        match effect {
            Effect::Reply { ask, answer } => {
                let Some((_, asker)) = self.asks.remove(&ask) else { return Ok(()) };
                if let (Some(true), Err(refusal)) = (prior.get(&ask), answer.as_ref())
                    && !matches!(refusal, Refusal::NotStored { .. })
                {
                    let what = format!("the repeat of an accepted message is refused: {refusal}");
                    return Err(Broken::new(Rule::OneEffectPerKey, what));
                }
                match asker {
                    Asker::Errand(errand) => self.answer_errand(errand, *answer),
                    Asker::Program { program, incarnation, message } => {
                        return self.program_told(program, incarnation, &message, *answer);
                    }
                    Asker::Watcher { watcher } => return self.watcher_told(watcher, *answer),
                    Asker::Nobody => {}
                }
            }
            Effect::Deliver { link, letter, .. } => {
                self.report.deliveries += 1;
                self.nodes[node].checker.hands_out(&letter.id, link)?;
                return self.program_gets(node, link, (*letter).clone());
            }
            Effect::Stop { link, task, .. } => self.program_stops(node, link, task),
            Effect::Notify { watcher, entry } => return self.watcher_sees(watcher, &entry),
            // Programs here ignore interruptions, and nobody looks at presence or context.
            Effect::Urge { .. }
            | Effect::Interrupt { .. }
            | Effect::Presence { .. }
            | Effect::Context { .. } => {}
        }
        Ok(())
    }

    pub(super) fn plan_wake(&mut self, node: usize) {
        let Some(deadline) = self.nodes[node].hub.as_ref().and_then(|hub| hub.next_deadline()) else {
            return;
        };
        let wait = deadline.since_ms(self.nodes[node].now(self.time)).max(1);
        let at = self.time + wait;
        if self.nodes[node].wake_at.is_none_or(|planned| planned > at) {
            self.nodes[node].wake_at = Some(at);
            self.after(wait, Event::Wake(node));
        }
    }

    fn look_closely(&mut self, node: usize) -> Result<(), Broken> {
        let turns = self.report.turns;
        let node = &mut self.nodes[node];
        if turns.is_multiple_of(37)
            && let Some(hub) = &node.hub
        {
            node.disk.save_snapshot(hub.state());
        }
        if turns.is_multiple_of(29) {
            return node.compare();
        }
        node.hub.as_ref().map_or(Ok(()), |hub| super::checker::Checker::one_place(hub.state()))
    }

    pub(super) fn breaks(&self, breakage: Breakage) -> bool {
        self.options.breakage == Some(breakage)
    }
}
