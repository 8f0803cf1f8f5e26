//! The canvas: what the parser draws on. It is the grid's model with two additions.
//!
//! It bounds the characters without a width that one cell keeps: the grid keeps any number of them, in every cell of the
//! scrollback. And it knows whether rows have left the screen: the size of the scrollback does not tell that, because
//! `CSI 3 J` empties it, an alternate screen has none, and rows inside a region are lost.
//!
//! Invariants: no cell has more than `MARKS_MAX` marks; rows that are lost are noticed, at worst too often.
//! Not here: what joins an emoji (`joined`), which keeps the same bound.

use alacritty_terminal::event::EventListener;
use alacritty_terminal::grid::Dimensions as _;
use alacritty_terminal::index::Point;
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::term::{Term, TermMode};
use alacritty_terminal::vte::ansi::{
    Attr, CharsetIndex, ClearMode, CursorShape, CursorStyle, Handler, Hyperlink, KeyboardModes,
    KeyboardModesApplyBehavior, LineClearMode, Mode, PrivateMode, Rgb, StandardCharset, TabulationClearMode,
};

/// Characters without a width that one cell keeps, such as accents and joiners; what comes after them is dropped.
pub(crate) const MARKS_MAX: usize = 16;

/// Whether rows have left the screen since all of it was last blank, for each of the two screens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LostRows {
    main: bool,
    alternate: bool,
}

impl LostRows {
    pub(crate) fn on(self, alternate: bool) -> bool {
        if alternate { self.alternate } else { self.main }
    }

    pub(crate) fn set(&mut self, alternate: bool, has_lost: bool) {
        *(if alternate { &mut self.alternate } else { &mut self.main }) = has_lost;
    }
}

pub(crate) struct Canvas<'a, T> {
    pub(crate) term: &'a mut Term<T>,
    pub(crate) lost: &'a mut LostRows,
}

impl<T: EventListener> Canvas<'_, T> {
    fn on_alternate(&self) -> bool {
        self.term.mode().contains(TermMode::ALT_SCREEN)
    }

    fn cursor(&self) -> Point {
        self.term.grid().cursor.point
    }

    fn lose(&mut self) {
        self.lost.set(self.on_alternate(), true);
    }

    /// Moves the cursor by a row. If it stays where it is, the rows move instead.
    fn step(&mut self, step: impl FnOnce(&mut Term<T>)) {
        let before = self.cursor().line;
        step(self.term);
        if self.cursor().line == before {
            self.lose();
        }
    }

    /// The cell that takes a mark, as the grid chooses it, if it has no room for one more.
    fn full_cell(&self) -> Option<(Point, Cell)> {
        let grid = self.term.grid();
        let mut point = grid.cursor.point;
        if !grid.cursor.input_needs_wrap {
            point.column.0 = point.column.0.saturating_sub(1);
        }
        if grid[point].flags.contains(Flags::WIDE_CHAR_SPACER) {
            point.column.0 = point.column.0.saturating_sub(1);
        }
        let cell = &grid[point];
        (marks_of(cell) >= MARKS_MAX).then(|| (point, cell.clone()))
    }
}

fn marks_of(cell: &Cell) -> usize {
    cell.zerowidth().map_or(0, <[char]>::len)
}

/// Passes to the model what needs nothing more.
macro_rules! pass {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => {
        $(
            #[inline]
            fn $name(&mut self, $($arg: $type),*) {
                Handler::$name(self.term, $($arg),*);
            }
        )*
    };
}

// All that the model takes of what the parser can tell. A newer model may take more: compare when it is updated.
impl<T: EventListener> Handler for Canvas<'_, T> {
    #[inline]
    fn input(&mut self, c: char) {
        let cursor = &self.term.grid().cursor;
        let before = cursor.point;
        let is_last = cursor.input_needs_wrap || before.column.0 + 1 >= self.term.columns();
        // Nearly all text: it has a width, and does not wrap.
        if c.is_ascii() && !is_last {
            return self.term.input(c);
        }
        let full = if c.is_ascii() { None } else { self.full_cell() };
        self.term.input(c);
        if let Some((point, cell)) = full
            && marks_of(&self.term.grid()[point]) > MARKS_MAX
        {
            self.term.grid_mut()[point] = cell;
        }
        let after = self.cursor();
        if is_last && after.line == before.line && after.column < before.column {
            self.lose();
        }
    }

    #[inline]
    fn linefeed(&mut self) {
        self.step(Handler::linefeed);
    }

    #[inline]
    fn newline(&mut self) {
        self.step(Handler::newline);
    }

    fn reverse_index(&mut self) {
        self.step(Handler::reverse_index);
    }

    fn scroll_up(&mut self, lines: usize) {
        self.lose();
        Handler::scroll_up(self.term, lines);
    }

    fn scroll_down(&mut self, lines: usize) {
        self.lose();
        Handler::scroll_down(self.term, lines);
    }

    fn insert_blank_lines(&mut self, lines: usize) {
        self.lose();
        self.term.insert_blank_lines(lines);
    }

    fn delete_lines(&mut self, lines: usize) {
        self.lose();
        self.term.delete_lines(lines);
    }

    fn clear_screen(&mut self, mode: ClearMode) {
        let is_all = match mode {
            ClearMode::All => true,
            ClearMode::Below => self.cursor() == Point::default(),
            ClearMode::Above | ClearMode::Saved => false,
        };
        self.term.clear_screen(mode);
        if is_all {
            self.lost.set(self.on_alternate(), false);
        }
    }

    fn reset_state(&mut self) {
        self.term.reset_state();
        *self.lost = LostRows::default();
    }

    fn set_private_mode(&mut self, mode: PrivateMode) {
        let before = self.on_alternate();
        self.term.set_private_mode(mode);
        // The alternate screen is blank whenever it is entered.
        if !before && self.on_alternate() {
            self.lost.set(true, false);
        }
    }

    pass! {
        set_title(title: Option<String>);
        set_cursor_style(style: Option<CursorStyle>);
        set_cursor_shape(shape: CursorShape);
        goto(line: i32, column: usize);
        goto_line(line: i32);
        goto_col(column: usize);
        insert_blank(count: usize);
        move_up(rows: usize);
        move_down(rows: usize);
        identify_terminal(intermediate: Option<char>);
        device_status(what: usize);
        move_forward(columns: usize);
        move_backward(columns: usize);
        move_down_and_cr(rows: usize);
        move_up_and_cr(rows: usize);
        put_tab(count: u16);
        backspace();
        carriage_return();
        bell();
        substitute();
        set_horizontal_tabstop();
        erase_chars(count: usize);
        delete_chars(count: usize);
        move_backward_tabs(count: u16);
        move_forward_tabs(count: u16);
        save_cursor_position();
        restore_cursor_position();
        clear_line(mode: LineClearMode);
        clear_tabs(mode: TabulationClearMode);
        terminal_attribute(attribute: Attr);
        set_mode(mode: Mode);
        unset_mode(mode: Mode);
        report_mode(mode: Mode);
        unset_private_mode(mode: PrivateMode);
        report_private_mode(mode: PrivateMode);
        set_scrolling_region(top: usize, bottom: Option<usize>);
        set_keypad_application_mode();
        unset_keypad_application_mode();
        set_active_charset(index: CharsetIndex);
        configure_charset(index: CharsetIndex, charset: StandardCharset);
        set_color(index: usize, colour: Rgb);
        dynamic_color_sequence(prefix: String, index: usize, terminator: &str);
        reset_color(index: usize);
        clipboard_store(clipboard: u8, base64: &[u8]);
        clipboard_load(clipboard: u8, terminator: &str);
        decaln();
        push_title();
        pop_title();
        text_area_size_pixels();
        text_area_size_chars();
        set_hyperlink(link: Option<Hyperlink>);
        report_keyboard_mode();
        push_keyboard_mode(mode: KeyboardModes);
        pop_keyboard_modes(count: u16);
        set_keyboard_mode(mode: KeyboardModes, behaviour: KeyboardModesApplyBehavior);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::{Screen, Size};
    use alacritty_terminal::index::{Column, Line};

    fn most_marks(screen: &Screen) -> usize {
        let grid = screen.term().grid();
        let lines = grid.topmost_line().0..=grid.bottommost_line().0;
        let cells =
            lines.flat_map(|line| (0..grid.columns()).map(move |column| &grid[Line(line)][Column(column)]));
        cells.map(marks_of).max().unwrap_or(0)
    }

    /// Finding M9: a cell kept every mark, on the screen and above it: 400 in each cell of 2,000 lines took 759 MB.
    #[test]
    fn marks_of_one_cell_are_bounded_above_the_screen_too() {
        let marks = "\u{301}".repeat(400);
        for text in [
            format!("{}\r\n", format!("a{marks}").repeat(9)).repeat(30),
            format!("世{marks}").repeat(40),
            format!("{marks}\r\n").repeat(12),
            format!("\u{1b}[?7l{}", format!("ab{marks}").repeat(20)),
            format!("{}{marks}", "0123456789".repeat(3)),
            format!("a{}", "\u{301}\u{1b}[300b".repeat(4)),
            format!("👩{}", "\u{200d}👩".repeat(400)),
            format!("👍{}", "🏽".repeat(400)),
        ] {
            let mut screen = Screen::new(Size::new(10, 5), 50);
            screen.feed(text.as_bytes(), &mut Vec::new());
            assert_eq!(most_marks(&screen), MARKS_MAX, "{text:.40?}");
        }
        let mut screen = Screen::new(Size::new(10, 5), 50);
        screen.feed(format!("a{marks}b").as_bytes(), &mut Vec::new());
        assert_eq!(screen.row(0), format!("a{}b", "\u{301}".repeat(MARKS_MAX)));
    }

    /// Finding H4: rows that left the screen were not known of once the scrollback was emptied.
    #[test]
    fn rows_that_leave_the_screen_are_remembered_until_all_of_it_is_cleared() {
        for (text, lost) in [
            ("one\r\n\n\n\n", false),
            ("one\r\n\n\n\n\n", true),
            ("one\r\n\n\n\n\n\u{1b}[3J\u{1b}[1;1H", true),
            ("one\r\n\n\n\n\n\u{1b}[2A\u{1b}[J", true),
            ("one\r\n\n\n\n\n\u{1b}[1J\u{1b}[H", true),
            ("one\r\n\n\n\n\n\u{1b}[2J", false),
            ("one\r\n\n\n\n\n\u{1b}[H\u{1b}[J", false),
            ("one\r\n\n\n\n\n\u{1b}c", false),
            ("one\r\n\n\n\n\n\u{1b}[2J\u{1b}[5;1Htwo\n", true),
            ("\u{1b}[5;1H0123456789", false),
            ("\u{1b}[5;1H0123456789\u{301}", false),
            ("\u{1b}[5;1H\u{1b}[?7l0123456789ab世", false),
            ("\u{1b}[5;1H0123456789a", true),
            ("\u{1b}[5;1H012345678世", true),
            ("\u{1b}[4;1H0123456789a", false),
            ("one\u{1b}D\u{1b}E", false),
            ("\u{1b}[5;1H\u{1b}D", true),
            ("\u{1b}[5;1H\u{1b}E", true),
            ("one\u{1b}M", true),
            ("one\u{1b}[S", true),
            ("one\u{1b}[T", true),
            ("one\u{1b}[M", true),
            ("one\u{1b}[L", true),
            ("\u{1b}[2;3r\u{1b}[3;1H\n", true),
            ("one\r\n\n\n\n\n\u{1b}[?1049h", false),
            ("one\r\n\n\n\n\n\u{1b}[?1049h\u{1b}[?1049l", true),
            ("\u{1b}[?1049h\r\n\n\n\n\n", true),
            ("\u{1b}[?1049h\r\n\n\n\n\n\u{1b}[?1049l", false),
            ("\u{1b}[?1049h\r\n\n\n\n\n\u{1b}[?1049l\u{1b}[?1049h", false),
        ] {
            for scrollback in [0, 3] {
                let mut screen = Screen::new(Size::new(10, 5), scrollback);
                screen.feed(text.as_bytes(), &mut Vec::new());
                assert_eq!(screen.has_lost_rows(), lost, "{text:?}");
                let picture = screen.as_ansi_within(usize::MAX, 0).unwrap();
                let mut again = Screen::new(Size::new(10, 5), scrollback);
                again.feed(picture.as_bytes(), &mut Vec::new());
                assert_eq!(again.has_lost_rows(), lost, "{text:?}, drawn again");
                assert_eq!((again.rows(), again.cursor()), (screen.rows(), screen.cursor()), "{text:?}");
            }
        }
    }

    #[test]
    fn window_that_becomes_too_small_loses_rows() {
        for (columns, rows, lost) in
            [(10, 5, false), (20, 9, false), (10, 2, false), (10, 1, true), (9, 5, true)]
        {
            let mut screen = Screen::new(Size::new(10, 5), 0);
            screen.feed(b"one\r\ntwo", &mut Vec::new());
            screen.resize(Size::new(columns, rows));
            assert_eq!(screen.has_lost_rows(), lost, "{columns}x{rows}");
        }
    }
}
