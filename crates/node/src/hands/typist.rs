//! The typist: carries messages from an agent's mailbox into its terminal, one at a time.
//!
//! It opens and closes the gate in the core as the terminal becomes ready or busy. It drives one
//! `Turn` at a time from what is on the screen, and reports each step with its proof. It stays with
//! a task that wants an answer until its turn has ended.
//! Not here: the decisions (`synapse_terminal::turn`, `interrupt`), the connection to the holder
//! (`terminal`).

mod back;
mod denial;
mod follow;
mod gate;
mod keys;
mod one_way;
mod outcome;
mod resume;
mod words;

use super::terminal::Seat;
use super::wishes::Wish;
use super::{mail, place};
use crate::doors::Shared;
use crate::driver::now;
use crate::handle::ToHand;
use outcome::{Misses, Wording};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use synapse_core::Refusal;
use synapse_core::effect::{Answer, Command, Report, Serves};
use synapse_core::ids::{LinkId, MessageId, TaskId, Timestamp};
use synapse_core::message::{Body, Expects, Letter};
use synapse_core::policy::Caller;
use synapse_core::receipt::Step as Rung;
use synapse_core::task::TaskState;
use synapse_holder::terminal::wire::{Ask, Composer};
use synapse_terminal::interrupt::Interrupting;
use synapse_terminal::leftover::Leftover;
use synapse_terminal::profile::Submit;
use synapse_terminal::prompt::{Decided, Deciding};
use synapse_terminal::text::Typed;
use synapse_terminal::turn::{Held, Note, Proof, Sight, Step, TYPING_MS, Turn};
use tokio::sync::{mpsc, oneshot};

use one_way::OneWay;

pub(super) struct Typist {
    app: Shared,
    seat: Seat,
    link: LinkId,
    orders: mpsc::Receiver<ToHand>,
    wishes: mpsc::Receiver<Wish>,
    keyboard: bool,
    person_at: Option<Timestamp>,
    /// Since their last key, the person has said that they do not type on.
    yields: bool,
    /// Since when the composer has been empty.
    empty_since: Option<Timestamp>,
    /// The gate as last reported to the core.
    gate: Option<Option<String>>,
    job: Option<Job>,
    stopping: Option<Stopping>,
    deciding: Option<(Deciding, oneshot::Sender<Decided>)>,
    pressing: Option<keys::Wanted>,
    /// The last submitted text, until its turn is stopped; after that it may come back.
    last: Option<Typed>,
    /// The last one-way message, until its turn has ended.
    one_way: Option<OneWay>,
    left: Option<Leftover>,
    misses: Misses,
    /// When to look again even if nothing happens.
    pub(super) wake: Option<Timestamp>,
    /// Something was stored, so what was seen before is out of date.
    look_again: bool,
    /// The last seen state of the composer.
    pub(super) composer: Composer,
}

/// The message being processed.
struct Job {
    letter: Arc<Letter>,
    turn: Turn,
    stage: Stage,
    /// It was typed before, and it is unknown whether it arrived.
    again: bool,
    /// Since when it cannot be typed, although it was delivered to us.
    held_since: Option<Timestamp>,
    /// The number of notes it mentions.
    notes: usize,
    /// Whether its sender waits for an answer.
    expects: Expects,
    /// Messages that continue the same task, to be typed when the turn has ended.
    later: VecDeque<(Arc<Letter>, Body)>,
    /// The denial of the last prompt of its turn.
    denied: Option<denial::Denial>,
    /// The session log that contains its turn.
    log: Option<PathBuf>,
    /// How often it was written and certainly not submitted.
    misses: u8,
    /// After such a miss it is not typed before this time.
    rests_until: Option<Timestamp>,
}

impl Job {
    fn new(letter: Arc<Letter>, turn: Turn, stage: Stage, notes: usize) -> Self {
        let (expects, later) = (letter.expects, VecDeque::new());
        Self {
            letter,
            turn,
            stage,
            again: false,
            held_since: None,
            notes,
            expects,
            later,
            denied: None,
            log: None,
            misses: 0,
            rests_until: None,
        }
    }
}

enum Stage {
    Typing,
    /// It was submitted, and its sender wants an answer.
    Working {
        since: Timestamp,
        idle_since: Option<Timestamp>,
        /// The hash of the last prompt reported to the requester.
        asked: Option<String>,
        /// The hash of the visible prompt, and since when it is visible.
        drawn: Option<(String, Timestamp)>,
    },
}

/// The stop of a running turn, and the reason for it.
struct Stopping {
    machine: Interrupting,
    why: String,
    /// The task to cancel, if the stop is a cancellation.
    task: Option<TaskId>,
}

/// A message that cannot be typed for this long goes back, so that a more urgent one may come
/// first.
const HELD_MS_MAX: u64 = 3_000;
/// The pause after a key of a person who does not type on.
const YIELD_MS: u64 = 500;
/// How long after writing a text to look for it, even if nothing is printed.
const ECHO_LOOK_MS: u64 = 200;
const STEPS_MAX: usize = 16;

impl Typist {
    /// Opens the link, and takes over the tasks that an earlier node had begun.
    pub(super) async fn open(app: Shared, seat: Seat) -> Result<Self, Refusal> {
        let caller = Caller::Hand { link: LinkId(0), agent: app.agent.id };
        let (answer, _) = app.ask(caller, Command::Tasks { max: usize::MAX }).await?;
        let Answer::Tasks(tasks) = answer else { return Err(Refusal::Stopping) };
        let begun: Vec<(TaskId, MessageId)> = tasks
            .iter()
            .filter(|task| task.has_begun())
            .filter_map(|task| Some((task.id, task.messages.first()?.clone())))
            .collect();
        let running = begun.iter().map(|(task, _)| *task).collect();
        let (link, orders) = app.handle.link(app.agent.id, 1, Serves::Typed, running).await?;
        let wishes = seat.take_wishes().ok_or(Refusal::Stopping)?;
        let mut typist = Self {
            app,
            seat,
            link,
            orders,
            wishes,
            keyboard: false,
            person_at: None,
            yields: false,
            empty_since: None,
            gate: None,
            job: None,
            stopping: None,
            deciding: None,
            pressing: None,
            last: None,
            one_way: None,
            left: None,
            misses: Misses::default(),
            wake: None,
            look_again: false,
            composer: Composer::default(),
        };
        for (_, message) in begun {
            typist.take_over(message).await;
        }
        if typist.job.is_none() {
            typist.take_over_one_way().await;
        }
        Ok(typist)
    }

    fn submit(&self) -> Submit {
        self.seat.watch().profile().submit.clone()
    }

    /// A person pressed keys.
    pub(super) fn person_typed(&mut self) {
        (self.person_at, self.yields) = (Some(now()), false);
    }

    /// A person does not want to type for now.
    pub(super) fn person_yields(&mut self) {
        self.yields = true;
    }

    /// Returns the time of the last key, shifted to shorten the pause if the person yields. Some
    /// pause remains, because text typed just before may be a draft that is not on the screen yet.
    fn last_key(&self) -> Option<Timestamp> {
        let earlier = if self.yields { TYPING_MS - YIELD_MS } else { 0 };
        self.person_at.map(|at| Timestamp(at.0.saturating_sub(earlier)))
    }

    pub(super) fn has_keyboard(&mut self, yours: bool) {
        self.keyboard = yours;
    }

    /// Resets what a new connection to the holder invalidates: the keyboard is no longer ours.
    pub(super) fn sits_down(&mut self) {
        self.keyboard = false;
        self.gate = None;
    }

    /// Handles the next order of the core or wish of a person. Cancel-safe.
    pub(super) async fn hear(&mut self) {
        tokio::select! {
            Some(order) = self.orders.recv() => self.ordered(order),
            Some(wish) = self.wishes.recv(), if self.deciding.is_none() && self.pressing.is_none() => {
                self.wished(wish);
            }
            else => std::future::pending().await,
        }
    }

    fn ordered(&mut self, order: ToHand) {
        match order {
            ToHand::Deliver { letter, body, notes, .. } => {
                if let Some(job) = self.job.as_mut().filter(|job| job.letter.task == letter.task) {
                    return job.later.push_back((letter, body));
                }
                let notes = mail::count(&self.mail(), &letter.task, notes);
                let misses = self.misses.take(&letter.id);
                let wording = Wording { again: false, as_file: misses > 0 };
                let turn = Turn::new(self.typed(&letter, &body, wording, notes), &self.submit());
                let turn = turn.after_empty(self.empty_since);
                // The core delivers one message at a time, so the previous one has been answered.
                self.job = Some(Job { misses, ..Job::new(letter, turn, Stage::Typing, notes) });
            }
            ToHand::Urge { by } => self.stop(format!("interrupted for an urgent message from {by}"), None),
            ToHand::Interrupt { by, why, .. } => self.stop(format!("interrupted by {by}: {why}"), None),
            ToHand::Stop { task, why } => {
                if self.job.as_ref().is_some_and(|job| job.letter.task == task) {
                    self.stop(why, Some(task));
                }
            }
        }
    }

    fn stop(&mut self, why: String, task: Option<TaskId>) {
        let rule = self.seat.watch().profile().interrupt.clone();
        self.stopping = Some(Stopping { machine: Interrupting::new(rule), why, task });
    }

    fn sight(&self) -> Sight {
        let typed = self.job.as_ref().map(|job| job.turn.typed());
        let mut sight = self.seat.watch().sight(now(), typed);
        (sight.keyboard, sight.person_at) = (self.keyboard, self.last_key());
        sight.tells = self.seat.tells().names_prompts() && self.seat.trouble().is_none();
        if let Some(until) = self.seat.loading_until(&sight) {
            sight.bar.get_or_insert((Held::Loading, Some(until)));
        }
        sight
    }

    /// Does what is due, and returns the requests to the holder in order.
    pub(super) async fn work(&mut self) -> Vec<Ask> {
        let mut asks = Vec::new();
        self.wake = None;
        for _ in 0..STEPS_MAX {
            let before = asks.len();
            let more = self.step(&mut asks).await;
            // The holder and the program must react before there is more to see.
            if !more || asks.len() > before {
                break;
            }
        }
        let answer_due = self.follow_one_way().await;
        self.last.iter().for_each(|typed| self.seat.was_given(typed));
        self.tell_gate();
        self.wake = [self.wake, answer_due, self.keys_due()].into_iter().flatten().min();
        asks
    }

    /// Does one step. Returns whether another may follow at once.
    async fn step(&mut self, asks: &mut Vec<Ask>) -> bool {
        let sight = self.sight();
        if let Some(more) = self.press_keys(&sight, asks) {
            return more;
        }
        if self.deciding.is_some() && self.may_stop() {
            return self.decide(&sight, asks);
        }
        if self.stopping.is_some() && self.may_stop() {
            return self.stop_turn(&sight, asks).await;
        }
        if self.may_take_back() {
            if self.take_back(&sight, asks) {
                return true;
            }
            let settles = self.left.as_ref().and_then(|left| left.settles(sight.now));
            self.wake = [self.wake, settles].into_iter().flatten().min();
            if settles.is_some() || self.keyboard {
                return false;
            }
        }
        match self.job.as_ref().map(|job| matches!(job.stage, Stage::Typing)) {
            None => false,
            Some(true) if self.rests(&sight) => false,
            Some(true) => self.type_on(&sight, asks).await,
            Some(false) => self.follow(&sight).await,
        }
    }

    /// Whether a turn may be stopped now. Not between a paste and its proof, since then only our
    /// own message is in progress. A text that is set aside may wait for a decision on the visible
    /// prompt.
    fn may_stop(&self) -> bool {
        let is_typing = |job: &Job| matches!(job.stage, Stage::Typing);
        self.job.as_ref().is_none_or(|job| !is_typing(job) || !job.turn.is_written() || job.turn.is_aside())
    }

    async fn type_on(&mut self, sight: &Sight, asks: &mut Vec<Ask>) -> bool {
        let Some(job) = &mut self.job else { return false };
        let message = job.letter.id.clone();
        let step = job.turn.next(sight);
        match step {
            Step::Wait { until, held } => {
                self.wake = until;
                return self.hold(sight, held).await;
            }
            Step::TakeKeyboard { ms } => asks.push(Ask::Keyboard { ms }),
            Step::ReleaseKeyboard => {
                self.keyboard = false;
                asks.push(Ask::Keyboard { ms: 0 });
            }
            Step::Note(note) => {
                self.look_again = true;
                return self.note(&message, note, asks).await;
            }
            Step::Paste(bytes) => {
                self.seat.watch().begin_line();
                self.press(&bytes, asks);
                // A program that does not echo the text produces no event.
                self.wake = Some(now().plus_ms(ECHO_LOOK_MS));
            }
            Step::PasteRest(bytes) => self.press(&bytes, asks),
            Step::Enter => self.press_if_quiet(b"\r", asks),
            Step::Erase(keys) => self.press(keys, asks),
            Step::Done(outcome) => {
                self.outcome(&message, sight, outcome).await;
                return true;
            }
        }
        true
    }

    /// Stores a note on disk before the next step. What was seen before is then out of date.
    async fn note(&mut self, message: &MessageId, note: Note, asks: &mut Vec<Ask>) -> bool {
        if note == Note::Writing {
            // Before the next turn covers it.
            self.end_one_way().await;
        }
        let report = match note {
            Note::Writing => Report::Writing,
            Note::Written => Report::Step(Rung::Written),
        };
        if let (Err(refusal), Note::Writing) = (self.report(message, report).await, note) {
            tracing::info!(%message, %refusal, "a message is not typed");
            self.job = None;
            asks.push(Ask::Keyboard { ms: 0 });
        }
        false
    }

    /// Whether to read what the program has printed meanwhile before doing anything else.
    pub(super) fn must_look_again(&mut self) -> bool {
        std::mem::take(&mut self.look_again)
    }

    fn press(&self, bytes: &[u8], asks: &mut Vec<Ask>) {
        self.seat.watch().input(now(), bytes);
        asks.push(Ask::Input(bytes.to_vec()));
    }

    /// Presses keys only if nothing was printed meanwhile. The sender fills in the output position.
    fn press_if_quiet(&self, keys: &[u8], asks: &mut Vec<Ask>) {
        asks.push(Ask::Press { upto: 0, keys: keys.to_vec() });
    }

    /// The holder did not press the last such keys.
    pub(super) fn was_not_pressed(&mut self) {
        match (&mut self.deciding, &mut self.job) {
            (Some((deciding, _)), _) if deciding.is_pressed() => deciding.not_pressed(),
            (_, Some(job)) => job.turn.not_entered(),
            _ => {}
        }
    }

    /// Handles a message that cannot be typed now. After a while it returns to its mailbox,
    /// untouched.
    async fn hold(&mut self, sight: &Sight, held: Option<Held>) -> bool {
        let Some(job) = &mut self.job else { return false };
        let (Some(held), false) = (held, job.turn.is_noted()) else {
            job.held_since = None;
            return false;
        };
        let due = job.held_since.get_or_insert(sight.now).plus_ms(HELD_MS_MAX);
        if due > sight.now {
            self.wake = Some(self.wake.map_or(due, |wake| wake.min(due)));
            return false;
        }
        let message = job.letter.id.clone();
        self.job = None;
        self.tell_gate();
        let _ = self.report(&message, Report::Held { why: self.words(held) }).await;
        true
    }

    async fn submitted(&mut self, message: &MessageId, proof: Proof) {
        let _ = self.report(message, Report::Step(Rung::Submitted)).await;
        if proof == Proof::Told {
            let _ = self.report(message, Report::Step(Rung::Seen)).await;
        }
        let Some(job) = &mut self.job else { return };
        self.last = Some(job.turn.typed().clone());
        if job.expects == Expects::Receipt {
            self.one_way = Some(OneWay::new(job));
            self.job = None;
            self.done(message, TaskState::Completed, None, proof.to_string()).await;
        } else {
            let since = job.turn.entered_at().unwrap_or_else(now);
            job.stage = Stage::Working { since, idle_since: None, asked: None, drawn: None };
        }
    }

    fn caller(&self) -> Caller {
        Caller::Hand { link: self.link, agent: self.app.agent.id }
    }

    async fn ask(&self, command: Command) -> Result<Answer, Refusal> {
        self.app.ask(self.caller(), command).await.map(|(answer, _)| answer)
    }

    async fn report(&self, message: &MessageId, report: Report) -> Result<(), Refusal> {
        loop {
            let command = Command::Report { message: message.clone(), report: report.clone() };
            match self.ask(command).await {
                // Nothing may be lost because a disk was full for a while.
                Err(Refusal::Busy | Refusal::NotStored { .. }) => {
                    tokio::time::sleep(Duration::from_millis(250)).await;
                }
                other => return other.map(drop),
            }
        }
    }

    async fn done(&self, message: &MessageId, state: TaskState, answer: Option<Body>, why: String) {
        if let Err(refusal) = self.report(message, Report::Done { state, answer, why }).await {
            tracing::info!(%message, %refusal, "the end of a turn was not needed");
        }
    }
}
