//! What a person's terminal shows: the program's output, and what of ours is drawn over it.
//!
//! Not here: what is drawn over it (`bottom`), and where the output comes from (`viewer`).

use super::person;
use std::io;
use synapse_terminal::Strip;

/// What this terminal shows. Whoever writes to it has the lock.
#[derive(Default)]
pub(super) struct Shown {
    strip: Strip,
    /// The shell has the terminal.
    pub(super) is_away: bool,
    /// What comes before the next picture is for a screen that is no longer there.
    pub(super) awaits_picture: bool,
    has_begun: bool,
    /// What was shown last ends within a character.
    is_cut: bool,
}

impl Shown {
    pub(super) fn draw(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_away || self.awaits_picture {
            return Ok(());
        }
        let mut shown = Vec::with_capacity(bytes.len());
        self.strip.pass(bytes, &mut shown);
        if !shown.is_empty() {
            self.is_cut = ends_within_a_character(&shown);
        }
        person::write_all(&shown)
    }

    /// Draws something of ours over it; not while the program is in the middle of a character or a sequence.
    pub(super) fn draw_over(&self, bytes: &[u8]) -> io::Result<()> {
        if self.can_draw_over() { person::write_all(bytes) } else { Ok(()) }
    }

    fn can_draw_over(&self) -> bool {
        !(self.is_away || self.awaits_picture || self.is_cut) && self.strip.is_whole()
    }

    /// Whether it rang: within a frame it does so only at the last try.
    pub(super) fn ring(&self, is_last_try: bool) -> io::Result<bool> {
        let rings = self.can_draw_over() && (is_last_try || !self.strip.is_in_frame());
        if rings { person::write_all(b"\x07").map(|()| true) } else { Ok(false) }
    }

    /// A picture comes: what was shown before it is undone, or modes would be asked for twice.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        self.awaits_picture = false;
        if !std::mem::replace(&mut self.has_begun, true) || self.is_away {
            return Ok(());
        }
        let leave = self.leave();
        person::write_all(leave.as_bytes())
    }

    /// Undoes all that was shown.
    pub(super) fn leave(&mut self) -> String {
        std::mem::take(&mut self.strip).leave()
    }
}

/// Whether bytes of a character are still to come.
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
