//! The frame of a prompt: where on the screen a question begins, so that all of it is read and hashed.
//!
//! A profile says how its program frames a question. The question quotes text of a model, and that text may contain
//! lines, boxes and titles of its own. So a row counts as frame only where quoted text cannot be: in the first column,
//! across the whole width, or in bold.
//!
//! Invariant: in doubt the question gets more rows, never fewer, and does not count as complete.
//! Not here: what is done about a question that is not complete (`prompt`, the node).

use crate::pattern::PatternText;
use crate::rules::BadRule;
use crate::screen::Screen;
use regex_lite::Regex;
use serde::Deserialize;
use serde_saphyr::Spanned;
use std::ops::Range;
use std::sync::LazyLock;

/// How a program frames its questions.
#[derive(Debug, Clone)]
pub struct Frame {
    top: Top,
    title: Option<Regex>,
    hides: Vec<Regex>,
    rows_max: Option<usize>,
    screen_max: Option<f64>,
}

/// As written in a profile.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FrameText {
    top: Spanned<Top>,
    /// Fits the first row with text inside the frame.
    #[serde(default)]
    title: Option<PatternText>,
    /// Rows that say that something is left out.
    #[serde(default)]
    hides: Vec<PatternText>,
    /// A question of so many rows may have been cut without a mark.
    #[serde(default)]
    rows_max: Option<usize>,
    /// The same for a share of the rows of the screen.
    #[serde(default)]
    screen_max: Option<f64>,
}

/// What a question begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Top {
    /// A line across the whole screen, in one colour.
    Rule,
    /// The top of a box as wide as the screen, closed on all sides.
    Box,
    /// The first of many rows that begin with the same bar.
    Bar,
    /// Its title, in bold.
    Title,
    /// A row that fits the title. Only for programs that indent all quoted text more than their own rows: the title
    /// must not fit a row of quoted text.
    Row,
}

/// Which rows are the question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) rows: Range<usize>,
    /// The frame was found.
    pub(crate) is_framed: bool,
    /// Its beginning is among the rows, and nothing says that a part is left out.
    pub(crate) is_complete: bool,
}

/// A question without a frame has so many blank rows below it. One or two may belong to it.
const ROOM_BELOW: usize = 3;
/// The title of a bar is among its first rows.
const TITLE_ROWS: usize = 3;
const RULES: &str = "─━═";
/// How programs say that lines are left out, whatever the profile knows of it.
static OMISSION: LazyLock<Regex> = LazyLock::new(|| {
    let dots = r"(…|⋯|\.\.\.) ?[\[(]?\+? ?\d+ (more |other |hidden |omitted )*(lines?|rows?)\b";
    let count =
        r"\b\d+ (more |hidden |omitted )+(lines?|rows?)\b|\b\d+ (lines?|rows?) (hidden|omitted|truncated)\b";
    Regex::new(&format!("(?i){dots}|{count}")).expect("a constant that a test matches")
});

impl FrameText {
    pub(crate) fn compile(self) -> Result<Frame, BadRule> {
        let compile = |what: &str, pattern: PatternText| pattern.compile("approve.frame", what);
        let top = self.top.value;
        let needs_title = match top {
            Top::Rule | Top::Box => None,
            Top::Bar => Some("bar"),
            Top::Title => Some("title"),
            Top::Row => Some("row"),
        };
        if let Some(top) = needs_title.filter(|_| self.title.is_none()) {
            return Err(BadRule::NoTitle { line: self.top.referenced.into(), top });
        }
        Ok(Frame {
            top,
            title: self.title.map(|title| compile("title", title)).transpose()?,
            hides: self.hides.into_iter().map(|p| compile("hides", p)).collect::<Result<_, _>>()?,
            rows_max: self.rows_max,
            screen_max: self.screen_max,
        })
    }
}

/// The rows of the question on this screen.
pub(crate) fn extent(frame: Option<&Frame>, screen: &Screen, rows: &[String]) -> Extent {
    let end = rows.iter().rposition(|row| !row.is_empty()).map_or(0, |last| last + 1);
    let top = frame.and_then(|frame| frame.find_top(screen, &rows[..end]));
    let height = usize::from(screen.size().rows());
    let is_whole =
        |rows: &[String]| !says_omission(rows) && frame.is_none_or(|frame| frame.shows_all(rows, height));
    match top {
        Some(top) => Extent { rows: top..end, is_framed: true, is_complete: is_whole(&rows[top..end]) },
        // Of a program whose frame is known, all that is known is that the frame is not there. Without a frame, the
        // question may have begun in any row that was ever drawn.
        None => {
            let has_room = end + ROOM_BELOW <= rows.len();
            let is_all = frame.is_none() && has_room && !screen.has_lost_rows();
            Extent { rows: 0..end, is_framed: false, is_complete: is_all && is_whole(&rows[..end]) }
        }
    }
}

impl Frame {
    /// The first row of the question; none if it is not on the screen.
    fn find_top(&self, screen: &Screen, rows: &[String]) -> Option<usize> {
        let titled = |row: usize| {
            let below = rows.get(row + 1);
            self.title.as_ref().is_none_or(|title| below.is_some_and(|below| title.is_match(below)))
        };
        match self.top {
            // The uppermost: if another row looks like it, more is taken for the question.
            Top::Rule => (0..rows.len()).find(|row| is_rule(screen, *row) && titled(*row)),
            Top::Title => (0..rows.len()).find(|row| {
                self.title.as_ref().is_some_and(|title| title.is_match(&rows[*row])) && screen.is_bold(*row)
            }),
            Top::Row => (0..rows.len())
                .find(|row| self.title.as_ref().is_some_and(|title| title.is_match(&rows[*row]))),
            Top::Box => box_top(screen, rows.len()).filter(|top| titled(*top)),
            Top::Bar => self.bar_top(rows),
        }
    }

    fn bar_top(&self, rows: &[String]) -> Option<usize> {
        let bar_at =
            |row: &String| row.find(|c: char| !c.is_whitespace()).filter(|at| row[*at..].starts_with('┃'));
        let last = rows.iter().rposition(|row| bar_at(row).is_some())?;
        let place = bar_at(&rows[last]);
        let height = rows[..=last].iter().rev().take_while(|row| bar_at(row) == place).count();
        let top = last + 1 - height;
        let title = self.title.as_ref()?;
        let is_titled = rows[top..=last].iter().take(TITLE_ROWS).any(|row| title.is_match(row));
        // In the first row of the screen it may go on above.
        (top > 0 && is_titled).then_some(top)
    }

    fn shows_all(&self, rows: &[String], height: usize) -> bool {
        let is_low = self.screen_max.is_none_or(|share| (rows.len() as f64) < share * height as f64);
        let is_short = is_low && self.rows_max.is_none_or(|max| rows.len() < max);
        is_short && !rows.iter().any(|row| self.hides.iter().any(|hides| hides.is_match(row)))
    }
}

/// Whether a row says that lines are left out; the words may be wrapped into the next row.
fn says_omission(rows: &[String]) -> bool {
    let inside = |row: &String| row.trim_matches(|c: char| c.is_whitespace() || "│┃║".contains(c)).to_owned();
    let rows: Vec<String> = rows.iter().map(inside).collect();
    OMISSION.is_match(&rows.join(" "))
}

fn is_rule(screen: &Screen, row: usize) -> bool {
    let columns = usize::from(screen.size().columns());
    let Some(first) = screen.glyph(row, 0).filter(|(mark, _)| RULES.contains(*mark)) else { return false };
    (1..columns).all(|column| screen.glyph(row, column) == Some(first))
}

/// The top of the lowest box that is as wide as the screen, if all between its top and its bottom is inside.
fn box_top(screen: &Screen, rows: usize) -> Option<usize> {
    let last = usize::from(screen.size().columns()).checked_sub(1)?;
    let edges = |row: usize| {
        let edge = |column| screen.glyph(row, column).map_or(' ', |(mark, _)| mark);
        (edge(0), edge(last))
    };
    let is_edge = |row: &usize, left: &str, right: &str| {
        let (first, end) = edges(*row);
        left.contains(first) && right.contains(end)
    };
    let bottom = (0..rows).rev().find(|row| is_edge(row, "╰└╚", "╯┘╝"))?;
    let inside = (0..bottom).rev().take_while(|row| is_edge(row, "│┃║", "│┃║")).count();
    let top = bottom.checked_sub(inside + 1)?;
    let is_top = is_edge(&top, "╭┌╔", "╮┐╗")
        && (1..last).all(|column| screen.glyph(top, column).is_some_and(|(mark, _)| RULES.contains(mark)));
    is_top.then_some(top)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Profile, shipped};
    use crate::screen::Size;

    fn frame_of(profile: &str) -> Frame {
        shipped(profile).and_then(|profile| profile.approve).and_then(|approve| approve.frame).unwrap()
    }

    fn drawn(columns: u16, rows: u16, text: &str) -> Screen {
        let mut screen = Screen::new(Size::new(columns, rows), 0);
        screen.feed(text.replace('\n', "\r\n").as_bytes(), &mut Vec::new());
        screen
    }

    fn read(frame: Option<&Frame>, screen: &Screen) -> (Extent, String) {
        let rows = screen.rows();
        let extent = extent(frame, screen, &rows);
        (extent.clone(), rows[extent.rows].join("\n"))
    }

    const ASK: &str = " Do you want to proceed?\n ❯ 1. Yes\n   2. No\n\n Esc to cancel";

    /// Finding H4: a line in the command hid what stood above it.
    #[test]
    fn lines_in_a_command_are_not_the_frame() {
        let frame = frame_of("claude");
        let rule = "─".repeat(40);
        for line in ["─".repeat(8), "─".repeat(38), "─".repeat(39), "═".repeat(39), "╭─────────╮".into()]
        {
            let text = format!("● talk\n{rule}\n Bash command\n rm -rf /\n {line}\n echo hi\n{ASK}");
            let (extent, text) = read(Some(&frame), &drawn(40, 30, &text));
            assert!(extent.is_framed && extent.is_complete, "{line}: {extent:?}");
            assert!(text.contains("rm -rf /") && !text.contains("talk"), "{line}: {text}");
        }
        // One that does look like the frame, in the middle: the upper one counts.
        let text = format!("{rule}\n Bash command\n rm -rf /\n{rule}\n echo hi\n{ASK}");
        assert!(read(Some(&frame), &drawn(40, 30, &text)).1.contains("rm -rf /"));
        // Of two colours.
        let text =
            format!("\x1b[31m{}\x1b[32m{}\x1b[0m\n Bash command\n{ASK}", "─".repeat(20), "─".repeat(20));
        assert!(!read(Some(&frame), &drawn(40, 30, &text)).0.is_framed);
    }

    /// Finding H4: of a long command only the lowest rows were shown, without a mark.
    #[test]
    fn question_whose_beginning_scrolled_off_is_not_complete() {
        let rule = "─".repeat(40);
        let long = (0..30).map(|n| format!(" line {n}\n")).collect::<String>();
        for (profile, text) in [
            ("claude", format!("{rule}\n Bash command\n{long}{ASK}")),
            (
                "codex",
                format!(
                    "\x1b[1m  Would you like to run the following command?\x1b[0m\n  $ a\n{long}› 1. Yes\n  2. No\n"
                ),
            ),
            ("gemini", {
                let side = (0..30).map(|n| format!("│ line {n:<32}│\n")).collect::<String>();
                format!(
                    "╭{}╮\n{side}│ ● 1. Allow once{}│\n╰{}╯",
                    "─".repeat(38),
                    " ".repeat(22),
                    "─".repeat(38)
                )
            }),
            ("opencode", {
                let rows = (0..30).map(|n| format!("  ┃ line {n}\n")).collect::<String>();
                format!("\n  ┃ △ Permission required\n{rows}  ┃ Allow once   Allow always   Reject")
            }),
        ] {
            let frame = frame_of(profile);
            let (short, _) = read(Some(&frame), &drawn(40, 20, &text));
            assert!(!short.is_complete && short.rows.start == 0, "{profile}: {short:?}");
            // On a screen that has room for it.
            let (tall, shown) = read(Some(&frame), &drawn(40, 60, &text));
            assert!(tall.is_framed, "{profile}: {tall:?}");
            assert_eq!(tall.is_complete, profile != "opencode", "{profile}: {tall:?}");
            assert!(shown.contains("line 0") && shown.contains("line 29"), "{profile}: {shown}");
        }
    }

    #[test]
    fn box_in_a_box_is_the_inner_one_and_an_open_one_is_none() {
        let frame = frame_of("gemini");
        let inner =
            format!("│ ╭{}╮ │\n│ │ x{}│ │\n│ ╰{}╯ │\n", "─".repeat(34), " ".repeat(32), "─".repeat(34));
        let (top, end) = (format!("╭{}╮\n", "─".repeat(38)), format!("╰{}╯", "─".repeat(38)));
        let (whole, text) = read(Some(&frame), &drawn(40, 20, &format!("talk\n{top}{inner}{end}")));
        assert!(whole.is_complete && text.starts_with('╭') && !text.contains("talk"), "{text}");
        for open in [format!("talk\n{inner}{end}"), format!("{top}talk\n{inner}{end}")] {
            let (open, text) = read(Some(&frame), &drawn(40, 7, &open));
            assert!(!open.is_framed && !open.is_complete && text.contains("talk"), "{text}");
        }
    }

    #[test]
    fn rows_that_say_something_is_hidden_make_it_incomplete() {
        let rule = "─".repeat(60);
        for (hidden, complete) in [("… +12 lines (ctrl+r to expand)", false), ("cat a.txt", true)] {
            let text = format!("{rule}\n Bash command\n {hidden}\n{ASK}");
            let (extent, _) = read(Some(&frame_of("claude")), &drawn(60, 30, &text));
            assert_eq!((extent.is_framed, extent.is_complete), (true, complete), "{hidden}");
        }
    }

    /// Finding H4: Codex cuts a tall header with a mark that was not known, and the question counted as complete.
    #[test]
    fn omission_marks_make_a_question_incomplete_with_every_profile() {
        let asks = |profile: &str, row: &str| match profile {
            "codex" => format!(
                "\x1b[1m  Would you like to run the following command?\x1b[0m\n  $ make\n{row}\n› 1. Yes\n  2. No\n"
            ),
            "gemini" => format!(
                "╭{}╮\n│ {row:<76} │\n│ ● 1. Allow once{}│\n╰{}╯",
                "─".repeat(78),
                " ".repeat(62),
                "─".repeat(78)
            ),
            "opencode" => {
                format!("\n  ┃ △ Permission required\n  ┃ {row}\n  ┃ Allow once   Allow always   Reject")
            }
            "claude" => format!("{}\n Bash command\n {row}\n{ASK}", "─".repeat(80)),
            _ => format!("{row}\n{ASK}"),
        };
        for profile in ["codex", "claude", "gemini", "opencode", "none"] {
            let frame = (profile != "none").then(|| frame_of(profile));
            let check = |row: &str, complete: bool| {
                let (extent, text) = read(frame.as_ref(), &drawn(80, 30, &asks(profile, row)));
                assert_eq!(extent.is_framed, frame.is_some(), "{profile}: {text}");
                assert_eq!(extent.is_complete, complete, "{profile}: {text}");
            };
            for row in [
                "[… 57 lines] ctrl + a view all",
                "[… 34 lines] ctrl+g view all",
                "[… 34 lines]",
                "[…34 lines]",
                "[… 1 line]",
                "… +12 lines",
                "... (12 more lines)",
                "... 7 lines hidden ...",
                "12 more lines",
            ] {
                check(row, false);
            }
            for row in ["wc counts 57 lines", "git log a...b", "cat a… 12", "sed -n 1,20p lines.txt"] {
                check(row, true);
            }
        }
        let frame = frame_of("codex");
        for row in ["ctrl + a view all", "Ctrl+G view all"] {
            assert!(!read(Some(&frame), &drawn(80, 30, &asks("codex", row))).0.is_complete, "{row}");
        }
        let wrapped = "  make all [… 57\n  lines]";
        assert!(!read(Some(&frame), &drawn(80, 30, &asks("codex", wrapped))).0.is_complete);
    }

    /// Cline 3.0.65 gives a question 38 % of the rows and cuts the rest without a mark: the first of these asked about
    /// `echo` and seventy letters more.
    #[test]
    fn question_of_cline_is_complete_only_if_it_is_smaller_than_its_room() {
        let frame = frame_of("cline");
        let footer =
            "\n\n\n mock (100) $0.00   ○ Plan ● Act (Tab)\n work\n Auto-approve all disabled (Shift+Tab)";
        let asks = |tool: &str, shown: &str| {
            format!(
                " * said\n\n Cline needs permission\n\n Approve tool call?\n\n {tool}\n\n   {shown}\n\n  [y] Approve   [n] Deny{footer}"
            )
        };
        for (tool, shown, rows, complete) in [
            ("run_commands", "$ echo", 24, false),
            ("run_commands", "$ echo", 40, true),
            ("run_commands", "$ echo", 36, false),
            ("run_commands", "$ echo a\n bbb\n ccc\n ddd", 60, false),
            ("editor", "a.txt", 60, false),
            ("spawn_agent", "do this and...", 60, false),
        ] {
            let (extent, text) = read(Some(&frame), &drawn(80, rows, &asks(tool, shown)));
            assert_eq!((extent.is_framed, extent.is_complete), (true, complete), "{tool} {shown} {rows}");
            assert!(!text.contains("said"), "{text}");
        }
    }

    /// Qwen Code cuts the rows of a long command on the right, without a mark.
    #[test]
    fn question_of_qwen_is_complete_only_if_its_command_fits_into_the_title() {
        let frame = frame_of("qwen");
        let ask =
            "\n   Allow execution of: 'touch'?\n\n   › 1. Yes, allow once\n     2. No (esc)\n\n  ⠏ Waiting";
        for (text, framed, complete) in [
            (format!("    said\n  ? Shell touch made ←\n\n     touch made\n{ask}"), true, true),
            (format!("  ? Shell touch a0 && touch ←\n    a1\n\n     touch a0 && tou\n{ask}"), true, false),
            (format!("  │ ?  Shell touch a0 && tou… ←  │\n  │   touch a0 && tou  │\n{ask}"), true, false),
            (format!("  │ ?  Shell touch a  ←  │\n  │    touch b  │\n  │   touch a  │\n{ask}"), true, false),
            (format!("  │ ?  Shell touch made ←  │\n  │   touch made  │\n{ask}"), true, true),
            // Its command has scrolled off, or it asks for something else.
            (format!("     touch a0\n{ask}"), false, false),
            (format!("  ? WriteFile Writing to x ←\n\n   1 hello\n{ask}"), false, false),
            (format!("    ? Shell touch made ←\n\n     rm -rf ~\n{ask}"), false, false),
        ] {
            let (extent, shown) = read(Some(&frame), &drawn(40, 30, &text));
            assert_eq!((extent.is_framed, extent.is_complete), (framed, complete), "{shown}");
        }
    }

    /// Without a frame all of the screen is the question.
    #[test]
    fn without_a_frame_a_full_screen_is_not_complete() {
        let rows = |n: usize| (0..n).map(|n| format!("row {n}\n")).collect::<String>();
        for (text, complete) in [(rows(6), true), (rows(7), true), (rows(8), false), (rows(40), false)] {
            let (extent, shown) = read(None, &drawn(40, 10, &text));
            assert_eq!((extent.rows.start, extent.is_complete), (0, complete), "{shown}");
        }
    }

    /// Finding H4: three blank rows below a question counted as proof that nothing had scrolled off above it.
    #[test]
    fn blank_rows_below_do_not_make_up_for_rows_that_scrolled_off() {
        let long = (0..60).map(|n| format!("   echo line {n}\n")).collect::<String>();
        let redrawn = format!("\x1b[9A\x1b[J\r{ASK}");
        let rule = "─".repeat(40);
        for after in ["\n\n\n\n\n", &redrawn, "\n\n\n\n\n\x1b[3J"] {
            for frame in [None, Some(frame_of("claude"))] {
                let text = format!("{rule}\n Bash command\n   rm -rf ~\n{long}\n{ASK}{after}");
                let screen = drawn(40, 30, &text);
                let (extent, shown) = read(frame.as_ref(), &screen);
                assert!(extent.rows.end + ROOM_BELOW <= 30 && !shown.contains("rm -rf"), "{shown}");
                assert!(!extent.is_complete, "{after:?}: {shown}");
            }
        }
        for before in ["", "\x1b[?1049h"] {
            let (extent, _) = read(Some(&frame_of("claude")), &drawn(40, 20, &format!("{before}{ASK}")));
            assert!(!extent.is_complete, "its frame is known and not there");
        }
        let cleared = format!("{long}\x1b[2J\x1b[H{ASK}");
        assert!(read(None, &drawn(40, 30, &cleared)).0.is_complete, "drawn whole after all was cleared");
    }

    #[test]
    fn a_frame_that_cannot_be_found_is_refused() {
        for (frame, said) in [
            ("{ top: title }", "approve.frame"),
            ("{ top: bar }", "approve.frame"),
            ("{ top: row }", "approve.frame"),
            ("{ top: rule, title: '(' }", "approve.frame"),
            ("{ top: round }", "round"),
            ("{ top: rule, colour: red }", "colour"),
        ] {
            let text =
                format!("name: x\ncommand: x\napprove: {{ allow: y, deny: escape, frame: {frame} }}\n");
            let found = Profile::parse(&text).unwrap_err().to_string();
            assert!(found.contains(said), "{frame}: {found}");
        }
    }
}
