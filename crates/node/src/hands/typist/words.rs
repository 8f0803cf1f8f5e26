//! The typed form of a message: its text (`wording`) in lines or as one line, or the name of a file
//! that contains it.

use super::super::wording::{self, BLANKS};
use super::mail;
use super::{Typist, Wording};
use std::path::PathBuf;
use synapse_core::header::mark_lookalikes;
use synapse_core::message::{Body, Letter};
use synapse_terminal::text::Typed;

/// The longest text typed as one line. A terminal in line mode keeps at most 4,096 bytes of one.
const LINE_CHARS_MAX: usize = 800;

impl Typist {
    pub(super) fn typed(&self, letter: &Letter, body: &Body, how: Wording, notes: usize) -> Typed {
        let text = body.content().map(|content| content.as_text()).unwrap_or_default();
        let text = self.inline(letter, mark_lookalikes(&text).into_owned(), how.as_file);
        let (header, text) = wording::parts(letter, &text, how.again, notes);
        if self.seat.watch().types_one_line() {
            Typed::line(&header, &text)
        } else {
            Typed::new(&header, &text)
        }
    }

    /// Puts a text that is too long, or that is not displayed as written, into a file that the
    /// message points to.
    fn inline(&self, letter: &Letter, text: String, as_file: bool) -> String {
        let (max, is_one_line, is_short) = {
            let watch = self.seat.watch();
            let submit = &watch.profile().submit;
            (submit.inline_chars_max, watch.types_one_line(), submit.fits_inline(&text))
        };
        let (chars, lines) = (text.chars().count(), text.trim_end_matches(BLANKS).lines().count());
        let fits = if is_one_line { lines <= 1 && chars <= max.min(LINE_CHARS_MAX) } else { is_short };
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

    /// The folder for files that belong to messages.
    pub(super) fn mail(&self) -> PathBuf {
        self.app.home.agent(&self.app.agent.id).mail()
    }
}
