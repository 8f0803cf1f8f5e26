//! Pictures of a screen: as escape sequences that draw it again, and as an SVG.
//!
//! The sequences bring a fresh terminal of the same size to the same picture, cursor and modes: for a viewer that
//! comes later, and for a node that takes over. What our model does not tell (tab stops, the screen behind the alternate
//! one) is not in them; programs set those again as they draw.

use crate::palette::palette;
use crate::screen::Screen;
use alacritty_terminal::grid::{Cursor, Dimensions as _};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::TermMode;
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::{CharsetIndex, Color, NamedColor, StandardCharset};
use std::fmt::Write as _;

/// Modes that are off in a fresh terminal, and what turns them on.
// tidy: table
const MODES: &[(TermMode, &str)] = &[
    (TermMode::APP_CURSOR, "\u{1b}[?1h"),
    (TermMode::APP_KEYPAD, "\u{1b}="),
    (TermMode::MOUSE_REPORT_CLICK, "\u{1b}[?1000h"),
    (TermMode::MOUSE_DRAG, "\u{1b}[?1002h"),
    (TermMode::MOUSE_MOTION, "\u{1b}[?1003h"),
    (TermMode::FOCUS_IN_OUT, "\u{1b}[?1004h"),
    (TermMode::UTF8_MOUSE, "\u{1b}[?1005h"),
    (TermMode::SGR_MOUSE, "\u{1b}[?1006h"),
    (TermMode::BRACKETED_PASTE, "\u{1b}[?2004h"),
    (TermMode::LINE_FEED_NEW_LINE, "\u{1b}[20h"),
];

/// Undoes what a program may have left on in a person's terminal. Setting the rows that scroll moves the cursor, so it is
/// saved before.
pub(crate) const LEAVE: &str = "\u{1b}[0m\u{1b}7\u{1b}[r\u{1b}8\u{1b}[?1l\u{1b}>\u{1b}[?1000l\u{1b}[?1002l\u{1b}[?1003l\u{1b}[?1004l\
                         \u{1b}[?1005l\u{1b}[?1006l\u{1b}[?2004l\u{1b}[?2026l\u{1b}[4l\u{1b}[20l\
                         \u{1b}[?7h\u{1b}[?25h";

/// Back from the alternate screen.
pub(crate) const LEAVE_ALTERNATE: &str = "\u{1b}[?1049l";

/// Makes a blank screen of ours remember that rows have left it. Inside a region nothing goes to the scrollback.
const LOSE_ROW: &str = "\u{1b}[2;3r\u{1b}[3;1H\n\u{1b}[r\u{1b}[H";

impl Screen {
    /// What draws this screen on a fresh terminal; with what has scrolled away above it, if asked.
    pub fn as_ansi(&self, scrollback: bool) -> String {
        self.drawn(if scrollback { usize::MAX } else { 0 }, true, "")
    }

    /// The same for a screen of ours, in at most so many bytes, with as many lines of those wished from above it as
    /// fit, in the end without colours; nothing is above an alternate screen.
    pub(crate) fn as_ansi_within(&self, bytes_max: usize, lines_above: usize) -> Option<String> {
        let there = if self.on_alternate() { 0 } else { self.term().grid().history_size() };
        let mut above = there.min(lines_above);
        loop {
            // Rows above that are drawn leave the screen anyway.
            let lost = if above == 0 && self.has_lost_rows() { LOSE_ROW } else { "" };
            let drawn = self.drawn(above, true, lost);
            if drawn.len() <= bytes_max {
                return Some(drawn);
            }
            if above == 0 {
                return Some(self.drawn(0, false, lost)).filter(|drawn| drawn.len() <= bytes_max);
            }
            above /= 2;
        }
    }

    /// `lost` is drawn while the screen is blank.
    fn drawn(&self, lines_above: usize, coloured: bool, lost: &str) -> String {
        let (term, mut out) = (self.term(), String::new());
        let grid = term.grid();
        let first = -i32::try_from(grid.history_size().min(lines_above)).unwrap_or(0);
        let rows = i32::try_from(grid.screen_lines()).unwrap_or(0);
        if self.on_alternate() {
            out.push_str("\u{1b}[?1049h");
        }
        // Not `2J`: some terminals push what they clear that way into their scrollback.
        out.push_str("\u{1b}[0m\u{1b}[H\u{1b}[J");
        out.push_str(lost);
        if !self.title().is_empty() {
            let _ = write!(out, "\u{1b}]2;{}\u{7}", self.title());
        }
        let mut pen = Pen { is_plain: !coloured, ..Pen::default() };
        // Rows above the screen are drawn first and scroll away by line ends.
        for line in first..rows {
            if line > first {
                pen.put(&mut out, &Cell::default());
                out.push_str("\r\n");
            }
            draw_row(&mut out, &mut pen, &grid[Line(line)][..], grid.columns());
        }
        self.draw_modes(&mut out);
        self.draw_cursors(&mut out, &mut pen);
        out
    }

    fn draw_modes(&self, out: &mut String) {
        let mode = self.term().mode();
        for (flag, on) in MODES {
            if mode.contains(*flag) {
                out.push_str(on);
            }
        }
        out.push_str(&self.keyboard().ask());
        if let Some((top, bottom)) = self.region() {
            let _ = write!(out, "\u{1b}[{top};{bottom}r");
        }
        if !mode.contains(TermMode::LINE_WRAP) {
            out.push_str("\u{1b}[?7l");
        }
    }

    /// The cursor that was saved, and the one that is; with the pen and the character set of each.
    fn draw_cursors(&self, out: &mut String, pen: &mut Pen) {
        let grid = self.term().grid();
        if grid.saved_cursor != Cursor::default() {
            self.draw_cursor(out, pen, &grid.saved_cursor);
            out.push_str("\u{1b}7");
        }
        if self.term().mode().contains(TermMode::ORIGIN) {
            out.push_str("\u{1b}[?6h");
        }
        self.draw_cursor(out, pen, &grid.cursor);
        // After the cursor, whose last character it would push aside.
        if self.term().mode().contains(TermMode::INSERT) {
            out.push_str("\u{1b}[4h");
        }
        if !self.term().mode().contains(TermMode::SHOW_CURSOR) {
            out.push_str("\u{1b}[?25l");
        }
    }

    fn draw_cursor(&self, out: &mut String, pen: &mut Pen, cursor: &Cursor<Cell>) {
        let grid = self.term().grid();
        let is_real = std::ptr::eq(cursor, &grid.cursor);
        let by_region = is_real && self.term().mode().contains(TermMode::ORIGIN);
        let top = self.region().filter(|_| by_region).map_or(0, |(top, _)| usize::from(top) - 1);
        let line = cursor.point.line.min(Line(i32::try_from(grid.screen_lines()).unwrap_or(1) - 1));
        let row = usize::try_from(line.0).unwrap_or(0).saturating_sub(top);
        let mut column = cursor.point.column.min(Column(grid.columns() - 1));
        let cells = &grid[line];
        // A line that was just filled: only its last character, written again, makes the next one go to the next line.
        if cursor.input_needs_wrap {
            if cells[column].flags.contains(Flags::WIDE_CHAR_SPACER) && column.0 > 0 {
                column -= 1;
            }
            let _ = write!(out, "\u{1b}[{};{}H", row + 1, column.0 + 1);
            pen.put(out, &cells[column]);
            out.push(cells[column].c);
            out.extend(cells[column].zerowidth().into_iter().flatten());
        } else {
            let _ = write!(out, "\u{1b}[{};{}H", row + 1, column.0 + 1);
        }
        pen.put(out, &cursor.template);
        let lines = cursor.charsets[CharsetIndex::G0] == StandardCharset::SpecialCharacterAndLineDrawing;
        out.push_str(if lines { "\u{1b}(0" } else { "\u{1b}(B" });
    }

    /// A picture of the visible screen.
    pub fn as_svg(&self) -> String {
        const CELL: (usize, usize) = (8, 17);
        let grid = self.term().grid();
        let (width, height) = (grid.columns() * CELL.0 + 16, grid.screen_lines() * CELL.1 + 16);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"ui-monospace,monospace\" font-size=\"13\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#000\"/>\n"
        );
        for row in 0..grid.screen_lines() {
            let cells = &grid[Line(i32::try_from(row).unwrap_or(0))];
            let y = 8 + row * CELL.1;
            for column in 0..grid.columns() {
                let cell = &cells[Column(column)];
                let x = 8 + column * CELL.0;
                let (ink, paper) = inks(cell);
                let wide = if cell.flags.contains(Flags::WIDE_CHAR) { 2 * CELL.0 } else { CELL.0 };
                if paper != (0, 0, 0) {
                    let _ = writeln!(
                        svg,
                        "<rect x=\"{x}\" y=\"{y}\" width=\"{wide}\" height=\"{}\" fill=\"{}\"/>",
                        CELL.1,
                        hex(paper)
                    );
                }
                if cell.c != ' ' && !cell.flags.intersects(Flags::WIDE_CHAR_SPACER | Flags::HIDDEN) {
                    let bold = if cell.flags.contains(Flags::BOLD) { " font-weight=\"bold\"" } else { "" };
                    let mark = match cell.c {
                        '<' => "&lt;".to_owned(),
                        '&' => "&amp;".to_owned(),
                        c => c.to_string(),
                    };
                    let _ = writeln!(
                        svg,
                        "<text x=\"{x}\" y=\"{}\" fill=\"{}\"{bold}>{mark}</text>",
                        y + 13,
                        hex(ink)
                    );
                }
            }
        }
        svg + "</svg>\n"
    }
}

fn draw_row(out: &mut String, pen: &mut Pen, cells: &[Cell], columns: usize) {
    let blank = Cell::default();
    let same =
        |cell: &Cell| cell.c == ' ' && cell.bg == blank.bg && (cell.flags - Flags::WRAPLINE).is_empty();
    let used = cells.iter().take(columns).rposition(|cell| !same(cell)).map_or(0, |last| last + 1);
    for cell in &cells[..used] {
        if cell.flags.intersects(Flags::WIDE_CHAR_SPACER | Flags::LEADING_WIDE_CHAR_SPACER) {
            continue;
        }
        pen.put(out, cell);
        out.push(if cell.c == '\t' { ' ' } else { cell.c });
        out.extend(cell.zerowidth().into_iter().flatten());
    }
}

/// What the next character would look like.
#[derive(Default)]
struct Pen {
    cell: Cell,
    /// Everything looks the same.
    is_plain: bool,
}

impl Pen {
    fn put(&mut self, out: &mut String, cell: &Cell) {
        const LOOKS: Flags = Flags::INVERSE
            .union(Flags::BOLD_ITALIC)
            .union(Flags::ALL_UNDERLINES)
            .union(Flags::DIM)
            .union(Flags::HIDDEN)
            .union(Flags::STRIKEOUT);
        let same = self.cell.fg == cell.fg
            && self.cell.bg == cell.bg
            && self.cell.flags & LOOKS == cell.flags & LOOKS
            && self.cell.underline_color() == cell.underline_color();
        if same || self.is_plain {
            return;
        }
        out.push_str("\u{1b}[0");
        for (flag, code) in [
            (Flags::BOLD, "1"),
            (Flags::DIM, "2"),
            (Flags::ITALIC, "3"),
            (Flags::UNDERLINE, "4"),
            (Flags::DOUBLE_UNDERLINE, "4:2"),
            (Flags::UNDERCURL, "4:3"),
            (Flags::DOTTED_UNDERLINE, "4:4"),
            (Flags::DASHED_UNDERLINE, "4:5"),
            (Flags::INVERSE, "7"),
            (Flags::HIDDEN, "8"),
            (Flags::STRIKEOUT, "9"),
        ] {
            if cell.flags.contains(flag) {
                let _ = write!(out, ";{code}");
            }
        }
        colour(out, cell.fg, 30);
        colour(out, cell.bg, 40);
        match cell.underline_color() {
            Some(Color::Spec(rgb)) => drop(write!(out, ";58;2;{};{};{}", rgb.r, rgb.g, rgb.b)),
            Some(Color::Indexed(index)) => drop(write!(out, ";58;5;{index}")),
            _ => {}
        }
        out.push('m');
        self.cell = Cell { c: ' ', ..cell.clone() };
    }
}

/// A colour as parameters; `base` is 30 for ink and 40 for paper.
fn colour(out: &mut String, colour: Color, base: usize) {
    let _ = match colour {
        Color::Named(NamedColor::Foreground | NamedColor::Background) => Ok(()),
        Color::Named(named) if (named as usize) < 8 => write!(out, ";{}", base + named as usize),
        Color::Named(named) if (named as usize) < 16 => write!(out, ";{}", base + 60 + named as usize - 8),
        Color::Named(_) => Ok(()),
        Color::Indexed(index) => write!(out, ";{};5;{index}", base + 8),
        Color::Spec(rgb) => write!(out, ";{};2;{};{};{}", base + 8, rgb.r, rgb.g, rgb.b),
    };
}

fn inks(cell: &Cell) -> ((u8, u8, u8), (u8, u8, u8)) {
    let real = |colour: Color| match colour {
        Color::Spec(rgb) => (rgb.r, rgb.g, rgb.b),
        Color::Indexed(index) => palette(usize::from(index)),
        Color::Named(named) => palette(named as usize),
    };
    let (ink, paper) = (real(cell.fg), real(cell.bg));
    let dim = |(r, g, b): (u8, u8, u8)| (r / 3 * 2, g / 3 * 2, b / 3 * 2);
    let ink = if cell.flags.contains(Flags::DIM) { dim(ink) } else { ink };
    if cell.flags.contains(Flags::INVERSE) { (paper, ink) } else { (ink, paper) }
}

fn hex((r, g, b): (u8, u8, u8)) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_above_is_cut_until_the_picture_fits() {
        let mut screen = Screen::new(Size::new(20, 3), 100);
        (0..50).for_each(|n| screen.feed(format!("line {n}\r\n").as_bytes(), &mut Vec::new()));
        let whole = screen.as_ansi_within(usize::MAX, usize::MAX).unwrap();
        assert_eq!(whole, screen.as_ansi(true));
        let cut = screen.as_ansi_within(whole.len() - 1, usize::MAX).unwrap();
        assert!(!cut.contains("line 1\r") && cut.contains("line 40\r"), "{cut:?}");
        assert_eq!(screen.as_ansi_within(0, usize::MAX), None);
        let few = screen.as_ansi_within(usize::MAX, 2).unwrap();
        assert!(few.contains("line 46\r") && !few.contains("line 45\r"), "{few:?}");
    }
    use crate::replay::{Recording, What};
    use crate::screen::Size;

    /// What is compared of a cell: all that can be seen.
    fn looks(screen: &Screen) -> Vec<String> {
        let grid = screen.term().grid();
        let first = -i32::try_from(grid.history_size()).unwrap();
        let rows = i32::try_from(grid.screen_lines()).unwrap();
        (first..rows)
            .map(|line| {
                let mut row = String::new();
                for column in 0..grid.columns() {
                    let cell = &grid[Line(line)][Column(column)];
                    let flags = cell.flags - Flags::WRAPLINE - Flags::LEADING_WIDE_CHAR_SPACER;
                    let ink = if cell.c == ' ' { Color::Named(NamedColor::Foreground) } else { cell.fg };
                    let _ = write!(row, "{}{ink:?}{:?}{flags:?}|", cell.c, cell.bg);
                }
                row
            })
            .collect()
    }

    fn check(screen: &Screen) {
        let mut again = Screen::new(screen.size(), 100);
        let drawn = screen.as_ansi(!screen.on_alternate());
        again.feed(drawn.as_bytes(), &mut Vec::new());
        assert_eq!(again.rows(), screen.rows(), "{drawn:?}");
        assert_eq!(looks(&again), looks(screen), "{drawn:?}");
        assert_eq!(again.cursor(), screen.cursor(), "{drawn:?}");
        assert_eq!(again.term().mode(), screen.term().mode(), "{drawn:?}");
        assert_eq!(again.title(), screen.title());
        assert_eq!(again.keyboard().ask(), screen.keyboard().ask());
    }

    /// What comes after it is drawn the same on the screen itself and on its drawing.
    #[test]
    fn a_drawing_goes_on_as_the_screen_does() {
        for text in [
            "\u{1b}[32msaved\u{1b}7\u{1b}[0;1mnot\u{1b}[4;4H",
            "\u{1b}[31m01234567890123456789",
            "0123456789 abcdef世界",
            "\u{1b}[2;5r\u{1b}[?6h\u{1b}[3;1H01234567890123456789",
            "\u{1b}(0qqqq",
            "\u{1b}[?1049h\u{1b}[6;1H01234567890123456789",
        ] {
            let mut screen = Screen::new(Size::new(20, 6), 100);
            screen.feed(text.as_bytes(), &mut Vec::new());
            let mut again = Screen::new(screen.size(), 100);
            again.feed(screen.as_ansi(!screen.on_alternate()).as_bytes(), &mut Vec::new());
            for more in ["x世q", "\r\nline", "\u{1b}8y", "\u{1b}[Htop"] {
                [&mut screen, &mut again].into_iter().for_each(|s| s.feed(more.as_bytes(), &mut Vec::new()));
                assert_eq!(looks(&again), looks(&screen), "{text:?}, then {more:?}");
                assert_eq!(again.cursor(), screen.cursor(), "{text:?}, then {more:?}");
            }
        }
    }

    /// A picture that is made in the middle of a sequence or a character, and what the program printed from there on.
    #[test]
    fn picture_made_inside_a_sequence_continues_with_its_beginning() {
        // Four printed lines of a program that scrolls a region and restores its cursor, as the flood of a test does.
        let line = |n: u8| {
            format!("\u{1b}7\u{1b}[4;1H\r\n\u{1b}[38;5;{n}m{n} 世▓▓\u{1b}[0m\u{1b}8\u{1b}]2;title {n}\u{7}")
        };
        let text = format!(
            "\u{1b}[2;4r\u{1b}[6;3H{}\u{1b}]2;t\u{1b}\\\u{1b}(0q\u{1b}(B.",
            (1..5).map(line).collect::<String>()
        );
        let mut whole = Screen::new(Size::new(20, 6), 100);
        whole.feed(text.as_bytes(), &mut Vec::new());
        for cut in 0..text.len() {
            let mut screen = Screen::new(Size::new(20, 6), 100);
            screen.feed(&text.as_bytes()[..cut], &mut Vec::new());
            let mut again = Screen::new(screen.size(), 100);
            again.feed(screen.as_ansi(true).as_bytes(), &mut Vec::new());
            again.feed(&text.as_bytes()[cut - screen.unfinished()..], &mut Vec::new());
            assert_eq!(looks(&again), looks(&whole), "cut after {:?}", text.get(..cut));
            assert_eq!((again.cursor(), again.title()), (whole.cursor(), whole.title()), "cut after {cut}");
        }
    }

    #[test]
    fn a_drawing_fits_where_it_has_to() {
        let mut screen = Screen::new(Size::new(100, 10), 2_000);
        for n in 0..20_000_u32 {
            let (r, g, b) = (n % 256, n / 7 % 256, n / 3 % 256);
            screen.feed(format!("\u{1b}[38;2;{r};{g};{b}mwort ").as_bytes(), &mut Vec::new());
        }
        let sizes = [usize::MAX, 100_000, 8_000]
            .map(|max| (max, screen.as_ansi_within(max, usize::MAX).unwrap().len()));
        sizes.iter().for_each(|(max, length)| assert!(length <= max, "{sizes:?}"));
        assert!(sizes[0].1 > 300_000 && sizes[1].1 > 20_000 && sizes[2].1 > 900, "{sizes:?}");
        assert!(screen.as_ansi_within(100, usize::MAX).is_none());
    }

    #[test]
    fn a_drawing_of_a_screen_is_that_screen() {
        for text in [
            "",
            "one\r\ntwo",
            "\u{1b}[1;31mred\u{1b}[0m \u{1b}[48;2;1;2;3mbg  \u{1b}[K\u{1b}[m\r\n世界\u{1b}[4:3;58;5;9mcurl",
            "\u{1b}[?1049h\u{1b}[?1006h\u{1b}[?1003h\u{1b}[?2004h\u{1b}[?25l\u{1b}[5;7Hx\u{1b}]2;a title\u{7}",
            "\u{1b}[2;4r\u{1b}[?6h\u{1b}[2;3H",
            "\u{1b}[?7l\u{1b}[7mall of it \u{1b}[2J\u{1b}[4h",
            "\u{1b}[32msaved\u{1b}7\u{1b}[0;1mnot\u{1b}[4;4H",
            "a line of just twenty",
            "\u{1b}[31m01234567890123456789",
            "0123456789 abcdef世界",
            "\u{1b}[?6h\u{1b}[2;5r\u{1b}[4;1H01234567890123456789",
            "\u{1b}(0qqqq",
            "\u{1b}[>5u\u{1b}[?1049h\u{1b}[>1u\u{1b}[4h01234567890123456789",
        ] {
            let mut screen = Screen::new(Size::new(20, 6), 100);
            screen.feed(text.as_bytes(), &mut Vec::new());
            check(&screen);
        }
        let mut screen = Screen::new(Size::new(20, 6), 100);
        (0..30).for_each(|n| screen.feed(format!("line {n}\r\n").as_bytes(), &mut Vec::new()));
        check(&screen);
    }

    /// Drawn again in the middle of things, a real session looks the same then and ever after.
    #[test]
    fn real_sessions_go_on_the_same_after_being_drawn_again() {
        for name in
            ["codex__permission", "claude__turn", "opencode__permission", "gemini__start", "copilot__turn"]
        {
            let path = format!("{}/recordings/{name}.cast", env!("CARGO_MANIFEST_DIR"));
            let recording = Recording::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
            let mut screen = Screen::new(recording.size, 100);
            let mut taken_over: Option<Screen> = None;
            for (n, event) in recording.events.iter().enumerate() {
                let What::Output(text) = &event.what else { continue };
                screen.feed(text.as_bytes(), &mut Vec::new());
                if let Some(other) = &mut taken_over {
                    other.feed(text.as_bytes(), &mut Vec::new());
                }
                if n % 40 == 39 {
                    if let Some(other) = &taken_over {
                        assert_eq!(other.rows(), screen.rows(), "{name}, event {n}");
                    }
                    let mut other = Screen::new(recording.size, 100);
                    other.feed(screen.as_ansi(!screen.on_alternate()).as_bytes(), &mut Vec::new());
                    assert_eq!(other.rows(), screen.rows(), "{name}, event {n}, drawn");
                    taken_over = Some(other);
                }
            }
        }
    }

    #[test]
    fn a_picture_shows_text_as_text() {
        let mut screen = Screen::new(Size::new(10, 2), 0);
        screen.feed(b"<&\x1b[31mr", &mut Vec::new());
        let svg = screen.as_svg();
        assert!(svg.contains("&lt;") && svg.contains("&amp;") && svg.contains("#cd0000"), "{svg}");
    }
}
