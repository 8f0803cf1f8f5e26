//! A message as it is typed: its words (`wording`) as lines or as one, or the name of a file that has them.

use super::super::wording::{self, BLANKS};
use super::mail;
use super::{Typist, Wording};
use std::path::PathBuf;
use synapse_core::header::mark_lookalikes;
use synapse_core::message::{Body, Letter};
use synapse_terminal::text::Typed;

/// Longest text that is typed as one line. A terminal that collects lines keeps at most 4,096 bytes of one.
const LINE_CHARS_MAX: usize = 800;

impl Typist {
    pub(super) fn typed(&self, letter: &Letter, body: &Body, how: Wording, notes: usize) -> Typed {
        let text = body.content().map(|content| content.as_text()).unwrap_or_default();
        let text = self.inline(letter, mark_lookalikes(&text).into_owned(), how.as_file);
        let (header, text) = wording::parts(letter, &text, how.again, notes);
        if self.seat.watch().types_lines() { Typed::line(&header, &text) } else { Typed::new(&header, &text) }
    }

    /// A text that is too long to be typed, or not shown as it is, goes into a file that the message points to.
    fn inline(&self, letter: &Letter, text: String, as_file: bool) -> String {
        let (max, types_lines, is_short) = {
            let watch = self.seat.watch();
            let submit = &watch.profile().submit;
            (submit.inline_chars_max, watch.types_lines(), submit.fits_inline(&text))
        };
        let (chars, lines) = (text.chars().count(), text.trim_end_matches(BLANKS).lines().count());
        let fits = if types_lines { lines <= 1 && chars <= max.min(LINE_CHARS_MAX) } else { is_short };
        if fits && !as_file {
            return text;
        }
        match mail::keep(&self.mail(), &letter.task, &text) {
            Ok(path) => {
                let size = if lines > 1 { format!("{lines} lines") } else { format!("{chars} characters") };
                format!("this message has {size}; all of it is in the file {}", path.display())
            }
            Err(e) => {
                tracing::warn!(error = %e, "a long message could not be kept as a file; it is typed whole");
                text
            }
        }
    }

    /// The folder for what belongs to messages.
    pub(super) fn mail(&self) -> PathBuf {
        self.app.home.agent(&self.app.agent.id).mail()
    }
}
