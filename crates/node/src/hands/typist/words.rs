//! A message as its receiver reads it: header and text (CLI-5), and how many notes wait beside it.

use super::mail;
use super::{Typist, Wording};
use std::path::PathBuf;
use synapse_core::header::{header, mark_lookalikes};
use synapse_core::message::{Body, Letter};
use synapse_dialects::api::MessageView;
use synapse_terminal::text::Typed;

/// Longest text that is typed as one line. A terminal that collects lines keeps at most 4,096 bytes of one.
const LINE_CHARS_MAX: usize = 800;
/// What the end of a text does not need.
const BLANKS: [char; 3] = ['\n', ' ', '\t'];

impl Typist {
    pub(super) fn typed(&self, letter: &Letter, body: &Body, wording: Wording, notes: usize) -> Typed {
        let text = body.content().map(|content| content.as_text()).unwrap_or_default();
        let text = self.inline(letter, mark_lookalikes(&text).into_owned(), wording.as_file);
        let from = MessageView::new(letter, None, None).from.shown();
        let urgent = if letter.priority.is_urgent() { "URGENT: " } else { "" };
        let again = if wording.again { "(may repeat) " } else { "" };
        let header = header(letter.task.short(), &from);
        let text = format!("{again}{urgent}{}{}", text.trim_end_matches(BLANKS), beside(notes));
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

/// What is said of notes, below the text.
fn beside(notes: usize) -> String {
    match notes {
        0 => String::new(),
        1 => "\n(1 note waits for you; `synapse inbox` shows it)".to_owned(),
        n => format!("\n({n} notes wait for you; `synapse inbox` shows them)"),
    }
}
