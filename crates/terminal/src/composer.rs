//! The composer: the place on a program's screen where a person writes, and what is in it.
//!
//! A profile tells where it is; what is in it is compared without blanks, because programs wrap and indent. Whatever
//! cannot be read is unknown, and nobody types on an unknown.
//! Not here: what is done about it (`turn`).

use crate::rules::BadRule;
use crate::screen::Screen;
use crate::text::{Typed, bones, bones_unjoined};
use regex_lite::Regex;
use serde::Deserialize;
use std::ops::Range;

/// Where the composer is, and how it looks.
#[derive(Debug, Clone)]
pub struct Composer {
    mark: Option<Regex>,
    frame: Option<Regex>,
    end: Regex,
    placeholders: Vec<Regex>,
    collapsed: Vec<(Regex, Counts)>,
}

/// As written in a profile.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ComposerText {
    /// Begins its first row; what it fits is not text.
    #[serde(default)]
    mark: Option<String>,
    /// Begins each of its rows; what it fits is not text.
    #[serde(default)]
    frame: Option<String>,
    /// The row below it.
    end: String,
    /// What it shows while it is empty.
    #[serde(default)]
    placeholders: Vec<String>,
    /// What it shows instead of a long paste, with a number.
    #[serde(default)]
    collapsed: Vec<CollapsedText>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct CollapsedText {
    shows: String,
    counts: Counts,
}

/// What the number in a collapsed paste counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counts {
    Characters,
    /// Line ends.
    LineEnds,
    /// Lines, with an empty last one.
    Lines,
}

/// What is in a composer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holds {
    /// There is none to be seen.
    Unknown,
    Empty,
    /// Text, without its blanks.
    Text(String),
    /// A paste that is only counted.
    Collapsed(Counts, usize),
}

impl ComposerText {
    pub(crate) fn compile(self) -> Result<Composer, BadRule> {
        let compile = |what: &str, pattern: String| {
            Regex::new(&pattern).map_err(|e| BadRule::Pattern {
                part: "composer",
                rule: what.to_owned(),
                pattern,
                why: e.to_string(),
            })
        };
        if self.mark.is_none() && self.frame.is_none() {
            return Err(BadRule::NoComposer);
        }
        let placeholders = self.placeholders.into_iter().map(|p| compile("placeholders", p));
        let collapsed = self.collapsed.into_iter().map(|c| Ok((compile("collapsed", c.shows)?, c.counts)));
        Ok(Composer {
            mark: self.mark.map(|mark| compile("mark", mark)).transpose()?,
            frame: self.frame.map(|frame| compile("frame", frame)).transpose()?,
            end: compile("end", self.end)?,
            placeholders: placeholders.collect::<Result<_, _>>()?,
            collapsed: collapsed.collect::<Result<_, BadRule>>()?,
        })
    }
}

impl Composer {
    pub fn read(&self, screen: &Screen) -> Holds {
        self.read_rows(&screen.rows(), screen.cursor())
    }

    fn read_rows(&self, rows: &[String], (cursor, column): (usize, usize)) -> Holds {
        let Some(inside) = self.rows_of(rows, cursor) else { return Holds::Unknown };
        let text: Vec<&str> =
            inside.iter().map(|row| row.trim_matches(|c: char| c.is_whitespace())).collect();
        let shown = text.join("\n");
        let shown = shown.trim();
        // A person who types the very words of a placeholder has the cursor behind them.
        let begins = rows[cursor].len() - rows[cursor].trim_start_matches(|c| !shown.starts_with(c)).len();
        let before_text = column <= rows[cursor][..begins].chars().count();
        if shown.is_empty() || before_text && self.placeholders.iter().any(|p| p.is_match(shown)) {
            return Holds::Empty;
        }
        for (pattern, counts) in &self.collapsed {
            if let Some(found) = pattern.captures(shown)
                && found.get(0).is_some_and(|whole| whole.len() == shown.len())
                && let Some(count) = found.get(1).and_then(|n| n.as_str().parse().ok())
            {
                return Holds::Collapsed(*counts, count);
            }
        }
        Holds::Text(bones(shown))
    }

    /// All that is on the screen and not in it, without blanks; everything, if it is not to be seen.
    pub(crate) fn outside(&self, screen: &Screen) -> String {
        let rows = screen.rows();
        let inside = self.place(&rows, screen.cursor().0).unwrap_or(rows.len()..rows.len());
        rows.iter().enumerate().filter(|(n, _)| !inside.contains(n)).map(|(_, row)| bones(row)).collect()
    }

    pub(crate) fn first_row(&self, screen: &Screen) -> Option<usize> {
        self.place(&screen.rows(), screen.cursor().0).map(|place| place.start)
    }

    /// The rows between what was submitted last and the composer; the whole screen, if that is not to be seen.
    pub(crate) fn last_turn(&self, screen: &Screen) -> Vec<String> {
        let mut rows = screen.rows();
        let Some(first) = self.first_row(screen) else { return rows };
        rows.truncate(first);
        let is_submitted = |row: &String| self.mark.as_ref().is_some_and(|mark| begins(mark, row).is_some());
        let from = rows.iter().rposition(is_submitted).map_or(0, |at| at + 1);
        rows.split_off(from)
    }

    /// What is inside, row by row, without mark and frame.
    fn rows_of<'a>(&self, rows: &'a [String], cursor: usize) -> Option<Vec<&'a str>> {
        let place = self.place(rows, cursor)?;
        let inside = rows[place].iter().enumerate().map(|(n, row)| {
            let mark = self.mark.as_ref().filter(|_| n == 0).or(self.frame.as_ref());
            let begins = mark.and_then(|mark| begins(mark, row)).unwrap_or(0);
            &row[begins..]
        });
        Some(inside.collect())
    }

    /// Which rows it has.
    fn place(&self, rows: &[String], cursor: usize) -> Option<Range<usize>> {
        let first = self.first(rows, cursor)?;
        // A row of its text may look like its end; the true one is the lowest.
        let below = cursor.max(first + 1).min(rows.len());
        let last = match &self.frame {
            Some(frame) => below + rows[below..].iter().take_while(|row| frame.is_match(row)).count(),
            None => rows.len(),
        };
        let end = (below..last).rev().find(|n| self.end.is_match(&rows[*n]))?;
        Some(first..end)
    }

    fn first(&self, rows: &[String], cursor: usize) -> Option<usize> {
        if cursor >= rows.len() {
            return None;
        }
        match (&self.mark, &self.frame) {
            (Some(mark), _) => (0..=cursor).rev().find(|n| begins(mark, &rows[*n]).is_some()),
            (None, Some(frame)) => {
                let framed = rows[..=cursor].iter().rev().take_while(|row| frame.is_match(row)).count();
                (framed > 0).then(|| cursor + 1 - framed)
            }
            (None, None) => None,
        }
    }
}

/// Where a row's text begins behind its mark. Rows have lost the blanks at their ends; a mark may end in one.
fn begins(mark: &Regex, row: &str) -> Option<usize> {
    let found = mark.find(row).map(|found| found.end());
    found.or_else(|| mark.find(&format!("{row} ")).map(|found| found.end().min(row.len())))
}

/// How what a composer holds compares with a text of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// That and nothing else.
    Whole,
    /// The end of it; the composer is too small for the rest.
    Tail,
    /// That, and something else beside it.
    Among,
    /// Something else.
    No,
}

/// So much of a tail has to be seen.
const TAIL_CHARS_MIN: usize = 200;

impl Holds {
    pub fn compare(&self, typed: &Typed) -> Match {
        let count = |counts: Counts| match counts {
            Counts::Characters => typed.chars(),
            Counts::LineEnds => typed.as_str().matches('\n').count(),
            Counts::Lines => typed.as_str().split('\n').count(),
        };
        match self {
            Self::Collapsed(counts, n) if count(*counts) == *n => Match::Whole,
            Self::Text(shown) => {
                let ours = bones(typed.as_str());
                match () {
                    () if *shown == ours || *shown == bones_unjoined(typed.as_str()) => Match::Whole,
                    () if shown.contains(&ours) => Match::Among,
                    () if shown.chars().count() >= TAIL_CHARS_MIN && ours.ends_with(shown.as_str()) => {
                        Match::Tail
                    }
                    () => Match::No,
                }
            }
            Self::Collapsed(..) | Self::Empty | Self::Unknown => Match::No,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::shipped;

    /// Screens as the real programs drew them; `▮` is the cursor.
    // tidy: table
    const SCREENS: &[(&str, &str, Holds2)] = &[
        (
            "codex",
            "● said\n\n› ▮Ask Codex to do anything\n\n  gpt-5 default · /w\n  ? for shortcuts",
            Holds2::Empty,
        ),
        (
            "codex",
            "› Ask Codex to do anything▮\n\n  gpt-5 default · /w\n",
            Holds2::Text("AskCodextodoanything"),
        ),
        ("codex", "› abc▮\n\n  gpt-5 default · /w\n", Holds2::Text("abc")),
        (
            "codex",
            "› first line\n  second !touch\n    third, indented\n  ▮\n\n  gpt-5 default · /w\n  ? x",
            Holds2::Text("firstlinesecond!touchthird,indented"),
        ),
        ("codex", "› ▮\n\n  late\n\n  gpt-5 default · /w", Holds2::Text("late")),
        (
            "codex",
            "› [Pasted Content 1351 chars]▮\n\n  gpt-5 default · /w",
            Holds2::Collapsed(Counts::Characters, 1351),
        ),
        (
            "codex",
            "› [Pasted Content 1351 chars] and▮\n\n  gpt-5 default · /w",
            Holds2::Text("[PastedContent1351chars]and"),
        ),
        (
            "codex",
            "  Would you like to run it?\n› 1. Yes▮\n  2. No\n\n  Press enter to confirm",
            Holds2::Unknown,
        ),
        (
            "claude",
            "❯ MOCK_TOOL go\n● ran it\n────────────\n❯\u{a0}▮\n────────────\n  ? for shortcuts",
            Holds2::Empty,
        ),
        (
            "claude",
            "────────────\n❯\u{a0}▮Try \"edit main.rs to...\"\n────────────\n  ? for shortcuts",
            Holds2::Empty,
        ),
        (
            "claude",
            "────────────\n❯\u{a0}[Pasted text #2 +70 lines]▮\n────────────\n  paste again to expand",
            Holds2::Collapsed(Counts::LineEnds, 70),
        ),
        (
            "claude",
            "────────────\n❯\u{a0}▮hello draft\n────────────\n  ⏸ manual mode on",
            Holds2::Text("hellodraft"),
        ),
        ("claude", " Do you want to proceed?\n ❯ 1. Yes▮\n   2. No\n\n Esc to cancel", Holds2::Unknown),
        (
            "gemini",
            "▄▄▄▄▄▄▄▄▄▄▄▄\n > ▮  Type your message or @path/to/file\n▀▀▀▀▀▀▀▀▀▀▀▀\n workspace",
            Holds2::Empty,
        ),
        (
            "gemini",
            "▄▄▄▄▄▄▄▄▄▄▄▄\n > [Pasted Text: 71 lines]▮\n▀▀▀▀▀▀▀▀▀▀▀▀\n workspace",
            Holds2::Collapsed(Counts::Lines, 71),
        ),
        (
            "gemini",
            "▄▄▄▄▄▄▄▄▄▄▄▄\n > first line\n   second\n   ▮\n▀▀▀▀▀▀▀▀▀▀▀▀\n workspace",
            Holds2::Text("firstlinesecond"),
        ),
        (
            "opencode",
            "  ┃  said before\n\n  ┃\n  ┃  ▮Ask anything… \"Fix broken tests\"\n  ┃\n  ┃  Build · gpt-5 mock\n  ╹▀▀▀▀▀▀▀▀▀▀▀",
            Holds2::Empty,
        ),
        (
            "opencode",
            "  ┃\n  ┃  [Pasted ~70 lines]▮\n  ┃\n  ┃  Build · gpt-5 mock\n  ╹▀▀▀▀▀▀▀▀▀▀▀",
            Holds2::Collapsed(Counts::LineEnds, 70),
        ),
        (
            "opencode",
            "  ┃\n  ┃  two words▮\n  ┃\n  ┃  Build · gpt-5 mock\n  ╹▀▀▀▀▀▀▀▀▀▀▀",
            Holds2::Text("twowords"),
        ),
    ];

    /// `Holds` that fits into a table.
    enum Holds2 {
        Unknown,
        Empty,
        Text(&'static str),
        Collapsed(Counts, usize),
    }

    fn composer(profile: &str) -> Composer {
        shipped(profile).unwrap().composer.unwrap()
    }

    fn read(composer: &Composer, drawn: &str) -> Holds {
        let at = |row: &str| row.chars().position(|c| c == '▮');
        let (row, column) = drawn.lines().enumerate().find_map(|(n, row)| Some((n, at(row)?))).unwrap();
        let rows: Vec<String> = drawn.lines().map(|row| row.replace('▮', "")).collect();
        composer.read_rows(&rows, (row, column))
    }

    #[test]
    fn what_is_in_the_composer_of_each_program() {
        for (profile, drawn, holds) in SCREENS {
            let expected = match holds {
                Holds2::Unknown => Holds::Unknown,
                Holds2::Empty => Holds::Empty,
                Holds2::Text(text) => Holds::Text((*text).to_owned()),
                Holds2::Collapsed(counts, n) => Holds::Collapsed(*counts, *n),
            };
            assert_eq!(read(&composer(profile), drawn), expected, "{profile}:\n{drawn}");
        }
    }

    #[test]
    fn our_text_is_told_from_ours_with_something_beside_it() {
        let typed = Typed::new("[A2A:12345678:x]", "two\nlines of it");
        let ours = bones(typed.as_str());
        for (holds, is) in [
            (Holds::Text(ours.clone()), Match::Whole),
            (Holds::Text(format!("draft{ours}")), Match::Among),
            (Holds::Text(format!("{ours}draft")), Match::Among),
            (Holds::Text("ofit".into()), Match::No),
            (Holds::Collapsed(Counts::LineEnds, 2), Match::Whole),
            (Holds::Collapsed(Counts::Lines, 3), Match::Whole),
            (Holds::Collapsed(Counts::LineEnds, 3), Match::No),
            (Holds::Collapsed(Counts::Characters, typed.chars()), Match::Whole),
            (Holds::Empty, Match::No),
            (Holds::Unknown, Match::No),
        ] {
            assert_eq!(holds.compare(&typed), is, "{holds:?}");
        }
        let joined = Typed::new("[A2A:12345678:x]", "👩‍💻 and more");
        for (shown, is) in [
            ("[A2A:12345678:x]👩💻andmore", Match::Whole),
            ("[A2A:12345678:x]👩andmore", Match::Whole),
            ("[A2A:12345678:x]andmore", Match::No),
        ] {
            assert_eq!(Holds::Text(shown.into()).compare(&joined), is, "{shown}");
        }
        let long = Typed::new("[A2A:12345678:x]", &"word ".repeat(400));
        let tail: String = "word".repeat(100);
        assert_eq!(Holds::Text(tail).compare(&long), Match::Tail);
    }

    #[test]
    fn any_screen_is_read() {
        let composers = ["claude", "codex", "gemini", "opencode"].map(composer);
        bolero::check!().with_type::<(Vec<String>, u8)>().for_each(|(rows, cursor)| {
            for composer in &composers {
                composer.read_rows(rows, (usize::from(*cursor), 2));
            }
        });
    }
}
