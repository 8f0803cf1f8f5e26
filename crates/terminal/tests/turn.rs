//! Deliveries into a program that does every nasty thing real ones were seen to do, by seed (PTY-9, PTY-14, X-9).
//!
//! The program is a model: it paints late, swallows Enters, collapses pastes, loses pastes, begins turns late, asks for
//! approval in the middle of a turn; its person types drafts, clears or sends them, and answers prompts. What it was
//! given is compared with what the loop says it was given.

#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use synapse_core::agents::AgentState;
use synapse_core::ids::Timestamp;
use synapse_terminal::composer::{Counts, Holds};
use synapse_terminal::profile::Submit;
use synapse_terminal::text::Typed;
use synapse_terminal::turn::{Outcome, Proof, Sight, Step, Turn};

const DELIVERIES: u64 = 600;
const TICK_MS: u64 = 10;
/// What it was given is told by another process.
const TELLS_AFTER_MS: u64 = 300;

/// A small generator, good enough to choose between things.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.roll(n) == 0
    }
}

/// What the program shows.
#[derive(Clone)]
struct Painted {
    at: u64,
    state: AgentState,
    since: u64,
    composer: Holds,
    shown: bool,
}

struct Program {
    dice: Dice,
    now: u64,
    /// How late it paints.
    lag: u64,
    frames: VecDeque<Painted>,
    seen: Painted,
    composer: String,
    state: AgentState,
    since: u64,
    turn_ends: u64,
    turn_begins: Option<u64>,
    asks_at: Option<u64>,
    answered_at: u64,
    swallows: u64,
    loses_pastes: u64,
    collapses: bool,
    given: Vec<String>,
    keyboard_until: Option<u64>,
    /// Keys of the person while the keyboard is ours.
    kept: String,
    person_at: Option<u64>,
    person_types: bool,
    /// Enter while a prompt was up, or with something else in the composer.
    wrong_enters: Vec<String>,
    prompts_answered_by_us: u32,
    drafts: Vec<String>,
    nasty: bool,
    /// It is made to say what it is given; and does not.
    tells: bool,
    silent: bool,
    told_at: Option<u64>,
}

impl Program {
    fn new(seed: u64, nasty: bool) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..4 {
            dice.roll(2);
        }
        let lag = if nasty { dice.roll(80) * TICK_MS } else { TICK_MS };
        let idle = Painted { at: 0, state: AgentState::Idle, since: 0, composer: Holds::Empty, shown: false };
        Self {
            lag,
            swallows: if nasty && dice.one_in(3) { dice.roll(5) } else { 0 },
            loses_pastes: if nasty && dice.one_in(5) { 1 + dice.roll(2) } else { 0 },
            collapses: dice.one_in(2),
            person_types: nasty && dice.one_in(2),
            dice,
            now: 1_000,
            frames: VecDeque::new(),
            seen: idle,
            composer: String::new(),
            state: AgentState::Idle,
            since: 0,
            turn_ends: 0,
            turn_begins: None,
            asks_at: None,
            answered_at: 0,
            given: Vec::new(),
            keyboard_until: None,
            kept: String::new(),
            person_at: None,
            wrong_enters: Vec::new(),
            prompts_answered_by_us: 0,
            drafts: Vec::new(),
            nasty,
            tells: seed.is_multiple_of(3),
            silent: seed.is_multiple_of(2),
            told_at: None,
        }
    }

    fn becomes(&mut self, state: AgentState) {
        (self.state, self.since) = (state, self.now);
    }

    /// Lets one tick pass.
    fn pass(&mut self, header: &str) {
        self.now += TICK_MS;
        if self.keyboard_until.is_some_and(|until| until <= self.now) {
            self.release();
        }
        if self.turn_begins.is_some_and(|at| at <= self.now) && self.state == AgentState::Idle {
            self.turn_begins = None;
            let length = 200 + self.dice.roll(300) * TICK_MS;
            self.turn_ends = self.now + length;
            self.asks_at = self.dice.one_in(2).then(|| self.now + self.dice.roll(length));
            self.becomes(AgentState::Busy);
        }
        match self.state {
            AgentState::Busy if self.asks_at.is_some_and(|at| at <= self.now) => {
                self.asks_at = None;
                self.answered_at = self.now + 1_000 + self.dice.roll(300) * TICK_MS;
                self.becomes(AgentState::Waiting);
            }
            AgentState::Waiting if self.answered_at <= self.now => {
                self.person_at = Some(self.now);
                self.turn_ends = self.now + 500;
                self.becomes(AgentState::Busy);
            }
            AgentState::Busy if self.turn_ends <= self.now => self.becomes(AgentState::Idle),
            _ => {}
        }
        self.live(header);
        self.paint(header);
    }

    /// The person at the keyboard.
    fn live(&mut self, header: &str) {
        if !self.person_types || self.state == AgentState::Waiting || !self.dice.one_in(60) {
            return;
        }
        let draft_is_theirs = !self.composer.contains(header);
        match self.dice.roll(5) {
            0 | 1 => self.key(&format!("draft{} ", self.dice.0 % 10)),
            2 if draft_is_theirs && self.keyboard_until.is_none() => {
                self.person_at = Some(self.now);
                self.composer.clear();
            }
            3 if draft_is_theirs && !self.composer.is_empty() && self.keyboard_until.is_none() => {
                self.person_at = Some(self.now);
                self.submit();
            }
            _ => {}
        }
    }

    fn key(&mut self, text: &str) {
        if self.keyboard_until.is_some() {
            self.kept.push_str(text);
            return;
        }
        self.person_at = Some(self.now);
        self.drafts.push(text.to_owned());
        self.composer.push_str(text);
    }

    fn release(&mut self) {
        self.keyboard_until = None;
        let kept = std::mem::take(&mut self.kept);
        if !kept.is_empty() {
            self.key(&kept);
        }
    }

    fn submit(&mut self) {
        let text = std::mem::take(&mut self.composer);
        self.given.push(text);
        let late = if self.nasty { self.dice.roll(200) * TICK_MS } else { 2 * TICK_MS };
        if self.state == AgentState::Idle {
            self.turn_begins = Some(self.now + late.min(2_500));
        }
    }

    fn paint(&mut self, header: &str) {
        let text: String = self.composer.chars().filter(|c| !c.is_whitespace()).collect();
        let composer = match () {
            () if self.state == AgentState::Waiting => Holds::Unknown,
            () if text.is_empty() => Holds::Empty,
            () if self.collapses
                && self.composer.lines().count() > 3
                && self.composer.starts_with(header) =>
            {
                let ends = self.composer.trim_end().matches('\n').count() + 1;
                Holds::Collapsed(Counts::LineEnds, ends)
            }
            () => Holds::Text(text),
        };
        let shown = self.given.iter().any(|given| given.contains(header));
        if shown {
            self.told_at.get_or_insert(self.now + TELLS_AFTER_MS);
        }
        let painted =
            Painted { at: self.now + self.lag, state: self.state, since: self.now, composer, shown };
        self.frames.push_back(painted);
        while self.frames.front().is_some_and(|frame| frame.at <= self.now) {
            let mut frame = self.frames.pop_front().unwrap();
            if frame.state == self.seen.state {
                frame.since = self.seen.since;
            }
            self.seen = frame;
        }
    }

    fn sight(&self) -> Sight {
        Sight {
            now: Timestamp(self.now),
            state: self.seen.state,
            state_since: Timestamp(self.seen.since),
            state_assumed: false,
            settled: true,
            composer: self.seen.composer.clone(),
            pastes_bracketed: true,
            person_at: self.person_at.map(Timestamp),
            keyboard: self.keyboard_until.is_some(),
            shown: self.seen.shown,
            shown_above: false,
            tells: self.tells,
            told: self.tells && !self.silent && self.told_at.is_some_and(|at| at <= self.now),
            paused: false,
            bar: None,
            by_line: false,
            takes_keys: false,
        }
    }

    fn carry_out(&mut self, step: &Step, typed: &Typed) {
        match step {
            Step::TakeKeyboard { ms } => self.keyboard_until = Some(self.now + u64::from(*ms)),
            Step::ReleaseKeyboard => self.release(),
            Step::Paste(bytes) => {
                let text = std::str::from_utf8(bytes).unwrap();
                let text = text.strip_prefix("\u{1b}[200~").unwrap().strip_suffix("\u{1b}[201~").unwrap();
                match self.state {
                    AgentState::Waiting => {}
                    _ if self.loses_pastes > 0 => self.loses_pastes -= 1,
                    _ => self.composer.push_str(text),
                }
            }
            Step::Enter => {
                if self.state == AgentState::Waiting {
                    self.prompts_answered_by_us += 1;
                } else if self.composer != typed.as_str() {
                    self.wrong_enters.push(self.composer.clone());
                } else if self.swallows > 0 {
                    self.swallows -= 1;
                } else {
                    self.submit();
                }
            }
            Step::Erase(_) if matches!(self.seen.composer, Holds::Collapsed(..)) => self.composer.clear(),
            Step::Erase(_) => {
                self.composer.truncate(self.composer.trim_end().len());
                let line = self.composer.rfind('\n').unwrap_or(0);
                self.composer.truncate(line);
            }
            Step::PasteRest(_) => unreachable!("only lines have a rest"),
            Step::Wait { .. } | Step::Note(_) | Step::Done(_) => {}
        }
    }
}

/// One delivery, to its end; the program and what was said of it.
fn deliver(seed: u64, nasty: bool, crash_at: Option<u64>) -> (Program, Option<Outcome>) {
    let mut program = Program::new(seed, nasty);
    let lines = program.dice.roll(6);
    let body = format!("do this\n{}last", "and a line\n".repeat(usize::try_from(lines).unwrap()));
    let header = format!("[A2A:{seed:08x}:tester]");
    let typed = Typed::new(&header, &body);
    if nasty && program.dice.one_in(3) {
        program.turn_begins = Some(program.now);
    }
    let mut turn = Turn::new(typed.clone(), &Submit::default());
    let deadline = program.now + 120_000;
    let mut steps = 0;
    while program.now < deadline {
        program.pass(&header);
        steps += 1;
        if crash_at == Some(steps) && turn.is_written() {
            turn = Turn::resumed(typed.clone(), &Submit::default());
        }
        // What is due now, one step after the other; a step that changes nothing would never end.
        for n in 0.. {
            assert!(n < 8, "seed {seed}: it takes steps without end");
            let step = turn.next(&program.sight());
            program.carry_out(&step, &typed);
            match step {
                // A disk may take its time.
                Step::Note(_) => (0..program.dice.roll(40)).for_each(|_| program.pass(&header)),
                Step::Wait { .. } | Step::Paste(_) | Step::Enter | Step::Erase(_) => break,
                Step::Done(outcome) => return (program, Some(outcome)),
                Step::TakeKeyboard { .. } | Step::ReleaseKeyboard | Step::PasteRest(_) => {}
            }
        }
    }
    (program, None)
}

fn check(seed: u64, program: &Program, outcome: Option<&Outcome>) {
    let header = format!("[A2A:{seed:08x}:tester]");
    let given: Vec<&String> = program.given.iter().filter(|text| text.contains(&header)).collect();
    assert!(program.wrong_enters.is_empty(), "seed {seed}: Enter on {:?}", program.wrong_enters);
    assert_eq!(program.prompts_answered_by_us, 0, "seed {seed}: a prompt was answered");
    assert!(given.len() <= 1, "seed {seed}: it arrived {} times", given.len());
    assert!(given.iter().all(|text| text.starts_with(&header)), "seed {seed}: {given:?}");
    match outcome {
        Some(Outcome::Submitted(_)) => assert_eq!(given.len(), 1, "seed {seed}: said submitted, was not"),
        Some(Outcome::NotSubmitted { erased, .. }) => {
            assert_eq!(given.len(), 0, "seed {seed}: said not submitted, was");
            assert!(!erased || !program.composer.contains(&header), "seed {seed}: said erased, was not");
        }
        Some(Outcome::Unknown { .. }) => {}
        None => assert!(!program.composer.is_empty(), "seed {seed}: it waits for ever for nothing"),
    }
    // What a person wrote is still there, or was sent or cleared by the person; never sent by us.
    for text in program.given.iter().filter(|text| text.contains(&header)) {
        assert!(!text.contains("draft"), "seed {seed}: a draft was sent with it: {text:?}");
    }
}

/// It begins to work before it has said what it was given; what it says is the better proof.
#[test]
fn a_program_that_tells_is_let_say_so() {
    for seed in 0..60 {
        let (program, outcome) = deliver(seed, false, None);
        let Some(Outcome::Submitted(proof)) = outcome else { panic!("seed {seed}: {outcome:?}") };
        assert_eq!(proof == Proof::Told, program.tells && !program.silent, "seed {seed}: {proof}");
    }
}

#[test]
fn nothing_is_typed_without_proof_and_every_outcome_is_true() {
    let (mut submitted, mut unknown, mut not) = (0, 0, 0);
    for seed in 0..DELIVERIES {
        let (program, outcome) = deliver(seed, true, None);
        check(seed, &program, outcome.as_ref());
        match outcome {
            Some(Outcome::Submitted(_)) => submitted += 1,
            Some(Outcome::Unknown { .. }) => unknown += 1,
            Some(Outcome::NotSubmitted { .. }) | None => not += 1,
        }
    }
    println!("{submitted} submitted, {not} not, {unknown} unknown, of {DELIVERIES}");
    // The rest: drafts that nobody clears, two lost pastes, four swallowed Enters.
    assert!(submitted > DELIVERIES * 6 / 10, "{submitted} submitted, {not} not, {unknown} unknown");
    assert_eq!(unknown, 0, "only a crash leaves us without knowing");
}

#[test]
fn a_friendly_program_is_always_served() {
    for seed in 0..200 {
        let (program, outcome) = deliver(seed, false, None);
        check(seed, &program, outcome.as_ref());
        assert!(matches!(outcome, Some(Outcome::Submitted(_))), "seed {seed}: {outcome:?}");
    }
}

#[test]
fn a_crash_at_any_step_neither_loses_nor_doubles_it() {
    for seed in 0..DELIVERIES / 6 {
        for at in [14, 15, 16, 30, 80, 200] {
            let (program, outcome) = deliver(seed, true, Some(at));
            check(seed, &program, outcome.as_ref());
        }
    }
}
