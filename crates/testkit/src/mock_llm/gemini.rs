//! Google's Gemini: `POST …:streamGenerateContent` and `…:generateContent`.

use super::{Call, Told, Tool, Voice, event, list, texts};
use serde_json::{Value, json};

pub(super) fn told(body: &Value, streams: bool) -> Told {
    let mut told = Told { streams, ..Told::default() };
    let is_users =
        |content: &&Value| content["role"].as_str().is_none_or(|role| role == "user" || role == "function");
    for content in list(&body["contents"]).iter().filter(is_users) {
        let results: Vec<String> = list(&content["parts"])
            .iter()
            .map(|part| &part["functionResponse"])
            .filter(|result| result.is_object())
            .map(|result| {
                let response = &result["response"];
                response["output"].as_str().map_or_else(|| response.to_string(), str::to_owned)
            })
            .collect();
        let parts = texts(&content["parts"]);
        told.results.extend(results);
        if !parts.is_empty() {
            told.said(parts);
        }
    }
    let config = &body["generationConfig"];
    let shapes = [&config["responseJsonSchema"], &config["responseSchema"]];
    told.shape = shapes.into_iter().find(|shape| shape.is_object()).cloned();
    let tools = list(&body["tools"]).iter().flat_map(|tool| list(&tool["functionDeclarations"]));
    told.tools = tools
        .filter_map(|tool| {
            let schema =
                [&tool["parametersJsonSchema"], &tool["parameters"]].into_iter().find(|s| s.is_object());
            Some(Tool::new(tool["name"].as_str()?, schema.unwrap_or(&Value::Null)))
        })
        .collect();
    told
}

pub(super) struct Out;

fn candidate(parts: Value, ending: Option<&str>) -> Value {
    let mut candidate = json!({ "content": { "role": "model", "parts": parts }, "index": 0 });
    if let Some(ending) = ending {
        candidate["finishReason"] = ending.into();
    }
    let usage = json!({ "promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120 });
    json!({ "candidates": [candidate], "usageMetadata": usage, "modelVersion": "mock" })
}

fn called(call: &Call) -> Value {
    json!({ "functionCall": { "id": call.id, "name": call.name, "args": call.arguments } })
}

impl Voice for Out {
    fn begin(&mut self) -> String {
        String::new()
    }

    fn say(&mut self, text: &str) -> String {
        event(None, &candidate(json!([{ "text": text }]), None))
    }

    fn end(&mut self, call: Option<&Call>) -> String {
        let tool = call.map(|call| event(None, &candidate(json!([called(call)]), None))).unwrap_or_default();
        tool + &event(None, &candidate(json!([{ "text": "" }]), Some("STOP")))
    }

    fn whole(&mut self, text: &str, call: Option<&Call>) -> Value {
        let mut parts = vec![json!({ "text": text })];
        parts.extend(call.map(called));
        candidate(Value::Array(parts), Some("STOP"))
    }

    fn error(&self, status: u16) -> Value {
        json!({ "error": { "code": status, "message": format!("mock error {status}"), "status": "INTERNAL" } })
    }
}
