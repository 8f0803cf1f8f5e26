//! The fold: ranked evidence in, one state out, with its source and since when.
//!
//! Exit of the process > hooks > its own server > the status it reports > its title > its screen > silence. The
//! best rank with an opinion wins, with two exceptions. *Waiting* is entered on any evidence and left only on a
//! positive sign, once the prompt is off the screen: a wrong "waiting" delays a message, a wrong "idle" approves a
//! command. And a hook tells of a moment, while the others tell what is: what a hook said gives way to what
//! changed after it, so an end that no hook tells of (Esc) is seen all the same.
//!
//! Invariants: nothing that is only printed, and no event of a hook, can turn waiting into idle while the prompt is
//! shown; starting ends only on a sign of readiness; what we do not know is called unknown.
//! Not here: where evidence comes from (`watch`), what is done about a state (the node).

mod conflict;
mod waiting;

use crate::profile::Timing;
use crate::rules::Sees;
pub use crate::signal::{Rank, Reading, Verdict};
use synapse_core::agents::AgentState;
use synapse_core::ids::Timestamp;
pub use waiting::PromptKey;

/// How long what a hook said is believed against other sources that have not changed since. They are late by a
/// frame or two; if they still disagree after this, the program goes on for a reason that no hook tells.
pub const HOOK_TRUST_MS: u64 = 2_000;
/// After this, what others show counts even if it has not changed since: an event may have been the last of its kind,
/// or another hook may have undone what it told of.
pub const HOOK_STALE_MS: u64 = 15_000;
/// After a hook told of a prompt: how long it may take until the prompt is drawn.
pub const PROMPT_MS: u64 = 2_000;
/// A better source says idle while the screen says busy: how long the two may take to agree. A title can change just
/// before a prompt is drawn. After this the better source is believed.
pub const AGREE_MS: u64 = 1_000;
/// After Esc or Ctrl-C closed a prompt: how long the program may take to show that its turn goes on.
pub const DISMISSED_MS: u64 = 400;
/// After a restart: how long the state is withheld until the program's own server has been read.
pub const SERVER_MS: u64 = 2_000;

#[derive(Debug)]
pub struct Fold {
    timing: Timing,
    /// The profile knows what the screen looks like once it is ready.
    screen_tells: bool,
    verdict: Verdict,
    hook: Option<Reading>,
    /// A hook told that a prompt is about to be shown.
    asked: Option<Asked>,
    native: Option<Reading>,
    status: Option<Reading>,
    title: Option<Reading>,
    screen: Option<Reading>,
    /// When the screen last fitted no rule after it had fitted one.
    blank_since: Option<Timestamp>,
    /// A person pressed Enter, or chose: it works until it shows otherwise.
    assumed: Option<Assumed>,
    /// The last key that could have ended the prompt while it waited.
    key: Option<(Timestamp, PromptKey)>,
    /// After a restart: sources that have not been read yet. Until then only waiting is told.
    unread: Unread,
    last_output: Timestamp,
    /// When it was last decided.
    decided: Timestamp,
    exited: bool,
    /// It has closed its terminal, and lives.
    closed: bool,
    /// How many readings there were, and how many when the state became what it is.
    readings: u64,
    became_at: u64,
}

#[derive(Debug, Default)]
struct Unread {
    screen: bool,
    /// Until when the program's own server is waited for.
    server: Option<Timestamp>,
}

#[derive(Debug)]
struct Asked {
    at: Timestamp,
    /// Another source has seen the prompt since.
    seen: bool,
    why: String,
}

#[derive(Debug, Clone, Copy)]
struct Assumed {
    since: Timestamp,
    /// For how long at most.
    ms: u64,
    /// It has shown since that it works.
    confirmed: bool,
}

impl Fold {
    pub fn new(now: Timestamp, timing: Timing) -> Self {
        let verdict = Verdict {
            state: AgentState::Starting,
            since: now,
            source: Rank::Silence,
            why: "it has not shown that it is ready".into(),
            because: "silence is no sign of readiness",
        };
        Self {
            timing,
            screen_tells: false,
            verdict,
            hook: None,
            asked: None,
            native: None,
            status: None,
            title: None,
            screen: None,
            blank_since: None,
            assumed: None,
            key: None,
            unread: Unread::default(),
            last_output: now,
            decided: now,
            exited: false,
            closed: false,
            readings: 0,
            became_at: 0,
        }
    }

    /// For a program that may have started long ago, or that never shows that it has.
    pub fn unknown(now: Timestamp, timing: Timing, why: &str) -> Self {
        let mut fold = Self::new(now, timing);
        fold.verdict.state = AgentState::Unknown;
        fold.verdict.why = why.into();
        fold
    }

    /// For a program that was watched before: no state but waiting is told until the screen has been read.
    pub fn resumed(now: Timestamp, timing: Timing) -> Self {
        let mut fold = Self::unknown(now, timing, "its screen has not been read since the restart");
        fold.unread.screen = true;
        fold
    }

    /// The program has a server, which has not been read yet: it is waited for, for a moment.
    pub fn await_server(&mut self, now: Timestamp) {
        if self.native.is_none() {
            self.unread.server = Some(now.plus_ms(SERVER_MS));
        }
    }

    /// Takes over what hooks and the server told another fold of the same program.
    pub fn succeed(&mut self, now: Timestamp, before: &Self) {
        for (rank, reading) in [(Rank::Hook, &before.hook), (Rank::Native, &before.native)] {
            if let Some(reading) = reading {
                self.read(now, rank, Some((reading.sees, reading.why.clone())));
            }
        }
    }

    /// From now on things take this long, and the screen can tell or not.
    pub fn retime(&mut self, timing: Timing, screen_tells: bool) {
        (self.timing, self.screen_tells) = (timing, screen_tells);
    }

    /// A title may be there before the program takes input: where the screen can tell, it has to agree.
    pub fn where_screen_tells(mut self, screen_tells: bool) -> Self {
        self.screen_tells = screen_tells;
        self
    }

    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// Every source with an opinion, best first.
    pub fn readings(&self) -> Vec<(Rank, &Reading)> {
        let all = [
            (Rank::Hook, &self.hook),
            (Rank::Native, &self.native),
            (Rank::Status, &self.status),
            (Rank::Title, &self.title),
            (Rank::Screen, &self.screen),
        ];
        all.into_iter().filter_map(|(rank, reading)| Some((rank, reading.as_ref()?))).collect()
    }

    /// A source says something, or takes back what it said.
    pub fn read(&mut self, now: Timestamp, rank: Rank, sees: Option<(Sees, String)>) {
        let slot = match rank {
            Rank::Hook => &mut self.hook,
            Rank::Native => &mut self.native,
            Rank::Status => &mut self.status,
            Rank::Title => &mut self.title,
            Rank::Screen => &mut self.screen,
            Rank::Silence | Rank::Typed | Rank::Exit => return,
        };
        self.readings += 1;
        let (nth, is_told) = (self.readings, sees.is_some());
        match (slot.as_mut(), sees) {
            (Some(reading), Some((sees, why))) if reading.sees == sees => {
                (reading.why, reading.at) = (why, now);
                // What a hook tells again has happened again.
                if rank == Rank::Hook {
                    reading.nth = nth;
                }
            }
            (before, Some((sees, why))) => {
                let same_side = before.is_some() || rank == Rank::Hook;
                *slot = Some(Reading { sees, since: now, at: now, why, nth });
                if sees == Sees::Busy
                    && let Some(assumed) = &mut self.assumed
                {
                    assumed.confirmed = true;
                }
                // A better source that has just changed its mind knows more than what was typed.
                if same_side && rank > Rank::Screen {
                    self.assumed = None;
                }
            }
            (Some(_), None) if rank == Rank::Screen => {
                self.blank_since.get_or_insert(now);
            }
            (_, None) => *slot = None,
        }
        match rank {
            Rank::Screen => {
                self.unread.screen = false;
                if is_told {
                    self.blank_since = None;
                }
            }
            Rank::Native => self.unread.server = None,
            _ => {}
        }
        if let (Rank::Hook, Some(hook)) = (rank, &self.hook)
            && hook.sees == Sees::Waiting
        {
            self.asked = Some(Asked { at: now, seen: false, why: hook.why.clone() });
        }
        self.decide(now);
    }

    /// The program printed something.
    pub fn printed(&mut self, now: Timestamp) {
        self.last_output = now;
    }

    /// A person (or we) submitted text that was not empty.
    pub fn submitted(&mut self, now: Timestamp) {
        if matches!(self.verdict.state, AgentState::Idle | AgentState::Unknown | AgentState::Busy) {
            self.assumed = Some(Assumed { since: now, ms: self.timing.assume_busy_ms, confirmed: false });
            self.decide(now);
        }
    }

    /// A key went to the program that can end a prompt.
    pub fn typed(&mut self, now: Timestamp, key: PromptKey) {
        if self.verdict.state == AgentState::Waiting {
            self.key = Some((now, key));
        }
    }

    pub fn exited(&mut self, now: Timestamp, failed: bool, why: &str) {
        self.exited = true;
        let state = if failed { AgentState::Error } else { AgentState::Offline };
        self.becomes(now, state, Rank::Exit, why.to_owned(), "the end of the process is the last word");
    }

    /// It has closed its terminal, or opened it again. What was shown before means nothing while it is closed.
    pub fn closed(&mut self, now: Timestamp, closed: bool) {
        self.closed = closed;
        self.decide(now);
    }

    /// When `tick` may change something though nothing happened.
    pub fn next_tick(&self) -> Option<Timestamp> {
        if self.exited {
            return None;
        }
        let first = self.shows_readiness();
        let settle =
            first.map(|(_, reading)| reading.since.plus_ms(self.timing.ready_ms.max(self.timing.idle_ms)));
        let starting = settle.filter(|_| self.verdict.state == AgentState::Starting);
        let idle = self.screen.as_ref().map(|reading| reading.since.plus_ms(self.timing.idle_ms));
        let idle = idle.filter(|at| self.verdict.state == AgentState::Busy && *at > self.verdict.since);
        let assumed = self.assumed.map(|assumed| assumed.since.plus_ms(assumed.ms));
        let quiet = self.blank_since.map(|_| self.last_output.plus_ms(self.timing.repaint_ms));
        let blank = self.blank_since.map(|since| since.plus_ms(self.timing.repaint_ms));
        let agree = self.lasting().and_then(|(rank, reading)| self.contradicted_until(rank, reading));
        let drawn = self.asked.as_ref().filter(|asked| !asked.seen).map(|asked| asked.at.plus_ms(PROMPT_MS));
        let trust =
            self.hook.as_ref().zip(self.lasting()).map(|(hook, (_, lasting))| trusted_until(hook, lasting));
        let stale = self.hook.as_ref().map(|hook| hook.at.plus_ms(HOOK_STALE_MS));
        [starting, idle, assumed, quiet, blank, agree, drawn, trust, stale, self.unread.server]
            .into_iter()
            .flatten()
            .filter(|due| *due > self.decided)
            .min()
    }

    pub fn tick(&mut self, now: Timestamp) {
        self.decide(now);
    }

    /// The best source that tells what is, and not what happened.
    fn lasting(&self) -> Option<(Rank, &Reading)> {
        self.readings().into_iter().find(|(rank, _)| *rank != Rank::Hook)
    }

    /// What the program shows that can be a sign of readiness. A server answers, and a session begins, before the
    /// program takes input.
    fn shows_readiness(&self) -> Option<(Rank, &Reading)> {
        self.readings().into_iter().find(|(rank, _)| *rank < Rank::Native)
    }

    /// Who decides, and why it does.
    fn best(&self, now: Timestamp) -> Option<(Rank, &Reading, &'static str)> {
        const BEST: &str = "it is the best source with an opinion";
        let lasting = self.lasting();
        let Some(hook) = &self.hook else { return lasting.map(|(rank, reading)| (rank, reading, BEST)) };
        match lasting {
            Some((rank, lasting)) if self.outdates(now, hook, rank, lasting) => {
                Some((rank, lasting, "it is newer than what a hook said, or still so long after it"))
            }
            _ => Some((Rank::Hook, hook, BEST)),
        }
    }

    /// Whether what is shown counts for more than the last event of a hook.
    fn outdates(&self, now: Timestamp, hook: &Reading, rank: Rank, lasting: &Reading) -> bool {
        if lasting.sees == hook.sees {
            return false;
        }
        let newer = lasting.since > hook.at;
        let settled = now >= trusted_until(hook, lasting);
        let stale = now >= hook.at.plus_ms(HOOK_STALE_MS);
        match rank {
            Rank::Screen => self.is_shown(rank) && (stale || (newer && settled)),
            // Another hook may have told it to go on after "stop": then it still says that it works.
            _ => newer || stale || (settled && lasting.sees == Sees::Busy),
        }
    }

    fn decide(&mut self, now: Timestamp) {
        if self.exited {
            return;
        }
        self.decided = self.decided.max(now);
        if self.closed {
            let why = "it has closed its terminal, and still runs".into();
            let because = "nothing can be seen of it or typed to it";
            return self.becomes(now, AgentState::Unknown, Rank::Silence, why, because);
        }
        self.see_what_was_asked(now);
        self.give_up_on_hooks();
        if let Some((rank, why)) = self.waits() {
            self.assumed = None;
            return self.becomes(now, AgentState::Waiting, rank, why, "any sign that it waits is enough");
        }
        if self.is_unread(now) {
            return;
        }
        if self.verdict.state == AgentState::Waiting && !self.leaves_waiting() {
            self.verdict.because =
                "waiting ends when its prompt is off the screen and something else is said";
            return;
        }
        if self.verdict.state == AgentState::Starting {
            return self.start(now);
        }
        self.settle(now);
    }

    /// After a restart: not every source was read once.
    fn is_unread(&self, now: Timestamp) -> bool {
        self.unread.screen || self.unread.server.is_some_and(|until| now < until)
    }

    /// Whether what a source said last is still so; a screen that fits no rule says nothing.
    fn is_shown(&self, rank: Rank) -> bool {
        rank != Rank::Screen || self.blank_since.is_none()
    }

    fn start(&mut self, now: Timestamp) {
        if self.assumed.is_some() {
            return self.settle(now);
        }
        // It was started with something to do.
        if self.readings().iter().any(|(rank, r)| *rank >= Rank::Native && r.sees == Sees::Busy) {
            return self.settle(now);
        }
        let Some((rank, reading)) = self.shows_readiness() else { return };
        let held = now.since_ms(reading.since) >= self.timing.ready_ms;
        let on_screen = self.screen.as_ref().is_some_and(|screen| screen.sees == Sees::Idle);
        let agrees = rank != Rank::Title || !self.screen_tells || (on_screen && self.is_shown(Rank::Screen));
        if reading.sees == Sees::Idle && held && agrees && self.is_shown(rank) {
            let why = reading.why.clone();
            self.becomes(now, AgentState::Idle, rank, why, "it is ready, and has been for a moment");
        }
    }

    fn settle(&mut self, now: Timestamp) {
        if let Some(assumed) = self.assumed
            && self.still_assumed(now, assumed)
        {
            return self.becomes(
                now,
                AgentState::Busy,
                Rank::Typed,
                "it was given text and has not shown that it is done".into(),
                "what is shown is older than what was typed",
            );
        }
        let Some((rank, reading, because)) = self.best(now) else {
            let why = "nothing tells what it does".into();
            return self.becomes(now, AgentState::Unknown, Rank::Silence, why, "no source has an opinion");
        };
        let (sees, since, why) = (reading.sees, reading.since, reading.why.clone());
        if rank == Rank::Screen && self.blank_since.is_some() {
            return self.nothing_shown(now);
        }
        if self.contradicted_until(rank, reading).is_some_and(|until| now < until) {
            return;
        }
        let state = match sees {
            Sees::Busy => AgentState::Busy,
            Sees::Waiting => AgentState::Waiting,
            Sees::Idle if rank == Rank::Screen && self.verdict.state == AgentState::Busy => {
                if now.since_ms(since) < self.timing.idle_ms {
                    return;
                }
                AgentState::Idle
            }
            Sees::Idle => AgentState::Idle,
        };
        self.becomes(now, state, rank, why, because);
    }

    /// A source says idle while the screen says busy: until when they may still come to agree.
    fn contradicted_until(&self, rank: Rank, reading: &Reading) -> Option<Timestamp> {
        let is_lasting = rank > Rank::Screen && rank < Rank::Hook;
        let screen = self.screen.as_ref().filter(|screen| screen.sees == Sees::Busy)?;
        let contradicts = is_lasting && reading.sees == Sees::Idle && self.is_shown(Rank::Screen);
        contradicts.then(|| reading.since.max(screen.since).plus_ms(AGREE_MS))
    }

    /// Whether what was typed still counts for more than what is shown.
    fn still_assumed(&mut self, now: Timestamp, assumed: Assumed) -> bool {
        let over = now.since_ms(assumed.since) >= assumed.ms;
        let best = self.best(now);
        let fresh = best.is_some_and(|(rank, reading, _)| said_at(rank, reading) > assumed.since);
        if (assumed.confirmed && fresh) || over {
            self.assumed = None;
            return false;
        }
        true
    }

    /// The screen fits no rule and nothing better speaks: for a while it is as it was, then unknown. A program that
    /// works may print long texts that fit no rule; one that was idle and shows something else may show a dialog.
    fn nothing_shown(&mut self, now: Timestamp) {
        let is_quiet = now.since_ms(self.last_output) >= self.timing.repaint_ms;
        let is_long = self.blank_since.is_some_and(|at| now.since_ms(at) >= self.timing.repaint_ms);
        let may_change = match self.verdict.state {
            AgentState::Waiting => false,
            AgentState::Idle => is_long,
            _ => is_long && is_quiet,
        };
        if may_change {
            let why = "its screen shows nothing we know".into();
            self.becomes(now, AgentState::Unknown, Rank::Silence, why, "no source has an opinion");
        }
    }

    fn becomes(
        &mut self,
        now: Timestamp,
        state: AgentState,
        source: Rank,
        why: String,
        because: &'static str,
    ) {
        let since = if self.verdict.state == state { self.verdict.since } else { now };
        if self.verdict.state != state {
            self.became_at = self.readings;
        }
        self.verdict = Verdict { state, since, source, why, because };
    }
}

/// When a source said something new: for hooks every event, for the others a change.
fn said_at(rank: Rank, reading: &Reading) -> Timestamp {
    if rank == Rank::Hook { reading.at } else { reading.since }
}

fn trusted_until(hook: &Reading, lasting: &Reading) -> Timestamp {
    hook.at.max(lasting.since).plus_ms(HOOK_TRUST_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a script: `<ms> <what> [state]`, and after each line the state that is expected after `=>`.
    fn check(script: &str) {
        check_in(Fold::new(Timestamp(0), Timing::default()), script);
    }

    fn check_in(mut fold: Fold, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (orders, expected) = line.split_once("=>").unwrap_or_else(|| panic!("no state in {line}"));
            let words: Vec<&str> = orders.split_whitespace().collect();
            let now = Timestamp(words[0].parse().unwrap());
            let sees = words.get(2).and_then(|word| match *word {
                "idle" => Some(Sees::Idle),
                "busy" => Some(Sees::Busy),
                "waiting" => Some(Sees::Waiting),
                _ => None,
            });
            let sees = sees.map(|sees| (sees, words[1].to_owned()));
            match words[1] {
                "hook" => fold.read(now, Rank::Hook, sees),
                "native" => fold.read(now, Rank::Native, sees),
                "status" => fold.read(now, Rank::Status, sees),
                "title" => fold.read(now, Rank::Title, sees),
                "screen" => fold.read(now, Rank::Screen, sees),
                "enter" => fold.submitted(now),
                "key" => fold.typed(now, PromptKey::Answers),
                "esc" => fold.typed(now, PromptKey::Dismisses),
                "print" => fold.printed(now),
                "time" => fold.tick(now),
                "exit" => fold.exited(now, words[2] != "0", "over"),
                "close" => fold.closed(now, true),
                "open" => fold.closed(now, false),
                other => panic!("unknown order {other}"),
            }
            assert_eq!(fold.verdict().state.name(), expected.trim(), "after `{line}` of\n{script}");
        }
    }

    #[test]
    fn starting_ends_with_a_sign_that_holds_and_not_with_silence() {
        check(
            "0 time => starting
             9000 time => starting
             9100 screen idle => starting
             9200 screen busy => starting
             9300 screen idle => starting
             9599 time => starting
             9600 time => idle",
        );
        check(
            "100 status idle => starting\n 150 status busy => starting\n 200 status idle => starting\n 500 time => idle",
        );
        check("100 screen waiting => waiting");
    }

    #[test]
    fn what_is_shown_means_nothing_once_the_terminal_is_closed() {
        check(
            "100 screen idle => starting
             500 time => idle
             600 close => unknown
             700 hook busy => unknown
             800 hook idle => unknown
             900 open => idle
             1000 screen waiting => waiting
             1100 close => unknown
             1200 open => waiting
             1300 close => unknown
             1400 exit 1 => error
             1500 open => error",
        );
    }

    #[test]
    fn a_title_alone_does_not_end_starting_where_the_screen_can_tell() {
        let fold = || Fold::new(Timestamp(0), Timing::default()).where_screen_tells(true);
        check_in(
            fold(),
            "0 title idle => starting
             900 time => starting
             1000 screen idle => idle",
        );
        check_in(fold(), "0 title idle => starting\n 100 status idle => starting\n 400 time => idle");
        check("0 title idle => starting\n 300 time => idle");
    }

    #[test]
    fn two_reports_in_one_millisecond_are_two() {
        check("100 status waiting => waiting\n 100 status idle => idle");
        check("100 title idle => starting\n 100 status waiting => waiting\n 100 status gone => waiting");
    }

    #[test]
    fn the_best_source_wins() {
        check(
            "0 screen idle => starting
             0 status idle => starting
             300 time => idle
             400 status busy => busy
             450 screen idle => busy
             5000 time => busy
             6000 status idle => idle
             6100 title busy => idle
             6200 status none => busy",
        );
    }

    #[test]
    fn waiting_is_entered_on_any_sign() {
        for source in ["hook", "status", "title", "screen"] {
            check(&format!("0 status idle => starting\n 300 time => idle\n 400 {source} waiting => waiting"));
        }
    }

    #[test]
    fn waiting_ends_only_when_the_prompt_is_gone_and_something_positive_is_said() {
        // The report changes, the prompt is still there.
        check(
            "0 status idle => starting
             300 time => idle
             400 status waiting => waiting
             440 screen waiting => waiting
             500 status idle => waiting
             540 screen idle => idle",
        );
        // A screen that shows nothing we know is no sign.
        check(
            "0 screen idle => starting
             300 time => idle
             400 screen waiting => waiting
             500 screen none => waiting
             60000 time => waiting
             60100 screen busy => busy",
        );
        // A lower source cannot end what a better one said.
        check(
            "0 status idle => starting
             300 time => idle
             400 status waiting => waiting
             500 screen idle => waiting
             600 title idle => waiting
             9000 time => waiting
             9100 status busy => busy",
        );
    }

    #[test]
    fn an_answered_prompt_means_that_the_turn_goes_on() {
        check(
            "0 screen idle => starting
             300 time => idle
             400 screen waiting => waiting
             500 key => waiting
             540 screen waiting => waiting
             600 screen none => busy
             700 screen idle => busy
             900 screen busy => busy
             2000 screen idle => busy
             2150 time => idle",
        );
    }

    #[test]
    fn enter_begins_a_turn_that_shows_late() {
        check(
            "0 screen idle => starting
             300 time => idle
             1000 enter => busy
             1500 screen idle => busy
             2000 screen busy => busy
             4000 screen idle => busy
             4149 time => busy
             4150 time => idle",
        );
        // Nothing ever showed: it was no turn.
        check(
            "0 screen idle => starting\n 300 time => idle\n 1000 enter => busy\n 3999 time => busy\n 4000 time => idle",
        );
        // A better source says so at once.
        check(
            "0 title idle => starting\n 300 time => idle\n 1000 enter => busy\n 1100 title busy => busy\n 1200 title idle => idle",
        );
    }

    #[test]
    fn a_refused_permission_that_no_hook_tells_of() {
        check(
            "0 screen idle => starting
             300 time => idle
             400 hook waiting => waiting
             440 screen waiting => waiting
             900 key => waiting
             950 screen idle => busy
             3900 time => idle",
        );
        check(
            "0 screen idle => starting
             300 time => idle
             400 hook waiting => waiting
             440 screen waiting => waiting
             900 esc => waiting
             950 screen idle => busy
             1300 time => idle",
        );
    }

    /// A turn as Claude tells of it: the hooks come first, the others a moment later.
    #[test]
    fn hooks_are_quicker_than_what_is_shown() {
        check(
            "0 status idle => starting
             300 time => idle
             1000 hook busy => busy
             1100 status busy => busy
             4000 hook waiting => waiting
             4100 status waiting => waiting
             4140 screen waiting => waiting
             6000 key => waiting
             6040 status busy => waiting
             6080 screen busy => busy
             7000 hook busy => busy
             9000 hook idle => idle
             9300 status idle => idle
             60000 time => idle",
        );
    }

    /// No hook tells of an Esc, of a command such as `/compact`, or of a turn that begins by itself.
    #[test]
    fn what_a_hook_said_gives_way_to_what_changed_after_it() {
        for source in ["native", "status", "title"] {
            check(&format!(
                "0 {source} idle => starting
                 0 screen idle => starting
                 300 time => idle
                 1000 hook busy => busy
                 1100 {source} busy => busy
                 5000 {source} idle => idle
                 9000 hook busy => busy
                 9900 hook idle => idle
                 20000 {source} busy => busy
                 30000 {source} idle => idle"
            ));
        }
        // The screen flickers: it must last.
        check(
            "0 screen idle => starting
             300 time => idle
             1000 hook busy => busy
             1100 screen busy => busy
             5000 screen idle => busy
             6999 time => busy
             7000 time => idle
             8000 hook busy => busy
             22999 time => busy
             23000 time => idle",
        );
    }

    #[test]
    fn an_old_idle_does_not_end_what_a_hook_began_and_an_old_busy_outlives_a_stop() {
        for source in ["status", "screen"] {
            check(&format!(
                "0 {source} idle => starting
                 300 time => idle
                 1000 hook busy => busy
                 9000 hook busy => busy
                 23999 time => busy
                 24000 time => idle"
            ));
        }
        // Another hook told it to go on: it still reports that it works.
        check(
            "0 status idle => starting
             300 time => idle
             1000 hook busy => busy
             1100 status busy => busy
             5000 hook idle => idle
             6999 time => idle
             7000 time => busy
             8000 hook idle => idle
             8200 status idle => idle
             20000 time => idle",
        );
    }

    /// A tool that runs beside the one that is asked about ends just before the prompt is drawn.
    #[test]
    fn a_prompt_that_is_about_to_be_drawn_is_waited_for() {
        check(
            "0 status idle => starting
             300 time => idle
             1000 hook busy => busy
             2000 hook waiting => waiting
             2050 hook busy => waiting
             2100 hook idle => waiting
             2900 screen waiting => waiting
             3500 hook busy => waiting
             60000 hook idle => waiting
             60100 screen idle => idle",
        );
        // It never comes: somebody's own hook approved it.
        check(
            "0 status idle => starting
             300 time => idle
             1000 hook busy => busy
             2000 hook waiting => waiting
             2500 hook busy => waiting
             3999 time => waiting
             4000 time => busy",
        );
    }

    /// Whatever comes in by a hook, real or forged: while the prompt is shown, by any source, it waits.
    #[test]
    fn no_event_of_a_hook_ends_waiting_while_the_prompt_is_shown() {
        for source in ["native", "status", "title", "screen"] {
            for event in ["idle", "busy", "none"] {
                check(&format!(
                    "0 screen idle => starting
                     300 time => idle
                     1000 hook busy => busy
                     2000 hook waiting => waiting
                     2100 {source} waiting => waiting
                     9000 hook {event} => waiting
                     12000 key => waiting
                     15000 hook {event} => waiting
                     90000 time => waiting"
                ));
            }
        }
    }

    #[test]
    fn a_prompt_answered_elsewhere_ends_with_the_next_event_of_a_hook() {
        check(
            "0 status idle => starting
             300 time => idle
             1000 hook busy => busy
             2000 hook waiting => waiting
             2100 status waiting => waiting
             2140 screen waiting => waiting
             5000 status busy => waiting
             5040 screen busy => waiting
             6000 hook busy => busy",
        );
        // Nobody saw it, and nobody pressed a key: what is shown may be of before.
        check(
            "0 status idle => starting
             300 time => idle
             1000 hook busy => busy
             2000 hook waiting => waiting
             2100 status busy => waiting
             90000 status idle => waiting
             90100 hook idle => idle",
        );
    }

    /// Finding M10: another process draws an idle screen over a prompt, with title and status report.
    #[test]
    fn idle_screen_drawn_over_a_prompt_does_not_end_waiting() {
        for source in ["hook", "native"] {
            check(&format!(
                "0 status idle => starting
                 300 time => idle
                 1000 {source} busy => busy
                 2000 {source} waiting => waiting
                 2100 status waiting => waiting
                 2140 screen waiting => waiting
                 5000 status busy => waiting
                 5010 title busy => waiting
                 5040 screen busy => waiting
                 6000 status idle => waiting
                 6010 title idle => waiting
                 6040 screen idle => waiting
                 90000 time => waiting
                 90100 {source} idle => idle"
            ));
        }
    }

    #[test]
    fn starting_ends_with_a_prompt_that_was_given_at_the_start_and_not_with_a_server() {
        check("0 time => starting\n 900 hook busy => busy\n 5000 hook idle => idle");
        check(
            "0 native idle => starting\n 5000 time => starting\n 6000 screen idle => starting\n 6300 time => idle",
        );
    }

    #[test]
    fn a_server_is_believed_while_it_is_reached_and_then_the_screen() {
        check(
            "0 screen idle => starting
             300 time => idle
             1000 native busy => busy
             1500 screen idle => busy
             9000 native none => idle
             9500 screen busy => busy
             9600 native idle => busy
             9700 screen idle => idle",
        );
    }

    /// Defect A: the title of Claude 2.1.197 says idle 0.1 s before a prompt is drawn.
    #[test]
    fn idle_beside_a_busy_screen_waits_for_agreement() {
        for source in ["title", "status", "native"] {
            check(&format!(
                "0 screen idle => starting
                 0 {source} idle => starting
                 300 time => idle
                 1000 {source} busy => busy
                 1040 screen busy => busy
                 5000 {source} idle => busy
                 5100 screen waiting => waiting
                 6000 key => waiting
                 6000 {source} busy => waiting
                 6040 screen busy => busy
                 9000 {source} idle => busy
                 9040 screen idle => idle"
            ));
            // A rule that takes an old line for a sign of work does not hold mail back for ever.
            check(&format!(
                "0 screen idle => starting
                 0 {source} idle => starting
                 300 time => idle
                 1000 {source} busy => busy
                 1040 screen busy => busy
                 5000 {source} idle => busy
                 5999 time => busy
                 6000 time => idle"
            ));
        }
    }

    /// Defect A: after a restart the title was read at once, and the screen with its prompt 40 ms later.
    #[test]
    fn no_state_is_told_after_a_restart_before_the_screen_was_read() {
        let fold = || Fold::resumed(Timestamp(0), Timing::default());
        check_in(
            fold(),
            "0 title idle => unknown
 0 status idle => unknown
 40 screen waiting => waiting",
        );
        check_in(
            fold(),
            "0 title idle => unknown
 30 time => unknown
 40 screen idle => idle",
        );
        check_in(
            fold(),
            "0 status idle => unknown
 40 screen none => idle",
        );
        check_in(
            fold(),
            "0 status waiting => waiting
 40 screen waiting => waiting",
        );
        check_in(
            fold(),
            "0 hook busy => unknown
 40 screen busy => busy",
        );
    }

    #[test]
    fn after_a_restart_the_server_is_waited_for() {
        let fold = || {
            let mut fold = Fold::resumed(Timestamp(0), Timing::default());
            fold.await_server(Timestamp(0));
            fold
        };
        check_in(
            fold(),
            "40 screen idle => unknown
 300 native waiting => waiting",
        );
        check_in(
            fold(),
            "40 screen idle => unknown
 300 native busy => busy",
        );
        check_in(
            fold(),
            "40 screen idle => unknown
 300 native none => idle",
        );
        check_in(
            fold(),
            "40 screen idle => unknown
 1999 time => unknown
 2000 time => idle",
        );
        assert_eq!(fold().next_tick(), Some(Timestamp(SERVER_MS)));
    }

    #[test]
    fn what_hooks_and_the_server_told_outlives_a_new_connection() {
        let mut before = Fold::new(Timestamp(0), Timing::default());
        before.read(Timestamp(5), Rank::Native, Some((Sees::Busy, "a session works".into())));
        let mut fold = Fold::resumed(Timestamp(10), Timing::default());
        fold.succeed(Timestamp(10), &before);
        fold.await_server(Timestamp(10));
        check_in(
            fold,
            "50 screen idle => busy
 90 native idle => idle",
        );
    }

    /// Defect D: Esc closes a prompt and its turn; it is not an answer.
    #[test]
    fn prompt_closed_with_escape_is_not_taken_for_an_answer() {
        let timing = Timing { assume_busy_ms: 8_000, ..Timing::default() };
        let fold = || Fold::new(Timestamp(0), timing);
        check_in(
            fold(),
            "0 screen idle => starting
             300 time => idle
             400 screen waiting => waiting
             1000 esc => waiting
             1040 screen idle => busy
             1399 time => busy
             1400 time => idle",
        );
        // The turn goes on without the command.
        check_in(
            fold(),
            "0 screen idle => starting
             300 time => idle
             400 screen waiting => waiting
             1000 esc => waiting
             1040 screen idle => busy
             1200 screen busy => busy
             3000 screen idle => busy
             3150 time => idle",
        );
        // Nothing is known of what is shown instead.
        check_in(
            fold(),
            "0 screen idle => starting
             300 time => idle
             400 screen waiting => waiting
             1000 esc => waiting
             1040 screen none => waiting
             9000 time => waiting
             9100 screen idle => idle",
        );
        check_in(
            fold(),
            "0 title idle => starting
             300 time => idle
             400 title busy => busy
             500 screen waiting => waiting
             1000 esc => waiting
             1010 title idle => waiting
             1050 screen idle => idle",
        );
    }

    /// Defect B: every second look at a screen that fits no rule forgot since when that was.
    #[test]
    fn screen_that_fits_no_rule_is_unknown_however_often_it_is_read() {
        for looks in 1..6 {
            let mut script = "0 screen idle => starting
 300 time => idle
"
            .to_owned();
            for look in 0..looks {
                script.push_str(&format!(
                    "{} screen none => idle
",
                    1_000 + look * 40
                ));
            }
            check(&format!(
                "{script} 3999 time => idle
 4000 time => unknown"
            ));
        }
        // An animated dialog prints without end.
        check(
            "0 screen idle => starting
             300 time => idle
             1000 screen none => idle
             1500 print => idle
             1500 screen none => idle
             2500 print => idle
             2500 screen none => idle
             3900 print => idle
             4000 time => unknown",
        );
        // A long text of a program that works.
        check(
            "0 screen idle => starting
             300 time => idle
             500 screen busy => busy
             1000 screen none => busy
             3900 print => busy
             4100 screen none => busy
             6899 time => busy
             6900 time => unknown",
        );
    }

    #[test]
    fn what_shows_nothing_for_long_is_unknown() {
        check(
            "0 screen idle => starting
             300 time => idle
             1000 screen none => idle
             1500 print => idle
             3000 time => idle
             4600 time => unknown
             4700 screen busy => busy",
        );
    }

    #[test]
    fn an_exit_is_the_last_word() {
        check("0 exit 0 => offline\n 10 screen idle => offline\n 500 status busy => offline");
        check("0 exit 1 => error\n 10 title waiting => error");
    }
}
