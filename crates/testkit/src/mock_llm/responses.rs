//! OpenAI's Responses: `POST …/responses`.

use super::{Call, Told, Tool, Voice, event, list, texts};
use serde_json::{Value, json};

pub(super) fn told(body: &Value) -> Told {
    let mut told = Told { streams: body["stream"].as_bool().unwrap_or(true), ..Told::default() };
    if let Some(text) = body["input"].as_str() {
        told.parts = vec![text.to_owned()];
    }
    for item in list(&body["input"]) {
        match item["type"].as_str() {
            Some("function_call_output" | "custom_tool_call_output") => {
                let text = texts(&item["output"]);
                told.results.push(if text.is_empty() { item["output"].to_string() } else { text.join("\n") });
            }
            _ if item["role"] == "user" => {
                told.said(texts(&item["content"]));
            }
            _ => {}
        }
    }
    let shape = &body["text"]["format"]["schema"];
    told.shape = shape.is_object().then(|| shape.clone());
    told.tools = list(&body["tools"]).iter().flat_map(tools).collect();
    told
}

/// One tool, or those of one server, which stand together.
fn tools(listed: &Value) -> Vec<Tool> {
    let Some(name) = listed["name"].as_str().or(listed["type"].as_str()) else { return Vec::new() };
    if listed["type"] != "namespace" {
        return vec![Tool::new(name, &listed["parameters"])];
    }
    let inner = list(&listed["tools"]).iter().flat_map(tools);
    inner.map(|tool| Tool { space: Some(name.to_owned()), ..tool }).collect()
}

/// One answer: a message, and perhaps a call after it.
pub(super) struct Out {
    n: usize,
    text: String,
}

impl Out {
    pub fn new(n: usize) -> Self {
        Self { n, text: String::new() }
    }

    fn message(&self, status: &str, content: Value) -> Value {
        let id = format!("msg_{}", self.n);
        json!({ "type": "message", "id": id, "role": "assistant", "status": status, "content": content })
    }

    fn response(&self, status: &str, output: Value) -> Value {
        json!({ "id": format!("resp_{}", self.n), "object": "response", "status": status, "output": output })
    }

    fn called(&self, call: &Call, arguments: &str) -> Value {
        let mut item = json!({
            "type": "function_call", "id": format!("fc_{}", self.n), "call_id": call.id, "name": call.name,
            "arguments": arguments, "status": "completed",
        });
        if let Some(space) = &call.space {
            item["namespace"] = space.as_str().into();
        }
        item
    }

    fn completed(&self, output: Value) -> Value {
        let mut response = self.response("completed", output);
        response["usage"] = json!({
            "input_tokens": 100, "input_tokens_details": { "cached_tokens": 0 },
            "output_tokens": 20, "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": 120,
        });
        response
    }

    fn said(&self) -> Value {
        self.message("completed", json!([{ "type": "output_text", "text": self.text, "annotations": [] }]))
    }
}

/// An event whose name is its type.
fn typed(data: Value) -> String {
    event(data["type"].as_str(), &data)
}

impl Voice for Out {
    fn begin(&mut self) -> String {
        let created =
            json!({ "type": "response.created", "response": self.response("in_progress", json!([])) });
        let item = self.message("in_progress", json!([]));
        let added = json!({ "type": "response.output_item.added", "output_index": 0, "item": item });
        typed(created) + &typed(added)
    }

    fn say(&mut self, text: &str) -> String {
        self.text.push_str(text);
        typed(json!({
            "type": "response.output_text.delta", "item_id": format!("msg_{}", self.n), "output_index": 0,
            "content_index": 0, "delta": text,
        }))
    }

    fn end(&mut self, call: Option<&Call>) -> String {
        let said = self.said();
        let mut end =
            typed(json!({ "type": "response.output_item.done", "output_index": 0, "item": said.clone() }));
        let mut output = vec![said];
        if let Some(call) = call {
            let (empty, item) = (self.called(call, ""), self.called(call, &call.arguments.to_string()));
            end += &typed(json!({ "type": "response.output_item.added", "output_index": 1, "item": empty }));
            end += &typed(
                json!({ "type": "response.output_item.done", "output_index": 1, "item": item.clone() }),
            );
            output.push(item);
        }
        let response = self.completed(Value::Array(output));
        end + &typed(json!({ "type": "response.completed", "response": response }))
    }

    fn whole(&mut self, text: &str, call: Option<&Call>) -> Value {
        self.text = text.to_owned();
        let mut output = vec![self.said()];
        output.extend(call.map(|call| self.called(call, &call.arguments.to_string())));
        self.completed(Value::Array(output))
    }

    fn error(&self, status: u16) -> Value {
        json!({ "error": { "message": format!("mock error {status}"), "type": "server_error", "code": "mock" } })
    }
}
