//! HTTP+JSON of 0.3: its paths, which are those of 1.0 but one, and its errors.
//!
//! The specification of 0.3 gives no codes of HTTP; these are the ones of its Python library, which others follow.

use super::data::Fields;
use super::{Form, push, read_request, send, written};
use crate::fault::{Fault, Kind};
use crate::operation::Request;
use crate::rest::{Path, Row, asked, listed, verbs_among};
use crate::wire::from_json;
use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

const PUSH: &str = "pushNotificationConfigs";

// tidy: table
const ROWS: &[Row] = &[
    ("POST", &["message:send"], "message/send", true),
    ("POST", &["message:stream"], "message/stream", true),
    ("GET", &["tasks"], "tasks/list", false),
    ("GET", &["tasks", "{id}"], "tasks/get", false),
    ("POST", &["tasks", "{id}:cancel"], "tasks/cancel", true),
    // Its Python library has one verb, its JavaScript library the other.
    ("GET", &["tasks", "{id}:subscribe"], "tasks/resubscribe", false),
    ("POST", &["tasks", "{id}:subscribe"], "tasks/resubscribe", false),
    ("POST", &["tasks", "{taskId}", PUSH], "tasks/pushNotificationConfig/set", true),
    ("GET", &["tasks", "{id}", PUSH], "tasks/pushNotificationConfig/list", false),
    (
        "GET",
        &["tasks", "{id}", PUSH, "{pushNotificationConfigId}"],
        "tasks/pushNotificationConfig/get",
        false,
    ),
    (
        "DELETE",
        &["tasks", "{id}", PUSH, "{pushNotificationConfigId}"],
        "tasks/pushNotificationConfig/delete",
        false,
    ),
    ("GET", &["card"], "agent/getAuthenticatedExtendedCard", false),
];

/// Every verb and path below `/v1/`.
pub fn rows() -> impl Iterator<Item = (&'static str, String)> {
    listed(ROWS)
}

/// The verbs that a path takes; none if there is no such path.
pub fn verbs(path: &str) -> Vec<&'static str> {
    verbs_among(ROWS, path)
}

/// A path below `/v1/`.
pub fn read_path(verb: &Method, path: &str) -> Result<Path, Fault> {
    Path::read_among(ROWS, verb, path).map_err(|fault| {
        let hint = match Path::read(verb, path) {
            Ok(_) => "; it is one of 1.0: send `A2A-Version: 1.0`",
            Err(_) => "",
        };
        Fault { message: format!("{}, version 0.3{hint}", fault.message), ..fault }
    })
}

pub fn request(path: Path, query: &str, body: &[u8]) -> Result<Request, Fault> {
    let (method, fields) = asked(path, query, body)?;
    Ok(match method {
        "message/send" => Request::Send(from_json(sent(fields)?)?),
        "message/stream" => Request::SendStreaming(from_json(sent(fields)?)?),
        "tasks/list" => Request::List(from_json(Value::Object(fields))?),
        _ => return read_request(method, Value::Object(fields)),
    })
}

fn sent(fields: Fields) -> Result<Value, Fault> {
    send::send_to_new(fields, Form::Rest)
}

/// The verb, the path after the URL of the interface, and the body.
pub fn write_request(request: &Request) -> Result<(Method, String, Option<Value>), Fault> {
    let task = |id: &str| format!("/v1/tasks/{}", encoded(id));
    let webhook = |task_id: &str, id: &str| format!("{}/{PUSH}/{}", task(task_id), encoded(id));
    Ok(match request {
        Request::Send(asked) => {
            (Method::POST, "/v1/message:send".into(), Some(send::send_to_old(written(asked)?, Form::Rest)?))
        }
        Request::SendStreaming(asked) => {
            (Method::POST, "/v1/message:stream".into(), Some(send::send_to_old(written(asked)?, Form::Rest)?))
        }
        Request::Get(get) => {
            let query =
                get.history_length.map(|length| format!("?historyLength={length}")).unwrap_or_default();
            (Method::GET, format!("{}{query}", task(&get.id)), None)
        }
        Request::Cancel(cancel) => {
            let body = json!({ "name": format!("tasks/{}", cancel.id) });
            (Method::POST, format!("{}:cancel", task(&cancel.id)), Some(body))
        }
        Request::Subscribe(subscribe) => (Method::GET, format!("{}:subscribe", task(&subscribe.id)), None),
        Request::CreatePush(config) => {
            let body = json!({
                "parent": format!("tasks/{}", config.task_id),
                "configId": config.id,
                "config": push::to_old(config, Form::Rest),
            });
            (Method::POST, format!("{}/{PUSH}", task(&config.task_id)), Some(body))
        }
        Request::GetPush(get) => (Method::GET, webhook(&get.task_id, &get.id), None),
        Request::ListPush(list) => (Method::GET, format!("{}/{PUSH}", task(&list.task_id)), None),
        Request::DeletePush(delete) => (Method::DELETE, webhook(&delete.task_id, &delete.id), None),
        Request::ExtendedCard(_) => (Method::GET, "/v1/card".into(), None),
        Request::List(list) => {
            let query = list.page_size.map(|size| format!("?pageSize={size}")).unwrap_or_default();
            (Method::GET, format!("/v1/tasks{query}"), None)
        }
    })
}

/// What need not be encoded is not: ids are full of hyphens.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

fn encoded(piece: &str) -> String {
    utf8_percent_encode(piece, RESERVED).to_string()
}

/// The body of an error: as in JSON-RPC, without an envelope.
pub fn fault(fault: &Fault) -> Value {
    fault.json_rpc()
}

// tidy: table
pub fn status(kind: Kind) -> u16 {
    match kind {
        Kind::TaskNotCancelable => 409,
        Kind::PushNotSupported | Kind::Unsupported => 501,
        Kind::ContentType => 415,
        Kind::BadAgentAnswer => 502,
        Kind::NoExtendedCard => 404,
        Kind::Params => 422,
        Kind::TaskNotFound
        | Kind::ExtensionRequired
        | Kind::Version
        | Kind::Parse
        | Kind::Request
        | Kind::Method
        | Kind::Internal
        | Kind::Unauthenticated
        | Kind::Denied
        | Kind::TooLarge
        | Kind::TooMany
        | Kind::Stopping => kind.codes().http,
    }
}
