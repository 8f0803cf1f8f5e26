//! OpenAI's Chat Completions, which many others speak too: `POST …/chat/completions`.

use super::{Call, Told, Tool, Voice, event, list, texts};
use serde_json::{Value, json};

pub(super) fn told(body: &Value) -> Told {
    let mut told = Told { streams: body["stream"].as_bool().unwrap_or(false), ..Told::default() };
    told.is_plain = body["model"].as_str().is_some_and(|model| model == PLAIN);
    for message in list(&body["messages"]) {
        match message["role"].as_str() {
            Some("tool") => told.results.push(texts(&message["content"]).join("\n")),
            Some("user") => {
                told.said(texts(&message["content"]).iter().flat_map(|text| blocks(text)).collect());
            }
            _ => {}
        }
    }
    let shape = &body["response_format"]["json_schema"]["schema"];
    told.shape = shape.is_object().then(|| shape.clone());
    let tools = list(&body["tools"]).iter().map(|tool| &tool["function"]);
    told.tools =
        tools.filter_map(|tool| Some(Tool::new(tool["name"].as_str()?, &tool["parameters"]))).collect();
    told
}

/// A model that is asked without tools, as Aider does: commands stand in its answers as text.
const PLAIN: &str = "plain";

/// What a CLI adds to a text, between tags, apart from the text: `<current_datetime>…</current_datetime>` of Copilot.
fn blocks(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(end) = block_end(rest) {
        parts.push(rest[..end].to_owned());
        rest = rest[end..].trim_start_matches('\n');
    }
    let last = rest.rfind("\n\n<").filter(|at| block_end(&rest[at + 2..]) == Some(rest.len() - at - 2));
    parts.push(rest[..last.unwrap_or(rest.len())].to_owned());
    parts.extend(last.map(|at| rest[at + 2..].to_owned()));
    parts
}

/// Where a block ends that a text begins with.
fn block_end(text: &str) -> Option<usize> {
    let (tag, _) = text.strip_prefix('<')?.split_once('>')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let close = format!("</{tag}>");
    let found = text.find(&close).filter(|_| !tag.is_empty() && tag.chars().all(is_name))?;
    Some(found + close.len())
}

pub(super) struct Out {
    n: usize,
    model: String,
}

impl Out {
    pub fn new(n: usize, model: &str) -> Self {
        Self { n, model: model.to_owned() }
    }

    fn chunk(&self, delta: Value, ending: Option<&str>) -> String {
        self.piece(json!([{ "index": 0, "delta": delta, "finish_reason": ending }]), &json!(null))
    }

    fn piece(&self, choices: Value, usage: &Value) -> String {
        let mut data = self.head("chat.completion.chunk", choices);
        if !usage.is_null() {
            data["usage"] = usage.clone();
        }
        event(None, &data)
    }

    fn head(&self, object: &str, choices: Value) -> Value {
        json!({
            "id": format!("chat_{}", self.n), "object": object, "created": 1, "model": self.model, "choices": choices,
        })
    }
}

fn usage() -> Value {
    json!({ "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120 })
}

fn called(call: &Call) -> Value {
    let function = json!({ "name": call.name, "arguments": call.arguments.to_string() });
    json!({ "index": 0, "id": call.id, "type": "function", "function": function })
}

fn ending(call: Option<&Call>) -> &'static str {
    if call.is_some() { "tool_calls" } else { "stop" }
}

impl Voice for Out {
    fn begin(&mut self) -> String {
        self.chunk(json!({ "role": "assistant", "content": "" }), None)
    }

    fn say(&mut self, text: &str) -> String {
        self.chunk(json!({ "content": text }), None)
    }

    fn end(&mut self, call: Option<&Call>) -> String {
        let tool =
            call.map(|call| self.chunk(json!({ "tool_calls": [called(call)] }), None)).unwrap_or_default();
        let end = self.chunk(json!({}), Some(ending(call)));
        tool + &end + &self.piece(json!([]), &usage()) + "data: [DONE]\n\n"
    }

    fn whole(&mut self, text: &str, call: Option<&Call>) -> Value {
        let mut message = json!({ "role": "assistant", "content": text });
        if let Some(call) = call {
            message["tool_calls"] = json!([called(call)]);
        }
        let choices = json!([{ "index": 0, "message": message, "finish_reason": ending(call) }]);
        let mut whole = self.head("chat.completion", choices);
        whole["usage"] = usage();
        whole
    }

    fn error(&self, status: u16) -> Value {
        json!({ "error": { "message": format!("mock error {status}"), "type": "server_error", "code": "mock" } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cli_adds_is_a_part_of_its_own() {
        for (text, parts) in [
            ("hello", &["hello"][..]),
            ("<now>1</now>\n\nhello", &["<now>1</now>", "hello"]),
            ("<now>1</now>\n\nhello\n\n<note>\na\n</note>", &["<now>1</now>", "hello", "<note>\na\n</note>"]),
            ("a <b>c</b>", &["a <b>c</b>"]),
            ("<a> is open", &["<a> is open"]),
        ] {
            assert_eq!(blocks(text), parts, "{text}");
        }
    }
}
