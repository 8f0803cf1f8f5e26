//! The composer: the place on a program's screen where a person writes, and what is in it.
//!
//! A profile tells where it is; what is in it is compared without blanks, because programs wrap and indent. Whatever
//! cannot be read is unknown, and nobody types on an unknown.
//! Not here: what is done about it (`turn`).

use crate::learn::Shot;
use crate::pattern::PatternText;
use crate::rules::BadRule;
use crate::screen::{DrawnCursor, Screen};
use crate::text::{Typed, bones, bones_unjoined, visible};
use alacritty_terminal::vte::ansi::{Color, NamedColor};
use regex_lite::Regex;
use serde::Deserialize;
use serde_saphyr::Spanned;
use std::cmp::Reverse;
use std::ops::Range;

/// Where the composer is, and how it looks.
#[derive(Debug, Clone)]
pub struct Composer {
    begin: Option<Regex>,
    mark: Option<Regex>,
    frame: Option<Regex>,
    right: Option<Regex>,
    end: Option<Regex>,
    placeholders: Vec<Regex>,
    suggestion: Option<Regex>,
    collapsed: Vec<(Regex, Counts)>,
    cursor: Cursor,
}

/// As written in a profile. Of `begin`, `mark` and `frame` at least one says where it begins.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ComposerText {
    /// The row above it.
    #[serde(default)]
    begin: Option<PatternText>,
    /// Begins its first row; what it fits is not text.
    #[serde(default)]
    mark: Option<PatternText>,
    /// Begins each of its rows; what it fits is not text.
    #[serde(default)]
    frame: Option<PatternText>,
    /// Ends each of its rows; what it fits is not text.
    #[serde(default)]
    right: Option<PatternText>,
    /// The row below it. Without it, a frame ends the composer, or the end of the screen.
    #[serde(default)]
    end: Option<PatternText>,
    /// What it shows while it is empty.
    #[serde(default)]
    placeholders: Vec<PatternText>,
    /// Fits a text outside the composer that has the colour of suggestions. A suggestion begins at the cursor while the
    /// composer is empty, and can be any text.
    #[serde(default)]
    suggestion: Option<PatternText>,
    /// What it shows instead of a long paste, with a number.
    #[serde(default)]
    collapsed: Vec<CollapsedText>,
    #[serde(default)]
    cursor: Cursor,
}

/// Where a person's cursor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Cursor {
    /// Where the terminal's is.
    #[default]
    Terminal,
    /// There, or else where the program draws its own (`CursorLook`).
    Drawn,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct CollapsedText {
    shows: PatternText,
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
    pub(crate) fn compile(written: Spanned<Self>) -> Result<Composer, BadRule> {
        let (line, text) = (written.referenced.into(), written.value);
        if text.begin.is_none() && text.mark.is_none() && text.frame.is_none() {
            let why =
                "give mark, which begins its first row, frame, which begins each, or begin, the row above it";
            return Err(BadRule::Composer { line, why });
        }
        let compile = |what: &str, pattern: PatternText| pattern.compile("composer", what);
        let optional = |what: &str, pattern: Option<PatternText>| {
            pattern.map(|pattern| compile(what, pattern)).transpose()
        };
        let placeholders = text.placeholders.into_iter().map(|p| compile("placeholders", p));
        let collapsed = text.collapsed.into_iter().map(|c| Ok((compile("collapsed", c.shows)?, c.counts)));
        Ok(Composer {
            begin: optional("begin", text.begin)?,
            mark: optional("mark", text.mark)?,
            frame: optional("frame", text.frame)?,
            right: optional("right", text.right)?,
            end: optional("end", text.end)?,
            placeholders: placeholders.collect::<Result<_, _>>()?,
            suggestion: optional("suggestion", text.suggestion)?,
            collapsed: collapsed.collect::<Result<_, BadRule>>()?,
            cursor: text.cursor,
        })
    }
}

impl Composer {
    pub fn read(&self, screen: &Screen) -> Holds {
        let rows = screen.rows();
        let cursor = self.cursor(screen, &rows);
        // A character in front of it may take two columns.
        let before = screen.row_upto(cursor.0, cursor.1).chars().count();
        match self.read_rows(&rows, (cursor.0, before), &screen.faint_rows()) {
            Holds::Text(_) if self.is_suggestion(screen, &rows, cursor) => Holds::Empty,
            holds => holds,
        }
    }

    /// Where a person's cursor is.
    fn cursor(&self, screen: &Screen, rows: &[String]) -> (usize, usize) {
        let cursor = screen.cursor();
        if self.cursor == Cursor::Terminal || self.place(rows, cursor.0).is_some() {
            return cursor;
        }
        self.drawn_in(rows, &screen.drawn_cursors()).map_or(cursor, |drawn| (drawn.row, drawn.column))
    }

    /// The cursor of a screen that was kept as text, counted in characters.
    pub(crate) fn cursor_of(&self, shot: &Shot) -> (usize, usize) {
        if self.cursor == Cursor::Terminal || self.place(&shot.rows, shot.cursor.0).is_some() {
            return shot.cursor;
        }
        self.drawn_in(&shot.rows, &shot.drawn).map_or(shot.cursor, |drawn| (drawn.row, drawn.characters))
    }

    /// Of the drawn cursors in a composer the surest, and of these the lowest.
    fn drawn_in<'a>(&self, rows: &[String], drawn: &'a [DrawnCursor]) -> Option<&'a DrawnCursor> {
        let is_inside = |drawn: &&DrawnCursor| {
            self.place(rows, drawn.row).is_some_and(|place| place.contains(&drawn.row))
        };
        drawn.iter().filter(is_inside).min_by_key(|drawn| (drawn.look, Reverse(drawn.row)))
    }

    /// Whether all text from the cursor on has the colour in which this program suggests what to type.
    fn is_suggestion(&self, screen: &Screen, rows: &[String], (row, column): (usize, usize)) -> bool {
        let (Some(pattern), Some(place)) = (&self.suggestion, self.place(rows, row)) else { return false };
        let outside = rows.iter().enumerate().filter(|(n, _)| !place.contains(n));
        let sample = outside.filter_map(|(n, row)| {
            let found = pattern.find(row)?;
            let middle = row[..(found.start() + found.end()) / 2].chars().count();
            screen.glyph(n, middle)
        });
        let Some((_, ink)) = sample.last().filter(|(_, ink)| *ink != Color::Named(NamedColor::Foreground))
        else {
            return false;
        };
        let marked = self.mark.as_ref().filter(|_| row == place.start).or(self.frame.as_ref());
        let begin = marked.and_then(|mark| begins(mark, &rows[row])).unwrap_or(0);
        let is_first = row == place.start && column <= rows[row][..begin].chars().count();
        let columns = usize::from(screen.size().columns());
        // The character under the cursor has its own colours.
        let below = (row + 1..place.end).flat_map(|row| (0..columns).map(move |column| (row, column)));
        let cells = (column + 1..columns).map(|column| (row, column)).chain(below);
        let mut inks = cells.filter_map(|(row, column)| screen.glyph(row, column));
        is_first && inks.all(|(glyph, colour)| glyph.is_whitespace() || colour == ink)
    }

    /// `faint` has the faint text of each row.
    pub(crate) fn read_rows(&self, rows: &[String], cursor: (usize, usize), faint: &[String]) -> Holds {
        let Some(place) = self.place(rows, cursor.0) else { return Holds::Unknown };
        let holds = self.read_at(rows, place.clone(), cursor, faint);
        // Whether it is empty, only all of it can tell.
        let upper = self.above_old_rows(rows, &place, cursor.0).filter(|_| matches!(holds, Holds::Text(_)));
        match upper.map(|place| self.read_at(rows, place, cursor, faint)) {
            Some(upper @ (Holds::Text(_) | Holds::Collapsed(..))) => upper,
            _ => holds,
        }
    }

    fn read_at(
        &self,
        rows: &[String],
        place: Range<usize>,
        (cursor, column): (usize, usize),
        faint: &[String],
    ) -> Holds {
        let shown = self.shown_at(rows, place.clone());
        let shown = shown.as_str();
        // A person who types the very words of a placeholder has the cursor behind them, and they are not faint.
        let begins = rows[cursor].len() - rows[cursor].trim_start_matches(|c| !shown.starts_with(c)).len();
        let before_text = column <= rows[cursor][..begins].chars().count();
        let is_faint = |(row, line): (usize, &str)| faint.get(row).is_some_and(|faint| faint.contains(line));
        let is_example = || before_text || (place.start..).zip(shown.lines()).all(is_faint);
        if shown.is_empty() || self.placeholders.iter().any(|p| p.is_match(shown)) && is_example() {
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

    /// What it shows, row by row; none if it is not to be seen.
    pub(crate) fn shown_in(&self, rows: &[String], cursor: usize) -> Option<String> {
        Some(self.shown_at(rows, self.place(rows, cursor)?))
    }

    fn shown_at(&self, rows: &[String], place: Range<usize>) -> String {
        // Some programs put characters without a width behind their cursor.
        let inside = self.rows_of(rows, place).into_iter();
        let text: Vec<String> = inside.map(|row| visible(row).trim().to_owned()).collect();
        text.join("\n").trim().to_owned()
    }

    /// All that is on the screen and not in it, without blanks; everything, if it is not to be seen.
    pub(crate) fn outside(&self, screen: &Screen) -> String {
        let rows = screen.rows();
        let inside = self.place(&rows, self.cursor(screen, &rows).0).unwrap_or(rows.len()..rows.len());
        rows.iter().enumerate().filter(|(n, _)| !inside.contains(n)).map(|(_, row)| bones(row)).collect()
    }

    pub(crate) fn first_row(&self, screen: &Screen) -> Option<usize> {
        let rows = screen.rows();
        self.place(&rows, self.cursor(screen, &rows).0).map(|place| place.start)
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

    /// What is inside, row by row, without mark, frame and right border.
    fn rows_of<'a>(&self, rows: &'a [String], place: Range<usize>) -> Vec<&'a str> {
        let inside = rows[place].iter().enumerate().map(|(n, row)| {
            let mark = self.mark.as_ref().filter(|_| n == 0).or(self.frame.as_ref());
            let begins = mark.and_then(|mark| begins(mark, row)).unwrap_or(0);
            let right = self.right.as_ref().and_then(|right| right.find(row));
            let ends = right.map_or(row.len(), |right| right.start());
            &row[begins..ends.max(begins)]
        });
        inside.collect()
    }

    /// Which rows it has.
    fn place(&self, rows: &[String], cursor: usize) -> Option<Range<usize>> {
        let first = self.first(rows, cursor)?;
        let below = cursor.max(first + 1).min(rows.len());
        let framed = below + rows[below..].iter().take_while(|row| self.frames(row)).count();
        let Some(end) = &self.end else { return Some(first..framed.max(cursor + 1)) };
        // A row of its text may look like its end; the true one is the lowest. It may belong to the frame, or be the
        // first that does not.
        let last = (framed + 1).min(rows.len());
        (below..last).rev().find(|n| end.is_match(&rows[*n])).map(|end| first..end)
    }

    /// The place without the end of an older frame. After 300 lines of answer, Gemini CLI 0.61.0 drew its composer three
    /// rows too high: below it stood its lower border and the status rows twice.
    fn above_old_rows(&self, rows: &[String], place: &Range<usize>, cursor: usize) -> Option<Range<usize>> {
        let end = self.end.as_ref()?;
        let from = cursor.max(place.start + 1);
        let upper = (from..place.end).find(|n| end.is_match(&rows[*n]))?;
        let is_copy = |row: &String| row.is_empty() || rows[place.end..].contains(row);
        rows[upper..place.end].iter().all(is_copy).then_some(place.start..upper)
    }

    /// Whether a row may be one of the composer's. Without a frame, any may.
    fn frames(&self, row: &str) -> bool {
        self.frame.as_ref().is_none_or(|frame| begins(frame, row).is_some())
    }

    /// Its first row: the lowest, from the cursor up, below which all is as it should be.
    fn first(&self, rows: &[String], cursor: usize) -> Option<usize> {
        if cursor >= rows.len() {
            return None;
        }
        let is_marked = |n: usize| self.mark.as_ref().is_some_and(|mark| begins(mark, &rows[n]).is_some());
        let is_inside = |n: usize| is_marked(n) || self.frames(&rows[n]);
        let inside = (0..=cursor).rev().take_while(|n| is_inside(*n));
        let is_first = |n: &usize| {
            let is_below_begin =
                self.begin.as_ref().is_none_or(|begin| *n > 0 && begin.is_match(&rows[n - 1]));
            is_below_begin && (self.mark.is_none() || is_marked(*n))
        };
        match (&self.begin, &self.mark) {
            // Only the frame tells: as far up as it goes.
            (None, None) => inside.last(),
            _ => inside.into_iter().find(is_first),
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
    /// Whether it holds the beginning of a text of ours and nothing else.
    pub(crate) fn is_beginning_of(&self, typed: &Typed) -> bool {
        matches!(self, Self::Text(shown) if bones(typed.as_str()).starts_with(shown.as_str()))
    }

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
    use crate::profile::{Profile, shipped};

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
            "gemini",
            "▄▄▄▄▄▄▄▄▄▄▄▄\n > it\n ▮\n▀▀▀▀▀▀▀▀▀▀▀▀\n workspace\n ~/w\n▀▀▀▀▀▀▀▀▀▀▀▀\n workspace\n ~/w",
            Holds2::Text("it"),
        ),
        (
            "gemini",
            "▄▄▄▄▄▄▄▄▄▄▄▄\n > it▮\n▀▀▀▀▀▀▀▀▀▀▀▀\n workspaces\n▀▀▀▀▀▀▀▀▀▀▀▀\n workspace",
            Holds2::Text("it▀▀▀▀▀▀▀▀▀▀▀▀workspaces"),
        ),
        (
            "gemini",
            "▄▄▄▄▄▄▄▄▄▄▄▄\n > ▮\n▀▀▀▀▀▀▀▀▀▀▀▀\n workspace\n▀▀▀▀▀▀▀▀▀▀▀▀\n workspace",
            Holds2::Text("▀▀▀▀▀▀▀▀▀▀▀▀workspace"),
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
            "kilo",
            "   ┃\n   ┃  ▮Ask anything... \"What is the tech stack?\"\n   ┃\n   ┃  Code  · mock mock\n   ╹▀▀▀▀▀▀▀▀▀▀▀",
            Holds2::Empty,
        ),
        (
            "cline",
            "      ────────────\n      ❯ ▮What can I do for you?\n      ────────────\n\n       mock (0) $0.00   ○ Plan ● Act (Tab)",
            Holds2::Empty,
        ),
        (
            "cline",
            " ❯ said\n\n────────────\n❯ two words\n  and more▮\n────────────\n mock (0) $0.00   ○ Plan ● Act (Tab)",
            Holds2::Text("twowordsandmore"),
        ),
        (
            "cline",
            "────────────\n❯ [[A2A:12345678:x] 1 a line that is long\n  enough... Pasted +7 lines]▮\n────────────\n mock",
            Holds2::Collapsed(Counts::LineEnds, 7),
        ),
        (
            "opencode",
            "  ┃\n  ┃  two words▮\n  ┃\n  ┃  Build · gpt-5 mock\n  ╹▀▀▀▀▀▀▀▀▀▀▀",
            Holds2::Text("twowords"),
        ),
        (
            "copilot",
            "● said\n /srv/w\n╻▄▄▄▄▄▄▄▄▄▄▄\n┃ ▮\n╹▀▀▀▀▀▀▀▀▀▀▀\n ← open sidebar · Interactive · Manual Ap",
            Holds2::Empty,
        ),
        (
            "copilot",
            "╻▄▄▄▄▄▄▄▄▄▄▄\n┃ first line\n┃ second▮\n╹▀▀▀▀▀▀▀▀▀▀▀\n Interactive · Manual Approval · @ files",
            Holds2::Text("firstlinesecond"),
        ),
        (
            "copilot",
            "╻▄▄▄▄▄▄▄▄▄▄▄\n┃ [Paste #1 - 30 lines]▮\n╹▀▀▀▀▀▀▀▀▀▀▀\n Interactive · Manual Approval",
            Holds2::Collapsed(Counts::LineEnds, 30),
        ),
        (
            "copilot",
            "╭──────────────╮\n│ mock         │\n│ ❯ 1. Yes▮     │\n│   2. No       │\n╰──────────────╯",
            Holds2::Unknown,
        ),
        (
            "qwen",
            "  > said\n────────────\n> ▮  Type your message or @path/to/file\n────────────\n  ➜ w · mock",
            Holds2::Empty,
        ),
        (
            "qwen",
            "────────────\n> two words▮ \u{200b}\n────────────\n  ? for shortcuts",
            Holds2::Text("twowords"),
        ),
        (
            "qwen",
            "──────────── topic ──\n> a line\n  more\n  ▮\u{200b}\n────────────\n  ? for shortcuts",
            Holds2::Text("alinemore"),
        ),
        (
            "qwen",
            "────────────\n> [Pasted Content 531 chars]▮\n────────────\n  ? for shortcuts",
            Holds2::Collapsed(Counts::Characters, 531),
        ),
        ("qwen", "────────────\n! ls▮\n────────────\n  ? for shortcuts", Holds2::Unknown),
        ("aider", "Tokens: 605 sent, 2 received.\n────────────\n> ▮", Holds2::Empty),
        (
            "aider",
            "a said> b\n────────────\na.py b.py\nask> one long\nask> line\nask> \nask> two▮",
            Holds2::Text("onelonglinetwo"),
        ),
        ("aider", "touch made\nRun shell command? (Y)es/(N)o/(D)on't ask again [Yes]: ▮", Holds2::Unknown),
    ];

    /// `Holds` that fits into a table.
    enum Holds2 {
        Unknown,
        Empty,
        Text(&'static str),
        Collapsed(Counts, usize),
    }

    impl Holds2 {
        fn expected(&self) -> Holds {
            match self {
                Self::Unknown => Holds::Unknown,
                Self::Empty => Holds::Empty,
                Self::Text(text) => Holds::Text((*text).to_owned()),
                Self::Collapsed(counts, n) => Holds::Collapsed(*counts, *n),
            }
        }
    }

    fn composer(profile: &str) -> Composer {
        shipped(profile).unwrap().composer.unwrap()
    }

    fn read(composer: &Composer, drawn: &str) -> Holds {
        let at = |row: &str| row.chars().position(|c| c == '▮');
        let (row, column) = drawn.lines().enumerate().find_map(|(n, row)| Some((n, at(row)?))).unwrap();
        let rows: Vec<String> = drawn.lines().map(|row| row.replace('▮', "")).collect();
        composer.read_rows(&rows, (row, column), &[])
    }

    #[test]
    fn what_is_in_the_composer_of_each_program() {
        for (profile, drawn, holds) in SCREENS {
            assert_eq!(read(&composer(profile), drawn), holds.expected(), "{profile}:\n{drawn}");
        }
    }

    fn drawn(text: &str) -> Screen {
        let mut screen = Screen::new(crate::screen::Size::new(40, 10), 0);
        screen.feed(text.replace('\n', "\r\n").as_bytes(), &mut Vec::new());
        screen
    }

    /// Qwen Code 0.24 suggests any text as the next message. It was taken for a person's draft, and mail never came.
    #[test]
    fn suggestion_is_not_a_draft() {
        let rule = "─".repeat(40);
        let shown = |text: &str, footer: &str, column: u8| {
            drawn(&format!(
                "{rule}\n> {text}\n{rule}\n  {footer}(shift + tab to cycle)\x1b[0m\x1b[2;{column}H"
            ))
        };
        let (grey, ours) = ("\x1b[38;2;108;112;134m", composer("qwen"));
        let suggestion = "\x1b[48;2;212;212;212mr\x1b[0;38;2;108;112;134mun the tests\x1b[0m";
        let draft = "run the tests";
        for (text, footer, column, is_draft) in [
            (suggestion, grey, 3, false),
            // A person has moved the cursor to the beginning of a draft.
            (draft, grey, 3, true),
            (draft, grey, 9, true),
            // The cursor is behind it, or a part has another colour.
            (suggestion, grey, 9, true),
            (&format!("{suggestion} x"), grey, 3, true),
            // Where all is of one colour, nothing can be told apart.
            (draft, "", 3, true),
            (suggestion, "", 3, true),
        ] {
            let holds = ours.read(&shown(text, footer, column));
            assert_eq!(matches!(holds, Holds::Text(_)), is_draft, "{text:?}: {holds:?}");
            assert_eq!(holds == Holds::Empty, !is_draft, "{text:?}: {holds:?}");
        }
    }

    /// The mark of Goose is two columns wide. Its placeholder was taken for a person's draft.
    #[test]
    fn placeholder_behind_a_wide_mark_is_not_a_draft() {
        let ours = written("{ begin: '^  ╌{8,}', mark: '^🪿 ?', placeholders: ['^Enter to send'] }");
        let bar = "  ╌╌╌╌╌╌╌╌ 0% 0/128k";
        for (row, column, holds) in [
            ("🪿 Enter to send · Ctrl+J newline", 4, Holds::Empty),
            ("🪿 Enter to send · Ctrl+J newline", 34, Holds::Text("Entertosend·Ctrl+Jnewline".into())),
            ("🪿 two words", 13, Holds::Text("twowords".into())),
            ("🪿", 4, Holds::Empty),
        ] {
            let mut screen = Screen::new(crate::screen::Size::new(40, 6), 0);
            screen.feed(format!("said\r\n{bar}\r\n{row}\x1b[3;{column}H").as_bytes(), &mut Vec::new());
            assert_eq!(ours.read(&screen), holds, "{row} {column}");
        }
    }

    /// Qwen Code 0.15 leaves the terminal's cursor below the composer, and draws its own.
    #[test]
    fn composer_is_found_by_the_cursor_that_its_program_draws() {
        let rule = "─".repeat(40);
        let shown = |text: &str| drawn(&format!("{rule}\n> {text}\n{rule}\n  ? for shortcuts\n"));
        for (text, holds) in [
            ("\x1b[7m \x1b[0m  Type your message or @path/to/file", Holds::Empty),
            ("hello\x1b[7m \u{200b}\x1b[0m", Holds::Text("hello".into())),
            (
                "Type your message or @path/to/file\x1b[7m \x1b[0m",
                Holds::Text(bones("Type your message or @path/to/file")),
            ),
            ("no cursor is drawn", Holds::Unknown),
        ] {
            assert_eq!(composer("qwen").read(&shown(text)), holds, "{text:?}");
        }
        let elsewhere = written("{ begin: '^─{8,}', mark: '^> ', end: '^─{8,}' }");
        assert_eq!(elsewhere.read(&shown("hello\x1b[7m \x1b[0m")), Holds::Unknown);
    }

    /// What each word of the language is for, as a profile has it.
    // tidy: table
    const WORDS: &[(&str, &str, Holds2)] = &[
        // Boxes with a right border, as Continue and Grok draw them.
        (BOX, "╭──────────╮\n│ > ▮      │\n╰──────────╯\n footer", Holds2::Empty),
        (BOX, "╭──────────╮\n│ > two    │\n│   lines▮ │\n╰──────────╯", Holds2::Text("twolines")),
        (BOX, "╭──────────╮\n│ > a │▮   │\n╰──────────╯", Holds2::Text("a│")),
        (BOX, "│ > said   │\n╰──────────╯\n│ talk▮    │\n╰──────────╯", Holds2::Unknown),
        // No mark, between two lines, as pi draws it.
        (LINES, "talk\n────────────\n▮\n────────────\n ~/w", Holds2::Empty),
        (LINES, "────────────\ntwo words\nand more▮\n────────────\n ~/w", Holds2::Text("twowordsandmore")),
        (LINES, "talk▮\n ~/w", Holds2::Unknown),
        // A mark on every row and nothing below, as Aider draws it.
        (EACH, "────────────\n> ▮", Holds2::Empty),
        (EACH, "a.py\nask> one\nask> \nask> two▮\n\n", Holds2::Text("onetwo")),
        (EACH, "> said\n\ntalk▮", Holds2::Unknown),
        // A mark is only a mark in the row below `begin`.
        (BELOW, "────────────\n> a\n  > b▮\n> c\n────────────\n", Holds2::Text("a>b>c")),
        (BELOW, "> said\n▮\n────────────\n", Holds2::Unknown),
        // Without a width, behind a cursor that the program draws itself.
        (BELOW, "────────────\n>  \u{200b}▮\n────────────\n", Holds2::Empty),
        (BELOW, "────────────\n> abc \u{200b}▮\n────────────\n", Holds2::Text("abc")),
        (
            BELOW,
            "────────────\n> [Pasted 7 lines] \u{200b}▮\n────────────\n",
            Holds2::Collapsed(Counts::Lines, 7),
        ),
    ];
    const BOX: &str = "{ mark: '^│ > ', frame: '^│', right: '│$', end: '^╰─+╯$' }";
    const LINES: &str = "{ begin: '^─{8,}$', end: '^─{8,}$' }";
    const EACH: &str = "{ frame: '^(\\w+)?> ' }";
    const BELOW: &str = "{ begin: '^─', mark: '^> ', end: '^─', collapsed: [{ shows: '\\[Pasted (\\d+) lines\\]', counts: lines }] }";

    fn written(composer: &str) -> Composer {
        let text = format!("name: x\ncommand: x\ncomposer: {composer}\n");
        Profile::parse(&text).unwrap_or_else(|e| panic!("{composer}: {e}")).composer.unwrap()
    }

    #[test]
    fn composers_without_a_mark_or_an_end_or_with_borders_are_read() {
        for (composer, drawn, holds) in WORDS {
            assert_eq!(read(&written(composer), drawn), holds.expected(), "{composer}:\n{drawn}");
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
        let shipped = ["claude", "codex", "gemini", "opencode", "copilot", "qwen", "aider", "cline", "kilo"]
            .map(composer);
        let composers: Vec<Composer> = shipped.into_iter().chain([BOX, LINES, EACH].map(written)).collect();
        bolero::check!().with_type::<(Vec<String>, u8)>().for_each(|(rows, cursor)| {
            for composer in &composers {
                composer.read_rows(rows, (usize::from(*cursor), 2), rows);
            }
        });
    }
}
