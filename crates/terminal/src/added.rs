//! What a project's profile may add to the user's or shipped profile of the same name (H3).
//!
//! A project is something one clones, so its files are data from a stranger. `ProjectRules` reads only the fields that can
//! make us more careful: rules for `waiting` and `busy`, notices of a usage limit, and longer times. Every other field,
//! also one that a later version adds to profiles, is ignored and named.
//!
//! Invariant: with added rules a program counts as `waiting` at least whenever it did without them, and never as `idle`
//! or `busy` where it was something else than `idle`. An added rule replaces no rule and hides none.
//! Not here: finding the files, and whether one is trusted whole (`synapse-node`, `synapse-settings`).

use crate::pause::{Limit, LimitText};
use crate::profile::{BadProfile, PROFILE_BYTES_MAX, Profile, Timing};
use crate::rules::{self, Rule, RuleText, Sees};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use synapse_core::invisible::is_hidden;

/// Most rules that a project may add in one part.
const RULES_MAX: usize = 16;
/// Most patterns that a project may add in all its rules.
const PATTERNS_MAX: usize = 32;
const PATTERN_CHARS_MAX: usize = 300;
/// Largest compiled pattern. Matching takes time in proportion to it, whatever is on the screen.
const COMPILED_BYTES_MAX: usize = 8 << 10;
const NAME_CHARS_MAX: usize = 40;
/// Longest time that a project may ask for, so that it cannot hold mail back for good.
const TIME_MS_MAX: u64 = 60_000;

/// The rules of a project, beside those of the profile.
#[derive(Debug, Clone, Default)]
pub struct AddedRules {
    title: Vec<Rule>,
    screen: Vec<Rule>,
}

/// A project's profile, as far as it is taken without trust.
#[derive(Debug, Clone)]
pub struct ProjectRules {
    pub name: String,
    title: Vec<Rule>,
    screen: Vec<Rule>,
    limits: Vec<Limit>,
    times: BTreeMap<String, u64>,
    /// The fields and rules that are not taken.
    pub ignored: Vec<String>,
}

/// The allowlist. What is not named here ends up in `rest`.
#[derive(Debug, Deserialize)]
struct Written {
    name: String,
    #[serde(default)]
    title: Vec<RuleText>,
    #[serde(default)]
    screen: Vec<RuleText>,
    #[serde(default)]
    limits: Vec<LimitText>,
    #[serde(default)]
    timing: BTreeMap<String, u64>,
    #[serde(flatten)]
    rest: BTreeMap<String, IgnoredAny>,
}

impl ProjectRules {
    /// Reads what may be taken from an untrusted profile.
    pub fn parse(text: &str) -> Result<Self, BadProfile> {
        if text.len() > PROFILE_BYTES_MAX {
            return Err(BadProfile::TooLarge);
        }
        let options = serde_saphyr::options! { strict_booleans: true };
        let written: Written = serde_saphyr::from_str_with_options(text, options)
            .map_err(|e| BadProfile::Written(e.to_string().trim().to_owned()))?;
        let Written { name, title, screen, limits, timing, rest } = written;
        let fields = rest.into_keys().filter(|field| field != "about");
        let mut ignored: Vec<String> = fields.map(|field| plain(&field)).collect();
        let mut patterns_left = PATTERNS_MAX;
        let title = careful("title", title, &mut patterns_left, &mut ignored)?;
        let screen = careful("screen", screen, &mut patterns_left, &mut ignored)?;
        let mut notices = Vec::new();
        for mut limit in limits {
            let name = plain(limit.name());
            if patterns_left == 0 || notices.len() == RULES_MAX || !is_short(limit.pattern()) {
                ignored.push(format!("limits rule '{name}' (too much)"));
                continue;
            }
            patterns_left -= 1;
            limit.rename(format!("project: {name}"));
            notices.push(limit.compile_within(COMPILED_BYTES_MAX)?);
        }
        Ok(Self { name, title, screen, limits: notices, times: timing, ignored })
    }

    /// How many rules it adds.
    pub fn count(&self) -> usize {
        self.title.len() + self.screen.len() + self.limits.len()
    }

    /// The profile with these rules, and what was not taken.
    pub fn add_to(self, mut profile: Profile) -> (Profile, Vec<String>) {
        let Self { name: _, title, screen, limits: notices, times, mut ignored } = self;
        // Every field by name: a new one does not compile until somebody has decided that a project may not change it.
        let Profile {
            name: _,
            about: _,
            command: _,
            args: _,
            aliases: _,
            version: _,
            env: _,
            status: _,
            title: _,
            screen: _,
            limits,
            timing,
            composer: _,
            type_when: _,
            submit: _,
            interrupt: _,
            approve: _,
            hooks: _,
            resume: _,
            added,
        } = &mut profile;
        *added = AddedRules { title, screen };
        limits.extend(notices);
        lengthen(timing, &times, &mut ignored);
        (profile, ignored)
    }
}

/// Takes the times that are longer, where longer is more careful. While a program is silent, a longer `repaint_ms` would
/// keep it `busy` instead of unknown; a longer `wedged_ms` would hide that it is stuck, and a longer `disagree_ms` that its
/// rules are wrong.
fn lengthen(timing: &mut Timing, times: &BTreeMap<String, u64>, ignored: &mut Vec<String>) {
    let Timing { ready_ms, assume_busy_ms, repaint_ms: _, idle_ms, wedged_ms: _, disagree_ms: _ } = timing;
    for (name, wanted) in times {
        let own = match name.as_str() {
            "ready_ms" => &mut *ready_ms,
            "assume_busy_ms" => &mut *assume_busy_ms,
            "idle_ms" => &mut *idle_ms,
            other => {
                ignored.push(format!("timing.{}", plain(other)));
                continue;
            }
        };
        let longer = (*wanted).min(TIME_MS_MAX);
        match longer.cmp(own) {
            std::cmp::Ordering::Greater => *own = longer,
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Less => ignored.push(format!("timing.{name} (shorter)")),
        }
    }
}

/// The rules that may be added, compiled within bounds.
fn careful(
    part: &'static str,
    rules: Vec<RuleText>,
    patterns_left: &mut usize,
    ignored: &mut Vec<String>,
) -> Result<Vec<Rule>, BadProfile> {
    let mut kept = Vec::new();
    for mut rule in rules {
        let name = plain(rule.name());
        let patterns = rule.patterns().count();
        match rule.state() {
            Sees::Idle => {
                ignored.push(format!("{part} rule '{name}' (idle)"));
                continue;
            }
            Sees::Busy | Sees::Waiting => {}
        }
        if kept.len() == RULES_MAX || patterns > *patterns_left || !rule.patterns().all(is_short) {
            ignored.push(format!("{part} rule '{name}' (too much)"));
            continue;
        }
        *patterns_left -= patterns;
        rule.rename(format!("project: {name}"));
        kept.push(rule.compile_within(part, COMPILED_BYTES_MAX)?);
    }
    Ok(kept)
}

fn is_short(pattern: &str) -> bool {
    pattern.chars().count() <= PATTERN_CHARS_MAX
}

/// A name from a stranger's file, for one line of text. What cannot be seen, or changes how the rest is shown, is replaced.
fn plain(name: &str) -> String {
    let (mut shown, mut before) = (String::new(), None);
    let mut rest = name.chars().take(NAME_CHARS_MAX).peekable();
    while let Some(c) = rest.next() {
        let breaks_line = c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
        let hides = is_hidden(c, before, rest.peek().copied());
        let c = if breaks_line || hides { '\u{fffd}' } else { c };
        shown.push(c);
        before = Some(c);
    }
    shown
}

impl Profile {
    /// The rule that decides what this screen means.
    pub(crate) fn rule_on_screen(&self, rows: &[String]) -> Option<&Rule> {
        let own = rules::on_screen(&self.screen, rows);
        self.more_careful(own, |state| {
            rules::on_screen_where(&self.added.screen, rows, |rule| rule.state == state)
        })
    }

    /// The rule that decides what this title means.
    pub(crate) fn rule_on_title(&self, title: &str) -> Option<&Rule> {
        let own = rules::on_title(&self.title, title);
        self.more_careful(own, |state| {
            self.added.title.iter().filter(|rule| rule.state == state).find(|rule| rule.fits(title))
        })
    }

    /// Any added sign of waiting counts. An added `busy` counts only where we would take the program for idle: over a
    /// prompt, or over a screen that nobody knows, it would allow what is held back there.
    fn more_careful<'a>(
        &self,
        own: Option<&'a Rule>,
        added: impl Fn(Sees) -> Option<&'a Rule>,
    ) -> Option<&'a Rule> {
        match own.map(|rule| rule.state) {
            Some(Sees::Waiting) => own,
            Some(Sees::Idle) => added(Sees::Waiting).or_else(|| added(Sees::Busy)).or(own),
            Some(Sees::Busy) | None => added(Sees::Waiting).or(own),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::shipped;
    use std::time::{Duration, Instant};

    const BASE: &str = "\
name: x
command: x
screen:
  - { state: busy, name: working, any: [working] }
  - { state: waiting, name: question, any: ['\\?$'] }
  - { state: idle, name: composer, any: [ready] }
title:
  - { state: idle, any: [done] }
";

    fn with(project: &str) -> (Profile, Vec<String>) {
        let rules = ProjectRules::parse(&format!("name: x\n{project}")).unwrap();
        rules.add_to(Profile::parse(BASE).unwrap())
    }

    fn state(profile: &Profile, screen: &str) -> Option<Sees> {
        let rows: Vec<String> = screen.lines().map(str::to_owned).collect();
        profile.rule_on_screen(&rows).map(|rule| rule.state)
    }

    /// Finding H3: every field but the careful ones is ignored and named, also fields that do not exist yet.
    #[test]
    fn only_careful_fields_are_taken_from_a_project() {
        let text = "command: /tmp/evil\nargs: [-x]\naliases: [claude]\nversion: {ask: [--run], tested: ['1']}\n\
            env: {set: {BASH_ENV: /tmp/evil}, remove: [PATH]}\nstatus: {apps: [x]}\ncomposer: {mark: '>'}\n\
            submit: {while_busy: queues}\ntype_when: quiet\ninterrupt: {key: ctrl_c}\napprove: {allow: '2', deny: escape}\nhooks: claude\n\
            resume: {args: [--evil, '{session}'], session: uuid}\n\
            notify: {command: [sh]}\nmcpServers: {}\nscreen: [{state: idle, name: free, any: [.]}]\n\
            title: [{state: idle, any: [.]}]\ntiming: {ready_ms: 1, idle_ms: 2000, wedged_ms: 9999999, repaint_ms: 90000}\n";
        let base = Profile::parse(BASE).unwrap();
        let (merged, ignored) = with(text);
        assert_eq!(
            ignored,
            [
                "aliases",
                "approve",
                "args",
                "command",
                "composer",
                "env",
                "hooks",
                "interrupt",
                "mcpServers",
                "notify",
                "resume",
                "status",
                "submit",
                "type_when",
                "version",
                "title rule 'idle' (idle)",
                "screen rule 'free' (idle)",
                "timing.ready_ms (shorter)",
                "timing.repaint_ms",
                "timing.wedged_ms",
            ]
        );
        assert_eq!(merged.timing, Timing { idle_ms: 2_000, ..base.timing });
        let mut same = merged.clone();
        same.timing = base.timing;
        assert_eq!(format!("{same:?}"), format!("{base:?}"), "nothing else has changed");
    }

    /// Finding H3: an added rule cannot hide a prompt, nor make something of a screen that nobody knows.
    #[test]
    fn added_rules_only_make_it_more_careful() {
        let (profile, ignored) = with(
            "screen:\n  - {state: busy, name: question, any: [.]}\n  - {state: waiting, any: [sure]}\n\
             title: [{state: busy, any: [.]}]\n",
        );
        assert_eq!(ignored, Vec::<String>::new());
        for (screen, expected) in [
            ("go on?", Some(Sees::Waiting)),
            ("ready", Some(Sees::Busy)),
            ("ready, are you sure", Some(Sees::Waiting)),
            ("working, are you sure", Some(Sees::Waiting)),
            ("working", Some(Sees::Busy)),
            ("a dialog", None),
        ] {
            assert_eq!(state(&profile, screen), expected, "{screen}");
        }
        assert_eq!(profile.rule_on_title("done").map(|rule| rule.state), Some(Sees::Busy));
        assert_eq!(profile.rule_on_title("other").map(|rule| rule.state), None);
    }

    /// Finding H3: names of a project cannot hide text, turn it around or start a new line where they are shown.
    #[test]
    fn names_from_a_project_are_shown_plainly() {
        for (name, expected) in [
            ("a\u{1b}[2Jb\nc", "a\u{fffd}[2Jb\u{fffd}c"),
            ("a\u{202e}b\u{2066}c\u{2069}\u{200f}", "a\u{fffd}b\u{fffd}c\u{fffd}\u{fffd}"),
            ("a\u{200b}b\u{feff}\u{e0041}\u{2028}", "a\u{fffd}b\u{fffd}\u{fffd}\u{fffd}"),
            ("übung 日本語 👨\u{200d}👩", "übung 日本語 👨\u{200d}👩"),
        ] {
            assert_eq!(plain(name), expected, "{name:?}");
        }
        assert_eq!(plain(&"ä".repeat(NAME_CHARS_MAX + 1)).chars().count(), NAME_CHARS_MAX);
        let (_, ignored) = with("\"x\\u202ey\": 1\nscreen: [{state: idle, name: \"a\\u200bb\", any: [.]}]\n");
        assert_eq!(ignored, ["x\u{fffd}y", "screen rule 'a\u{fffd}b' (idle)"]);
    }

    /// Finding H3: an untrusted pattern costs a bounded time on a full screen.
    #[test]
    fn untrusted_patterns_are_bounded() {
        for pattern in ["(a{200}){200}", "((((.*)*)*)*)*{500}x"] {
            let text = format!("name: x\nscreen: [{{state: waiting, any: ['{pattern}']}}]\n");
            assert!(ProjectRules::parse(&text).is_err(), "{pattern}");
        }
        let long = "a".repeat(PATTERN_CHARS_MAX + 1);
        let (_, ignored) = with(&format!("screen: [{{state: waiting, any: ['{long}']}}]\n"));
        assert_eq!(ignored, ["screen rule 'waiting' (too much)"]);
        let patterns = vec!["'(a|a)*(a|a)*(a|a)*b'"; PATTERNS_MAX + 1].join(",");
        let (_, ignored) = with(&format!("screen: [{{state: waiting, any: [{patterns}]}}]\n"));
        assert_eq!(ignored, ["screen rule 'waiting' (too much)"]);
        let patterns = vec!["'(a|a)*(a|a)*(a|a)*b'"; PATTERNS_MAX].join(",");
        let (profile, ignored) = with(&format!("screen: [{{state: waiting, any: [{patterns}]}}]\n"));
        assert_eq!(ignored, Vec::<String>::new());
        let began = Instant::now();
        assert_eq!(state(&profile, &format!("{}\n", "a".repeat(200)).repeat(14)), None);
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }

    /// What shipped profiles use would also fit into a project's.
    #[test]
    fn rules_as_shipped_fit_the_bounds() {
        for (name, text) in crate::profile::SHIPPED {
            let rules = ProjectRules::parse(text).unwrap_or_else(|e| panic!("{name}: {e}"));
            let too_much: Vec<_> = rules.ignored.iter().filter(|what| what.contains("too much")).collect();
            assert!(too_much.is_empty(), "{name}: {too_much:?}");
            let (profile, _) = rules.add_to(shipped(name).unwrap());
            assert_eq!(profile.command, shipped(name).unwrap().command);
        }
    }

    #[test]
    fn any_untrusted_text_is_read_or_refused() {
        bolero::check!().with_type::<String>().for_each(|text| drop(ProjectRules::parse(text)));
    }
}
