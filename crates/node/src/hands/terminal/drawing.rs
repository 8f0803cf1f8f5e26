//! Pictures of the screen, which the holder keeps for viewers and for the next node.

use super::Sitting;
use std::time::Duration;
use synapse_holder::terminal::wire::{Ask, FRAME_BYTES_MAX};
use synapse_terminal::SCROLLBACK;
use tokio::time::Instant;

/// A picture is made after this much output, or when it has been quiet for so long.
const PICTURE_BYTES: u64 = 1 << 20;
/// Far below what the holder takes: a picture becomes shorter at its top until it is no longer than this.
const PICTURE_BYTES_MAX: usize = FRAME_BYTES_MAX / 2;
/// Lines above the screen in a picture that is made while much is printed: they will soon be gone, and all of them
/// would cost a third of what the output itself does.
const FLOOD_LINES: usize = 200;
const PICTURE_QUIET: Duration = Duration::from_millis(500);

impl Sitting<'_> {
    /// A picture is due once the program has printed nothing for a moment.
    pub(super) fn draw_when_quiet(&mut self) {
        self.picture_at = Some(Instant::now() + PICTURE_QUIET);
    }

    pub(super) async fn draw(&mut self) -> bool {
        let quiet = self.picture_at.is_some_and(|at| at <= Instant::now());
        if !quiet && self.upto - self.drawn_upto < PICTURE_BYTES {
            return true;
        }
        self.picture_at = None;
        self.drawn_upto = self.upto;
        let flood_is_over = std::mem::replace(&mut self.floods, !quiet) && quiet;
        let above = if quiet { SCROLLBACK } else { FLOOD_LINES };
        let (size, drawn, unfinished) = {
            let watch = self.hand.seat.watch();
            let screen = watch.screen();
            (screen.size(), watch.picture(PICTURE_BYTES_MAX, above), screen.unfinished())
        };
        // One that is too large even without colours is none; the tail goes on from the last one.
        let Some(drawn) = drawn else { return true };
        let (columns, rows) = (size.columns(), size.rows());
        // A sequence that is not whole is not in the picture. The tail after the picture has to begin with it.
        let upto = self.upto.saturating_sub(unfinished as u64);
        let is_told = self.ask(Ask::Picture { upto, columns, rows, drawn: drawn.into_bytes() }).await;
        if flood_is_over {
            synapse_holder::memory::give_back();
        }
        is_told
    }
}
