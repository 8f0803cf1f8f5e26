//! Tries out a program in its own terminal, to learn how it shows its state and where it takes
//! text.
//!
//! It types a word and erases it. If the user agrees, it lets the program do one turn and ask one
//! question. It presses Enter only after it saw its text in the composer that it found, and answers
//! a question only with Esc. Not here: what the screens mean (`synapse_terminal::learn`), the
//! dialog with the user (`cli::profile`).

mod session;

pub use session::{Keys, Session, run_in_terminal};

use crate::fail::{self, Fail};
use std::time::Duration;
use synapse_terminal::keys::Key;
use synapse_terminal::learn::{Observations, Proposal, Shot};
use synapse_terminal::profile::Profile;
use synapse_terminal::replay::{self, Recording, Score};
use synapse_terminal::rules::{self, looks_like_a_choice};

/// A screen that does not change for this long after the start is at rest.
const START_QUIET: Duration = Duration::from_millis(2_500);
/// The same after a turn, because a model may pause.
const TURN_QUIET: Duration = Duration::from_millis(3_500);
/// A question that is shown for this long waits for a person.
const QUESTION_MS: u64 = 2_000;
const START_MAX: Duration = Duration::from_secs(25);
const ECHO_MAX: Duration = Duration::from_secs(4);
const ERASE_MAX: Duration = Duration::from_millis(1_500);
/// Some keys may get lost. Backspace is pressed again as long as the probe is visible.
const ERASE_ROUNDS: usize = 3;
/// The key End.
const END: &[u8] = b"\x1b[F";
const TURN_MAX: Duration = Duration::from_secs(180);

/// A word that no program shows by itself.
const PROBE: &str = "zqprobe";
/// Added to the question, so that the composer is seen with two rows.
const SECOND_LINE: &str = "Do nothing else.";

/// Prints progress to the user.
pub type Say<'a> = &'a dyn Fn(&str);

/// One trial of a program.
pub struct Trial {
    session: Session,
    seen: Observations,
    /// The true states, as far as our own actions tell them.
    truth: Vec<(u64, &'static str)>,
    notes: Vec<String>,
}

/// The result of a trial.
pub struct Lesson {
    pub proposal: Proposal,
    /// The recording, and the true states beside it.
    pub cast: String,
    pub states: String,
}

impl Trial {
    /// Waits until the screen is at rest, and again after each of the keys that are pressed first.
    pub fn start(mut session: Session, keys: &[Key], say: Say<'_>) -> Result<Self, Fail> {
        say("waiting until it is ready");
        session.wait_until(START_MAX, |shot| shot.rows.iter().any(|row| !row.is_empty()))?;
        session.wait_for_rest(START_QUIET, START_MAX)?;
        for key in keys {
            session.press(&key.bytes(false))?;
            session.wait_for_rest(START_QUIET, START_MAX)?;
        }
        let shot = session.shot();
        if shot.rows.iter().all(String::is_empty) {
            return Err(stuck("it shows nothing", &shot));
        }
        if is_question(&shot) {
            let why = "it asks something before it can be used: start it once and answer, or pass --press";
            return Err(stuck(why, &shot));
        }
        let at = shot.at_ms;
        let seen = Observations { empty: vec![shot], ..Observations::default() };
        Ok(Self { session, seen, truth: vec![(0, "starting"), (at, "idle")], notes: Vec::new() })
    }

    /// Types a word and erases it again. Returns whether it was shown and is gone.
    pub fn probe(&mut self, say: Say<'_>) -> Result<bool, Fail> {
        say(&format!("typing {PROBE:?} to see where it appears, and erasing it"));
        let before = self.session.shot();
        let mut is_clean = self.probe_with(PROBE)?;
        if self.seen.typed.is_empty() && !self.session.shot().is_like(&before) {
            say("the keys closed something; trying once more");
            self.notes.clear();
            self.seen.empty = vec![self.session.shot()];
            is_clean = self.probe_with(PROBE)?;
        }
        Ok(is_clean)
    }

    fn probe_with(&mut self, text: &str) -> Result<bool, Fail> {
        let before = self.session.shot();
        self.session.write(text, Keys::Typed)?;
        let is_shown =
            self.session.wait_until(ECHO_MAX, |shot| shot.rows.iter().any(|row| row.contains(text)))?;
        self.session.wait_for_rest(Duration::from_millis(300), ECHO_MAX)?;
        if is_shown {
            self.seen.typed.push((self.session.shot(), text.to_owned()));
        } else {
            self.notes.push(
                "the probe word did not appear on the screen; the program may read single keys only".into(),
            );
        }
        let is_as_before = self.erase(text, &before)?;
        if !is_as_before {
            let rest = shows_probe(&self.session.shot());
            let why = if rest { "some of it is still there" } else { "the screen is not as it was before" };
            self.notes.push(format!("{} could not be erased with backspaces: {why}", first_line(text)));
        }
        // An example in the composer may change, but the text itself must be gone.
        Ok(is_shown && (is_as_before || !shows_probe(&self.session.shot())))
    }

    /// Whether the composer was found, so that a text can be submitted.
    pub fn knows_composer(&self) -> Result<(), String> {
        let proposal = Proposal::of(&self.seen);
        match proposal.composer {
            Some(_) => Ok(()),
            None => Err(proposal.missing.into_iter().next().unwrap_or_default()),
        }
    }

    /// Lets the program do one turn. Returns whether it came to rest without a question.
    pub fn turn(&mut self, text: &str, say: Say<'_>) -> Result<bool, Fail> {
        say(&format!("one turn: {text:?}"));
        if !self.submit_lines(text)? {
            return Ok(false);
        }
        let (at_rest, question) = self.watch_turn()?;
        match question {
            Some(shot) => {
                self.truth.push((shot.at_ms, "waiting"));
                self.seen.waiting.push(shot);
                self.notes.push("the turn ended with a question".into());
                Ok(false)
            }
            None if at_rest => {
                let shot = self.session.shot();
                self.truth.push((shot.at_ms, "idle"));
                self.seen.empty.push(shot);
                Ok(true)
            }
            None => {
                self.notes.push(format!("the turn did not end within {} s", TURN_MAX.as_secs()));
                Ok(false)
            }
        }
    }

    /// Lets the program ask for permission, and closes the question with Esc.
    pub fn prompt(&mut self, text: &str, say: Say<'_>) -> Result<(), Fail> {
        say(&format!("one question for approval, which is answered with Esc: {text:?}"));
        if !self.submit(text)? {
            return Ok(());
        }
        let (_, question) = self.watch_turn()?;
        let Some(shot) = question else {
            self.notes.push("it asked for no approval; try another --prompt".into());
            self.truth.push((self.session.shot().at_ms, "idle"));
            return Ok(());
        };
        self.truth.push((shot.at_ms, "waiting"));
        self.seen.waiting.push(shot.clone());
        self.session.press(b"\x1b")?;
        let is_closed = self.session.wait_until(ECHO_MAX, |now| !now.is_like(&shot))?;
        // The states after the question are not scored.
        self.truth.push((self.session.now_ms(), "unknown"));
        if !is_closed {
            self.notes.push("Esc did not close the question".into());
        }
        Ok(())
    }

    /// Submits a text with a second line, if the program accepts pastes and shows both lines.
    fn submit_lines(&mut self, text: &str) -> Result<bool, Fail> {
        if !self.session.takes_pastes() {
            return self.submit(text);
        }
        let (before, two_lines) = (self.session.shot(), format!("{text}\n{SECOND_LINE}"));
        if self.submit(&two_lines)? {
            return Ok(true);
        }
        self.notes.push("two pasted lines did not appear as they are".into());
        Ok(self.erase(&two_lines, &before)? && self.submit(text)?)
    }

    /// Presses Backspace until the screen is as before. Returns whether it is.
    fn erase(&mut self, text: &str, before: &Shot) -> Result<bool, Fail> {
        for round in 0..ERASE_ROUNDS {
            if round > 0 {
                // The cursor may have left the end of the text.
                self.session.press(END)?;
            }
            self.session.erase(text.chars().count())?;
            let is_as_before = self.session.wait_until(ERASE_MAX, |shot| shot.is_like(before))?;
            if is_as_before || !shows_probe(&self.session.shot()) {
                return Ok(is_as_before);
            }
        }
        Ok(false)
    }

    /// Writes a text into the composer, and presses Enter once the composer shows exactly that
    /// text.
    fn submit(&mut self, text: &str) -> Result<bool, Fail> {
        let keys = if self.session.takes_pastes() { Keys::Pasted } else { Keys::Line };
        let mut trial = self.seen.clone();
        self.session.write(text, keys)?;
        let shows = |shot: &Shot, trial: &mut Observations| {
            trial.typed.push((shot.clone(), text.to_owned()));
            let is_read = Proposal::of(trial).composer.is_some();
            trial.typed.pop();
            is_read
        };
        let is_there = self.session.wait_until(ECHO_MAX, |shot| shows(shot, &mut trial))?;
        self.session.wait_for_rest(Duration::from_millis(300), ECHO_MAX)?;
        if !is_there || !shows(&self.session.shot(), &mut trial) {
            self.notes.push(format!(
                "Enter was not pressed: {:?} is not all that is in the composer",
                first_line(text)
            ));
            return Ok(false);
        }
        let shot = self.session.shot();
        self.seen.typed.push((shot, text.to_owned()));
        self.session.forget_shots();
        self.session.press(b"\r")?;
        self.truth.push((self.session.now_ms(), "busy"));
        Ok(true)
    }

    /// Follows a turn until the screen is at rest. Returns whether it is, and the question if it
    /// shows one.
    fn watch_turn(&mut self) -> Result<(bool, Option<Shot>), Fail> {
        // Other parts of the screen may move while it shows a question.
        let since = |asked: &mut Option<u64>, shot: &Shot, now: u64| match (is_question(shot), *asked) {
            (true, Some(since)) => now.saturating_sub(since) >= QUESTION_MS,
            (is, _) => {
                *asked = is.then_some(now);
                false
            }
        };
        let mut asked = None;
        let at_rest =
            self.session.wait_for_rest_or(TURN_QUIET, TURN_MAX, |shot, now| since(&mut asked, shot, now))?;
        let last = self.session.shot();
        let is_asked = at_rest && (is_question(&last) || !self.is_ready(&last));
        let mut shots = self.session.take_shots();
        // The last one is the screen at rest.
        shots.retain(|shot| shot.at_ms < last.at_ms && !is_question(shot));
        self.seen.working.extend(shots);
        let last = Shot { at_ms: asked.unwrap_or(last.at_ms), ..last };
        Ok((at_rest, is_asked.then_some(last)))
    }

    /// Whether the composer reads as empty, as far as it is known. A changed example in it counts
    /// as empty.
    fn is_ready(&self, shot: &Shot) -> bool {
        let mut trial = self.seen.clone();
        trial.empty.push(shot.clone());
        let Some(composer) = Proposal::of(&trial).composer else { return false };
        Proposal::of(&self.seen).composer.is_some_and(|known| known.mark == composer.mark)
    }

    /// What was learned, and what could not be found.
    pub fn end(mut self) -> Lesson {
        self.seen.apps = self.session.apps();
        self.seen.takes_pastes = self.session.takes_pastes();
        let mut proposal = Proposal::of(&self.seen);
        proposal.missing.extend(self.notes);
        let cast = self.session.end();
        let states: Vec<synapse_terminal::cast::Stated> = self
            .truth
            .iter()
            .map(|(at_ms, state)| synapse_terminal::cast::Stated {
                at_ms: *at_ms,
                state: (*state).to_owned(),
                why: "as it was tried".to_owned(),
            })
            .collect();
        Lesson { proposal, cast, states: synapse_terminal::cast::states(&states) }
    }
}

impl Lesson {
    /// How well a profile matches the recording, as in `synapse profile test`.
    pub fn score(&self, profile: Profile) -> Result<Score, Fail> {
        let bad = |e: replay::BadRecording| Fail::new(fail::ERROR, "bad_recording", e.to_string());
        let recording = Recording::parse(&self.cast).map_err(bad)?;
        let truth = replay::parse_truth(&self.states).map_err(bad)?;
        let end = recording.events.last().map_or(0, |event| event.at_ms);
        Ok(replay::score(&replay::play(&recording, profile), &truth, end))
    }
}

fn is_question(shot: &Shot) -> bool {
    looks_like_a_choice(&rules::lowest(&shot.rows, rules::ROWS))
}

/// Whether any part of a probe is still visible.
fn shows_probe(shot: &Shot) -> bool {
    shot.rows.iter().any(|row| row.contains("zq"))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn stuck(why: &str, shot: &Shot) -> Fail {
    let rows: Vec<&str> = shot.rows.iter().map(String::as_str).filter(|row| !row.is_empty()).collect();
    let shown = crate::show::safe(&rows[rows.len().saturating_sub(14)..].join("\n"));
    Fail::refused(format!("nothing was learned: {why}\n{shown}"))
}
