//! Tasks and events, from 0.3 to 1.0 and back.

use super::Form;
use super::data::{
    Fields, each, fields, insert, message_to_new, message_to_old, part_to_new, part_to_old, rewrite, take,
    word, word_to_old,
};
use crate::fault::{Fault, Kind};
use serde_json::{Map, Value, json};
use synapse_dialects::time;

// tidy: table
const STATES: &[(&str, &str)] = &[
    ("submitted", "TASK_STATE_SUBMITTED"),
    ("working", "TASK_STATE_WORKING"),
    ("completed", "TASK_STATE_COMPLETED"),
    ("failed", "TASK_STATE_FAILED"),
    ("canceled", "TASK_STATE_CANCELED"),
    ("input-required", "TASK_STATE_INPUT_REQUIRED"),
    ("rejected", "TASK_STATE_REJECTED"),
    ("auth-required", "TASK_STATE_AUTH_REQUIRED"),
    ("unknown", "TASK_STATE_UNSPECIFIED"),
];

const CANCELLED: &str = "TASK_STATE_CANCELLED";
const CANCELED: &str = "TASK_STATE_CANCELED";

pub(super) fn task_to_new(at: &str, mut task: Fields, form: Form) -> Result<Value, Fault> {
    task.remove("kind");
    rewrite(&mut task, "status", |status| status_to_new(&format!("{at}.status"), status, form))?;
    rewrite(&mut task, "artifacts", |list| {
        each(&format!("{at}.artifacts"), list, |at, artifact| artifact_to_new(at, artifact, form))
    })?;
    rewrite(&mut task, "history", |list| {
        each(&format!("{at}.history"), list, |at, message| message_to_new(at, message, form))
    })?;
    Ok(Value::Object(task))
}

fn status_to_new(at: &str, status: Value, form: Form) -> Result<Value, Fault> {
    let mut status = fields(at, status)?;
    rewrite(&mut status, "state", |state| {
        state_to_new(state).map_err(|()| Fault::params(format!("{at}.state"), "it is no state of a task"))
    })?;
    if let Some(message) = take(&mut status, &["message", "update"]).filter(Value::is_object) {
        status.insert("message".into(), message_to_new(&format!("{at}.message"), message, form)?);
    }
    // Times of 0.3 are any text; one that says no time is no reason to lose the task.
    let at = status.remove("timestamp").and_then(|raw| time::read("timestamp", raw.as_str()?).ok());
    insert(&mut status, "timestamp", at.map(|at| time::show(at).into()));
    Ok(Value::Object(status))
}

/// Some write it in capitals or with another stroke, or with two l, as the proto of 0.3 does.
fn state_to_new(state: Value) -> Result<Value, ()> {
    let Value::String(raw) = &state else { return Ok(state) };
    let text = raw.strip_prefix("TASK_STATE_").unwrap_or(raw).to_ascii_lowercase().replace('_', "-");
    let text = match text.as_str() {
        "cancelled" => "canceled",
        "" | "unspecified" => "unknown",
        text => text,
    };
    word(STATES, text.into())
}

fn artifact_to_new(at: &str, artifact: Value, form: Form) -> Result<Value, Fault> {
    let mut artifact = fields(at, artifact)?;
    rewrite(&mut artifact, "parts", |parts| {
        each(&format!("{at}.parts"), parts, |at, part| part_to_new(at, part, form))
    })?;
    Ok(Value::Object(artifact))
}

/// What a stream or the answer to a message tells, with the name that 1.0 has for it.
pub(super) fn told_to_new(old: Value, form: Form) -> Result<(&'static str, Value), Fault> {
    let mut told = fields("result", old)?;
    let (name, mut told) = match envelope(&mut told) {
        Some((name, inside)) => (name, fields(name, inside)?),
        None => (kind_of(&told)?, told),
    };
    told.remove("kind");
    let told = match name {
        "task" => task_to_new(name, told, form)?,
        "message" => message_to_new(name, Value::Object(told), form)?,
        "statusUpdate" => {
            rewrite(&mut told, "status", |status| status_to_new("statusUpdate.status", status, form))?;
            Value::Object(told)
        }
        _ => {
            rewrite(&mut told, "artifact", |artifact| {
                artifact_to_new("artifactUpdate.artifact", artifact, form)
            })?;
            Value::Object(told)
        }
    };
    Ok((name, told))
}

/// Around it, as the proto has it. Some tell it over HTTP+JSON as over JSON-RPC, where `kind` says what it is.
fn envelope(told: &mut Fields) -> Option<(&'static str, Value)> {
    let names = [
        ("task", ["task", "task"]),
        ("message", ["message", "msg"]),
        ("statusUpdate", ["statusUpdate", "status_update"]),
        ("artifactUpdate", ["artifactUpdate", "artifact_update"]),
    ];
    match told.contains_key("kind") {
        true => None,
        false => names.into_iter().find_map(|(name, all)| Some((name, take(told, &all)?))),
    }
}

fn nothing_known() -> Fault {
    Fault::params("result", "it is no task, message, status-update or artifact-update")
}

/// By its `kind`; some leave it out, then by what is there.
fn kind_of(told: &Fields) -> Result<&'static str, Fault> {
    match told.get("kind").and_then(Value::as_str) {
        Some("task") => Ok("task"),
        Some("message") => Ok("message"),
        Some("status-update") => Ok("statusUpdate"),
        Some("artifact-update") => Ok("artifactUpdate"),
        Some(_) => Err(nothing_known()),
        None if told.contains_key("artifact") => Ok("artifactUpdate"),
        None if told.contains_key("parts") => Ok("message"),
        None if told.contains_key("status") && told.contains_key("id") => Ok("task"),
        None if told.contains_key("status") => Ok("statusUpdate"),
        None => Err(nothing_known()),
    }
}

fn object(value: Value) -> Result<Fields, Fault> {
    match value {
        Value::Object(fields) => Ok(fields),
        _ => Err(Fault::new(Kind::Internal, "something that is no object")),
    }
}

pub(super) fn task_to_old(task: Value, form: Form) -> Result<Value, Fault> {
    let mut task = object(task)?;
    rewrite(&mut task, "status", |status| status_to_old(status, form))?;
    rewrite(&mut task, "artifacts", |list| each("artifacts", list, |_, one| artifact_to_old(one, form)))?;
    rewrite(&mut task, "history", |list| each("history", list, |_, one| message_to_old(object(one)?, form)))?;
    if form == Form::Rpc {
        task.insert("kind".into(), "task".into());
    }
    Ok(Value::Object(task))
}

pub(super) fn tasks_to_old(page: Value, form: Form) -> Result<Value, Fault> {
    let mut page = object(page)?;
    rewrite(&mut page, "tasks", |list| each("tasks", list, |_, task| task_to_old(task, form)))?;
    Ok(Value::Object(page))
}

pub(super) fn tasks_to_new(page: Value, form: Form) -> Result<Value, Fault> {
    let mut page = fields("result", page)?;
    rewrite(&mut page, "tasks", |list| {
        each("result.tasks", list, |at, task| task_to_new(at, fields(at, task)?, form))
    })?;
    Ok(Value::Object(page))
}

fn status_to_old(status: Value, form: Form) -> Result<Value, Fault> {
    let mut status = object(status)?;
    let state = status.remove("state").unwrap_or_else(|| "TASK_STATE_UNSPECIFIED".into());
    let state = if form == Form::Rest && state == CANCELED {
        CANCELLED.into()
    } else {
        word_to_old(STATES, state, form)
    };
    status.insert("state".into(), state);
    rewrite(&mut status, "message", |message| message_to_old(object(message)?, form))?;
    Ok(Value::Object(status))
}

fn artifact_to_old(artifact: Value, form: Form) -> Result<Value, Fault> {
    let mut artifact = object(artifact)?;
    let parts = artifact.remove("parts").unwrap_or_else(|| json!([]));
    artifact.insert("parts".into(), each("parts", parts, |_, part| Ok(part_to_old(part, form)))?);
    Ok(Value::Object(artifact))
}

/// `event` is the whole event of 1.0, which knows how its times are written.
pub(super) fn status_update_to_old(event: Value, is_final: bool, form: Form) -> Result<Value, Fault> {
    let mut update = object(event)?.remove("statusUpdate").map_or_else(|| Ok(Map::new()), object)?;
    rewrite(&mut update, "status", |status| status_to_old(status, form))?;
    update.insert("final".into(), is_final.into());
    if form == Form::Rpc {
        update.insert("kind".into(), "status-update".into());
    }
    Ok(Value::Object(update))
}

pub(super) fn artifact_update_to_old(mut update: Fields, form: Form) -> Result<Value, Fault> {
    rewrite(&mut update, "artifact", |artifact| artifact_to_old(artifact, form))?;
    if form == Form::Rpc {
        update.insert("kind".into(), "artifact-update".into());
    }
    Ok(Value::Object(update))
}
