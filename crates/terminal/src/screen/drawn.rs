//! What a program draws to show where typing begins: cursors of its own, because it hides that of the terminal or leaves
//! it elsewhere, and faint text as an example.

use super::Screen;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::Flags;
use alacritty_terminal::vte::ansi::Color;

/// A character that may be a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrawnCursor {
    pub row: usize,
    pub column: usize,
    /// How many characters are in front of it; some take two columns.
    pub characters: usize,
    pub look: CursorLook,
}

/// How a drawn cursor differs from what is around it. The surest comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CursorLook {
    Inverse,
    /// A single character with a background that its two neighbours do not have.
    Background,
    /// A block, such as `▋`.
    Block,
}

const BLOCKS: &str = "█▉▊▋";

impl Screen {
    /// The first of each look in each row, from the top.
    pub(crate) fn drawn_cursors(&self) -> Vec<DrawnCursor> {
        (0..usize::from(self.size().rows())).flat_map(|row| self.drawn_cursors_in(row)).collect()
    }

    fn drawn_cursors_in(&self, row: usize) -> impl Iterator<Item = DrawnCursor> {
        let columns = 0..usize::from(self.size().columns());
        let cells: Vec<(Color, bool)> =
            columns.clone().filter_map(|column| self.paper(row, column)).collect();
        let inverse = cells.iter().position(|(_, is_inverse)| *is_inverse);
        let is_alone = |three: &[(Color, bool)]| match three {
            [(left, _), (middle, is_inverse), (right, _)] => !is_inverse && left == right && left != middle,
            _ => false,
        };
        let background = cells.windows(3).position(is_alone).map(|before| before + 1);
        let mut glyphs = columns.map(|column| self.glyph(row, column));
        let block = glyphs.position(|glyph| glyph.is_some_and(|(glyph, _)| BLOCKS.contains(glyph)));
        let found = [
            (inverse, CursorLook::Inverse),
            (background, CursorLook::Background),
            (block, CursorLook::Block),
        ];
        found.into_iter().filter_map(move |(column, look)| {
            let column = column?;
            let characters = self.row_upto(row, column).chars().count();
            Some(DrawnCursor { row, column, characters, look })
        })
    }

    /// Of each row the faint text; everything else is blank.
    pub(crate) fn faint_rows(&self) -> Vec<String> {
        let grid = self.term.grid();
        let row = |line: i32| -> String {
            let cells =
                (0..usize::from(self.size().columns())).map(|column| &grid[Line(line)][Column(column)]);
            let shown = cells.filter(|cell| !cell.flags.contains(Flags::WIDE_CHAR_SPACER));
            shown.map(|cell| if cell.flags.contains(Flags::DIM) { cell.c } else { ' ' }).collect()
        };
        (0..i32::from(self.size().rows())).map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::CursorLook::{Background, Block, Inverse};
    use crate::screen::{Screen, Size};

    #[test]
    fn drawn_cursors_of_every_look_are_found() {
        // What the program prints, and row, column, characters and look of each.
        for (printed, expected) in [
            ("> hi\x1b[7m \x1b[27m there", vec![(0, 4, 4, Inverse)]),
            ("> hi\x1b[47m\x1b[30m \x1b[39m\x1b[49m there", vec![(0, 4, 4, Background)]),
            ("\r\n漢字\x1b[7m \x1b[27m", vec![(1, 4, 2, Inverse)]),
            ("> ▋Ask anything", vec![(0, 2, 2, Block)]),
            ("\x1b[44m a whole row \x1b[49m", vec![]),
            ("\x1b[44mab\x1b[41m \x1b[44mcd\x1b[0m", vec![(0, 2, 2, Background)]),
            ("\x1b[7mmenu\x1b[0m \x1b[42mx\x1b[0m", vec![(0, 0, 0, Inverse), (0, 5, 5, Background)]),
            ("plain", vec![]),
        ] {
            let screen = shown(printed);
            let found = screen.drawn_cursors();
            let found: Vec<_> = found.iter().map(|c| (c.row, c.column, c.characters, c.look)).collect();
            assert_eq!(found, expected, "{printed:?}");
        }
    }

    #[test]
    fn faint_text_is_told_from_other_text() {
        let screen = shown("> \x1b[2mAsk 漢\x1b[22m now");
        assert_eq!(screen.faint_rows()[0].trim_end(), "  Ask 漢");
    }

    fn shown(printed: &str) -> Screen {
        let mut screen = Screen::new(Size::new(20, 3), 0);
        screen.feed(printed.as_bytes(), &mut Vec::new());
        screen
    }
}
