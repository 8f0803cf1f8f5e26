//! `synapse list --watch`: who is here, as it changes.
//!
//! On a terminal the list is redrawn in its place, line by line, so that nothing flickers and what was on the
//! screen before stays there. In a pipe each change is a line, or with `--json` one object.

use super::List;
use super::alerts::{self, Alerts};
use super::bell::Bell;
use super::list::{self, Row};
use crate::agents::Roll;
use crate::fail::Done;
use crate::show;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::Duration;
use synapse_dialects::time;
use synapse_store::home::Home;
use tokio::signal::unix::{SignalKind, signal};

/// A process that was killed leaves no news: we look again after this long.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Changes that come together are shown together.
const GATHER: Duration = Duration::from_millis(50);

pub(super) async fn live(args: List, json: bool) -> Done {
    let home = Home::from_env()?;
    home.ensure()?;
    let bell = Bell::at(home.registry_dir());
    let (mut int, mut term) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut resized = signal(SignalKind::window_change())?;
    let mut view = if show::on_terminal() && !json && !args.plain {
        View::Screen(Screen::begin(), Alerts::new(synapse_node::driver::now().0))
    } else {
        View::Changes { json, before: None }
    };
    loop {
        let (roll, _) = Roll::look(home.clone());
        let roll = if json || args.plain { roll.without_place() } else { roll };
        let now = synapse_node::driver::now().0;
        let rows = list::rows(&roll, args.all);
        let pause = view.show(&rows, now);
        if view.is_fresh(&rows) && alerts::are_wanted(&home) {
            put("\u{7}");
        }
        tokio::select! {
            () = bell.rung(pause) => tokio::time::sleep(GATHER).await,
            _ = resized.recv() => {}
            // Leaving the screen in order is all that is left to do.
            _ = int.recv() => return Ok(()),
            _ = term.recv() => return Ok(()),
        }
    }
}

enum View {
    Screen(Screen, Alerts),
    Changes { json: bool, before: Option<BTreeMap<String, Row>> },
}

impl View {
    /// Shows it, and says how long that stays true if nothing happens.
    fn show(&mut self, rows: &[Row], now: u64) -> Duration {
        match self {
            Self::Screen(screen, _) => {
                let mut lines = list::table(rows, now);
                if rows.is_empty() {
                    lines = vec!["no agent is running".to_owned()];
                }
                screen.draw(&lines);
                next_second(rows, now)
            }
            Self::Changes { json, before } => {
                let after: BTreeMap<String, Row> =
                    rows.iter().map(|row| (row.agent_id.clone(), row.clone())).collect();
                let none = BTreeMap::new();
                for (what, row) in changes(before.as_ref().unwrap_or(&none), &after) {
                    if *json {
                        let at = time::show(synapse_core::Timestamp(now));
                        show::json(&json!({ "at": at, "change": what, "agent": row }));
                    } else {
                        show::out(&format!("{what}\t{}", list::plain(row, now)));
                    }
                }
                *before = Some(after);
                LOOK_AGAIN
            }
        }
    }
}

impl View {
    /// Whether an agent on the screen has begun to wait for the person.
    fn is_fresh(&mut self, rows: &[Row]) -> bool {
        let Self::Screen(_, alerts) = self else { return false };
        let waits = |row: &Row| Some((row.agent_id.clone(), row.pending.as_ref()?.told_at_ms));
        !alerts.fresh(&rows.iter().filter_map(waits).collect::<Vec<_>>()).is_empty()
    }
}

/// When a time on the screen will be another: seconds count as long as one of them is young.
fn next_second(rows: &[Row], now: u64) -> Duration {
    let young = rows.iter().filter_map(|row| row.since_ms).any(|at| now.saturating_sub(at) < 60_000);
    if young { Duration::from_secs(1) } else { LOOK_AGAIN }
}

/// What is new, gone, or otherwise than it was.
fn changes<'a>(
    before: &'a BTreeMap<String, Row>,
    after: &'a BTreeMap<String, Row>,
) -> Vec<(&'static str, &'a Row)> {
    let mut found = Vec::new();
    for (id, row) in before {
        if !after.contains_key(id) {
            found.push(("gone", row));
        }
    }
    for (id, row) in after {
        match before.get(id) {
            None => found.push(("here", row)),
            Some(old) if (&old.state, &old.why, &old.pending) != (&row.state, &row.why, &row.pending) => {
                found.push(("state", row));
            }
            Some(old) if old.context != row.context => found.push(("shared", row)),
            Some(old) if old != row => found.push(("other", row)),
            Some(_) => {}
        }
    }
    found
}

/// The lines we have drawn, above the cursor.
struct Screen {
    drawn: Vec<usize>,
}

impl Screen {
    fn begin() -> Self {
        put("\u{1b}[?25l");
        Self { drawn: Vec::new() }
    }

    fn draw(&mut self, lines: &[String]) {
        let (width, height) = size();
        let text = frame(&self.drawn, lines, width, height);
        self.drawn =
            lines.iter().take(height.saturating_sub(1)).map(|line| visible(line).min(width)).collect();
        put(&text);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        put("\u{1b}[?25h");
    }
}

/// What turns the lines on the screen into these. A terminal that has become narrower has broken our old lines
/// into several, so we go up as many as they are now.
fn frame(drawn: &[usize], lines: &[String], width: usize, height: usize) -> String {
    let up: usize = drawn.iter().map(|length| length.div_ceil(width.max(1)).max(1)).sum();
    let mut text = String::new();
    if up > 0 {
        text.push_str(&format!("\r\u{1b}[{}A", up.min(height)));
    }
    let room = height.saturating_sub(1);
    for (n, line) in lines.iter().take(room).enumerate() {
        let cut = if n + 1 == room && lines.len() > room {
            format!("… and {} lines more", lines.len() - n)
        } else {
            cut_to(line, width)
        };
        text.push_str(&cut);
        text.push_str("\u{1b}[K\r\n");
    }
    text.push_str("\u{1b}[J");
    text
}

/// As much of a line as is not broken, colours kept and ended.
fn cut_to(line: &str, width: usize) -> String {
    let (mut text, mut used, mut coloured) = (String::new(), 0, false);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            text.push(c);
            for c in chars.by_ref() {
                text.push(c);
                if c.is_ascii_alphabetic() {
                    break;
                }
            }
            coloured = true;
            continue;
        }
        used += if c > '\u{1100}' { 2 } else { 1 };
        if used > width {
            break;
        }
        text.push(c);
    }
    if coloured {
        text.push_str("\u{1b}[0m");
    }
    text
}

fn visible(line: &str) -> usize {
    show::visible(line)
}

fn size() -> (usize, usize) {
    let told = rustix::termios::tcgetwinsize(std::io::stdout());
    match told {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => (80, 24),
    }
}

fn put(text: &str) {
    let mut to = std::io::stdout().lock();
    let _ = to.write_all(text.as_bytes()).and_then(|()| to.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(state: &str, context: Option<&str>) -> Row {
        Row {
            name: "ana".into(),
            kind: "claude".into(),
            agent_id: "a".into(),
            state: state.into(),
            why: String::new(),
            pending: None,
            since_ms: Some(1),
            context: context.map(str::to_owned),
            context_since_ms: None,
            role: None,
            skills: Vec::new(),
            handle: None,
            endpoint: None,
            pid: None,
            folder: "/".into(),
            running: true,
            version: None,
            holder_version: None,
            cli_version: None,
            cli_tested: None,
            spooled: None,
            start: None,
            start_resumes: None,
            no_start: None,
            remote: false,
        }
    }

    #[test]
    fn what_has_changed() {
        let of =
            |row: Option<Row>| row.into_iter().map(|row| ("a".to_owned(), row)).collect::<BTreeMap<_, _>>();
        let check = |before: Option<Row>, after: Option<Row>, expected: &[&str]| {
            let (before, after) = (of(before), of(after));
            let found: Vec<&str> = changes(&before, &after).into_iter().map(|(what, _)| what).collect();
            assert_eq!(found, expected);
        };
        check(None, Some(row("idle", None)), &["here"]);
        check(Some(row("idle", None)), None, &["gone"]);
        check(Some(row("idle", None)), Some(row("idle", None)), &[]);
        check(Some(row("idle", None)), Some(row("busy", Some("tests"))), &["state"]);
        check(Some(row("idle", None)), Some(row("idle", Some("tests"))), &["shared"]);
    }

    #[test]
    fn a_frame_covers_the_one_before_it() {
        let lines = |n: usize| (0..n).map(|n| format!("line {n}")).collect::<Vec<_>>();
        assert_eq!(frame(&[], &lines(1), 80, 24), "line 0\u{1b}[K\r\n\u{1b}[J");
        assert_eq!(frame(&[6, 6], &lines(1), 80, 24), "\r\u{1b}[2Aline 0\u{1b}[K\r\n\u{1b}[J");
        assert!(
            frame(&[6, 6], &lines(1), 3, 24).starts_with("\r\u{1b}[4A"),
            "narrower: each is two lines now"
        );
        let short = frame(&[], &lines(9), 80, 4);
        assert_eq!(short.matches("\r\n").count(), 3);
        assert!(short.contains("… and 7 lines more") && !short.contains("line 2"), "{short:?}");
    }

    #[test]
    fn lines_are_cut_and_colours_end() {
        assert_eq!(cut_to("abcdef", 3), "abc");
        assert_eq!(cut_to("\u{1b}[32mabc\u{1b}[0mdef", 4), "\u{1b}[32mabc\u{1b}[0md\u{1b}[0m");
        assert_eq!(cut_to("漢字", 3), "漢");
    }
}
