//! Prompts that wait for a person, as every command tells of them: what is asked, and the exact commands that decide it.
//!
//! Not here: all of a question (`approve`), who may decide (the node).

use crate::show;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use synapse_core::agents::AgentState;
use synapse_dialects::terminal::{PromptCommands, PromptRef, PromptView};
use synapse_store::registry::{Entry, PendingPrompt};

/// Rows of a question beside a hint; one that is longer is shown by `synapse approve`.
const ROWS_MAX: usize = 30;

/// A prompt that waits for a person; stable as fields of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Pending {
    /// Such as `asks to run: touch notes.txt`.
    pub asks: String,
    /// The hash that a decision names.
    pub prompt: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approve: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attach: Option<String>,
    /// When people were first told of it; tells it from the one before.
    #[serde(skip)]
    pub told_at_ms: u64,
    /// What has to be read besides `asks`.
    #[serde(skip)]
    question: Option<String>,
}

/// What a task that asks carries if it is a prompt of a terminal.
#[derive(Deserialize)]
struct PromptData {
    prompt_hash: String,
    #[serde(default)]
    asks: String,
    #[serde(default)]
    asks_all: bool,
    #[serde(default)]
    question: String,
    #[serde(default)]
    complete: bool,
    #[serde(default = "yes")]
    decidable: bool,
}

/// Nodes of older versions do not say it.
fn yes() -> bool {
    true
}

impl Pending {
    /// What a running agent waits for, by the registry.
    pub(super) fn of_entry(label: &str, entry: &Entry) -> Option<Self> {
        let pending = entry.pending.as_ref().filter(|_| entry.status == AgentState::Waiting)?;
        let PendingPrompt { asks, asks_all, prompt, complete, decidable, told_at_ms } = pending;
        let named = PromptRef { hash: prompt, is_decidable: *decidable, is_complete: *complete };
        let commands = PromptCommands::new(label, &named, *asks_all);
        Some(Self { told_at_ms: *told_at_ms, ..Self::new(asks, prompt, commands) })
    }

    /// What its node says, for a reader who sees only the one line.
    pub(super) fn of_view(label: &str, view: &PromptView) -> Self {
        Self::new(&view.asks, &view.hash, view.commands(label, view.asks_all))
    }

    /// What a task asks, if that is a prompt of a terminal and not a question of a program.
    pub(super) fn of_task(label: &str, prompt: &Value) -> Option<Self> {
        let parts = prompt.get("content")?.get("parts")?.as_array()?;
        let data = |part: &Value| serde_json::from_value::<PromptData>(part.get("data")?.clone()).ok();
        let data = parts.iter().find_map(data)?;
        let is_short = !data.question.is_empty() && data.question.lines().count() <= ROWS_MAX;
        let named =
            PromptRef { hash: &data.prompt_hash, is_decidable: data.decidable, is_complete: data.complete };
        let commands = PromptCommands::new(label, &named, data.asks_all || is_short);
        let question = (!data.asks_all && is_short).then_some(data.question);
        Some(Self { question, ..Self::new(&data.asks, &data.prompt_hash, commands) })
    }

    fn new(asks: &str, prompt: &str, commands: PromptCommands) -> Self {
        let asks = if asks.is_empty() { "asks for a decision" } else { asks };
        let PromptCommands { approve, deny, attach } = commands;
        let (asks, prompt) = (asks.to_owned(), prompt.to_owned());
        Self { asks, prompt, approve, deny, attach, told_at_ms: 0, question: None }
    }

    /// What it asks for, for a terminal.
    pub(super) fn asks(&self, chars_max: usize) -> String {
        show::cell(&self.asks, chars_max)
    }

    /// The commands that decide it.
    pub(super) fn commands(&self) -> String {
        let Self { approve, deny, attach, .. } = self.clone();
        PromptCommands { approve, deny, attach }.line()
    }

    /// The question and the commands below it.
    pub(super) fn hint(&self, label: &str) -> String {
        let mut lines = vec![format!("{label} {}", self.asks(200))];
        let question = self.question.as_deref().unwrap_or_default();
        lines.extend(question.lines().map(|row| format!("    {}", show::safe(row))));
        lines.push(format!("  {}", self.commands()));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn prompt(asks_all: bool, question: &str) -> Value {
        let data = json!({
            "prompt_hash": "0a", "asks": "asks to run: touch notes.txt", "asks_all": asks_all, "question": question,
            "complete": true, "decidable": true,
        });
        json!({ "text": "all rows", "content": { "parts": [{ "text": "all rows" }, { "data": data }] } })
    }

    /// Finding 3: the hint was `synapse send … --task`, which presses nothing.
    #[test]
    fn hint_has_the_question_and_the_exact_commands() {
        let named = "  synapse approve ana --prompt 0a   or   synapse deny ana --prompt 0a";
        let one = Pending::of_task("ana", &prompt(true, "Bash command\ntouch notes.txt")).unwrap();
        assert_eq!(one.hint("ana"), format!("ana asks to run: touch notes.txt\n{named}"));
        let rows = Pending::of_task("ana", &prompt(false, "Reason: \u{1b}[2J\n$ touch notes.txt")).unwrap();
        let expected = format!(
            "ana asks to run: touch notes.txt\n    Reason: \u{fffd}[2J\n    $ touch notes.txt\n{named}"
        );
        assert_eq!(rows.hint("ana"), expected);
        let long = Pending::of_task("ana", &prompt(false, &"row\n".repeat(ROWS_MAX + 1))).unwrap();
        let shows_first = "  synapse approve ana   or   synapse deny ana --prompt 0a";
        assert_eq!(long.hint("ana"), format!("ana asks to run: touch notes.txt\n{shows_first}"));
        let question = json!({ "text": "which?", "content": { "parts": [{ "text": "which?" }] } });
        assert_eq!(
            Pending::of_task("ana", &question),
            None,
            "a program's own question is answered by a message"
        );
    }
}
