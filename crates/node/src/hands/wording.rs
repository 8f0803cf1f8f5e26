//! A message as its receiver reads it: header and text (CLI-5), and how many notes wait besides it
//!

use synapse_core::header::{header, mark_lookalikes};
use synapse_core::message::Letter;
use synapse_dialects::api::MessageView;
use synapse_terminal::text::Typed;

/// Characters stripped from the end of a text.
pub(super) const BLANKS: [char; 3] = ['\n', ' ', '\t'];

/// Formats a message; `again` adds that it may be a repetition.
pub(super) fn of(letter: &Letter, text: &str, again: bool, notes: usize) -> Typed {
    let (header, text) = parts(letter, &mark_lookalikes(text), again, notes);
    Typed::new(&header, &text)
}

/// Returns the header, and the text after it.
pub(super) fn parts(letter: &Letter, text: &str, again: bool, notes: usize) -> (String, String) {
    let from = MessageView::new(letter, None, None).from.shown();
    let urgent = if letter.priority.is_urgent() { "URGENT: " } else { "" };
    let again = if again { "(may repeat) " } else { "" };
    let text = format!("{again}{urgent}{}{}", text.trim_end_matches(BLANKS), beside(notes));
    (header(letter.task.short(), &from), text)
}

/// Returns the line about notes, below the text.
fn beside(notes: usize) -> String {
    match notes {
        0 => String::new(),
        1 => "\n(1 note waits for you; `synapse inbox` shows it)".to_owned(),
        n => format!("\n({n} notes wait for you; `synapse inbox` shows them)"),
    }
}
