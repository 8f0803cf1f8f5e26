//! What a wrapped agent said, read off its screen: the last resort for an answer, and marked as such.

use synapse_core::message::{Body, Content, Part, Piece};
use synapse_terminal::Watch;
use synapse_terminal::prompt::Prompt;
use synapse_terminal::text::Typed;

/// Longest text taken off a screen, characters.
const TEXT_CHARS_MAX: usize = 16_000;

/// What stands below our text and above the composer.
pub(super) fn on_screen(watch: &Watch, typed: &Typed) -> String {
    let rows = watch.rows_above_composer();
    let bones = |text: &str| -> String { text.chars().filter(|c| !c.is_whitespace()).collect() };
    let (header, ours) = (bones(typed.header()), bones(typed.as_str()));
    let begins = rows.iter().rposition(|row| bones(row).contains(&header)).map_or(0, |at| at + 1);
    // The rest of our own text, wrapped.
    let own =
        rows[begins..].iter().take_while(|row| !row.trim().is_empty() && ours.contains(&bones(row))).count();
    let said: Vec<&str> = rows[begins + own..].iter().map(|row| row.trim_end()).collect();
    said.join("\n").trim_matches('\n').chars().take(TEXT_CHARS_MAX).collect()
}

/// A prompt as those who may decide it read it: what is shown, and the hash that a decision must carry.
pub(super) fn question(prompt: &Prompt) -> Body {
    let mut content = Content::text(prompt.question());
    let mut data = serde_json::json!({
        "prompt_hash": prompt.hash,
        "choices": prompt.choices,
        "complete": prompt.doubt.is_none(),
        "source": prompt.source,
        "decidable": prompt.is_decidable,
        "asks": prompt.summary.text,
        "asks_all": prompt.summary.is_all,
        "question": prompt.details,
    });
    if let Some(command) = &prompt.command {
        data["command"] = command.as_str().into();
    }
    content.parts.push(Part { piece: Piece::Data(data), media_type: None, filename: None });
    Body::of(&content)
}
