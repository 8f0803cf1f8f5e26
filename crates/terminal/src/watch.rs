//! Watching one agent's terminal: output, keys, hooks and time go in, its state comes out.
//!
//! This is the whole of what runs live, and what a recording is replayed through.
//! Invariant: the same bytes at the same times give the same states, however they are cut into pieces.

mod compare;
mod line;
mod look;
mod requests;

use crate::composer::Holds;
use crate::disagreement::Disagreements;
use crate::fold::{Fold, PromptKey, Rank, Reading, Verdict};
use crate::held::Held;
use crate::hooks::{self, Event, Heard, Meaning};
use crate::key_reader::{KeyReader, Keystroke};
use crate::pause::{Paused, Pauses};
use crate::profile::{Hooks, Profile};
use crate::prompt::Prompt;
use crate::quiet::LineInput;
use crate::request::PermissionRequest;
use crate::rules::Sees;
use crate::screen::{SCROLLBACK, Screen, Seen, Size};
use crate::sight::{Sight, is_above};
use crate::status::{Report, Says};
use crate::text::{Typed, bones};
use crate::tokens::Token;
use crate::turn_end;
use jiff::tz::TimeZone;
use synapse_core::agents::AgentState;
use synapse_core::ids::Timestamp;

/// How long the screen is let settle before rules look at it.
const SETTLE_MS: u64 = 40;
/// A frame that is not closed within this is looked at anyway.
const FRAME_MS_MAX: u64 = 200;
/// Rules look this long after a change at the latest, even if one frame follows the other.
const LOOK_MS_MAX: u64 = 1_000;

pub struct Watch {
    profile: Profile,
    screen: Screen,
    fold: Fold,
    /// The screen has changed since rules looked at it.
    changed_at: Option<Timestamp>,
    frame_since: Option<Timestamp>,
    /// When the last frame was closed.
    frame_closed: Timestamp,
    /// Something was typed since the last Enter.
    drafted: bool,
    /// What is typed begins with a slash: a command of the CLI, which need not begin a turn.
    command: bool,
    keys: KeyReader,
    /// Up to when time has passed.
    ticked: Timestamp,
    /// The last report that was believed.
    reported: Option<Report>,
    has_seen: bool,
    heard: Heard,
    pauses: Pauses,
    /// That of times that the program prints without one.
    zone: TimeZone,
    /// When anything last came from the program: output, or an event of its hooks or its server.
    sign_at: Timestamp,
    requests: Requests,
    /// When the program last printed something.
    printed_at: Timestamp,
    line: LineInput,
    /// When a key last went to the program.
    keyed_at: Timestamp,
    disagreements: Disagreements,
}

/// What the program told of the permissions that it asks for.
#[derive(Debug, Clone, Default)]
struct Requests {
    /// By hooks, and since when it waited then.
    hooked: Vec<PermissionRequest>,
    since: Timestamp,
    /// More came in one wait than are kept: the one on the screen may be among those that are not.
    overflowed: bool,
    /// By its server, as it is now.
    served: Vec<PermissionRequest>,
}

impl Watch {
    pub fn new(now: Timestamp, profile: Profile, size: Size, scrollback: usize) -> Self {
        let fold = if profile.can_tell_idle() {
            Fold::new(now, profile.timing).where_screen_tells(screen_tells_idle(&profile))
        } else {
            Fold::unknown(now, profile.timing, "its profile cannot tell when it is ready")
        };
        Self {
            profile,
            screen: Screen::new(size, scrollback),
            fold,
            changed_at: None,
            frame_since: None,
            frame_closed: now,
            drafted: false,
            command: false,
            keys: KeyReader::default(),
            ticked: now,
            reported: None,
            has_seen: false,
            heard: Heard::default(),
            pauses: Pauses::default(),
            zone: TimeZone::UTC,
            sign_at: now,
            requests: Requests::default(),
            printed_at: now,
            line: LineInput::default(),
            keyed_at: Timestamp(0),
            disagreements: Disagreements::default(),
        }
    }

    /// Goes on from a picture that another made of the same terminal.
    pub fn resumed(now: Timestamp, profile: Profile, size: Size, scrollback: usize, picture: &[u8]) -> Self {
        let mut watch = Self::new(now, profile, size, scrollback);
        watch.fold = Fold::resumed(now, watch.profile.timing);
        // The queries were answered before; a picture has none.
        watch.output(now, picture);
        watch
    }

    /// All that `resumed` needs, in at most so many bytes: what is on the screen, at most so many lines above it, and the
    /// last report. None if the screen alone is larger.
    pub fn picture(&self, bytes_max: usize, lines_above: usize) -> Option<String> {
        let report = self.reported.as_ref().map(Report::as_sequence).unwrap_or_default();
        let mut drawn = self.screen.as_ansi_within(bytes_max.saturating_sub(report.len()), lines_above)?;
        drawn.push_str(&report);
        Some(drawn)
    }

    /// Whether anything has come in yet.
    pub fn has_seen(&self) -> bool {
        self.has_seen
    }

    /// The person's terminal has these colours; the program is told so when it asks.
    pub fn set_colours(&mut self, ink: [u8; 3], paper: [u8; 3]) {
        self.screen.set_colours((ink, paper));
    }

    /// Times that the program prints without a zone are of this one.
    pub fn set_zone(&mut self, zone: TimeZone) {
        self.zone = zone;
    }

    pub fn screen(&self) -> &Screen {
        &self.screen
    }

    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Goes by another profile from now on. The state stays until the new rules have looked.
    pub fn reprofile(&mut self, now: Timestamp, profile: Profile) {
        self.tick(now);
        self.fold.retime(profile.timing, screen_tells_idle(&profile));
        self.profile = profile;
        self.disagreements = Disagreements::default();
        let title = self.screen.title().to_owned();
        if !title.is_empty() {
            self.titled(now, &title);
        }
        self.changed_at.get_or_insert(now);
    }

    pub fn verdict(&self) -> &Verdict {
        self.fold.verdict()
    }

    pub fn state(&self) -> AgentState {
        self.fold.verdict().state
    }

    /// It says that its usage limit is reached, and does not work.
    pub fn paused(&self, now: Timestamp) -> Option<&Paused> {
        self.pauses.at(now).filter(|_| self.state() != AgentState::Busy)
    }

    /// It says that it works, but nothing has come from it for long: since when.
    pub fn wedged(&self, now: Timestamp) -> Option<Timestamp> {
        (self.wedges_at()? <= now).then_some(self.sign_at)
    }

    fn wedges_at(&self) -> Option<Timestamp> {
        let verdict = self.verdict();
        let is_busy = verdict.state == AgentState::Busy && verdict.source != Rank::Typed;
        is_busy.then(|| self.sign_at.plus_ms(self.profile.timing.wedged_ms))
    }

    /// Why it is as it is, for people.
    pub fn why(&self, now: Timestamp) -> String {
        let why = &self.verdict().why;
        match (self.paused(now), self.wedged(now)) {
            (Some(paused), _) => paused.to_string(),
            (None, Some(_)) => format!("wedged: nothing comes from it any more ({why})"),
            (None, None) => why.clone(),
        }
    }

    /// Every source with an opinion, best first.
    pub fn readings(&self) -> Vec<(Rank, &Reading)> {
        self.fold.readings()
    }

    pub fn resize(&mut self, now: Timestamp, size: Size) {
        self.screen.resize(size);
        self.changed_at.get_or_insert(now);
    }

    /// What there is to see for one who wants to type `header` and what follows it.
    pub fn sight(&self, now: Timestamp, typed: Option<&Typed>) -> Sight {
        let verdict = self.verdict();
        let composer = self.profile.composer.as_ref();
        let (composer, outside) = match composer {
            Some(composer) => (composer.read(&self.screen), composer.outside(&self.screen)),
            None => (Holds::Unknown, String::new()),
        };
        let header = typed.map(|typed| bones(typed.header()));
        let shown = header.as_ref().is_some_and(|header| outside.contains(header));
        let shown_above = header.is_some_and(|header| is_above(&self.screen, &header));
        let told = typed.is_some_and(|typed| {
            let prompt = self.heard.prompt.as_ref();
            prompt.is_some_and(|(text, _)| text.text.trim_end() == typed.as_str().trim_end())
        });
        let sight = Sight {
            now,
            state: verdict.state,
            state_since: verdict.since,
            state_assumed: verdict.source == Rank::Typed,
            settled: self.is_settled(),
            composer,
            pastes_bracketed: self.screen.pastes_are_bracketed(),
            person_at: None,
            keyboard: false,
            shown,
            shown_above,
            tells: false,
            told,
            paused: self.paused(now).is_some(),
            bar: self.profile.composer.is_none().then_some((Held::NoProfile, None)),
            by_line: false,
            takes_keys: self.profile.submit.keys,
        };
        if self.types_lines() { self.by_line(sight, typed) } else { sight }
    }

    /// Nothing was printed that the rules have not seen: what is shown is whole.
    pub fn is_settled(&self) -> bool {
        self.changed_at.is_none()
    }

    /// What it waits for, if it waits.
    pub fn prompt(&self) -> Option<Prompt> {
        let since = self.verdict().since;
        let Requests { hooked, served, .. } = &self.requests;
        let is_known = self.requests.since == since && !self.requests.overflowed;
        let hooked = hooked.iter().filter(|_| is_known);
        let requests: Vec<PermissionRequest> = hooked.chain(served).cloned().collect();
        (self.state() == AgentState::Waiting)
            .then(|| Prompt::read(&self.screen, since, self.profile.approve.as_ref(), &requests))
    }

    /// All that was said and is still kept: what has scrolled off the screen, and the rows above the composer; all rows
    /// if that is not to be seen.
    pub fn conversation(&self) -> Vec<String> {
        let mut rows = self.screen.rows();
        let composer = self.profile.composer.as_ref();
        if let Some(first) = composer.and_then(|composer| composer.first_row(&self.screen)) {
            rows.truncate(first);
        }
        let mut all = self.screen.rows_above(SCROLLBACK);
        all.append(&mut rows);
        all
    }

    /// Takes what the program printed; gives what must be written back to it.
    pub fn output(&mut self, now: Timestamp, bytes: &[u8]) -> Vec<String> {
        self.tick(now);
        self.has_seen |= !bytes.is_empty();
        (self.sign_at, self.printed_at) = (self.sign_at.max(now), self.printed_at.max(now));
        let (mut seen, mut answers) = (Vec::new(), Vec::new());
        self.screen.feed(bytes, &mut seen);
        self.fold.printed(now);
        self.changed_at.get_or_insert(now);
        for seen in seen {
            match seen {
                Seen::Answer(text) => answers.push(text),
                Seen::Title(title) => self.titled(now, &title),
                Seen::Status(report) => self.reported(now, &report),
                Seen::Frame { begins: true } => self.frame_since = Some(now),
                Seen::Frame { begins: false } | Seen::Reset => {
                    if self.frame_since.take().is_some() {
                        self.frame_closed = now;
                    }
                }
                Seen::Notice(_) | Seen::Bell => {}
            }
        }
        answers
    }

    fn titled(&mut self, now: Timestamp, title: &str) {
        let rule = self.profile.rule_on_title(title);
        let sees = rule.map(|rule| (rule.state, format!("title, {}", rule.name)));
        self.fold.read(now, Rank::Title, sees);
    }

    fn reported(&mut self, now: Timestamp, report: &Report) {
        let apps = &self.profile.status.apps;
        if !apps.is_empty() && report.app.as_ref().is_some_and(|app| !apps.contains(app)) {
            return;
        }
        let sees = match report.says {
            Says::Working => Some(Sees::Busy),
            Says::Blocked => Some(Sees::Waiting),
            // After an error it takes input again, as after an answer.
            Says::Idle | Says::Done | Says::Error => Some(Sees::Idle),
            Says::Clear => None,
        };
        let mut why = format!("it reports {:?}", report.says).to_lowercase();
        for detail in [&report.kind, &report.message].into_iter().flatten() {
            why.push_str(&format!(", {detail}"));
        }
        self.reported = Some(report.clone());
        self.fold.read(now, Rank::Status, sees.map(|sees| (sees, why)));
    }

    /// An event of a hook.
    pub fn hooked(&mut self, now: Timestamp, event: &Event) {
        self.tick(now);
        self.heard.take(now, event);
        self.sign_at = self.sign_at.max(now);
        let means = match self.profile.hooks {
            // Its own reports are exact. Its hooks are not: another one may answer a permission before anybody is
            // asked, or let a turn go on after its end.
            Some(Hooks::Codex) => Meaning::Nothing,
            // These have no hooks of ours.
            Some(Hooks::Gemini | Hooks::Qwen | Hooks::Copilot | Hooks::Cline | Hooks::Aider) => {
                Meaning::Nothing
            }
            Some(Hooks::Claude | Hooks::Opencode | Hooks::Kilo) | None => hooks::claude(event),
        };
        match means {
            Meaning::Says(sees) => self.fold.read(now, Rank::Hook, Some((sees, hooks::why(event)))),
            Meaning::Silent => self.fold.read(now, Rank::Hook, None),
            Meaning::Nothing => {}
        }
        if let Some(request) =
            event.request(self.heard.events).filter(|_| self.state() == AgentState::Waiting)
        {
            self.requested(request);
        }
    }

    /// What the program's own server says, and which permissions it asks for; nothing once it cannot be reached.
    pub fn served(&mut self, now: Timestamp, sees: Option<(Sees, String)>, requests: Vec<PermissionRequest>) {
        self.tick(now);
        self.requests.served = requests;
        self.sign_at = self.sign_at.max(now);
        self.fold.read(now, Rank::Native, sees);
    }

    /// Whether a turn that began then has ended, by the program's own word. `tells_answers`: it is made to tell what
    /// it answered.
    pub fn is_turn_over(&self, began: Timestamp, tells_answers: bool) -> bool {
        let answer = tells_answers.then(|| self.heard.answer.as_ref().map(|(_, at)| *at));
        self.is_settled() && turn_end::is_proven(&self.fold.readings(), began, answer)
    }

    /// Whether every source that has an opinion says idle.
    pub fn is_idle_by_all(&self) -> bool {
        self.is_settled() && self.fold.readings().iter().all(|(_, reading)| reading.sees == Sees::Idle)
    }

    /// What the events of hooks told besides a state.
    pub fn heard(&self) -> &Heard {
        &self.heard
    }

    /// The program has a server that tells its state: after a restart that is read first.
    pub fn await_server(&mut self, now: Timestamp) {
        self.fold.await_server(now);
    }

    /// Goes on with what another watch of the same program heard and was told.
    pub fn succeed(&mut self, now: Timestamp, before: &Self) {
        self.fold.succeed(now, &before.fold);
        (self.heard, self.zone) = (before.heard.clone(), before.zone.clone());
        self.requests = before.requests.clone();
        self.line = before.line.clone();
        self.keyed_at = before.keyed_at;
        self.screen.set_colours(before.screen.colours());
    }

    /// Bytes that go to the program: keys of a person, or text of ours.
    pub fn input(&mut self, now: Timestamp, bytes: &[u8]) {
        self.tick(now);
        let mut keys = std::mem::take(&mut self.keys);
        keys.read(now, bytes, |key| self.typed(now, key));
        self.keys = keys;
    }

    fn typed(&mut self, now: Timestamp, key: Keystroke) {
        let (token, is_pasted) = match key {
            Keystroke::Key(token) => (token, false),
            Keystroke::Pasted(token) => (token, true),
        };
        self.line.take(token, is_pasted, &self.screen);
        if !matches!(token, Token::Report | Token::Release) {
            self.keyed_at = now;
        }
        match token {
            Token::Enter | Token::Text(_) => self.fold.typed(now, PromptKey::Answers),
            Token::Escape | Token::Cancel => self.fold.typed(now, PromptKey::Dismisses),
            _ => {}
        }
        match token {
            Token::Enter if !is_pasted => self.entered(now),
            Token::Cancel | Token::Clear => self.drafted = false,
            Token::Text(first) => {
                if !self.drafted {
                    self.command = first == '/';
                }
                self.drafted = true;
            }
            _ => {}
        }
    }

    fn entered(&mut self, now: Timestamp) {
        if std::mem::take(&mut self.drafted) && !self.command {
            self.fold.submitted(now);
        }
    }

    pub fn exited(&mut self, now: Timestamp, failed: bool, why: &str) {
        self.tick(now);
        self.fold.exited(now, failed, why);
    }

    /// The program has closed its terminal and lives, or has opened it again.
    pub fn closed(&mut self, now: Timestamp, closed: bool) {
        self.tick(now);
        self.fold.closed(now, closed);
    }

    /// When `tick` wants to be called though nothing comes in.
    pub fn next_tick(&self) -> Option<Timestamp> {
        let look = self.changed_at.map(|at| self.look_at(at));
        let fold = self.fold.next_tick().filter(|due| *due > self.ticked);
        let disagrees = self.disagreements.due();
        let later = [self.pauses.ends(), self.wedges_at(), self.keys.due(), disagrees].into_iter().flatten();
        let later = later.filter(|due| *due > self.ticked).min();
        [look, fold, later].into_iter().flatten().min()
    }

    /// When the rules may look at a screen that changed at `at`: not in the middle of a frame, and not before the
    /// frame that delayed the look was closed.
    fn look_at(&self, at: Timestamp) -> Timestamp {
        let whole = match self.frame_since {
            Some(since) => since.plus_ms(FRAME_MS_MAX),
            None => self.frame_closed.plus_ms(1),
        };
        at.plus_ms(SETTLE_MS).max(whole).min(at.plus_ms(LOOK_MS_MAX))
    }

    /// Lets time pass up to `now`: all that was due before happens at its own moment.
    pub fn tick(&mut self, now: Timestamp) {
        while let Some(due) = self.next_tick().filter(|due| *due <= now) {
            if self.changed_at.is_some_and(|at| self.look_at(at) <= due) {
                self.look(due);
            }
            let mut keys = std::mem::take(&mut self.keys);
            keys.expire(due, |key| self.typed(due, key));
            self.keys = keys;
            self.fold.tick(due);
            self.compare(due);
            self.ticked = self.ticked.max(due);
        }
        self.fold.tick(now);
        self.compare(now);
        self.ticked = self.ticked.max(now);
    }
}

/// Whether a rule says what the screen looks like when it is ready.
fn screen_tells_idle(profile: &Profile) -> bool {
    profile.screen.iter().any(|rule| rule.state == Sees::Idle)
}
