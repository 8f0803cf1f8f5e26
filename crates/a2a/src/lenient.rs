//! Reads answers of A2A 1.0 that are a little wrong (measured A6): what can only mean one thing is repaired, and every
//! repair has a note.
//!
//! Invariant: a correct answer is never changed and has no notes. Not here: who sees the notes (`synapse-peer`).

use crate::pb;
use crate::v03::{self, Form};
use crate::wire::to_json;
use serde::Deserialize as _;
use serde_json::Value;
use synapse_dialects::time;

/// What an answer should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    Task,
    TaskPage,
    /// The answer to a message, or one event of a stream.
    Event,
}

/// An answer as 1.0 writes it, and what was odd about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Repaired {
    pub value: Value,
    pub notes: Vec<&'static str>,
}

const NO_ZONE: &str = "a time without a time zone was read as UTC";
const BAD_TIME: &str = "a time that cannot be read was left out";
const OLD_SHAPE: &str = "an answer in the form of A2A 0.3, on an interface of 1.0";
const WRAPPED_TASK: &str = "a task inside an object `task`, where the task itself was expected";

/// Repairs an answer if it is wrong. What cannot be repaired comes back for the strict reader to refuse.
pub fn repair(value: Value, expected: Expected) -> Repaired {
    let mut repaired = Repaired { value, notes: Vec::new() };
    if is_right(&repaired.value, expected) {
        return repaired;
    }
    if expected == Expected::Task
        && let Some(inside) = repaired.value.get_mut("task").filter(|inside| inside.is_object())
    {
        repaired.value = inside.take();
        repaired.notes.push(WRAPPED_TASK);
    }
    repair_times(&mut repaired.value, &mut repaired.notes);
    if is_right(&repaired.value, expected) {
        return repaired;
    }
    if let Some(new) = from_03(&repaired.value, expected).filter(|new| is_right(new, expected)) {
        repaired.value = new;
        repaired.notes.push(OLD_SHAPE);
    }
    repaired.notes.dedup();
    repaired
}

fn is_right(value: &Value, expected: Expected) -> bool {
    match expected {
        Expected::Task => pb::Task::deserialize(value).is_ok_and(|task| !task.id.is_empty()),
        Expected::TaskPage => pb::ListTasksResponse::deserialize(value).is_ok(),
        Expected::Event => pb::StreamResponse::deserialize(value).is_ok_and(|event| event.payload.is_some()),
    }
}

fn from_03(value: &Value, expected: Expected) -> Option<Value> {
    let value = value.clone();
    match expected {
        Expected::Task => to_json(&v03::read_task(value, Form::Rpc).ok()?).ok(),
        Expected::TaskPage => to_json(&v03::read_tasks(value, Form::Rpc).ok()?).ok(),
        Expected::Event => to_json(&v03::read_event(value, Form::Rpc).ok()?.0).ok(),
    }
}

/// Times of statuses; metadata and data, which are the agent's own, are left alone.
fn repair_times(value: &mut Value, notes: &mut Vec<&'static str>) {
    if let Some(status) = value.get_mut("status").and_then(Value::as_object_mut)
        && let Some(Value::String(raw)) = status.get_mut("timestamp")
        && time::read("timestamp", raw).is_err()
    {
        let with_zone = format!("{}Z", raw.trim().replacen(' ', "T", 1));
        match time::read("timestamp", &with_zone) {
            Ok(at) => {
                *raw = time::show(at);
                notes.push(NO_ZONE);
            }
            Err(_) => {
                status.remove("timestamp");
                notes.push(BAD_TIME);
            }
        }
    }
    for name in ["task", "statusUpdate"] {
        if let Some(inside) = value.get_mut(name) {
            repair_times(inside, notes);
        }
    }
    let tasks = value.get_mut("tasks").and_then(Value::as_array_mut);
    tasks.into_iter().flatten().for_each(|task| repair_times(task, notes));
}

/// What is odd about a body of 1.0: one JSON document, or a stream of events. For people who look at the traffic.
pub fn oddities(body: &str) -> Vec<&'static str> {
    let data: Vec<&str> = body.lines().filter_map(|line| line.strip_prefix("data:")).collect();
    let documents = if data.is_empty() { vec![body] } else { data };
    let mut found: Vec<&'static str> = Vec::new();
    for document in documents {
        let Ok(mut value) = serde_json::from_str::<Value>(document) else { continue };
        if value["jsonrpc"] == "2.0" {
            value = value["result"].take();
        }
        let expected = match &value {
            Value::Object(fields) if fields.contains_key("tasks") => Expected::TaskPage,
            Value::Object(fields) if fields.contains_key("id") && !fields.contains_key("kind") => {
                Expected::Task
            }
            Value::Object(fields)
                if ["task", "message", "statusUpdate", "artifactUpdate", "kind"]
                    .iter()
                    .any(|name| fields.contains_key(*name)) =>
            {
                Expected::Event
            }
            _ => continue,
        };
        for note in repair(value, expected).notes {
            if !found.contains(&note) {
                found.push(note);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn task(timestamp: &str) -> Value {
        json!({ "id": "t", "contextId": "c", "status": { "state": "TASK_STATE_WORKING", "timestamp": timestamp } })
    }

    fn notes(value: Value, expected: Expected) -> Vec<&'static str> {
        let repaired = repair(value, expected);
        assert!(is_right(&repaired.value, expected), "{}", repaired.value);
        repaired.notes
    }

    #[test]
    fn correct_answers_are_left_alone() {
        let right = json!({ "task": task("2026-11-18T00:00:00.000Z") });
        assert_eq!(repair(right.clone(), Expected::Event), Repaired { value: right, notes: vec![] });
    }

    /// Measured A6: fasta2a 2 writes local times without a zone.
    #[test]
    fn time_without_zone_is_utc() {
        let repaired = repair(json!({ "task": task("2026-11-18T01:02:03.456789") }), Expected::Event);
        assert_eq!(repaired.notes, [NO_ZONE]);
        assert_eq!(repaired.value["task"]["status"]["timestamp"], "2026-11-18T01:02:03.456Z");
        assert_eq!(notes(task("2026-11-18 01:02:03"), Expected::Task), [NO_ZONE]);
        assert_eq!(notes(task("yesterday"), Expected::Task), [BAD_TIME]);
        assert_eq!(notes(json!({ "tasks": [task("2026-11-18T01:02:03")] }), Expected::TaskPage), [NO_ZONE]);
    }

    /// Measured A6: LangGraph streams events of 0.3 on an interface that its card says is 1.0.
    #[test]
    fn old_events_are_read_on_a_new_interface() {
        let status = json!({ "state": "completed", "timestamp": "2026-11-18T01:02:03+00:00" });
        let events = [
            json!({ "kind": "task", "id": "t", "contextId": "c", "status": status }),
            json!({ "kind": "status-update", "taskId": "t", "contextId": "c", "final": true, "status": status }),
            json!({ "kind": "message", "messageId": "m", "role": "agent", "parts": [{ "kind": "text", "text": "x" }] }),
            json!({ "kind": "artifact-update", "taskId": "t", "contextId": "c",
                "artifact": { "artifactId": "a", "parts": [{ "kind": "text", "text": "x" }] } }),
        ];
        for event in events {
            assert_eq!(notes(event.clone(), Expected::Event), [OLD_SHAPE], "{event}");
        }
        assert_eq!(
            notes(json!({ "kind": "task", "id": "t", "status": status }), Expected::Task),
            [OLD_SHAPE]
        );
        let wrapped = json!({ "task": task("2026-11-18T00:00:00Z") });
        assert_eq!(notes(wrapped, Expected::Task), [WRAPPED_TASK]);
    }

    #[test]
    fn unreadable_answers_stay_as_they_are() {
        for value in [json!(null), json!([]), json!({}), json!({ "status": 5 }), json!({ "kind": "poem" })] {
            for expected in [Expected::Task, Expected::Event] {
                assert_eq!(repair(value.clone(), expected).value, value);
            }
        }
    }

    #[test]
    fn oddities_of_bodies() {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "result": { "task": task("2026-11-18T01:02:03") } });
        assert_eq!(oddities(&body.to_string()), [NO_ZONE]);
        let event = json!({ "kind": "status-update", "taskId": "t", "contextId": "c", "status": { "state": "working" } });
        assert_eq!(oddities(&format!("data: {event}\n\ndata: {event}\n\n")), [OLD_SHAPE]);
        for right in ["", "no json", "{}", "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{}}"] {
            assert_eq!(oddities(right), Vec::<&str>::new(), "{right}");
        }
    }
}
