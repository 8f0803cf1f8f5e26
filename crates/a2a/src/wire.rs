//! JSON as the protocol writes it (G3–G10): ProtoJSON, with times to the millisecond and in UTC.

use crate::fault::{Fault, Kind};
use crate::pb;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use synapse_core::ids::Timestamp;
use synapse_dialects::time;

/// An answer that can be written as JSON.
pub trait Answer: Serialize {
    /// What ProtoJSON leaves open or leaves out: times, and fields that must be there though they are empty.
    fn finish(value: &mut Value);
}

/// How large a task is as a message of the proto, in bytes.
pub fn encoded_len(task: &pb::Task) -> usize {
    prost::Message::encoded_len(task)
}

pub fn to_json<T: Answer>(answer: &T) -> Result<Value, Fault> {
    let mut value = serde_json::to_value(answer)
        .map_err(|e| Fault::new(Kind::Internal, format!("an answer that is no JSON: {e}")))?;
    T::finish(&mut value);
    Ok(whole_numbers(value))
}

/// Every number of a Struct is a float. One that is whole is written as it was sent, `1` and not `1.0`, so that readers
/// which tell them apart find what they had; so do the libraries of protobuf.
pub fn whole_numbers(mut value: Value) -> Value {
    fn walk(value: &mut Value) {
        match value {
            Value::Number(number) => {
                // Up to here a float has every whole number.
                const WHOLE_MAX: f64 = 9_007_199_254_740_991.0;
                let float = number.as_f64().filter(|float| number.is_f64() && float.abs() <= WHOLE_MAX);
                if let Some(float) = float.filter(|float| float.fract() == 0.0) {
                    *number = (float as i64).into();
                }
            }
            Value::Array(list) => list.iter_mut().for_each(walk),
            Value::Object(map) => map.values_mut().for_each(walk),
            Value::Null | Value::Bool(_) | Value::String(_) => {}
        }
    }
    walk(&mut value);
    value
}

/// The field at fault is named by its path.
pub fn from_json<T: DeserializeOwned>(value: Value) -> Result<T, Fault> {
    // To follow the path costs as much as to read: only what is wrong is read so.
    if let Ok(read) = T::deserialize(&value) {
        return Ok(read);
    }
    let value = whole_numbers(without_nulls(value));
    serde_path_to_error::deserialize(value).map_err(|e| {
        let path = e.path().to_string();
        Fault::params(if path == "." { "params".to_owned() } else { path }, e.into_inner().to_string())
    })
}

/// ProtoJSON: `null` means the default of a field, as if it were not there. What is the caller's own JSON keeps it.
fn without_nulls(mut value: Value) -> Value {
    fn walk(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.retain(|_, value| !value.is_null());
                let own = members.iter_mut().filter(|(name, _)| !OPEN.contains(&name.as_str()));
                own.for_each(|(_, value)| walk(value));
            }
            Value::Array(list) => list.iter_mut().for_each(walk),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    walk(&mut value);
    value
}

/// Fields that hold any JSON.
const OPEN: [&str; 3] = ["data", "metadata", "params"];

impl Answer for pb::Task {
    fn finish(value: &mut Value) {
        finish_status(value);
    }
}

impl Answer for pb::SendMessageResponse {
    fn finish(value: &mut Value) {
        value.get_mut("task").map(finish_status);
    }
}

impl Answer for pb::StreamResponse {
    fn finish(value: &mut Value) {
        for name in ["task", "statusUpdate"] {
            value.get_mut(name).map(finish_status);
        }
    }
}

impl Answer for pb::ListTasksResponse {
    fn finish(value: &mut Value) {
        let Some(page) = value.as_object_mut() else { return };
        present(page, "tasks", Value::Array(Vec::new()));
        present(page, "nextPageToken", "".into());
        present(page, "pageSize", 0.into());
        present(page, "totalSize", 0.into());
        page.get_mut("tasks").and_then(Value::as_array_mut).into_iter().flatten().for_each(finish_status);
    }
}

impl Answer for pb::AgentCard {
    /// A scheme without scopes is told with an empty list: not all readers take a missing one for it.
    fn finish(value: &mut Value) {
        let requirements = value.get_mut("securityRequirements").and_then(Value::as_array_mut);
        for requirement in requirements.into_iter().flatten() {
            let schemes = requirement.get_mut("schemes").and_then(Value::as_object_mut);
            for scopes in schemes.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut) {
                present(scopes, "list", Value::Array(Vec::new()));
            }
        }
    }
}

impl Answer for pb::TaskPushNotificationConfig {
    fn finish(_: &mut Value) {}
}

impl Answer for pb::ListTaskPushNotificationConfigsResponse {
    fn finish(value: &mut Value) {
        let Some(page) = value.as_object_mut() else { return };
        present(page, "configs", Value::Array(Vec::new()));
        present(page, "nextPageToken", "".into());
    }
}

fn present(object: &mut Map<String, Value>, name: &str, default: Value) {
    object.entry(name).or_insert(default);
}

/// Of whatever has a status. Metadata, which is the caller's, is not looked at.
fn finish_status(value: &mut Value) {
    let Some(Value::String(raw)) = value.pointer_mut("/status/timestamp") else { return };
    if let Ok(at) = time::read("timestamp", raw) {
        *raw = time::show(at);
    }
}

pub fn timestamp(at: Timestamp) -> pbjson_types::Timestamp {
    let (seconds, ms) = (at.0 / 1_000, at.0 % 1_000);
    pbjson_types::Timestamp {
        seconds: i64::try_from(seconds).unwrap_or(i64::MAX),
        nanos: i32::try_from(ms * 1_000_000).unwrap_or_default(),
    }
}

pub fn to_struct(map: Map<String, Value>) -> Option<pbjson_types::Struct> {
    if map.is_empty() {
        return None;
    }
    serde_json::from_value(Value::Object(map)).ok()
}

pub fn from_struct(found: Option<&pbjson_types::Struct>) -> Map<String, Value> {
    match found.map(|found| serde_json::to_value(found).map(whole_numbers)) {
        Some(Ok(Value::Object(map))) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn task(ms: u64) -> pb::Task {
        pb::Task {
            id: "t".into(),
            status: Some(pb::TaskStatus {
                state: pb::TaskState::Working.into(),
                message: None,
                timestamp: Some(timestamp(Timestamp(ms))),
            }),
            metadata: to_struct(
                json!({ "timestamp": "2026-01-01T00:00:00+00:00" }).as_object().unwrap().clone(),
            ),
            ..pb::Task::default()
        }
    }

    /// G3–G6: names, enums and times as ProtoJSON has them; what is the caller's stays as it was.
    /// G1: the types of the protocol are those that are generated from its proto.
    #[test]
    fn no_type_of_the_protocol_is_written_by_hand() {
        use crate::pb;
        use std::any::type_name;
        for name in [
            type_name::<pb::AgentCard>(),
            type_name::<pb::Task>(),
            type_name::<pb::Message>(),
            type_name::<pb::Part>(),
            type_name::<pb::Artifact>(),
            type_name::<pb::StreamResponse>(),
            type_name::<pb::SendMessageRequest>(),
            type_name::<pb::ListTasksRequest>(),
            type_name::<pb::TaskPushNotificationConfig>(),
        ] {
            assert!(name.starts_with("synapse_a2a_v1::"), "{name}");
        }
    }

    #[test]
    fn a_task_reads_as_the_protocol_writes_it() {
        let value = to_json(&task(1_791_000_000_007)).unwrap();
        assert_eq!(value["status"]["state"], "TASK_STATE_WORKING");
        assert_eq!(value["status"]["timestamp"], "2026-10-03T04:00:00.007Z");
        assert_eq!(value["metadata"]["timestamp"], "2026-01-01T00:00:00+00:00");
        let even = to_json(&task(1_791_000_000_000)).unwrap();
        assert_eq!(even["status"]["timestamp"], "2026-10-03T04:00:00.000Z");
    }

    /// T6, T7: an empty page has all that a page must have.
    #[test]
    fn an_empty_page_is_whole() {
        let value = to_json(&pb::ListTasksResponse::default()).unwrap();
        assert_eq!(value, json!({ "tasks": [], "nextPageToken": "", "pageSize": 0, "totalSize": 0 }));
    }

    /// G9, G10: what is unknown is ignored, what is optional is told apart from its default.
    #[test]
    fn unknown_fields_are_ignored_and_unset_is_not_zero() {
        let request = json!({ "id": "t", "historyLength": 0, "fromTheFuture": { "a": [1] } });
        let read: pb::GetTaskRequest = from_json(request).unwrap();
        assert_eq!(read.history_length, Some(0));
        let read: pb::GetTaskRequest = from_json(json!({ "id": "t" })).unwrap();
        assert_eq!(read.history_length, None);
    }

    /// Finding A11: `null` means the default for every field of 1.0, and a whole float is a whole number.
    #[test]
    fn null_is_as_if_it_were_not_there() {
        use crate::operation::Request;
        let message = |part: Value| json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [part], "metadata": { "a": null } } });
        let long = json!({
            "tenant": null, "metadata": null,
            "message": {
                "messageId": "m", "role": "ROLE_USER", "contextId": null, "taskId": null, "extensions": null,
                "referenceTaskIds": null, "metadata": { "a": null },
                "parts": [{ "text": "x", "raw": null, "url": null, "data": null, "filename": null, "mediaType": null }],
            },
            "configuration": {
                "returnImmediately": null, "historyLength": 2.0, "acceptedOutputModes": null,
                "taskPushNotificationConfig": null,
            },
        });
        let mut short = message(json!({ "text": "x" }));
        short["configuration"] = json!({ "historyLength": 2 });
        let cases = [
            ("SendMessage", long.clone(), short.clone()),
            ("SendStreamingMessage", long, short),
            ("GetTask", json!({ "id": "t", "tenant": null, "historyLength": null }), json!({ "id": "t" })),
            ("GetTask", json!({ "id": "t", "historyLength": 2.0 }), json!({ "id": "t", "historyLength": 2 })),
            (
                "ListTasks",
                json!({ "pageToken": null, "contextId": null, "status": null, "pageSize": 7.0, "includeArtifacts": null,
                    "statusTimestampAfter": null, "tenant": null, "historyLength": null }),
                json!({ "pageSize": 7 }),
            ),
            ("CancelTask", json!({ "id": "t", "metadata": null, "tenant": null }), json!({ "id": "t" })),
            ("SubscribeToTask", json!({ "id": "t", "tenant": null }), json!({ "id": "t" })),
            (
                "CreateTaskPushNotificationConfig",
                json!({ "taskId": "t", "id": null, "url": "u", "token": null, "authentication": { "scheme": "Bearer", "credentials": null } }),
                json!({ "taskId": "t", "url": "u", "authentication": { "scheme": "Bearer" } }),
            ),
            ("GetExtendedAgentCard", json!({ "tenant": null }), json!({})),
            (
                "SendMessage",
                message(
                    json!({ "data": { "a": null, "b": [null] }, "text": null, "metadata": { "c": null } }),
                ),
                message(json!({ "data": { "a": null, "b": [null] }, "metadata": { "c": null } })),
            ),
        ];
        for (method, with_null, without) in cases {
            let read = |params: &Value| Request::of_method(method, params.clone());
            assert_eq!(read(&with_null).unwrap(), read(&without).unwrap(), "{method} {with_null}");
        }
        let own = json!({ "data": { "a": null }, "text": null, "metadata": { "b": [null] } });
        let Request::Send(sent) = Request::of_method("SendMessage", message(own)).unwrap() else {
            panic!("no message")
        };
        let sent = serde_json::to_value(sent.message.unwrap()).unwrap();
        assert_eq!(sent["metadata"], json!({ "a": null }), "{sent}");
        assert_eq!(sent["parts"], json!([{ "data": { "a": null }, "metadata": { "b": [null] } }]), "{sent}");
        for wrong in [json!({ "id": "t", "historyLength": 2.5 }), json!({ "id": ["t"] }), json!([null])] {
            assert_eq!(Request::of_method("GetTask", wrong).unwrap_err().kind, Kind::Params);
        }
    }

    /// A number comes back as it was sent, as far as a float can hold it.
    #[test]
    fn whole_numbers_stay_whole() {
        let sent = json!({ "n": 1, "x": 1.5, "big": 9_007_199_254_740_991_i64, "list": [-2, 0, { "n": 3 }] });
        let read = from_struct(to_struct(sent.as_object().unwrap().clone()).as_ref());
        assert_eq!(Value::Object(read), sent);
        let task = pb::Task { metadata: to_struct(sent.as_object().unwrap().clone()), ..task(0) };
        assert_eq!(to_json(&task).unwrap()["metadata"], sent);
        assert_eq!(whole_numbers(json!(1e300)), json!(1e300));
    }

    /// E6: the path of what is wrong.
    #[test]
    fn the_path_of_what_is_wrong_is_told() {
        let wrong = json!({ "message": { "messageId": "m", "parts": [{ "text": "a" }, { "text": 7 }] } });
        let fault = from_json::<pb::SendMessageRequest>(wrong).unwrap_err();
        assert_eq!((fault.kind, fault.field.as_deref()), (Kind::Params, Some("message.parts[1].text")));
    }
}
