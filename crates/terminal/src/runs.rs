//! Rows of the visible screen as runs of text: neighbouring cells with the same style.
//!
//! For callers that draw the screen in a theme of their own: the terminal's default colours and the
//! first sixteen of its palette are names here, not numbers.
//! Not here: drawing (`picture` draws a plain SVG).

use crate::palette::palette;
use crate::screen::Screen;
use alacritty_terminal::grid::Dimensions as _;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::{Color, NamedColor};

/// Neighbouring cells of a row with the same style.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TextRun {
    /// The first column, from 0.
    pub column: usize,
    /// How many columns it takes. A wide character takes two.
    pub width: usize,
    pub text: String,
    pub style: CellStyle,
}

/// How a cell is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CellStyle {
    pub ink: CellColour,
    pub paper: CellColour,
    pub is_bold: bool,
    pub is_dim: bool,
    pub is_italic: bool,
    pub is_underlined: bool,
    pub is_struck: bool,
}

/// A colour of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CellColour {
    /// The terminal's colour of text.
    Text,
    /// The terminal's background.
    Background,
    /// One of the first sixteen colours of the palette.
    Palette(u8),
    Rgb([u8; 3]),
}

impl CellStyle {
    /// Text to which no style was applied.
    pub const PLAIN: Self = Self {
        ink: CellColour::Text,
        paper: CellColour::Background,
        is_bold: false,
        is_dim: false,
        is_italic: false,
        is_underlined: false,
        is_struck: false,
    };

    fn of(cell: &Cell) -> Self {
        let has = |flags: Flags| cell.flags.intersects(flags);
        let (ink, paper) = (tint(cell.fg), tint(cell.bg));
        let (ink, paper) = if has(Flags::INVERSE) { (paper, ink) } else { (ink, paper) };
        Self {
            ink,
            paper,
            is_bold: has(Flags::BOLD),
            is_dim: has(Flags::DIM),
            is_italic: has(Flags::ITALIC),
            is_underlined: has(Flags::ALL_UNDERLINES),
            is_struck: has(Flags::STRIKEOUT),
        }
    }

    /// What can be seen of the style in a blank cell.
    fn without_text(self) -> Self {
        let (is_underlined, is_struck) = (self.is_underlined, self.is_struck);
        Self { paper: self.paper, is_underlined, is_struck, ..Self::PLAIN }
    }
}

fn tint(colour: Color) -> CellColour {
    match colour {
        Color::Named(NamedColor::Background) => CellColour::Background,
        Color::Named(named) => by_index(named as usize),
        Color::Indexed(index) => by_index(usize::from(index)),
        Color::Spec(rgb) => CellColour::Rgb([rgb.r, rgb.g, rgb.b]),
    }
}

fn by_index(index: usize) -> CellColour {
    match u8::try_from(index) {
        Ok(index @ 0..16) => CellColour::Palette(index),
        Ok(_) => {
            let (r, g, b) = palette(index);
            CellColour::Rgb([r, g, b])
        }
        Err(_) => CellColour::Text,
    }
}

impl Screen {
    /// The runs of one row, without blanks that cannot be seen.
    pub fn runs(&self, row: usize) -> Vec<TextRun> {
        let grid = self.term().grid();
        let Some(line) = i32::try_from(row).ok().filter(|_| row < grid.screen_lines()) else {
            return Vec::new();
        };
        let mut runs: Vec<TextRun> = Vec::new();
        for column in 0..grid.columns() {
            let cell = &grid[Line(line)][Column(column)];
            if cell.flags.contains(Flags::WIDE_CHAR_SPACER) {
                continue;
            }
            let width = if cell.flags.contains(Flags::WIDE_CHAR) { 2 } else { 1 };
            let is_blank = cell.c.is_whitespace() || cell.flags.contains(Flags::HIDDEN);
            let style = CellStyle::of(cell);
            let style = if is_blank { style.without_text() } else { style };
            let text = std::iter::once(if is_blank { ' ' } else { cell.c });
            let text = text.chain(cell.zerowidth().into_iter().flatten().copied().filter(|_| !is_blank));
            match runs.last_mut().and_then(|last| Some((last.joined(style, is_blank)?, last))) {
                Some((joined, last)) => {
                    last.text.extend(text);
                    last.width += width;
                    last.style = joined;
                }
                None => runs.push(TextRun { column, width, text: text.collect(), style }),
            }
        }
        runs.into_iter().filter_map(TextRun::trimmed).collect()
    }
}

impl TextRun {
    /// The style of this run with one more cell, or none if that cell begins a new run. Blanks join
    /// any text on the same background.
    fn joined(&self, style: CellStyle, is_blank: bool) -> Option<CellStyle> {
        if self.style == style || is_blank && self.style.without_text() == style {
            return Some(self.style);
        }
        (self.text.trim().is_empty() && self.style == style.without_text()).then_some(style)
    }

    /// Removes blanks at both ends if they cannot be seen. Returns none if nothing is left.
    fn trimmed(self) -> Option<Self> {
        if self.style.without_text() != CellStyle::PLAIN {
            return Some(self);
        }
        let text = self.text.trim_start_matches(' ');
        let before = self.text.len() - text.len();
        let shown = text.trim_end_matches(' ');
        let blanks = before + text.len() - shown.len();
        let run = Self {
            column: self.column + before,
            width: self.width - blanks,
            text: shown.to_owned(),
            style: self.style,
        };
        (run.width > 0).then_some(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::Size;

    fn runs(text: &str) -> Vec<TextRun> {
        let mut screen = Screen::new(Size::new(20, 2), 0);
        screen.feed(text.as_bytes(), &mut Vec::new());
        screen.runs(0)
    }

    fn run(column: usize, width: usize, text: &str, style: CellStyle) -> TextRun {
        TextRun { column, width, text: text.to_owned(), style }
    }

    #[test]
    fn neighbours_with_one_style_are_one_run() {
        let red = CellStyle { ink: CellColour::Palette(1), ..CellStyle::PLAIN };
        let bold = CellStyle { is_bold: true, ink: CellColour::Rgb([1, 2, 3]), ..CellStyle::PLAIN };
        assert_eq!(
            runs("ab \u{1b}[31mc d\u{1b}[0;1;38;2;1;2;3me"),
            [run(0, 2, "ab", CellStyle::PLAIN), run(3, 3, "c d", red), run(6, 1, "e", bold)]
        );
        assert_eq!(runs(""), []);
        assert_eq!(runs("   \u{1b}[31m  a  "), [run(5, 1, "a", red)]);
        assert_eq!(runs("\u{1b}[8mhidden"), []);
    }

    #[test]
    fn columns_count_wide_characters_twice() {
        let dim = CellStyle { is_dim: true, ..CellStyle::PLAIN };
        assert_eq!(
            runs("世e\u{301}\u{1b}[2mx"),
            [run(0, 3, "世e\u{301}", CellStyle::PLAIN), run(3, 1, "x", dim)]
        );
    }

    #[test]
    fn backgrounds_stay_where_nothing_is_written() {
        let inverse = CellStyle { ink: CellColour::Background, paper: CellColour::Text, ..CellStyle::PLAIN };
        assert_eq!(runs("\u{1b}[7m a b "), [run(0, 5, " a b ", inverse)]);
        let grey = CellStyle { paper: CellColour::Rgb([8, 8, 8]), ..CellStyle::PLAIN };
        assert_eq!(runs("\u{1b}[48;5;232m\u{1b}[K"), [run(0, 20, &" ".repeat(20), grey)]);
        let indexed = CellStyle { paper: CellColour::Palette(12), ..CellStyle::PLAIN };
        assert_eq!(runs("\u{1b}[48;5;12m "), [run(0, 1, " ", indexed)]);
    }
}
