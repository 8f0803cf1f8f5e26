//! The summary of a prompt: what it asks for in one line, for lists, notices and hints.
//!
//! It comes from the permission request that the program itself reports, if that agrees with the screen. Otherwise it
//! is the line of the screen that says most. Text of a model can shape the screen, so such a summary informs and
//! proves nothing: `is_all` says whether whoever reads the summary has read the whole question.
//!
//! Invariant: one line without control or invisible characters, and what is cut ends with a mark.
//! Not here: all of the question, and its hash (`prompt`).

use crate::choice::{self, inside};
use regex_lite::Regex;
use std::sync::LazyLock;
use synapse_core::invisible::revealed;

/// What a prompt asks for, in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Such as `asks to run: touch notes.txt`.
    pub text: String,
    /// Nothing of the question is missing in it.
    pub is_all: bool,
}

/// Longest command or line of a question in a summary.
const CHARS_MAX: usize = 120;
const CUT: char = '…';
/// Without a frame, the question is in the last paragraphs above the answers.
const PARAGRAPHS: usize = 2;

/// A row of nothing but such words says only that something is asked.
static SAYS_LITTLE: LazyLock<Regex> = LazyLock::new(|| {
    let words = "bash|shell|terminal|command|commands|tool|use|call|run|execute|execution|operation|action\
        |permission|approval|confirmation|confirm|required|requested|requesting|requires|needed|user|your\
        |allow|approve|proceed|continue|do|you|want|would|like|to|the|a|an|of|is|it|this|following|with|i|we|should|may|for";
    constant(&format!(r"(?i)^\W*(({words})\W*)+$"))
});
static RUNS: LazyLock<Regex> =
    LazyLock::new(|| constant(r"(?i)\b(run|execute|execution|bash|shell|terminal|command)\b"));
/// `Bash(touch notes.txt)`.
static TOOL_CALL: LazyLock<Regex> = LazyLock::new(|| constant(r"^\w+\((.+)\)$"));

fn constant(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant that a test matches")
}

/// Of a command that the program reports. `is_known` says that the screen agrees and nothing is in doubt.
pub(crate) fn of_command(command: &str, is_known: bool) -> Summary {
    let (line, is_whole) = one_line(command);
    Summary { text: format!("asks to run: {line}"), is_all: is_whole && is_known }
}

/// Of the rows of a question. With a frame it begins in the first of them.
pub(crate) fn of_screen(rows: &[String], is_framed: bool, is_complete: bool) -> Summary {
    let above = &rows[..choice::answers_begin(rows).unwrap_or(rows.len())];
    let asked = if is_framed { above } else { last_question(above) };
    let found = Question::read(asked);
    let text = match found.command().filter(|_| is_complete) {
        Some(command) => format!("asks to run: {}", one_line(&command).0),
        None if found.runs() && !is_complete => {
            "asks to run a command that its screen does not wholly show".into()
        }
        None => match found.says() {
            Some(line) => format!("asks: {}", one_line(line).0),
            None => "asks for a decision".into(),
        },
    };
    Summary { text, is_all: false }
}

/// The rows that ask, without frames and answers. Nothing else is left out: whoever reads it may approve.
pub(crate) fn only_question(rows: &[String]) -> String {
    let above = &rows[..choice::answers_begin(rows).unwrap_or(rows.len())];
    let kept: Vec<&str> = above.iter().filter(|row| !is_frame(row)).map(|row| inside(row)).collect();
    kept.join("\n")
}

/// What stands in the rows of a question.
struct Question<'a> {
    rows: &'a [String],
    texts: Vec<&'a str>,
}

impl<'a> Question<'a> {
    fn read(rows: &'a [String]) -> Self {
        let texts = rows.iter().filter(|row| has_text(row)).map(|row| bare(row)).collect();
        Self { rows, texts }
    }

    /// The row that puts the question, or else the last one.
    fn asked(&self) -> Option<&'a str> {
        let asks = self.texts.iter().rev().find(|text| text.ends_with(['?', ':']));
        asks.or(self.texts.last()).copied()
    }

    fn runs(&self) -> bool {
        [self.texts.first().copied(), self.asked()].into_iter().flatten().any(|text| RUNS.is_match(text))
    }

    /// What is to be run, if that can be told.
    fn command(&self) -> Option<String> {
        let prompted = self.rows.iter().find_map(|row| inside(row).strip_prefix("$ "));
        if let Some(command) = prompted {
            return Some(command.to_owned());
        }
        if !self.runs() || self.asked().is_some_and(|asked| !says_little(asked)) {
            return None;
        }
        let called = || TOOL_CALL.captures(self.texts.first()?).map(|call| call[1].to_owned());
        let said = || self.texts.iter().find(|text| !says_little(text)).map(|text| (*text).to_owned());
        self.enclosed().map(str::to_owned).or_else(called).or_else(said)
    }

    /// The first row of the lowest part between two lines.
    fn enclosed(&self) -> Option<&'a str> {
        let bottom = self.rows.iter().rposition(|row| is_line(row))?;
        let top = self.rows[..bottom].iter().rposition(|row| is_line(row))?;
        self.rows[top..bottom].iter().find(|row| has_text(row)).map(|row| bare(row))
    }

    /// The row that says most about what is asked.
    fn says(&self) -> Option<&'a str> {
        let asked = self.asked()?;
        let other = self.texts.iter().copied().find(|text| !says_little(text));
        if says_little(asked) { other.or(Some(asked)) } else { Some(asked) }
    }
}

/// The box around the lowest rows, or else their last paragraphs.
fn last_question(rows: &[String]) -> &[String] {
    let boxed = rows.iter().rev().take_while(|row| row.trim_start().starts_with(['│', '┃', '║'])).count();
    if boxed > 0 {
        return &rows[rows.len() - boxed..];
    }
    let (mut first, mut left) = (rows.len(), PARAGRAPHS);
    while left > 0 && first > 0 {
        let text = rows[..first].iter().rposition(|row| has_text(row));
        let Some(text) = text else { break };
        first = rows[..text].iter().rposition(|row| !has_text(row)).map_or(0, |blank| blank + 1);
        let says_enough = rows[first..=text].iter().any(|row| has_text(row) && !says_little(bare(row)));
        left = if says_enough { 0 } else { left - 1 };
    }
    &rows[first..]
}

fn says_little(text: &str) -> bool {
    SAYS_LITTLE.is_match(text)
}

fn has_text(row: &str) -> bool {
    row.chars().any(char::is_alphanumeric)
}

/// Blank, or nothing but lines and edges.
fn is_frame(row: &str) -> bool {
    row.chars().all(|c| c.is_whitespace() || ('\u{2500}'..='\u{259f}').contains(&c))
}

/// A row of a frame.
fn is_line(row: &str) -> bool {
    !has_text(row) && row.chars().any(|c| "─━═╌┄╍┅".contains(c))
}

/// A row without edges and without the sign that some programs put in front.
fn bare(row: &str) -> &str {
    let row = inside(row);
    let mut chars = row.chars();
    match chars.next() {
        Some(sign) if "⏺●•△▲◆◇⎿└├✻✦?#!".contains(sign) && chars.as_str().starts_with(' ') => {
            chars.as_str().trim()
        }
        _ => row,
    }
}

/// The first line, cut and marked if there is more; and whether that is all of it, letter for letter.
/// The first line of a text of others, made visible and cut, and whether that is all of it.
pub fn one_line(text: &str) -> (String, bool) {
    let text = text.trim();
    let first = text.lines().next().unwrap_or_default();
    let mut shown: String = revealed(first).chars().map(|c| if c == '\t' { ' ' } else { c }).collect();
    let is_long = shown.chars().count() > CHARS_MAX;
    if is_long {
        shown = shown.chars().take(CHARS_MAX - 1).collect();
    }
    let is_cut = is_long || first.len() < text.len();
    let is_whole = !is_cut && shown == first;
    if is_cut {
        shown.push(CUT);
    }
    (shown, is_whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn reported_command_is_one_safe_line() {
        let long = "x".repeat(200);
        for (command, text, is_all) in [
            ("touch notes.txt", "asks to run: touch notes.txt".to_owned(), true),
            ("  touch notes.txt\n", "asks to run: touch notes.txt".to_owned(), true),
            ("cat <<E\nrm -rf ~\nE", "asks to run: cat <<E…".to_owned(), false),
            (&long, format!("asks to run: {}…", "x".repeat(CHARS_MAX - 1)), false),
            ("ls\u{1b}[2J\u{200b}\u{7}\ta", "asks to run: ls\u{fffd}[2J\u{fffd}\u{fffd} a".to_owned(), false),
            ("ls\u{2028}rm", "asks to run: ls\u{fffd}rm".to_owned(), false),
        ] {
            assert_eq!(of_command(command, true), Summary { text, is_all }, "{command:?}");
        }
        assert!(!of_command("ls", false).is_all);
    }

    #[test]
    fn questions_of_known_programs() {
        let line = "╌".repeat(20);
        for (question, expected) in [
            (
                format!(
                    "────\n Bash command\n Tip: auto mode\n Run shell command\n{line}\n touch notes.txt\n{line}\n \
                     Do you want to proceed?\n ❯ 1. Yes\n   2. No\n\n Esc to cancel"
                ),
                "asks to run: touch notes.txt",
            ),
            (
                "────\n Bash command\n\n   touch notes.txt\n   Make a file\n\n Do you want to proceed?\n ❯ 1. Yes\n   2. No"
                    .to_owned(),
                "asks to run: touch notes.txt",
            ),
            (
                format!(
                    "────\n Edit file\n notes.txt\n{line}\n 1 + run this command\n{line}\n \
                     Do you want to make this edit to notes.txt?\n ❯ 1. Yes\n   2. No"
                ),
                "asks: Do you want to make this edit to notes.txt?",
            ),
            (
                "  Would you like to run the following command?\n\n  Reason: it makes a file\n\n  $ touch notes.txt\n\n\
                 › 1. Yes, proceed (y)\n  2. No (esc)"
                    .to_owned(),
                "asks to run: touch notes.txt",
            ),
            (
                "╭────╮\n│ ? Shell  touch notes.txt │\n│ ╭──╮ │\n│ │ touch notes.txt │ │\n│ ╰──╯ │\n\
                 │ Allow execution of [Shell]? │\n│ ● 1. Allow once │\n│   2. No │\n╰────╯"
                    .to_owned(),
                "asks to run: touch notes.txt",
            ),
            (
                "  ┃  △ Permission required\n  ┃    # Shell command\n  ┃\n  ┃  $ touch notes.txt".to_owned(),
                "asks to run: touch notes.txt",
            ),
        ] {
            assert_eq!(of_screen(&rows(&question), true, true).text, expected, "{question}");
        }
    }

    #[test]
    fn questions_without_a_frame() {
        for (screen, expected) in [
            (
                "● I will run it.\n\n⏺ Bash(touch notes.txt)\n  ⎿ Requesting user confirmation\n\n\
                 Do you want to proceed with this operation?\n\n 1. Yes\n 2. No\n\n↑↓ navigate • Enter select • Esc cancel",
                "asks to run: touch notes.txt",
            ),
            (
                "some talk\n╭────╮\n│ Bash(touch notes.txt) │\n│ Would you like to continue? │\n│ │\n\
                 │ > Continue (tab) │\n│   No (esc) │\n╰────╯",
                "asks to run: touch notes.txt",
            ),
            (
                "[A2A:1:user] ASK me\n\nRun the command number 1?\n> 1. Yes (y)\n  2. No (esc)\n\nenter to confirm",
                "asks: Run the command number 1?",
            ),
            ("talk\n\nDelete 3 files? [y/n]", "asks: Delete 3 files? [y/n]"),
            ("talk\n\nEdit(notes.txt)\n\n[y] Approve  [n] Deny", "asks: Edit(notes.txt)"),
            ("", "asks for a decision"),
        ] {
            assert_eq!(of_screen(&rows(screen), false, true).text, expected, "{screen}");
        }
        let cut = "line 8 of a command\nline 9\nDo you want to run this command?\n❯ 1. Yes\n  2. No";
        let text = of_screen(&rows(cut), false, false).text;
        assert!(text.starts_with("asks to run a command that"), "{text}");
    }

    #[test]
    fn only_the_question_is_kept_of_its_rows() {
        let screen = "────\n Bash command\n\n   touch notes.txt\n\n Do you want to proceed?\n ❯ 1. Yes\n   2. No\n\n Esc to cancel";
        assert_eq!(only_question(&rows(screen)), "Bash command\ntouch notes.txt\nDo you want to proceed?");
        let quoted =
            "────\n Bash command\n cat <<E\n 1. Yes\n 2. No\n E\n rm -rf ~\n Proceed?\n ❯ 1. Yes\n   2. No";
        let expected = "Bash command\ncat <<E\n1. Yes\n2. No\nE\nrm -rf ~\nProceed?";
        assert_eq!(only_question(&rows(quoted)), expected, "numbers in the command end nothing");
    }
}
