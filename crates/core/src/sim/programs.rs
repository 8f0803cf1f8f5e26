//! Programs at the other end of links: hands that work on tasks, and readers that
//! report what they have seen.
//!
//! A hand begins a task only after the node has confirmed its `Working`. A program may be slow,
//! silent, refuse, or die; in a calm world all of them do their work.
//!
//! Always: every report of a program is recorded first, so that the checker knows
//! what was really reported.

use super::held::{Held, Stage};
use super::node::limits;
use super::world::{Asker, Event, Reply, World};
use super::{Breakage, Broken, Rule};
use crate::effect::{Answer, Command, Facts, Fresh, Input, Report, Serves};
use crate::ids::{AgentId, LinkId, MessageId, TaskId, TaskRef};
use crate::message::{Body, Content, Expects, Letter, Proof};
use crate::policy::Caller;
use crate::receipt::Step;
use crate::record::Said;
use crate::refusal::Refusal;
use crate::task::TaskState;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub(super) struct Program {
    pub(super) node: usize,
    pub(super) agent: AgentId,
    serves: Serves,
    window: usize,
    /// Never refuses, never hangs, never dies.
    steady: bool,
    link: Option<LinkId>,
    incarnation: u64,
    held: BTreeMap<MessageId, Held>,
    /// When its last report arrives; reports arrive in the order they were sent.
    heard_until: u64,
    /// Every task that any program began in this slot, for the checker.
    begun: BTreeSet<TaskId>,
    /// Tasks that it wrote and certainly did not submit: they may be begun again.
    not_submitted: BTreeSet<TaskId>,
}

impl Program {
    pub(super) fn takes_notes(&self) -> bool {
        matches!(self.serves, Serves::UntilSeen { notes: true })
    }

    fn is_hand(&self) -> bool {
        self.serves.until_ended()
    }
}

impl World {
    pub(super) fn settle_programs(&mut self, node: usize, agent: AgentId) {
        let is_hand = self.dice.percent(60);
        for _ in 0..if self.dice.percent(35) { 2 } else { 1 } {
            let notes = self.dice.percent(50);
            let steady = self.dice.percent(40);
            let window = usize::try_from(self.dice.within(1, 3)).expect("three at most");
            let hears = self.dice.percent(50);
            let serves = match is_hand {
                true if self.dice.percent(30) => Serves::Typed,
                true => Serves::UntilEnded { hears },
                false => Serves::UntilSeen { notes },
            };
            let number = self.programs.len();
            self.programs.push(Program {
                node,
                agent,
                serves,
                window,
                steady,
                link: None,
                incarnation: 0,
                held: BTreeMap::new(),
                heard_until: 0,
                begun: BTreeSet::new(),
                not_submitted: BTreeSet::new(),
            });
            let soon = self.dice.within(10, 3_000);
            self.after(soon, Event::Opens(number));
            if !steady {
                let soon = self.dice.within(2_000, 60_000);
                self.after(soon, Event::ProgramDies(number));
            }
        }
    }

    pub(super) fn program_opens(&mut self, program: usize) {
        let this = &mut self.programs[program];
        if this.link.is_some() {
            return;
        }
        let node = this.node;
        if !self.nodes[node].is_up() {
            return self.after(500, Event::Opens(program));
        }
        this.held.retain(|_, held| held.stage == Stage::Begun || held.stage == Stage::Asked);
        this.held.values_mut().for_each(|held| held.said = None);
        let running: Vec<TaskId> = this.held.values().map(|held| held.letter.task).collect();
        let link = self.nodes[node].new_link();
        let this = &mut self.programs[program];
        this.link = Some(link);
        let (agent, window, serves) = (this.agent, this.window, this.serves);
        let messages: Vec<MessageId> = this.held.keys().cloned().collect();
        self.tell(|| format!("program {program}: opens link {} with {} running", link.0, running.len()));
        self.arrive(node, Input::LinkOpened { link, agent, window, serves, running });
        self.turn_gate(program);
        for message in messages {
            self.plan_act(program, message, 100);
        }
        self.sweep(program);
    }

    /// Closes a terminal's gate for a moment, then opens it again.
    fn turn_gate(&mut self, program: usize) {
        let this = &self.programs[program];
        let (Serves::Typed, Some(link)) = (this.serves, this.link) else { return };
        for held in [Some("it is busy".to_owned()), None] {
            self.say_later(program, Input::Gate { link, held });
        }
    }

    fn plan_act(&mut self, program: usize, message: MessageId, within_ms: u64) {
        let incarnation = self.programs[program].incarnation;
        let delay = self.dice.within(1, within_ms);
        self.after(delay, Event::Acts { program, incarnation, message });
    }

    /// Fails tasks that a hand of this agent began and no living program has. Returns
    /// true if there were any.
    pub(super) fn sweep(&mut self, program: usize) -> bool {
        let this = &self.programs[program];
        let (node, agent, Some(link)) = (this.node, this.agent, this.link) else { return false };
        let Some(hub) = self.nodes[node].hub.as_ref().filter(|_| this.is_hand()) else { return false };
        let owned: BTreeSet<TaskId> = self
            .programs
            .iter()
            .filter(|p| p.node == node && p.agent == agent)
            .flat_map(|p| p.held.values().map(|held| held.letter.task))
            .collect();
        let lost: Vec<MessageId> = hub
            .state()
            .tasks
            .values()
            .filter(|task| task.agent == agent && task.has_begun() && !owned.contains(&task.id))
            .map(|task| task.messages[0].clone())
            .collect();
        for message in &lost {
            let report =
                Report::Done { state: TaskState::Failed, answer: None, why: "its program died".into() };
            let ask = self.new_ask(node, Asker::Nobody);
            let caller = Caller::Hand { link, agent };
            let command = Command::Report { message: message.clone(), report };
            let (facts, fresh) = (Facts::default(), Fresh::default());
            self.arrive(node, Input::Asked { ask, caller, command, facts, fresh });
        }
        !lost.is_empty()
    }

    pub(super) fn program_gets(&mut self, node: usize, link: LinkId, letter: Letter) -> Result<(), Broken> {
        let at = |p: &Program| p.node == node && p.link == Some(link);
        let Some(program) = self.programs.iter().position(at) else { return Ok(()) };
        self.window_holds(node, program, &letter)?;
        if self.breaks(Breakage::DeliverTwice) && self.dice.percent(20) {
            self.nodes[node].checker.hands_out(&letter.id, LinkId(link.0 + 1))?;
        }
        if self.breaks(Breakage::ClaimSeen) && self.dice.percent(20) {
            let ask = self.new_ask(node, Asker::Nobody);
            let caller = Caller::Hand { link, agent: letter.to };
            let command = Command::Report { message: letter.id.clone(), report: Report::Step(Step::Seen) };
            let (facts, fresh) = (Facts::default(), Fresh::default());
            self.arrive(node, Input::Asked { ask, caller, command, facts, fresh });
        }
        self.tell(|| format!("program {program}: gets {}", letter.id));
        let id = letter.id.clone();
        let held = Held { letter, stage: Stage::Got, said: None, stop: false, writing: false };
        let steady = self.programs[program].steady || self.calm;
        self.programs[program].held.entry(id.clone()).or_insert(held);
        // An unsteady program may keep it until the lease has expired.
        let within = if steady || self.dice.percent(70) { 2_000 } else { 150_000 };
        self.plan_act(program, id, within);
        Ok(())
    }

    /// Checks that a link never gets more than its window. Tasks of a hand that wait for input
    /// do not count, up to a limit; a follow-up for one of them comes only if that task may
    /// resume beside the others.
    fn window_holds(&self, node: usize, program: usize, letter: &Letter) -> Result<(), Broken> {
        let this = &self.programs[program];
        let lends = matches!(this.serves, Serves::UntilEnded { .. });
        if this.held.contains_key(&letter.id) || (letter.follow_up && !lends) {
            return Ok(());
        }
        let state = &self.nodes[node].checker.state;
        let counts = |held: &&Held| {
            let open = state.letters.get(&held.letter.id);
            let leased = open.and_then(|o| state.mailboxes.get(&o.letter.to)?.lease_of(o.at));
            let leased = leased.is_some_and(|lease| Some(lease.link) == this.link);
            // Counts only what the node confirmed: others may have begun what this program
            // merely still remembers.
            let works = matches!(held.stage, Stage::Begun | Stage::Asked) && open.is_some_and(|o| o.handed);
            !held.letter.follow_up && open.is_some() && (leased || works)
        };
        let asks =
            |held: &&Held| lends && state.tasks.get(&held.letter.task).is_some_and(|task| task.state.asks());
        let asking = this.held.values().filter(counts).filter(asks).count();
        let free = if letter.follow_up { asking } else { asking.min(limits().asking_tasks_max) };
        let has = this.held.values().filter(counts).count() - free;
        if has >= this.window {
            let what =
                format!("program {program} has {has} of {} and gets {} on top", this.window, letter.id);
            return Err(Broken::new(Rule::NoQueuePassesItsBound, what));
        }
        Ok(())
    }

    pub(super) fn program_stops(&mut self, node: usize, link: LinkId, task: TaskId) {
        let at = |p: &Program| p.node == node && p.link == Some(link);
        let Some(program) = self.programs.iter().position(at) else { return };
        let held =
            self.programs[program].held.values_mut().find(|h| h.letter.task == task && !h.letter.follow_up);
        let Some(held) = held else { return };
        held.stop = true;
        let message = held.letter.id.clone();
        self.plan_act(program, message, 500);
    }

    pub(super) fn program_acts(&mut self, program: usize, incarnation: u64, message: &MessageId) {
        let this = &self.programs[program];
        if this.incarnation != incarnation || this.link.is_none() {
            return;
        }
        let (steady, is_hand) = (this.steady || self.calm, this.is_hand());
        let typed = this.serves == Serves::Typed;
        let Some(held) = this.held.get(message) else { return };
        if held.said.is_some() {
            return;
        }
        let (stage, follow_up, stop) = (held.stage, held.letter.follow_up, held.stop);
        let report = match stage {
            Stage::Got | Stage::Written if !steady && self.dice.percent(18) => {
                Report::Refused { why: "not now".into() }
            }
            Stage::Got if !steady && self.dice.percent(15) => return,
            _ if follow_up && is_hand => Report::Step(Step::Submitted),
            _ if stage == Stage::Seen => return self.reader_answers(program, message),
            _ if !is_hand => Report::Step(Step::Seen),
            Stage::Got if typed && self.dice.percent(70) => Report::Writing,
            Stage::Got if self.dice.percent(40) => Report::Step(Step::Written),
            Stage::Got if self.dice.percent(10) => Report::Step(Step::Seen),
            Stage::Got | Stage::Written if !steady && self.dice.percent(4) => done(TaskState::Rejected),
            Stage::Got | Stage::Written | Stage::Seen => Report::Working,
            Stage::Begun if held.writing && !steady && self.dice.percent(25) => {
                Report::NotSubmitted { why: "a dialog".into(), rest_ms: self.dice.within(0, 20_000) }
            }
            Stage::Begun | Stage::Asked if stop => done(TaskState::Canceled),
            Stage::Begun => match self.dice.below(10) {
                0 | 1 => {
                    Report::Said(Said::Progress { text: "on it ".repeat(self.dice.index(20)), percent: None })
                }
                2 => Report::NeedsInput {
                    prompt: Body::of(&Content::text("which?")),
                    auth: self.dice.percent(30),
                },
                3 => Report::Step(Step::Seen),
                4 => done(TaskState::Failed),
                _ => done(TaskState::Completed),
            },
            Stage::Asked => done(TaskState::Completed),
        };
        self.program_says(program, message, report);
    }

    fn program_says(&mut self, program: usize, message: &MessageId, report: Report) {
        let this = &mut self.programs[program];
        let (node, agent, Some(link)) = (this.node, this.agent, this.link) else { return };
        if let Some(held) = this.held.get_mut(message) {
            held.said = Some(report.clone());
            // True from now on, whether or not the node gets the report.
            if matches!(report, Report::NotSubmitted { .. }) {
                this.not_submitted.insert(held.letter.task);
            }
        }
        let proven = match report {
            Report::Step(step) => Some(step),
            Report::Working => Some(Step::Submitted),
            _ => None,
        };
        self.nodes[node].checker.said.extend(proven.map(|step| (message.clone(), step)));
        let command = Command::Report { message: message.clone(), report };
        self.send_in_order(program, Caller::Hand { link, agent }, command, message.clone());
    }

    fn send_in_order(&mut self, program: usize, caller: Caller, command: Command, message: MessageId) {
        let (node, incarnation) = (self.programs[program].node, self.programs[program].incarnation);
        let ask = self.new_ask(node, Asker::Program { program, incarnation, message });
        let (facts, fresh) = (Facts::default(), Fresh::default());
        self.say_later(program, Input::Asked { ask, caller, command, facts, fresh });
    }

    fn say_later(&mut self, program: usize, input: Input) {
        let Program { incarnation, node, .. } = self.programs[program];
        let (start, input) = (self.nodes[node].starts, Box::new(input));
        let at = (self.time + self.dice.within(0, 20)).max(self.programs[program].heard_until);
        self.programs[program].heard_until = at;
        self.after(at - self.time, Event::FromProgram { program, incarnation, start, input });
    }

    /// Delivers a program's input to its node, unless the link broke on the way.
    pub(super) fn program_is_heard(&mut self, program: usize, incarnation: u64, start: u64, input: Input) {
        let this = &self.programs[program];
        let closes = matches!(input, Input::LinkClosed { .. });
        let node = &self.nodes[this.node];
        if (this.incarnation != incarnation && !closes) || !node.is_up() || node.starts != start {
            return;
        }
        self.arrive(self.programs[program].node, input);
    }

    pub(super) fn program_told(
        &mut self,
        program: usize,
        incarnation: u64,
        message: &MessageId,
        reply: Reply,
    ) -> Result<(), Broken> {
        if self.programs[program].incarnation != incarnation {
            return Ok(());
        }
        let Some(held) = self.programs[program].held.get_mut(message) else { return Ok(()) };
        let said = held.said.take();
        match (reply, said) {
            (Err(Refusal::NotStored { .. }), _) => {
                self.plan_act(program, message.clone(), 1_500);
            }
            (Err(Refusal::TooLarge { .. }), Some(Report::Said(_))) => {
                self.program_says(program, message, done(TaskState::Completed));
            }
            (Err(_), _) | (Ok(Answer::Replied(_)), _) => {
                self.programs[program].held.remove(message);
            }
            (Ok(_), Some(report)) => return self.report_taken(program, message, &report),
            (Ok(_), None) => {}
        }
        Ok(())
    }

    fn report_taken(&mut self, program: usize, message: &MessageId, report: &Report) -> Result<(), Broken> {
        self.turn_gate(program);
        let is_hand = self.programs[program].is_hand();
        let Some(held) = self.programs[program].held.get_mut(message) else { return Ok(()) };
        let (task, expects, follow_up) = (held.letter.task, held.letter.expects, held.letter.follow_up);
        let mut pause = 3_000;
        match report {
            Report::Done { .. } | Report::Refused { .. } | Report::NotSubmitted { .. } => {
                self.programs[program].held.remove(message);
                return Ok(());
            }
            Report::Step(_) if follow_up => {
                self.programs[program].held.remove(message);
                self.resume(program, task);
                return Ok(());
            }
            Report::Writing | Report::Working if held.stage != Stage::Begun => {
                (held.stage, held.writing) = (Stage::Begun, *report == Report::Writing);
                self.begins(program, task)?;
            }
            Report::Step(Step::Written) if held.stage == Stage::Got => held.stage = Stage::Written,
            Report::Step(Step::Seen) if !is_hand => {
                if expects == Expects::Receipt {
                    self.programs[program].held.remove(message);
                    return Ok(());
                }
                held.stage = Stage::Seen;
            }
            Report::NeedsInput { .. } => {
                held.stage = Stage::Asked;
                pause = 90_000;
            }
            _ => {}
        }
        self.plan_act(program, message.clone(), pause);
        Ok(())
    }

    /// Checks at the moment a hand really begins that no other has begun the task.
    fn begins(&mut self, program: usize, task: TaskId) -> Result<(), Broken> {
        self.report.begun += 1;
        let node = self.programs[program].node;
        self.tell(|| format!("program {program}: begins task {}", task.short()));
        let has_begun = |p: &Program| p.begun.contains(&task) && !p.not_submitted.contains(&task);
        let began = self.programs.iter().position(|p| p.node == node && has_begun(p));
        if let Some(other) = began {
            let what = format!("program {program} begins task {}, which program {other} began", task.short());
            return Err(Broken::new(Rule::OneEffectPerKey, what));
        }
        for program in &mut self.programs {
            program.not_submitted.remove(&task);
            program.begun.remove(&task);
        }
        self.programs[program].begun.insert(task);
        Ok(())
    }

    /// Resumes a task whose question was answered.
    fn resume(&mut self, program: usize, task: TaskId) {
        let waits = |h: &&mut Held| h.letter.task == task && !h.letter.follow_up && h.stage == Stage::Asked;
        if let Some(held) = self.programs[program].held.values_mut().find(waits) {
            held.stage = Stage::Begun;
            let message = held.letter.id.clone();
            self.plan_act(program, message, 1_000);
        }
    }

    fn reader_answers(&mut self, program: usize, message: &MessageId) {
        let Some(held) = self.programs[program].held.get(message) else { return };
        if self.dice.percent(25) {
            self.programs[program].held.remove(message);
            return;
        }
        let (task, agent) = (TaskRef::from(held.letter.task), self.programs[program].agent);
        let caller = Caller::Agent { id: agent, label: agent.short(), role: None, proof: Proof::Socket };
        let body = Body::of(&Content::text("here is my answer"));
        let command = Command::Reply { task: Some(task), body, failed: self.dice.percent(10) };
        self.send_in_order(program, caller, command, message.clone());
    }

    pub(super) fn program_dies(&mut self, program: usize) {
        if self.calm {
            return;
        }
        let again = self.dice.within(2_000, 60_000);
        self.after(again, Event::ProgramDies(program));
        let this = &mut self.programs[program];
        let Some(link) = this.link.take() else { return };
        this.held.clear();
        self.tell(|| format!("program {program}: dies"));
        self.say_later(program, Input::LinkClosed { link });
        // What it sent before may still be under way when its link is closed, or even after.
        if self.dice.percent(80) {
            self.programs[program].incarnation += 1;
        }
        let soon = self.dice.within(50, 8_000);
        self.after(soon, Event::Opens(program));
    }

    /// Their node died: some programs die with it, others reconnect with what they have.
    pub(super) fn programs_lose_their_node(&mut self, node: usize) {
        for program in 0..self.programs.len() {
            if self.programs[program].node != node {
                continue;
            }
            let survives = self.dice.percent(50);
            let this = &mut self.programs[program];
            this.link = None;
            this.incarnation += 1;
            if !survives {
                this.held.clear();
            }
            let soon = self.dice.within(50, 8_000);
            self.after(soon, Event::Opens(program));
        }
    }

    /// Describes what the programs of an agent have, for a story.
    pub(super) fn programs_of(&self, node: usize, agent: &AgentId) -> String {
        let mine = self.programs.iter().enumerate().filter(|(_, p)| p.node == node && p.agent == *agent);
        let told = mine.map(|(n, p)| {
            let held: Vec<String> = p
                .held
                .iter()
                .map(|(id, h)| format!("{id} {:?} follow-up {}", h.stage, h.letter.follow_up))
                .collect();
            format!("program {n} (window {}, link {:?}) has [{}]", p.window, p.link, held.join(", "))
        });
        told.collect::<Vec<_>>().join("; ")
    }

    pub(super) fn programs_pull_together(&mut self) {
        for program in 0..self.programs.len() {
            self.after(10, Event::Opens(program));
            let messages: Vec<MessageId> = self.programs[program].held.keys().cloned().collect();
            for message in messages {
                self.plan_act(program, message, 1_000);
            }
        }
    }
}

fn done(state: TaskState) -> Report {
    let answer = (state == TaskState::Completed).then(|| Body::of(&Content::text("done")));
    Report::Done { state, answer, why: "as it turned out".into() }
}
