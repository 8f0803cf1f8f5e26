//! The fold: ranked evidence in, one state out, with its source and since when.
//!
//! Exit of the process > hooks and native API > the status it reports > its title > its screen > silence. The
//! best rank with an opinion wins, with one exception that is the point of it all: *waiting* is entered on any
//! evidence and left only on a positive sign, once the prompt is off the screen. A wrong "waiting" delays a
//! message; a wrong "idle" approves a command.
//!
//! Invariants: nothing that is only printed can turn waiting into idle while the prompt is shown; starting ends
//! only on a sign of readiness; what we do not know is called unknown.
//! Not here: where evidence comes from (`watch`), what is done about a state (the node).

use crate::profile::Timing;
use crate::rules::Sees;
use synapse_core::agents::AgentState;
use synapse_core::ids::Timestamp;

/// Where evidence comes from, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rank {
    Silence,
    /// What was typed: a turn that must have begun.
    Typed,
    Screen,
    Title,
    Status,
    Hook,
    Exit,
}

impl Rank {
    pub fn name(self) -> &'static str {
        match self {
            Self::Silence => "silence",
            Self::Typed => "typed",
            Self::Screen => "screen",
            Self::Title => "title",
            Self::Status => "status",
            Self::Hook => "hook",
            Self::Exit => "exit",
        }
    }
}

/// What one source says, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    pub sees: Sees,
    pub since: Timestamp,
    /// The rule or report behind it.
    pub why: String,
    /// Its place among all readings: two may come in the same millisecond.
    nth: u64,
}

/// The state, and why we think so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub state: AgentState,
    pub since: Timestamp,
    pub source: Rank,
    pub why: String,
}

#[derive(Debug)]
pub struct Fold {
    timing: Timing,
    verdict: Verdict,
    hook: Option<Reading>,
    status: Option<Reading>,
    title: Option<Reading>,
    screen: Option<Reading>,
    /// When the screen last fitted no rule after it had fitted one.
    blank_since: Option<Timestamp>,
    /// A person pressed Enter, or chose: it works until it shows otherwise.
    assumed: Option<Assumed>,
    /// A person typed while it waited.
    key_at: Option<Timestamp>,
    last_output: Timestamp,
    exited: bool,
    /// How many readings there were, and how many when the state became what it is.
    readings: u64,
    became_at: u64,
}

#[derive(Debug, Clone, Copy)]
struct Assumed {
    since: Timestamp,
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
        };
        Self {
            timing,
            verdict,
            hook: None,
            status: None,
            title: None,
            screen: None,
            blank_since: None,
            assumed: None,
            key_at: None,
            last_output: now,
            exited: false,
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

    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// Every source with an opinion, best first.
    pub fn readings(&self) -> Vec<(Rank, &Reading)> {
        let all = [
            (Rank::Hook, &self.hook),
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
            Rank::Status => &mut self.status,
            Rank::Title => &mut self.title,
            Rank::Screen => &mut self.screen,
            Rank::Silence | Rank::Typed | Rank::Exit => return,
        };
        self.readings += 1;
        let nth = self.readings;
        match (slot.as_mut(), sees) {
            (Some(reading), Some((sees, why))) if reading.sees == sees => reading.why = why,
            (before, Some((sees, why))) => {
                let same_side = before.is_some();
                *slot = Some(Reading { sees, since: now, why, nth });
                if rank == Rank::Screen {
                    self.blank_since = None;
                }
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
        if rank == Rank::Screen && self.screen.as_ref().is_some_and(|reading| reading.since <= now) {
            // Fitting a rule again ends a blank.
            if !matches!(self.blank_since, Some(at) if at == now) {
                self.blank_since = None;
            }
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
            self.assumed = Some(Assumed { since: now, confirmed: false });
            self.decide(now);
        }
    }

    /// A key went to the program.
    pub fn typed(&mut self, now: Timestamp) {
        if self.verdict.state == AgentState::Waiting {
            self.key_at = Some(now);
        }
    }

    pub fn exited(&mut self, now: Timestamp, failed: bool, why: &str) {
        self.exited = true;
        let state = if failed { AgentState::Error } else { AgentState::Offline };
        self.becomes(now, state, Rank::Exit, why.to_owned());
    }

    /// When `tick` may change something though nothing happened.
    pub fn next_tick(&self) -> Option<Timestamp> {
        if self.exited {
            return None;
        }
        let best = self.best();
        let settle =
            best.map(|(_, reading)| reading.since.plus_ms(self.timing.ready_ms.max(self.timing.idle_ms)));
        let starting = settle.filter(|_| self.verdict.state == AgentState::Starting);
        let idle = self.screen.as_ref().map(|reading| reading.since.plus_ms(self.timing.idle_ms));
        let idle = idle.filter(|at| self.verdict.state == AgentState::Busy && *at > self.verdict.since);
        let assumed = self.assumed.map(|assumed| assumed.since.plus_ms(self.timing.assume_busy_ms));
        let blank = self.blank_since.map(|_| self.last_output.plus_ms(self.timing.repaint_ms));
        [starting, idle, assumed, blank].into_iter().flatten().min()
    }

    pub fn tick(&mut self, now: Timestamp) {
        self.decide(now);
    }

    fn best(&self) -> Option<(Rank, &Reading)> {
        self.readings().into_iter().next()
    }

    fn decide(&mut self, now: Timestamp) {
        if self.exited {
            return;
        }
        self.give_up_on_hooks();
        if let Some((rank, why)) = self.waits() {
            self.assumed = None;
            return self.becomes(now, AgentState::Waiting, rank, why);
        }
        if self.verdict.state == AgentState::Waiting && !self.leaves_waiting() {
            return;
        }
        if self.verdict.state == AgentState::Starting {
            return self.start(now);
        }
        self.settle(now);
    }

    /// The best evidence that it waits.
    fn waits(&self) -> Option<(Rank, String)> {
        let waiting = self.readings().into_iter().find(|(_, reading)| reading.sees == Sees::Waiting);
        // A prompt that is only blank now may be between two frames: still there until something else is.
        let (rank, reading) = waiting?;
        let gone = rank == Rank::Screen && self.blank_since.is_some();
        (!gone).then(|| (rank, reading.why.clone()))
    }

    /// Hooks tell that a permission is asked for, but not that it was refused with Esc. A key and then another
    /// positive sign tell that.
    fn give_up_on_hooks(&mut self) {
        let (Some(hook), Some(key)) = (&self.hook, self.key_at) else { return };
        let after = |reading: &Option<Reading>| {
            reading.as_ref().is_some_and(|r| r.since > key && r.sees != Sees::Waiting)
        };
        let shown = self.screen.as_ref().is_some_and(|r| r.sees == Sees::Waiting);
        if hook.sees == Sees::Waiting
            && !shown
            && (after(&self.status) || after(&self.title) || after(&self.screen))
        {
            self.hook = None;
        }
    }

    /// No source says waiting any more. Is there a positive sign of something else?
    fn leaves_waiting(&mut self) -> bool {
        let since = self.verdict.since;
        let key = self.key_at.filter(|at| *at >= since);
        let prompt_gone =
            self.blank_since.is_some() || self.screen.as_ref().is_none_or(|r| r.sees != Sees::Waiting);
        let source = self.verdict.source;
        let positive = self.readings().into_iter().any(|(rank, reading)| {
            rank >= source.min(Rank::Title)
                && reading.sees != Sees::Waiting
                && reading.nth > self.became_at
                && self.is_shown(rank)
        });
        if !prompt_gone || !(positive || key.is_some()) {
            return false;
        }
        if let Some(key) = key {
            // It was answered: the turn goes on, until the program shows otherwise.
            let confirmed = self.readings().iter().any(|(_, r)| r.sees == Sees::Busy && r.since >= key);
            self.assumed = Some(Assumed { since: key.max(since), confirmed });
            if self.readings().iter().any(|(rank, r)| *rank > Rank::Screen && r.since >= key) {
                self.assumed = None;
            }
        }
        self.key_at = None;
        if self.screen.as_ref().is_some_and(|r| r.sees == Sees::Waiting) {
            self.screen = None;
            self.blank_since = None;
        }
        true
    }

    /// Whether what a source said last is still so; a screen that fits no rule says nothing.
    fn is_shown(&self, rank: Rank) -> bool {
        rank != Rank::Screen || self.blank_since.is_none()
    }

    fn start(&mut self, now: Timestamp) {
        if self.assumed.is_some() {
            return self.settle(now);
        }
        let Some((rank, reading)) = self.best() else { return };
        let held = now.since_ms(reading.since) >= self.timing.ready_ms;
        if reading.sees == Sees::Idle && held && self.is_shown(rank) {
            let why = reading.why.clone();
            self.becomes(now, AgentState::Idle, rank, why);
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
            );
        }
        let Some((rank, reading)) = self.best() else {
            return self.becomes(
                now,
                AgentState::Unknown,
                Rank::Silence,
                "nothing tells what it does".into(),
            );
        };
        let (sees, since, why) = (reading.sees, reading.since, reading.why.clone());
        if rank == Rank::Screen && self.blank_since.is_some() {
            return self.nothing_shown(now);
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
        self.becomes(now, state, rank, why);
    }

    /// Whether what was typed still counts for more than what is shown.
    fn still_assumed(&mut self, now: Timestamp, assumed: Assumed) -> bool {
        let over = now.since_ms(assumed.since) >= self.timing.assume_busy_ms;
        let fresh = self.best().is_some_and(|(_, reading)| reading.since > assumed.since);
        if (assumed.confirmed && fresh) || over {
            self.assumed = None;
            return false;
        }
        true
    }

    /// The screen fits no rule and nothing better speaks: for a while it is as it was, then unknown.
    fn nothing_shown(&mut self, now: Timestamp) {
        let quiet = now.since_ms(self.last_output) >= self.timing.repaint_ms;
        let long = self.blank_since.is_some_and(|at| now.since_ms(at) >= self.timing.repaint_ms);
        if quiet && long && self.verdict.state != AgentState::Waiting {
            self.becomes(now, AgentState::Unknown, Rank::Silence, "its screen shows nothing we know".into());
        }
    }

    fn becomes(&mut self, now: Timestamp, state: AgentState, source: Rank, why: String) {
        if self.verdict.state == state {
            self.verdict.source = source;
            self.verdict.why = why;
        } else {
            self.verdict = Verdict { state, since: now, source, why };
            self.became_at = self.readings;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a script: `<ms> <what> [state]`, and after each line the state that is expected after `=>`.
    fn check(script: &str) {
        let mut fold = Fold::new(Timestamp(0), Timing::default());
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
                "status" => fold.read(now, Rank::Status, sees),
                "title" => fold.read(now, Rank::Title, sees),
                "screen" => fold.read(now, Rank::Screen, sees),
                "enter" => fold.submitted(now),
                "key" => fold.typed(now),
                "print" => fold.printed(now),
                "time" => fold.tick(now),
                "exit" => fold.exited(now, words[2] != "0", "over"),
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
