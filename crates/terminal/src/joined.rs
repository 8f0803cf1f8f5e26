//! Emoji that are made of several characters take the room of one.
//!
//! Programs count `👩‍💻` as two columns and fill their rows by that; the grid would give it four, the row would run over,
//! and everything below would stand one row too low. So what is joined to an emoji goes into its cell.
//! Not here: characters without a width of their own, which the grid knows.

use crate::canvas::MARKS_MAX;
use alacritty_terminal::event::EventListener;
use alacritty_terminal::grid::Dimensions as _;
use alacritty_terminal::index::Column;
use alacritty_terminal::term::Term;
use alacritty_terminal::term::cell::{Cell, Flags};
use memchr::memchr2_iter;

/// Draws text in which emoji may be joined.
#[derive(Debug, Default)]
pub(crate) struct Joined {
    /// The last that was drawn is a joiner.
    joins: bool,
}

const JOINER: char = '\u{200d}';
const JOINER_BYTES: &[u8] = "\u{200d}".as_bytes();
/// What the bytes of the five skin tones begin with.
const TONE_BYTES: &[u8] = b"\xf0\x9f\x8f";

impl Joined {
    /// Gives `draw` all of it but what went into the cell of an emoji.
    pub fn draw<T: EventListener>(
        &mut self,
        term: &mut Term<T>,
        mut rest: &[u8],
        mut draw: impl FnMut(&mut Term<T>, &[u8]),
    ) {
        while !rest.is_empty() {
            let joins = std::mem::take(&mut self.joins);
            if let Some(c) = first(rest).filter(|c| is_tone(*c) || joins && is_pictograph(*c))
                && put(term, c)
            {
                rest = &rest[c.len_utf8()..];
                continue;
            }
            let (used, joins) = upto_join(rest);
            self.joins = joins;
            draw(term, &rest[..used]);
            rest = &rest[used..];
        }
    }
}

/// How much is drawn as it is, and whether a joiner is its end. The first character always is, whatever it is.
fn upto_join(bytes: &[u8]) -> (usize, bool) {
    for at in memchr2_iter(JOINER_BYTES[0], TONE_BYTES[0], bytes) {
        let here = &bytes[at..];
        if here.starts_with(JOINER_BYTES) {
            return (at + JOINER_BYTES.len(), true);
        }
        if at > 0 && here.starts_with(TONE_BYTES) {
            return (at, false);
        }
    }
    (bytes.len(), false)
}

fn first(bytes: &[u8]) -> Option<char> {
    if let Some(byte) = bytes.first().filter(|byte| byte.is_ascii()) {
        return Some(char::from(*byte));
    }
    let few = &bytes[..bytes.len().min(4)];
    few.utf8_chunks().next()?.valid().chars().next()
}

fn is_tone(c: char) -> bool {
    matches!(c, '\u{1f3fb}'..='\u{1f3ff}')
}

fn is_pictograph(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
}

/// Into the cell before the cursor, if there is an emoji that this belongs to.
fn put<T: EventListener>(term: &mut Term<T>, c: char) -> bool {
    let grid = term.grid_mut();
    let cursor = &grid.cursor;
    let (line, mut column) = (cursor.point.line, cursor.point.column);
    let back = usize::from(!cursor.input_needs_wrap);
    if column.0 < back || column.0 >= grid.columns() {
        return false;
    }
    column = Column(column.0 - back);
    if column.0 > 0 && grid[line][column].flags.contains(Flags::WIDE_CHAR_SPACER) {
        column = Column(column.0 - 1);
    }
    let cell: &mut Cell = &mut grid[line][column];
    let parts = cell.zerowidth().unwrap_or_default();
    let is_joined = parts.last() == Some(&JOINER);
    let takes = is_pictograph(cell.c) && (is_joined || is_tone(c)) && parts.len() < MARKS_MAX;
    if takes {
        cell.push_zerowidth(c);
    }
    takes
}

#[cfg(test)]
mod tests {
    use crate::screen::{Screen, Size};

    #[test]
    fn a_joined_emoji_takes_two_columns_and_keeps_its_parts() {
        for (text, columns) in [
            ("👩‍💻", 2),
            ("👨‍👩‍👧x", 3),
            ("👍🏽", 2),
            ("👩🏽‍💻", 2),
            ("👩💻", 4),
            ("a\u{200d}💻", 3),
            ("🏽", 2),
            ("日本", 4),
        ] {
            for chunk in [1, 2, 3, usize::MAX] {
                let mut screen = Screen::new(Size::new(20, 3), 0);
                text.as_bytes().chunks(chunk.min(text.len())).for_each(|b| screen.feed(b, &mut Vec::new()));
                assert_eq!((screen.cursor(), screen.row(0).as_str()), ((0, columns), text), "{chunk}");
            }
        }
    }

    /// A row that is filled to its end by this count, and a move down: nothing stands a row too low.
    #[test]
    fn rows_filled_to_their_end_do_not_run_over() {
        let mut screen = Screen::new(Size::new(10, 4), 0);
        screen.feed("👨‍👩‍👧 ok     \r\u{1b}[1Bnext".as_bytes(), &mut Vec::new());
        assert_eq!(screen.row(1), "next");
    }

    #[test]
    fn a_title_is_left_alone() {
        let mut screen = Screen::new(Size::new(10, 4), 0);
        screen.feed("👩\u{1b}]0;👩‍💻 👍🏽\u{7}x".as_bytes(), &mut Vec::new());
        assert_eq!((screen.title(), screen.row(0).as_str()), ("👩‍💻 👍🏽", "👩x"));
    }
}
