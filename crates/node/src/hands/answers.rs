//! The answer of a wrapped agent: what its program reported, or else the text on its screen.
//!
//! Text from a screen is the last resort and marked as such. If something may be missing, the
//! answer says so in its text and its metadata.

use synapse_core::message::{Body, Content, Part, Piece};
use synapse_terminal::Watch;
use synapse_terminal::hooks::{TEXT_BYTES_MAX, Text};
use synapse_terminal::prompt::Prompt;
use synapse_terminal::session_log::LoggedTurn;
use synapse_terminal::text::Typed;

/// The longest text taken from a screen, in characters.
const TEXT_CHARS_MAX: usize = 64_000;

/// The answer of a turn.
pub(super) struct TurnAnswer {
    pub text: String,
    /// `hook`, `server`, `log`, `screen` or `acp`.
    pub source: &'static str,
    /// Whether the text is complete, as far as is known.
    pub complete: bool,
}

impl TurnAnswer {
    pub(super) fn into_body(self) -> Body {
        let mut content = Content::text(self.text);
        content.metadata.insert("source".into(), self.source.into());
        content.metadata.insert("complete".into(), self.complete.into());
        Body::of(&content)
    }
}

/// Returns the answer that the program reported.
pub(super) fn told(answer: &Text, source: &'static str) -> TurnAnswer {
    let mut text = answer.text.clone();
    if !answer.is_whole() {
        text.push_str(&format!("\n[cut: the answer has {} bytes]", answer.bytes));
    }
    TurnAnswer { text, source, complete: answer.is_whole() }
}

/// Returns the answer found in the program's session log.
pub(super) fn logged(turn: LoggedTurn) -> TurnAnswer {
    let LoggedTurn { answer: mut text, is_final } = turn;
    let bytes = text.len() as u64;
    text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    let mut answer = told(&Text { text, bytes }, "log");
    if !is_final {
        answer.text.push_str("\n[the turn ended before the model said more]");
        answer.complete = false;
    }
    answer
}

/// Returns the text below our message and above the composer, from the screen and the scrollback.
pub(super) fn on_screen(watch: &Watch, typed: &Typed) -> TurnAnswer {
    let rows = watch.conversation();
    let bones = |text: &str| -> String { text.chars().filter(|c| !c.is_whitespace()).collect() };
    let (header, ours) = (bones(typed.header()), bones(typed.as_str()));
    let header_at = rows.iter().rposition(|row| bones(row).contains(&header));
    let begins = header_at.map_or(0, |at| at + 1);
    // The rest of our own message, wrapped.
    let own =
        rows[begins..].iter().take_while(|row| !row.trim().is_empty() && ours.contains(&bones(row))).count();
    let said: Vec<&str> = rows[begins + own..].iter().map(|row| row.trim_end()).collect();
    // The borders of our own message above, and of the composer below.
    let first = said.iter().position(|row| !is_border(row)).unwrap_or(said.len());
    let end = said.iter().rposition(|row| !is_border(row)).map_or(first, |last| last + 1);
    let said = said[first..end].join("\n");
    let said = said.trim_matches('\n');
    let mut text: String = said.chars().take(TEXT_CHARS_MAX).collect();
    let is_cut = text.len() < said.len();
    if is_cut {
        text.push_str("\n[cut: the rest is on its screen]");
    }
    if header_at.is_none() {
        text.insert_str(0, "[the beginning may be missing: the question is no longer on its screen]\n");
    }
    TurnAnswer { text, source: "screen", complete: header_at.is_some() && !is_cut }
}

/// Whether a row is blank or has only lines that programs draw around what they show.
fn is_border(row: &str) -> bool {
    row.chars().all(|c| c.is_whitespace() || ('\u{2500}'..='\u{259f}').contains(&c))
}

/// Formats a prompt for those who may decide it: the question, and the hash that a decision must
/// carry.
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

#[cfg(test)]
mod tests {
    use super::*;
    use synapse_core::ids::Timestamp;
    use synapse_terminal::{SCROLLBACK, Size, profile};

    fn shows(text: &str) -> TurnAnswer {
        let profile = profile::shipped("generic").expect("a profile");
        let mut watch = Watch::new(Timestamp(0), profile, Size::new(80, 24), SCROLLBACK);
        drop(watch.output(Timestamp(1), text.replace('\n', "\r\n").as_bytes()));
        on_screen(&watch, &Typed::new("[A2A:0b78765b:user]", "tell me all"))
    }

    /// Defect J: of a long answer only the last screen was taken, without any indication.
    #[test]
    fn long_answer_is_whole_or_says_that_it_is_not() {
        let lines = |n: usize| (1..=n).map(|n| format!("line {n}\n")).collect::<String>();
        let whole = shows(&format!("> [A2A:0b78765b:user] tell me all\n\n{}", lines(300)));
        assert!(whole.complete && whole.text.starts_with("line 1\n"), "{}", whole.text);
        assert!(whole.text.ends_with("line 300"), "{}", whole.text);
        let cut = shows(&lines(300));
        assert!(!cut.complete && cut.text.starts_with("[the beginning may be missing"), "{}", cut.text);
        let lost = shows(&format!("> [A2A:0b78765b:user] tell me all\n\n{}", lines(SCROLLBACK + 100)));
        assert!(!lost.complete && lost.text.ends_with(&format!("line {}", SCROLLBACK + 100)));
    }

    /// Seen with pi: the line above its composer was the end of each answer.
    #[test]
    fn borders_around_an_answer_are_not_part_of_it() {
        let framed = shows(
            "╭──────╮\n│ [A2A:0b78765b:user] tell me all │\n╰──────╯\n\nready\n───\nas ever\n\n────────\n  ╭──────╮\n",
        );
        assert_eq!((framed.text.as_str(), framed.complete), ("ready\n───\nas ever", true));
        assert_eq!(shows("[A2A:0b78765b:user] tell me all\n\n────\n").text, "");
    }

    #[test]
    fn answer_of_a_log_says_what_may_be_missing() {
        let turn = |answer: &str, is_final| logged(LoggedTurn { answer: answer.into(), is_final });
        let whole = turn("all", true);
        assert!(whole.complete && whole.text == "all" && whole.source == "log");
        let begun = turn("looking", false);
        assert!(!begun.complete && begun.text.contains("ended before"), "{}", begun.text);
        let long = turn(&"é".repeat(TEXT_BYTES_MAX), true);
        assert!(!long.complete && long.text.ends_with(&format!("has {} bytes]", 2 * TEXT_BYTES_MAX)));
    }

    #[test]
    fn cut_text_of_a_hook_says_so() {
        let whole = told(&Text { text: "all".into(), bytes: 3 }, "hook");
        assert!(whole.complete && whole.text == "all");
        let cut = told(&Text { text: "some".into(), bytes: 9_000 }, "server");
        assert!(!cut.complete && cut.text.contains("9000 bytes"), "{}", cut.text);
    }
}
