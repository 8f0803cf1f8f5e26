//! The part of `synapse explain` about an agent in a terminal: every signal, which of them decided, and why.

use super::reason::ago;
use crate::show;
use synapse_dialects::terminal::{PromptView, TellsView, TerminalView};
use synapse_store::notified::NotifierResult;

/// Rows of a question on the page; `synapse inbox --approvals` shows all of it.
const ROWS_MAX: usize = 40;

/// What is said, as fields of the page.
pub(super) fn lines(agent: &str, view: &TerminalView, now: u64) -> Vec<(&'static str, String)> {
    let mut lines = vec![("decided", format!("by {}: {}", view.source, view.because))];
    if let Some(paused) = &view.paused {
        let said = paused.said.as_ref().or(paused.until.as_ref());
        let until = said.map_or_else(|| "it does not say until when".into(), |said| format!("until {said}"));
        lines.push((
            "paused",
            format!("{}: {} reached", show::cell(&until, 80), show::cell(&paused.limit, 40)),
        ));
    }
    if let Some(since) = &view.wedged_since {
        lines.push(("wedged", format!("nothing has come from it for {}", ago(since, now))));
    }
    for (n, one) in view.evidence.iter().enumerate() {
        let mark = if one.source == view.source { "*" } else { " " };
        let text = format!(
            "{mark} {:<6}  {}  for {:<8}  {:<4}  {}",
            one.source,
            show::state_column(&one.says, 7),
            ago(&one.since, now),
            one.confidence,
            show::cell(&one.why, 80)
        );
        lines.push((if n == 0 { "signals" } else { "" }, text));
    }
    if view.evidence.is_empty() {
        lines.push(("signals", "none has an opinion".into()));
    }
    lines.extend(view.prompt.iter().flat_map(|prompt| asked(agent, prompt)));
    lines.push(("tells", tells(&view.tells, now)));
    let from = if view.profile_from.is_empty() { String::new() } else { format!("({})", view.profile_from) };
    lines.push(("profile", format!("{} {}", view.profile, show::cell(&from, 120))));
    if let Some(fault) = &view.profile_fault {
        let text = format!("what is there now is not used: {}", show::cell(fault, 300));
        lines.push(("", show::paint("31", &text)));
    }
    lines.push(("version", version(view)));
    lines.push(("way in", view.way_in.clone()));
    lines
}

/// What it waits for a person to decide, and how.
pub(super) fn asked(agent: &str, prompt: &PromptView) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    let question = match prompt.question.is_empty() {
        true => crate::cli::approve::question(prompt),
        false => show::safe(&prompt.question),
    };
    let rows = question.lines().take(ROWS_MAX).enumerate();
    lines.extend(rows.map(|(n, row)| (if n == 0 { "asks" } else { "" }, row.to_owned())));
    let is_shown = question.lines().count() <= ROWS_MAX;
    lines.push(("prompt", prompt.hash.clone()));
    lines.push(("decide", prompt.commands(agent, is_shown).line()));
    if let Some(doubt) = &prompt.doubt {
        lines.push(("", show::paint("31", &format!("not to be approved from here: {doubt}"))));
    }
    lines
}

/// What came of the command that notifies the user.
pub(super) fn notified(result: &NotifierResult, now: u64) -> String {
    let NotifierResult { program, why, stderr, at_ms, failed, .. } = result;
    let said = if stderr.is_empty() { String::new() } else { format!(": {stderr}") };
    let text = show::cell(&format!("{program} {why}{said}"), 200);
    let text = format!("{} ago: {text}", show::ago(now.saturating_sub(*at_ms)));
    if *failed { show::paint("31", &text) } else { text }
}

fn tells(tells: &TellsView, now: u64) -> String {
    let why = if tells.why.is_empty() { String::new() } else { format!(", {}", show::cell(&tells.why, 120)) };
    let last = match (&tells.last_event, &tells.last_event_at) {
        (Some(last), Some(at)) => format!(", the last {} ago: {}", ago(at, now), show::cell(last, 60)),
        _ => String::new(),
    };
    match (tells.way.as_str(), tells.events) {
        ("nothing", _) => format!("nothing besides what it shows{why}"),
        (way, 0) => format!("{way}{why}"),
        (way, events) => format!("{way}, {events} events{last}{why}"),
    }
}

fn version(view: &TerminalView) -> String {
    let Some(version) = &view.version else { return "not known".into() };
    let version = show::cell(version, 40);
    match view.tested {
        Some(false) => {
            format!(
                "{version}, an untested version; its profile was checked with {}",
                view.tested_versions.join(", ")
            )
        }
        _ => format!("{version}, which its profile was checked with"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synapse_dialects::terminal::Evidence;

    #[test]
    fn every_signal_is_told_and_the_one_that_decided_is_marked() {
        let at = "2026-11-15T09:30:00.000Z".to_owned();
        let evidence = |source: &str, says: &str| Evidence {
            source: source.into(),
            says: says.into(),
            since: at.clone(),
            at: at.clone(),
            confidence: "high".into(),
            why: format!("{source}, \u{1b}[31mrule"),
        };
        let view = TerminalView {
            state: "waiting".into(),
            since: at.clone(),
            source: "hook".into(),
            why: "hook, Stop".into(),
            because: "any sign that it waits is enough".into(),
            evidence: vec![evidence("hook", "waiting"), evidence("screen", "idle")],
            profile: "claude".into(),
            profile_from: "shipped".into(),
            profile_fault: Some("x.yaml: broken".into()),
            version: Some("9.9.9".into()),
            tested: Some(false),
            tested_versions: vec!["2.1".into()],
            way_in: "its mailbox".into(),
            untyped: None,
            paused: Some(synapse_dialects::terminal::PausedView {
                limit: "usage limit".into(),
                since: at.clone(),
                until: Some(at.clone()),
                said: Some("5pm\u{1b}[31m".into()),
            }),
            wedged_since: Some(at.clone()),
            title: String::new(),
            columns: 80,
            rows: 24,
            tells: TellsView {
                way: "hooks".into(),
                events: 3,
                last_event: Some("Stop".into()),
                ..TellsView::default()
            },
            prompt: None,
        };
        let page: Vec<String> =
            lines("ana", &view, 0).into_iter().map(|(name, text)| format!("{name}|{text}")).collect();
        let page = page.join("\n");
        for part in [
            "decided|by hook: any sign",
            "signals|* hook ",
            "|  screen",
            "3 events",
            "claude (shipped)",
            "x.yaml: broken",
            "9.9.9, an untested version",
            "paused|until 5pm",
            "usage limit reached",
            "wedged|nothing has come",
            "checked with 2.1",
        ] {
            assert!(page.contains(part), "{part:?} is not in\n{page}");
        }
        assert!(!page.contains("\u{1b}[31mrule"), "what others wrote is shown, not obeyed");
    }
}
