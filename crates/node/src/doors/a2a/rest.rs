//! HTTP+JSON under `/a2a/v1`, with or without a tenant before the path (H1–H10).

use super::{
    Spoken, answer, body_of, event_json, event_text, last_mark, perform, reply_json, version, with_fault,
};
use crate::a2a::{Done, Engine};
use crate::card::Called;
use crate::doors::Shared;
use crate::doors::events::streamed;
use crate::uploads::{Room, Upload};
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::response::Response;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use synapse_a2a::check::Version;
use synapse_a2a::fault::{Fault, Kind};
use synapse_a2a::rest::{self, Path};
use synapse_a2a::v03::{self, Form};
use synapse_core::policy::Caller;

const A2A_JSON: &str = "application/a2a+json";
/// The media type of 0.3 responses, which predates `application/a2a+json`.
const JSON: &str = "application/json";
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
    let asked = version(&headers, &uri);
    let version = asked.as_ref().map_or(Version::V10, |version| *version);
    let engine = Engine::new(app.clone(), caller).called(called);
    let done = match asked {
        Ok(_) => dispatch(&app, &engine, version, &method, &uri, &headers, body).await,
        Err(fault) => Err(fault),
    };
    let written = match done {
        Ok(Done::Stream(events)) => {
            let data = move |told: Result<&_, &Fault>| {
                let told = told.map_err(Clone::clone);
                let told = told.and_then(|told| event_json(told, version, Form::Rest));
                told.unwrap_or_else(|fault| fault_json(&fault, version).1)
            };
            return streamed(events, move |event| event_text(event, data), "text/event-stream");
        }
        Ok(Done::Reply(reply)) => reply_json(&reply, version, Form::Rest),
        Err(fault) => Err(fault),
    };
    match written {
        Ok(value) => answer(200, &value, media(version)),
        Err(fault) if fault.kind == Kind::Method => no_such_path(&fault, version, &method, &uri),
        Err(fault) => failed(&fault, version),
    }
}

/// Returns 404, or 405 with the methods that the path accepts.
fn no_such_path(fault: &Fault, version: Version, method: &Method, uri: &Uri) -> Response {
    let below = uri.path().strip_prefix(PREFIX).unwrap_or_default();
    let mut verbs = rest::verbs(below);
    verbs.extend(v03::rest::verbs(below).into_iter().filter(|verb| !rest::verbs(below).contains(verb)));
    // If the other version accepts this method here, the requested version is wrong, not the
    // method.
    if verbs.is_empty() || verbs.contains(&method.as_str()) {
        return failed(fault, version);
    }
    let status = StatusCode::METHOD_NOT_ALLOWED.as_u16();
    let (_, mut value) = fault_json(fault, version);
    if version == Version::V10 {
        value["error"]["code"] = status.into();
    }
    let mut response = with_fault(answer(status, &value, media(version)), fault);
    if let Ok(verbs) = HeaderValue::from_str(&verbs.join(",")) {
        response.headers_mut().insert(header::ALLOW, verbs);
    }
    response
}

fn media(version: Version) -> &'static str {
    match version {
        Version::V10 => A2A_JSON,
        Version::V03 => JSON,
    }
}

fn fault_json(fault: &Fault, version: Version) -> (u16, serde_json::Value) {
    match version {
        Version::V10 => (fault.kind.codes().http, fault.http()),
        Version::V03 => (v03::rest::status(fault.kind), v03::rest::fault(fault)),
    }
}

pub(in crate::doors) fn failed(fault: &Fault, version: Version) -> Response {
    let (status, value) = fault_json(fault, version);
    with_fault(answer(status, &value, media(version)), fault)
}

async fn dispatch(
    app: &Shared,
    engine: &Engine,
    version: Version,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    body: Body,
) -> Result<Done, Fault> {
    let below = uri.path().strip_prefix(PREFIX).unwrap_or_default();
    let path = match version {
        Version::V10 => Path::read(method, below)?,
        Version::V03 => v03::rest::read_path(method, below)?,
    };
    let Upload { bytes, room } = match path.has_body() {
        true => {
            check_media(headers)?;
            body_of(app, body, Spoken::Rest(version).encoding()).await?
        }
        false => Upload { bytes: bytes::Bytes::new(), room: Room::default() },
    };
    let query = uri.query().unwrap_or_default();
    let request = match version {
        Version::V10 => rest::request(path, query, &bytes)?,
        Version::V03 => v03::rest::request(path, query, &bytes)?,
    };
    drop(bytes);
    perform(engine, version, request, last_mark(headers), room).await
}

/// Rejects a body whose media type is not JSON (H1).
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
