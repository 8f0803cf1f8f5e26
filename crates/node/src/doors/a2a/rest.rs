//! HTTP+JSON under `/a2a/v1`, with or without a tenant before the path (H1–H10).

use super::{Outcome, answer, body_of, event_text, last_mark, query, version, with_fault};
use crate::a2a::Engine;
use crate::doors::Shared;
use crate::doors::events::streamed;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::response::Response;
use http::{HeaderMap, Method, Uri, header};
use serde_json::{Map, Value, json};
use synapse_a2a::fault::{Fault, Kind};
use synapse_a2a::wire::{from_json, to_json};
use synapse_core::policy::Caller;

pub(super) const A2A_JSON: &str = "application/a2a+json";
pub(super) const PREFIX: &str = "/a2a/v1/";

/// What a path and a verb ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Operation {
    Send,
    SendStreaming,
    Get { id: String },
    Cancel { id: String },
    Subscribe { id: String },
}

pub(in crate::doors) async fn serve(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Response {
    match dispatch(app, caller, &method, &uri, &headers, body).await {
        Ok(Outcome::Value(value)) => answer(200, &value, A2A_JSON),
        Ok(Outcome::Stream(events)) => {
            streamed(events, |event| event_text(&event, |value| value), "text/event-stream")
        }
        Err(fault) => with_fault(answer(fault.kind.codes().http, &fault.http(), A2A_JSON), &fault),
    }
}

async fn dispatch(
    app: Shared,
    caller: Caller,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    body: Body,
) -> Result<Outcome, Fault> {
    version(headers, uri)?;
    let (operation, tenant) = route(method, uri.path().strip_prefix(PREFIX).unwrap_or_default())?;
    let bytes = match operation {
        Operation::Send | Operation::SendStreaming => {
            check_media(headers)?;
            body_of(&app, body).await?
        }
        _ => bytes::Bytes::new(),
    };
    let engine = Engine::new(app, caller);
    let value = match operation {
        Operation::Send => to_json(&engine.send(message(&bytes, tenant)?).await?)?,
        Operation::SendStreaming => {
            return engine.send_streaming(message(&bytes, tenant)?).await.map(Outcome::Stream);
        }
        Operation::Get { id } => {
            let mut asked = json!({ "id": id });
            if let Some(length) = query(uri, "historyLength") {
                asked["historyLength"] = number("historyLength", &length)?;
            }
            to_json(&engine.get(from_json(asked)?).await?)?
        }
        Operation::Cancel { id } => to_json(&engine.cancel(from_json(json!({ "id": id }))?).await?)?,
        Operation::Subscribe { id } => {
            let request = from_json(json!({ "id": id }))?;
            return engine.subscribe(request, last_mark(headers)).await.map(Outcome::Stream);
        }
    };
    Ok(Outcome::Value(value))
}

/// The operation, and the tenant before it.
fn route(method: &Method, path: &str) -> Result<(Operation, Option<String>), Fault> {
    let mut pieces: Vec<String> = path.split('/').map(decoded).collect::<Result<_, _>>()?;
    let known = |pieces: &[String]| {
        let words: Vec<&str> = pieces.iter().map(String::as_str).collect();
        match (method, &words[..]) {
            (&Method::POST, ["message:send"]) => Some(Operation::Send),
            (&Method::POST, ["message:stream"]) => Some(Operation::SendStreaming),
            (_, ["tasks", task]) => of_task(method, task),
            _ => None,
        }
    };
    if let Some(operation) = known(&pieces) {
        return Ok((operation, None));
    }
    if pieces.len() > 1 {
        let tenant = pieces.remove(0);
        if let Some(operation) = known(&pieces) {
            return Ok((operation, Some(tenant)));
        }
    }
    Err(Fault::new(Kind::Method, format!("there is no {method} /a2a/v1/{path}")))
}

fn of_task(method: &Method, task: &str) -> Option<Operation> {
    let id = |id: &str| id.to_owned();
    match (method, task.rsplit_once(':')) {
        (&Method::GET, None) => Some(Operation::Get { id: id(task) }),
        (&Method::POST, Some((task, "cancel"))) => Some(Operation::Cancel { id: id(task) }),
        // The text of the specification has one verb, its proto the other (H10).
        (&Method::GET | &Method::POST, Some((task, "subscribe"))) => {
            Some(Operation::Subscribe { id: id(task) })
        }
        _ => None,
    }
}

fn decoded(piece: &str) -> Result<String, Fault> {
    let decoded = percent_encoding::percent_decode_str(piece).decode_utf8();
    decoded.map(std::borrow::Cow::into_owned).map_err(|_| Fault::new(Kind::Request, "the path is no UTF-8"))
}

fn number(field: &str, raw: &str) -> Result<Value, Fault> {
    raw.parse::<i32>().map(Value::from).map_err(|_| Fault::params(field, "it must be a whole number"))
}

/// H1: what is no JSON is not read as JSON.
fn check_media(headers: &HeaderMap) -> Result<(), Fault> {
    let Some(given) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let given =
        given.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if matches!(given.as_str(), "application/a2a+json" | "application/json") {
        return Ok(());
    }
    let message = format!("{given:?} is not read here; send application/a2a+json or application/json");
    Err(Fault { field: Some("Content-Type".into()), ..Fault::new(Kind::ContentType, message) })
}

fn message(bytes: &[u8], tenant: Option<String>) -> Result<synapse_a2a::pb::SendMessageRequest, Fault> {
    let mut asked: Map<String, Value> = serde_json::from_slice(bytes)
        .map_err(|e| Fault::new(Kind::Parse, format!("the body is no JSON object: {e}")))?;
    if let Some(tenant) = tenant {
        asked.insert("tenant".into(), tenant.into());
    }
    from_json(Value::Object(asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// H2, H10: paths and verbs, each also below a tenant.
    #[test]
    fn paths() {
        let id = || "t1".to_owned();
        let cases = [
            (Method::POST, "message:send", Operation::Send),
            (Method::POST, "message:stream", Operation::SendStreaming),
            (Method::GET, "tasks/t1", Operation::Get { id: id() }),
            (Method::POST, "tasks/t1:cancel", Operation::Cancel { id: id() }),
            (Method::GET, "tasks/t1:subscribe", Operation::Subscribe { id: id() }),
            (Method::POST, "tasks/t1:subscribe", Operation::Subscribe { id: id() }),
            (Method::POST, "tasks/t%31%3Acancel", Operation::Cancel { id: id() }),
        ];
        for (method, path, operation) in cases {
            assert_eq!(route(&method, path).unwrap(), (operation.clone(), None), "{path}");
            let below = format!("ac%20me/{path}");
            assert_eq!(route(&method, &below).unwrap(), (operation, Some("ac me".into())), "{below}");
        }
        let wrong = [
            (Method::GET, "message:send"),
            (Method::POST, "tasks/t1"),
            (Method::GET, "tasks/t1:cancel"),
            (Method::POST, "tasks/t1:explode"),
            (Method::GET, "a/b/tasks/t1"),
            (Method::GET, ""),
            (Method::GET, "tasks"),
        ];
        for (method, path) in wrong {
            assert_eq!(route(&method, path).unwrap_err().kind, Kind::Method, "{method} {path}");
        }
    }
}
