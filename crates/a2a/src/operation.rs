//! The eleven operations of the protocol (checklist 0), as one type of request and one of answer below all bindings.
//!
//! A binding only reads a [`Request`] and writes a [`Reply`]; what they mean is decided once (G2, E21). Not here:
//! streams, which a node makes.

use crate::fault::{Fault, Kind};
use crate::pb;
use crate::wire::{from_json, to_json};
use serde_json::{Value, json};

/// What a caller asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    Send(pb::SendMessageRequest),
    SendStreaming(pb::SendMessageRequest),
    Get(pb::GetTaskRequest),
    List(pb::ListTasksRequest),
    Cancel(pb::CancelTaskRequest),
    Subscribe(pb::SubscribeToTaskRequest),
    CreatePush(pb::TaskPushNotificationConfig),
    GetPush(pb::GetTaskPushNotificationConfigRequest),
    ListPush(pb::ListTaskPushNotificationConfigsRequest),
    DeletePush(pb::DeleteTaskPushNotificationConfigRequest),
    ExtendedCard(pb::GetExtendedAgentCardRequest),
}

/// What it is answered, unless that is a stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    Sent(pb::SendMessageResponse),
    Task(pb::Task),
    Tasks(pb::ListTasksResponse),
    Push(pb::TaskPushNotificationConfig),
    Pushes(pb::ListTaskPushNotificationConfigsResponse),
    /// Something was deleted.
    Nothing,
    Card(Box<pb::AgentCard>),
}

impl Request {
    /// As JSON-RPC names it, which is also how gRPC does (J2).
    pub fn of_method(name: &str, params: Value) -> Result<Self, Fault> {
        Ok(match name {
            "SendMessage" => Self::Send(from_json(params)?),
            "SendStreamingMessage" => Self::SendStreaming(from_json(params)?),
            "GetTask" => Self::Get(from_json(params)?),
            "ListTasks" => Self::List(from_json(params)?),
            "CancelTask" => Self::Cancel(from_json(params)?),
            "SubscribeToTask" => Self::Subscribe(from_json(params)?),
            "CreateTaskPushNotificationConfig" => Self::CreatePush(from_json(params)?),
            "GetTaskPushNotificationConfig" => Self::GetPush(from_json(params)?),
            "ListTaskPushNotificationConfigs" => Self::ListPush(from_json(params)?),
            "DeleteTaskPushNotificationConfig" => Self::DeletePush(from_json(params)?),
            "GetExtendedAgentCard" => Self::ExtendedCard(from_json(params)?),
            other => return Err(Fault::new(Kind::Method, format!("there is no method {other:?}"))),
        })
    }
}

impl Request {
    /// The tenant that it names; empty if none.
    pub fn tenant(&self) -> &str {
        match self {
            Self::Send(request) | Self::SendStreaming(request) => &request.tenant,
            Self::Get(request) => &request.tenant,
            Self::List(request) => &request.tenant,
            Self::Cancel(request) => &request.tenant,
            Self::Subscribe(request) => &request.tenant,
            Self::CreatePush(config) => &config.tenant,
            Self::GetPush(request) => &request.tenant,
            Self::ListPush(request) => &request.tenant,
            Self::DeletePush(request) => &request.tenant,
            Self::ExtendedCard(request) => &request.tenant,
        }
    }
}

impl Reply {
    pub fn to_json(&self) -> Result<Value, Fault> {
        match self {
            Self::Sent(sent) => to_json(sent),
            Self::Task(task) => to_json(task),
            Self::Tasks(page) => to_json(page),
            Self::Push(push) => to_json(push),
            Self::Pushes(page) => to_json(page),
            Self::Nothing => Ok(json!({})),
            Self::Card(card) => to_json(&**card),
        }
    }
}
