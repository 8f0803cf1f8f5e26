//! Pictures of the screen, which the holder keeps for viewers and for the next node.

use super::Sitting;
use std::time::Duration;
use synapse_holder::terminal::wire::{Ask, FRAME_BYTES_MAX};
use synapse_terminal::SCROLLBACK;
use tokio::time::Instant;

/// A picture is drawn after this much output, or once the program has been quiet for
/// `PICTURE_QUIET`.
const PICTURE_BYTES: u64 = 1 << 20;
/// Far below the holder's limit. A longer picture loses lines at its top until it fits.
const PICTURE_BYTES_MAX: usize = FRAME_BYTES_MAX / 2;
/// The scrollback lines in a picture drawn during a flood. They will soon be gone, and all of them
/// would cost a third of what the output itself does.
const FLOOD_LINES: usize = 200;
const PICTURE_QUIET: Duration = Duration::from_millis(500);

impl Sitting<'_> {
    /// Schedules a picture for when the program has printed nothing for a moment.
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
        // Too large even without colours: skip it. The tail then continues from the last picture.
        let Some(drawn) = drawn else { return true };
        let (columns, rows) = (size.columns(), size.rows());
        // The picture does not contain an incomplete sequence, so the tail after it must begin with
        // that sequence.
        let upto = self.upto.saturating_sub(unfinished as u64);
        let is_told = self.ask(Ask::Picture { upto, columns, rows, drawn: drawn.into_bytes() }).await;
        if flood_is_over {
            synapse_holder::memory::give_back();
        }
        is_told
    }
}
