//! Version 0.3 for callers: requests of 1.0 as 0.3 writes them, and its answers as 1.0 would (L1, L2).
//!
//! Both of its JSON forms are read: that of JSON-RPC, with `kind`, and that of HTTP+JSON, which is of its proto.
//!
//! Not here: 0.3 for those who call us.

use super::card::Binding;
use serde_json::{Map, Value, json};

/// What JSON-RPC calls an operation.
pub(super) fn method(of_10: &str) -> &'static str {
    match of_10 {
        "SendMessage" => "message/send",
        "SendStreamingMessage" => "message/stream",
        "GetTask" => "tasks/get",
        "CancelTask" => "tasks/cancel",
        "SubscribeToTask" => "tasks/resubscribe",
        "GetExtendedAgentCard" => "agent/getAuthenticatedExtendedCard",
        _ => "tasks/list",
    }
}

/// The parameters of a request. Only those of a message differ.
pub(super) fn params(binding: Binding, mut of_10: Value) -> Value {
    let Some(request) = of_10.as_object_mut() else { return of_10 };
    request.remove("tenant");
    if let Some(configuration) = request.get_mut("configuration").and_then(Value::as_object_mut) {
        let returns = configuration.remove("returnImmediately") == Some(Value::Bool(true));
        configuration.insert("blocking".into(), (!returns).into());
    }
    let Some(message) = request.get_mut("message").and_then(Value::as_object_mut) else { return of_10 };
    let parts = match message.remove("parts") {
        Some(Value::Array(parts)) => parts,
        _ => Vec::new(),
    };
    match binding {
        Binding::JsonRpc => {
            message.insert("kind".into(), "message".into());
            message.insert("role".into(), "user".into());
            message.insert("parts".into(), parts.iter().map(part_with_kind).collect());
        }
        Binding::HttpJson => {
            message.insert("content".into(), parts.iter().map(part_of_proto).collect());
        }
    }
    of_10
}

fn part_with_kind(part: &Value) -> Value {
    let mut made = match content(part) {
        ("text", text) => json!({ "kind": "text", "text": text }),
        ("data", data) => json!({ "kind": "data", "data": object(data) }),
        (name, inside) => {
            let mut file = named(part, "mimeType", "name");
            file.insert(if name == "raw" { "bytes" } else { "uri" }.into(), inside.clone());
            json!({ "kind": "file", "file": file })
        }
    };
    if let Some(metadata) = part.get("metadata") {
        made["metadata"] = metadata.clone();
    }
    made
}

fn part_of_proto(part: &Value) -> Value {
    match content(part) {
        ("text", text) => json!({ "text": text }),
        ("data", data) => json!({ "data": { "data": object(data) } }),
        (name, inside) => {
            let mut file = named(part, "mimeType", "name");
            let name = if name == "raw" { "fileWithBytes" } else { "fileWithUri" };
            file.insert(name.into(), inside.clone());
            json!({ "file": file })
        }
    }
}

fn content(part: &Value) -> (&'static str, &Value) {
    let found = ["text", "raw", "url", "data"].into_iter().find_map(|name| Some((name, part.get(name)?)));
    found.unwrap_or(("text", &Value::Null))
}

/// 0.3 has only objects as data.
fn object(data: &Value) -> Value {
    if data.is_object() { data.clone() } else { json!({ "value": data }) }
}

fn named(part: &Value, media: &str, name: &str) -> Map<String, Value> {
    let pairs = [("mediaType", media), ("filename", name)];
    pairs.into_iter().filter_map(|(from, to)| Some((to.to_owned(), part.get(from)?.clone()))).collect()
}

/// An answer to a message, or an event of a stream: what it holds, under the name that 1.0 has for it.
pub(super) fn response(of_03: Value) -> Value {
    match of_03.get("kind").and_then(Value::as_str) {
        Some("task") => json!({ "task": task(of_03) }),
        Some("message") => json!({ "message": message(&of_03) }),
        Some("status-update") => json!({ "statusUpdate": task(of_03) }),
        Some("artifact-update") => json!({ "artifactUpdate": task(of_03) }),
        _ => {
            let Value::Object(fields) = of_03 else { return of_03 };
            let inside = |(name, value): (String, Value)| match name.as_str() {
                "task" | "statusUpdate" | "artifactUpdate" => (name, task(value)),
                "message" | "msg" => ("message".to_owned(), message(&value)),
                _ => (name, value),
            };
            Value::Object(fields.into_iter().map(inside).collect())
        }
    }
}

/// A task, or what is told of one.
pub(super) fn task(of_03: Value) -> Value {
    let Value::Object(mut fields) = of_03 else { return of_03 };
    fields.remove("kind");
    fields.remove("final");
    if let Some(status) = fields.get_mut("status").and_then(Value::as_object_mut) {
        if let Some(word) = status.get_mut("state") {
            *word = state(word.as_str().unwrap_or_default()).into();
        }
        let told = status.remove("message").or_else(|| status.remove("update")).filter(Value::is_object);
        if let Some(told) = told {
            status.insert("message".into(), message(&told));
        }
    }
    if let Some(history) = fields.get_mut("history").and_then(Value::as_array_mut) {
        history.iter_mut().for_each(|one| *one = message(one));
    }
    if let Some(artifacts) = fields.get_mut("artifacts").and_then(Value::as_array_mut) {
        artifacts.iter_mut().for_each(|one| *one = artifact(one.take()));
    }
    if let Some(one) = fields.get_mut("artifact") {
        *one = artifact(one.take());
    }
    Value::Object(fields)
}

fn state(word: &str) -> String {
    match word {
        "" | "unknown" => "TASK_STATE_UNSPECIFIED".to_owned(),
        "TASK_STATE_CANCELLED" | "cancelled" => "TASK_STATE_CANCELED".to_owned(),
        word if word.starts_with("TASK_STATE_") => word.to_owned(),
        word => format!("TASK_STATE_{}", word.to_ascii_uppercase().replace('-', "_")),
    }
}

fn artifact(of_03: Value) -> Value {
    let Value::Object(mut fields) = of_03 else { return of_03 };
    parts_of(&mut fields);
    Value::Object(fields)
}

fn message(of_03: &Value) -> Value {
    let Value::Object(mut fields) = of_03.clone() else { return of_03.clone() };
    fields.remove("kind");
    if let Some(role) = fields.get_mut("role") {
        let word = role.as_str().unwrap_or_default().to_owned();
        *role = match word.as_str() {
            "user" => "ROLE_USER".into(),
            "agent" => "ROLE_AGENT".into(),
            _ => word.into(),
        };
    }
    parts_of(&mut fields);
    Value::Object(fields)
}

fn parts_of(fields: &mut Map<String, Value>) {
    let parts = fields.remove("parts").or_else(|| fields.remove("content"));
    if let Some(Value::Array(parts)) = parts {
        fields.insert("parts".into(), parts.into_iter().map(part).collect());
    }
}

fn part(of_03: Value) -> Value {
    let Value::Object(mut fields) = of_03 else { return of_03 };
    fields.remove("kind");
    if let Some(Value::Object(file)) = fields.remove("file") {
        let names = [
            ("bytes", "raw"),
            ("fileWithBytes", "raw"),
            ("uri", "url"),
            ("fileWithUri", "url"),
            ("mimeType", "mediaType"),
            ("name", "filename"),
        ];
        for (from, to) in names {
            if let Some(value) = file.get(from).filter(|value| !value.is_null()) {
                fields.insert(to.into(), value.clone());
            }
        }
    }
    // In its proto, data is wrapped once more.
    if let Some(inner) =
        fields.get("data").and_then(|data| data.get("data")).filter(|inner| inner.is_object())
    {
        let is_wrapped = fields["data"].as_object().is_some_and(|data| data.len() == 1);
        if is_wrapped {
            let inner = inner.clone();
            fields.insert("data".into(), inner);
        }
    }
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use synapse_a2a::pb;
    use synapse_a2a::wire::from_json;

    #[test]
    fn a_message_as_each_binding_of_03_has_it() {
        let request = json!({
            "tenant": "t",
            "message": { "messageId": "m", "role": "ROLE_USER", "taskId": "t1", "parts": [
                { "text": "hi" },
                { "raw": "AAE=", "mediaType": "image/png", "filename": "a.png" },
                { "url": "https://a/b" },
                { "data": [1] },
            ]},
            "configuration": { "returnImmediately": true, "historyLength": 3 },
        });
        let told = params(Binding::JsonRpc, request.clone());
        assert_eq!(
            told,
            json!({
                "message": { "kind": "message", "messageId": "m", "role": "user", "taskId": "t1", "parts": [
                    { "kind": "text", "text": "hi" },
                    { "kind": "file", "file": { "bytes": "AAE=", "mimeType": "image/png", "name": "a.png" } },
                    { "kind": "file", "file": { "uri": "https://a/b" } },
                    { "kind": "data", "data": { "value": [1] } },
                ]},
                "configuration": { "blocking": false, "historyLength": 3 },
            })
        );
        let told = params(Binding::HttpJson, request);
        assert_eq!(told["message"]["role"], "ROLE_USER");
        assert_eq!(told["message"]["content"][1]["file"]["fileWithBytes"], "AAE=");
        assert_eq!(told["message"]["content"][3], json!({ "data": { "data": { "value": [1] } } }));
        assert_eq!(params(Binding::JsonRpc, json!({ "id": "t" })), json!({ "id": "t" }));
    }

    /// L2: both forms of an answer are read into the types of 1.0.
    #[test]
    fn answers_of_03_are_read_as_those_of_10() {
        let of_rpc = json!({ "kind": "task", "id": "t", "contextId": "c",
            "status": { "state": "input-required", "timestamp": "2026-01-01T00:00:00+00:00",
                "message": { "kind": "message", "messageId": "q", "role": "agent", "parts": [{ "kind": "text", "text": "which?" }] } },
            "history": [{ "kind": "message", "messageId": "m", "role": "user", "parts": [{ "kind": "data", "data": { "a": 1 } }] }],
            "artifacts": [{ "artifactId": "a", "parts": [{ "kind": "file", "file": { "bytes": "AAE=", "name": "x" } }] }] });
        let of_proto = json!({ "task": { "id": "t", "contextId": "c",
            "status": { "state": "TASK_STATE_INPUT_REQUIRED", "timestamp": "2026-01-01T00:00:00Z",
                "update": { "messageId": "q", "role": "ROLE_AGENT", "content": [{ "text": "which?" }] } },
            "history": [{ "messageId": "m", "role": "ROLE_USER", "content": [{ "data": { "data": { "a": 1 } } }] }],
            "artifacts": [{ "artifactId": "a", "parts": [{ "file": { "fileWithBytes": "AAE=", "name": "x" } }] }] } });
        let read = |value: Value| from_json::<pb::StreamResponse>(response(value)).unwrap();
        assert_eq!(read(of_rpc.clone()), read(of_proto));
        let task: pb::Task = from_json(task(of_rpc)).unwrap();
        assert_eq!(task.status.unwrap().state(), pb::TaskState::InputRequired);
    }

    #[test]
    fn events_of_03_are_read_as_those_of_10() {
        let read = |value: Value| from_json::<pb::StreamResponse>(response(value)).unwrap().payload.unwrap();
        use pb::stream_response::Payload;
        let table = [
            ("canceled", pb::TaskState::Canceled),
            ("cancelled", pb::TaskState::Canceled),
            ("auth-required", pb::TaskState::AuthRequired),
            ("unknown", pb::TaskState::Unspecified),
            ("working", pb::TaskState::Working),
        ];
        for (word, state) in table {
            let event = json!({ "kind": "status-update", "taskId": "t", "contextId": "c", "final": true, "status": { "state": word } });
            let Payload::StatusUpdate(update) = read(event) else { panic!("{word}") };
            assert_eq!(update.status.unwrap().state(), state, "{word}");
        }
        let event = json!({ "kind": "artifact-update", "taskId": "t", "contextId": "c", "append": true,
            "artifact": { "artifactId": "a", "parts": [{ "kind": "text", "text": "x" }] } });
        let Payload::ArtifactUpdate(update) = read(event) else { panic!() };
        assert!(update.append);
        let Payload::Message(message) = read(
            json!({ "kind": "message", "messageId": "m", "role": "agent", "parts": [{ "kind": "text", "text": "x" }] }),
        ) else {
            panic!()
        };
        assert_eq!(message.role(), pb::Role::Agent);
    }
}
