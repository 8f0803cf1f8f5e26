//! A prompt that waits for a person: which one it is, and the keys that decide it.
//!
//! A decision names the prompt it is about. It is pressed only if, with the keyboard in our hands, the same prompt is
//! still there: a key for one question never answers another.

use crate::rules;
use crate::screen::Screen;
use crate::turn::{Held, Sight};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use synapse_core::ids::Timestamp;

/// What is asked, as it stands on the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    pub text: String,
    /// Names this one question; nothing that only blinks counts.
    pub hash: String,
    pub choices: Vec<String>,
    /// Which of choices that stand side by side is marked, and taken by Enter; none if that cannot be told.
    pub marked: Option<usize>,
}

const ROWS: usize = 16;
const HASH_DIGITS: usize = 12;

impl Prompt {
    /// `since` is when it began to wait: the same question asked again is another prompt. `side_by_side` are the
    /// answers of a program that writes them into one row.
    pub fn read(screen: &Screen, since: Timestamp, side_by_side: &[String]) -> Self {
        let rows = screen.rows();
        let marked = rows.iter().rposition(|row| places_in(row, side_by_side).is_some()).and_then(|row| {
            let places = places_in(&rows[row], side_by_side)?;
            let papers: Vec<_> = places.iter().map(|column| screen.paper(row, *column)).collect();
            odd_one(&papers)
        });
        Self { marked, ..Self::of(&rules::lowest(&rows, ROWS), since, side_by_side) }
    }

    fn of(text: &str, since: Timestamp, side_by_side: &[String]) -> Self {
        let rows: Vec<&str> = text.lines().collect();
        // The question is what stands under the last line across; what is above it is the talk before.
        let begins = rows.iter().rposition(|row| is_line(row) && !is_last_line(row)).map_or(0, |at| at + 1);
        let below: Vec<&str> = rows[begins..].to_vec();
        let shown = if below.iter().any(|row| rules::is_choice(row)) { below } else { rows };
        let counted: String =
            shown.iter().flat_map(|row| row.chars()).filter(|c| c.is_alphanumeric()).collect();
        let digest = Sha256::digest(format!("{} {counted}", since.0));
        let hash: String = digest
            .iter()
            .flat_map(|byte| format!("{byte:02x}").into_bytes())
            .map(char::from)
            .take(HASH_DIGITS)
            .collect();
        let mut choices: Vec<String> =
            shown.iter().filter(|row| rules::is_choice(row)).map(|row| trimmed(row).to_owned()).collect();
        if choices.is_empty() && shown.iter().any(|row| places_in(row, side_by_side).is_some()) {
            choices = side_by_side.to_vec();
        }
        Self { text: shown.join("\n"), hash, choices, marked: None }
    }
}

/// The columns at which these words stand in a row, if all of them do, in this order.
fn places_in(row: &str, words: &[String]) -> Option<Vec<usize>> {
    let mut from = 0;
    let places = words.iter().map(|word| {
        let at = from + row[from..].find(word.as_str())?;
        from = at + word.len();
        Some(row[..at].chars().count())
    });
    places.collect::<Option<Vec<usize>>>().filter(|places| !places.is_empty())
}

/// The one that is unlike all others, which are alike.
fn odd_one<T: PartialEq>(all: &[T]) -> Option<usize> {
    let is_odd = |n: &usize| {
        let mut others = all.iter().enumerate().filter(|(m, _)| m != n).map(|(_, other)| other);
        others.next().is_some_and(|first| *first != all[*n] && others.all(|other| other == first))
    };
    (0..all.len()).find(is_odd).filter(|_| all.len() > 2)
}

/// A line across, such as a box's.
fn is_line(row: &str) -> bool {
    let row = row.trim();
    row.chars().count() >= 8 && row.chars().all(|c| "─━═╭╮┌┐╔╗".contains(c))
}

fn is_last_line(row: &str) -> bool {
    row.trim().starts_with(['╰', '└', '╚'])
}

fn trimmed(row: &str) -> &str {
    row.trim_matches(|c: char| c.is_whitespace() || "│┃|❯›>●▶".contains(c))
}

/// How a prompt of this program is decided.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approve {
    pub allow: Key,
    pub deny: Key,
    /// The answers, if it writes them side by side into one row. Enter takes the marked one: it allows only while that
    /// is the first.
    #[serde(default)]
    pub side_by_side: Vec<String>,
}

/// One key of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Key {
    Enter,
    Escape,
    Letter(u8),
}

impl TryFrom<String> for Key {
    type Error = String;

    fn try_from(written: String) -> Result<Self, String> {
        match (written.as_str(), written.as_bytes()) {
            ("enter", _) => Ok(Self::Enter),
            ("escape", _) => Ok(Self::Escape),
            (_, [letter @ b'!'..=b'~']) => Ok(Self::Letter(*letter)),
            _ => Err(format!("{written:?} is no key: give enter, escape or one character")),
        }
    }
}

impl Key {
    pub fn bytes(self) -> Vec<u8> {
        vec![match self {
            Self::Enter => b'\r',
            Self::Escape => 0x1b,
            Self::Letter(letter) => letter,
        }]
    }
}

/// One decision on its way to the program.
#[derive(Debug)]
pub struct Deciding {
    hash: String,
    key: Key,
    /// Enter is to take the first of answers that stand side by side.
    takes_first: bool,
    /// When the prompt was first seen to be the one that is meant.
    seen_at: Option<Timestamp>,
    pressed_at: Option<Timestamp>,
    outcome: Option<Decided>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decide {
    Wait { until: Option<Timestamp>, held: Option<Held> },
    TakeKeyboard { ms: u32 },
    ReleaseKeyboard,
    Press(Vec<u8>),
    Done(Decided),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided {
    /// The key was pressed, and the prompt is gone.
    Taken,
    /// Another prompt is there, or none.
    Changed,
    /// The key was pressed, and the prompt is still there.
    Ignored,
    /// Enter would take another answer than the one that is meant, or nobody knows which: nothing was pressed.
    Unmarked,
}

const KEYBOARD_MS: u32 = 3_000;
const PATIENCE_MS: u64 = 5_000;
/// A prompt stands so long before a key is pressed. Claude Code 2.1.325 drops keys in the first 0.1 s after it drew one:
/// whoever is typing just then does not answer it unread.
const STANDS_MS: u64 = 500;

impl Deciding {
    pub fn new(hash: String, key: Key, side_by_side: &[String]) -> Self {
        let takes_first = key == Key::Enter && !side_by_side.is_empty();
        Self { hash, key, takes_first, seen_at: None, pressed_at: None, outcome: None }
    }

    /// `prompt` is what it waits for, if it waits.
    pub fn next(&mut self, sight: &Sight, prompt: Option<&Prompt>) -> Decide {
        if let Some(outcome) = self.outcome {
            return if sight.keyboard { Decide::ReleaseKeyboard } else { Decide::Done(outcome) };
        }
        let same = prompt.is_some_and(|prompt| prompt.hash == self.hash);
        let stands_at = self.seen_at.get_or_insert(sight.now).plus_ms(STANDS_MS);
        match self.pressed_at {
            None if !same => self.ends(sight, prompt, Decided::Changed),
            None if self.takes_first && prompt.is_some_and(|prompt| prompt.marked != Some(0)) => {
                self.ends(sight, prompt, Decided::Unmarked)
            }
            None if stands_at > sight.now => Decide::Wait { until: Some(stands_at), held: None },
            None if !sight.keyboard => Decide::TakeKeyboard { ms: KEYBOARD_MS },
            None => {
                self.pressed_at = Some(sight.now);
                Decide::Press(self.key.bytes())
            }
            Some(_) if !same => self.ends(sight, prompt, Decided::Taken),
            Some(_) if sight.keyboard => Decide::ReleaseKeyboard,
            Some(at) if at.plus_ms(PATIENCE_MS) > sight.now => {
                Decide::Wait { until: Some(at.plus_ms(PATIENCE_MS)), held: None }
            }
            Some(_) => self.ends(sight, prompt, Decided::Ignored),
        }
    }

    fn ends(&mut self, sight: &Sight, prompt: Option<&Prompt>, outcome: Decided) -> Decide {
        self.outcome = Some(outcome);
        self.next(sight, prompt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::composer::Holds;
    use synapse_core::agents::AgentState;

    const CLAUDE: &str = "● Bash(touch x)\n  ⎿  Waiting…\n────────────────\n Bash command\n touch x\n Do you want to proceed?\n ❯ 1. Yes\n   2. No\n\n Esc to cancel";

    fn prompt_of(text: &str) -> Prompt {
        Prompt::of(text, Timestamp(1), &[])
    }

    #[test]
    fn answers_that_stand_side_by_side_are_answers_if_all_of_them_stand_there() {
        let words = ["Allow once", "Allow always", "Reject"].map(str::to_owned);
        let asks = |row: &str| {
            Prompt::of(&format!("△ Permission required\n$ mktemp x\n{row}"), Timestamp(1), &words)
        };
        assert_eq!(asks("┃   Allow once   Allow always   Reject      enter confirm").choices, words);
        for other in ["", "Allow once   Reject", "Reject   Allow always   Allow once", "1. Allow once"] {
            assert_ne!(asks(other).choices, words, "{other:?}");
        }
        assert_eq!(prompt_of("Allow once   Allow always   Reject").choices, [""; 0]);
    }

    #[test]
    fn a_prompt_is_the_same_whatever_blinks_and_another_for_another_command() {
        let prompt = prompt_of(CLAUDE);
        assert_eq!(prompt.choices, ["1. Yes", "2. No"]);
        assert_ne!(Prompt::of(CLAUDE, Timestamp(2), &[]).hash, prompt.hash, "asked again");
        assert!(!prompt.text.contains("Waiting…"), "{}", prompt.text);
        assert_eq!(prompt_of(&CLAUDE.replace('●', "◦")).hash, prompt.hash);
        assert_eq!(prompt_of(&CLAUDE.replace(" ❯ 1", "   1").replace("   2", " ❯ 2")).hash, prompt.hash);
        assert_ne!(prompt_of(&CLAUDE.replace(" touch x\n", " touch y\n")).hash, prompt.hash);
        let codex = "  Would you like to run the following command?\n  $ touch /w/x\n› 1. Yes, proceed (y)\n  2. No (esc)\n  Press enter to confirm or esc to cancel";
        assert_eq!(prompt_of(codex).choices.len(), 2);
        assert_ne!(prompt_of(codex).hash, prompt.hash);
    }

    fn sight(now: u64, state: AgentState, keyboard: bool) -> Sight {
        Sight { composer: Holds::Unknown, keyboard, ..Sight::at(now, state) }
    }

    #[test]
    fn a_key_is_pressed_once_and_only_for_the_prompt_it_was_meant_for() {
        use AgentState::{Busy, Waiting};
        let (prompt, other) = (prompt_of(CLAUDE), prompt_of(&CLAUDE.replace("touch x", "rm -rf y")));
        let deciding = || Deciding::new(prompt.hash.clone(), Key::Letter(b'1'), &[]);
        let stood = |deciding: &mut Deciding| {
            let waits = Decide::Wait { until: Some(Timestamp(STANDS_MS)), held: None };
            assert_eq!(deciding.next(&sight(0, Waiting, false), Some(&prompt)), waits);
            assert_eq!(deciding.next(&sight(STANDS_MS - 1, Waiting, true), Some(&prompt)), waits);
            let takes = Decide::TakeKeyboard { ms: KEYBOARD_MS };
            assert_eq!(deciding.next(&sight(STANDS_MS, Waiting, false), Some(&prompt)), takes);
        };
        let mut taken = deciding();
        stood(&mut taken);
        assert_eq!(taken.next(&sight(501, Waiting, true), Some(&prompt)), Decide::Press(b"1".to_vec()));
        assert_eq!(taken.next(&sight(502, Waiting, true), Some(&prompt)), Decide::ReleaseKeyboard);
        assert!(matches!(taken.next(&sight(503, Waiting, false), Some(&prompt)), Decide::Wait { .. }));
        assert_eq!(taken.next(&sight(504, Busy, false), None), Decide::Done(Decided::Taken));
        // Another prompt came between the question and the key.
        let mut changed = deciding();
        stood(&mut changed);
        assert_eq!(changed.next(&sight(501, Waiting, true), Some(&other)), Decide::ReleaseKeyboard);
        assert_eq!(changed.next(&sight(502, Waiting, false), Some(&other)), Decide::Done(Decided::Changed));
        // Nothing waits.
        assert_eq!(deciding().next(&sight(0, Busy, false), None), Decide::Done(Decided::Changed));
        let mut ignored = deciding();
        stood(&mut ignored);
        ignored.next(&sight(501, Waiting, true), Some(&prompt));
        assert_eq!(
            ignored.next(&sight(9_000, Waiting, false), Some(&prompt)),
            Decide::Done(Decided::Ignored)
        );
    }

    /// As OpenCode draws it: the marked answer has another paper.
    #[test]
    fn enter_is_pressed_only_for_the_answer_that_is_meant() {
        let words = ["Allow once", "Allow always", "Reject"].map(str::to_owned);
        let drawn = |papers: [u8; 3]| {
            let mut screen = Screen::new(crate::screen::Size::new(80, 10), 0);
            let row: String = words
                .iter()
                .zip(papers)
                .map(|(word, paper)| format!("\x1b[{paper}m {word} \x1b[0m  "))
                .collect();
            screen.feed(
                format!("\r\n┃ △ Permission required\r\n┃ $ mktemp x\r\n┃ {row}").as_bytes(),
                &mut Vec::new(),
            );
            Prompt::read(&screen, Timestamp(1), &words)
        };
        for (papers, marked) in [
            ([43, 49, 49], Some(0)),
            ([49, 43, 49], Some(1)),
            ([44, 44, 7], Some(2)),
            ([49, 49, 49], None),
            ([41, 42, 43], None),
        ] {
            let prompt = drawn(papers);
            assert_eq!((prompt.marked, &*prompt.choices), (marked, &words[..]), "{papers:?}");
            let mut allows = Deciding::new(prompt.hash.clone(), Key::Enter, &words);
            let first = allows.next(&sight(0, AgentState::Waiting, false), Some(&prompt));
            let refused = first == Decide::Done(Decided::Unmarked);
            assert_eq!(refused, marked != Some(0), "{papers:?}: {first:?}");
            let mut denies = Deciding::new(prompt.hash.clone(), Key::Escape, &words);
            let first = denies.next(&sight(0, AgentState::Waiting, false), Some(&prompt));
            assert!(matches!(first, Decide::Wait { .. }), "{papers:?}: {first:?}");
        }
    }

    #[test]
    fn keys_are_named() {
        for (written, key) in [("enter", Key::Enter), ("escape", Key::Escape), ("y", Key::Letter(b'y'))] {
            assert_eq!(Key::try_from(written.to_owned()), Ok(key));
        }
        for wrong in ["", "yes", "\u{1b}", "é"] {
            assert!(Key::try_from(wrong.to_owned()).is_err(), "{wrong:?}");
        }
    }
}
