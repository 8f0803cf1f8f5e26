//! What a wrapped agent said, read off its screen: the last resort for an answer, and marked as such.

use synapse_terminal::text::Typed;
use synapse_terminal::{Screen, Watch};

/// Longest text taken off a screen, characters.
const TEXT_CHARS_MAX: usize = 16_000;
/// How much of a prompt is shown to those who may decide it, rows.
const PROMPT_ROWS: usize = 24;

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

/// The lowest rows of a screen on which something is asked.
pub(super) fn prompt(screen: &Screen) -> String {
    synapse_terminal::rules::lowest(&screen.rows(), PROMPT_ROWS)
}
