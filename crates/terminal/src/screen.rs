//! The screen: what a person would see, kept from the bytes a program prints, with nobody looking.
//!
//! The grid is alacritty's. Queries are answered here and nowhere else, strictly in the order asked: a program
//! that asks for its status protocol and then for the terminal's attributes takes the order as an answer.
//!
//! Invariants: memory is bounded by size and scrollback; whatever comes in, nothing panics.
//! Not here: what the screen means (`rules`, `fold`); when the answers are written (the holder of the PTY).

pub(crate) mod drawn;
mod mailslot;

pub use self::drawn::DrawnCursor;
use self::mailslot::Mailslot;
use crate::canvas::{Canvas, LostRows};
use crate::cap::Cap;
use crate::joined::Joined;
use crate::keyboard::Keyboard;
use crate::palette::{colour, is_light};
use crate::skim;
use crate::status::Report;
use crate::tap::{Tap, Tapped};
use crate::utf8::Utf8;
use alacritty_terminal::event::{Event, EventListener, WindowSize};
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::term::{Config, Osc52, Term, TermMode};
use alacritty_terminal::vte::ansi::{Color, Processor, Timeout};
use std::ops::Range;
use std::time::Duration;

/// What came out of some bytes, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// To be written to the program.
    Answer(String),
    Title(String),
    Status(Report),
    Notice(String),
    Bell,
    /// The grid is between two frames: rules must not look at it.
    Frame {
        begins: bool,
    },
    Reset,
}

/// Columns and rows, within what a terminal can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    columns: u16,
    rows: u16,
}

impl Size {
    /// What a program gets when nobody looks: footers are cut below this.
    pub const DETACHED: Self = Self { columns: 120, rows: 40 };
    /// Beyond these a window is a mistake or an attack: a grid of it would be all memory. The holder of the PTY has
    /// the same bounds, so that the program draws what the grid can take.
    const SIDE_MAX: u16 = 1_000;
    const CELLS_MAX: usize = 250_000;
    /// Above the screen. Text of a wide window that becomes narrow takes many times the rows for a moment.
    const SCROLLBACK_CELLS_MAX: usize = 500_000;

    /// A window of one column exists for an instant in every resize; a grid needs two for wide characters.
    pub fn new(columns: u16, rows: u16) -> Self {
        let columns = columns.clamp(2, Self::SIDE_MAX);
        let rows_max = u16::try_from(Self::CELLS_MAX / usize::from(columns)).unwrap_or(Self::SIDE_MAX);
        Self { columns, rows: rows.clamp(1, rows_max.min(Self::SIDE_MAX)) }
    }

    /// How many of the wished lines may be kept above a screen of this width.
    fn scrollback(self, wished: usize) -> usize {
        wished.min(Self::SCROLLBACK_CELLS_MAX / usize::from(self.columns))
    }

    pub fn columns(self) -> u16 {
        self.columns
    }

    pub fn rows(self) -> u16 {
        self.rows
    }
}

impl Dimensions for Size {
    fn total_lines(&self) -> usize {
        self.screen_lines()
    }

    fn screen_lines(&self) -> usize {
        usize::from(self.rows)
    }

    fn columns(&self) -> usize {
        usize::from(self.columns)
    }
}

pub struct Screen {
    term: Term<Mailslot>,
    parser: Processor<Unbuffered>,
    slot: Mailslot,
    utf8: Utf8,
    tap: Tap,
    cap: Cap,
    joined: Joined,
    lost: LostRows,
    size: Size,
    /// Lines that are wished to be kept above the screen.
    scrollback: usize,
    title: String,
    region: Option<(u16, u16)>,
    keyboard: Keyboard,
    colours: Colours,
}

/// Of text and of the background: red, green and blue.
pub type Colours = ([u8; 3], [u8; 3]);
/// A dark terminal, while no person's is known.
pub const DARK: Colours = ([229, 229, 229], [0, 0, 0]);

/// Lines kept above the screen.
pub const SCROLLBACK: usize = 2_000;
/// A title longer than this is cut: it is kept, shown and matched.
const TITLE_CHARS_MAX: usize = 256;
/// What we say a cell measures, in pixels.
const CELL: (u16, u16) = (8, 16);

impl Screen {
    pub fn new(size: Size, scrollback: usize) -> Self {
        let slot = Mailslot::default();
        let term = Term::new(config(size.scrollback(scrollback)), &size, slot.clone());
        Self {
            term,
            parser: Processor::new(),
            slot,
            utf8: Utf8::default(),
            tap: Tap::default(),
            cap: Cap::default(),
            joined: Joined::default(),
            lost: LostRows::default(),
            size,
            scrollback,
            title: String::new(),
            region: None,
            keyboard: Keyboard::default(),
            colours: DARK,
        }
    }

    /// Takes what the program printed; tells what it means beyond the grid, in order.
    pub fn feed(&mut self, bytes: &[u8], seen: &mut Vec<Seen>) {
        let mut utf8 = std::mem::take(&mut self.utf8);
        utf8.feed(bytes, |text| self.feed_much(text, seen));
        self.utf8 = utf8;
    }

    /// Bytes at the end of what was fed that have no effect yet: the beginning of a sequence or of a character.
    pub fn unfinished(&self) -> usize {
        self.tap.unfinished() + self.utf8.unfinished()
    }

    /// Of a flood, only what will still be there is drawn.
    fn feed_much(&mut self, text: &str, seen: &mut Vec<Seen>) {
        let mut rest = text;
        while rest.len() >= skim::BYTES_MIN && self.may_skim() {
            let skimmed = skim::skim(rest, usize::from(self.size.rows), self.scrollback);
            self.feed_whole(&skimmed.carry, seen);
            // With what ended the plain text, up to the end of its line.
            let after = rest[skimmed.upto..].find('\n').map_or(rest.len(), |at| skimmed.upto + at + 1);
            self.feed_whole(&rest[skimmed.from..after], seen);
            rest = &rest[after..];
        }
        self.feed_whole(rest, seen);
    }

    /// Plain text scrolls here as everywhere: no other screen, no region, nothing half-way through a sequence.
    fn may_skim(&self) -> bool {
        let mode = self.term.mode();
        self.region.is_none()
            && self.tap.is_between()
            && mode.contains(TermMode::LINE_WRAP)
            && !mode.intersects(
                TermMode::ALT_SCREEN | TermMode::ORIGIN | TermMode::INSERT | TermMode::LINE_FEED_NEW_LINE,
            )
    }

    pub(crate) fn feed_whole(&mut self, text: &str, seen: &mut Vec<Seen>) {
        let mut rest = text.as_bytes();
        while let Some((tapped, used)) = self.tap.next(rest) {
            self.draw(&rest[..used], seen);
            self.tapped(tapped, seen);
            rest = &rest[used..];
        }
        self.draw(rest, seen);
    }

    fn draw(&mut self, bytes: &[u8], seen: &mut Vec<Seen>) {
        let (parser, term, joined) = (&mut self.parser, &mut self.term, &mut self.joined);
        let lost = &mut self.lost;
        self.cap.pass(bytes, |part, is_osc| match is_osc {
            true => parser.advance(&mut Canvas { term, lost }, part),
            false => joined.draw(term, part, |term, some| parser.advance(&mut Canvas { term, lost }, some)),
        });
        for event in self.slot.take() {
            match event {
                Event::PtyWrite(text) => seen.push(Seen::Answer(text)),
                Event::Title(title) => self.titled(&title, seen),
                Event::ResetTitle => self.titled("", seen),
                Event::ColorRequest(index, answer) => {
                    seen.push(Seen::Answer(answer(colour(index, self.colours))));
                }
                Event::TextAreaSizeRequest(answer) => seen.push(Seen::Answer(answer(WindowSize {
                    num_lines: self.size.rows,
                    num_cols: self.size.columns,
                    cell_width: CELL.0,
                    cell_height: CELL.1,
                }))),
                Event::Bell => seen.push(Seen::Bell),
                _ => {}
            }
        }
    }

    fn titled(&mut self, title: &str, seen: &mut Vec<Seen>) {
        let title: String = title.chars().filter(|c| !c.is_control()).take(TITLE_CHARS_MAX).collect();
        if title != self.title {
            self.title.clone_from(&title);
            seen.push(Seen::Title(title));
        }
    }

    fn tapped(&mut self, tapped: Tapped, seen: &mut Vec<Seen>) {
        let answer = |text: &str| Seen::Answer(text.to_owned());
        match tapped {
            Tapped::Status { payload, end } if payload == "?" => {
                seen.push(Seen::Answer(format!("\u{1b}]7501;?{end}")));
            }
            Tapped::Status { payload, .. } => seen.extend(Report::parse(&payload).map(Seen::Status)),
            Tapped::Version => {
                seen.push(answer(concat!("\u{1b}P>|synapse ", env!("CARGO_PKG_VERSION"), "\u{1b}\\")));
            }
            Tapped::Keyboard => seen.push(answer("\u{1b}[?0u")),
            Tapped::Theme => {
                seen.push(answer(if is_light(self.colours.1) { "\u{1b}[?997;2n" } else { "\u{1b}[?997;1n" }))
            }
            Tapped::ModifiedKeys => seen.push(answer("\u{1b}[>4;0m")),
            Tapped::CellSize => seen.push(Seen::Answer(format!("\u{1b}[6;{};{}t", CELL.1, CELL.0))),
            Tapped::Capability => seen.push(answer("\u{1b}P0+r\u{1b}\\")),
            Tapped::Frame { begins } => seen.push(Seen::Frame { begins }),
            Tapped::Notice(text) => seen.push(Seen::Notice(text)),
            Tapped::Region { top, bottom } => self.region = self.region_of(top, bottom),
            Tapped::Keys(change) => self.keyboard.change(change),
            Tapped::Screen { alternate } => self.keyboard.switch(alternate),
            Tapped::Reset => {
                self.region = None;
                self.keyboard = Keyboard::default();
                seen.push(Seen::Reset);
            }
        }
    }

    /// As the model takes it: what is out of bounds or upside down is no region.
    fn region_of(&self, top: u16, bottom: u16) -> Option<(u16, u16)> {
        let rows = self.size.rows;
        let (top, bottom) = (top.max(1), if bottom == 0 { rows } else { bottom.min(rows) });
        if top >= bottom {
            return self.region;
        }
        ((top, bottom) != (1, rows)).then_some((top, bottom))
    }

    /// The rows that scroll, first and last, from 1; none if all do.
    pub(crate) fn region(&self) -> Option<(u16, u16)> {
        self.region
    }

    pub(crate) fn keyboard(&self) -> &Keyboard {
        &self.keyboard
    }

    pub fn resize(&mut self, size: Size) {
        let kept = size.scrollback(self.scrollback);
        if kept != self.size.scrollback(self.scrollback) {
            self.term.set_options(config(kept));
        }
        // Rows of a narrower window are wrapped into more.
        let used = self.rows().iter().rposition(|row| !row.is_empty()).map_or(0, |last| last + 1);
        if size.columns < self.size.columns || usize::from(size.rows) < used.max(self.cursor().0 + 1) {
            self.lost.set(false, true);
            self.lost.set(true, true);
        }
        self.size = size;
        self.region = None;
        self.term.resize(size);
    }

    /// The colours that the program is told when it asks.
    pub fn colours(&self) -> Colours {
        self.colours
    }

    pub fn set_colours(&mut self, colours: Colours) {
        self.colours = colours;
    }

    pub fn size(&self) -> Size {
        self.size
    }

    pub fn title(&self) -> &str {
        &self.title
    }

    pub fn pastes_are_bracketed(&self) -> bool {
        self.term.mode().contains(TermMode::BRACKETED_PASTE)
    }

    /// Whether cursor keys are told as `SS3` sequences.
    pub fn cursor_keys_are_application(&self) -> bool {
        self.term.mode().contains(TermMode::APP_CURSOR)
    }

    pub fn cursor_is_visible(&self) -> bool {
        self.term.mode().contains(TermMode::SHOW_CURSOR)
    }

    pub fn on_alternate(&self) -> bool {
        self.term.mode().contains(TermMode::ALT_SCREEN)
    }

    /// Whether anything has left this screen since all of it was last blank.
    pub(crate) fn has_lost_rows(&self) -> bool {
        self.lost.on(self.on_alternate())
    }

    /// Row and column of the cursor, from 0.
    pub fn cursor(&self) -> (usize, usize) {
        let point = self.term.grid().cursor.point;
        (usize::try_from(point.line.0).unwrap_or(0), point.column.0)
    }

    /// One row as text, without what is blank at its end.
    pub fn row(&self, row: usize) -> String {
        match i32::try_from(row) {
            Ok(line) if row < self.term.grid().screen_lines() => self.line(line),
            _ => String::new(),
        }
    }

    /// The part of a row that is before a column, with its blanks.
    pub(crate) fn row_upto(&self, row: usize, column: usize) -> String {
        match i32::try_from(row) {
            Ok(line) if row < self.term.grid().screen_lines() => {
                let shown = |cell: &Cell| if cell.flags.contains(Flags::HIDDEN) { ' ' } else { cell.c };
                self.cells_in(line, 0..column, shown)
            }
            _ => String::new(),
        }
    }

    /// The rows just above the screen, at most so many.
    pub fn rows_above(&self, max: usize) -> Vec<String> {
        let count = self.term.grid().history_size().min(max);
        let first = i32::try_from(count).map_or(0, |count| -count);
        (first..0).map(|line| self.line(line)).collect()
    }

    /// The rows just above the screen, at most so many, as `revealed_rows`.
    pub(crate) fn revealed_rows_above(&self, max: usize) -> Vec<String> {
        let count = self.term.grid().history_size().min(max);
        let first = i32::try_from(count).map_or(0, |count| -count);
        (first..0).map(|line| self.revealed_line(line)).collect()
    }

    /// All rows with everything that is in them: concealed text too, and at their ends every blank but the plain one,
    /// which is the same as a cell that was never written.
    pub(crate) fn revealed_rows(&self) -> Vec<String> {
        (0..i32::from(self.size.rows)).map(|line| self.revealed_line(line)).collect()
    }

    fn revealed_line(&self, line: i32) -> String {
        let mut text = self.cells(line, |cell| cell.c);
        text.truncate(text.trim_end_matches(' ').len());
        text
    }

    fn line(&self, line: i32) -> String {
        let mut text = self.cells(line, |cell| if cell.flags.contains(Flags::HIDDEN) { ' ' } else { cell.c });
        text.truncate(text.trim_end().len());
        text
    }

    fn cells(&self, line: i32, shown: impl Fn(&Cell) -> char) -> String {
        self.cells_in(line, 0..usize::MAX, shown)
    }

    fn cells_in(&self, line: i32, columns: Range<usize>, shown: impl Fn(&Cell) -> char) -> String {
        let grid = self.term.grid();
        let mut text = String::new();
        for column in columns.start..columns.end.min(grid.columns()) {
            let cell = &grid[Line(line)][Column(column)];
            if cell.flags.intersects(Flags::WIDE_CHAR_SPACER | Flags::LEADING_WIDE_CHAR_SPACER) {
                continue;
            }
            text.push(shown(cell));
            for mark in cell.zerowidth().into_iter().flatten() {
                text.push(*mark);
            }
        }
        text
    }

    /// What a character stands on.
    pub(crate) fn paper(&self, row: usize, column: usize) -> Option<(Color, bool)> {
        let grid = self.term.grid();
        let line =
            i32::try_from(row).ok().filter(|_| row < grid.screen_lines() && column < grid.columns())?;
        let cell = &grid[Line(line)][Column(column)];
        let is_inverse = cell.flags.contains(Flags::INVERSE);
        Some((if is_inverse { cell.fg } else { cell.bg }, is_inverse))
    }

    /// One character and its colour.
    pub(crate) fn glyph(&self, row: usize, column: usize) -> Option<(char, Color)> {
        let grid = self.term.grid();
        let line =
            i32::try_from(row).ok().filter(|_| row < grid.screen_lines() && column < grid.columns())?;
        let cell = &grid[Line(line)][Column(column)];
        Some((if cell.flags.contains(Flags::HIDDEN) { ' ' } else { cell.c }, cell.fg))
    }

    /// Whether all text in a row is bold.
    pub(crate) fn is_bold(&self, row: usize) -> bool {
        let grid = self.term.grid();
        let Some(line) = i32::try_from(row).ok().filter(|_| row < grid.screen_lines()) else { return false };
        let is_bold = |column| {
            let cell = &grid[Line(line)][Column(column)];
            cell.c.is_whitespace() || cell.flags.contains(Flags::BOLD)
        };
        (0..grid.columns()).all(is_bold)
    }

    /// All rows.
    pub fn rows(&self) -> Vec<String> {
        (0..usize::from(self.size.rows)).map(|row| self.row(row)).collect()
    }

    /// The last line that is not blank, cut to what fits into a list.
    pub fn last_words(&self) -> Option<String> {
        const CHARS_MAX: usize = 200;
        let last = self.rows().into_iter().rev().find(|row| !row.trim().is_empty())?;
        Some(last.trim().chars().take(CHARS_MAX).collect())
    }

    pub(crate) fn term(&self) -> &Term<impl EventListener> {
        &self.term
    }
}

/// Frames are not held back: answers inside one would come late. Who looks at the grid waits for its end.
#[derive(Default)]
struct Unbuffered;

impl Timeout for Unbuffered {
    fn set_timeout(&mut self, _: Duration) {}

    fn clear_timeout(&mut self) {}

    fn pending_timeout(&self) -> bool {
        false
    }
}

fn config(scrollback: usize) -> Config {
    Config {
        scrolling_history: scrollback,
        // We answer `CSI ? u` with 0 ourselves: plain bytes for plain keys.
        kitty_keyboard: false,
        osc52: Osc52::Disabled,
        ..Config::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Says;

    fn fed(text: &str) -> (Screen, Vec<Seen>) {
        let (mut screen, mut seen) = (Screen::new(Size::new(20, 5), 10), Vec::new());
        screen.feed(text.as_bytes(), &mut seen);
        (screen, seen)
    }

    fn answers(text: &str) -> Vec<String> {
        let answer = |seen| if let Seen::Answer(text) = seen { Some(text) } else { None };
        fed(text).1.into_iter().filter_map(answer).collect()
    }

    #[test]
    fn rows_are_what_a_person_sees() {
        let (screen, _) = fed("one\r\n世界 e\u{301}\u{1b}[3;1Hthree\u{1b}[8m hidden\u{1b}[m");
        assert_eq!(screen.row(0), "one");
        assert_eq!(screen.row(1), "世界 e\u{301}");
        assert_eq!(screen.row(2), "three");
        assert_eq!(screen.row(99), "");
        assert_eq!(screen.cursor(), (2, 12));
    }

    #[test]
    fn queries_are_answered_in_the_order_asked() {
        // As Claude Code asks: the attributes must not come before the status.
        let asked = "\u{1b}[>0q\u{1b}[?u\u{1b}]7501;?\u{7}\u{1b}[c";
        let got = answers(asked);
        assert!(got[0].starts_with("\u{1b}P>|synapse "));
        assert_eq!(got[1..], ["\u{1b}[?0u", "\u{1b}]7501;?\u{7}", "\u{1b}[?6c"]);
        let got =
            answers("ab\u{1b}[6n\u{1b}]11;?\u{1b}\\\u{1b}[?2026$p\u{1b}[?2004$p\u{1b}[?9999$p\u{1b}[5n");
        assert_eq!(
            got,
            [
                "\u{1b}[1;3R",
                "\u{1b}]11;rgb:0000/0000/0000\u{1b}\\",
                "\u{1b}[?2026;2$y",
                "\u{1b}[?2004;2$y",
                "\u{1b}[?9999;0$y",
                "\u{1b}[0n"
            ]
        );
        assert_eq!(
            answers("\u{1b}[18t\u{1b}[14t\u{1b}[16t"),
            ["\u{1b}[8;5;20t", "\u{1b}[4;80;160t", "\u{1b}[6;16;8t"]
        );
    }

    #[test]
    fn colours_are_those_of_the_person_once_they_are_known() {
        let asked = "\u{1b}]10;?\u{7}\u{1b}]11;?\u{7}\u{1b}[?996n\u{1b}[c";
        let told = |colours: Option<Colours>| {
            let (mut screen, mut seen) = (Screen::new(Size::new(20, 5), 10), Vec::new());
            colours.into_iter().for_each(|colours| screen.set_colours(colours));
            screen.feed(asked.as_bytes(), &mut seen);
            let answer = |seen| if let Seen::Answer(text) = seen { Some(text) } else { None };
            seen.into_iter().filter_map(answer).collect::<Vec<_>>().concat()
        };
        let dark =
            "\u{1b}]10;rgb:e5e5/e5e5/e5e5\u{7}\u{1b}]11;rgb:0000/0000/0000\u{7}\u{1b}[?997;1n\u{1b}[?6c";
        assert_eq!(told(None), dark);
        let light =
            "\u{1b}]10;rgb:0101/0202/0303\u{7}\u{1b}]11;rgb:fdfd/f6f6/e3e3\u{7}\u{1b}[?997;2n\u{1b}[?6c";
        assert_eq!(told(Some(([1, 2, 3], [0xfd, 0xf6, 0xe3]))), light);
    }

    #[test]
    fn a_query_inside_a_frame_is_answered_at_once() {
        assert_eq!(answers("\u{1b}[?2026h text \u{1b}[c"), ["\u{1b}[?6c"]);
    }

    #[test]
    fn status_and_title_come_in_order_and_a_title_only_when_it_changes() {
        let (screen, seen) =
            fed("\u{1b}]0;one\u{7}\u{1b}]7501;state=working\u{7}\u{1b}]2;one\u{7}\u{1b}]2;two\u{7}");
        let kinds: Vec<String> = seen
            .iter()
            .map(|seen| match seen {
                Seen::Title(title) => title.clone(),
                Seen::Status(report) => format!("{:?}", report.says),
                other => format!("{other:?}"),
            })
            .collect();
        assert_eq!(kinds, ["one", &format!("{:?}", Says::Working), "two"]);
        assert_eq!(screen.title(), "two");
    }

    #[test]
    fn windows_of_any_size() {
        assert_eq!(Size::new(1_000, 40), Size { columns: 1_000, rows: 40 });
        assert_eq!(Size::new(10_000, 10_000), Size { columns: 1_000, rows: 250 });
        assert_eq!(Size::new(1, 10_000), Size { columns: 2, rows: 1_000 });
        assert_eq!(Size::new(1, 1), Size { columns: 2, rows: 1 });
        for (columns, rows) in [(0, 0), (1, 1), (2, 1), (10_000, 10_000), (u16::MAX, 1)] {
            let mut screen = Screen::new(Size::new(columns, rows), 10);
            screen.feed("世界\r\n\u{1b}[999;999Hx\u{1b}[2J".as_bytes(), &mut Vec::new());
            screen.resize(Size::new(rows, columns));
            screen.feed("世".as_bytes(), &mut Vec::new());
        }
    }

    /// Finding M9: a viewer that alternates between a very narrow and a very wide window.
    #[test]
    fn alternating_sizes_keep_rows_and_scrollback_within_bounds() {
        let mut screen = Screen::new(Size::new(10_000, 10_000), SCROLLBACK);
        let text = format!("{}\r\n", "x".repeat(990)).repeat(3_000);
        screen.feed(text.as_bytes(), &mut Vec::new());
        for (columns, rows) in [(1, 10_000), (10_000, 100), (1, 10_000), (10_000, 10_000)] {
            screen.resize(Size::new(columns, rows));
            let grid = screen.term().grid();
            let cells = grid.total_lines() * grid.columns();
            assert!(cells <= Size::CELLS_MAX + Size::SCROLLBACK_CELLS_MAX, "{columns}x{rows}: {cells} cells");
        }
    }

    #[test]
    fn any_bytes_in_any_chunks_draw_the_same() {
        bolero::check!().with_type::<(Vec<u8>, u8)>().for_each(|(bytes, chunk)| {
            let draw = |chunk: usize| {
                let (mut screen, mut seen) = (Screen::new(Size::new(12, 4), 5), Vec::new());
                bytes.chunks(chunk.max(1)).for_each(|part| screen.feed(part, &mut seen));
                (screen.rows(), screen.cursor(), seen)
            };
            assert_eq!(draw(usize::from(*chunk)), draw(usize::MAX));
        });
    }
}
