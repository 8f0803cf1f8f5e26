//! Whether a stream tells what it has to, in order, and ends (S14–S16, G18–G20, J5, H9). Pure.

use super::super::finding::{Verdict, cut};
use super::answer::RPC_ID;
use super::task::{artifact_faults, message_faults, rests, state, status_faults, task_faults};
use super::text_of;
use crate::a2a::card::Binding;
use crate::a2a::sse::SseEvent;
use serde_json::Value;

/// A stream, as far as it was heard.
#[derive(Debug, Default)]
pub(in super::super) struct Heard {
    pub events: Vec<SseEvent>,
    pub ending: Ending,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(in super::super) enum Ending {
    /// By the server.
    Closed,
    /// We stopped to listen.
    #[default]
    OutOfTime,
    Broken(String),
}

const FAULTS_SHOWN: usize = 4;

/// What an event says, out of its envelope.
fn open(binding: Binding, event: &SseEvent) -> Result<Value, String> {
    let value: Value = serde_json::from_str(&event.data).map_err(|_| "no JSON".to_owned())?;
    match binding {
        Binding::HttpJson if value.get("error").is_some_and(Value::is_object) => {
            Err(format!("an error: {}", cut(&value["error"].to_string(), 120)))
        }
        Binding::HttpJson => Ok(value),
        Binding::JsonRpc if value["jsonrpc"] != "2.0" => Err("no answer of JSON-RPC 2.0".into()),
        Binding::JsonRpc if value.get("error").is_some_and(|error| !error.is_null()) => {
            Err(format!("an error: {}", cut(&value["error"].to_string(), 120)))
        }
        Binding::JsonRpc if value["id"] != RPC_ID => Err("the id of another request".into()),
        Binding::JsonRpc => {
            value.get("result").cloned().ok_or_else(|| "neither a result nor an error".into())
        }
    }
}

/// The name of what an event holds.
fn kind(value: &Value) -> Result<&'static str, String> {
    let all = ["task", "message", "statusUpdate", "artifactUpdate"];
    let found: Vec<&str> = all.into_iter().filter(|name| value.get(name).is_some()).collect();
    match found.as_slice() {
        [one] => all.into_iter().find(|name| name == one).ok_or_else(String::new),
        [] if value["kind"].is_string() => {
            Err(format!("an event of 0.3 (kind {:?})", text_of(value, "kind")))
        }
        [] => Err(format!("none of {}", all.join(", "))),
        _ => Err(format!("several: {}", found.join(", "))),
    }
}

/// G18–G20, J5, H9.
pub(in super::super) fn events(binding: Binding, heard: &Heard) -> Verdict {
    let mut wrong = Vec::new();
    for (n, event) in heard.events.iter().enumerate() {
        let at = format!("event {}", n + 1);
        let value = match open(binding, event) {
            Ok(value) => value,
            Err(why) => {
                wrong.push(format!("{at}: {why}"));
                continue;
            }
        };
        match kind(&value) {
            Ok("task") => wrong.extend(task_faults(&value["task"], &at)),
            Ok("message") => message_faults(&value["message"], &at, &mut wrong),
            Ok("statusUpdate") => {
                let update = &value["statusUpdate"];
                ids(update, &at, &mut wrong);
                status_faults(&update["status"], &format!("{at}.status"), &mut wrong);
            }
            Ok(_) => {
                let update = &value["artifactUpdate"];
                ids(update, &at, &mut wrong);
                artifact_faults(&update["artifact"], &format!("{at}.artifact"), &mut wrong);
            }
            Err(why) => wrong.push(format!("{at}: {why}")),
        }
    }
    match (heard.events.len(), wrong.len()) {
        (0, _) => Verdict::Off("there were no events".into()),
        (n, 0) => Verdict::Ok(format!("{n} events")),
        (_, n) => {
            let more =
                if n > FAULTS_SHOWN { format!("; and {} more", n - FAULTS_SHOWN) } else { String::new() };
            wrong.truncate(FAULTS_SHOWN);
            Verdict::Off(format!("{}{more}", wrong.join("; ")))
        }
    }
}

fn ids(update: &Value, at: &str, wrong: &mut Vec<String>) {
    for name in ["taskId", "contextId"] {
        if text_of(update, name).is_empty() {
            wrong.push(format!("{at}.{name} is missing"));
        }
    }
}

fn kinds(binding: Binding, heard: &Heard) -> Vec<(&'static str, Value)> {
    let read = |event: &SseEvent| {
        let value = open(binding, event).ok()?;
        Some((kind(&value).ok()?, value))
    };
    heard.events.iter().filter_map(read).collect()
}

/// S14, S15.
pub(in super::super) fn first(binding: Binding, heard: &Heard) -> Verdict {
    let all = kinds(binding, heard);
    match (all.first().map(|(kind, _)| *kind), all.len()) {
        (Some("task"), _) => Verdict::Ok("the task".into()),
        (Some("message"), 1) => Verdict::Ok("one message".into()),
        (Some("message"), n) => Verdict::Off(format!("a message, and {} more events", n - 1)),
        (Some(other), _) => Verdict::Off(other.to_owned()),
        (None, _) => Verdict::Off("no event that could be read".into()),
    }
}

/// S16, S17.
pub(in super::super) fn end(binding: Binding, heard: &Heard) -> Verdict {
    let all = kinds(binding, heard);
    let last = all.iter().rev().find_map(|(kind, value)| match *kind {
        "task" => Some(state(&value["task"]).to_owned()),
        "statusUpdate" => Some(state(&value["statusUpdate"]).to_owned()),
        "message" => Some("message".to_owned()),
        _ => None,
    });
    let last = last.unwrap_or_default();
    let is_over = rests(&last) || last == "message";
    match (&heard.ending, is_over) {
        (Ending::Closed, true) => Verdict::Ok(format!("closed after {last}")),
        (Ending::Closed, false) => Verdict::Off(format!("closed in the state {:?}", cut(&last, 40))),
        (Ending::OutOfTime, true) => Verdict::Off(format!("still open after {last}")),
        (Ending::OutOfTime, false) => {
            Verdict::Skipped("the task was still going on when the time was over".into())
        }
        (Ending::Broken(why), _) => Verdict::Off(format!("broken: {}", cut(why, 160))),
    }
}

/// The task that a stream tells of.
pub(in super::super) fn task_id(binding: Binding, heard: &Heard) -> Option<String> {
    kinds(binding, heard).iter().find_map(|(kind, value)| {
        let id = match *kind {
            "task" => value.pointer("/task/id"),
            "statusUpdate" | "artifactUpdate" => value.get(*kind)?.get("taskId"),
            _ => None,
        };
        id?.as_str().filter(|id| !id.is_empty()).map(str::to_owned)
    })
}

/// What came after the first event, asked for again.
pub(in super::super) fn resumed(first: &Heard, again: &Heard) -> Verdict {
    let ids = |heard: &Heard| heard.events.iter().filter_map(|event| event.id.clone()).collect::<Vec<_>>();
    let (before, after) = (ids(first), ids(again));
    match before.split_first() {
        Some((_, [])) if again.events.is_empty() => {
            Verdict::Ok("the first event was the last, and nothing came after it".into())
        }
        _ if again.events.is_empty() => Verdict::Off("nothing came".into()),
        Some((named, _)) if after.contains(named) => {
            Verdict::Off("the event that was named came again".into())
        }
        Some((_, rest)) if after == rest => {
            Verdict::Ok(format!("the {} events after the first came, once", rest.len()))
        }
        Some((_, rest)) => {
            Verdict::Off(format!("{} events came, and {} were to come", after.len(), rest.len()))
        }
        None => {
            Verdict::Note("events have no ids: a stream that breaks cannot be taken up where it was".into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn heard(events: &[Value], ending: Ending) -> Heard {
        let event =
            |(n, value): (usize, &Value)| SseEvent { id: Some(n.to_string()), data: value.to_string() };
        Heard { events: events.iter().enumerate().map(event).collect(), ending }
    }

    fn task(state: &str) -> Value {
        json!({ "task": { "id": "t", "contextId": "c", "status": { "state": state } } })
    }

    fn update(state: &str) -> Value {
        json!({ "statusUpdate": { "taskId": "t", "contextId": "c", "status": { "state": state } } })
    }

    #[test]
    fn a_stream_that_is_right() {
        let all = heard(&[task("TASK_STATE_WORKING"), update("TASK_STATE_COMPLETED")], Ending::Closed);
        let http = Binding::HttpJson;
        for verdict in [events(http, &all), first(http, &all), end(http, &all)] {
            assert!(matches!(verdict, Verdict::Ok(_)), "{verdict:?}");
        }
        assert_eq!(task_id(http, &all).as_deref(), Some("t"));
        let wrap = |value: &Value| json!({ "jsonrpc": "2.0", "id": 1, "result": value });
        let wrapped = heard(&[wrap(&task("TASK_STATE_COMPLETED"))], Ending::Closed);
        assert!(matches!(events(Binding::JsonRpc, &wrapped), Verdict::Ok(_)));
        assert!(matches!(events(http, &wrapped), Verdict::Off(_)));
    }

    /// S14–S16, G18–G20.
    #[test]
    fn what_is_wrong_with_a_stream_is_named() {
        let http = Binding::HttpJson;
        let (work, done) = ("TASK_STATE_WORKING", "TASK_STATE_COMPLETED");
        let table = [
            (events(http, &heard(&[], Ending::Closed)), "no events"),
            (events(http, &heard(&[json!({ "kind": "task" })], Ending::Closed)), "of 0.3"),
            (events(http, &heard(&[json!({})], Ending::Closed)), "event 1: none of"),
            (
                events(http, &heard(&[json!({ "statusUpdate": { "status": {} } })], Ending::Closed)),
                "event 1.taskId",
            ),
            (events(http, &heard(&[json!({ "task": {}, "message": {} })], Ending::Closed)), "several"),
            (first(http, &heard(&[update(work)], Ending::Closed)), "statusUpdate"),
            (end(http, &heard(&[task(work)], Ending::Closed)), "closed in the state"),
            (end(http, &heard(&[task(done)], Ending::OutOfTime)), "still open"),
            (end(http, &heard(&[task(done)], Ending::Broken("x".into()))), "broken: x"),
            (
                resumed(
                    &heard(&[task(work), update(done)], Ending::Closed),
                    &heard(&[task(work)], Ending::Closed),
                ),
                "came again",
            ),
            (
                resumed(&heard(&[task(work), update(done)], Ending::Closed), &heard(&[], Ending::Closed)),
                "nothing came",
            ),
        ];
        for (verdict, words) in table {
            assert!(matches!(&verdict, Verdict::Off(why) if why.contains(words)), "{words}: {verdict:?}");
        }
        assert!(matches!(end(http, &heard(&[task(work)], Ending::OutOfTime)), Verdict::Skipped(_)));
        // An agent that is done at once has nothing more to tell.
        let at_once = resumed(&heard(&[task(done)], Ending::Closed), &heard(&[], Ending::Closed));
        assert!(matches!(at_once, Verdict::Ok(_)), "{at_once:?}");
    }
}
