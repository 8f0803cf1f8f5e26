//! The canvas: what the parser draws on. It is the grid's model with a bound.
//!
//! The grid keeps any number of characters without a width in a cell, in every cell of the scrollback.
//!
//! Invariant: no cell has more than `MARKS_MAX` marks.
//! Not here: what joins an emoji (`joined`), which keeps the same bound.

use alacritty_terminal::event::EventListener;
use alacritty_terminal::index::Point;
use alacritty_terminal::term::Term;
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::{
    Attr, CharsetIndex, ClearMode, CursorShape, CursorStyle, Handler, Hyperlink, KeyboardModes,
    KeyboardModesApplyBehavior, LineClearMode, Mode, PrivateMode, Rgb, StandardCharset, TabulationClearMode,
};

/// Characters without a width that one cell keeps, such as accents and joiners; what comes after them is dropped.
pub(crate) const MARKS_MAX: usize = 16;

pub(crate) struct Canvas<'a, T> {
    pub(crate) term: &'a mut Term<T>,
}

impl<T: EventListener> Canvas<'_, T> {
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
        // Nearly all text: it has a width.
        if c.is_ascii() {
            return self.term.input(c);
        }
        let full = self.full_cell();
        self.term.input(c);
        if let Some((point, cell)) = full
            && marks_of(&self.term.grid()[point]) > MARKS_MAX
        {
            self.term.grid_mut()[point] = cell;
        }
    }

    pass! {
        linefeed();
        newline();
        reverse_index();
        scroll_up(lines: usize);
        scroll_down(lines: usize);
        insert_blank_lines(lines: usize);
        delete_lines(lines: usize);
        clear_screen(mode: ClearMode);
        reset_state();
        set_private_mode(mode: PrivateMode);
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
    use alacritty_terminal::grid::Dimensions as _;
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
}
