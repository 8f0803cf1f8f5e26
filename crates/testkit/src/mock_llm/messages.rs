//! Anthropic's Messages: `POST …/messages`.

use super::{Call, Told, Tool, Voice, event, list, texts};
use serde_json::{Value, json};

pub(super) fn told(body: &Value) -> Told {
    let mut told = Told { streams: body["stream"].as_bool().unwrap_or(false), ..Told::default() };
    for message in list(&body["messages"]).iter().filter(|message| message["role"] == "user") {
        let content = &message["content"];
        let results: Vec<&Value> =
            list(content).iter().filter(|part| part["type"] == "tool_result").collect();
        let mut parts = texts(content);
        if !results.is_empty() {
            // Reminders of the CLI stand beside a result. Anything else is the user, who broke off the turn before.
            parts.retain(|part| !part.starts_with("<system-reminder>"));
        }
        told.results.extend(results.iter().map(|part| texts(&part["content"]).join("\n")));
        if !parts.is_empty() {
            told.said(parts);
        }
    }
    let shape = &body["output_config"]["format"]["schema"];
    told.shape = shape.is_object().then(|| shape.clone());
    told.tools = list(&body["tools"])
        .iter()
        .filter_map(|tool| Some(Tool::new(tool["name"].as_str()?, &tool["input_schema"])))
        .collect();
    told
}

pub(super) struct Out {
    n: usize,
    model: String,
}

impl Out {
    pub fn new(n: usize, model: &str) -> Self {
        Self { n, model: model.to_owned() }
    }

    fn message(&self, content: Value, ending: Option<&str>) -> Value {
        json!({
            "id": format!("msg_{}", self.n), "type": "message", "role": "assistant", "model": self.model,
            "content": content, "stop_reason": ending, "stop_sequence": null,
            "usage": { "input_tokens": 100, "output_tokens": 1 },
        })
    }
}

fn typed(data: Value) -> String {
    event(data["type"].as_str(), &data)
}

fn ending(call: Option<&Call>) -> &'static str {
    if call.is_some() { "tool_use" } else { "end_turn" }
}

impl Voice for Out {
    fn begin(&mut self) -> String {
        let start = json!({ "type": "message_start", "message": self.message(json!([]), None) });
        let block = json!({ "type": "text", "text": "" });
        typed(start) + &typed(json!({ "type": "content_block_start", "index": 0, "content_block": block }))
    }

    fn say(&mut self, text: &str) -> String {
        let delta = json!({ "type": "text_delta", "text": text });
        typed(json!({ "type": "content_block_delta", "index": 0, "delta": delta }))
    }

    fn end(&mut self, call: Option<&Call>) -> String {
        let mut end = typed(json!({ "type": "content_block_stop", "index": 0 }));
        if let Some(call) = call {
            let block = json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": {} });
            let delta = json!({ "type": "input_json_delta", "partial_json": call.arguments.to_string() });
            end += &typed(json!({ "type": "content_block_start", "index": 1, "content_block": block }));
            end += &typed(json!({ "type": "content_block_delta", "index": 1, "delta": delta }));
            end += &typed(json!({ "type": "content_block_stop", "index": 1 }));
        }
        let delta = json!({ "stop_reason": ending(call), "stop_sequence": null });
        end += &typed(json!({ "type": "message_delta", "delta": delta, "usage": { "output_tokens": 20 } }));
        end + &typed(json!({ "type": "message_stop" }))
    }

    fn whole(&mut self, text: &str, call: Option<&Call>) -> Value {
        let mut content = vec![json!({ "type": "text", "text": text })];
        content.extend(call.map(
            |call| json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments }),
        ));
        self.message(Value::Array(content), Some(ending(call)))
    }

    fn error(&self, status: u16) -> Value {
        json!({ "type": "error", "error": { "type": "api_error", "message": format!("mock error {status}") } })
    }
}
