//! One operation as a request of an interface that speaks JSON, and what its answer says: two bindings, two versions (J1–J9, H1–H9, L1).
//!
//! Every request says its version (V6) and is for the tenant of its interface (A10). Not here: sending it.

use super::card::{Binding, Interface, Version};
use super::error::AskError;
use super::lenient;
use crate::web;
use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use synapse_a2a::lenient::{Expected, repair};
use synapse_a2a::operation::Request;
use synapse_a2a::v03::{self, Form};
use synapse_a2a::wire::{from_json, to_json};
use synapse_a2a::{Fault, pb};

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ask<'a> {
    /// As 1.0 has it.
    Send(Value),
    SendStreaming(Value),
    Get(&'a str),
    List {
        page_size: u32,
    },
    Cancel(&'a str),
    /// The card for known callers (A17).
    ExtendedCard,
    /// Some take one verb for it, some the other (H10).
    Subscribe {
        task: &'a str,
        by_post: bool,
    },
}

/// Everything but what stands in a path as it is.
pub(super) const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

impl Ask<'_> {
    pub(super) fn method(&self) -> &'static str {
        match self {
            Self::Send(_) => "SendMessage",
            Self::SendStreaming(_) => "SendStreamingMessage",
            Self::Get(_) => "GetTask",
            Self::List { .. } => "ListTasks",
            Self::Cancel(_) => "CancelTask",
            Self::ExtendedCard => "GetExtendedAgentCard",
            Self::Subscribe { .. } => "SubscribeToTask",
        }
    }

    pub(super) fn is_stream(&self) -> bool {
        matches!(self, Self::SendStreaming(_) | Self::Subscribe { .. })
    }

    /// The request without credentials.
    pub(super) fn request(&self, at: &Interface) -> Result<web::Request, AskError> {
        let request = match (at.binding, at.version) {
            (Binding::JsonRpc, _) => self.rpc(at)?,
            (Binding::HttpJson, Version::V10) => self.rest(at),
            (Binding::HttpJson, Version::V03) => self.rest_of_03(at)?,
        };
        let accept = match (self.is_stream(), at.binding) {
            (true, _) => "text/event-stream, application/json, application/a2a+json",
            (false, Binding::JsonRpc) => "application/json",
            (false, Binding::HttpJson) => "application/a2a+json, application/json",
        };
        let request = request.header("accept", accept, false)?;
        Ok(request.header("a2a-version", at.version.name(), false)?)
    }

    /// What is asked, as one object.
    pub(super) fn params(&self) -> Value {
        match self {
            Self::Send(request) | Self::SendStreaming(request) => request.clone(),
            Self::Get(id) | Self::Cancel(id) | Self::Subscribe { task: id, .. } => json!({ "id": id }),
            Self::List { page_size } => json!({ "pageSize": page_size }),
            Self::ExtendedCard => json!({}),
        }
    }

    /// What is asked, for what has it written otherwise.
    pub(super) fn operation(&self) -> Result<Request, AskError> {
        Request::of_method(self.method(), self.params()).map_err(unusable)
    }

    fn rpc(&self, at: &Interface) -> Result<web::Request, AskError> {
        let (method, params) = match at.version {
            Version::V10 => {
                let mut params = self.params();
                if let Some(tenant) = &at.tenant {
                    params["tenant"] = tenant.as_str().into();
                }
                (self.method(), params)
            }
            Version::V03 => v03::write_request(&self.operation()?).map_err(unusable)?,
        };
        let call = json!({ "jsonrpc": "2.0", "id": RPC_ID, "method": method, "params": params });
        Ok(web::Request::post(&at.url.to_string(), "application/json", call.to_string()))
    }

    fn rest_of_03(&self, at: &Interface) -> Result<web::Request, AskError> {
        let (mut verb, path, body) = v03::rest::write_request(&self.operation()?).map_err(unusable)?;
        if matches!(self, Self::Subscribe { by_post: true, .. }) {
            verb = Method::POST;
        }
        let url = at.url.below(path.trim_start_matches('/')).to_string();
        Ok(match verb {
            Method::GET => web::Request::get(&url),
            _ => web::Request::post(&url, "application/json", body.unwrap_or_else(|| json!({})).to_string()),
        })
    }

    fn rest(&self, at: &Interface) -> web::Request {
        let encoded = |raw: &str| utf8_percent_encode(raw, IN_PATH).to_string();
        let (verb, path) = match self {
            Self::Send(_) => (Method::POST, "message:send".to_owned()),
            Self::SendStreaming(_) => (Method::POST, "message:stream".to_owned()),
            Self::Get(id) => (Method::GET, format!("tasks/{}", encoded(id))),
            Self::List { page_size } => (Method::GET, format!("tasks?pageSize={page_size}")),
            Self::Cancel(id) => (Method::POST, format!("tasks/{}:cancel", encoded(id))),
            Self::ExtendedCard => (Method::GET, "extendedAgentCard".to_owned()),
            Self::Subscribe { task, by_post } => (
                if *by_post { Method::POST } else { Method::GET },
                format!("tasks/{}:subscribe", encoded(task)),
            ),
        };
        let path = match &at.tenant {
            Some(tenant) => format!("{}/{path}", encoded(tenant)),
            None => path,
        };
        let url = at.url.below(&path).to_string();
        if verb == Method::GET {
            return web::Request::get(&url);
        }
        let body = match self {
            Self::Send(request) | Self::SendStreaming(request) => request.to_string(),
            _ => json!({}).to_string(),
        };
        web::Request::post(&url, "application/a2a+json", body)
    }
}

/// One call has one connection of its own, so one number is enough.
pub(super) const RPC_ID: u64 = 1;

/// An answer, and what was odd about it.
#[derive(Debug)]
pub(super) struct Reading<T> {
    pub(super) value: T,
    pub(super) notes: Vec<&'static str>,
}

/// What is in an answer: the result of the operation, out of its envelope, as 1.0 has it.
pub(super) fn read<T: DeserializeOwned>(
    at: &Interface,
    what: Shape,
    status: u16,
    bytes: &[u8],
) -> Result<Reading<T>, AskError> {
    let mut notes = Vec::new();
    let value = lenient::json(bytes, &mut notes);
    let is_success = (200..300).contains(&status);
    let mut result = match (at.binding, value) {
        (Binding::HttpJson, value) if !is_success => {
            return Err(AskError::of_http(status, &value.unwrap_or_default()));
        }
        (Binding::HttpJson, Some(value)) => value,
        (Binding::JsonRpc, Some(value)) if is_success || value["jsonrpc"] == "2.0" => {
            lenient::result(value, what, &mut notes)?
        }
        (Binding::JsonRpc, value) if !is_success => {
            return Err(AskError::of_http(status, &value.unwrap_or_default()));
        }
        (_, _) => return Err(not_understood("it is no JSON")),
    };
    let read = match of_result(at, what, &result) {
        Err(_) if lenient::replace_unknown_states(&mut result) => {
            notes.push(lenient::UNKNOWN_STATE);
            of_result(at, what, &result)
        }
        read => read,
    };
    let Reading { value, notes: within } = read.map_err(|fault| not_understood(&fault.message))?;
    notes.extend(within);
    Ok(Reading { value, notes })
}

fn of_result<T: DeserializeOwned>(at: &Interface, what: Shape, result: &Value) -> Result<Reading<T>, Fault> {
    let mut notes = Vec::new();
    let result = result.clone();
    let mut repaired = |result, expected| {
        let repaired = repair(result, expected);
        notes = repaired.notes;
        Ok(repaired.value)
    };
    let result = match (at.version, what) {
        (_, Shape::Card) => Ok(result),
        (Version::V10, Shape::Task) => repaired(result, Expected::Task),
        (Version::V10, Shape::Page) => repaired(result, Expected::TaskPage),
        (Version::V10, Shape::Response) => repaired(result, Expected::Event),
        (Version::V03, Shape::Response) => {
            v03::read_event(result, at.binding.form()).and_then(|(told, _)| to_json(&told))
        }
        (Version::V03, Shape::Page) => {
            v03::read_tasks(result, at.binding.form()).and_then(|page| to_json(&page))
        }
        (Version::V03, Shape::Task) => {
            v03::read_task(result, at.binding.form()).and_then(|task| to_json(&task))
        }
    };
    Ok(Reading { value: result.and_then(from_json)?, notes })
}

/// What cannot be asked so is the asker's to change.
pub(super) fn unusable(fault: Fault) -> AskError {
    AskError::Unusable { why: fault.message }
}

impl Binding {
    /// Which of the two JSONs of 0.3 it has.
    fn form(self) -> Form {
        match self {
            Self::JsonRpc => Form::Rpc,
            Self::HttpJson => Form::Rest,
        }
    }
}

/// Of what kind a result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Task,
    /// Of a list of tasks.
    Page,
    /// As it came: a signature covers what is in it.
    Card,
    /// One of several: an answer to a message, or an event.
    Response,
}

/// The data of one event of a stream.
pub(super) fn read_event(at: &Interface, data: &str) -> Result<Reading<pb::StreamResponse>, AskError> {
    // Within a stream, HTTP+JSON has no status left to say that something went wrong.
    if at.binding == Binding::HttpJson
        && let Ok(value) = serde_json::from_str::<Value>(data)
        && value.get("error").is_some_and(|error| error.is_object() || error.is_string())
    {
        return Err(AskError::of_http_event(&value));
    }
    let event: Reading<pb::StreamResponse> = read(at, Shape::Response, 200, data.as_bytes())?;
    match event.value.payload {
        Some(_) => Ok(event),
        None => Err(not_understood("an event that holds nothing")),
    }
}

pub(super) fn not_understood(why: &str) -> AskError {
    AskError::NotUnderstood { why: why.chars().take(300).collect() }
}

#[cfg(test)]
mod tests {
    use super::super::url::HttpUrl;
    use super::*;

    fn at(binding: Binding, version: Version, tenant: Option<&str>) -> Interface {
        let url = HttpUrl::parse("https://a.example/x").unwrap();
        Interface { url, binding, version, tenant: tenant.map(str::to_owned) }
    }

    /// A10, V6, J2, J4, H2, H4, L1: where each goes, by each binding and version.
    #[test]
    fn every_operation_on_every_wire() {
        use Binding::{HttpJson, JsonRpc};
        use Version::{V03, V10};
        let message =
            json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "x" }] } });
        let asks = [
            (Ask::Send(message.clone()), "SendMessage", "POST message:send", "message/send"),
            (Ask::SendStreaming(message), "SendStreamingMessage", "POST message:stream", "message/stream"),
            (Ask::Get("a/b"), "GetTask", "GET tasks/a%2Fb", "tasks/get"),
            (Ask::List { page_size: 7 }, "ListTasks", "GET tasks?pageSize=7", ""),
            (Ask::Cancel("t"), "CancelTask", "POST tasks/t:cancel", "tasks/cancel"),
            (
                Ask::ExtendedCard,
                "GetExtendedAgentCard",
                "GET extendedAgentCard",
                "agent/getAuthenticatedExtendedCard",
            ),
            (
                Ask::Subscribe { task: "t", by_post: false },
                "SubscribeToTask",
                "GET tasks/t:subscribe",
                "tasks/resubscribe",
            ),
            (
                Ask::Subscribe { task: "t", by_post: true },
                "SubscribeToTask",
                "POST tasks/t:subscribe",
                "tasks/resubscribe",
            ),
        ];
        for (ask, method, rest, old) in asks {
            for tenant in [None, Some("ac me")] {
                for (version, name) in [(V10, method), (V03, old)] {
                    if name.is_empty() {
                        let none = ask.request(&at(JsonRpc, version, tenant)).unwrap_err();
                        assert!(none.to_string().contains("0.3 of A2A has no list of tasks"), "{none}");
                        continue;
                    }
                    let request = ask.request(&at(JsonRpc, version, tenant)).unwrap();
                    assert_eq!((request.method, request.url.as_str()), (Method::POST, "https://a.example/x"));
                    assert_eq!(request.headers["a2a-version"], version.name());
                    let body: Value = serde_json::from_slice(&request.body).unwrap();
                    assert_eq!((&body["jsonrpc"], &body["method"]), (&json!("2.0"), &json!(name)));
                    let told = tenant.filter(|_| version == V10);
                    assert_eq!(body["params"].get("tenant").and_then(Value::as_str), told, "{body}");
                }
                let request = ask.request(&at(HttpJson, V10, tenant)).unwrap();
                let (verb, path) = rest.split_once(' ').unwrap();
                let below = tenant.map_or("", |_| "ac%20me/");
                assert_eq!(request.url, format!("https://a.example/x/{below}{path}"));
                assert_eq!(request.method.as_str(), verb);
                assert_eq!(request.headers["a2a-version"], "1.0");
                let request = ask.request(&at(HttpJson, V03, tenant)).unwrap();
                // The one path that has another name there.
                let path = if ask == Ask::ExtendedCard { "card" } else { path };
                assert_eq!(request.url, format!("https://a.example/x/v1/{path}"));
                assert_eq!(request.headers["a2a-version"], "0.3");
            }
        }
    }

    #[test]
    fn answers_that_are_none() {
        let rpc = at(Binding::JsonRpc, Version::V10, None);
        let rest = at(Binding::HttpJson, Version::V10, None);
        let table = [
            (&rpc, 200, "<html>", "no JSON"),
            (&rpc, 200, "{}", "no answer of JSON-RPC"),
            (&rpc, 200, r#"{"jsonrpc":"2.0","id":2,"result":{}}"#, "another request"),
            (&rpc, 200, r#"{"jsonrpc":"2.0","id":1}"#, "neither a result nor an error"),
            (&rpc, 200, r#"{"jsonrpc":"2.0","id":1,"result":{"id":7}}"#, "id"),
            (&rpc, 200, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"gone"}}"#, "gone"),
            (&rpc, 502, "<html>", "HTTP status 502"),
            (&rest, 200, "<html>", "no JSON"),
            (&rest, 200, "[]", "its answer was not understood"),
            (&rest, 404, "<html>", "HTTP status 404"),
            (&rest, 200, r#"{"status":{"state":["TASK_STATE_WORKING"]}}"#, "its answer was not understood"),
        ];
        for (at, status, body, words) in table {
            let error = read::<pb::Task>(at, Shape::Task, status, body.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(words), "{status} {body}: {error}");
        }
        let task: pb::Task = read(&rest, Shape::Task, 200, br#"{"id":"t","later":1}"#).unwrap().value;
        assert_eq!(task.id, "t");
        let error = read_event(&rest, r#"{"error":{"code":404,"message":"gone"}}"#).unwrap_err();
        assert!(error.is(synapse_a2a::Kind::TaskNotFound), "{error:?}");
    }

    /// Finding A6: one state that nobody knows made the whole answer unreadable.
    #[test]
    fn a_task_in_an_unknown_state_is_working() {
        let task = json!({ "id": "t", "contextId": "c", "status": { "state": "paused" } });
        let update = json!({ "taskId": "t", "contextId": "c", "status": { "state": "TASK_STATE_FLYING" } });
        for (binding, version) in [
            (Binding::JsonRpc, Version::V10),
            (Binding::JsonRpc, Version::V03),
            (Binding::HttpJson, Version::V10),
            (Binding::HttpJson, Version::V03),
        ] {
            let at = at(binding, version, None);
            let wrapped = |result: Value| match binding {
                Binding::JsonRpc => json!({ "jsonrpc": "2.0", "id": 1, "result": result }).to_string(),
                Binding::HttpJson => result.to_string(),
            };
            let body = wrapped(task.clone());
            let read: Reading<pb::Task> = read(&at, Shape::Task, 200, body.as_bytes()).unwrap();
            assert_eq!(read.value.status.unwrap().state(), pb::TaskState::Working, "{body}");
            assert!(read.notes.contains(&lenient::UNKNOWN_STATE), "{body}: {:?}", read.notes);
            let event = read_event(&at, &wrapped(json!({ "statusUpdate": update }))).unwrap();
            assert_eq!(event.notes, [lenient::UNKNOWN_STATE]);
        }
    }
}
