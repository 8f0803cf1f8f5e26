//! gRPC of 0.3: the service of its package `a2a.v1`, in both directions.
//!
//! The messages of its proto have the JSON that HTTP+JSON of 0.3 has, so they are read and written by way of it. What is
//! named there by a path in the URL is here named by the same path in a field.

use super::{Form, card, no_list, push, read_event as read_told, send, write_event, write_reply, written};
use crate::fault::{Fault, Kind};
use crate::grpc::{frame, no_method};
use crate::operation::{Reply, Request};
use crate::pb;
use crate::wire::{from_json, whole_numbers};
use prost::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use synapse_a2a_v03 as old;

/// What all its paths begin with; the name of the operation follows.
pub const PREFIX: &str = "/a2a.v1.A2AService/";

/// What a caller asks for, by the last part of the path.
pub fn request(method: &str, message: &[u8]) -> Result<Request, Fault> {
    Ok(match method {
        "SendMessage" => Request::Send(sent(message)?),
        "SendStreamingMessage" => Request::SendStreaming(sent(message)?),
        "GetTask" => {
            let asked: old::GetTaskRequest = read(message)?;
            let fields = json!({ "id": task("name", &asked.name)?, "historyLength": asked.history_length });
            Request::Get(from_json(send::get_to_new(fields_of(fields)?))?)
        }
        "CancelTask" => {
            let asked: old::CancelTaskRequest = read(message)?;
            Request::Cancel(from_json(json!({ "id": task("name", &asked.name)? }))?)
        }
        "TaskSubscription" => {
            let asked: old::TaskSubscriptionRequest = read(message)?;
            Request::Subscribe(from_json(json!({ "id": task("name", &asked.name)? }))?)
        }
        "CreateTaskPushNotificationConfig" => {
            let asked: old::CreateTaskPushNotificationConfigRequest = read(message)?;
            let mut fields = as_json(&asked)?;
            fields["taskId"] = task("parent", &asked.parent)?.into();
            Request::CreatePush(from_json(push::set_to_new(fields_of(fields)?)?)?)
        }
        "GetTaskPushNotificationConfig" => {
            let asked: old::GetTaskPushNotificationConfigRequest = read(message)?;
            Request::GetPush(from_json(webhook(&asked.name)?)?)
        }
        "ListTaskPushNotificationConfig" => {
            let asked: old::ListTaskPushNotificationConfigRequest = read(message)?;
            let page = json!({ "pageSize": asked.page_size, "pageToken": asked.page_token });
            let mut fields = fields_of(page)?;
            fields.insert("taskId".into(), task("parent", &asked.parent)?.into());
            Request::ListPush(from_json(Value::Object(fields))?)
        }
        "DeleteTaskPushNotificationConfig" => {
            let asked: old::DeleteTaskPushNotificationConfigRequest = read(message)?;
            Request::DeletePush(from_json(webhook(&asked.name)?)?)
        }
        "GetAgentCard" => Request::ExtendedCard(pb::GetExtendedAgentCardRequest::default()),
        other => return Err(no_such_method(other)),
    })
}

fn sent(message: &[u8]) -> Result<pb::SendMessageRequest, Fault> {
    let asked = as_json(&read::<old::SendMessageRequest>(message)?)?;
    from_json(send::send_to_new(fields_of(asked)?, Form::Rest)?)
}

/// `tasks/ID`.
fn task<'a>(field: &str, name: &'a str) -> Result<&'a str, Fault> {
    let id = name.strip_prefix("tasks/").filter(|id| !id.is_empty() && !id.contains('/'));
    id.ok_or_else(|| Fault::params(field, "it must be tasks/ID"))
}

/// `tasks/ID/pushNotificationConfigs/ID`.
fn webhook(name: &str) -> Result<Value, Fault> {
    let found = name.split_once("/pushNotificationConfigs/").filter(|(_, id)| !id.contains('/'));
    let (of, id) =
        found.ok_or_else(|| Fault::params("name", "it must be tasks/ID/pushNotificationConfigs/ID"))?;
    Ok(json!({ "taskId": task("name", of)?, "id": id }))
}

/// Who calls by the name that 1.0 has is told where it is.
fn no_such_method(name: &str) -> Fault {
    let fault = no_method(name);
    let hint = match crate::grpc::request(name, b"") {
        Ok(_) => "; it is one of 1.0, whose service is lf.a2a.v1.A2AService",
        Err(_) => "",
    };
    Fault { message: format!("{} in version 0.3{hint}", fault.message), ..fault }
}

/// An answer, framed.
pub fn reply(reply: &Reply) -> Result<Vec<u8>, Fault> {
    let json = || write_reply(reply, Form::Rest);
    Ok(match reply {
        Reply::Sent(_) => frame(&made::<old::SendMessageResponse>(json()?)?),
        Reply::Task(_) => frame(&made::<old::Task>(json()?)?),
        Reply::Push(_) => frame(&made::<old::TaskPushNotificationConfig>(json()?)?),
        Reply::Pushes(_) => frame(&made::<old::ListTaskPushNotificationConfigResponse>(json()?)?),
        Reply::Card(card) => frame(&made::<old::AgentCard>(card::to_proto(written(&**card)?)?)?),
        Reply::Nothing => frame(&()),
        Reply::Tasks(_) => return Err(no_list()),
    })
}

/// One event of a stream, framed.
pub fn event(event: &pb::StreamResponse) -> Result<Vec<u8>, Fault> {
    Ok(frame(&made::<old::StreamResponse>(write_event(event, Form::Rest)?)?))
}

/// A call of ours: the name of the operation and the message, framed.
pub fn write_request(request: &Request) -> Result<(&'static str, Vec<u8>), Fault> {
    let name = |id: &str| format!("tasks/{id}");
    let webhook = |task: &str, id: &str| format!("tasks/{task}/pushNotificationConfigs/{id}");
    Ok(match request {
        Request::Send(asked) => ("SendMessage", frame(&send_to_proto(asked)?)),
        Request::SendStreaming(asked) => ("SendStreamingMessage", frame(&send_to_proto(asked)?)),
        Request::Get(asked) => {
            let history_length = asked.history_length.unwrap_or_default();
            ("GetTask", frame(&old::GetTaskRequest { name: name(&asked.id), history_length }))
        }
        Request::Cancel(asked) => ("CancelTask", frame(&old::CancelTaskRequest { name: name(&asked.id) })),
        Request::Subscribe(asked) => {
            ("TaskSubscription", frame(&old::TaskSubscriptionRequest { name: name(&asked.id) }))
        }
        Request::CreatePush(asked) => {
            let message = old::CreateTaskPushNotificationConfigRequest {
                parent: name(&asked.task_id),
                config_id: asked.id.clone(),
                config: Some(made(push::to_old(asked, Form::Rest))?),
            };
            ("CreateTaskPushNotificationConfig", frame(&message))
        }
        Request::GetPush(asked) => {
            let name = webhook(&asked.task_id, &asked.id);
            ("GetTaskPushNotificationConfig", frame(&old::GetTaskPushNotificationConfigRequest { name }))
        }
        Request::ListPush(asked) => {
            let message = old::ListTaskPushNotificationConfigRequest {
                parent: name(&asked.task_id),
                page_size: asked.page_size,
                page_token: asked.page_token.clone(),
            };
            ("ListTaskPushNotificationConfig", frame(&message))
        }
        Request::DeletePush(asked) => {
            let name = webhook(&asked.task_id, &asked.id);
            let message = old::DeleteTaskPushNotificationConfigRequest { name };
            ("DeleteTaskPushNotificationConfig", frame(&message))
        }
        Request::ExtendedCard(_) => ("GetAgentCard", frame(&old::GetAgentCardRequest {})),
        Request::List(_) => return Err(no_list()),
    })
}

fn send_to_proto(asked: &pb::SendMessageRequest) -> Result<old::SendMessageRequest, Fault> {
    made(send::send_to_old(written(asked)?, Form::Rest)?)
}

/// The answer to a request, as a server that speaks 0.3 gave it.
pub fn read_reply(request: &Request, message: &[u8]) -> Result<Reply, Fault> {
    let json = match request {
        Request::Send(_) => {
            let mut sent: old::SendMessageResponse = read(message)?;
            if let Some(old::send_message_response::Payload::Task(task)) = &mut sent.payload {
                drop_bad_time(&mut task.status);
            }
            as_json(&sent)
        }
        Request::Get(_) | Request::Cancel(_) => {
            let mut task: old::Task = read(message)?;
            drop_bad_time(&mut task.status);
            as_json(&task)
        }
        Request::CreatePush(_) | Request::GetPush(_) => {
            as_json(&read::<old::TaskPushNotificationConfig>(message)?)
        }
        Request::ListPush(_) => as_json(&read::<old::ListTaskPushNotificationConfigResponse>(message)?),
        Request::ExtendedCard(_) => {
            let card = as_json(&read::<old::AgentCard>(message)?)?;
            return super::read_card(card::of_proto(card)).map(|card| Reply::Card(Box::new(card)));
        }
        Request::DeletePush(_) => Ok(Value::Null),
        Request::List(_) | Request::SendStreaming(_) | Request::Subscribe(_) => Err(no_list()),
    };
    super::read_reply(request, json?, Form::Rest)
}

/// One event of a stream, as a server that speaks 0.3 gave it; and whether it says that nothing more comes.
pub fn read_event(message: &[u8]) -> Result<(pb::StreamResponse, bool), Fault> {
    use old::stream_response::Payload;
    let mut told: old::StreamResponse = read(message)?;
    match &mut told.payload {
        Some(Payload::Task(task)) => drop_bad_time(&mut task.status),
        Some(Payload::StatusUpdate(update)) => drop_bad_time(&mut update.status),
        Some(Payload::Msg(_) | Payload::ArtifactUpdate(_)) | None => {}
    }
    read_told(as_json(&told)?, Form::Rest)
}

/// A time that says none is no reason to lose the task.
fn drop_bad_time(status: &mut Option<old::TaskStatus>) {
    // From the year 1 to the year 9999, as JSON has them.
    const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
    if let Some(status) = status {
        let is_time = |at: &_| {
            let pbjson_types::Timestamp { seconds, nanos } = at;
            SECONDS.contains(seconds) && (0..1_000_000_000).contains(nanos)
        };
        status.timestamp = status.timestamp.take().filter(is_time);
    }
}

fn read<T: Message + Default>(message: &[u8]) -> Result<T, Fault> {
    T::decode(message).map_err(|e| Fault::new(Kind::Request, format!("the message cannot be read: {e}")))
}

fn as_json<T: Serialize>(message: &T) -> Result<Value, Fault> {
    let json = serde_json::to_value(message).map(whole_numbers);
    json.map_err(|e| Fault::params("message", e.to_string()))
}

fn fields_of(value: Value) -> Result<super::data::Fields, Fault> {
    super::data::fields("message", value)
}

fn made<T: DeserializeOwned>(json: Value) -> Result<T, Fault> {
    let made = serde_json::from_value(json);
    made.map_err(|e| Fault::new(Kind::Internal, format!("something that 0.3 cannot hold: {e}")))
}
