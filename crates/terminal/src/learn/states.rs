//! Rules for states: what the screen and the title show only while the program works, waits or is ready.

use super::pattern;
use super::{Observations, Proposed, ProposedComposer, ProposedRule, Shot};
use crate::rules::{ROWS, Sees, lowest};
use regex_lite::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// How programs say that they work. Only these words become part of a rule.
static WORKS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r"(?i)\(?\b(esc|escape|ctrl ?[-+] ?c|\^c)\b( again)?( to)? (interrupt|cancel|stop|abort)\b",
        r"(?i)\b(interrupt|cancel|stop|abort)(ing)?\b[ :=(]{1,3}(esc|escape|ctrl ?[-+] ?c|\^c)\b",
        r"(?i)\b(thinking|working|generating|processing|loading|running|responding|streaming|planning|waiting for (the )?(model|response))(…|\.\.\.)",
    ]
    .map(constant)
    .into()
});
/// How they say which keys answer a question.
static ANSWERS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r"(?i)(\benter\b|\breturn\b|↵|⏎)( to|:)? ?(select|confirm|submit|choose|accept|approve|continue)\b",
        r"(?i)\besc(ape)?\b( to|:)? ?(cancel|reject|deny|decline|go back|exit|close|dismiss)\b",
        r"(?i)[\[(]y(es)?/n(o)?[\])]",
        r"(?i)\[y\] \w+ +\[n\] \w+",
    ]
    .map(constant)
    .into()
});
/// How they ask.
static ASKS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r"(?i)\b(do you want to (proceed|allow|run|continue)|would you like to (run|allow|proceed|continue))\b",
        r"(?i)\b(permission required|requires? (your )?(approval|permission)|approval required|waiting for approval|action required)\b",
        r"(?i)\ballow (once|always|for this session|this (command|tool))\b",
    ]
    .map(constant)
    .into()
});
/// A numbered answer that is marked.
static MARKED: LazyLock<Regex> = LazyLock::new(|| constant(r"^\s*[│┃║|]?\s*([❯›>●▶➜◉▸*→])\s+\d+[.)]\s"));

fn constant(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant that a test matches")
}

#[derive(Default)]
pub(super) struct States {
    pub title: Vec<ProposedRule>,
    pub screen: Vec<ProposedRule>,
    pub missing: Vec<String>,
}

pub(super) fn find(seen: &Observations, composer: Option<&ProposedComposer>) -> States {
    let mut states = States::default();
    let ready: Vec<&Shot> = seen.empty.iter().chain(seen.typed.iter().map(|(shot, _)| shot)).collect();
    let (working, waiting): (Vec<&Shot>, Vec<&Shot>) =
        (seen.working.iter().collect(), seen.waiting.iter().collect());
    titles(&ready, &working, &mut states);
    match waits(&waiting, &[ready.clone(), working.clone()].concat()) {
        Some(rule) => states.screen.push(rule),
        None if waiting.is_empty() => states
            .missing
            .push("waiting: no prompt was seen; only the general forms of a question count".into()),
        None => {
            states.missing.push("waiting: the prompt shows none of the words that programs ask with".into())
        }
    }
    let busy = works(&working, &[ready.clone(), waiting].concat());
    let (mut is_busy_told, any_title) = (false, states.title.iter().any(|rule| rule.state == "busy"));
    match busy {
        Some(rule) => {
            is_busy_told = rule.fits_percent >= 60;
            if !is_busy_told {
                let part = rule.fits_percent;
                states.missing.push(format!("busy: the rule fits only {part} % of the time it worked"));
            }
            states.screen.push(rule);
        }
        None if working.is_empty() => states.missing.push("busy: no turn was watched".into()),
        None => states.missing.push("busy: nothing known is shown only while it works".into()),
    }
    match idles(seen, composer, is_busy_told || any_title) {
        Some(rule) => states.screen.push(rule),
        None => states.missing.push(
            "idle: nothing tells a ready screen from one that works, so nothing will be typed; add a rule by hand".into(),
        ),
    }
    states
}

/// A rule for one state alone.
pub(super) fn of_state(state: Sees, shown: &[&Shot], others: &[&Shot]) -> Option<ProposedRule> {
    match state {
        Sees::Busy => works(shown, others),
        Sees::Waiting => waits(shown, others),
        Sees::Idle => footer(shown, others, &[]).map(|one| idle_rule(one, shown)),
    }
}

/// The lowest rows, as rules see them.
fn low(shot: &Shot) -> String {
    lowest(&shot.rows, ROWS)
}

fn compile(pattern: &str) -> Option<Regex> {
    Regex::new(&format!("(?m){pattern}")).ok()
}

/// How much of the time of these screens one of the patterns fits, in percent.
fn share(patterns: &[Proposed], shots: &[&Shot]) -> u64 {
    let compiled: Vec<Regex> = patterns.iter().filter_map(|one| compile(&one.pattern)).collect();
    let all: u64 = shots.iter().map(|shot| shot.ms.max(1)).sum();
    let fitting = shots.iter().filter(|shot| {
        let text = low(shot);
        compiled.iter().any(|pattern| pattern.is_match(&text))
    });
    let fits: u64 = fitting.map(|shot| shot.ms.max(1)).sum();
    (fits * 100).checked_div(all).unwrap_or(0)
}

/// Whether a pattern fits none of these screens.
fn is_absent(pattern: &str, shots: &[&Shot]) -> bool {
    compile(pattern).is_some_and(|regex| shots.iter().all(|shot| !regex.is_match(&low(shot))))
}

/// Phrases of a vocabulary on these screens, each once, as patterns.
fn phrases(vocabulary: &[Regex], shots: &[&Shot]) -> Vec<Proposed> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for shot in shots {
        for row in low(shot).lines() {
            for regex in vocabulary {
                if let Some(phrase) = regex.find(row) {
                    let pattern = format!("(?i){}", pattern::text(&phrase.as_str().to_lowercase()));
                    found.entry(pattern).or_insert_with(|| row.to_owned());
                }
            }
        }
    }
    found.into_iter().map(|(pattern, seen)| Proposed { pattern, seen }).collect()
}

fn works(working: &[&Shot], others: &[&Shot]) -> Option<ProposedRule> {
    let mut candidates = phrases(&WORKS, working);
    candidates.extend(spinner(working));
    candidates.retain(|one| is_absent(&one.pattern, others));
    // The one that fits most often first; others only if they add something.
    let mut chosen: Vec<Proposed> = Vec::new();
    loop {
        let now = share(&chosen, working);
        let best =
            candidates.iter().map(|one| (share(&[chosen.clone(), vec![one.clone()]].concat(), working), one));
        match best.max_by_key(|(share, _)| *share) {
            Some((more, one)) if more > now => chosen.push(one.clone()),
            _ => break,
        }
    }
    let fits_percent = share(&chosen, working);
    (!chosen.is_empty()).then_some(ProposedRule {
        state: "busy",
        quantifier: "any",
        patterns: chosen,
        fits_percent,
    })
}

/// Glyphs that take turns at the beginning of the same row.
fn spinner(working: &[&Shot]) -> Option<Proposed> {
    let mut glyphs: BTreeMap<String, (BTreeSet<char>, String)> = BTreeMap::new();
    for shot in working {
        for row in low(shot).lines() {
            let text = row.trim_start_matches(|c: char| c.is_whitespace() || "│┃║|".contains(c));
            let mut chars = text.chars();
            let Some(glyph) =
                chars.next().filter(|c| !c.is_ascii() && !c.is_alphanumeric() && !pattern::is_line(*c))
            else {
                continue;
            };
            if !chars.as_str().starts_with(' ') {
                continue;
            }
            let word = chars.as_str().split_whitespace().next().unwrap_or_default().to_owned();
            let entry = glyphs.entry(word).or_insert_with(|| (BTreeSet::new(), row.to_owned()));
            entry.0.insert(glyph);
        }
    }
    let (_, (moving, seen)) = glyphs.into_iter().max_by_key(|(_, (moving, _))| moving.len())?;
    (moving.len() >= 2)
        .then(|| Proposed { pattern: format!(r"^\s*[│┃║|]?\s*{} \S", class(&moving)), seen })
}

/// A class of characters. Of some kinds of glyphs not all may have been seen.
fn class(glyphs: &BTreeSet<char>) -> String {
    let kinds = [('⠀', '⣿'), ('◐', '◓'), ('◜', '◟'), ('◴', '◷'), ('▖', '▟')];
    let mut inside = String::new();
    for glyph in glyphs {
        let kind = kinds.iter().find(|(first, last)| (first..=last).contains(&glyph));
        let part = match kind {
            Some((first, last)) => format!("{first}-{last}"),
            None => pattern::literal(*glyph),
        };
        if !inside.contains(&part) {
            inside.push_str(&part);
        }
    }
    format!("[{inside}]")
}

fn waits(waiting: &[&Shot], others: &[&Shot]) -> Option<ProposedRule> {
    let marked = waiting.iter().find_map(|shot| {
        let text = low(shot);
        let (row, found) = text.lines().find_map(|row| Some((row, MARKED.captures(row)?)))?;
        let mark = pattern::literal(found[1].chars().next()?);
        Some(Proposed { pattern: format!(r"^\s*[│┃║|]?\s*{mark}\s+\d+[.)]\s"), seen: row.to_owned() })
    });
    let keys = phrases(&ANSWERS, waiting);
    let asks = phrases(&ASKS, waiting);
    let is_new = |one: &Proposed| is_absent(&one.pattern, others);
    // A marked number and the keys below it are a question; each alone may be text.
    if let (Some(marked), Some(key)) = (marked, keys.iter().find(|one| is_new(one))) {
        let patterns = vec![marked, key.clone()];
        let fits_percent =
            patterns.iter().map(|one| share(std::slice::from_ref(one), waiting)).min().unwrap_or(0);
        return Some(ProposedRule { state: "waiting", quantifier: "all", patterns, fits_percent });
    }
    let patterns: Vec<Proposed> = asks.into_iter().chain(keys).filter(is_new).collect();
    let fits_percent = share(&patterns, waiting);
    (!patterns.is_empty()).then_some(ProposedRule {
        state: "waiting",
        quantifier: "any",
        patterns,
        fits_percent,
    })
}

/// A row that was there before any turn and is there after it, and not while it works; or, where another rule tells that
/// it works, the mark of its composer.
fn idles(
    seen: &Observations,
    composer: Option<&ProposedComposer>,
    is_busy_told: bool,
) -> Option<ProposedRule> {
    let ready: Vec<&Shot> = seen.empty.iter().collect();
    let working: Vec<&Shot> = seen.working.iter().chain(&seen.waiting).collect();
    let placeholders: Vec<&str> =
        composer.iter().flat_map(|composer| &composer.placeholders).map(|one| one.seen.as_str()).collect();
    if let Some(footer) = footer(&ready, &working, &placeholders) {
        return Some(idle_rule(footer, &ready));
    }
    let composer = composer?;
    let sign =
        [&composer.mark, &composer.frame, &composer.begin, &composer.end].into_iter().flatten().next()?;
    (is_busy_told && is_on_all(sign, &ready)).then(|| idle_rule(sign.clone(), &ready))
}

fn idle_rule(one: Proposed, ready: &[&Shot]) -> ProposedRule {
    let fits_percent = share(std::slice::from_ref(&one), ready);
    ProposedRule { state: "idle", quantifier: "any", patterns: vec![one], fits_percent }
}

fn is_on_all(one: &Proposed, shots: &[&Shot]) -> bool {
    !shots.is_empty()
        && compile(&one.pattern).is_some_and(|regex| shots.iter().all(|shot| regex.is_match(&low(shot))))
}

/// The lowest row that is on all ready screens and on no other.
fn footer(ready: &[&Shot], others: &[&Shot], placeholders: &[&str]) -> Option<Proposed> {
    let is_footer = |row: &&str| {
        row.chars().filter(|c| c.is_alphanumeric()).count() >= 4
            && !placeholders.iter().any(|p| row.contains(p))
    };
    let text = low(ready.first().filter(|_| !others.is_empty())?);
    let rows = text.lines().rev().filter(is_footer).map(pattern::row);
    rows.into_iter().find(|one| is_on_all(one, ready) && is_absent(&one.pattern, others))
}

/// Titles whose first character tells the state.
fn titles(ready: &[&Shot], working: &[&Shot], states: &mut States) {
    let first = |shot: &&&Shot| shot.title.chars().next().filter(|c| !c.is_ascii() && !c.is_alphanumeric());
    let (idle, busy): (BTreeSet<char>, BTreeSet<char>) = (
        ready.iter().filter_map(|shot| first(&shot)).collect(),
        working.iter().filter_map(|shot| first(&shot)).collect(),
    );
    let only_busy: BTreeSet<char> = busy.difference(&idle).copied().collect();
    let percent = |shots: &[&Shot], glyphs: &BTreeSet<char>| {
        let fits = shots.iter().filter(|shot| first(shot).is_some_and(|c| glyphs.contains(&c)));
        (fits.count() * 100).checked_div(shots.len()).unwrap_or(0)
    };
    let mut push = |state, glyphs: &BTreeSet<char>, shots: &[&Shot]| {
        let seen = shots.iter().find(|shot| first(shot).is_some_and(|c| glyphs.contains(&c)));
        let seen = seen.map(|shot| shot.title.clone()).unwrap_or_default();
        let patterns = vec![Proposed { pattern: format!("^{}", class(glyphs)), seen }];
        let fits_percent = percent(shots, glyphs) as u64;
        states.title.push(ProposedRule { state, quantifier: "any", patterns, fits_percent });
    };
    let is_told =
        |glyphs: &BTreeSet<char>, shots: &[&Shot]| !glyphs.is_empty() && percent(shots, glyphs) >= 80;
    if is_told(&only_busy, working) {
        push("busy", &only_busy, working);
    }
    let only_idle: BTreeSet<char> = idle.difference(&busy).copied().collect();
    if is_told(&only_busy, working) && is_told(&only_idle, ready) {
        push("idle", &only_idle, ready);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{shot, with_title};
    use super::super::{Observations, Proposal};

    const READY: &str = "talk\n────────────\n> ▮\n────────────\n ? for shortcuts";

    fn propose(working: &[&str], waiting: &[&str]) -> (Proposal, crate::profile::Profile, String) {
        let seen = Observations {
            empty: vec![shot(READY), shot(&READY.replace("talk", "talk\nThinking... I said, esc to quit"))],
            typed: vec![(shot(&READY.replace('▮', "zqprobe▮")), "zqprobe".into())],
            working: working.iter().map(|drawn| shot(drawn)).collect(),
            waiting: waiting.iter().map(|drawn| shot(drawn)).collect(),
            takes_pastes: true,
            ..Observations::default()
        };
        let proposal = Proposal::of(&seen);
        let yaml = proposal.to_yaml("x", &["x".into()]);
        let profile = crate::profile::Profile::parse(&yaml).unwrap_or_else(|e| panic!("{e}\n{yaml}"));
        (proposal, profile, yaml)
    }

    fn state(profile: &crate::profile::Profile, drawn: &str) -> &'static str {
        profile.rule_on_screen(&shot(drawn).rows).map_or("nothing", |rule| rule.state.name())
    }

    #[test]
    fn words_and_moving_glyphs_of_a_turn_become_a_rule() {
        for working in [
            &["talk\n⠋ Working (3s • esc to interrupt)\n────────────\n> ▮\n────────────\n ? for shortcuts"][..],
            &[
                "talk\n✶ Musing… (3s)\n────────────\n> ▮\n────────────\n ? for shortcuts",
                "talk\n✻ Musing… (4s)\n────────────\n> ▮\n────────────\n ? for shortcuts",
            ],
            &["talk\nI say: Nothing special\n────────────\n> ▮\n────────────\n Ctrl+C to stop"],
        ] {
            let (_, profile, yaml) = propose(working, &[]);
            assert_eq!(state(&profile, working[0]), "busy", "{yaml}");
            assert_eq!(state(&profile, READY), "idle", "{yaml}");
        }
    }

    /// Half an answer is only seen while the program works, and must not become a rule.
    #[test]
    fn text_of_a_model_is_never_a_rule() {
        let (proposal, profile, yaml) = propose(
            &[
                "talk\nSure, let me delete everyth\n────────────\n> ▮\n────────────\n ? for shortcuts",
                "talk\n✓ Done deleting\n────────────\n> ▮\n────────────\n ? for shortcuts",
            ],
            &[],
        );
        assert!(!yaml.contains("delet"), "{yaml}");
        assert!(proposal.missing.iter().any(|why| why.starts_with("busy: nothing known")), "{yaml}");
        assert_eq!(
            state(&profile, READY),
            "nothing",
            "a screen that looks the same while it works is not idle"
        );
        assert!(!proposal.can_type());
    }

    #[test]
    fn row_that_is_gone_while_it_works_tells_idle() {
        let working = "talk\n────────────\n> ▮\n────────────\n 12 tokens so far";
        let (_, profile, yaml) = propose(&[working], &[]);
        assert_eq!((state(&profile, READY), state(&profile, working)), ("idle", "nothing"), "{yaml}");
    }

    #[test]
    fn question_becomes_a_rule() {
        let works = "talk\n⠋ x (esc to interrupt)\n────────────\n> ▮\n────────────\n ? for shortcuts";
        for waiting in [
            "Run rm -rf build?\n ❯ 1. Yes\n   2. No\n\n Enter to confirm · Esc to cancel",
            "Permission required\n  Allow once   Allow always   Reject",
            "Run the tool? [y/n]",
        ] {
            let (_, profile, yaml) = propose(&[works], &[waiting]);
            assert_eq!(state(&profile, waiting), "waiting", "{yaml}");
            assert_eq!(state(&profile, works), "busy", "{yaml}");
            assert_eq!(state(&profile, READY), "idle", "{yaml}");
            let rules: String = yaml.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
            assert!(!rules.contains("build"), "{yaml}");
        }
    }

    #[test]
    fn titles_tell_by_their_first_character() {
        let (ready, busy) = (with_title(READY, "✳ my task"), with_title(READY, "⠋ my task"));
        let seen = Observations { empty: vec![ready], working: vec![busy], ..Observations::default() };
        let proposal = Proposal::of(&seen);
        let found: Vec<_> =
            proposal.title.iter().map(|rule| (rule.state, rule.patterns[0].pattern.as_str())).collect();
        assert_eq!(found, [("busy", "^[⠀-⣿]"), ("idle", "^[✳]")]);
    }
}
