//! Faults of servers around a result: its JSON-RPC envelope, its content type, a task state that nobody knows.
//!
//! The message has been sent by then, so an answer with only one possible meaning is read, with a note.
//! Invariant: a correct answer has no notes. Not here: faults within a result (`synapse_a2a::lenient`).

use super::call::{RPC_ID, Shape, not_understood};
use super::error::AskError;
use serde_json::Value;

const NO_VERSION: &str = "an answer without `\"jsonrpc\": \"2.0\"`";
const NO_ENVELOPE: &str = "an answer without the envelope of JSON-RPC";
const NO_ID: &str = "an answer without the id of its request; one connection has only one";
const TEXT_ID: &str = "the id of the request, a number, came back as text";
const BYTE_ORDER_MARK: &str = "a byte order mark in front of the JSON";
pub(super) const UNKNOWN_STATE: &str = "an unknown task state was read as `working`";

/// The JSON of a body, if it is JSON.
pub(super) fn json(bytes: &[u8], notes: &mut Vec<&'static str>) -> Option<Value> {
    let stripped = bytes.strip_prefix(b"\xef\xbb\xbf");
    let value = serde_json::from_slice(stripped.unwrap_or(bytes)).ok()?;
    if stripped.is_some() {
        notes.push(BYTE_ORDER_MARK);
    }
    Some(value)
}

/// The result of a JSON-RPC answer.
pub(super) fn result(
    mut value: Value,
    what: Shape,
    notes: &mut Vec<&'static str>,
) -> Result<Value, AskError> {
    if value["jsonrpc"] != "2.0" {
        let has_outcome = value.get("result").is_some() || value.get("error").is_some();
        if !has_outcome && value.get("jsonrpc").is_none() && is_bare(&value, what) {
            notes.push(NO_ENVELOPE);
            return Ok(value);
        }
        if !has_outcome {
            return Err(not_understood("it is no answer of JSON-RPC 2.0"));
        }
        notes.push(NO_VERSION);
    }
    if let Some(error) = value.get("error").filter(|error| !error.is_null()) {
        return Err(AskError::of_rpc(error));
    }
    match &value["id"] {
        id if *id == RPC_ID => {}
        Value::Null => notes.push(NO_ID),
        Value::String(id) if *id == RPC_ID.to_string() => notes.push(TEXT_ID),
        _ => return Err(not_understood("it answers another request than ours")),
    }
    match value.get_mut("result").map(Value::take) {
        Some(result) => Ok(result),
        None => Err(not_understood("it has neither a result nor an error")),
    }
}

/// Whether this is the result itself. The readers of each shape check the rest.
fn is_bare(value: &Value, what: Shape) -> bool {
    let is_object = |name: &str| value[name].is_object();
    match what {
        Shape::Task => value["id"].is_string() && is_object("status"),
        Shape::Page => value["tasks"].is_array(),
        Shape::Card => value["name"].is_string(),
        Shape::Response => {
            ["task", "message", "statusUpdate", "artifactUpdate"].into_iter().any(is_object)
                || value["kind"].is_string()
        }
    }
}

/// Checks the type of an answer that says yes; a refusal may come from a proxy. Returns a note if only the body says
/// that it is JSON.
pub(super) fn media(media: &str, status: u16, body: &[u8]) -> Result<Option<String>, AskError> {
    if !(200..300).contains(&status) || matches!(media, "application/json" | "application/a2a+json") {
        return Ok(None);
    }
    let what =
        if media.is_empty() { "nothing that it says the type of".to_owned() } else { media.to_owned() };
    match json(body, &mut Vec::new()) {
        Some(Value::Object(_)) => Ok(Some(format!("JSON in an answer that is {what}"))),
        _ => Err(not_understood(&format!("it is {what}, where JSON was asked for"))),
    }
}

/// Task states of both versions, without their prefix.
const STATES: &[&str] = &[
    "submitted",
    "working",
    "completed",
    "failed",
    "canceled",
    "cancelled",
    "rejected",
    "input-required",
    "auth-required",
    "unknown",
    "unspecified",
    "",
];

/// Makes unknown states `working`: the task is not known to have ended. Returns whether there were any.
pub(super) fn replace_unknown_states(value: &mut Value) -> bool {
    let mut replaced = false;
    if let Some(state) = value.pointer_mut("/status/state")
        && let Some(raw) = state.as_str()
    {
        let word = raw.strip_prefix("TASK_STATE_").unwrap_or(raw).to_ascii_lowercase().replace('_', "-");
        if !STATES.contains(&word.as_str()) {
            *state = "TASK_STATE_WORKING".into();
            replaced = true;
        }
    }
    for name in ["task", "statusUpdate", "status_update"] {
        replaced |= value.get_mut(name).is_some_and(replace_unknown_states);
    }
    for task in value.get_mut("tasks").and_then(Value::as_array_mut).into_iter().flatten() {
        replaced |= replace_unknown_states(task);
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(value: Value, what: Shape, expected: Result<&[&str], &str>) {
        let mut notes = Vec::new();
        match (result(value.clone(), what, &mut notes), expected) {
            (Ok(_), Ok(expected)) => assert_eq!(notes, expected, "{value}"),
            (Err(e), Err(words)) => assert!(e.to_string().contains(words), "{value}: {e}"),
            (found, _) => panic!("{value}: {found:?}"),
        }
    }

    /// Finding A6: the message was sent, and an answer that could mean only one thing was lost.
    #[test]
    fn an_envelope_with_one_meaning_is_read() {
        let task = json!({ "id": "t", "status": { "state": "TASK_STATE_WORKING" } });
        let sent = json!({ "task": task });
        check(json!({ "jsonrpc": "2.0", "id": 1, "result": sent }), Shape::Response, Ok(&[]));
        check(json!({ "jsonrpc": "2.0", "id": "1", "result": sent }), Shape::Response, Ok(&[TEXT_ID]));
        check(json!({ "jsonrpc": "2.0", "id": null, "result": sent }), Shape::Response, Ok(&[NO_ID]));
        check(json!({ "jsonrpc": "2.0", "result": sent }), Shape::Response, Ok(&[NO_ID]));
        check(json!({ "id": 1, "result": sent }), Shape::Response, Ok(&[NO_VERSION]));
        check(sent, Shape::Response, Ok(&[NO_ENVELOPE]));
        check(task, Shape::Task, Ok(&[NO_ENVELOPE]));
        check(json!({ "kind": "task", "id": "t" }), Shape::Response, Ok(&[NO_ENVELOPE]));
        check(json!({ "id": 1, "error": "it broke" }), Shape::Response, Err("it broke"));
        for other in [json!(2), json!("2"), json!("x"), json!([1]), json!(true)] {
            let answer = json!({ "jsonrpc": "2.0", "id": other, "result": {} });
            check(answer, Shape::Response, Err("another request"));
        }
        for nothing in [json!({}), json!([]), json!("x"), json!({ "id": 1 }), json!({ "message": "oh" })] {
            check(nothing, Shape::Response, Err("no answer of JSON-RPC"));
        }
    }

    /// Finding A6: JSON without its type was refused, though a card is read with any.
    #[test]
    fn json_is_read_with_any_type() {
        let odd = |kind, status, body: &str| media(kind, status, body.as_bytes()).map(|note| note.is_some());
        assert!(matches!(odd("application/json", 200, "{}"), Ok(false)));
        assert!(matches!(odd("text/html", 502, "<html>"), Ok(false)));
        for kind in ["", "text/plain", "application/octet-stream"] {
            assert!(matches!(odd(kind, 200, r#"{"id":1}"#), Ok(true)), "{kind}");
            assert!(odd(kind, 200, "hello").is_err() && odd(kind, 200, "7").is_err(), "{kind}");
        }
        let mut notes = Vec::new();
        assert_eq!(json("\u{feff}{}".as_bytes(), &mut notes), Some(json!({})));
        assert_eq!(notes, [BYTE_ORDER_MARK]);
    }

    /// Finding A6: one state that nobody knows made the whole answer unreadable.
    #[test]
    fn unknown_states_are_working() {
        let status = |state: &str| json!({ "status": { "state": state } });
        for known in ["TASK_STATE_COMPLETED", "completed", "Input_Required", "cancelled", "unknown"] {
            let mut value = json!({ "task": status(known) });
            assert!(!replace_unknown_states(&mut value), "{value}");
        }
        for name in ["task", "statusUpdate"] {
            let mut value = json!({ name: status("TASK_STATE_FLYING") });
            assert!(replace_unknown_states(&mut value));
            assert_eq!(value[name], status("TASK_STATE_WORKING"));
        }
        let mut page = json!({ "tasks": [status("completed"), status("paused")] });
        assert!(replace_unknown_states(&mut page));
        assert_eq!(page["tasks"], json!([status("completed"), status("TASK_STATE_WORKING")]));
    }
}
