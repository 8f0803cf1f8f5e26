//! Version 0.3 of A2A as data: its requests become those of 1.0, and what 1.0 answers becomes what 0.3 expects; and
//! the other way round, for calls to a server that speaks only 0.3 (L1, L2, V7).
//!
//! 0.3 has two JSONs for the same things ([`Form`]). JSON-RPC has that of its schema: `kind` says what something is,
//! states and roles are small words. HTTP+JSON has that of its proto: names of enums, `content` where the schema has
//! `parts`; so has gRPC, whose messages become it. Everything here rewrites JSON into JSON; types and checks are those
//! of 1.0.
//!
//! What 0.3 cannot hold is left out: the media type and the name of a text, tenants, all but the first scheme of a
//! webhook. Not here: doors and streams (`synapse-node`).

mod card;
mod data;
pub mod grpc;
mod push;
pub mod rest;
#[cfg(test)]
mod round_trips;
mod send;
mod task;
#[cfg(test)]
mod tests;

use crate::fault::{Fault, Kind};
use crate::operation::{Reply, Request};
use crate::pb;
use crate::wire::{from_json, to_json, whole_numbers};
use data::Fields;
use pb::send_message_response::Payload as Sent;
use pb::stream_response::Payload as Told;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Which of the two JSONs of 0.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Of its schema, with `kind`: JSON-RPC.
    Rpc,
    /// Of its proto: HTTP+JSON, and gRPC by way of it.
    Rest,
}

// tidy: table
const METHODS: &[&str] = &[
    "message/send",
    "message/stream",
    "tasks/get",
    "tasks/cancel",
    "tasks/resubscribe",
    "tasks/pushNotificationConfig/set",
    "tasks/pushNotificationConfig/get",
    "tasks/pushNotificationConfig/list",
    "tasks/pushNotificationConfig/delete",
    "agent/getAuthenticatedExtendedCard",
];

/// Whether 0.3 has a method of this name.
pub fn is_method(name: &str) -> bool {
    METHODS.contains(&name)
}

/// A call over JSON-RPC.
pub fn read_request(method: &str, params: Value) -> Result<Request, Fault> {
    let form = Form::Rpc;
    let fields = data::fields("params", params)?;
    Ok(match method {
        "message/send" => Request::Send(from_json(send::send_to_new(fields, form)?)?),
        "message/stream" => Request::SendStreaming(from_json(send::send_to_new(fields, form)?)?),
        "tasks/get" => Request::Get(from_json(send::get_to_new(fields))?),
        "tasks/cancel" => Request::Cancel(from_json(Value::Object(fields))?),
        "tasks/resubscribe" => Request::Subscribe(from_json(Value::Object(fields))?),
        "tasks/pushNotificationConfig/set" => Request::CreatePush(from_json(push::set_to_new(fields)?)?),
        "tasks/pushNotificationConfig/get" => Request::GetPush(from_json(push::named_to_new(fields))?),
        "tasks/pushNotificationConfig/list" => Request::ListPush(from_json(push::named_to_new(fields))?),
        "tasks/pushNotificationConfig/delete" => Request::DeletePush(from_json(push::named_to_new(fields))?),
        "agent/getAuthenticatedExtendedCard" => Request::ExtendedCard(from_json(Value::Object(fields))?),
        other => return Err(no_such_method(other)),
    })
}

/// Who forgets the version is told, since that is all that is wrong.
fn no_such_method(name: &str) -> Fault {
    let hint = match Request::of_method(name, json!({})) {
        Err(fault) if fault.kind == Kind::Method => "there is none in 1.0 either",
        _ => "it is one of 1.0: send `A2A-Version: 1.0`",
    };
    let message = format!(
        "there is no method {name:?} in version 0.3 of A2A, which is spoken without `A2A-Version`; {hint}"
    );
    Fault::new(Kind::Method, message)
}

/// A call over JSON-RPC: the name of the method and its parameters.
pub fn write_request(request: &Request) -> Result<(&'static str, Value), Fault> {
    let form = Form::Rpc;
    Ok(match request {
        Request::Send(send) => ("message/send", send::send_to_old(written(send)?, form)?),
        Request::SendStreaming(send) => ("message/stream", send::send_to_old(written(send)?, form)?),
        Request::Get(get) => ("tasks/get", without(written(get)?, &["tenant"])),
        Request::Cancel(cancel) => ("tasks/cancel", without(written(cancel)?, &["tenant"])),
        Request::Subscribe(subscribe) => ("tasks/resubscribe", json!({ "id": subscribe.id })),
        Request::CreatePush(config) => ("tasks/pushNotificationConfig/set", push::to_old(config, form)),
        Request::GetPush(get) => {
            ("tasks/pushNotificationConfig/get", push::named_to_old(&get.task_id, &get.id))
        }
        Request::ListPush(list) => ("tasks/pushNotificationConfig/list", json!({ "id": list.task_id })),
        Request::DeletePush(delete) => {
            ("tasks/pushNotificationConfig/delete", push::named_to_old(&delete.task_id, &delete.id))
        }
        Request::ExtendedCard(_) => ("agent/getAuthenticatedExtendedCard", json!({})),
        Request::List(_) => return Err(no_list()),
    })
}

fn no_list() -> Fault {
    Fault::new(Kind::Unsupported, "version 0.3 of A2A has no list of tasks, but over HTTP+JSON")
}

/// The `result` of a JSON-RPC answer, or the body of an HTTP+JSON one.
pub fn write_reply(reply: &Reply, form: Form) -> Result<Value, Fault> {
    Ok(match reply {
        Reply::Sent(sent) => match &sent.payload {
            Some(Sent::Task(task)) => enveloped("task", task::task_to_old(to_json(task)?, form)?, form),
            Some(Sent::Message(message)) => {
                enveloped("message", data::message_to_old(written(message)?, form)?, form)
            }
            None => return Err(Fault::new(Kind::Internal, "an answer without a task or a message")),
        },
        Reply::Task(task) => task::task_to_old(to_json(task)?, form)?,
        Reply::Tasks(page) => task::tasks_to_old(to_json(page)?, form)?,
        Reply::Push(config) => push::to_old(config, form),
        Reply::Pushes(page) => {
            let configs = page.configs.iter().map(|config| push::to_old(config, form)).collect();
            match form {
                Form::Rpc => Value::Array(configs),
                Form::Rest => {
                    json!({ "configs": Value::Array(configs), "nextPageToken": page.next_page_token })
                }
            }
        }
        Reply::Nothing => match form {
            Form::Rpc => Value::Null,
            Form::Rest => json!({}),
        },
        Reply::Card(card) => card::to_old(written(&**card)?, form)?,
    })
}

/// The answer to a request, as a server that speaks 0.3 gave it.
pub fn read_reply(request: &Request, value: Value, form: Form) -> Result<Reply, Fault> {
    let reply = match request {
        Request::Send(_) => match task::told_to_new(value, form) {
            Ok((name @ ("task" | "message"), told)) => from_json(json!({ name: told })).map(Reply::Sent),
            Ok((name, _)) => Err(Fault::params("result", format!("a {name} is no answer to a message"))),
            Err(fault) => Err(fault),
        },
        Request::Get(_) | Request::Cancel(_) => read_task(value, form).map(Reply::Task),
        Request::CreatePush(_) | Request::GetPush(_) => {
            push::to_new("result", value).and_then(from_json).map(Reply::Push)
        }
        Request::ListPush(_) => push::list_to_new(value).and_then(from_json).map(Reply::Pushes),
        Request::DeletePush(_) => Ok(Reply::Nothing),
        Request::ExtendedCard(_) => read_card(value).map(|card| Reply::Card(Box::new(card))),
        Request::List(_) => read_tasks(value, form).map(Reply::Tasks),
        Request::SendStreaming(_) | Request::Subscribe(_) => {
            Err(Fault::new(Kind::Internal, "a stream has events and no answer"))
        }
    };
    reply.map_err(bad_answer)
}

pub fn read_task(value: Value, form: Form) -> Result<pb::Task, Fault> {
    let task = data::fields("result", value).and_then(|task| task::task_to_new("result", task, form));
    task.and_then(from_json).map_err(bad_answer)
}

/// Only HTTP+JSON has it in 0.3.
pub fn read_tasks(value: Value, form: Form) -> Result<pb::ListTasksResponse, Fault> {
    task::tasks_to_new(value, form).and_then(from_json).map_err(bad_answer)
}

/// One event of a stream.
pub fn write_event(event: &pb::StreamResponse, form: Form) -> Result<Value, Fault> {
    let (name, value) = match &event.payload {
        Some(Told::Task(task)) => ("task", task::task_to_old(to_json(task)?, form)?),
        Some(Told::Message(message)) => ("message", data::message_to_old(written(message)?, form)?),
        Some(Told::StatusUpdate(_)) => {
            ("statusUpdate", task::status_update_to_old(to_json(event)?, is_final(event), form)?)
        }
        Some(Told::ArtifactUpdate(update)) => {
            ("artifactUpdate", task::artifact_update_to_old(written(update)?, form)?)
        }
        None => return Err(Fault::new(Kind::Internal, "an event that says nothing")),
    };
    Ok(enveloped(name, value, form))
}

/// Whether a call of 0.3 has a message whose parts lack their `kind`, as those of 1.0 do. Clients that mix the versions
/// (fasta2a 2) call methods of 0.3 with such parts, and read the answer in the envelope of 1.0.
pub fn has_untyped_parts(params: &Value) -> bool {
    let parts = params["message"]["parts"].as_array();
    let is_untyped = |part: &Value| part.get("kind").or_else(|| part.get("type")).is_none();
    parts.is_some_and(|parts| !parts.is_empty() && parts.iter().all(is_untyped))
}

/// An answer or event over JSON-RPC, and within it the same once more in the envelope of 1.0.
pub fn with_envelope(mut told: Value) -> Value {
    let name = match told["kind"].as_str() {
        Some("task") => "task",
        Some("message") => "message",
        Some("status-update") => "statusUpdate",
        Some("artifact-update") => "artifactUpdate",
        _ => return told,
    };
    let inner = told.clone();
    if let Some(fields) = told.as_object_mut() {
        fields.insert(name.to_owned(), inner);
    }
    told
}

/// One event of a stream, as a server that speaks 0.3 gave it; and whether it says that nothing more comes.
pub fn read_event(value: Value, form: Form) -> Result<(pb::StreamResponse, bool), Fault> {
    let read = task::told_to_new(value, form).and_then(|(name, mut told)| {
        let last = told.as_object_mut().and_then(|told| told.remove("final")) == Some(Value::Bool(true));
        from_json(json!({ name: told })).map(|event| (event, last))
    });
    read.map_err(bad_answer)
}

/// After such an event a stream of 0.3 ends: the task has ended, or asks for something (`final`).
pub fn is_final(event: &pb::StreamResponse) -> bool {
    match &event.payload {
        Some(Told::StatusUpdate(update)) => match update.status.as_ref().map(pb::TaskStatus::state) {
            Some(
                pb::TaskState::Completed
                | pb::TaskState::Failed
                | pb::TaskState::Canceled
                | pb::TaskState::Rejected
                | pb::TaskState::InputRequired
                | pb::TaskState::AuthRequired,
            ) => true,
            Some(pb::TaskState::Unspecified | pb::TaskState::Submitted | pb::TaskState::Working) | None => {
                false
            }
        },
        Some(Told::Message(_)) => true,
        Some(Told::Task(_) | Told::ArtifactUpdate(_)) | None => false,
    }
}

/// A card of 0.3, also one that says nothing of 1.0.
pub fn read_card(value: Value) -> Result<pb::AgentCard, Fault> {
    card::to_new(value).and_then(from_json).map_err(bad_answer)
}

/// A card as 0.3 has it, without signatures: they are over the card of 1.0.
pub fn write_card(card: &pb::AgentCard) -> Result<Value, Fault> {
    card::to_old(written(card)?, Form::Rpc)
}

/// JSON-RPC says in `kind` what something is, HTTP+JSON in the name of a field around it.
fn enveloped(name: &str, value: Value, form: Form) -> Value {
    match form {
        Form::Rpc => value,
        Form::Rest => json!({ name: value }),
    }
}

fn written<T: Serialize>(value: &T) -> Result<Fields, Fault> {
    match serde_json::to_value(value).map(whole_numbers) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Ok(Map::new()),
        Err(e) => Err(Fault::new(Kind::Internal, format!("something that is no JSON: {e}"))),
    }
}

fn without(mut fields: Fields, names: &[&str]) -> Value {
    fields.retain(|name, _| !names.contains(&name.as_str()));
    Value::Object(fields)
}

/// What another server answered is at fault, not who asked.
fn bad_answer(fault: Fault) -> Fault {
    match fault.kind {
        Kind::Params => Fault { kind: Kind::BadAgentAnswer, ..fault },
        _ => fault,
    }
}
