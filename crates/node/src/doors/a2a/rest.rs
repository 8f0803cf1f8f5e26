//! HTTP+JSON under `/a2a/v1`, with or without a tenant before the path (H1–H10).

use super::{answer, body_of, event_text, last_mark, version, with_fault};
use crate::a2a::{Done, Engine};
use crate::card::Called;
use crate::doors::Shared;
use crate::doors::events::streamed;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::response::Response;
use http::{HeaderMap, Method, Uri, header};
use synapse_a2a::fault::{Fault, Kind};
use synapse_a2a::rest::{self, Path};
use synapse_core::policy::Caller;

pub(super) const A2A_JSON: &str = "application/a2a+json";
pub(super) const PREFIX: &str = "/a2a/v1/";

pub(in crate::doors) async fn serve(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    Extension(called): Extension<Called>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let engine = Engine::new(app.clone(), caller).called(called);
    let done = dispatch(&app, engine, &method, &uri, &headers, body).await;
    let written = match done {
        Ok(Done::Stream(events)) => {
            return streamed(events, |event| event_text(&event, |value| value), "text/event-stream");
        }
        Ok(Done::Reply(reply)) => reply.to_json(),
        Err(fault) => Err(fault),
    };
    match written {
        Ok(value) => answer(200, &value, A2A_JSON),
        Err(fault) => failed(&fault),
    }
}

pub(in crate::doors) fn failed(fault: &Fault) -> Response {
    with_fault(answer(fault.kind.codes().http, &fault.http(), A2A_JSON), fault)
}

async fn dispatch(
    app: &Shared,
    engine: Engine,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    body: Body,
) -> Result<Done, Fault> {
    version(headers, uri)?;
    let path = Path::read(method, uri.path().strip_prefix(PREFIX).unwrap_or_default())?;
    let bytes = match path.has_body() {
        true => {
            check_media(headers)?;
            body_of(app, body).await?
        }
        false => bytes::Bytes::new(),
    };
    let request = rest::request(path, uri.query().unwrap_or_default(), &bytes)?;
    engine.perform(request, last_mark(headers)).await
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
