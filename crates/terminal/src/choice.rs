//! Choices: how a question to a person looks in a program of which no profile knows anything.
//!
//! Four forms are recognized: numbered options of which one is marked, numbered options above a line that says how to
//! select, options that end with the name of their key (`> Continue (tab)`), and keys in brackets
//! (`[y] Approve  [n] Deny`). Text of a model can look like the last three. So these count only at the bottom of the
//! screen, where programs ask, and not above a composer with its footer.
//!
//! Invariant: in doubt a program waits. A wrong "waiting" delays a message, a wrong "busy" hides a question.
//! Not here: what a question asks for (`summary`), the rules of profiles (`rules`).

use regex_lite::Regex;
use std::sync::LazyLock;

/// Marks in front of the selected option.
const MARKS: &str = "❯›>●▶➜◉▸*";
/// At most so many rows with text are below a choice without a number that is marked: the end of a box, a status line.
const ROWS_BELOW_MAX: usize = 3;
/// An option may be wrapped into one more row.
const STEP_MAX: usize = 2;

static KEY_AT_END: LazyLock<Regex> = LazyLock::new(|| {
    constant(r"(?i)\S.* \(((shift|ctrl|alt)[+-])?(tab|esc|escape|enter|return|space|[a-z0-9])\)$")
});
/// Text may end in a letter in parentheses; in the name of a key it hardly does.
static NAMED_KEY_AT_END: LazyLock<Regex> =
    LazyLock::new(|| constant(r"(?i)[( +-](tab|esc|escape|enter|return|space)\)$"));
static KEY_IN_BRACKETS: LazyLock<Regex> =
    LazyLock::new(|| constant(r"(?i)\[(esc|escape|enter|return|tab|space|[a-z])\] *([a-z]+)"));
static ACCEPTS: LazyLock<Regex> =
    LazyLock::new(|| constant("(?i)^(approve|allow|yes|accept|continue|proceed|run|confirm|ok)$"));
static REFUSES: LazyLock<Regex> =
    LazyLock::new(|| constant("(?i)^(deny|reject|no|cancel|decline|skip|abort|stop|refuse)$"));

fn constant(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant that a test matches")
}

/// Whether the lowest rows of a screen are a choice that waits for a person.
pub fn looks_like_a_choice(text: &str) -> bool {
    let rows: Vec<&str> = text.lines().map(inside).collect();
    has_marked_number(&rows) || low_choices(&rows).is_some()
}

/// Which of these rows are the answers to choose from.
pub(crate) fn answers(rows: &[String]) -> Vec<usize> {
    let numbered: Vec<usize> = (0..rows.len()).filter(|row| is_numbered(&rows[*row])).collect();
    if !numbered.is_empty() {
        return numbered;
    }
    let with_text: Vec<usize> = (0..rows.len()).filter(|row| !inside(&rows[*row]).is_empty()).collect();
    let texts: Vec<&str> = with_text.iter().map(|row| inside(&rows[*row])).collect();
    low_choices(&texts).unwrap_or_default().into_iter().map(|nth| with_text[nth]).collect()
}

/// The first row of the answers that end a question. A question may quote numbered text of its own, which is not among
/// these.
pub(crate) fn answers_begin(rows: &[String]) -> Option<usize> {
    let number =
        |row: usize| number_of(inside(&rows[row]).trim_start_matches(|c| MARKS.contains(c)).trim_start());
    let all = answers(rows);
    let mut first = *all.last()?;
    let Some(mut left) = number(first) else { return all.first().copied() };
    while left > 1 {
        let above = (first.saturating_sub(STEP_MAX)..first).rev().find(|row| number(*row) == Some(left - 1));
        let Some(above) = above else { break };
        (first, left) = (above, left - 1);
    }
    Some(first)
}

/// A row without the edges of boxes around it.
pub(crate) fn inside(row: &str) -> &str {
    row.trim_matches(|c: char| c.is_whitespace() || "│┃║|".contains(c))
}

fn has_marked_number(rows: &[&str]) -> bool {
    let Some(marked) = rows.iter().position(|row| is_marked_number(row)) else { return false };
    let options = rows.iter().filter(|row| is_numbered(row)).count();
    let hint = |row: &&str| {
        let row = row.to_lowercase();
        ["enter", "esc", "return", "↵", "select", "confirm", "cancel"].iter().any(|word| row.contains(word))
    };
    options >= 2 && rows[marked..].iter().any(hint)
}

/// The answers of a choice at the bottom of these rows, all of which have text.
fn low_choices(rows: &[&str]) -> Option<Vec<usize>> {
    let is_low =
        |found: &Vec<usize>| found.last().is_some_and(|last| rows.len() - last - 1 <= ROWS_BELOW_MAX);
    let forms = [unmarked_numbers, keys_at_the_end, keys_in_brackets];
    forms.into_iter().filter_map(|form| form(rows)).find(is_low)
}

/// `1. Yes`, `2. No`, and below them how to select.
fn unmarked_numbers(rows: &[&str]) -> Option<Vec<usize>> {
    let first = rows.iter().rposition(|row| number_of(row) == Some(1))?;
    let mut found = vec![first];
    while let Some(next) = after(&found, rows).find(|row| number_of(rows[*row]) == Some(found.len() + 1)) {
        found.push(next);
    }
    let selects = |row: usize| {
        let text = rows[row].to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        has(&["enter", "return", "↵", "⏎"])
            && has(&["esc"])
            && has(&["select", "choose", "confirm", "navigate", "move", "pick"])
    };
    (found.len() >= 2 && after(&found, rows).any(selects)).then_some(found)
}

/// Rows that may continue or follow the last of these.
fn after(found: &[usize], rows: &[&str]) -> std::ops::Range<usize> {
    let last = found.last().map_or(0, |last| last + 1);
    last..(last + STEP_MAX).min(rows.len())
}

/// `> Continue (tab)`, `  No (esc)`; one of them is marked.
fn keys_at_the_end(rows: &[&str]) -> Option<Vec<usize>> {
    let is_option = |row: &usize| KEY_AT_END.is_match(rows[*row]);
    let mut found: Vec<usize> = (0..rows.len()).rev().find(is_option).into_iter().collect();
    while let Some(first) = found.last() {
        let above = (first.saturating_sub(STEP_MAX)..*first).rev().find(is_option);
        let Some(above) = above else { break };
        found.push(above);
    }
    found.reverse();
    let is_marked = |row: &usize| rows[*row].starts_with(|c: char| MARKS.contains(c));
    let is_named = |row: &usize| NAMED_KEY_AT_END.is_match(rows[*row]);
    (found.len() >= 2 && found.iter().any(is_marked) && found.iter().any(is_named)).then_some(found)
}

/// `[y] Approve  [n] Deny`, in one row or in rows below each other.
fn keys_in_brackets(rows: &[&str]) -> Option<Vec<usize>> {
    let has_key = |row: &usize| KEY_IN_BRACKETS.is_match(rows[*row]);
    let last = (0..rows.len()).rev().find(has_key)?;
    let mut found: Vec<usize> = (0..=last).rev().take_while(has_key).collect();
    found.reverse();
    let mut keys: Vec<String> = Vec::new();
    let (mut accepts, mut refuses) = (false, false);
    for row in &found {
        for item in KEY_IN_BRACKETS.captures_iter(rows[*row]) {
            let (key, word) = (item[1].to_lowercase(), &item[2]);
            // A list of things to do has the same mark in front of each.
            if keys.contains(&key) {
                return None;
            }
            keys.push(key);
            accepts |= ACCEPTS.is_match(word);
            refuses |= REFUSES.is_match(word);
        }
    }
    (accepts && refuses).then_some(found)
}

/// A numbered option, marked or not.
fn is_numbered(row: &str) -> bool {
    let row = inside(row);
    number_of(row).is_some() || is_marked_number(row)
}

fn is_marked_number(row: &str) -> bool {
    let mut chars = row.chars();
    chars.next().is_some_and(|mark| MARKS.contains(mark)) && number_of(chars.as_str().trim_start()).is_some()
}

/// `1. Yes`, `2) No`.
fn number_of(row: &str) -> Option<usize> {
    let digits = row.chars().take_while(char::is_ascii_digit).count();
    let is_option = (1..=2).contains(&digits)
        && row[digits..].starts_with(['.', ')'])
        && row[digits + 1..].starts_with(' ');
    is_option.then(|| row[..digits].parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_seen_in_every_dress() {
        for text in [
            "│ ● 1. Allow once │\n│   2. Allow always │\n│ Press enter to confirm │",
            "Do you want to proceed?\n ❯ 1. Yes\n   2. No, tell Claude\n\n Esc to cancel",
            "› 1. Yes, proceed (y)\n  2. No (esc)",
            "> 1) first\n  2) second\n↑/↓ to move, enter to select",
        ] {
            assert!(looks_like_a_choice(text), "{text}");
        }
        for text in [
            "Here are the steps:\n1. press enter\n2. press esc",
            "❯ 1. one thing I typed",
            "> quoted text\n1. a\n2. b",
            "",
        ] {
            assert!(!looks_like_a_choice(text), "{text}");
        }
    }

    /// Prompts of Cline, Continue and Grok, which no profile describes: they were shown as busy.
    #[test]
    fn prompts_of_programs_without_rules_are_choices() {
        for (text, answers_expected) in [
            ("Run command: touch notes.txt\n  [y] Approve   [n] Deny", 1),
            ("│ Command: cargo test │\n│ [y] Approve once │\n│ [a] Always │\n│ [n] Reject │\n╰────╯", 3),
            ("[Y] Approve once  [N] Deny  [Esc] Cancel turn\nsaved approvals last a day", 1),
            (
                "│ Bash(touch notes.txt) │\n│ Would you like to continue? │\n│ > Continue (tab) │\n\
                 │   Continue + don't ask again (shift+tab) │\n\
                 │   No, and tell Continue what to do differently (esc) │\n╰────╯",
                3,
            ),
            ("> Continue (tab)\n  Continue + don't ask\n  again (shift+tab)\n  No (esc)", 3),
            (
                "Do you want to proceed with this operation?\n 1. Yes\n 2. Yes, and don't ask again this\n    session\n \
                 3. No\n ↑↓ navigate • Enter select • Esc cancel",
                3,
            ),
        ] {
            assert!(looks_like_a_choice(text), "{text}");
            let rows: Vec<String> = text.lines().map(str::to_owned).collect();
            assert_eq!(answers(&rows).len(), answers_expected, "{text}");
        }
    }

    /// The generic profile took such a prompt for work, since the program also says how to interrupt it.
    #[test]
    fn generic_profile_sees_standing_prompts_as_waiting() {
        use crate::{Size, Watch, profile};
        use synapse_core::{agents::AgentState, ids::Timestamp};
        for prompt in [
            "Run: touch notes.txt\n[y] Approve  [n] Deny",
            "Would you like to continue?\n> Continue (tab)\n  No (esc)",
            "Proceed?\n 1. Yes\n 2. No\n\n↑↓ navigate • Enter select • Esc cancel",
        ] {
            let generic = profile::shipped("generic").unwrap();
            let mut watch = Watch::new(Timestamp(0), generic, Size::new(80, 24), 0);
            let busy = "* Thinking (esc to interrupt)";
            watch.output(Timestamp(10), busy.as_bytes());
            watch.tick(Timestamp(1_000));
            assert_eq!(watch.state(), AgentState::Busy);
            let text = format!("\r\n{}", prompt.replace('\n', "\r\n"));
            watch.output(Timestamp(1_010), text.as_bytes());
            watch.tick(Timestamp(2_000));
            assert_eq!(watch.state(), AgentState::Waiting, "{prompt}");
        }
    }

    #[test]
    fn numbers_in_a_question_are_not_its_answers() {
        for (text, begin) in [
            ("Run?\n❯ 1. Yes\n  2. No\nEsc to cancel", 1),
            (
                " 1. Yes\n 2. No\n rm -rf ~\n Proceed?\n ❯ 1. Yes\n   2. Yes, and do\n      not ask again\n   3. No",
                4,
            ),
            (" 1. Yes\n ❯ 1. Yes\n   2. No", 1),
            ("Run?\n[y] Approve\n[n] Deny", 1),
        ] {
            let rows: Vec<String> = text.lines().map(str::to_owned).collect();
            assert_eq!(answers_begin(&rows), Some(begin), "{text}");
        }
    }

    /// What a model or a person wrote, and what programs show while they work.
    #[test]
    fn text_that_only_looks_like_a_choice_is_none() {
        let footer = "────────\n> \n────────\n  ? for shortcuts";
        for text in [
            format!("It asks `[y] Approve [n] Deny` before it runs.\n{footer}"),
            format!("1. Yes\n2. No\nEnter select • Esc cancel\n{footer}"),
            format!("> Continue (tab)\n  No (esc)\n{footer}"),
            "1. write the test\n2. run it\n> \nenter send • esc interrupt".to_owned(),
            "1. write the test\n2. run it\n⠋ Thinking (esc to cancel, 3s)".to_owned(),
            "[x] Run the tests\n[x] Cancel the old job\n[x] Stop".to_owned(),
            "[1] Run it\n[2] Stop it".to_owned(),
            "see (a) and (b)\n> explain this (y)".to_owned(),
            "[a] is the first, [b] the second".to_owned(),
        ] {
            assert!(!looks_like_a_choice(&text), "{text}");
        }
    }
}
