//! A permission request of an ACP program: how people see it, and which option a decision selects.
//!
//! Invariant: nothing is allowed permanently, and nothing is allowed that its approver could not
//! read. An option is selected by its kind, `allow_once` or `reject_once`, never by its name or
//! position. Denying is always possible.
//! Not here: when it is asked (`session`), who may decide (`crate::decide`).

use serde_json::Value;
use synapse_core::ids::Timestamp;
use synapse_core::invisible::revealed;
use synapse_core::message::{Body, Content, Part, Piece};
use synapse_dialects::acp::{PermissionOption, PermissionRequest, RequestId, ToolCall, decision};
use synapse_dialects::terminal::PromptView;
use synapse_dialects::time;
use synapse_store::registry::PendingPrompt;
use synapse_terminal::prompt::hash_of;
use synapse_terminal::summary::one_line;

/// The longest question shown. A longer one can be denied but not approved.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// The maximum number of options shown.
const OPTIONS_MAX: usize = 16;
const OPTION_ID_BYTES_MAX: usize = 1_024;

/// A question of the program, and how to answer it.
#[derive(Debug, Clone)]
pub(super) struct Question {
    id: RequestId,
    allow: Result<String, String>,
    deny: Option<String>,
    pub(super) view: PromptView,
    since: Timestamp,
}

impl Question {
    /// `number` distinguishes it from every other question of this program.
    pub(super) fn new(now: Timestamp, number: u64, id: RequestId, request: &PermissionRequest) -> Self {
        let tool = &request.tool_call;
        let command = command_of(tool);
        let (asks, asks_all) = summary(tool, command.as_deref());
        let question = details(tool);
        let is_cut = question.len() > TEXT_BYTES_MAX;
        let question = question[..question.floor_char_boundary(TEXT_BYTES_MAX)].to_owned();
        let choices: Vec<String> =
            request.options.iter().take(OPTIONS_MAX).map(|option| one_line(&option.name).0).collect();
        let allow = once(&request.options, "allow_once");
        let doubt = match (&allow, is_cut) {
            (Ok(_), false) => None,
            (Ok(_), true) => Some("the question is too long to be shown".to_owned()),
            (Err(why), _) => Some(why.clone()),
        };
        let answers: String = choices.iter().map(|name| format!("\n- {name}")).collect();
        let text = format!("{question}\nit offers:{answers}");
        let hash = hash_of(&[&now.0.to_string(), &number.to_string(), &text]);
        let view = PromptView {
            hash,
            text,
            choices,
            since: time::show(now),
            decidable: true,
            complete: doubt.is_none(),
            doubt,
            command: command.filter(|_| !is_cut),
            source: "acp".into(),
            asks,
            asks_all: asks_all && !is_cut,
            question,
        };
        let deny = once(&request.options, "reject_once").ok();
        Self { id, allow, deny, view, since: now }
    }

    /// Returns the line that allows or denies it, or why it must not be allowed from here.
    pub(super) fn answer(&self, allow: bool) -> Result<String, String> {
        if allow && let Some(doubt) = &self.view.doubt {
            return Err(doubt.clone());
        }
        let option = match allow {
            true => Some(self.allow.clone()?),
            // A program without a `reject_once` option gets the outcome `cancelled`.
            false => self.deny.clone(),
        };
        Ok(self.id.answer(&decision(option.as_deref())))
    }

    /// Returns the line that withdraws the question undecided.
    pub(super) fn withdraw(&self) -> String {
        self.id.answer(&decision(None))
    }

    /// Returns the question as the registry shows it.
    pub(super) fn pending(&self) -> PendingPrompt {
        PendingPrompt {
            asks: self.view.asks.clone(),
            asks_all: self.view.asks_all,
            prompt: self.view.hash.clone(),
            complete: self.view.complete,
            decidable: self.view.decidable,
            told_at_ms: self.since.0,
        }
    }

    /// Returns the question as the requester of the task sees it, with the hash that a decision
    /// must carry.
    pub(super) fn body(&self) -> Body {
        let view = &self.view;
        let mut text = view.text.clone();
        if let Some(doubt) = &view.doubt {
            text.push_str(&format!("\n\nnot to be approved from here: {doubt}"));
        }
        let mut content = Content::text(text);
        let mut data = serde_json::json!({
            "prompt_hash": view.hash,
            "choices": view.choices,
            "complete": view.complete,
            "source": view.source,
            "decidable": view.decidable,
            "asks": view.asks,
            "asks_all": view.asks_all,
            "question": view.question,
        });
        if let Some(command) = &view.command {
            data["command"] = command.as_str().into();
        }
        content.parts.push(Part { piece: Piece::Data(data), media_type: None, filename: None });
        Body::of(&content)
    }
}

/// Returns the only option of this kind. Its id must be unique: if two options share an id, the
/// program may take the other one.
fn once(options: &[PermissionOption], kind: &str) -> Result<String, String> {
    let mut of_kind = options.iter().filter(|option| option.kind == kind);
    let offered = || {
        let all: Vec<String> = options
            .iter()
            .take(OPTIONS_MAX)
            .map(|option| format!("{} ({})", one_line(&option.name).0, one_line(&option.kind).0))
            .collect();
        if all.is_empty() { "nothing".to_owned() } else { all.join(", ") }
    };
    match (of_kind.next(), of_kind.next()) {
        (None, _) => Err(format!("its program offers no answer of the kind {kind}, only: {}", offered())),
        (Some(_), Some(_)) => {
            Err(format!("its program offers several answers of the kind {kind}: {}", offered()))
        }
        (Some(one), None) => {
            if one.option_id.len() > OPTION_ID_BYTES_MAX {
                return Err(format!("its program offers an answer of the kind {kind} with a huge id"));
            }
            let is_alone = options.iter().filter(|option| option.option_id == one.option_id).count() == 1;
            if is_alone {
                Ok(one.option_id.clone())
            } else {
                Err(format!("its program gives several answers the same id: {}", offered()))
            }
        }
    }
}

/// Returns the command to be run, if the program reports it separately.
fn command_of(tool: &ToolCall) -> Option<String> {
    match tool.raw_input.as_ref()?.get("command")? {
        Value::String(command) => Some(command.clone()),
        Value::Array(words) => {
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            words.map(|words| words.join(" "))
        }
        _ => None,
    }
}

/// Summarizes the request in one line, and returns whether that line is complete.
fn summary(tool: &ToolCall, command: Option<&str>) -> (String, bool) {
    let kind = tool.kind.as_deref().unwrap_or_default();
    let title = tool.title.as_deref().unwrap_or_default();
    let verb = match kind {
        "execute" => "asks to run",
        "edit" => "asks to edit",
        "delete" => "asks to delete",
        "move" => "asks to move",
        "fetch" => "asks to fetch",
        _ if command.is_some() => "asks to run",
        _ => "asks",
    };
    let (line, is_whole) = one_line(command.unwrap_or(title));
    let only = match (&tool.raw_input, command) {
        (Some(Value::Object(fields)), Some(_)) => fields.len() == 1,
        (Some(_), _) => false,
        (None, _) => true,
    };
    let has_more = tool.content.as_ref().is_some_and(|content| !content.is_empty());
    let repeats = command.is_none_or(|command| title.is_empty() || title == command);
    if line.is_empty() {
        return ("asks for a decision".to_owned(), false);
    }
    (format!("{verb}: {line}"), is_whole && only && !has_more && repeats)
}

/// Returns everything the program reports about the request.
fn details(tool: &ToolCall) -> String {
    let mut all = Vec::new();
    let title = tool.title.as_deref().unwrap_or("(no title)");
    match &tool.kind {
        Some(kind) => all.push(format!("{kind}: {title}")),
        None => all.push(title.to_owned()),
    }
    if let Some(input) = tool.raw_input.as_ref().filter(|input| !input.is_null()) {
        all.push(serde_json::to_string_pretty(input).unwrap_or_default());
    }
    all.extend(tool.content.iter().flatten().map(content));
    revealed(&all.join("\n"))
}

/// Formats content: text as it is, a file change as both of its sides, anything else as JSON.
fn content(item: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match item["type"].as_str() {
        Some("content") if item["content"]["type"] == "text" => text(&item["content"]["text"]),
        Some("diff") => {
            let lines = |mark: char, side: &Value| -> String {
                text(side).lines().map(|line| format!("\n{mark} {line}")).collect()
            };
            let (old, new) = (lines('-', &item["oldText"]), lines('+', &item["newText"]));
            format!("changes {}{old}{new}", text(&item["path"]))
        }
        _ => item.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use synapse_dialects::acp::FromProgram;

    fn question(number: u64, params: Value) -> Question {
        let line = json!({ "id": 7, "method": "session/request_permission" }).to_string();
        let Ok(FromProgram::Request { id, .. }) = FromProgram::read(line.as_bytes()) else {
            panic!("{line}")
        };
        Question::new(Timestamp(1), number, id, &serde_json::from_value(params).unwrap())
    }

    fn asks(tool: Value, kinds: &[&str]) -> Question {
        let options: Vec<Value> = kinds
            .iter()
            .enumerate()
            .map(|(n, kind)| json!({ "optionId": format!("o{n}"), "name": format!("n{n}"), "kind": kind }))
            .collect();
        question(1, json!({ "sessionId": "s", "toolCall": tool, "options": options }))
    }

    fn chosen(line: &str) -> Value {
        let line: Value = serde_json::from_str(line).unwrap();
        line["result"]["outcome"]["optionId"].clone()
    }

    const BOTH: [&str; 3] = ["allow_always", "allow_once", "reject_once"];

    #[test]
    fn options_count_by_their_kind_and_nothing_is_allowed_for_good() {
        let tool = json!({ "title": "ls", "kind": "execute" });
        let both = asks(tool.clone(), &BOTH);
        assert_eq!(chosen(&both.answer(true).unwrap()), "o1");
        assert_eq!(chosen(&both.answer(false).unwrap()), "o2");
        for kinds in
            [&["allow_always", "reject_always"][..], &[], &["allow_once", "allow_once"], &["yes", "no"]]
        {
            let other = asks(tool.clone(), kinds);
            assert!(!other.view.complete && other.answer(true).is_err(), "{kinds:?}");
            let denied = other.answer(false).unwrap();
            assert!(denied.contains(r#""outcome":"cancelled""#), "{kinds:?}: {denied}");
        }
        let same = json!([
            { "optionId": "x", "name": "always", "kind": "allow_always" },
            { "optionId": "x", "name": "once", "kind": "allow_once" },
        ]);
        let same = question(1, json!({ "sessionId": "s", "toolCall": tool.clone(), "options": same }));
        assert!(same.answer(true).unwrap_err().contains("same id"));
        let huge = json!([{ "optionId": "x".repeat(2_000), "name": "once", "kind": "allow_once" }]);
        let huge = question(1, json!({ "sessionId": "s", "toolCall": tool, "options": huge }));
        assert!(huge.answer(true).unwrap_err().contains("huge id"));
    }

    #[test]
    fn summary_says_what_is_asked_and_whether_that_is_all() {
        let table = [
            (json!({ "title": "touch a", "kind": "execute" }), "asks to run: touch a", true),
            (
                json!({ "title": "bash", "rawInput": { "command": "rm -rf /" } }),
                "asks to run: rm -rf /",
                false,
            ),
            (json!({ "rawInput": { "command": ["rm", "a"] } }), "asks to run: rm a", true),
            (json!({ "rawInput": { "command": "rm a", "cwd": "/" } }), "asks to run: rm a", false),
            (json!({ "title": "a.txt", "kind": "edit", "content": [{}] }), "asks to edit: a.txt", false),
            (json!({ "title": "two\nlines", "kind": "execute" }), "asks to run: two…", false),
            (json!({ "title": "Search" }), "asks: Search", true),
            (json!({}), "asks for a decision", false),
        ];
        for (tool, asked, all) in table {
            let question = asks(tool.clone(), &BOTH);
            assert_eq!((question.view.asks.as_str(), question.view.asks_all), (asked, all), "{tool}");
        }
    }

    #[test]
    fn approver_reads_all_of_it_or_cannot_approve() {
        let diff = json!({ "type": "diff", "path": "/a", "oldText": "x", "newText": "y\nz" });
        let text = json!({ "type": "content", "content": { "type": "text", "text": "why\u{1b}[2J" } });
        let edit = asks(json!({ "title": "a", "kind": "edit", "content": [diff, text] }), &BOTH);
        for part in ["edit: a", "changes /a", "- x", "+ y\n+ z", "why\u{fffd}[2J", "- n1"] {
            assert!(edit.view.text.contains(part), "{part}: {}", edit.view.text);
        }
        let long = asks(json!({ "title": "a".repeat(TEXT_BYTES_MAX + 1), "kind": "execute" }), &BOTH);
        assert!(!long.view.complete && long.view.text.len() < TEXT_BYTES_MAX + 1_000);
        assert!(long.answer(true).unwrap_err().contains("too long"));
        assert!(long.answer(false).is_ok());
    }

    #[test]
    fn the_same_question_asked_again_is_another() {
        let params = json!({ "sessionId": "s", "toolCall": {}, "options": [] });
        assert_ne!(question(1, params.clone()).view.hash, question(2, params).view.hash);
    }
}
