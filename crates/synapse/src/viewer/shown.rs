//! The contents of a person's terminal: the program's output, and what the viewer draws over it.
//!
//! Not here: what is drawn over it (`bottom`), and where the output comes from (`viewer`).

use super::person;
use std::io;
use synapse_terminal::{Screen, Size, Strip};

/// What this terminal shows. Whoever writes to the terminal holds its lock.
#[derive(Default)]
pub(super) struct Shown {
    strip: Strip,
    /// Whether the shell has the terminal.
    pub(super) is_away: bool,
    /// Ignore output until the next picture, because the screen that it applies to is gone.
    pub(super) awaits_picture: bool,
    has_begun: bool,
    /// Whether the last output ended in the middle of a character.
    is_cut: bool,
    /// The most recent output, to find out how far below the cursor it reaches.
    recent: Vec<u8>,
}

/// Room for many frames of an inline program.
const RECENT_BYTES_MAX: usize = 64 << 10;

impl Shown {
    pub(super) fn draw(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_away || self.awaits_picture {
            return Ok(());
        }
        let mut shown = Vec::with_capacity(bytes.len());
        self.strip.pass(bytes, &mut shown);
        if !shown.is_empty() {
            self.is_cut = ends_within_a_character(&shown);
            self.remember(&shown);
        }
        person::write_all(&shown)
    }

    /// Draws over the program's output, unless the program is in the middle of a character or a
    /// sequence.
    pub(super) fn draw_over(&self, bytes: &[u8]) -> io::Result<()> {
        if self.can_draw_over() { person::write_all(bytes) } else { Ok(()) }
    }

    fn can_draw_over(&self) -> bool {
        !(self.is_away || self.awaits_picture || self.is_cut) && self.strip.is_whole()
    }

    /// Rings the bell and returns whether it rang. Within a frame, it rings only on the last try.
    pub(super) fn ring(&self, is_last_try: bool) -> io::Result<bool> {
        let rings = self.can_draw_over() && (is_last_try || !self.strip.is_in_frame());
        if rings { person::write_all(b"\x07").map(|()| true) } else { Ok(false) }
    }

    /// Prepares for a picture: undoes what was shown before, or modes would be switched on twice.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        self.awaits_picture = false;
        if !std::mem::replace(&mut self.has_begun, true) || self.is_away {
            return Ok(());
        }
        let leave = self.leave(None);
        person::write_all(leave.as_bytes())
    }

    /// Returns the bytes that undo everything that was shown. On the main screen the text stays,
    /// and in a window of this size the cursor moves below it, so that the next line does not land
    /// in a composer.
    pub(super) fn leave(&mut self, window: Option<(u16, u16)>) -> String {
        let (strip, recent) = (std::mem::take(&mut self.strip), std::mem::take(&mut self.recent));
        let mut leave = strip.leave();
        if let Some(window) = window.filter(|_| !strip.is_on_alternate()) {
            leave.push_str(&go_below(&recent, window));
        }
        leave
    }

    fn remember(&mut self, shown: &[u8]) {
        let shown = &shown[shown.len().saturating_sub(RECENT_BYTES_MAX)..];
        if self.recent.len() + shown.len() > 2 * RECENT_BYTES_MAX {
            self.recent.drain(..self.recent.len().saturating_sub(RECENT_BYTES_MAX));
        }
        self.recent.extend_from_slice(shown);
    }
}

/// Moves the cursor to an empty line below what these bytes drew. The movement is relative, because
/// the row where they began is unknown.
fn go_below(recent: &[u8], (columns, rows): (u16, u16)) -> String {
    let mut screen = Screen::new(Size::new(columns, rows), 0);
    screen.feed(recent, &mut Vec::new());
    let (row, column) = screen.cursor();
    let is_used = |row: &usize| !screen.row(*row).trim().is_empty();
    let Some(lowest) = (row..screen.rows().len()).rfind(is_used) else {
        return if column == 0 { String::new() } else { "\r\n".to_owned() };
    };
    let down = if lowest > row { format!("\u{1b}[{}B", lowest - row) } else { String::new() };
    format!("{down}\r\n")
}

/// Whether more bytes of a character must follow.
fn ends_within_a_character(bytes: &[u8]) -> bool {
    const LONGEST: usize = 4;
    let tail = &bytes[bytes.len().saturating_sub(LONGEST)..];
    let lead = tail.iter().rev().position(|byte| byte & 0xc0 != 0x80);
    lead.is_some_and(|behind| match tail[tail.len() - 1 - behind] {
        0xc0..=0xdf => behind < 1,
        0xe0..=0xef => behind < 2,
        0xf0.. => behind < 3,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_goes_below_what_is_drawn() {
        for (drawn, expected) in [
            ("", ""),
            ("$ ", "\r\n"),
            ("one\r\ntwo\r\n", ""),
            ("one\r\ntwo", "\r\n"),
            ("+--+\r\n| >|\r\n+--+\r\nfooter\u{1b}[2A\u{1b}[3G", "\u{1b}[2B\r\n"),
            // Erased rows are empty.
            ("a\r\nb\r\nc\u{1b}[2A\r\u{1b}[J", ""),
            ("\u{1b}[2J\u{1b}[8;1Hlast\u{1b}[H", "\u{1b}[7B\r\n"),
        ] {
            assert_eq!(go_below(drawn.as_bytes(), (20, 10)), expected, "{drawn:?}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut shown = Shown::default();
        for _ in 0..10 {
            shown.remember(&[b'x'; 50_000]);
        }
        shown.remember(b"end");
        assert!(shown.recent.len() <= 2 * RECENT_BYTES_MAX && shown.recent.ends_with(b"xend"));
        shown.remember(&[b'y'; 1 << 20]);
        assert!(shown.recent.len() <= 2 * RECENT_BYTES_MAX, "{}", shown.recent.len());
    }
}
